"""Span heads whose convolution filters are made from the text that they read.

Papers: Hulburd, "BERT parameter efficiency" (003: "context-aware CNN"); after Shen et al. 2018 (ACNN and AdaQA). For a
window's token vectors H [T, D] a generator makes N filters of w tokens, and

    map_n(t)   = sum_k sum_d H[t + k - (w - 1) // 2, d] F[n, k, d]     zeros beyond the text's ends
    logit_s(t) = sum_n A[s, n] map_n(t) + b_s                          s: start and end

Two generators make F:

vectorised   Convolutions of widths 3 and 5 give M maps; the maximum of each over the text (`pool = "sum"`: as ACNN) is
             the context vector z [M]. A convolution of width `context_width` runs over z as over M numbers in a row. Its
             channels, each of M numbers, are laid end to end: ceil(wD / M) of them make a filter, whose surplus is cut off.
simplified   No vector: a convolution of width 5 with N D channels, ReLU, a maximum over 8 neighbours, and then over w long
             windows, one for each of the filters' w positions. Half of the maps feed the start, half the end.

What they cost, for D = 384 (MiniLM, 21 MFLOP a token) and D = 768 (BERT-base, 170 MFLOP):

    parameters   vectorised  4 D M + M + N ceil(wD / M) (c + 1) + 2 N + 2          197,730 and    395,298; N = 16
                 simplified  5 D N D + N D + N + 2                               2,950,662 and 11,799,558; N = 4
    FLOP a token vectorised  8 D M + 2 w N D, and 2 c w N D a window             0.45 M and  0.91 M: 2.1% and 0.5%
                 simplified  10 D N D + 2 w N D                                  5.92 M and 23.63 M: 28% and 14%

(c is `context_width`.) A dense layer from z to the filters would take 7.9 million parameters for D = 768.

Nothing stands between the maps and A in the paper. So the N filters act as two, A's sums of them, and as the context's
convolution is linear, a vectorised head with more filters can say no more than one with two: it only learns the two in other
steps. `activation = "relu"` on the maps ends that.

Departures, and what the paper leaves open:
- Per-sample filters are one batched product for all windows; the paper's public predecessor, a depthwise convolution of
  (windows x D) channels, says of itself 0.15 examples a second. Its reshaping of filters mixes up their channels; the sum above
  is written out instead.
- The predecessor pools windows of 100 tokens every 50, which gives its 6 positions for 384 tokens and leaves the last 34
  out. Here w windows, each overlapping half of the next, share out the real tokens of each text, so a text of any length
  gives w positions; for 384 tokens a window has 110.
- Dropout is on the filters. Before a maximum over a hundred tokens, where the predecessor has it, it drops next to nothing
  and only makes the filters 1.25 times as large in training as afterwards.
- One bias, before the ReLU; the predecessor adds a second one, drawn from N(0, 1), after it.
- What is not convolved is padding and, with `mask_question`, all but the context and the classifier token, which type ids
  do not tell; the predecessor's also hid the classifier token, which "no answer" is read from.
- `two_tower`, after AdaQA, of which the paper has no details: filters are made from the question's side alone (all but the
  context) and convolved over the context and the classifier token. AdaQA's way back, from the answer to the question, and
  its matching layer, which judge a pair of sentences, have no place in finding a span.
- Where the mixer has a mixture for each end, each end makes its filters from its own mixture. A mixer that attends gets two
  learned vectors as queries: the head has none by nature, for what reads the tokens is made from them.
- Starts: He et al. 2015 for what reads tokens; the context's convolution so that a map is as large as its input; A as
  N(0, 1/N), or the predecessor's N(0, 0.03^2) in the simplified form.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.encoder.blocks import Dropout
from lamina.errors import LaminaError
from lamina.heads.outputs import SpanOutputs
from lamina.heads.queries import AskingHead
from lamina.heads.span import answerable
from lamina.mixers.convolution import Convolution

WIDTHS = 3, 5  # of the convolutions that make the context vector
NEIGHBOURS = 3, 4  # before and behind a token: the simplified form's maximum over 8

TokenMask = Callable[[Batch], Tensor]  # which tokens of each row: [R, T] bool
Pool = Literal["max", "sum"]


# ---- which tokens


def real(batch: Batch) -> Tensor:
    return batch.mask


def question(batch: Batch) -> Tensor:
    """All but the context, so with the classifier token and the separators."""
    return batch.mask & ~batch.context


# ---- the maths


def only(x: Tensor, tokens: Tensor) -> Tensor:
    """The vectors [B, T, D] of some tokens [B, T], zeros for the others."""
    return x.masked_fill(~tokens.unsqueeze(-1), 0)


def convolve_each(x: Tensor, filters: Tensor) -> Tensor:
    """Each row with its own filters: [B, T, D] and [B, N, w, D] -> [B, T, N], of the length of the row."""
    rows, length, _ = x.shape
    _, count, width, _ = filters.shape
    products = torch.bmm(x, filters.flatten(1, 2).transpose(1, 2)).view(rows, length, count, width)
    before = (width - 1) // 2
    products = F.pad(products, (0, 0, 0, 0, before, width - 1 - before))  # [B, T + w - 1, N, w]
    return torch.stack([products[:, k : k + length, :, k] for k in range(width)]).sum(0)


def pooled(maps: Tensor, tokens: Tensor, how: Pool) -> Tensor:
    """The maximum or sum over some tokens, of which each row has one: [B, T, M] and [B, T] -> [B, M]."""
    if how == "sum":
        return only(maps, tokens).sum(1)
    return maps.masked_fill(~tokens.unsqueeze(-1), torch.finfo(maps.dtype).min).amax(1)


def window_maxima(maps: Tensor, lengths: Tensor, windows: int) -> Tensor:
    """Maxima over `windows` windows of each row's tokens, every second half of one being the first of the next.

    [B, T, C] and [B] -> [B, windows, C]. A value is before that replaced by the greatest of its 8 neighbours; together that
    is a window with so many more tokens. A text of fewer tokens than windows has some tokens in more of them.
    """
    rows, longest, _ = maps.shape
    n, half = lengths[:, None], torch.arange(windows + 1, device=maps.device)
    first = (half * n // (windows + 1) - NEIGHBOURS[0]).clamp(min=0)  # [B, windows + 1]
    last = torch.minimum(-(-(half + 1) * n // (windows + 1)) + NEIGHBOURS[1], n) - 1
    step = torch.arange(int((last - first).max()) + 1, device=maps.device)
    token = torch.minimum(first[..., None] + step, last[..., None])  # [B, windows + 1, S]; the last token stands for the rest
    place = (token + longest * torch.arange(rows, device=maps.device)[:, None, None]).flatten()
    halves = maps.flatten(0, 1).index_select(0, place).view(*token.shape, -1).amax(2)  # [B, windows + 1, C]
    return torch.maximum(halves[:, :-1], halves[:, 1:])


class ContextFilters(nn.Module):
    """Filters from a context vector: [B, T, D] and the tokens to read [B, T] -> [B, N, w, D]."""

    def __init__(self, dim: int, filters: int, width: int, *, context: int, context_width: int, pool: Pool) -> None:
        super().__init__()
        self.shape = filters, width, dim
        self.pool: Pool = pool
        sizes = context - context // 2, context // 2
        self.views = nn.ModuleList(Convolution(dim, size, kernel) for size, kernel in zip(sizes, WIDTHS, strict=True))
        self.generator = Convolution(1, filters * ceil(width * dim / context), context_width)
        if not self.generator.weight.is_meta:
            nn.init.normal_(self.generator.weight, std=(context_width * width * dim) ** -0.5)

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        filters, width, dim = self.shape
        channels = x.transpose(1, 2)  # [B, D, T]
        maps = torch.cat([view(channels) for view in self.views], 1).transpose(1, 2)  # [B, T, M]
        context = pooled(maps, tokens, self.pool).unsqueeze(1)  # [B, 1, M]
        numbers: Tensor = self.generator(context).reshape(len(x), filters, -1)  # [B, N, at least w * D]
        return numbers[..., : width * dim].reshape(len(x), filters, width, dim)


class PooledFilters(nn.Module):
    """Filters from the text's maxima; their tokens are the first of each row: [B, T, D] and [B, T] -> [B, N, w, D]."""

    def __init__(self, dim: int, filters: int, width: int) -> None:
        super().__init__()
        self.shape = filters, width, dim
        self.convolution = Convolution(dim, filters * dim, 5)

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        filters, width, dim = self.shape
        maps = F.relu(self.convolution(x.transpose(1, 2))).transpose(1, 2)  # [B, T, N * D]
        maxima = window_maxima(maps, tokens.sum(1), width)  # [B, w, N * D]
        return maxima.view(len(x), width, filters, dim).transpose(1, 2)


