"""Load a trained model from a run folder or a checkpoint, with its recipe, tokenizer and decisions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import torch

from lamina.answers.decisions import read_decision
from lamina.config.build import build_model
from lamina.config.parse import parse_recipe
from lamina.config.train_options import choose_device, choose_precision
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions
from lamina.encoder import load as encoders
from lamina.encoder.blocks import Encoder
from lamina.encoder.files import read_tensors
from lamina.encoder.hub import download, line
from lamina.encoder.load import load_tokenizer
from lamina.errors import LaminaError, first_line
from lamina.heads import SpanHead
from lamina.model import Model
from lamina.model.inference import TorchEngine
from lamina.model.weights import load_weights
from lamina.runs.exported_settings import read_settings
from lamina.runtime.ready import ReadyModel
from lamina.tasks.registry import kind_of
from lamina.utils.files import exists, expanded, is_file
from lamina.utils.run_folder import Run
from lamina.utils.shipped import model_folder


@dataclass(frozen=True, kw_only=True)
class Trained(ReadyModel):
    """A trained model as a torch module in eval mode."""

    model: Model

    @property
    def engine(self) -> TorchEngine:
        """What runs the model."""
        return TorchEngine(self.model)

    @property
    def shape(self) -> str:
        """The family and the size of the encoder, as text."""
        config = self.model.encoder.config
        return f"{config.family}, {config.layers} layers x {config.hidden}"


def as_torch(trained: ReadyModel) -> Trained:
    """Return a model as a torch module, loaded from its folder if another engine runs it, with its present decisions."""
    if isinstance(trained, Trained):
        return trained
    assert trained.run is not None
    if not trained.run.model.is_file():
        raise LaminaError(
            f"{trained.run.path}: holds graphs only, no model.safetensors, so torch cannot load it. "
            "Fix: name the run that it was exported from"
        )
    found = load_trained(trained.run.path, torch.device("cpu"))
    return replace(found, decisions=trained.decisions)


def load_for_reading(
    name: str | Path,
    device: str,
    threads: int | None,
    *,
    precision: Literal["float32", "bfloat16"],
    allow_pickle: bool,
    tokenizer: str | None,
    revision: str | None,
    token: str | bool | None,
) -> Trained:
    """Return a model on a device, in a number format. The arguments are those of `lamina.load`."""
    if threads:
        torch.set_num_threads(threads)
    place = choose_device(device)
    trained = load_trained(name, place, allow_pickle=allow_pickle, tokenizer=tokenizer, revision=revision, token=token)
    trained.model.precision = choose_precision(precision, place)
    return trained


def load_trained(
    name: str | Path,
    device: torch.device,
    *,
    allow_pickle: bool = False,
    tokenizer: str | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
) -> Trained:
    """Return a finished run, or a checkpoint with a trained span head. `name` is a folder or a hub id."""
    folder = model_folder(name)
    on_hub = not exists(folder) and encoders.HUB_ID.fullmatch(str(name)) is not None
    if on_hub:
        folder = download(str(name), pretrained=True, allow_pickle=allow_pickle, revision=revision, token=token)
    elif revision is not None:
        raise LaminaError(f"{name}: a folder has no revisions. Fix: leave revision out, or name a hub id owner/name")
    if is_file(Run(folder).recipe) or Run(folder).exists:
        if tokenizer not in (None, str(name)) and expanded(str(tokenizer)).resolve() != folder.resolve():
            raise LaminaError(f"{name}: a run has its own tokenizer. Fix: leave out {tokenizer!r}")
        with torch.random.fork_rng(devices=[]):  # building draws random weights, which is not the caller's business
            return _load_run(folder, device, allow_pickle=allow_pickle, token=token)
    if is_file(folder / "ensemble.json"):
        what = "is an ensemble, which holds answers but no model"
        raise LaminaError(f"{name}: {what}. Fix: name one of its runs, or average them with `lamina average`")
    if not is_file(folder / "config.json"):
        other = "" if on_hub else ", and no hub id owner/name"
        raise LaminaError(
            f"{name}: not a run folder (it has no run.json), not a checkpoint (it has no config.json){other}. "
            "Fix: name the folder that `lamina train` wrote, or a question-answering checkpoint"
        )
    # the resolved path, because a folder may have the name of a preset
    options = encoders.EncoderOptions(model=str(folder.resolve()), allow_pickle=allow_pickle, tokenizer=tokenizer)
    with torch.random.fork_rng(devices=[]):
        trained = _load_checkpoint(str(name), options, device)
    if on_hub:  # the recipe names the checkpoint as others can load it
        encoder = trained.recipe.encoder.model_copy(update={"model": str(name)})
        return replace(trained, recipe=trained.recipe.model_copy(update={"encoder": encoder}))
    return trained


def _load_run(path: Path, device: torch.device, *, allow_pickle: bool, token: str | bool | None) -> Trained:
    run = Run.open(path)
    run.check_files()
    recipe = parse_recipe(run.read_recipe(), name=str(run.recipe))
    base = encoders.base_of(run, allow_pickle=allow_pickle, token=token)
    with torch.device("meta" if base is None else device):
        encoder = Encoder(encoders.run_config(run)) if base is None else encoders.load(base, device=device)
        model = build_model(recipe, encoder)
    try:
        weights = dict(read_tensors((run.model,), device=device))
        if base is None:
            model.load_state_dict(weights, assign=True)
        else:
            load_weights(model, weights)
    except Exception as error:
        reason = first_line(error)
        raise LaminaError(f"{run.model}: the weights cannot be read ({reason}). Fix: copy or train the run again") from error
    info, where = run.read_info(), str(run.info)
    fitted = info.get("tasks")
    decisions = {name: read_decision(kind_of(task).decision, fitted, name, where) for name, task in recipe.tasks.items()}
    return Trained(
        recipe=recipe,
        model=model.eval(),
        tokenizer=Tokenizer(run.tokenizer),
        decisions=decisions,
        run=run,
        language=info.get("language"),
    )


def _load_checkpoint(name: str, options: encoders.EncoderOptions, device: torch.device) -> Trained:
    source = encoders.find(options)
    wanted = {f"qa_outputs.{kind}" for kind in ("weight", "bias")}
    if missing := wanted - set(encoders.heads(source)):
        raise LaminaError(
            f"{name}: has no trained question-answering head ({min(missing)} is missing). "
            f"Fix: train one with `lamina train RECIPE --set encoder.model={name}`"
        )
    length = min(WindowOptions().length, source.config.max_length)
    values: dict[str, Any] = {
        "data": {"train": ""},  # a checkpoint does not name its training data
        "encoder": options.model_dump(),
        "window": {"length": length, "query": min(64, length // 2)},
    }
    settings = read_settings(source.weights[0].parent)
    if settings is not None:
        values |= {"window": settings.window.model_dump(), "answer": settings.answer.model_dump()}
    recipe = parse_recipe(values, name=name)
    model = build_model(recipe, encoders.load(source, device=device)).to(device)
    head = model.task("main").head
    weights = {
        key.removeprefix("qa_outputs."): value.float() for key, value in read_tensors(source.weights, wanted, device=device)
    }
    try:
        cast(SpanHead, head).load_state_dict(weights)
    except RuntimeError as error:
        raise LaminaError(
            f"{name}: its qa_outputs do not give one start and one end for each token ({line(error)}). "
            "Fix: use a checkpoint of AutoModelForQuestionAnswering"
        ) from None
    decisions = {} if settings is None else {"main": settings.decision}
    language = None if settings is None else settings.language
    return Trained(recipe=recipe, model=model.eval(), tokenizer=load_tokenizer(source), decisions=decisions, language=language)
