from __future__ import annotations

from typing import Any, get_args

import pytest
import torch

from lamina.data.batches import make_batch
from lamina.data.hidden_states import HiddenStack
from lamina.heads import SpanHead
from lamina.mixers import LastLayerOptions, MixerOptions, Shape
from lamina.mixers.pooling import AverageOptions, Learned, LearnedOptions, WeightedSum, WithLastLayer
from tests.mixers import count, random_stack
from tests.tiny import corpus, windows

SHAPE = Shape(8, 3, 2)
ALL: list[MixerOptions] = [
    AverageOptions(),
    AverageOptions(layers="first_last", embeddings=False),
    LearnedOptions(init="random"),
    LearnedOptions(init="random", separate=False, embeddings=False),
    LearnedOptions(init="random", raw=True),
]


def one_by_one(weights: list[list[float]], stack: HiddenStack, layers: tuple[int, ...]) -> torch.Tensor:
    """Return sum_i w_qi h_i, one token at a time."""
    rows, tokens = stack.mask.shape
    out = torch.zeros(rows, len(weights), tokens, stack.states[0].shape[-1])
    for r in range(rows):
        for q, row in enumerate(weights):
            for t in range(tokens):
                for weight, layer in zip(row, layers, strict=True):
                    out[r, q, t] += weight * stack.layer(layer)[r, t].float()
    return out


