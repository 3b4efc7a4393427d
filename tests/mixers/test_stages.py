"""Mixers of several stages: each equals its stages called one by one, and orders without sense are refused."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from lamina.config.parse import parse_recipe
from lamina.data.hidden_states import POOLED, HiddenStack
from lamina.errors import LaminaError
from lamina.mixers import MixerOptions, Shape, Stages, StagesOptions, attends, weighing
from lamina.mixers.compression import CompressionOptions
from lamina.mixers.convolution import XceptionOptions
from lamina.mixers.mixer import InnerOptions
from lamina.mixers.pooling import LearnedOptions, WithLastLayer
from lamina.tasks.checks import build_on_meta
from tests.mixers import BERT_LARGE, assert_gradients, count, random_stack

SHAPE = Shape(16, 3, 2)
LEARNED, AVERAGE, LAST = ({"type": name} for name in ("learned", "average", "last"))
SMALL = {"type": "compression", "size": 6}
XCEPTION = {"type": "xception"}
LISTS: list[list[dict[str, Any]]] = [
    [LEARNED, SMALL],
    [LEARNED, SMALL, XCEPTION],
    [AVERAGE, SMALL, {"type": "convolution", "channels": [2], "dropout": 0}],
    [LAST, SMALL],
    [SMALL, {"type": "learned", "init": "random"}],
    [SMALL, AVERAGE],
    [SMALL | {"shared": False, "embeddings": False}, SMALL | {"size": 4}, XCEPTION],
    [SMALL | {"pool": "learned"}, {"type": "inception", "channels": 8}],
    [LEARNED, SMALL | {"skip": True}],
]


def built(stages: list[dict[str, Any]], shape: Shape = SHAPE, *, std: float = 0.5) -> Any:
    """Return a mixer in eval mode, with large random weights."""
    torch.manual_seed(0)
    mixer = StagesOptions.model_validate(stages).build(shape).eval()
    for parameter in mixer.parameters():
        nn.init.normal_(parameter, std=std)
    return mixer


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def test_the_papers_row_equals_its_stages_one_by_one() -> None:
    """Pool the layers, compress the one vector of each token, convolve its values."""
    stack = random_stack(SHAPE)
    mixer: Any = built([LEARNED, SMALL, XCEPTION])
    pool, dense, last = mixer.inner[0].mixer, mixer.inner[1].dense, mixer.last
    shares = pool.weight.softmax(0)
    for r, t in stack.mask.nonzero().tolist():
        vector = sum(shares[i] * pool.gamma[0] * stack.layer(i)[r, t] for i in range(4))
        narrow = gelu(dense.weight @ vector + dense.bias)  # [6]
        wanted = last.network(narrow[None, None])[0]  # one picture of one layer
        torch.testing.assert_close(mixer(stack)[r, 0, t], wanted, atol=1e-5, rtol=1e-4)


def test_compressed_layers_are_mixed_like_layers_of_an_encoder() -> None:
    """The mixer after a compression sees the same layer numbers, each of another width."""
    stack = random_stack(SHAPE)
    mixer: Any = built([SMALL, {"type": "learned", "init": "random"}])
    dense = mixer.inner[0].dense
    states = tuple(gelu(state @ dense.weight.t() + dense.bias) for state in stack.states)
    narrow = HiddenStack(stack.layers, states, stack.mask, stack.depth)
    assert mixer.last.layers == (0, 1, 2, 3)
    torch.testing.assert_close(mixer(stack), mixer.last(narrow))
    assert mixer(stack).shape == (3, 2, 5, 6), "start and end have their own weights in the last stage"


def test_pool_and_compression_in_stages_equal_the_option_pool() -> None:
    for pool in ("learned", "average"):
        stages, one = built([{"type": pool}, SMALL]), CompressionOptions(size=6, pool=pool).build(SHAPE)
        with torch.no_grad():
            for parameter, value in zip(one.parameters(), stages.parameters(), strict=True):
                parameter.copy_(value)
        torch.testing.assert_close(stages(random_stack(SHAPE)), one(random_stack(SHAPE)))


def test_a_skip_of_the_last_stage_appends_the_encoders_last_layer() -> None:
    mixer, stack = built([LEARNED, SMALL | {"skip": True}]), random_stack(SHAPE)
    assert isinstance(mixer, WithLastLayer)
    assert mixer.width == 6 + 16
    assert torch.equal(mixer(stack)[:, 0, :, 6:], stack.layer(3))


@pytest.mark.parametrize("stages", LISTS, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_shapes_gradients_and_a_stack_of_the_first_token(stages: list[dict[str, Any]], dtype: torch.dtype) -> None:
    mixer, stack = built(stages), random_stack(SHAPE, dtype=dtype, grad=True)
    mixed = mixer(stack)
    assert mixed.dtype == torch.float32
    assert mixed.shape == (3, mixed.shape[1], 5, mixer.width)
    torch.testing.assert_close(mixer(stack.cls()), mixed[:, :, :1], atol=1e-5, rtol=1e-5)
    mixed = mixed.mean(1, keepdim=True)
    if stages[0] != LAST:
        assert_gradients(mixer, stack, mixed)


@pytest.mark.parametrize("stages", [[LEARNED, SMALL], [SMALL, AVERAGE], [LAST, SMALL]], ids=repr)
def test_the_pooled_state_is_a_layer_of_the_first_stage(stages: list[dict[str, Any]]) -> None:
    shape = Shape(16, 3, 2, pooled=True)
    stack = random_stack(shape).cls()
    pooled = torch.randn(3, 1, 16)
    mixer = built(stages, shape)
    assert mixer.layers == ((POOLED,) if stages[0] == LAST else (POOLED, 0, 1, 2, 3))
    vectors = [mixer(stack.with_lowest([POOLED], [state])) for state in (pooled, 2 * pooled)]
    assert vectors[0].shape == (3, 1, 1, 6)
    assert not torch.allclose(*vectors)


def test_only_the_weights_of_layers_are_found() -> None:
    stack = random_stack(SHAPE)
    first, last = built([LEARNED, SMALL, XCEPTION]), built([SMALL, {"type": "learned", "init": "random"}])
    for mixer, learned in ((first, first.inner[0].mixer), (last, last.last)):
        found = weighing(mixer)
        assert found is not None
        assert found.layers == (0, 1, 2, 3)
        assert torch.equal(found.weights(stack, None), learned.mixture()[None, :, None])
    assert weighing(built([AVERAGE, SMALL])) is None
    dot = built([SMALL, {"type": "dot"}])
    queries, found = torch.randn(2, 6), weighing(dot)
    assert found is not None
    assert torch.equal(found.weights(stack, queries), dot.last.weights(dot.inner(stack), queries))
    assert [attends(mixer) for mixer in (first, last, dot)] == [False, False, True]


# ---- counts


LP_A386_XCEPTION = [LEARNED, {"type": "compression", "size": 386}, {"type": "xception", "size": "span"}]


def test_the_count_of_the_papers_row() -> None:
    """001, Tables 1 and 2: "LP, adapter size 386 & xception" has 1.970% of BERT-large, 16 times the adapter alone."""
    options: Any = StagesOptions.model_validate(LP_A386_XCEPTION)
    found = count(options, BERT_LARGE, statistics=True)
    pool, adapter = 25 + 1, 1024 * 386 + 386
    one_layer = Shape(386, 24, 2, left=(24,))
    assert found == pool + adapter + count(XceptionOptions(size="span"), one_layer, statistics=True) == 6_601_862
    assert f"{100 * found / 335_143_938:.3f}" == "1.970"
    assert round(found / count(CompressionOptions())) == 16


def test_stages_count_as_much_as_the_same_mixer_of_one_stage() -> None:
    stages: Any = StagesOptions.model_validate([LEARNED, {"type": "compression", "skip": True}])
    assert count(stages) == count(CompressionOptions(pool="learned", skip=True)) == 398_498


# ---- orders


def refused(stages: object) -> str:
    with pytest.raises(LaminaError) as caught:
        recipe = {"data": {"train": "unused"}, "mixer": stages, "encoder": {"model": "tiny", "pretrained": False}}
        build_on_meta(parse_recipe(recipe))
    return str(caught.value).removeprefix("recipe: ")


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "mixer: a list needs two stages or more. Fix: write a single mixer as a table"),
        ([LEARNED], "mixer: a list needs two stages or more. Fix: write a single mixer as a table"),
        (
            [XCEPTION, SMALL],
            'mixer: "xception" (mixer.0) gives vectors that only the head reads, so no stage can follow it. '
            "Fix: make it the last stage",
        ),
        (
            [SMALL, {"type": "dot"}, SMALL],
            'mixer: "dot" (mixer.1) gives vectors that only the head reads, so no stage can follow it. '
            "Fix: make it the last stage",
        ),
        (
            [LEARNED, SMALL, {"type": "dot"}],  # a compression of one layer leaves one layer
            'mixer: "compression" (mixer.1) leaves one layer, so "dot" (mixer.2) has nothing to combine. '
            "Fix: remove one of them",
        ),
        (
            [LEARNED, {"type": "dot"}],
            'mixer: "learned" (mixer.0) leaves one layer, so "dot" (mixer.1) has nothing to combine. Fix: remove one of them',
        ),
        (
            [SMALL | {"pool": "average"}, AVERAGE],
            'mixer: "compression" (mixer.0) leaves one layer, so "average" (mixer.1) has nothing to combine. '
            "Fix: remove one of them",
        ),
        (
            [SMALL | {"skip": True}, XCEPTION],
            'mixer: "compression" (mixer.0) has skip = true, which is for the last stage, whose vectors the head reads. '
            "Fix: set it to false",
        ),
        (
            [LEARNED | {"separate": True}, SMALL],
            'mixer: "learned" (mixer.0) has separate = true, which is for the last stage, whose vectors the head reads. '
            "Fix: set it to false",
        ),
        (
            [SMALL, {"type": "dot", "embeddings": False}],
            'mixer: "dot" (mixer.1) reads only 2 of the 3 layers of mixer.0. '
            "Fix: read all of them, or leave layer 0 out with embeddings = false in mixer.0",
        ),
        (
            [SMALL, LAST],
            'mixer: "last" (mixer.1) reads only 1 of the 3 layers of mixer.0. '
            "Fix: read all of them, or leave layer 0 out with embeddings = false in mixer.0",
        ),
        ([LEARNED, {"size": 3}], "mixer.1.type: is missing. Fix: choose one of last, average,"),
        ([LEARNED, {"type": "dut"}], "mixer.1.type: there is no 'dut'. Fix: choose one of last, average,"),
        ([LEARNED, SMALL | {"sise": 3}], "mixer.1.sise: no such field. Fix: did you mean mixer.1.size?"),
        ([LEARNED, 3], "mixer.1: Input should be a valid dictionary"),
    ],
)
def test_an_order_without_sense_is_refused_with_the_reason(stages: list[Any], message: str) -> None:
    found = refused(stages)
    assert found.startswith(message)
    assert found.count("Fix: ") == 1


def test_layer_0_can_be_left_out_in_the_first_stage() -> None:
    mixer: Any = built([SMALL | {"embeddings": False}, {"type": "dot"}])
    assert mixer.layers == mixer.last.layers == (1, 2, 3)


@pytest.mark.parametrize("options", get_args(get_args(MixerOptions)[0]), ids=lambda options: options.__name__)
def test_every_mixer_is_an_inner_stage_or_refused(options: Any) -> None:
    """A mixer with `build_stage` returns a stack that another stage reads; the others are refused in front of one."""
    one: Any = options(separate=False) if options is LearnedOptions else options()
    stages = [one.model_dump(), SMALL]
    if not isinstance(one, InnerOptions):
        assert "no stage can follow it" in refused(stages)
        return
    stack = random_stack(SHAPE)
    stage = one.build_stage(SHAPE)
    left = stage(stack)
    assert isinstance(left, HiddenStack)
    assert left.layers == stage.leaves == ((3,) if one.leaves == "one" else stage.layers)
    assert {tuple(state.shape) for state in left.states} == {(3, 5, stage.width)}
    assert torch.equal(left.mask, stack.mask)
    assert isinstance(StagesOptions.model_validate(stages).build(SHAPE), Stages)
