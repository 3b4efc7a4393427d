"""Distillation from finished models: the maths of the term, for one teacher and for an ensemble."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lamina.config.build import build_losses
from lamina.config.parse import parse_recipe
from lamina.data.batches import Batch
from lamina.errors import LaminaError
from lamina.heads.outputs import ClassOutputs, PairOutputs, SpanOutputs
from lamina.model import Model
from lamina.objectives import TeacherOptions, TermsOptions
from lamina.objectives.loss import Loss
from lamina.objectives.teacher import Taught, soft_kl, squared_error, taught_values
from tests.objectives.small import EACH_HEAD, HEADS, batch_of, model_of, objective_of


def term_of(name: str, **options: Any) -> Taught:
    """Return the term as a recipe builds it."""
    chosen = TermsOptions(teacher=TeacherOptions(runs=("run",), **options))
    (term,) = chosen.build("main", HEADS[name][1], objective_of(name))
    assert isinstance(term, Taught)
    return term


def taught_batch(name: str, teachers: int = 1) -> Batch:
    """Return a batch with random outputs of some teachers."""
    batch, model = batch_of(name), model_of(name)
    with torch.no_grad():
        values = taught_values(model.eval()(batch))
    torch.manual_seed(1)
    return replace(batch, taught=torch.stack([values + torch.randn_like(values) for _ in range(teachers)]))


def value_of(term: Taught, model: Model, batch: Batch) -> Tensor:
    return term(model, batch, model.eval()(batch), term.counts(batch))


def probabilities(logits: list[float], temperature: float) -> list[float]:
    exponents = [math.exp(logit / temperature) for logit in logits]
    return [one / sum(exponents) for one in exponents]


def naive(rows: list[list[float]], own: list[float], loss: str, temperature: float) -> float:
    """Return the distance of one item, with lists and without the library's functions."""
    if loss == "mse":
        means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        return float(sum((mean - value) ** 2 for mean, value in zip(means, own, strict=True)) / len(own))
    each = [probabilities(row, temperature) for row in rows]
    p = [sum(column) / len(each) for column in zip(*each, strict=True)]
    q = probabilities(own, temperature)
    return float(temperature**2 * sum(a * (math.log(a) - math.log(b)) for a, b in zip(p, q, strict=True)))


def naive_mean(name: str, model: Model, batch: Batch, loss: str, temperature: float) -> float:
    """Return the mean of `naive` over the items of a batch."""
    outputs, taught = model.eval()(batch), batch.taught
    assert taught is not None
    found = []
    for item in range(len(batch.ids) // batch.sides):
        if isinstance(outputs, SpanOutputs):
            allowed = outputs.allowed[item]
            sides = ((0, outputs.start), (1, outputs.end))
            each = [
                naive(taught[:, item, allowed, side].tolist(), own[item, allowed].tolist(), loss, temperature)
                for side, own in sides
            ]
            found.append(sum(each) / 2)
        elif isinstance(outputs, ClassOutputs):
            found.append(naive(taught[:, item].tolist(), outputs.logits[item].tolist(), loss, temperature))
        else:
            own = outputs.cosine if isinstance(outputs, PairOutputs) else outputs.scores
            found.append((taught[:, item, 0].mean().item() - own[item].item()) ** 2)
    return sum(found) / len(found)


@EACH_HEAD
@pytest.mark.parametrize("teachers", [1, 3])
@pytest.mark.parametrize("options", [{"temperature": 1.0}, {"temperature": 3.0}, {"loss": "mse"}])
def test_value_equals_the_formula(name: str, teachers: int, options: dict[str, Any]) -> None:
    model, batch = model_of(name), taught_batch(name, teachers)
    found = value_of(term_of(name, weight=0.5, **options), model, batch).item()
    wanted = naive_mean(name, model, batch, options.get("loss", "kl"), options.get("temperature", 2.0))
    assert wanted > 0.01
    assert found == pytest.approx(0.5 * wanted, rel=1e-4)


@EACH_HEAD
@pytest.mark.parametrize("loss", ["kl", "mse"])
def test_a_teacher_equal_to_the_student_gives_zero_and_no_gradient(name: str, loss: str) -> None:
    model, batch = model_of(name).eval(), batch_of(name)
    with torch.no_grad():
        values = taught_values(model(batch))
    batch = replace(batch, taught=torch.stack([values, values]))
    value = value_of(term_of(name, loss=loss), model, batch)
    assert value.item() == pytest.approx(0, abs=1e-6)
    gradients = torch.autograd.grad(value, list(model.parameters()), allow_unused=True)
    assert max(gradient.abs().max().item() for gradient in gradients if gradient is not None) < 1e-5


@given(
    logits=st.lists(st.lists(st.floats(-30, 30, width=32), min_size=4, max_size=4), min_size=2, max_size=4),
    temperature=st.floats(0.5, 8, width=32),
)
def test_the_divergence_is_zero_or_more_and_masked_logits_do_not_count(logits: list[list[float]], temperature: float) -> None:
    *teachers, own = (torch.tensor([row]) for row in logits)
    taught, allowed = torch.stack(teachers), torch.tensor([[True, False, True, True]])
    found = soft_kl(taught, own, allowed, temperature=temperature)
    assert found.item() > -1e-3
    kept = [0, 2, 3]
    torch.testing.assert_close(found, soft_kl(taught[..., kept], own[:, kept], temperature=temperature), atol=1e-3, rtol=1e-3)
    error = squared_error(taught, own, allowed)
    torch.testing.assert_close(error, squared_error(taught[..., kept], own[:, kept]))


def test_an_ensemble_has_the_mean_of_probabilities_with_kl_and_the_mean_of_logits_with_mse() -> None:
    """Two teachers are sure of different classes. The mean of their probabilities is even, that of their logits too."""
    taught = torch.tensor([[[9.0, 0.0, 3.0]], [[0.0, 9.0, 3.0]]])  # [2, 1, 3]
    of_probabilities = taught.softmax(-1).mean(0).log()
    assert soft_kl(taught, of_probabilities).item() == pytest.approx(0, abs=1e-6)
    assert soft_kl(taught, taught.mean(0)).item() > 0.05
    assert squared_error(taught, taught.mean(0)).item() == 0
    assert squared_error(taught, of_probabilities).item() > 0.05


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_descent_on_the_divergence_finds_the_mean_of_the_probabilities(temperature: float) -> None:
    torch.manual_seed(0)
    taught, own = 3 * torch.randn(3, 4, 5), torch.zeros(4, 5, requires_grad=True)
    optimizer = torch.optim.Adam([own], lr=0.1)
    for _ in range(400):
        optimizer.zero_grad()
        soft_kl(taught, own, temperature=temperature).sum().backward()
        optimizer.step()
    wanted = (taught / temperature).softmax(-1).mean(0)
    torch.testing.assert_close((own.detach() / temperature).softmax(-1), wanted, atol=1e-3, rtol=0)


@EACH_HEAD
def test_micro_batches_add_up(name: str) -> None:
    model, batch, term = model_of(name), taught_batch(name), term_of(name)
    totals = {key: 4 * count for key, count in term.counts(batch).items()}
    quarter = term(model, batch, model.eval()(batch), totals)
    torch.testing.assert_close(quarter, value_of(term, model, batch) / 4)


def test_a_batch_without_outputs_of_teachers_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="no outputs of teachers"):
        value_of(term_of("span"), model_of("span"), batch_of("span"))


