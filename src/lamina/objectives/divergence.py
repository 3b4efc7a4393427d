"""How far apart two outputs of the same kind are, item by item; 0 where they are equal."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from lamina.heads.outputs import ClassOutputs, Outputs, PairOutputs, ScoreOutputs, SpanOutputs

Measure = Callable[[Tensor, Tensor, Tensor | None], Tensor]  # two rows of logits [I, C], where they count -> [I]


def symmetric_kl(a: Tensor, b: Tensor, allowed: Tensor | None = None) -> Tensor:
    """KL(p, q) + KL(q, p) = sum (p - q)(log p - log q) of two rows of logits: [I, C] -> [I].

    In this form nothing large is subtracted, so that it stays exact for p next to q. `allowed` [I, C] is where logits count.
    """
    log_p, log_q, apart = _logs(a, b, allowed)
    return ((log_p.exp() - log_q.exp()) * apart).sum(-1)


def kl(a: Tensor, b: Tensor, allowed: Tensor | None = None) -> Tensor:
    """KL(p, q) = sum p (log p - log q) of two rows of logits: [I, C] -> [I]; `a` is what `b` is measured by."""
    log_p, _, apart = _logs(a, b, allowed)
    return (log_p.exp() * apart).sum(-1)


def _logs(a: Tensor, b: Tensor, allowed: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """log p, log q and their difference, which is 0 where logits do not count."""
    if allowed is not None:
        a, b = (logits.masked_fill(~allowed, -1e9) for logits in (a, b))
    log_p, log_q = a.log_softmax(-1), b.log_softmax(-1)
    apart = log_p - log_q
    return log_p, log_q, apart if allowed is None else apart.masked_fill(~allowed, 0)


def mean_square(a: Tensor, b: Tensor, allowed: Tensor | None = None) -> Tensor:
    """The square of the difference, mean over the logits of a row that count: [I, C] -> [I]."""
    squares = (a - b).square()
    return squares.mean(-1) if allowed is None else squares.masked_fill(~allowed, 0).sum(-1) / allowed.sum(-1)


def divergence(a: Outputs, b: Outputs, of_logits: Measure = symmetric_kl) -> Tensor:
    """[I] the measure of the logits of classes, half its sum over starts and ends for spans; the square of the difference
    for scores and for cosines."""
    if isinstance(a, ClassOutputs) and isinstance(b, ClassOutputs):
        return of_logits(a.logits, b.logits, None)
    if isinstance(a, SpanOutputs) and isinstance(b, SpanOutputs):
        return (of_logits(a.start, b.start, a.allowed) + of_logits(a.end, b.end, a.allowed)) / 2
    if isinstance(a, ScoreOutputs) and isinstance(b, ScoreOutputs):
        return (a.scores - b.scores).square()
    if isinstance(a, PairOutputs) and isinstance(b, PairOutputs):
        return (a.cosine - b.cosine).square()
    raise TypeError(f"{type(a).__name__} and {type(b).__name__} cannot be compared")
