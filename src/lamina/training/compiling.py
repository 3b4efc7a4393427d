"""`torch.compile` for the layers of an encoder (`train.compile`)."""

from __future__ import annotations

from lamina.encoder.blocks import Encoder


def compile_layers(encoder: Encoder, backend: str = "inductor") -> None:
    """Compile each block when it first runs. Its weights keep their names, so checkpoints do not change.

    Rows and tokens of a batch vary, so the shapes are dynamic.
    """
    for block in encoder.blocks:
        block.compile(backend=backend, dynamic=True)
