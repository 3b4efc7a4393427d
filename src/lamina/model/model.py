"""The model: one encoder and, for each task, a mixer and a head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast

import torch
from torch import Tensor, nn

from lamina.data.batches import Batch
from lamina.data.hidden_states import POOLED, HiddenStack
from lamina.encoder.blocks import Encoder
from lamina.heads import Head, Outputs
from lamina.mixers import Mixer


class Task(nn.Module):
    """A mixer and the head that reads its vectors."""

    mixer: Mixer
    head: Head

    def __init__(self, mixer: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.mixer = cast(Mixer, mixer)
        self.head = cast(Head, head)


class Model(nn.Module):
    """One encoder with the mixers and heads of all tasks.

    `precision` is the number format of `inference`. Training has its own, and the weights are float32 in either case.
    """

    precision = torch.float32

    def __init__(self, encoder: Encoder, tasks: Mapping[str, Task]) -> None:
        super().__init__()
        self.encoder = encoder
        self.tasks = nn.ModuleDict(tasks)

    def task(self, name: str = "main") -> Task:
        """Return the mixer and the head of a task."""
        return cast(Task, self.tasks[name])

    def forward(self, batch: Batch, task: str = "main", *, x: Tensor | None = None) -> Outputs:
        """Return the outputs of a task. `x` [R, T, H] replaces the output of the embeddings, for adversarial terms."""
        return self.task(task).head(self.vectors(batch, task, x=x), batch)

    def vectors(self, batch: Batch, task: str = "main", *, x: Tensor | None = None) -> Tensor:
        """Return the token vectors of a task's mixer, [R, Q, T, D]."""
        part = self.task(task)
        stack = self.hidden(batch, part.mixer.layers, x)
        if part.head.positions == "cls":
            stack = stack.cls()
        return part.mixer(stack, part.head.queries())

    def hidden(self, batch: Batch, keep: tuple[int, ...], x: Tensor | None = None) -> HiddenStack:
        """Return the layers in `keep`. If the batch has stored states, only the blocks above them are computed."""
        stored = batch.states
        if stored is None:
            start, below = 0, []
            x = self.encoder.embed(batch.ids, batch.type_ids) if x is None else x  # [R, T, H]
        elif x is not None:
            raise ValueError("x replaces the embeddings, but this batch has stored states above them")
        else:
            start, x = stored.layers[-1], stored.states[-1]
            below = [layer for layer in keep if 0 <= layer < start]
        wanted = [layer for layer in keep if layer >= start]
        stack: HiddenStack = self.encoder(x, batch.mask, start=start, keep=wanted, pool=POOLED in keep)
        if stored is not None and below:
            stack = stack.with_lowest(below, [stored.layer(layer) for layer in below])
        if POOLED in keep and stack.pooled is not None:
            stack = stack.with_lowest([POOLED], [stack.pooled[:, None]])  # [R, 1, H]
        return stack

    def head_positions(self, task: str = "main") -> Literal["tokens", "cls"]:
        """Return whether the head of a task reads every token or only the first."""
        return self.task(task).head.positions

    def stored_layers(self, task: str = "main", *, cut: int | None = None) -> tuple[int, ...]:
        """Return the layers that a store must hold so that no frozen layer is computed.

        These are the layers that the mixer needs; the cut replaces those above it.
        """
        cut = self.encoder.cut if cut is None else cut
        needed = (self.encoder.config.layers if k == POOLED else k for k in self.task(task).mixer.layers)
        return tuple(sorted({min(layer, cut) for layer in needed}))
