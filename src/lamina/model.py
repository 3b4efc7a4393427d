"""Model: one encoder and, for each task, a mixer and a head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from torch import Tensor, nn

from lamina.data.batches import Batch
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
    def __init__(self, encoder: Encoder, tasks: Mapping[str, Task]) -> None:
        super().__init__()
        self.encoder = encoder
        self.tasks = nn.ModuleDict(tasks)

    def forward(self, batch: Batch, task: str = "main", *, x: Tensor | None = None) -> Outputs:
        """`x` replaces the embeddings' output (adversarial terms perturb it)."""
        part = cast(Task, self.tasks[task])
        if x is None:
            x = self.encoder.embed(batch.ids, batch.type_ids)  # [R, T, H]
        stack = self.encoder(x, batch.mask, keep=part.mixer.layers)
        return part.head(part.mixer(stack, part.head.queries()), batch)
