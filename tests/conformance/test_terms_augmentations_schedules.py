"""Tests of what every term, augmentation and schedule promises, for every entry of the registries.

Registering one tests it. `tests/conformance/test_techniques.py` does the same for mixers, heads and objectives.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from lamina.augment.per_epoch import AugmentOptions
from lamina.config.parse import parse_recipe, read_recipe
from lamina.config.recipe import Recipe
from lamina.config.train_options import TrainOptions
from lamina.data.batches import Batch
from lamina.data.examples import Example
from lamina.data.squad import to_squad
from lamina.model import Model
from lamina.objectives import Extra, Remembers, Term, TermsOptions
from lamina.objectives.loss import Loss
from lamina.objectives.smart import trained_by
from lamina.objectives.teacher import taught_values
from lamina.tasks.spans import SPANS
from lamina.training import schedules, trainer
from lamina.training.schedules import share_of_peak
from lamina.utils.run_folder import Run
from tests import tiny
from tests.objectives.small import HEADS, batch_of, model_of, objective_of
from tests.project.pages import assert_documented, technique

# ---- terms

TERMS = {name: get_args(field.annotation)[0] for name, field in TermsOptions.model_fields.items()}
EACH_TERM = pytest.mark.parametrize("name", TERMS)
REQUIRED: dict[str, dict[str, Any]] = {"teacher": {"runs": ["a run"]}}  # fields without a default


def head_of(name: str) -> str:
    heads: tuple[str, ...] = TERMS[name].heads
    return heads[0] if heads else "span"


def model_for(name: str) -> Model:
    """Return a model with dropout, which R-Drop needs."""
    return model_of(head_of(name), dropout=0.3)


def terms_of(name: str, **options: Any) -> list[Term]:
    """Return the terms of a task with this term, as a recipe builds them."""
    head = head_of(name)
    return options_of(name, **options).build("main", HEADS[head][1], objective_of(head))


def options_of(name: str, **options: Any) -> TermsOptions:
    return TermsOptions.model_validate({name: REQUIRED.get(name, {}) | options})


def batch_for(name: str) -> Batch:
    """Return a batch with the outputs of a teacher, as the batches of a run with one have them."""
    batch, other = batch_of(head_of(name)), model_of(head_of(name), std=0.4).eval()
    with torch.no_grad():
        return replace(batch, taught=taught_values(other(batch)).unsqueeze(0))


def ready(name: str, model: Model) -> Term:
    """Return the term with its defaults and with its memory filled, as after the first steps."""
    (term,) = terms_of(name)
    if isinstance(term, Remembers):
        term.rehearse(model)
    return term


def value_of(term: Term, name: str, model: Model) -> Tensor:
    """Return the value of the term alone for a step of one batch. The totals include the objective's, as in a loss."""
    batch = batch_for(name)
    totals = Loss([objective_of(head_of(name)), term]).counts([batch])
    torch.manual_seed(0)
    return term(model, batch, model(batch), totals)


def reached(loss: Tensor, model: Model) -> dict[str, Tensor]:
    """Return the gradients of the parameters that a loss depends on."""
    named = dict(model.named_parameters())
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {name: gradient for name, gradient in zip(named, found, strict=True) if gradient is not None}


