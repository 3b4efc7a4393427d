"""A trained model -> graphs in the format of ONNX, by tracing.

Torch's newer exporter, which analyses the code instead, refuses models whose code depends on values, such as "is there any
padding". So the tracing one is used. It needs the package `onnx` only. The example batch has padding and two lengths, so that
the general code is traced. Rows and tokens may have any number afterwards.
"""

from __future__ import annotations

import copy
import math
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from lamina.data.batches import Batch
from lamina.encoder.blocks import Block, Encoder, SelfAttention
from lamina.heads import SpanOutputs
from lamina.heads.sentence import SentenceHead
from lamina.model import Model
from lamina.runtime.manifest import Purpose
from lamina.utils.extras import needs

SPANS = ("start_logits", "end_logits")  # the outputs of a span head, as transformers names them
OPSET = 17  # onnxruntime, OpenVINO and transformers.js read it
PREFIX = "model."  # before the names of the weights in a traced graph
_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "context")


class PlainAttention(nn.Module):
    """The attention of a block, written with the operations that every engine has, and with the same weights."""

    def __init__(self, attention: SelfAttention) -> None:
        super().__init__()
        self.heads = attention.heads
        self.query, self.key, self.value, self.output = attention.query, attention.key, attention.value, attention.output

    def forward(self, x: Tensor, mask: Tensor | None, updates: nn.ModuleDict) -> Tensor:
        """Return the output of the attention, [R, T, H]. The arguments are those of `SelfAttention`."""
        parts = (self.query, self.key, self.value)
        weight, bias = torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
        width = self.query.weight.shape[0]
        projected = torch.split(nn.functional.linear(x, weight, bias), width, -1)
        query, key, value = (
            self._split(part + updates[name](x) if name in updates else part, width)
            for name, part in zip(("query", "key", "value"), projected, strict=True)
        )  # [R, A, T, H/A]
        scores = (query / math.sqrt(width // self.heads)) @ key.transpose(2, 3)  # [R, A, T, T]
        if mask is not None:
            scores = scores + torch.where(mask, 0.0, torch.finfo(torch.float32).min)
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(x.shape[0], -1, width)  # [R, T, H]
        output: Tensor = self.output(mixed)
        return output + updates["output"](mixed) if "output" in updates else output

    def _split(self, x: Tensor, width: int) -> Tensor:
        return x.reshape(x.shape[0], -1, self.heads, width // self.heads).transpose(1, 2)


class Outputs(nn.Module):
    """A model as a function of tensors: the inputs of a graph -> the outputs of a task's head, or the vectors of texts."""

    def __init__(self, model: Model, task: str, purpose: Purpose, sides: int) -> None:
        super().__init__()
        self.model = model
        self._task, self._purpose, self._sides = task, purpose, sides

    def forward(self, ids: Tensor, mask: Tensor, type_ids: Tensor, context: Tensor) -> tuple[Tensor, ...]:
        batch = Batch(ids, type_ids, mask.bool(), context, gold=ids[:, :2], windows=(), sides=self._sides)
        if self._purpose == "vectors":
            head = cast(SentenceHead, self.model.task(self._task).head)
            return (head.pooled(self.model.vectors(batch, self._task), batch),)
        found = self.model(batch, self._task)
        if isinstance(found, SpanOutputs):
            return found.start, found.end
        return tuple(getattr(found, one.name) for one in fields(found))

    @torch.no_grad()
    def names(self, ids: Tensor, mask: Tensor, type_ids: Tensor, context: Tensor) -> tuple[str, ...]:
        """Return the names of the outputs."""
        if self._purpose == "vectors":
            return ("vectors",)
        batch = Batch(ids, type_ids, mask.bool(), context, gold=ids[:, :2], windows=(), sides=self._sides)
        found = self.model(batch, self._task)
        return SPANS if isinstance(found, SpanOutputs) else tuple(one.name for one in fields(found))


def trace(model: Model, task: str, purpose: Purpose, *, sides: int) -> Any:
    """Return the graph of a task, as an `onnx.ModelProto` that holds its weights by the names of the model.

    Args:
        model: The model, in eval mode and on the CPU. It does not change.
        task: The name of the task.
        purpose: "outputs" for those of the head, "vectors" for the vector of each text.
        sides: How many windows an item of the task has.

    Raises:
        LaminaError: The package onnx is not installed.
    """
    with needs("export to ONNX", "onnx", extra="train"):
        import onnx
    whole = Outputs(with_plain_attention(model), task, purpose, sides if purpose == "outputs" else 1).eval()
    inputs = _example_batch(model.encoder)
    names = whole.names(*inputs)
    spans = {0: "rows", 1: "tokens"}
    axes = dict.fromkeys(_INPUTS, spans) | {name: spans if names == SPANS else {0: "items"} for name in names}
    with _quiet(), torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "graph.onnx"
        torch.onnx.export(
            whole,
            inputs,
            file,
            input_names=list(_INPUTS),
            output_names=list(names),
            dynamic_axes=axes,
            opset_version=OPSET,
            do_constant_folding=False,  # it would rename the weights
            dynamo=False,
        )
        return onnx.load_model(file)


def with_plain_attention(model: Model) -> Model:
    """Return a model with the same weights whose attention is `PlainAttention`."""
    shared = {id(parameter): parameter for parameter in [*model.parameters(), *model.buffers()]}
    found = copy.deepcopy(model, shared)  # the weights are not copied
    found.requires_grad_(False)
    for block in cast(list[Block], list(found.encoder.blocks)):
        block.attention = cast(SelfAttention, PlainAttention(block.attention))
    return found


def _example_batch(encoder: Encoder) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return four windows of different lengths; the context is the second half of each."""
    lengths = torch.tensor([12, 9, 12, 7])
    column = torch.arange(12)
    mask = column < lengths[:, None]  # [4, 12]
    ids = torch.where(mask, 1 + column % max(1, encoder.config.vocab - 1), encoder.config.pad_id)
    context = mask & (column >= 4) & (column < lengths[:, None] - 1)
    types = torch.where(context & torch.tensor(encoder.config.types > 1), 1, 0)
    return ids, mask.long(), types, context


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the warnings of the tracer: the traced code is the general one, as tests check."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
