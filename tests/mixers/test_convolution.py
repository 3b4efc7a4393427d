from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lamina.mixers import Shape
from lamina.mixers.convolution import (
    Convolution,
    ConvolutionOptions,
    Inception,
    InceptionOptions,
    Norm,
    XceptionOptions,
)
from tests.mixers import BERT_LARGE, assert_gradients, count, random_stack

SHAPE = Shape(16, 3, 2)
PLAIN = ConvolutionOptions(channels=(6, 4), dropout=0)
ALL: list[Any] = [
    PLAIN,
    ConvolutionOptions(channels=(2,), kernel=7, skip=True, embeddings=False),
    InceptionOptions(channels=3),
    InceptionOptions(channels=3, skip=True, embeddings=False),
    XceptionOptions(),
    XceptionOptions(skip=True, embeddings=False),
    XceptionOptions(size="span"),
]


def built(options: Any, shape: Shape = SHAPE) -> Any:
    torch.manual_seed(0)
    return options.build(shape).eval()


def convolved(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, stride: int = 1, groups: int = 1) -> Tensor:
    """Return a padded convolution, one product at a time: [C, W] -> [outer, W / stride]."""
    outer, inner, kernel = weight.shape
    padded = nn.functional.pad(x, (kernel // 2, kernel // 2))
    columns = []
    for start in range(0, x.shape[1], stride):
        window = padded[:, start : start + kernel]
        own = [window[(o * groups // outer) * inner :][:inner] for o in range(outer)]
        columns.append(torch.stack([(weight[o] * own[o]).sum() for o in range(outer)]))
    result = torch.stack(columns, 1)
    return result if bias is None else result + bias[:, None]


@pytest.mark.parametrize(("stride", "groups"), [(1, 1), (3, 1), (2, 1), (1, 4)])
@pytest.mark.parametrize("kernel", [1, 3, 5, 7])
def test_only_the_stride_changes_the_length(kernel: int, stride: int, groups: int) -> None:
    part = Convolution(4, 8, kernel, stride=stride, groups=groups)
    nn.init.normal_(part.bias)  # type: ignore[arg-type]
    x = torch.randn(2, 4, 11)
    for picture, result in zip(x, part(x), strict=True):
        wanted = convolved(picture, part.weight, part.bias, stride=stride, groups=groups)
        torch.testing.assert_close(result, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_plain(dtype: torch.dtype) -> None:
    mixer, stack = built(PLAIN), random_stack(SHAPE, dtype=dtype)
    mixed = mixer(stack)
    assert mixed.shape == (3, 1, 5, 4 * 16)
    parts = [part for part in mixer.network if isinstance(part, Convolution)]
    for r, t in stack.mask.nonzero().tolist():
        x = torch.stack([state[r, t].float() for state in stack.states])  # [layers, H]
        for part in parts:
            x = convolved(x, part.weight, part.bias).relu()
        torch.testing.assert_close(mixed[r, 0, t], x.flatten(), atol=1e-5, rtol=1e-5)


def test_inception() -> None:
    torch.manual_seed(0)
    block, x = Inception(4, 3), torch.randn(4, 9)
    for parameter in block.parameters():
        nn.init.normal_(parameter)
    padded = nn.functional.pad(x, (1, 1), value=-torch.inf)
    highest = torch.stack([padded[:, w : w + 3].amax(1) for w in range(9)], 1)
    parts: list[Any] = [*block.views, block.pooled]
    inputs = [x, x, x, highest]
    wanted = [convolved(given, part.weight, part.bias).relu() for given, part in zip(inputs, parts, strict=True)]
    torch.testing.assert_close(block(x[None])[0], torch.cat(wanted), atol=1e-5, rtol=1e-5)


def test_inception_averages_along_the_states_of_a_token() -> None:
    mixer, stack = built(InceptionOptions(channels=3)), random_stack(SHAPE)
    picture = torch.stack([state[0, 0] for state in stack.states])[None]
    wanted = mixer.network[1](mixer.network[0](picture)).mean(-1)[0]
    torch.testing.assert_close(mixer(stack)[0, 0, 0], wanted, atol=1e-5, rtol=1e-5)


def test_small_xception() -> None:
    """Compare layer by layer with the paper's list."""
    mixer, stack = built(XceptionOptions()), random_stack(SHAPE)
    for part in mixer.modules():
        if isinstance(part, Norm):
            for value in (part.weight, part.bias, part.running_mean):
                nn.init.normal_(value)  # type: ignore[arg-type]
            nn.init.uniform_(part.running_var, 0.5, 2.0)  # type: ignore[arg-type]
    convolutions = iter([part for part in mixer.modules() if isinstance(part, Convolution)])
    norms = iter([part for part in mixer.modules() if isinstance(part, Norm)])

    def normed(x: Tensor) -> Tensor:
        n: Any = next(norms)
        scale = n.weight / (n.running_var + n.eps).sqrt()
        result: Tensor = (x - n.running_mean[:, None]) * scale[:, None] + n.bias[:, None]
        return result

    def separable(x: Tensor) -> Tensor:
        each = convolved(x, next(convolutions).weight, groups=len(x))
        return convolved(each, next(convolutions).weight)

    with torch.no_grad():
        x = torch.stack([state[1, 2] for state in stack.states])  # [layers, H]
        x = normed(convolved(x, next(convolutions).weight, stride=3)).relu()
        x = normed(convolved(x, next(convolutions).weight)).relu()
        main = normed(separable(x)).relu()
        main = normed(separable(main))
        width = main.shape[1]
        pooled = [main[:, max(w - 1, 0) : w + 2].mean(1) for w in range(0, width, 2)]
        side = normed(convolved(x, next(convolutions).weight, stride=2))
        wanted = (torch.stack(pooled, 1) + side).mean(1)
        torch.testing.assert_close(mixer(stack)[1, 0, 2], wanted, atol=1e-5, rtol=1e-5)
    assert wanted.shape == (512,)


@pytest.mark.parametrize("options", ALL, ids=repr)
@pytest.mark.parametrize("training", [True, False])
def test_padding_changes_nothing(options: Any, training: bool) -> None:
    mixer, stack = built(options).train(training), random_stack(SHAPE)
    if training:
        for part in mixer.modules():
            part.p = 0.0  # no dropout
    noisy = replace(stack, states=tuple(torch.where(stack.mask[..., None], state, 1e3) for state in stack.states))
    wider = replace(
        stack,
        states=tuple(nn.functional.pad(state, (0, 0, 0, 4)) for state in stack.states),
        mask=nn.functional.pad(stack.mask, (0, 4)),
    )
    wanted = mixer(stack)[:, 0][stack.mask]
    torch.testing.assert_close(mixer(noisy)[:, 0][stack.mask], wanted)
    torch.testing.assert_close(mixer(wider)[:, 0][wider.mask], wanted)
    assert torch.isfinite(mixer(wider)).all()


@pytest.mark.parametrize("options", ALL, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_shapes_gradients_and_a_stack_of_the_first_token(options: Any, dtype: torch.dtype) -> None:
    mixer, stack = built(options), random_stack(SHAPE, dtype=dtype, grad=True)
    mixed = mixer(stack)
    assert mixed.shape == (3, 1, 5, mixer.width)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixer(stack.cls()), mixed[:, :, :1], atol=1e-5, rtol=1e-5)
    assert_gradients(mixer, stack, mixed)


@pytest.mark.parametrize("size", ["small", "span"])
def test_one_value_per_channel_trains(size: Any) -> None:
    shape = Shape(2, 1, 2)
    mixer = XceptionOptions(size=size).build(shape).train()
    mixed = mixer(random_stack(shape, rows=1, tokens=1))
    assert torch.isfinite(mixed).all()
    mixed.sum().backward()


def test_skip_appends_the_last_layer() -> None:
    mixer, stack = built(XceptionOptions(skip=True)), random_stack(SHAPE)
    assert mixer.width == 512 + 16
    assert torch.equal(mixer(stack)[:, 0, :, 512:], stack.layer(3))


def test_the_counts_of_the_paper() -> None:
    layers = Shape(1024, 25, 2)  # 26 channels, since the classifier reads the pooled state too
    assert count(XceptionOptions(), layers, statistics=True) == 267_010
    assert count(XceptionOptions(skip=True), layers, statistics=True) == 269_058
    assert count(XceptionOptions(), replace(BERT_LARGE, pooled=True), statistics=True) == 267_010


def test_our_counts() -> None:
    assert count(ConvolutionOptions()) == 36_754
    assert count(InceptionOptions()) == 49_474
    assert count(XceptionOptions(), statistics=True) == 266_818
    assert count(XceptionOptions(size="span"), statistics=True) == 6_208_490
    assert count(XceptionOptions(size="full"), statistics=True) == 20_716_538
