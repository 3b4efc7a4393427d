"""What the tests of the mixers share: random stacks with padding, and counting."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from lamina.data.hidden_states import HiddenStack
from lamina.heads import SpanHead
from lamina.mixers import MixerOptions, Shape

BERT_LARGE = Shape(1024, 24, 2)


def random_stack(
    shape: Shape, *, rows: int = 3, tokens: int = 5, dtype: torch.dtype = torch.float32, grad: bool = False
) -> HiddenStack:
    """Every layer of an encoder of that shape; row r has r tokens of padding."""
    generator = torch.Generator().manual_seed(1)
    layers = tuple(range(shape.depth + 1))
    states = tuple(torch.randn(rows, tokens, shape.hidden, generator=generator).to(dtype).requires_grad_(grad) for _ in layers)
    mask = torch.arange(tokens) < tokens - torch.arange(rows)[:, None]
    return HiddenStack(layers, states, mask, shape.depth)


def count(options: MixerOptions, shape: Shape = BERT_LARGE, *, statistics: bool = False) -> int:
    """The parameters of a mixer and the two-row head on it; with `statistics`, those of batch normalisations too."""
    with torch.device("meta"):
        mixer = options.build(shape)
        parts: list[nn.Module] = [mixer, SpanHead(mixer.width)]
    total = sum(parameter.numel() for part in parts for parameter in part.parameters())
    return total + statistics * sum(buffer.numel() for buffer in mixer.buffers() if buffer.is_floating_point())


def assert_gradients(mixer: nn.Module, stack: HiddenStack, mixed: Tensor) -> None:
    """They reach every parameter, and of the states those of real tokens only. `stack` was made with ``grad=True``."""
    mixed[:, 0][stack.mask].square().sum().backward()  # type: ignore[no-untyped-call]
    for parameter in mixer.parameters():
        assert parameter.grad is not None and parameter.grad.any()
    for layer in cast(tuple[int, ...], mixer.layers):
        gradient = stack.layer(layer).grad
        assert gradient is not None
        assert torch.equal(gradient.any(-1), stack.mask), "real tokens only"
