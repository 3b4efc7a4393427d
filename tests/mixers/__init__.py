"""Random stacks with padding, and counts of parameters, for the tests of the mixers."""

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
    """Return every layer of an encoder of that shape; row r has r tokens of padding."""
    generator = torch.Generator().manual_seed(1)
    layers = tuple(range(shape.depth + 1))
    states = tuple(torch.randn(rows, tokens, shape.hidden, generator=generator).to(dtype).requires_grad_(grad) for _ in layers)
    mask = torch.arange(tokens) < tokens - torch.arange(rows)[:, None]
    return HiddenStack(layers, states, mask, shape.depth)


def count(options: MixerOptions, shape: Shape = BERT_LARGE, *, statistics: bool = False) -> int:
    """Return the number of parameters of a mixer and its two-row head; `statistics` adds those of batch normalisations."""
    with torch.device("meta"):
        mixer = options.build(shape)
        parts: list[nn.Module] = [mixer, SpanHead(mixer.width)]
    total = sum(parameter.numel() for part in parts for parameter in part.parameters())
    return total + statistics * sum(buffer.numel() for buffer in mixer.buffers() if buffer.is_floating_point())


def assert_gradients(mixer: nn.Module, stack: HiddenStack, mixed: Tensor) -> None:
    """Assert that gradients reach every parameter, and only the states of real tokens. `stack` needs ``grad=True``."""
    mixed[:, 0][stack.mask].square().sum().backward()
    for parameter in mixer.parameters():
        assert parameter.grad is not None and parameter.grad.any()
    for layer in cast(tuple[int, ...], mixer.layers):
        gradient = stack.layer(layer).grad
        assert gradient is not None
        assert torch.equal(gradient.any(-1), stack.mask), "real tokens only"
