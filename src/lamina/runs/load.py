"""Load a trained model from a run folder or a checkpoint, with its recipe, tokenizer and decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch

from lamina.answers.decisions import Decision, SpanDecision, read_decision
from lamina.config.build import build_model
from lamina.config.parse import parse_recipe
from lamina.config.recipe import Recipe
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions
from lamina.encoder import load as encoders
from lamina.encoder.blocks import Encoder
from lamina.encoder.files import read_tensors
from lamina.encoder.hub import download, line
from lamina.encoder.load import load_tokenizer
from lamina.errors import LaminaError
from lamina.heads import SpanHead
from lamina.model import Model
from lamina.model.weights import load_weights
from lamina.runs.exported_settings import read_settings
from lamina.tasks.registry import kind_of, tasks_of
from lamina.tasks.spans import SPANS
from lamina.utils.files import expanded
from lamina.utils.run_folder import Run
from lamina.utils.shipped import model_folder


@dataclass(frozen=True)
class Trained:
    """A trained model in eval mode, with its recipe, tokenizer and decisions."""

    recipe: Recipe
    model: Model
    tokenizer: Tokenizer
    decisions: Mapping[str, Decision] = field(default_factory=dict)  # by task; the default of its kind where there is none
    run: Run | None = None  # the folder that it was loaded from; None for a checkpoint of another library
    language: str | None = None  # of the texts that it was trained on, such as "en"; None if unknown

    def decision(self, task: str) -> Decision:
        """Return the decision of a task, which turns its outputs into predictions."""
        return self.decisions.get(task) or kind_of(self.recipe.tasks[task]).decision()

    def find_spans(self) -> str | None:
        """Return the name of the task that answers questions with spans, or None."""
        return next(iter(tasks_of(self.recipe, SPANS)), None)

    @property
    def span_task(self) -> str:
        """The name of the task that answers questions with spans. Raises LaminaError if there is none."""
        name = self.find_spans()
        if name is None:
            raise LaminaError(
                f"model: does not answer questions with spans; its heads: {self.heads}. Fix: use a model with a span head"
            )
        return name

    @property
    def span_decision(self) -> SpanDecision:
        return self.span_decision_of(self.span_task)

    def span_decision_of(self, task: str) -> SpanDecision:
        """Return the decision of a span task."""
        decision = self.decision(task)
        assert isinstance(decision, SpanDecision)
        return decision

    @property
    def heads(self) -> str:
        """The types of all heads, separated by commas."""
        return ", ".join(task.head.type for task in self.recipe.tasks.values())

    def settings(self, task: str) -> Any:
        """Return the settings that decode the outputs of a task."""
        options = self.recipe.tasks[task]
        return kind_of(options).settings(self.recipe, options, self.tokenizer)


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
    on_hub = not folder.exists() and encoders.HUB_ID.fullmatch(str(name)) is not None
    if on_hub:
        folder = download(str(name), pretrained=True, allow_pickle=allow_pickle, revision=revision, token=token)
    elif revision is not None:
        raise LaminaError(f"{name}: a folder has no revisions. Fix: leave revision out, or name a hub id owner/name")
    if Run(folder).recipe.is_file() or Run(folder).exists:
        if tokenizer not in (None, str(name)) and expanded(str(tokenizer)).resolve() != folder.resolve():
            raise LaminaError(f"{name}: a run has its own tokenizer. Fix: leave out {tokenizer!r}")
        with torch.random.fork_rng(devices=[]):  # building draws random weights, which is not the caller's business
            return _load_run(folder, device, allow_pickle=allow_pickle, token=token)
    if not (folder / "config.json").is_file():
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
        reason = str(error).splitlines()[0]
        raise LaminaError(f"{run.model}: the weights cannot be read ({reason}). Fix: copy or train the run again") from error
    info, where = run.read_info(), str(run.info)
    fitted = info.get("tasks")
    decisions = {name: read_decision(kind_of(task).decision, fitted, name, where) for name, task in recipe.tasks.items()}
    return Trained(recipe, model.eval(), Tokenizer(run.tokenizer), decisions, run, info.get("language"))


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
    return Trained(recipe, model.eval(), load_tokenizer(source), decisions, language=language)
