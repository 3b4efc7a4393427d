"""How far apart two outputs of the same kind are, item by item; 0 where they are equal."""

from __future__ import annotations

from torch import Tensor

from lamina.heads.outputs import ClassOutputs, Outputs, PairOutputs, ScoreOutputs, SpanOutputs


def symmetric_kl(a: Tensor, b: Tensor, allowed: Tensor | None = None) -> Tensor:
    """KL(p, q) + KL(q, p) = sum (p - q)(log p - log q) of two rows of logits: [I, C] -> [I].

    In this form nothing large is subtracted, so that it stays exact for p next to q. `allowed` [I, C] is where logits count.
    """
    if allowed is not None:
        a, b = (logits.masked_fill(~allowed, -1e9) for logits in (a, b))
    log_p, log_q = a.log_softmax(-1), b.log_softmax(-1)
    apart = log_p - log_q
    if allowed is not None:
        apart = apart.masked_fill(~allowed, 0)
    return ((log_p.exp() - log_q.exp()) * apart).sum(-1)


def divergence(a: Outputs, b: Outputs) -> Tensor:
    """[I] symmetric KL of classes, half its sum over starts and ends for spans; the square of the difference for scores and
    for cosines."""
    if isinstance(a, ClassOutputs) and isinstance(b, ClassOutputs):
        return symmetric_kl(a.logits, b.logits)
    if isinstance(a, SpanOutputs) and isinstance(b, SpanOutputs):
        return (symmetric_kl(a.start, b.start, a.allowed) + symmetric_kl(a.end, b.end, a.allowed)) / 2
    if isinstance(a, ScoreOutputs) and isinstance(b, ScoreOutputs):
        return (a.scores - b.scores).square()
    if isinstance(a, PairOutputs) and isinstance(b, PairOutputs):
        return (a.cosine - b.cosine).square()
    raise TypeError(f"{type(a).__name__} and {type(b).__name__} cannot be compared")
