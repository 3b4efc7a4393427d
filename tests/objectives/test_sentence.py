from __future__ import annotations

import math
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.errors import LaminaError
from lamina.heads.outputs import ClassOutputs, Outputs, PairOutputs, ScoreOutputs
from lamina.model import Model
from lamina.objectives import (
    BinaryCrossEntropyOptions,
    CosineEmbeddingOptions,
    CrossEntropyOptions,
    SquaredErrorOptions,
)

NO_MODEL = cast(Model, None)  # these losses need no model
TWO = Labels(("no", "yes"))
THREE = Labels(("bad", "fair", "good"))
SCORES = Labels(low=0, high=5)

logit = st.floats(-4, 4, width=32)
unit = st.floats(-1, 1, width=32)


def labelled(labels: list[float], sides: int = 1) -> Batch:
    rows = torch.zeros(sides * len(labels), 1, dtype=torch.int64)
    gold = torch.zeros(len(rows), 2, dtype=torch.int64)
    return Batch(
        rows, rows, rows == 0, rows > 0, gold, tuple(range(len(rows))), labels=torch.tensor(labels).float(), sides=sides
    )


def pairs(cosine: list[float]) -> PairOutputs:
    """Return outputs with unit vectors in the plane that have these cosines."""
    near = torch.tensor(cosine)
    second = torch.stack([near, (1 - near**2).clamp_min(0).sqrt()], -1)
    first = torch.tensor([[1.0, 0.0]]).expand(len(cosine), 2)
    return PairOutputs(near, 5 * near - 2.5, first, second)


def loss(options: Any, labels: Labels, batch: Batch, outputs: Outputs) -> float:
    term = options.build(labels)
    assert term.name == options.type
    found: Tensor = term(NO_MODEL, batch, outputs, term.counts(batch))
    return found.item()


@given(st.lists(st.tuples(logit, logit, logit, st.integers(0, 2)), min_size=1, max_size=6), st.sampled_from([0, 0.1]))
@settings(deadline=None, max_examples=40)
def test_cross_entropy(rows: list[tuple[float, float, float, int]], smoothing: float) -> None:
    wanted = 0.0
    for *logits, label in rows:
        total = math.log(sum(math.exp(z) for z in logits))
        own = total - logits[int(label)]
        even = sum(total - z for z in logits) / 3
        wanted += ((1 - smoothing) * own + smoothing * even) / len(rows)
    outputs = ClassOutputs(torch.tensor([row[:3] for row in rows]))
    batch = labelled([float(row[3]) for row in rows])
    assert loss(CrossEntropyOptions(label_smoothing=smoothing), THREE, batch, outputs) == pytest.approx(wanted, abs=1e-5)


@given(st.lists(st.tuples(unit, st.floats(0, 5, width=32)), min_size=1, max_size=6))
@settings(deadline=None, max_examples=40)
def test_binary_cross_entropy_with_scores_as_soft_targets(rows: list[tuple[float, float]]) -> None:
    wanted = 0.0
    for cosine, score in rows:
        alike = 1 / (1 + math.exp(2.5 - 5 * cosine))
        wanted -= (score / 5 * math.log(alike) + (1 - score / 5) * math.log(1 - alike)) / len(rows)
    outputs = pairs([cosine for cosine, _ in rows])
    found = loss(BinaryCrossEntropyOptions(), SCORES, labelled([score for _, score in rows], 2), outputs)
    assert found == pytest.approx(wanted, abs=1e-5)


def test_binary_cross_entropy_of_two_classes() -> None:
    wanted = math.log(1 + math.exp(-(5 * 0.8 - 2.5))) + math.log(1 + math.exp(5 * 0.6 - 2.5))
    found = loss(BinaryCrossEntropyOptions(), TWO, labelled([1, 0], 2), pairs([0.8, 0.6]))
    assert found == pytest.approx(wanted / 2)


@given(st.lists(st.tuples(unit, st.floats(0, 5, width=32)), min_size=1, max_size=6), st.floats(-0.5, 0.5))
@settings(deadline=None, max_examples=40)
def test_cosine_embedding(rows: list[tuple[float, float]], margin: float) -> None:
    wanted = 0.0
    for cosine, score in rows:
        wanted += (1 - cosine if score >= 3 else max(0, cosine - margin)) / len(rows)
    outputs = pairs([cosine for cosine, _ in rows])
    found = loss(CosineEmbeddingOptions(margin=margin), SCORES, labelled([score for _, score in rows], 2), outputs)
    assert found == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("margin", [0.0, 0.4])
