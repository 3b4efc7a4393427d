"""The encoder: embeddings, then L post-norm transformer blocks (BERT; Devlin et al. 2019, after Vaswani et al. 2017).

One module serves BERT, ELECTRA, ALBERT, RoBERTa/XLM-R and DistilBERT. `EncoderConfig` holds their differences.
Departures from the checkpoints' own code:

- Attention probabilities have no dropout by default. On a CPU, dropout there disables the fused attention, and its random
  numbers cost more than the matrix products.
- Dropout follows the embeddings, the attention's output and the feed-forward's output in every family. ALBERT has no
  dropout at the last place and DistilBERT none at the second; in evaluation there is no difference.
- Positions count tokens from the left. RoBERTa's own code skips padding when it counts, which is the same for padding
  on the right.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from torch import Tensor, nn

from lamina.data.hidden_states import HiddenStack
from lamina.encoder.linear import Linear, linear

Family = Literal["bert", "electra", "albert", "roberta", "distilbert"]
Activation = Literal["gelu", "gelu_new", "relu"]


@dataclass(frozen=True)
class EncoderConfig:
    """The shape of an encoder: all values that are needed to build it, without the source of its weights."""

    family: Family
    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocab: int
    positions: int  # rows of the position table, with those that `position_offset` skips
    types: int  # 0: no token types (DistilBERT)
    embedding: int  # width of the embedding tables
    eps: float = 1e-12
    activation: Activation = "gelu"
    pad_id: int = 0
    position_offset: int = 0  # the first token's row of the position table (RoBERTa: pad_id + 1)
    dropout: float = 0.1
    attention_dropout: float = 0.0
    shared: bool = False  # ALBERT: one block's weights serve all layers
    pooler: bool = True

    @property
    def projected(self) -> bool:
        """Return whether a linear map leads from the embeddings to the blocks. ALBERT always has one."""
        return self.embedding != self.hidden or self.family == "albert"

    @property
    def max_length(self) -> int:
        """Return the largest number of tokens in a row that the position table supports."""
        return self.positions - self.position_offset

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> EncoderConfig:
        """Return the shape of these values. Values that are no shape raise ValueError with their first problem."""
        try:
            return cls(**_Shape.model_validate(values).model_dump())
        except ValidationError as error:
            problems = error.errors()  # an unknown field comes first: the file may be of another version
            problem = next((one for one in problems if one["type"] == "extra_forbidden"), problems[0])
        place = "".join(f"{part}: " for part in problem["loc"])
        raise ValueError(place + problem["msg"].removeprefix("Value error, "))


Size = Annotated[int, Field(ge=1, le=2**24)]
Probability = Annotated[float, Field(ge=0, lt=1)]


class _Shape(BaseModel):
    """The checked values of an `EncoderConfig`, whose fields have its names and defaults."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    family: Family
    layers: Annotated[int, Field(ge=1, le=1024)]
    hidden: Size
    heads: Size
    intermediate: Size
    vocab: Size
    positions: Size
    types: Annotated[int, Field(ge=0, le=2**24)]
    embedding: Size
    eps: Annotated[float, Field(gt=0)] = 1e-12
    activation: Activation = "gelu"
    pad_id: Annotated[int, Field(ge=0)] = 0
    position_offset: Annotated[int, Field(ge=0)] = 0
    dropout: Probability = 0.1
    attention_dropout: Probability = 0.0
    shared: bool = False
    pooler: bool = True

    @model_validator(mode="after")
    def _fits(self) -> _Shape:
        if self.hidden % self.heads:
            raise ValueError(f"a hidden size of {self.hidden} is not a multiple of {self.heads} heads")
        if self.pad_id >= self.vocab or self.position_offset >= self.positions:
            raise ValueError("the padding token or the first position is outside its table")
        return self


