"""Our encoder equals transformers: every family, every layer, the pooled vector, with and without padding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from lamina.encoder.blocks import Encoder
from lamina.encoder.load import EncoderOptions, find, heads, load

FAMILIES = [
    "bert",
    "bert, relu, one head, one type",
    "electra, factorised",
    "electra, equal widths",
    "albert",
    "albert, equal widths",
    "roberta",
    "xlm-roberta",
    "distilbert",
    "distilbert, sinusoidal",
]
SHAPES = [(1, 1), (3, 7), (2, 48)]


def assert_close(ours: Tensor | None, expected: Tensor) -> None:
    """Compare with a tolerance. Float32 kernels round differently, in proportion to the largest values of a sum."""
    torch.testing.assert_close(ours, expected, atol=3e-6 * expected.abs().max().item(), rtol=0.0)


def reload(model: Any, folder: Path) -> Encoder:
    """Save transformers' model and load it as ours."""
    model.save_pretrained(folder)
    return load(find(EncoderOptions(model=str(folder), tokenizer="minilm")))


def random_rows(encoder: Encoder, rows: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return token ids without padding, type ids, and a mask with holes that always has the first token."""
    generator = torch.Generator().manual_seed(rows * 100 + length)
    config = encoder.config
    ids = torch.randint(config.pad_id + 1, config.vocab, (rows, length), generator=generator)
    type_ids = torch.randint(0, max(config.types, 1), (rows, length), generator=generator)
    mask = torch.rand(rows, length, generator=generator) > 0.4
    mask[:, 0] = True
    return ids, type_ids, mask


def run_theirs(model: Any, ids: Tensor, type_ids: Tensor, mask: Tensor) -> Any:
    types = {} if model.config.model_type == "distilbert" else {"token_type_ids": type_ids}
    return model(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True, **types)


def check(encoder: Encoder, model: Any, ids: Tensor, type_ids: Tensor, mask: Tensor) -> None:
    depth = encoder.config.layers
    with torch.inference_mode():
        expected = run_theirs(model, ids, type_ids, mask)
        stack = encoder(encoder.embed(ids, type_ids), mask, keep=range(depth + 1), pool=encoder.config.pooler)
    assert stack.layers == tuple(range(depth + 1))
    assert len(expected.hidden_states) == depth + 1
    for ours, hidden in zip(stack.states, expected.hidden_states, strict=True):
        assert_close(ours[mask], hidden[mask])
    pooled = getattr(expected, "pooler_output", None)
    assert (stack.pooled is None) == (pooled is None)
    if pooled is not None:
        assert_close(stack.pooled, pooled)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_layer_equals_transformers(name: str, theirs: Callable[..., Any], tmp_path: Path) -> None:
    model = theirs(name)
    encoder = reload(model, tmp_path)
    for rows, length in SHAPES:
        ids, type_ids, mask = random_rows(encoder, rows, length)
        check(encoder, model, ids, type_ids, torch.ones_like(mask))
        check(encoder, model, ids, type_ids, mask)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_padded_rows_equal_transformers(name: str, theirs: Callable[..., Any], tmp_path: Path) -> None:
    """RoBERTa's own positions skip padding tokens and ours do not; real tokens must have equal states."""
    model = theirs(name)
    encoder = reload(model, tmp_path)
    ids, type_ids, _ = random_rows(encoder, 3, 9)
    mask = torch.arange(9) < torch.tensor([[9], [4], [1]])
    check(encoder, model, ids.where(mask, encoder.config.pad_id), type_ids, mask)


@pytest.mark.parametrize("name", ["bert", "electra, factorised", "albert", "roberta", "xlm-roberta", "distilbert"])
def test_a_model_with_a_head(name: str, theirs: Callable[..., Any], tmp_path: Path) -> None:
    """...ForQuestionAnswering has a prefix on every name and no pooler; its head is listed, not loaded."""
    model = theirs(name, transformers.AutoModelForQuestionAnswering)
    encoder = reload(model, tmp_path)
    ids, type_ids, mask = random_rows(encoder, 2, 6)
    expected = run_theirs(model, ids, type_ids, mask).hidden_states[-1]
    ours = encoder(encoder.embed(ids, type_ids), mask).states[0]
    assert_close(ours[mask], expected[mask])
    assert not encoder.config.pooler
    source = find(EncoderOptions(model=str(tmp_path), tokenizer="minilm"))
    assert sorted(heads(source)) == ["qa_outputs.bias", "qa_outputs.weight"]


def test_gradients_equal_transformers(theirs: Callable[..., Any], tmp_path: Path) -> None:
    model = theirs("bert")
    encoder = reload(model, tmp_path)
    ids, type_ids, mask = random_rows(encoder, 2, 6)
    run_theirs(model, ids, type_ids, mask).last_hidden_state[mask].square().sum().backward()
    encoder(encoder.embed(ids, type_ids), mask).states[0][mask].square().sum().backward()
    names = {"embeddings.word.weight": "embeddings.word_embeddings.weight"}
    names |= {"embeddings.position.weight": "embeddings.position_embeddings.weight"}
    names |= {"blocks.1.attention.key.weight": "encoder.layer.1.attention.self.key.weight"}
    names |= {"blocks.0.up.bias": "encoder.layer.0.intermediate.dense.bias"}
    for ours, other in names.items():
        expected = model.get_parameter(other).grad
        torch.testing.assert_close(encoder.get_parameter(ours).grad, expected, atol=1e-4, rtol=1e-4)


def test_the_default_encoder_equals_transformers() -> None:
    source = find(EncoderOptions())
    encoder = load(source)
    model = transformers.AutoModel.from_pretrained(source.tokenizer.parent).eval()
    assert sum(weight.numel() for weight in encoder.parameters()) == 22_713_216
    ids, type_ids, mask = random_rows(encoder, 4, 60)
    check(encoder, model, ids, type_ids, mask)
