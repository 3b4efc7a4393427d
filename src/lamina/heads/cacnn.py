"""Span heads whose convolution filters are computed from the text that they read.

Papers: Hulburd, "BERT parameter efficiency" (003: "context-aware CNN"), after Shen et al. 2018 (ACNN and AdaQA). From the
token vectors H [T, D] of a window, a generator computes N filters F of w tokens. Then

    map_n(t)   = sum_k sum_d H[t + k - (w - 1) // 2, d] F[n, k, d]     zeros beyond the ends of the text
    logit_s(t) = sum_n A[s, n] map_n(t) + b_s                          s: start and end

Two generators compute F:

vectorised   Convolutions of widths 3 and 5 give M maps. The maximum of each over the text (`pool = "sum"`: as ACNN) is
             the context vector z [M]. A convolution of width `context_width` runs along the M values of z. Its output
             channels have M values each; ceil(wD / M) of them, end to end, are one filter. Surplus values are cut off.
simplified   There is no context vector. A convolution of width 5 with N D channels is followed by ReLU and a maximum over
             8 neighbours. A maximum over each of w long windows then gives the w positions of the filters. Half of the
             maps serve the start, half the end.

Costs, for D = 384 (MiniLM, 21 MFLOP per token) and D = 768 (BERT-base, 170 MFLOP); c is `context_width`:

    parameters   vectorised  4 D M + M + N ceil(wD / M) (c + 1) + 2 N + 2          197,730 and    395,298; N = 16
                 simplified  5 D N D + N D + N + 2                               2,950,662 and 11,799,558; N = 4
    FLOP a token vectorised  8 D M + 2 w N D, and 2 c w N D a window             0.45 M and  0.91 M: 2.1% and 0.5%
                 simplified  10 D N D + 2 w N D                                  5.92 M and 23.63 M: 28% and 14%

A dense layer from z to the filters would take 7.9 million parameters for D = 768.

The paper has no activation between the maps and A. So the N filters act as two, which are sums weighted by A. The
generator is linear too, so a vectorised head with more than two filters computes no more functions; only its gradient
steps differ. `activation = "relu"` on the maps changes that.

Departures and choices that the paper leaves open:
- Filters differ for each window; all windows are one batched product. The paper's public predecessor uses a depthwise
  convolution of (windows x D) channels, at 0.15 examples per second by its own account. Its reshaping of filters mixes up
  their channels. Here the sum above is written out.
- The predecessor pools windows of 100 tokens every 50. That gives its 6 positions for 384 tokens and ignores the last 34.
  Here w half-overlapping windows cover the real tokens of each text, so a text of any length gives w positions. For 384
  tokens a window has 110.
- Dropout is on the filters. The predecessor has it before a maximum over a hundred tokens. There it drops almost nothing,
  and only makes the filters 1.25 times as large in training as afterwards.
- There is one bias, before the ReLU. The predecessor adds a second one after it, drawn from N(0, 1).
- Padding is not convolved. With `mask_question`, only the context and the classifier token are, which type ids do not show.
  The predecessor also hid the classifier token, which "no answer" is read from.
- `two_tower` follows AdaQA; the paper gives no details. The filters come from the question's side alone, which is all but
  the context. They are convolved over the context and the classifier token. AdaQA's filters from the answer and its
  matching layer judge pairs of sentences and are left out.
- If the mixer has a mixture for each end, each end computes its filters from its own mixture. A mixer that attends gets two
  learned vectors as queries, since this head has none of its own.
- Initial weights: He et al. 2015 for convolutions over tokens. The convolution over z starts so that a map is as large as
  its input. A starts as N(0, 1/N), or as the predecessor's N(0, 0.03^2) in the simplified form.
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

WIDTHS = 3, 5  # of the convolutions that compute the context vector
NEIGHBOURS = 3, 4  # before and after a token: the maximum over 8 of the simplified form

TokenMask = Callable[[Batch], Tensor]  # returns the tokens of each row to use: [R, T] bool
Pool = Literal["max", "sum"]


# ---- which tokens


def real(batch: Batch) -> Tensor:
    """Return all tokens but padding, [R, T]."""
    return batch.mask


def question(batch: Batch) -> Tensor:
    """Return all real tokens but the context, [R, T]: also the classifier token and the separators."""
    return batch.mask & ~batch.context


# ---- the maths


def only(x: Tensor, tokens: Tensor) -> Tensor:
    """Return the vectors [B, T, D] with zeros for all but some tokens [B, T]."""
    return x.masked_fill(~tokens.unsqueeze(-1), 0)


def convolve_each(x: Tensor, filters: Tensor) -> Tensor:
    """Return each row convolved with its own filters: [B, T, D] and [B, N, w, D] -> [B, T, N]."""
    rows, length, _ = x.shape
    _, count, width, _ = filters.shape
    products = torch.bmm(x, filters.flatten(1, 2).transpose(1, 2)).view(rows, length, count, width)
    before = (width - 1) // 2
    products = F.pad(products, (0, 0, 0, 0, before, width - 1 - before))  # [B, T + w - 1, N, w]
    return torch.stack([products[:, k : k + length, :, k] for k in range(width)]).sum(0)


def pooled(maps: Tensor, tokens: Tensor, how: Pool) -> Tensor:
    """Return the maximum or sum over some tokens: [B, T, M] and [B, T] -> [B, M]. Each row needs one token or more."""
    if how == "sum":
        return only(maps, tokens).sum(1)
    return maps.masked_fill(~tokens.unsqueeze(-1), torch.finfo(maps.dtype).min).amax(1)


def window_maxima(maps: Tensor, lengths: Tensor, windows: int) -> Tensor:
    """Return the maxima over `windows` half-overlapping windows of each row's tokens.

    [B, T, C] and [B] -> [B, windows, C]. Each value is first replaced by the maximum of its 8 neighbours, which extends each
    window by the neighbours. If a text has fewer tokens than windows, some tokens are in more windows.
    """
    rows, longest, _ = maps.shape
    n, half = lengths[:, None], torch.arange(windows + 1, device=maps.device)
    first = (half * n // (windows + 1) - NEIGHBOURS[0]).clamp(min=0)  # [B, windows + 1]
    last = torch.minimum(-(-(half + 1) * n // (windows + 1)) + NEIGHBOURS[1], n) - 1
    step = torch.arange(int((last - first).max()) + 1, device=maps.device)
    token = torch.minimum(first[..., None] + step, last[..., None])  # [B, windows + 1, S]; the last token fills the rest
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
    """Filters from the maxima of the text: [B, T, D] and [B, T] -> [B, N, w, D]. The tokens to read come first in a row."""

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
    """A span head: `generator` computes N filters from the tokens `source`, which are convolved over the tokens `target`.

    With `halves`, the first half of the maps is for the start and the second for the end. Otherwise both ends read all maps.
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
        if not self.weight.is_meta:  # the meta device has no values, see `SpanHead`
            nn.init.normal_(self.weight, std=std)

    def forward(self, vectors: Tensor, batch: Batch) -> SpanOutputs:
        mixtures = vectors.shape[1]  # 1, or one for each end; each has its own filters
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
SIMPLIFIED = {"filters": 4, "width": 6, "dropout": 0.2, "mask_question": True}  # defaults of the public predecessor


class ContextAwareHeadOptions(BaseModel):
    """Options of the context-aware head. `form = "simplified"` has other defaults: `SIMPLIFIED`."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    slots: ClassVar[int] = ContextAwareHead.slots
    kind: ClassVar[str] = "spans"  # the kind of task
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
            raise ValueError(f"context_width = {self.context_width} is even, so it has no middle. Fix: choose an odd number")
        if self.form == "simplified":
            for name in VECTORISED_ONLY:
                if getattr(self, name) != type(self).model_fields[name].default:
                    what = f'{name} is for form = "vectorised": the simplified form has no context vector'
                    raise ValueError(f"{what}. Fix: remove head.{name}")
            if self.filters % 2:
                what = f"filters = {self.filters} cannot be halved between start and end"
                raise ValueError(f"{what}. Fix: choose an even number")
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
                f"head.context: {self.context}, but a filter of {self.width} tokens with {dim} values each uses at most "
                f"{self.width * dim}. Fix: lower head.context"
            )
        return ContextFilters(
            dim, self.filters, self.width, context=self.context, context_width=self.context_width, pool=self.pool
        )