class ContextAwareHead(AskingHead):
    """`generator` makes N filters from the tokens `source`; they are convolved over the tokens `target`.

    With `halves`, the first half of the maps is the start's and the second the end's; otherwise both ends read all.
    """

    slots = 2
    positions: Literal["tokens"] = "tokens"

    def __init__(
        self,
        generator: nn.Module,
        filters: int,
        *,
        source: TokenMask = real,
        target: TokenMask = real,
        halves: bool = False,
        activation: nn.Module | None = None,
        dropout: float = 0.0,
        std: float,
    ) -> None:
        super().__init__()
        self.generator = generator
        self.source = source
        self.target = target
        self.halves = halves
        self.activation = activation or nn.Identity()
        self.dropout = Dropout(dropout)
        self.weight = nn.Parameter(torch.empty(self.slots, filters // 2 if halves else filters))  # A
        self.bias = nn.Parameter(torch.zeros(self.slots))
        if not self.weight.is_meta:  # there is nothing to draw, see `SpanHead`
            nn.init.normal_(self.weight, std=std)

    def forward(self, vectors: Tensor, batch: Batch) -> SpanOutputs:
        mixtures = vectors.shape[1]  # 1, or one for each end; each is convolved with filters of its own
        x = vectors.flatten(0, 1)  # [R * Q, T, D]
        source, target = (tokens(batch).repeat_interleave(mixtures, 0) for tokens in (self.source, self.target))
        filters = self.dropout(self.generator(only(x, source), source))  # [R * Q, N, w, D]
        maps = self.activation(convolve_each(only(x, target), filters))  # [R * Q, T, N]
        maps = maps.view(-1, mixtures, *maps.shape[1:])  # [R, Q, T, N]
        parts = maps.chunk(2, -1) if self.halves else (maps, maps)
        start, end = (
            (part[:, min(slot, mixtures - 1)] @ self.weight[slot] + self.bias[slot]).float()  # [R, T]
            for slot, part in enumerate(parts)
        )
        return SpanOutputs(start, end, answerable(batch))


# ---- its options


VECTORISED_ONLY = "context", "context_width", "pool", "two_tower"
SIMPLIFIED = {"filters": 4, "width": 6, "dropout": 0.2, "mask_question": True}  # of the public predecessor


class ContextAwareHeadOptions(BaseModel):
    """`filters` and `width` are N and w, `context` is M. The simplified form has other defaults: `SIMPLIFIED`."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    slots: ClassVar[int] = ContextAwareHead.slots
    kind: ClassVar[str] = "spans"  # of task
    pooled: ClassVar[bool] = False
    objective: ClassVar[str] = "span"
    type: Literal["cacnn"] = "cacnn"
    """Score starts and ends with convolution filters that are computed from the text."""
    form: Literal["vectorised", "simplified"] = "vectorised"
    """How to compute the filters: from a context vector, or from maxima over parts of the text."""
    filters: int = Field(default=16, ge=1)
    """Number of filters (N of the paper)."""
    width: int = Field(default=5, ge=1)
    """Number of tokens that a filter covers (w of the paper)."""
    context: int = Field(default=128, ge=2)
    """Number of values of the context vector (M of the paper); `vectorised` only."""
    context_width: int = Field(default=3, ge=1)
    """Width of the convolution over the context vector, an odd number; `vectorised` only."""
    pool: Pool = "max"
    """How to pool maps into the context vector; `vectorised` only."""
    activation: Literal["none", "relu"] = "none"
    """Activation function on the maps."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Probability of dropout on the filters, from 0 to below 1."""
    mask_question: bool = False
    """Convolve only the context and the classifier token."""
    two_tower: bool = False
    """Compute filters from the question's side and convolve only the context and the classifier token."""

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_form(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("form") == "simplified":
            return SIMPLIFIED | values
        return values

    @model_validator(mode="after")
    def _fits_the_form(self) -> ContextAwareHeadOptions:
        if self.context_width % 2 == 0:
            raise ValueError(f"context_width = {self.context_width} has no middle: choose an odd number")
        if self.form == "simplified":
            for name in VECTORISED_ONLY:
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f'{name} is for form = "vectorised": the simplified form has no context vector')
            if self.filters % 2:
                raise ValueError(f"filters = {self.filters} cannot be halved between start and end: choose an even number")
        return self

    def build(self, width: int, labels: Labels) -> ContextAwareHead:
        return ContextAwareHead(
            self._generator(width),
            self.filters,
            source=question if self.two_tower else real,
            target=answerable if self.two_tower or self.mask_question else real,
            halves=self.form == "simplified",
            activation=nn.ReLU() if self.activation == "relu" else None,
            dropout=self.dropout,
            std=0.03 if self.form == "simplified" else self.filters**-0.5,
        )

    def _generator(self, dim: int) -> ContextFilters | PooledFilters:
        if self.form == "simplified":
            return PooledFilters(dim, self.filters, self.width)
        if self.context > self.width * dim:
            raise LaminaError(
                f"head.context = {self.context}, but a filter of {self.width} tokens of {dim} numbers can use no more than "
                f"{self.width * dim}: lower head.context"
            )
        return ContextFilters(
            dim, self.filters, self.width, context=self.context, context_width=self.context_width, pool=self.pool
        )