class Dropout(nn.Module):
    """Dropout that is cheap on a CPU: 16 random bits decide about each value.

    Torch's dropout draws a whole random number for each value, which takes a twentieth of a training step or more. The
    probability is rounded to a multiple of 2^-16. The random bits come from torch's default generator.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)  # 64 bits for four values
        noise = draws.view(torch.int16)[: x.numel()].view(x.shape)  # uniform over the 2^16 values of an int16
        keep = noise >= round(self.p * 2**16) - 2**15
        return x * keep.to(x.dtype).mul_(1 / (1 - self.p))

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Embeddings(nn.Module):
    """Sum of word, position and type vectors, normalised, and mapped to the width of the blocks if that differs."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.offset = config.position_offset
        self.max_length = config.max_length
        self.word = table(config.vocab, config.embedding)
        self.position = table(config.positions, config.embedding)
        self.segment = table(config.types, config.embedding) if config.types else None
        self.norm = nn.LayerNorm(config.embedding, eps=config.eps)
        self.dropout = Dropout(config.dropout)
        self.projection = Linear(config.embedding, config.hidden) if config.projected else nn.Identity()

    def forward(self, ids: Tensor, type_ids: Tensor) -> Tensor:
        length = ids.shape[1]
        if length > self.max_length:
            raise ValueError(f"the rows have {length} tokens, but the encoder's position table ends at {self.max_length}")
        x = self.word(ids)  # [R, T, E]
        x = x + self.position.weight[self.offset : self.offset + length]  # a slice: every row has the same positions
        if self.segment is not None:
            x = x + self.segment(type_ids)
        projected: Tensor = self.projection(self.dropout(self.norm(x)))  # [R, T, H]
        return projected


def table(rows: int, width: int) -> nn.Embedding:
    """Return an embedding that `initialise` fills; torch's own initialisation takes a second under the meta device."""
    return nn.Embedding(rows, width, _weight=torch.empty(rows, width))


class SelfAttention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.attention_dropout
        self.query = Linear(config.hidden, config.hidden)
        self.key = Linear(config.hidden, config.hidden)
        self.value = Linear(config.hidden, config.hidden)
        self.output = Linear(config.hidden, config.hidden)

    def forward(self, x: Tensor, mask: Tensor | None, updates: nn.ModuleDict) -> Tensor:
        """Return the output of the attention, [R, T, H].

        ``mask`` is [R, 1, 1, T], True on the keys that may be seen; None means all of them, which is faster.
        ``updates`` are added to the projections of the same names (LoRA).
        """
        parts = (self.query, self.key, self.value)
        weight, bias = torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
        projected = linear(x, weight, bias).chunk(3, -1)  # one product is faster than three
        query, key, value = (
            self.split(part + updates[name](x) if name in updates else part)
            for name, part in zip(("query", "key", "value"), projected, strict=True)
        )
        mixed = self.mix(query, key, value, mask).transpose(1, 2).flatten(2)  # [R, T, H]
        output = self.output(mixed)
        mixed_output: Tensor = output + updates["output"](mixed) if "output" in updates else output
        return mixed_output

    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Return the mixed values of each head, [R, A, T, H/A].

        On a CPU they are always float32: there, the backward pass of the fused attention is 2 to 3 times slower in bfloat16.
        """
        dropout = self.dropout if self.training else 0.0
        if query.device.type != "cpu" or query.dtype == torch.float32:
            return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        with torch.autocast("cpu", enabled=False):
            return F.scaled_dot_product_attention(query.float(), key.float(), value.float(), attn_mask=mask, dropout_p=dropout)

    def split(self, x: Tensor) -> Tensor:
        """Return a view of x, [R, T, H], as [R, A, T, H/A]."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


class Slots(nn.Module):
    """Modules inserted into one layer: after its attention, after its feed-forward network, and updates of its projections."""

    def __init__(self) -> None:
        super().__init__()
        self.attention: nn.Module = nn.Identity()
        self.feed_forward: nn.Module = nn.Identity()
        self.updates = nn.ModuleDict()  # updates of the attention's projections, by name


EMPTY = Slots()


def drops(module: nn.Module) -> bool:
    """Return whether two forward passes through a module differ because of dropout, in its current mode."""
    live = [part for part in module.modules() if part.training]
    return any(
        (isinstance(part, Dropout) and part.p > 0) or (isinstance(part, SelfAttention) and part.dropout > 0) for part in live
    )


