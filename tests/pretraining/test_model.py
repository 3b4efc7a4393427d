"""The heads: simple references, the tied decoder, the start near the identity, and equal logits in transformers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from lamina.encoder.blocks import Encoder
from lamina.encoder.load import EncoderOptions, Source, find, load
from lamina.encoder.presets import PRESETS
from lamina.errors import LaminaError
from lamina.pretraining.folder import PretrainingFolder, write_transformers_checkpoint
from lamina.pretraining.masking import MaskedBatch, MaskOptions, Replacements, make_masked_batch
from lamina.pretraining.model import PretrainedModel, check_nsp, load_head, loss_sums, start_as_wide, start_near_identity
from lamina.pretraining.sequences import ALONE, make_sequences
from tests.tiny import corpus, tokenizer

TEXTS = list(dict.fromkeys(example.context for example in corpus(4)))
TINY = replace(PRESETS["tiny"], dropout=0.0)

SIZES = {
    "vocab_size": 67,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 50,
}
CONFIGS = {
    "bert": transformers.BertConfig(**SIZES, hidden_act="relu"),
    "electra": transformers.ElectraConfig(**SIZES, embedding_size=16),
    "albert": transformers.AlbertConfig(**SIZES, embedding_size=16),
    "roberta": transformers.RobertaConfig(**SIZES, pad_token_id=1, type_vocab_size=1),
    "distilbert": transformers.DistilBertConfig(
        vocab_size=67, dim=24, n_layers=2, n_heads=4, hidden_dim=40, max_position_embeddings=50
    ),
}


def batch(*, nsp: bool = False) -> MaskedBatch:
    rows = make_sequences(TEXTS, [], tokenizer(), length=24, packed="join", nsp=nsp)
    return make_masked_batch(rows, np.arange(len(rows)), Replacements.of(tokenizer()), MaskOptions(), 0, 0)


def tiny(*, nsp: bool = False) -> PretrainedModel:
    torch.manual_seed(0)
    return PretrainedModel(Encoder(TINY), nsp=nsp).eval()


def losses(model: PretrainedModel, some: MaskedBatch, *, head_only: bool = False) -> tuple[Tensor, Tensor]:
    logits, pairs = model(some, head_only=head_only)
    return loss_sums(logits, pairs, some)


@pytest.mark.parametrize("nsp", [False, True])
def test_loss_equals_that_of_logits_at_all_positions(nsp: bool) -> None:
    model, some = tiny(nsp=nsp), batch(nsp=nsp)
    stack = model.encoder(model.encoder.embed(some.ids, some.type_ids), some.mask, pool=nsp)
    everywhere = F.linear(model.transform(stack.states[-1]), model.decoder, model.transform.bias)  # [R, T, V]
    labels = torch.full_like(some.ids, -100).flatten()
    labels[some.places] = some.targets
    mlm, pairs = losses(model, some)
    torch.testing.assert_close(mlm / len(some.targets), F.cross_entropy(everywhere.flatten(0, 1), labels))
    if nsp:
        assert model.next_sentence is not None
        expected = F.cross_entropy(model.next_sentence(stack.pooled), some.following, ignore_index=ALONE)
        known = int((some.following != ALONE).sum())
        assert known > 0
        torch.testing.assert_close(pairs / known, expected)
    else:
        assert pairs == 0


def test_decoder_is_the_embedding_table() -> None:
    model, some = tiny(), batch()
    assert model.decoder is model.encoder.embeddings.word.weight
    assert not any(tuple(p.shape) == tuple(model.decoder.shape) for p in model.transform.parameters())
    losses(model, some)[0].backward()
    grad = model.decoder.grad
    assert grad is not None
    unread = sorted(set(range(TINY.vocab)) - set(some.ids.flatten().tolist()))
    assert grad[unread].abs().max() > 0, "tokens outside the input are decoded too"


def test_head_only_gives_the_encoder_no_gradients() -> None:
    model, some = tiny(nsp=True), batch(nsp=True)
    mlm, nsp = losses(model, some, head_only=True)
    (mlm + nsp).backward()
    assert all(parameter.grad is None for parameter in model.encoder.parameters())
    assert all(p.grad is not None for name, p in model.named_parameters() if not name.startswith("encoder."))
    torch.testing.assert_close(mlm.detach(), losses(model, some)[0].detach())


def test_new_head_on_the_default_encoder_is_nearly_the_identity() -> None:
    source = find(EncoderOptions())
    model = PretrainedModel(load(source)).eval()
    assert not load_head(model, source)
    some = batch()
    start_near_identity(model, some)
    with torch.inference_mode():
        states = model.encoder(model.encoder.embed(some.ids, some.type_ids), some.mask).states[-1][some.mask]
        passed = model.transform(states)
    assert F.cosine_similarity(passed, states).min() > 0.99
    centred = [part - part.mean(-1, keepdim=True) for part in (passed, states)]
    assert F.cosine_similarity(*centred).min() > 0.9999, "only the mean and spread differ"
    assert (passed - states).norm() / states.norm() < 0.3


def test_new_head_inverts_the_projection() -> None:
    torch.manual_seed(0)
    model = PretrainedModel(Encoder(replace(PRESETS["electra-small"], layers=1, dropout=0.0))).eval()
    projection = model.encoder.embeddings.projection
    assert isinstance(projection, torch.nn.Linear)
    start_near_identity(model, batch())
    embedded = torch.randn(20, 128)
    with torch.inference_mode():
        found = model.transform(projection(embedded))
    assert F.cosine_similarity(found, embedded).min() > 0.98


def randomise(model: torch.nn.Module) -> None:
    """Set random weights: biases of 0 and norms of 1 would not show that two are exchanged."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0
            parameter.copy_(centre + 0.2 * torch.randn(parameter.shape, generator=generator))