# ---- the factor of the objective


def losses_of(**terms: Any) -> Loss:
    return build_losses(parse_recipe({"data": {"train": "unused"}, "terms": terms}))["main"]


@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0])
def test_the_objective_has_its_factor_in_the_loss_but_not_in_evaluations(factor: float) -> None:
    model, batch = model_of("span").eval(), taught_batch("span")
    loss = losses_of(teacher={"runs": "run", "objective": factor, "weight": 2.0})
    outputs, counts = model(batch), loss.counts([batch])
    plain = objective_of("span")(model, batch, outputs, counts)
    objective, term = loss.parts(model, batch, outputs, counts)
    torch.testing.assert_close(objective, factor * plain)
    torch.testing.assert_close(term, 2 * value_of(term_of("span"), model, batch))
    assert torch.equal(loss.objective(model, batch, outputs, counts), plain)


def test_both_passes_of_rdrop_have_the_factor_of_the_objective() -> None:
    model, batch = model_of("span", dropout=0.3), taught_batch("span")
    none = {"weight": 1e-9}

    def value(**terms: Any) -> Tensor:
        loss = losses_of(**terms)
        torch.manual_seed(0)
        return loss(model, batch, model.train()(batch), loss.counts([batch]))

    half = value(rdrop=none, teacher={"runs": "run", "objective": 0.5, **none})
    torch.testing.assert_close(half, value(rdrop=none) / 2)


# ---- options


def test_one_run_may_be_named_without_a_list() -> None:
    assert TeacherOptions.model_validate({"runs": "runs/a"}).runs == ("runs/a",)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["terms.teacher.weight=1"], "terms.teacher.runs: is missing. Fix: "),
        (["terms.teacher.runs=[]"], "terms.teacher.runs: names no run. Fix: "),
        (['terms.teacher.runs=["a", "b", "a"]'], "terms.teacher.runs: names a twice. Fix: "),
        (["terms.teacher.runs=a", "terms.teacher.loss=mse", "terms.teacher.temperature=4"], "temperature has no effect"),
        (["terms.teacher.runs=a", "augment.eda={}"], "but augment.eda changes the texts in every epoch. Fix: "),
        (
            ["terms.teacher.runs=a", "augment.unanswerable={}"],
            "but augment.unanswerable changes the texts in every epoch. Fix: set augment.unanswerable.per_epoch = false",
        ),
        (["terms.distil.teacher=runs/x"], "terms.distil.teacher: .*sda, sdv and ema.* Fix: .*terms.teacher.runs"),
        (['terms.distil.teacher=["runs/x", "runs/y"]'], "terms.distil.teacher: .* Fix: .*terms.teacher.runs"),
    ],
)
def test_mistakes_in_the_options_name_the_fix(settings: list[str], message: str) -> None:
    with pytest.raises(LaminaError, match=message):
        parse_recipe({"data": {"train": "unused"}}, settings)


def test_what_would_be_refused_passes_without_the_term_or_with_the_fix() -> None:
    for settings in (
        ["terms.teacher.runs=a", "terms.teacher.weight=0", "augment.eda={}"],
        ["terms.teacher.runs=a", "augment.unanswerable.per_epoch=false"],
    ):
        parse_recipe({"data": {"train": "unused"}}, settings)
