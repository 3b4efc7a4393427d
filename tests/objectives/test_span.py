"""The span loss, its weights and its variants."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional as F

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.heads.outputs import SpanOutputs
from lamina.model import Model
from lamina.objectives import SpanLoss, SpanLossOptions
from lamina.objectives.loss import Loss
from lamina.objectives.span import position_cross_entropy, span_cross_entropy

NO_MODEL = cast(Model, None)
ROWS, WIDTH = 7, 9
GOLD = torch.tensor([[3, 5], [0, 0], [4, 4], [2, 8], [0, 0], [1, 6], [0, 0]])  # four answerable windows, three not

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "start": {"start_weight": 2.0},
    "answer": {"answer_weight": 2.0},
    "batch": {"answer_weight": 2.0, "answer_by": "batch"},
    "both": {"start_weight": 2.0, "answer_weight": 2.0},
    "focal": {"focal": 2.0},
    "smoothed": {"label_smoothing": 0.1},
    "all": {"start_weight": 3.0, "answer_weight": 0.5, "focal": 1.5, "label_smoothing": 0.2},
}
EACH_VARIANT = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)


def batch_of(gold: Tensor = GOLD) -> Batch:
    ids = torch.zeros(len(gold), WIDTH, dtype=torch.int64)
    return Batch(ids, ids, ids == 0, ids == 0, gold, tuple(range(len(gold))))


def outputs_of(gold: Tensor = GOLD, *, scale: float = 2.0) -> SpanOutputs:
    torch.manual_seed(2)
    allowed = torch.rand(len(gold), WIDTH) < 0.6
    allowed[:, 0] = True
    allowed.scatter_(1, gold, True)
    start, end = (scale * torch.randn(len(gold), WIDTH, requires_grad=True) for _ in range(2))
    return SpanOutputs(start, end, allowed)


def rows(batch: Batch, outputs: SpanOutputs, chosen: slice) -> tuple[Batch, SpanOutputs]:
    return batch_of(batch.gold[chosen]), SpanOutputs(outputs.start[chosen], outputs.end[chosen], outputs.allowed[chosen])


def loss_of(term: SpanLoss, batch: Batch, outputs: SpanOutputs) -> Tensor:
    return term(NO_MODEL, batch, outputs, term.counts(batch))


# ---- compared with loops


def slow_position(logits: list[float], allowed: list[bool], gold: int, focal: float, smoothing: float) -> float:
    places = [place for place, here in enumerate(allowed) if here]
    total = sum(math.exp(logits[place]) for place in places)
    chance = {place: math.exp(logits[place]) / total for place in places}
    target = {place: smoothing / len(places) + (1 - smoothing) * (place == gold) for place in places}
    crossed = -sum(target[place] * math.log(chance[place]) for place in places)
    return float((1 - chance[gold]) ** focal * crossed)


def slow_windows(outputs: SpanOutputs, gold: Tensor, options: SpanLossOptions) -> list[float]:
    found = []
    for row, (first, last) in enumerate(gold.tolist()):
        allowed = outputs.allowed[row].tolist()
        start, end = (
            slow_position(logits[row].tolist(), allowed, place, options.focal, options.label_smoothing)
            for logits, place in ((outputs.start, first), (outputs.end, last))
        )
        found.append((options.start_weight * start + end) / (options.start_weight + 1))
    return found


def slow_mean(losses: list[float], gold: Tensor, weight: float) -> float:
    answered = [loss for loss, (_, last) in zip(losses, gold.tolist(), strict=True) if last]
    others = [loss for loss, (_, last) in zip(losses, gold.tolist(), strict=True) if not last]
    if weight == 1 or not answered or not others:
        return sum(losses) / len(losses)
    return (weight * sum(answered) / len(answered) + sum(others) / len(others)) / (weight + 1)


@EACH_VARIANT
def test_the_loss_equals_a_loop(variant: dict[str, Any]) -> None:
    options = SpanLossOptions(**variant)
    batch, outputs = batch_of(), outputs_of()
    wanted = slow_mean(slow_windows(outputs, GOLD, options), GOLD, options.answer_weight)
    assert loss_of(options.build(Labels()), batch, outputs).item() == pytest.approx(wanted, rel=1e-5)


def test_the_variants_differ() -> None:
    outputs = outputs_of()
    found = {name: loss_of(SpanLoss(**options), batch_of(), outputs).item() for name, options in VARIANTS.items()}
    assert found["batch"] == found["answer"], "in one piece"
    apart = [abs(found[one] - found[other]) for one, other in itertools.combinations(VARIANTS.keys() - {"batch"}, 2)]
    assert min(apart) > 1e-3


# ---- settings without effect


@pytest.mark.parametrize("answer_by", ["class", "batch"])
def test_weights_of_one_give_exactly_the_plain_loss(answer_by: Any) -> None:
    """A focal exponent of 0 and a smoothing of 0 give it too."""
    batch, outputs = batch_of(), outputs_of()
    floor = torch.finfo(torch.float32).min
    start, end = (logits.masked_fill(~outputs.allowed, floor) for logits in (outputs.start, outputs.end))
    plain = (F.cross_entropy(start, GOLD[:, 0], reduction="none") + F.cross_entropy(end, GOLD[:, 1], reduction="none")) / 2
    wanted = plain.sum() / ROWS
    term = SpanLossOptions(start_weight=1, answer_weight=1, answer_by=answer_by, focal=0, label_smoothing=0).build(Labels())
    found = loss_of(term, batch, outputs)
    assert torch.equal(found, wanted)
    for logits in (outputs.start, outputs.end):
        gradients = [torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in (found, wanted)]
        assert gradients[0].any()
        assert torch.equal(*gradients)


def test_an_answer_weight_equal_to_the_ratio_of_windows_gives_the_plain_loss() -> None:
    batch, outputs = batch_of(), outputs_of()
    weighed = loss_of(SpanLoss(answer_weight=4 / 3), batch, outputs)
    assert weighed.item() == pytest.approx(loss_of(SpanLoss(), batch, outputs).item(), rel=1e-6)


@pytest.mark.parametrize("answer_by", ["class", "batch"])
@pytest.mark.parametrize("answered", [True, False])
def test_windows_of_one_kind_have_the_plain_loss(answer_by: Any, answered: bool) -> None:
    gold = GOLD[(GOLD[:, 1] != 0) == answered]
    batch, outputs = batch_of(gold), outputs_of(gold)
    weighed = loss_of(SpanLoss(answer_weight=5.0, answer_by=answer_by), batch, outputs)
    assert torch.equal(weighed, loss_of(SpanLoss(), batch, outputs))


@EACH_VARIANT
def test_logits_of_positions_that_are_not_allowed_are_ignored(variant: dict[str, Any]) -> None:
    batch, outputs = batch_of(), outputs_of()
    wild = torch.where(outputs.allowed, outputs.start, torch.tensor(1e4)).detach().requires_grad_()
    found = loss_of(SpanLoss(**variant), batch, replace(outputs, start=wild))
    assert torch.equal(found, loss_of(SpanLoss(**variant), batch, outputs))
    (gradient,) = torch.autograd.grad(found, wild)
    assert not gradient[~outputs.allowed].any()
    assert gradient[outputs.allowed].all()


# ---- micro-batches


CUTS = [(7,), (2, 5), (1, 3, 3), (1,) * 7]  # some micro-batches hold one kind of window only


def pieces(sizes: tuple[int, ...]) -> list[slice]:
    return [slice(end - size, end) for size, end in zip(sizes, itertools.accumulate(sizes), strict=True)]


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "batch"])
@pytest.mark.parametrize("sizes", CUTS, ids=str)
def test_micro_batches_add_up_to_the_step(name: str, sizes: tuple[int, ...]) -> None:
    batch, outputs = batch_of(), outputs_of()
    term = SpanLoss(**VARIANTS[name])
    parts = [rows(batch, outputs, piece) for piece in pieces(sizes)]
    totals = Loss([term]).counts(part for part, _ in parts)
    assert totals == {"windows": 7.0, "answerable": 4.0}
    found = sum((term(NO_MODEL, *part, totals) for part in parts), torch.zeros(()))
    torch.testing.assert_close(found, loss_of(term, batch, outputs))


@pytest.mark.parametrize("sizes", CUTS, ids=str)
def test_by_batch_each_micro_batch_has_its_own_means(sizes: tuple[int, ...]) -> None:
    batch, outputs = batch_of(), outputs_of()
    options = SpanLossOptions(answer_weight=2.0, answer_by="batch")
    term = options.build(Labels())
    parts = [rows(batch, outputs, piece) for piece in pieces(sizes)]
    totals = Loss([term]).counts(part for part, _ in parts)
    found = sum(term(NO_MODEL, *part, totals).item() for part in parts)
    wanted = (
        sum(len(part.gold) * slow_mean(slow_windows(logits, part.gold, options), part.gold, 2.0) for part, logits in parts) / 7
    )
    assert found == pytest.approx(wanted, rel=1e-5)
    if sizes == (1,) * 7:
        assert found == pytest.approx(loss_of(SpanLoss(), batch, outputs).item()), "each micro-batch has one kind of window"


# ---- focal


@pytest.mark.parametrize("focal", [0.5, 1.0, 2.0])
def test_the_focal_loss_of_a_certain_position_has_a_finite_gradient(focal: float) -> None:
    """For a gamma below 1, the slope of its factor is infinite at a probability of 1."""
    logits = torch.tensor([[200.0, 0.0, 0.0], [1.0, 0.5, 0.0]], requires_grad=True)
    gold, allowed = torch.tensor([0, 0]), torch.ones(2, 3, dtype=torch.bool)
    losses = position_cross_entropy(logits, gold, allowed, focal=focal)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert losses[0] == 0
    assert torch.isfinite(gradient).all()
    assert not gradient[0].any()
    assert gradient[1].all()


def test_the_focal_loss_gives_unsure_positions_more_weight() -> None:
    outputs = outputs_of()
    plain, focal = (span_cross_entropy(outputs, GOLD, focal=gamma) for gamma in (0.0, 2.0))
    share = (focal / plain).tolist()
    assert all(0 < part < 1 for part in share)
    assert share[int(plain.argmin())] < share[int(plain.argmax())]


# ---- options


@pytest.mark.parametrize(
    "wrong",
    [
        {"start_weight": -1},
        {"answer_weight": -1},
        {"answer_by": "step"},
        {"focal": -0.5},
        {"focal": math.inf},
        {"label_smoothing": 1},
    ],
)
def test_impossible_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SpanLossOptions(**wrong)
