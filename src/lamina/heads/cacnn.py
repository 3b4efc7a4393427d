"""Span heads whose convolution filters are computed from the text that they read.

Papers: Hulburd, "BERT parameter efficiency" (003: "context-aware CNN"), after Shen et al. 2018 (ACNN and AdaQA). From the
token vectors H [T, D] of a window, a generator computes N filters F of w tokens. Then

    map_n(t)   = sum_k sum_d H[t + k - (w - 1) // 2, d] F[n, k, d]     zeros beyond the ends of the text
    logit_s(t) = sum_n A[s, n] map_n(t) + b_s                          s: start and end

Two generators compute F:

vectorised   The first convolutions, of widths 3 and 5, give M maps. The paper tried several widths and numbers of maps:
             `first_widths` and `first_maps`. The maximum of each map over the text (`pool = "sum"`: as ACNN) is the
             context vector z [M]. A convolution of width `context_width` runs along the M values of z. Its output
             channels have M values each; ceil(wD / M) of them, end to end, are one filter. With `tile`, a filter has one
             channel, and its M values are repeated to the filter's length. Surplus values are cut off.
simplified   There is no context vector. A convolution of width 5 (`first_widths`) with N D channels is followed by ReLU and
             a maximum over 8 neighbours. A maximum over each of w long windows then gives the w positions of the filters.
             Half of the maps serve the start, half the end.

Costs, for D = 384 (MiniLM, 21 MFLOP per token) and D = 768 (BERT-base, 170 MFLOP); c is `context_width`. In general, 4 M is
the sum of width times maps over the first convolutions. With `tile`, ceil(wD / M) is 1:

    parameters   vectorised  4 D M + M + N ceil(wD / M) (c + 1) + 2 N + 2          197,730 and    395,298; N = 16
                 simplified  5 D N D + N D + N + 2                               2,950,662 and 11,799,558; N = 4
    FLOP a token vectorised  8 D M + 2 w N D, and 2 c w N D a window             0.45 M and  0.91 M: 2.1% and 0.5%
                 simplified  10 D N D + 2 w N D                                  5.92 M and 23.63 M: 28% and 14%

A dense layer from z to the filters would take 7.9 million parameters for D = 768.

The paper has no activation between the maps and A. So the N filters act as two, which are sums weighted by A. The
generator is linear too, so a vectorised head with more than two filters computes no more functions; only its gradient
steps differ. `activation = "relu"` on the maps changes that.

Departures and choices that the paper leaves open:
- The paper's figure joins and tiles the channels over z into N filters; its sizes are not public. By default every value of
  a filter is computed by itself. `tile` repeats the values instead, with 1 / ceil(wD / M) of the generator's parameters.
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
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from lamina.data.batches import Batch
from lamina.data.labels import Labels
from lamina.encoder.blocks import Dropout
from lamina.errors import LaminaError
from lamina.heads.context_filters import ContextFilters, Pool, PooledFilters, convolve_each, only
from lamina.heads.outputs import SpanOutputs
from lamina.heads.queries import AskingHead
from lamina.heads.span import answerable
from lamina.heads.start import StartOptions

TokenMask = Callable[[Batch], Tensor]  # returns the tokens of each row to use: [R, T] bool


# ---- which tokens


def real(batch: Batch) -> Tensor:
    """Return all tokens but padding, [R, T]."""
    return batch.mask


def question(batch: Batch) -> Tensor:
    """Return all real tokens but the context, [R, T]: also the classifier token and the separators."""
    return batch.mask & ~batch.context


# ---- the head


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


VECTORISED_ONLY = "context", "first_maps", "context_width", "tile", "pool", "two_tower"
# The defaults of the public predecessor.
SIMPLIFIED = {"filters": 4, "width": 6, "first_widths": (5,), "dropout": 0.2, "mask_question": True}
Count = Annotated[int, Field(ge=1)]


class ContextAwareHeadOptions(StartOptions):
    """Options of the context-aware head. `form = "simplified"` has other defaults: `SIMPLIFIED`."""

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
    first_widths: tuple[Count, ...] = Field(default=(3, 5), min_length=1)
    """Widths of the first convolutions, which read the text; `simplified` has one, 5."""
    first_maps: tuple[Count, ...] | None = None
    """Number of maps of each first convolution; without it, `context` is divided among them; `vectorised` only."""
    context: int = Field(default=128, ge=2)
    """Number of values of the context vector (M of the paper), the sum of `first_maps`; `vectorised` only."""
    context_width: int = Field(default=3, ge=1)
    """Width of the convolution over the context vector, an odd number; `vectorised` only."""
    tile: bool = False
    """Repeat the values of one channel to fill a filter instead of computing each value; `vectorised` only."""
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
        if not isinstance(values, dict):
            return values
        if values.get("form") == "simplified":
            return SIMPLIFIED | values
        maps = values.get("first_maps")
        whole = isinstance(maps, list | tuple) and all(isinstance(count, int) for count in maps)
        return ({"context": sum(maps)} | values) if maps and whole else values

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
            if len(self.first_widths) > 1:
                what = f"first_widths has {len(self.first_widths)} widths, but the simplified form has one first convolution"
                raise ValueError(f"{what}. Fix: give one width, such as [5]")
        self._check_first()
        return self

    def _check_first(self) -> None:
        """Raise ValueError if the maps of the first convolutions do not make up the context vector."""
        widths, maps = len(self.first_widths), self.first_maps
        if maps is not None and len(maps) != widths:
            what = f"first_maps and first_widths have different lengths, {len(maps)} and {widths}"
            raise ValueError(f"{what}. Fix: give one number of maps for each width")
        if maps is not None and sum(maps) != self.context:
            what = f"first_maps adds up to {sum(maps)}, but context is {self.context}"
            raise ValueError(f"{what}. Fix: remove head.context")
        if self.context < widths:
            what = f"context = {self.context} leaves no map for some of the {widths} first_widths"
            raise ValueError(f"{what}. Fix: raise context to at least {widths}")

    @property
    def first(self) -> tuple[tuple[int, int], ...]:
        """Return the width and the number of maps of each first convolution."""
        widths = len(self.first_widths)
        even = tuple(self.context // widths + (place < self.context % widths) for place in range(widths))
        return tuple(zip(self.first_widths, self.first_maps or even, strict=True))

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
            return PooledFilters(dim, self.filters, self.width, first_width=self.first_widths[0])
        if self.context > self.width * dim:
            raise LaminaError(
                f"head.context: {self.context}, but a filter of {self.width} tokens with {dim} values each uses at most "
                f"{self.width * dim}. Fix: lower head.context"
            )
        return ContextFilters(
            dim,
            self.filters,
            self.width,
            first=self.first,
            context_width=self.context_width,
            pool=self.pool,
            tile=self.tile,
        )
