"""R-Drop: two forward passes with different dropout should have equal outputs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lamina.data.batches import Batch
from lamina.model import Model
from lamina.objectives import RDropOptions, TermsOptions
from lamina.objectives.divergence import divergence
from lamina.objectives.loss import Loss
from lamina.objectives.rdrop import RDrop
from tests.objectives.small import EACH_HEAD, HEADS, batch_of, model_of, objective_of


def loss_with(name: str, weight: float) -> Loss:
    """Return the task's objective with R-Drop, as a recipe builds them."""
    objective = objective_of(name)
    return Loss([objective, *TermsOptions(rdrop=RDropOptions(weight=weight)).build("main", HEADS[name][1], objective)])


def total(loss: Loss, model: Model, batch: Batch, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    return loss(model, batch, model(batch), loss.counts([batch]))


def gradients(loss: Tensor, model: Model) -> list[Tensor]:
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return [gradient for gradient in found if gradient is not None]


@EACH_HEAD
def test_value_and_gradient_equal_the_formula(name: str) -> None:
    """The gradient flows through both passes."""
    model, batch, objective = model_of(name, dropout=0.3), batch_of(name), objective_of(name)
    counts = objective.counts(batch)
    torch.manual_seed(0)
    first, second = model(batch), model(batch)
    apart = divergence(first, second).mean()
    assert apart > 1e-4
    both = objective(model, batch, first, counts) + objective(model, batch, second, counts)
    wanted = both / 2 + 0.7 * apart / 2
    found = total(loss_with(name, 0.7), model, batch)
    torch.testing.assert_close(found, wanted)
    ours, theirs = gradients(found, model), gradients(wanted, model)
    assert len(ours) == len(theirs) > 20
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


@EACH_HEAD
def test_without_dropout_the_loss_is_the_objective(name: str) -> None:
    model, batch, objective = model_of(name).eval(), batch_of(name), objective_of(name)
    plain = total(Loss([objective]), model, batch)
    doubled = total(loss_with(name, 3.0), model, batch)
    assert torch.equal(doubled, plain)
    for one, other in zip(gradients(doubled, model), gradients(plain, model), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_the_second_objective_counts_for_every_weight() -> None:
    model, batch = model_of("span", dropout=0.3), batch_of("span")
    plain = total(Loss([objective_of("span")]), model, batch)
    assert not torch.equal(total(loss_with("span", 1e-6), model, batch), plain)


@EACH_HEAD
def test_micro_batches_add_up(name: str) -> None:
    """A micro-batch that is a quarter of a step adds a quarter of its own loss."""
    model, batch, objective = model_of(name, dropout=0.3), batch_of(name), objective_of(name)
    term = RDrop("main", objective, 2.0)
    items = len(batch.ids) // batch.sides
    assert term.counts(batch) == {"rdrop.items": float(items)}
    totals = {key: 4 * count for key, count in (objective.counts(batch) | term.counts(batch)).items()}
    torch.manual_seed(0)
    outputs = model(batch)
    state = torch.get_rng_state()
    whole = term(model, batch, outputs, objective.counts(batch) | term.counts(batch))
    torch.set_rng_state(state)
    quarter = term(model, batch, outputs, totals)
    torch.testing.assert_close(quarter, whole / 4)


def test_stored_states_are_read() -> None:
    model, batch = model_of("span", dropout=0.3), batch_of("span")
    with torch.no_grad():
        stack = model.eval().encoder(model.encoder.embed(batch.ids, batch.type_ids), batch.mask, keep=(1,))
    stored = replace(batch, states=stack)
    model.train()
    found = total(loss_with("span", 1.0), model, stored)
    torch.manual_seed(0)
    first, second = model(stored), model(stored)
    apart = divergence(first, second).mean()
    objective = objective_of("span")
    sides = [objective(model, stored, one, objective.counts(stored)) for one in (first, second)]
    assert apart > 1e-5
    assert found.item() == pytest.approx((sides[0] + sides[1] + apart).item() / 2, rel=1e-5)
