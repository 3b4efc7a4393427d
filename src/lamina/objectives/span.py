"""The loss of span extraction: (cross-entropy of the start + cross-entropy of the end) / 2, mean over windows.

Departure from the usual baselines: the softmax covers only the context and the classifier token. So the model need not learn
that an answer is never in the question, in a separator or in padding.

The loss has weights and variants. All are off by default, and they can be combined; they apply in this order. p are the
probabilities of the allowed positions and g is the gold position:

    label_smoothing e:  c = -(1 - e) log p_g - e mean over allowed positions of log p, for starts and for ends
    focal y:            c is multiplied by (1 - p_g)^y (Lin et al. 2017); p_g is the model's own, smoothed or not
    start_weight a:     (a c_start + c_end) / (a + 1), the loss of a window
    answer_weight b:    (b mean over answerable windows + mean over the others) / (b + 1) instead of the mean over all

Paper: Lee and Kim (004) weigh starts by 2, answerable windows by 2, or both. A window is answerable if it holds the answer.
`answer_by` chooses the windows of the two means:

    class:  all windows of the step, however it is cut into micro-batches
    batch:  the windows of the micro-batch, as in the paper's code. The loss of the step is the mean of its micro-batches'
            losses, weighted by their numbers of windows. It depends on train.memory_tokens, which cuts the step. A step of
            one micro-batch has the loss of "class"

If all windows are of one kind, both choices are the plain mean. An answer_weight of 1 is the plain mean over windows too. It is
not the mean of the two means, which would give each window of the rarer kind a higher weight.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.heads.outputs import SpanOutputs
from lamina.model import Model
from lamina.utils.options import Options


def position_cross_entropy(
    logits: Tensor, gold: Tensor, allowed: Tensor, *, focal: float = 0.0, label_smoothing: float = 0.0
) -> Tensor:
    """Return the loss of one end of each window, [R]. `logits` and `allowed` are [R, T], `gold` [R] an allowed position."""
    logits = logits.masked_fill(~allowed, torch.finfo(logits.dtype).min)
    losses = exact = F.cross_entropy(logits, gold, reduction="none")  # -log p_g
    if label_smoothing:
        logs = logits.log_softmax(-1).masked_fill(~allowed, 0)  # [R, T]
        losses = (1 - label_smoothing) * exact - label_smoothing * logs.sum(-1) / allowed.sum(-1)
    if focal:
        others = -torch.expm1(-exact)  # 1 - p_g
        losses = (
            losses * others.clamp_min(torch.finfo(others.dtype).tiny) ** focal
        )  # clamped, since the slope at 0 may be infinite
    return losses


def span_cross_entropy(
    outputs: SpanOutputs, gold: Tensor, *, start_weight: float = 1.0, focal: float = 0.0, label_smoothing: float = 0.0
) -> Tensor:
    """Return the loss of each window, [R]; `gold` [R, 2] holds the first and last token of the answer."""
    start, end = (
        position_cross_entropy(logits, position, outputs.allowed, focal=focal, label_smoothing=label_smoothing)
        for logits, position in zip((outputs.start, outputs.end), gold.unbind(1), strict=True)
    )
    return (start_weight * start + end) / (start_weight + 1)


def answerable_windows(batch: Batch) -> Tensor:
    """Return whether each window holds the answer, [R]; (0, 0) means no answer."""
    return batch.gold[:, 1] != 0


class SpanLoss:
    """`span_cross_entropy` as a term of a training step."""

    name = "span"

    def __init__(
        self,
        *,
        start_weight: float = 1.0,
        answer_weight: float = 1.0,
        answer_by: Literal["class", "batch"] = "class",
        focal: float = 0.0,
        label_smoothing: float = 0.0,
    ) -> None:
        self.start_weight = start_weight
        self.answer_weight = answer_weight
        self.answer_by = answer_by
        self.focal = focal
        self.label_smoothing = label_smoothing

    @property
    def joint(self) -> bool:
        return self.answer_weight != 1 and self.answer_by == "batch"

    def counts(self, batch: Batch) -> dict[str, float]:
        return {"windows": float(len(batch.gold)), "answerable": float(answerable_windows(batch).sum())}

    def __call__(self, model: Model, batch: Batch, outputs: SpanOutputs, totals: dict[str, float]) -> Tensor:
        losses = span_cross_entropy(
            outputs,
            batch.gold,
            start_weight=self.start_weight,
            focal=self.focal,
            label_smoothing=self.label_smoothing,
        )
        if self.answer_weight == 1:
            return losses.sum() / totals["windows"]
        if self.answer_by == "class":
            return self._weighed(batch, losses, totals)
        own = self.counts(batch)
        return self._weighed(batch, losses, own) * (own["windows"] / totals["windows"])

    def _weighed(self, batch: Batch, losses: Tensor, among: dict[str, float]) -> Tensor:
        """Return the batch's share of the weighted mean over all windows that `among` counts."""
        windows, answerable = among["windows"], among["answerable"]
        if answerable in (0, windows):
            return losses.sum() / windows
        answered = answerable_windows(batch)
        of_answerable = losses[answered].sum() / answerable
        of_others = losses[~answered].sum() / (windows - answerable)
        return (self.answer_weight * of_answerable + of_others) / (self.answer_weight + 1)


class SpanLossOptions(Options):
    """Options of the span loss."""

    heads: ClassVar[tuple[str, ...]] = ("span", "cacnn")
    type: Literal["span"] = "span"
    """Cross-entropy of the start and of the end, over the context and the classifier token."""
    start_weight: float = Field(default=1.0, ge=0)
    """Weight of the start relative to the end."""
    answer_weight: float = Field(default=1.0, ge=0)
    """Weight of windows with an answer relative to the others; 1 is the plain mean over windows."""
    answer_by: Literal["class", "batch"] = "class"
    """Take the means of `answer_weight` over the whole step, or over each micro-batch as in the paper's code."""
    focal: float = Field(default=0.0, ge=0)
    """Exponent of the focal loss (gamma): a larger one reduces the loss of confident positions; 0 switches it off."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of the target spread over all allowed positions, from 0 to below 1."""

    def build(self, labels: Labels) -> SpanLoss:
        return SpanLoss(
            start_weight=self.start_weight,
            answer_weight=self.answer_weight,
            answer_by=self.answer_by,
            focal=self.focal,
            label_smoothing=self.label_smoothing,
        )