@pytest.mark.parametrize(
    ("options", "layers"),
    [
        (AverageOptions(), (0, 1, 2, 3)),
        (AverageOptions(embeddings=False), (1, 2, 3)),
        (AverageOptions(layers="first_last"), (0, 3)),
        (AverageOptions(layers="first_last", embeddings=False), (1, 3)),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_average(options: AverageOptions, layers: tuple[int, ...], dtype: torch.dtype) -> None:
    mixer, stack = options.build(SHAPE), random_stack(SHAPE, dtype=dtype)
    before = [state.clone() for state in stack.states]
    assert (mixer.layers, mixer.width) == (layers, 8)
    wanted = one_by_one([[1 / len(layers)] * len(layers)], stack, layers)
    torch.testing.assert_close(mixer(stack), wanted, atol=1e-5, rtol=0)
    assert all(map(torch.equal, stack.states, before)), "the states are not changed"


def test_first_and_last_of_a_single_layer_are_equal() -> None:
    shape = Shape(8, 1, 2)
    mixer, stack = AverageOptions(layers="first_last", embeddings=False).build(shape), random_stack(shape)
    assert torch.equal(mixer(stack)[:, 0], stack.layer(1))


@pytest.mark.parametrize("separate", [True, False])
@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_learned(separate: bool, raw: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    mixer, stack = LearnedOptions(separate=separate, raw=raw).build(SHAPE), random_stack(SHAPE, dtype=dtype)
    sets = 2 if separate else 1
    torch.nn.init.normal_(mixer.weight)
    torch.nn.init.normal_(mixer.gamma)
    rows = mixer.weight.detach().view(sets, 4)
    weights = mixer.gamma.detach()[:, None] * (rows if raw else rows.exp() / rows.exp().sum(-1, keepdim=True))
    mixed = mixer(stack)
    assert mixed.shape == (3, sets, 5, 8)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, one_by_one(weights.tolist(), stack, mixer.layers), atol=1e-5, rtol=0)


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("embeddings", [True, False])
def test_learned_starts_as_the_average(raw: bool, embeddings: bool) -> None:
    stack = random_stack(SHAPE)
    mixed = LearnedOptions(raw=raw, embeddings=embeddings).build(SHAPE)(stack)
    average = AverageOptions(embeddings=embeddings).build(SHAPE)(stack)
    torch.testing.assert_close(mixed, average.expand_as(mixed), atol=1e-6, rtol=0)


def test_learned_can_start_as_the_last_layer() -> None:
    stack = random_stack(SHAPE)
    last = LastLayerOptions().build(SHAPE)(stack)
    assert torch.equal(LearnedOptions(raw=True, init="last", separate=False).build(SHAPE)(stack), last)
    soft = LearnedOptions(init="last").build(SHAPE)(stack)
    torch.testing.assert_close(soft, last.expand_as(soft), atol=2e-3, rtol=0)


@pytest.mark.parametrize(("raw", "mean"), [(True, 1 / 201), (False, 0.0)])
def test_random_initial_weights(raw: bool, mean: float) -> None:
    torch.manual_seed(0)
    weight = LearnedOptions(raw=raw, init="random").build(Shape(8, 200, 2)).weight
    assert weight.std().item() == pytest.approx(0.05, rel=0.15)
    assert weight.mean().item() == pytest.approx(mean, abs=0.01)


def test_one_query_has_one_set() -> None:
    assert LearnedOptions(separate=True).build(Shape(8, 3, 1))(random_stack(SHAPE)).shape == (3, 1, 5, 8)


def test_first_and_second_gradients_of_a_weighted_sum() -> None:
    torch.manual_seed(0)
    weights = torch.randn(2, 3, dtype=torch.double, requires_grad=True)
    states = [torch.randn(2, 3, 4, dtype=torch.double, requires_grad=True) for _ in range(3)]
    assert torch.autograd.gradcheck(WeightedSum.apply, (weights, *states))
    assert torch.autograd.gradgradcheck(WeightedSum.apply, (weights, *states))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_gradients_of_frozen_and_of_trained_states(dtype: torch.dtype) -> None:
    mixer = LearnedOptions(init="random").build(SHAPE)
    found = []
    for grad in (False, True):
        mixer.zero_grad()
        stack = random_stack(SHAPE, dtype=dtype, grad=grad)
        mixer(stack).square().sum().backward()
        assert mixer.weight.grad is not None
        assert mixer.gamma.grad is not None
        found.append((mixer.weight.grad.clone(), mixer.gamma.grad.clone()))
        for state in stack.states:
            assert (state.grad is not None) == grad
            assert state.grad is None or (state.grad.dtype == dtype and bool(state.grad.any()))
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("options", ALL, ids=repr)
def test_a_stack_of_the_first_token_and_padding(options: Any) -> None:
    mixer, stack = options.build(SHAPE), random_stack(SHAPE, grad=True)
    mixed = mixer(stack)
    torch.testing.assert_close(mixer(stack.cls()), mixed[:, :, :1])
    mixed[stack.mask[:, None].expand(mixed.shape[:3])].sum().backward()
    for layer in mixer.layers:
        gradient = stack.layer(layer).grad
        assert gradient is not None
        assert torch.equal(gradient.any(-1), stack.mask), "real tokens only"


def test_the_last_layer_appended_to_another_mixer() -> None:
    stack = random_stack(SHAPE, dtype=torch.float16)
    learned = Learned(8, (0, 1), sets=2)
    mixer = WithLastLayer(learned, SHAPE.hidden, SHAPE.depth)
    assert (mixer.width, mixer.layers) == (16, (0, 1, 3))
    mixed = mixer(stack)
    assert mixed.shape == (3, 2, 5, 16)
    assert torch.equal(mixed[..., :8], learned(stack))
    for q in range(2):
        assert torch.equal(mixed[:, q, :, 8:], stack.layer(3).float())


def test_equal_mixtures_for_both_ends_equal_one_mixture() -> None:
    head, batch = SpanHead(8), make_batch(windows(corpus(2)[:8]), range(8))
    vectors = torch.randn(8, 1, batch.ids.shape[1], 8)
    one, two = head(vectors, batch), head(vectors.expand(-1, 2, -1, -1), batch)
    torch.testing.assert_close((two.start, two.end), (one.start, one.end))


def test_counts_of_bert_large() -> None:
    assert count(LastLayerOptions()) == count(AverageOptions()) == 2_050
    assert count(LearnedOptions(separate=False, init="random")) == 2_076
    assert count(LearnedOptions()) == 2_102


@pytest.mark.parametrize("options", get_args(get_args(MixerOptions)[0]), ids=lambda options: options.__name__)
def test_nothing_is_drawn_on_the_meta_device(options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(*_: object, **__: object) -> None:
        raise AssertionError("torch imports its compiler for this, which takes a second")

    for name in ("normal_", "uniform_", "random_"):
        monkeypatch.setattr(torch.Tensor, name, drawn)
    with torch.device("meta"):
        assert options().build(SHAPE).width
        assert LearnedOptions(init="random").build(SHAPE).weight.is_meta
