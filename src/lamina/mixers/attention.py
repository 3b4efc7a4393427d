"""Mixers that attend to the layers of each token with the head's own query vectors.

Paper: Silva, "Intermediate pretrained contextual embedding models" (000). For a query q of the head and a token's states
h_1 ... h_L

    dot:             w_i = softmax_i(q . h_i)        v = sum_i w_i h_i
    multiplicative:  w_i = softmax_i(q W h_i)        v = sum_i w_i h_i        W starts as the identity, so as dot
    encoder:         a transformer block with a query computed from q, and keys and values computed from the h_i

The head's logit is q . v. The query is a parameter of the head; the mixer receives it and does not register it again.
The first two have no scale.

Each query has its own mixture v:
- Span: the queries are the rows S and E, as in the paper.
- Answerability and classification: the query of a class is its row, so each class reads its own mixture of layers.
- Regression: the query is its one row.
- Cosine and concatenation learn one query, cacnn learns two. They have no row whose product with v is an output.

The paper has spans only, and asks whether dot attention helps other tasks. With the rows as queries, dot adds no parameters
to classification either.

The paper leaves some choices open. Here each query has its own W (`shared`: one W for all). The block adds its attention
output to the last layer's state, which keeps the identity of the token. All queries use the same weights of the block.

Departures of the block:
- Its keys have no bias, since the softmax over them cancels it.
- The projection of the keys is folded into the query: q' = K^T Q q, one vector per attention head for all tokens. So no
  layer's states are projected to keys.
- The attention probabilities have no dropout, as by default in Lamina's encoders (see `encoder.blocks`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from lamina.data.hidden_states import HiddenStack
from lamina.encoder.blocks import Dropout
from lamina.errors import LaminaError
from lamina.mixers.pooling import weighted_sum
from lamina.mixers.shape import Shape
from lamina.utils.options import Options


class TokenSum(torch.autograd.Function):
    """out_q(t) = sum_i w_qi(t) h_i(t) for weights [R, Q, T, n] and n states [R, T, H]: [R, Q, T, H].

    The states are never stacked; the backward pass keeps only them and the weights.
    """

    @staticmethod
    def forward(ctx: Any, weights: Tensor, *states: Tensor) -> Tensor:
        ctx.save_for_backward(weights, *states)
        return weighted_sum(weights, states)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weights, *states = ctx.saved_tensors
        (grad,) = grads  # [R, Q, T, H]
        of_weights = token_products(grad, states) if ctx.needs_input_grad[0] else None
        by_query = grad.unbind(1)  # [R, T, H] each
        by_layer = weights.transpose(1, 3).unsqueeze(2).unbind(1)  # [R, 1, T, Q] each
        of_states = [
            weighted_sum(own, by_query).squeeze(1) if needed else None
            for own, needed in zip(by_layer, ctx.needs_input_grad[1:], strict=True)
        ]
        return of_weights, *of_states


def token_sum(weights: Tensor, states: Sequence[Tensor]) -> Tensor:
    """Return `TokenSum` of weights and states, [R, Q, T, H]."""
    summed: Tensor = TokenSum.apply(weights, *states)  # type: ignore[no-untyped-call]
    return summed


def token_products(grad: Tensor, states: Sequence[Tensor]) -> Tensor:
    """Return g_q(t) . h_i(t): [R, Q, T, H] and n of [R, T, H] -> [R, Q, T, n]."""
    return torch.stack([(grad * state.unsqueeze(1)).sum(-1) for state in states], -1)


def attention(queries: Tensor, states: Sequence[Tensor]) -> Tensor:
    """Return softmax_i(q . h_i) of every token: [Q, H] and n of [R, T, H] -> [R, Q, T, n]."""
    scores = torch.stack([F.linear(state, queries) for state in states], -1)  # [R, T, Q, n]
    return scores.softmax(-1).transpose(1, 2)


class LayerAttention(nn.Module):
    """A mixer that needs the head's queries; it returns one mixture for each query."""

    def __init__(self, hidden: int, layers: tuple[int, ...]) -> None:
        super().__init__()
        self.width = hidden
        self.layers = layers

    def given(self, stack: HiddenStack, queries: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """Return the queries [Q, H] and the states to attend to, [R, T, H] each, in the queries' type."""
        if queries is None:
            raise ValueError("queries: this mixer attends with the head's queries, but the head has none")
        return queries, [stack.layer(layer).to(queries.dtype) for layer in self.layers]


class Attention(LayerAttention):
    """sum_i softmax_i(turn(q) . h_i) h_i, where `turn` maps the queries: nn.Identity() for dot, or `Bilinear`."""

    def __init__(self, hidden: int, layers: tuple[int, ...], turn: nn.Module) -> None:
        super().__init__(hidden, layers)
        self.turn = turn

    def weights(self, stack: HiddenStack, queries: Tensor | None) -> Tensor:
        """Return the weight of each layer for each token, [R, Q, T, n]."""
        given, states = self.given(stack, queries)
        return attention(self.turn(given), states)

    def forward(self, stack: HiddenStack, queries: Tensor | None = None) -> Tensor:
        given, states = self.given(stack, queries)
        return token_sum(attention(self.turn(given), states), states)  # [R, Q, T, H]


class Bilinear(nn.Module):
    """q W for every query, [Q, H] -> [Q, H]; `sets` is 1, or Q if each query has its own W.

    The parameter is W minus the identity, so weight decay pulls W to its start and not to 0.
    """

    def __init__(self, hidden: int, sets: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(sets, hidden, hidden))

    def forward(self, queries: Tensor) -> Tensor:
        return queries + torch.matmul(queries.unsqueeze(1), self.weight).squeeze(1)  # [Q, 1, H] and [sets, H, H]


class DotOptions(Options):
    """Options of the mixer "dot"."""

    several: ClassVar[bool] = True
    type: Literal["dot"] = "dot"
    """Attend over the layers with the head's vectors as queries, without parameters."""
    embeddings: bool = False
    """Include layer 0, the output of the embeddings."""

    def build(self, shape: Shape) -> Attention:
        return Attention(shape.hidden, shape.layers(embeddings=self.embeddings), nn.Identity())


class MultiplicativeOptions(Options):
    """Options of the mixer "multiplicative"."""

    several: ClassVar[bool] = True
    type: Literal["multiplicative"] = "multiplicative"
    """Attend over the layers with a trained matrix between query and state."""
    shared: bool = False
    """Use one matrix for all queries instead of one for each."""
    embeddings: bool = False
    """Include layer 0, the output of the embeddings."""

    def build(self, shape: Shape) -> Attention:
        turn = Bilinear(shape.hidden, 1 if self.shared else shape.queries)
        return Attention(shape.hidden, shape.layers(embeddings=self.embeddings), turn)


# ---- the encoder block over layers


class FeatureProjection(nn.Linear):
    """A linear map that starts as BERT's: normal(0, 0.02), bias 0."""

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:  # the meta device has no values, see `SpanHead`
            nn.init.normal_(self.weight, std=0.02)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class LayerEncoder(LayerAttention):
    """One post-norm transformer block per token: it attends to the token's layers and adds the result to the last one."""

    def __init__(self, hidden: int, layers: tuple[int, ...], *, heads: int, dropout: float) -> None:
        super().__init__(hidden, layers)
        self.heads = heads
        self.query = FeatureProjection(hidden, hidden)
        self.key = FeatureProjection(hidden, hidden, bias=False)
        self.value = FeatureProjection(hidden, hidden)
        self.output = FeatureProjection(hidden, hidden)
        self.attention_norm = nn.LayerNorm(hidden, eps=1e-12)
        self.up = FeatureProjection(hidden, 4 * hidden)
        self.down = FeatureProjection(4 * hidden, hidden)
        self.output_norm = nn.LayerNorm(hidden, eps=1e-12)
        self.dropout = Dropout(dropout)

    def folded(self, queries: Tensor) -> Tensor:
        """Return the vectors to multiply the states with, one per query and attention head: [Q, H] -> [Q * A, H]."""
        size = self.width // self.heads
        asked = self.query(queries).view(-1, self.heads, size)  # [Q, A, d]; A attention heads of size d
        keys = self.key.weight.view(self.heads, size, self.width)  # [A, d, H]
        return torch.einsum("qad,adh->qah", asked, keys).flatten(0, 1) / math.sqrt(size)

    def by_head(self, queries: Tensor, states: Sequence[Tensor]) -> Tensor:
        """Return the weights that each attention head gives to the layers: [R, Q, A, T, n]."""
        weights = attention(self.folded(queries), states)  # [R, Q * A, T, n]
        return weights.view(weights.shape[0], -1, self.heads, *weights.shape[2:])

    def weights(self, stack: HiddenStack, queries: Tensor | None) -> Tensor:
        """Return the weight of each layer for each token, the mean over the attention heads: [R, Q, T, n]."""
        return self.by_head(*self.given(stack, queries)).mean(2)

    def forward(self, stack: HiddenStack, queries: Tensor | None = None) -> Tensor:
        given, states = self.given(stack, queries)
        attended = self.output(self._attend(given, states))  # [R, Q, T, H]
        last = stack.layer(stack.depth).to(given.dtype).unsqueeze(1)  # [R, 1, T, H]
        x = self.attention_norm(last + self.dropout(attended))
        inner = F.gelu(self.up(x))  # [R, Q, T, 4H]
        normed: Tensor = self.output_norm(x + self.dropout(self.down(inner)))
        return normed

    def _attend(self, queries: Tensor, states: Sequence[Tensor]) -> Tensor:
        """Return the mixture of values, [R, Q, T, H]; each attention head mixes its own slice."""
        weights = self.by_head(queries, states).transpose(2, 3).flatten(2, 3)  # [R, Q, T * A, n]
        size = self.width // self.heads
        values = [self.value(state).view(state.shape[0], -1, size) for state in states]  # [R, T * A, d] each
        mixed = token_sum(weights, values)  # [R, Q, T * A, d]
        return mixed.reshape(*mixed.shape[:2], -1, self.width)


def fitting_heads(hidden: int) -> int:
    """Return the paper's 12 heads, or the largest smaller number that divides the width.

    >>> fitting_heads(768), fitting_heads(64)
    (12, 8)
    """
    return max(heads for heads in range(1, 13) if hidden % heads == 0)


class LayerEncoderOptions(Options):
    """Options of the mixer "encoder". Without `heads` it is `fitting_heads` of the hidden size."""

    several: ClassVar[bool] = True
    type: Literal["encoder"] = "encoder"
    """Run a transformer block over the layers of each token."""
    heads: int | None = Field(default=None, ge=1)
    """Number of attention heads; without it, 12 or the next smaller number that divides the hidden size."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Probability of dropout in the block, from 0 to below 1."""
    embeddings: bool = False
    """Include layer 0, the output of the embeddings."""

    def build(self, shape: Shape) -> LayerEncoder:
        heads = self.heads or fitting_heads(shape.hidden)
        if shape.hidden % heads:
            raise LaminaError(
                f"mixer.heads: {heads} does not divide the encoder's hidden size of {shape.hidden}. "
                f"Fix: choose a divisor, or remove mixer.heads for {fitting_heads(shape.hidden)}"
            )
        return LayerEncoder(shape.hidden, shape.layers(embeddings=self.embeddings), heads=heads, dropout=self.dropout)