def move(model: Model) -> None:
    """Change all parameters of a model a little, like a step."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))


@EACH_TERM
def test_a_term_is_built_from_its_defaults_and_counts_under_its_own_name(name: str) -> None:
    (term,) = terms_of(name)
    assert term.name == name
    batch = batch_of(head_of(name))
    counts = term.counts(batch)
    assert counts and all(key.startswith(f"{name}.") and count > 0 for key, count in counts.items())
    if f"{name}.items" in counts:
        assert counts[f"{name}.items"] == len(batch.ids) // batch.sides


@EACH_TERM
def test_a_term_is_finite_and_its_gradients_reach_what_the_objective_trains(name: str) -> None:
    model = model_for(name)
    value = value_of(ready(name, model), name, model)
    assert torch.isfinite(value) and value != 0
    gradients = reached(value, model)
    assert all(torch.isfinite(gradient).all() for gradient in gradients.values())
    batch, objective = batch_of(head_of(name)), objective_of(head_of(name))
    wanted = reached(objective(model, batch, model(batch), objective.counts(batch)), model)
    logit = {key for key in wanted if ".turn." in key}  # the logit of a cosine, which terms do not read
    assert set(wanted) - logit <= set(gradients)
    assert sum(bool(gradient.any()) for gradient in gradients.values()) > 20


@EACH_TERM
def test_a_weight_of_0_equals_no_term(name: str) -> None:
    head = head_of(name)
    model, batch, objective = model_for(name), batch_for(name), objective_of(head)

    def total(terms: Sequence[Term]) -> Tensor:
        loss = Loss([objective, *terms])
        torch.manual_seed(0)
        return loss(model, batch, model(batch), loss.counts([batch]))

    assert terms_of(name, weight=0) == [], "it takes no time and draws no random numbers"
    with_none, without = total(terms_of(name, weight=0)), total([])
    assert torch.equal(with_none, without)
    found, wanted = reached(with_none, model), reached(without, model)
    assert found.keys() == wanted.keys() and all(torch.equal(found[key], wanted[key]) for key in wanted)
    assert not torch.equal(total([ready(name, model)]), without)
    assert options_of(name, weight=0).extra == Extra()


@EACH_TERM
def test_a_term_declares_its_costs(name: str) -> None:
    """Costs are forwards of the encoder with and without gradients, and copies of the trained parameters."""
    model = model_for(name)
    term, batch = ready(name, model), batch_for(name)
    totals = Loss([objective_of(head_of(name)), term]).counts([batch])
    outputs = model(batch)
    runs: list[bool] = []
    model.encoder.register_forward_hook(lambda *_: runs.append(torch.is_grad_enabled()))
    term(model, batch, outputs, totals)
    stored = sum(value.numel() for value in term.state_dict().values() if value.ndim) if isinstance(term, Remembers) else 0
    trained = sum(value.numel() for value in trained_by(model, "main").values())
    found = Extra(forwards=runs.count(False), passes=runs.count(True), copies=round(stored / trained))
    assert found == options_of(name).extra
    assert found.copies * trained == pytest.approx(stored, rel=1e-3)


@EACH_TERM
def test_the_memory_of_a_term_is_saved_and_loaded(name: str, tmp_path: Path) -> None:
    model = model_for(name)
    term = ready(name, model)
    value_of(term, name, model)
    move(model)
    wanted = value_of(term, name, model)
    (other,) = terms_of(name)
    if isinstance(term, Remembers):
        assert isinstance(other, Remembers)
        term.before_step(model)
        move(model)
        term.after_step(model)
        wanted = value_of(term, name, model)
        assert not torch.equal(value_of(terms_of(name)[0], name, model), wanted), "the value depends on the memory"
        torch.save(term.state_dict(), tmp_path / "memory.pt")
        other.load_state_dict(torch.load(tmp_path / "memory.pt", weights_only=True))
    assert torch.equal(value_of(other, name, model), wanted)


@EACH_TERM
def test_a_term_has_a_section_in_the_documentation(name: str) -> None:
    assert_documented("losses", f"terms.{name}")


# ---- runs of augmentations and schedules


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, examples in (("train", tiny.corpus(8)), ("dev", tiny.corpus(9)[40:])):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(examples)))
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    return folder


def recipe_in(folder: Path, *settings: str) -> Recipe:
    return read_recipe(folder / "small.toml", ("train.epochs=2", "train.evaluate_every=2", "train.keep=last", *settings))


@pytest.fixture(scope="module")
def plain(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trainer.train(recipe_in(folder), tmp_path_factory.mktemp("plain") / "run")


# ---- augmentations

AUGMENTATIONS = tuple(AugmentOptions.model_fields)
EACH_AUGMENTATION = pytest.mark.parametrize("name", AUGMENTATIONS)

# Options with which an augmentation changes nothing. One question in five of the tiny corpus is unanswerable.
NOTHING: dict[str, dict[str, Any]] = {"eda": {"alpha": 0.0}, "unanswerable": {"share": 0.2}}
DIGEST = """
import json, sys
from types import SimpleNamespace
from lamina.augment.per_epoch import AugmentOptions
from lamina.data.squad import read
from lamina.tasks.spans import SPANS
task = SimpleNamespace(augment=AugmentOptions.model_validate(json.loads(sys.argv[2])))
print(repr(list(SPANS.epoch(read(sys.argv[1]), task, SimpleNamespace(seed=3, epochs=2), 1).examples)))
"""


def epoch_of(name: str, options: dict[str, Any], number: int = 1) -> list[Example]:
    """Return the examples of an epoch of the tiny corpus with one augmentation."""
    recipe = parse_recipe({"data": {"train": "unused"}, "augment": {name: options}, "train": {"seed": 3, "epochs": 2}})
    return list(SPANS.epoch(tiny.corpus(8), recipe.main, recipe.train, number).examples)


@EACH_AUGMENTATION
@pytest.mark.filterwarnings("ignore:augment.unanswerable.*None was added")
def test_an_augmentation_of_no_strength_changes_nothing(name: str) -> None:
    assert epoch_of(name, NOTHING[name]) == tiny.corpus(8)


@EACH_AUGMENTATION
def test_an_augmentation_keeps_answers_and_ids(name: str) -> None:
    examples = epoch_of(name, {})
    assert examples != tiny.corpus(8)
    assert len({example.id for example in examples}) == len(examples) >= 40
    answers = [(example, answer) for example in examples for answer in example.answers]
    assert len(answers) == 32
    assert all(example.context[answer.start :].startswith(answer.text) for example, answer in answers)


@EACH_AUGMENTATION
def test_an_augmentation_is_the_same_in_another_process(name: str, folder: Path) -> None:
    """The order of a set of words differs between processes."""
    printed = {
        subprocess.run(
            [sys.executable, "-c", DIGEST, folder / "train.json", json.dumps({name: {}})],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert printed == {f"{epoch_of(name, {})!r}\n"}


@EACH_AUGMENTATION
def test_an_augmentation_trains(name: str, folder: Path, plain: Run, tmp_path: Path) -> None:
    run = trainer.train(recipe_in(folder, f"augment.{name}={{}}"), tmp_path / "run")
    assert run.finished and run.model.read_bytes() != plain.model.read_bytes()
    assert list(json.loads(run.predictions.read_text())) == [example.id for example in tiny.corpus(9)[40:]]


@EACH_AUGMENTATION
def test_an_augmentation_has_a_section_in_the_documentation(name: str) -> None:
    assert_documented("augmentation", f"augment.{name}")


# ---- schedules

SCHEDULES = get_args(TrainOptions.model_fields["schedule"].annotation)
EACH_SCHEDULE = pytest.mark.parametrize("name", SCHEDULES)

# The share of the highest rate at the end of four epochs.
ENDS = {"linear": 0.0, "cosine": 0.0, "cosine_restarts": 0.0, "exponential": 0.96**3, "constant": 1.0}


@EACH_SCHEDULE
def test_a_schedule_starts_and_ends_as_defined(name: Any) -> None:
    options = TrainOptions(schedule=name, warmup=0.125)
    assert [share_of_peak(options, progress, 4) for progress in (0.0, 0.0625, 0.125)] == [0.0, 0.5, 1.0]
    assert share_of_peak(options, 1.0, 4) == pytest.approx(ENDS[name])
    assert all(0 <= share_of_peak(options, step / 200, 4) <= 1 for step in range(201))


@EACH_SCHEDULE
def test_a_schedule_trains_and_its_rates_are_recorded(name: str, folder: Path, tmp_path: Path) -> None:
    recipe = recipe_in(folder, f"train.schedule={name}", "train.decay=0.5")
    run = trainer.train(recipe, tmp_path / "run")
    rates = [entry["lr"] for entry in map(json.loads, run.metrics.read_text().splitlines()) if "lr" in entry]
    assert len(rates) > 5
    shares = [share_of_peak(recipe.train, (step + 0.5) / len(rates), 2) for step in range(len(rates))]
    assert rates == pytest.approx([1e-3 * share for share in shares])


@EACH_SCHEDULE
def test_a_schedule_has_a_row_in_the_documentation(name: str) -> None:
    rows = technique("schedules", "train.schedule").splitlines()
    assert any(row.startswith(f'| `train.schedule = "{name}"`') for row in rows), f"no row for the schedule {name}"


def test_the_schedules_of_the_maths_and_the_recipe_have_the_same_names() -> None:
    assert get_args(schedules.Schedule) == SCHEDULES
