"""Measure how much two outputs of the same kind differ, item by item; equal outputs give 0."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from lamina.heads.outputs import ClassOutputs, Outputs, PairOutputs, ScoreOutputs, SpanOutputs

Measure = Callable[[Tensor, Tensor, Tensor | None], Tensor]  # two sets of logits [I, C], a mask [I, C] -> [I]


def symmetric_kl(a: Tensor, b: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Return KL(p, q) + KL(q, p) = sum (p - q)(log p - log q) of two sets of logits: [I, C] -> [I].

    This form subtracts no large numbers, so it stays exact if p is near q. `allowed` [I, C] masks the logits.
    """
    log_p, log_q, apart = _logs(a, b, allowed)
    return ((log_p.exp() - log_q.exp()) * apart).sum(-1)


def kl(a: Tensor, b: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Return KL(p, q) = sum p (log p - log q) of two sets of logits: [I, C] -> [I]. p belongs to `a`, q to `b`."""
    log_p, _, apart = _logs(a, b, allowed)
    return (log_p.exp() * apart).sum(-1)


def _logs(a: Tensor, b: Tensor, allowed: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return log p, log q and their difference, which is 0 for masked logits."""
    if allowed is not None:
        a, b = (logits.masked_fill(~allowed, -1e9) for logits in (a, b))
    log_p, log_q = a.log_softmax(-1), b.log_softmax(-1)
    apart = log_p - log_q
    return log_p, log_q, apart if allowed is None else apart.masked_fill(~allowed, 0)


def mean_square(a: Tensor, b: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Return the squared difference, mean over the allowed logits of a row: [I, C] -> [I]."""
    squares = (a - b).square()
    return squares.mean(-1) if allowed is None else squares.masked_fill(~allowed, 0).sum(-1) / allowed.sum(-1)


def divergence(a: Outputs, b: Outputs, of_logits: Measure = symmetric_kl) -> Tensor:
    """Return the difference of two outputs, [I].

    Classes have `of_logits` of their logits, spans the mean of it over start and end. Scores and cosines have the squared
    difference.
    """
    if isinstance(a, ClassOutputs) and isinstance(b, ClassOutputs):
        return of_logits(a.logits, b.logits, None)
    if isinstance(a, SpanOutputs) and isinstance(b, SpanOutputs):
        return (of_logits(a.start, b.start, a.allowed) + of_logits(a.end, b.end, a.allowed)) / 2
    if isinstance(a, ScoreOutputs) and isinstance(b, ScoreOutputs):
        return (a.scores - b.scores).square()
    if isinstance(a, PairOutputs) and isinstance(b, PairOutputs):
        return (a.cosine - b.cosine).square()
    raise TypeError(f"{type(a).__name__} and {type(b).__name__} cannot be compared")