class Block(nn.Module):
    """Attention, then the feed-forward network; each is added to its input and the sum is normalised (post-norm)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden, eps=config.eps)
        self.up = Linear(config.hidden, config.intermediate)
        self.activation = activation(config.activation)
        self.down = Linear(config.intermediate, config.hidden)
        self.output_norm = nn.LayerNorm(config.hidden, eps=config.eps)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None, slots: Slots | None = None) -> Tensor:
        slots = slots or EMPTY
        attended = slots.attention(self.dropout(self.attention(x, mask, slots.updates)))
        x = self.attention_norm(x + attended)  # [R, T, H]
        inner = self.activation(self.up(x))  # [R, T, I]
        output: Tensor = self.output_norm(x + slots.feed_forward(self.dropout(self.down(inner))))  # [R, T, H]
        return output


def activation(name: Activation) -> nn.Module:
    """Return the activation module. `gelu_new` is the tanh approximation that ALBERT was trained with."""
    return {"gelu": nn.GELU(), "gelu_new": nn.GELU(approximate="tanh"), "relu": nn.ReLU()}[name]


class Encoder(nn.Module):
    """Embeddings and blocks. Layer 0 is the output of the embeddings, layer i the output of block i.

    ``blocks`` holds each set of weights once, so ALBERT has one block there; ``layers`` has one entry per layer.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(1 if config.shared else config.layers))
        self.pooler = nn.Linear(config.hidden, config.hidden) if config.pooler else None
        self.adapters = nn.ModuleDict()  # the Slots of layers "1", "2", …; layers without inserted modules have none
        self.cut = -1  # the layers up to this one are frozen and stay in eval mode; see `freezing.prepare`
        self.apply(initialise)

    @property
    def layers(self) -> list[Block]:
        """Return the block of each layer 1..L, in order."""
        blocks = cast(list[Block], list(self.blocks))
        return blocks * self.config.layers if self.config.shared else blocks

    def slots(self, layer: int) -> Slots | None:
        """Return the modules inserted into a layer 1..L, or None."""
        return cast(Slots, self.adapters[str(layer)]) if str(layer) in self.adapters else None

    def train(self, mode: bool = True) -> Encoder:
        super().train(mode)
        if self.cut >= 0:
            self.embeddings.eval()
        for layer in range(1, self.cut + 1):
            self.layers[layer - 1].eval()
        return self

    def embed(self, ids: Tensor, type_ids: Tensor) -> Tensor:
        """Return the states of layer 0: [R, T] -> [R, T, H]."""
        embedded: Tensor = self.embeddings(ids, type_ids)
        return embedded

    def forward(
        self, x: Tensor, mask: Tensor, *, start: int = 0, keep: Collection[int] | None = None, pool: bool = False
    ) -> HiddenStack:
        """Run the blocks above layer ``start`` on ``x``, the states of that layer, and return the layers in ``keep``.

        ``keep`` None means the last layer only. Blocks above the highest kept layer are not computed. ``pool`` adds the pooled
        vector, tanh of the pooler on the first token's last state; it needs all blocks.
        """
        depth = self.config.layers
        wanted = {depth} if keep is None else set(keep)
        if outside := sorted(layer for layer in wanted if not start <= layer <= depth):
            raise ValueError(
                f"keep: layers {outside} are not computed; a pass from layer {start} has layers {start} to {depth}"
            )
        if pool and self.pooler is None:
            raise ValueError("pool: this encoder has no pooler")

        key_mask = None if bool(mask.all()) else mask[:, None, None, :]  # [R, 1, 1, T]
        kept = {start: x} if start in wanted else {}
        last = depth if pool else max(wanted, default=start)
        for layer, block in enumerate(self.layers[start:last], start + 1):
            x = block(x, key_mask, self.slots(layer))  # [R, T, H]
            if layer in wanted:
                kept[layer] = x
        pooled = torch.tanh(self.pooler(x[:, 0])) if pool and self.pooler is not None else None  # [R, H]
        return HiddenStack(tuple(kept), tuple(kept.values()), mask, depth, pooled)


def initialise(module: nn.Module) -> None:
    """Set random weights as BERT does: normal(0, 0.02), biases 0; norms start as the identity.

    Under the meta device there is nothing to fill, and torch would import its compiler, which takes a second.
    """
    if isinstance(module, nn.Linear | nn.Embedding) and not module.weight.is_meta:
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.LayerNorm):
        module.reset_parameters()
