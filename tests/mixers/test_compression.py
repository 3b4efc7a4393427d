from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lamina.data.hidden_states import HiddenStack
from lamina.mixers import Shape
from lamina.mixers.compression import CompressionOptions, SeparateDense, SharedDense
from lamina.mixers.pooling import AverageOptions
from tests.mixers import assert_gradients, count, random_stack

SHAPE = Shape(8, 3, 2)
ALL = [
    CompressionOptions(size=5),
    CompressionOptions(size=5, shared=False, skip=True),
    CompressionOptions(size=5, embeddings=False),
    CompressionOptions(size=5, pool="learned", skip=True),
    CompressionOptions(size=5, pool="average"),
]


def built(options: CompressionOptions, shape: Shape = SHAPE) -> Any:
    """Return a mixer with weights large enough for the curve of the GELU to matter."""
    torch.manual_seed(0)
    mixer = options.build(shape)
    for parameter in mixer.parameters():
        nn.init.normal_(parameter)
    return mixer


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def one_by_one(mixer: Any, stack: HiddenStack, *, shared: bool) -> Tensor:
    """Return the result of one product for every token and layer."""
    dense, rows = mixer.dense, []
    for r, t in torch.ones_like(stack.mask).nonzero().tolist():
        parts = []
        for place, layer in enumerate(mixer.layers):
            weight = dense.weight if shared else dense.weight[place].t()
            bias = dense.bias if shared else dense.bias.view(len(mixer.layers), -1)[place]
            parts.append(gelu(weight @ stack.layer(layer)[r, t].float() + bias))
        rows.append(torch.cat(parts))
    return torch.stack(rows).view(*stack.mask.shape, -1).unsqueeze(1)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("embeddings", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_every_token_and_layer_is_compressed(shared: bool, embeddings: bool, dtype: torch.dtype) -> None:
    mixer = built(CompressionOptions(size=5, shared=shared, embeddings=embeddings))
    stack = random_stack(SHAPE, dtype=dtype)
    layers = 4 if embeddings else 3
    assert (mixer.width, len(mixer.layers)) == (5 * layers, layers)
    mixed = mixer(stack)
    assert mixed.shape == (3, 1, 5, 5 * layers)
    torch.testing.assert_close(mixed, one_by_one(mixer, stack, shared=shared), atol=1e-5, rtol=1e-5)


def test_equal_weights_for_all_layers_equal_shared_weights() -> None:
    torch.manual_seed(0)
    shared, separate = SharedDense(8, 5), SeparateDense(4, 8, 5)
    with torch.no_grad():
        separate.weight.copy_(shared.weight.t().expand(4, -1, -1))
        separate.bias.copy_(shared.bias.repeat(4))
    states = torch.randn(3, 5, 4, 8)
    torch.testing.assert_close(separate(states), shared(states))


def test_layers_can_be_pooled_before_compression() -> None:
    stack = random_stack(SHAPE)
    mixer = built(CompressionOptions(size=5, pool="average"))
    mean = AverageOptions().build(SHAPE)(stack)
    torch.testing.assert_close(mixer(stack), gelu(mean @ mixer.dense.weight.t() + mixer.dense.bias))
    learned = built(CompressionOptions(size=5, pool="learned"))
    nn.init.zeros_(learned.pool.weight)
    nn.init.ones_(learned.pool.gamma)
    torch.testing.assert_close(learned(stack), gelu(mean @ learned.dense.weight.t() + learned.dense.bias))


@pytest.mark.parametrize("pool", [None, "average"])
def test_skip_appends_the_last_layer(pool: Any) -> None:
    stack = random_stack(SHAPE, dtype=torch.float16)
    mixer, plain = (built(CompressionOptions(size=5, pool=pool, skip=skip)) for skip in (True, False))
    assert mixer.width == plain.width + 8
    assert torch.equal(mixer(stack)[..., : plain.width], plain(stack))
    assert torch.equal(mixer(stack)[:, 0, :, plain.width :], stack.layer(3).float())


@pytest.mark.parametrize("options", ALL, ids=repr)
def test_a_stack_of_the_first_token_and_padding(options: CompressionOptions) -> None:
    mixer, stack = built(options), random_stack(SHAPE, grad=True)
    mixed = mixer(stack)
    torch.testing.assert_close(mixer(stack.cls()), mixed[:, :, :1])
    assert_gradients(mixer, stack, mixed)


@pytest.mark.parametrize("shared", [True, False])
def test_initial_weights(shared: bool) -> None:
    torch.manual_seed(0)
    mixer: Any = CompressionOptions(shared=shared).build(Shape(64, 3, 2))
    weight = mixer.dense.weight
    assert weight.abs().max() <= 2e-3
    assert weight.std().item() == pytest.approx(0.88e-3, rel=0.02)  # a normal of deviation 1e-3, cut at two deviations
    assert not mixer.dense.bias.any()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (CompressionOptions(), 414_952),
        (CompressionOptions(skip=True), 417_000),
        (CompressionOptions(shared=False), 9_910_552),
        (CompressionOptions(shared=False, skip=True), 9_912_600),
        (CompressionOptions(size=64), 68_802),
        (CompressionOptions(size=64, shared=False), 1_643_202),
        (CompressionOptions(pool="learned", skip=True), 398_498),
    ],
)
def test_the_counts_of_the_paper(options: CompressionOptions, wanted: int) -> None:
    assert count(options) == wanted


def test_separate_maps_with_a_pool_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shared = false has no effect\. Fix: remove one of them"):
        CompressionOptions(pool="average", shared=False)