def random_batch(model: PretrainedModel) -> MaskedBatch:
    config = model.encoder.config
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(config.pad_id + 1, config.vocab, (3, 11), generator=generator)
    types = torch.randint(0, max(config.types, 1), ids.shape, generator=generator)
    mask = torch.ones(3, 11, dtype=torch.bool)
    mask[1, 7:] = False
    places = torch.flatten(mask).nonzero()[:, 0]
    return MaskedBatch(ids, types, mask, places, ids.flatten()[places], torch.full((3,), ALONE))


def their_logits(model: Any, some: MaskedBatch) -> Any:
    types = {} if model.config.model_type == "distilbert" else {"token_type_ids": some.type_ids}
    with torch.inference_mode():
        return model(input_ids=some.ids, attention_mask=some.mask.long(), **types)


def source_of(folder: Path) -> Source:
    return find(EncoderOptions(model=str(folder), tokenizer="minilm"))


@pytest.mark.parametrize("family", CONFIGS)
def test_head_of_a_checkpoint_equals_transformers_before_and_after_writing(family: str, tmp_path: Path) -> None:
    theirs = transformers.AutoModelForMaskedLM.from_config(CONFIGS[family]).eval()
    randomise(theirs)
    theirs.save_pretrained(tmp_path / "theirs")
    source = source_of(tmp_path / "theirs")
    ours = PretrainedModel(load(source)).eval()
    assert load_head(ours, source)
    some = random_batch(ours)
    with torch.inference_mode():
        logits, _ = ours(some)
    expected = their_logits(theirs, some).logits.flatten(0, 1)[some.places]
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0.0)

    folder = PretrainingFolder(tmp_path / "ours")
    folder.path.mkdir()
    write_transformers_checkpoint(folder, ours, tokenizer())
    back, report = transformers.AutoModelForMaskedLM.from_pretrained(folder.path, output_loading_info=True)
    assert not report["missing_keys"]
    again = their_logits(back.eval(), some).logits.flatten(0, 1)[some.places]
    torch.testing.assert_close(again, logits, atol=1e-5, rtol=0.0)
    assert back.get_output_embeddings().weight is back.get_input_embeddings().weight


def test_both_heads_of_bert_are_read_and_written(tmp_path: Path) -> None:
    theirs = transformers.BertForPreTraining(CONFIGS["bert"]).eval()
    randomise(theirs)
    theirs.save_pretrained(tmp_path / "theirs")
    source = source_of(tmp_path / "theirs")
    ours = PretrainedModel(load(source), nsp=True).eval()
    assert load_head(ours, source)
    some = random_batch(ours)
    with torch.inference_mode():
        _, pairs = ours(some)
    expected = their_logits(theirs, some).seq_relationship_logits
    torch.testing.assert_close(pairs, expected, atol=1e-5, rtol=0.0)
    folder = PretrainingFolder(tmp_path / "ours")
    folder.path.mkdir()
    write_transformers_checkpoint(folder, ours, tokenizer())
    back = transformers.AutoModelForPreTraining.from_pretrained(folder.path).eval()
    torch.testing.assert_close(their_logits(back, some).seq_relationship_logits, expected, atol=1e-5, rtol=0.0)


def test_nsp_on_an_unfit_encoder_raises() -> None:
    check_nsp(TINY)
    with pytest.raises(LaminaError, match=r"^nsp: needs two token types and a pooler.*\(electra\) has 2 types and no pooler"):
        check_nsp(PRESETS["electra-small"])
    with pytest.raises(LaminaError, match=r"1 types and a pooler\. Fix: leave nsp out"):
        check_nsp(replace(TINY, types=1))


@pytest.mark.parametrize("hidden", [64, 768])
def test_random_weights_scale_with_the_width(hidden: int) -> None:
    config = replace(PRESETS["tiny"], hidden=hidden, embedding=hidden, intermediate=hidden, vocab=500)
    model = PretrainedModel(Encoder(config))
    start_as_wide(model)
    wanted = 0.02 * (768 / hidden) ** 0.5
    for weight in (model.decoder, model.encoder.layers[0].attention.query.weight, model.transform.dense.weight):
        assert float(weight.detach().std()) == pytest.approx(wanted, rel=0.05)
    assert not model.transform.bias.any() and bool((model.transform.norm.weight == 1).all())