def test_cosine_embedding_equals_torchs(margin: float) -> None:
    """Compare with our labels, and with the paper's raw scores, where only a score of exactly 1 counts."""
    torch.manual_seed(0)
    u, v = torch.randn(12, 8), torch.randn(12, 8)
    v[:6] += u[:6]
    raw = torch.tensor([0.0, 1.0, 2.8, 3.0, 3.2, 5.0] * 2)
    first, second = torch.nn.functional.normalize(u), torch.nn.functional.normalize(v)
    cosine = (first * second).sum(-1)
    outputs = PairOutputs(cosine, cosine, first, second)
    batch = labelled(raw.tolist(), 2)
    torchs = torch.nn.CosineEmbeddingLoss(margin=margin)
    side = torch.where(raw >= 3, 1.0, -1.0)
    ours = loss(CosineEmbeddingOptions(margin=margin), SCORES, batch, outputs)
    assert ours == pytest.approx(torchs(u, v, side).item(), abs=1e-6)
    paper = loss(CosineEmbeddingOptions(margin=margin, paper_labels=True), SCORES, batch, outputs)
    assert paper == pytest.approx(torchs(u, v, raw).item(), abs=1e-6)
    assert paper == pytest.approx((1 - cosine)[raw == 1].sum().item() / 12)


def test_three_fifths_of_any_range_are_similar() -> None:
    for low, high in ((0.0, 5.0), (1.0, 5.0), (0.0, 1.0), (-1.0, 0.7)):
        bound = low + 0.6 * (high - low)
        batch = labelled([bound, bound - 0.01 * (high - low)], 2)
        assert loss(CosineEmbeddingOptions(), Labels(low=low, high=high), batch, pairs([1.0, 1.0])) == pytest.approx(0.5)


@given(st.lists(st.tuples(unit, st.floats(1, 5, width=32)), min_size=1, max_size=6))
@settings(deadline=None, max_examples=40)
def test_mse(rows: list[tuple[float, float]]) -> None:
    labels = Labels(low=1, high=5)
    batch = labelled([score for _, score in rows], 2)
    predicted = [value for value, _ in rows]
    wanted = sum((value - (score - 1) / 4) ** 2 for value, score in rows) / len(rows)
    assert loss(SquaredErrorOptions(), labels, batch, pairs(predicted)) == pytest.approx(wanted, abs=1e-5)
    assert loss(SquaredErrorOptions(), labels, batch, ScoreOutputs(torch.tensor(predicted))) == pytest.approx(wanted, abs=1e-5)


def test_micro_batches_add_up_to_the_step() -> None:
    term = CosineEmbeddingOptions().build(TWO)
    whole, parts = labelled([1, 0, 1], 2), (labelled([1, 0], 2), labelled([1], 2))
    totals = term.counts(whole)
    assert totals == {"items": 3.0}
    assert sum(term.counts(part)["items"] for part in parts) == 3
    together = term(NO_MODEL, whole, pairs([0.2, 0.4, 0.9]), totals)
    apart = [term(NO_MODEL, part, pairs(c), totals) for part, c in zip(parts, ([0.2, 0.4], [0.9]), strict=True)]
    assert sum(part.item() for part in apart) == pytest.approx(together.item())


@pytest.mark.parametrize(
    ("options", "labels", "message"),
    [
        (CrossEntropyOptions(), SCORES, '"cross_entropy": it needs classes, but the labels are scores from 0 to 5'),
        (BinaryCrossEntropyOptions(), THREE, '"binary_cross_entropy": it needs scores or two classes'),
        (CosineEmbeddingOptions(), THREE, r"3 classes \(bad, fair, good\)"),
        (SquaredErrorOptions(), TWO, r'"mse": it needs scores, but the labels are classes \(no, yes\)'),
    ],
)
def test_labels_that_do_not_fit_are_refused(options: Any, labels: Labels, message: str) -> None:
    with pytest.raises(LaminaError, match=message) as error:
        options.build(labels)
    assert "\n" not in str(error.value)
