from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lamina.config.build import build_model
from lamina.config.parse import parse_recipe
from lamina.data.batches import make_batch
from lamina.data.hidden_states import HiddenStack
from lamina.data.labels import Labels
from lamina.encoder import load as encoders
from lamina.errors import LaminaError
from lamina.heads import AnswerabilityHead, SpanHead, SpanHeadOptions
from lamina.mixers import LastLayerOptions, LayerAttention, Shape, Weighing
from lamina.mixers.attention import (
    DotOptions,
    LayerEncoder,
    LayerEncoderOptions,
    MultiplicativeOptions,
    TokenSum,
    fitting_heads,
)
from lamina.mixers.pooling import AverageOptions, LearnedOptions
from lamina.tasks.checks import build_on_meta
from tests.mixers import count, random_stack
from tests.tiny import corpus, windows

SHAPE = Shape(8, 3, 2)
ALL: list[Any] = [
    DotOptions(),
    DotOptions(embeddings=True),
    MultiplicativeOptions(),
    MultiplicativeOptions(shared=True, embeddings=True),
    LayerEncoderOptions(heads=4),
    LayerEncoderOptions(embeddings=True),
]


def built(options: Any, shape: Shape = SHAPE) -> Any:
    """Return a mixer with weights large enough to distinguish the layers."""
    torch.manual_seed(0)
    mixer = options.build(shape).eval()
    for parameter in mixer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return mixer


def queries(slots: int = 2, hidden: int = 8) -> Tensor:
    return torch.randn(slots, hidden, generator=torch.Generator().manual_seed(2))


# ---- references: one token, one query and one layer at a time


def softmax(scores: list[Tensor]) -> list[Tensor]:
    powers = [score.exp() for score in scores]
    return [power / sum(powers) for power in powers]


def attended(mixer: Any, query: Tensor, number: int, states: list[Tensor]) -> Tensor:
    """Return sum_i softmax_i(q W h_i) h_i of one token."""
    if isinstance(mixer.turn, nn.Identity):
        matrix = torch.eye(len(query))
    else:
        matrix = torch.eye(len(query)) + mixer.turn.weight[number if len(mixer.turn.weight) > 1 else 0]
    shares = softmax([query @ matrix @ state for state in states])
    return torch.stack([share * state for share, state in zip(shares, states, strict=True)]).sum(0)


def normed(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    centred = x - x.mean()
    return centred / (centred.square().mean() + norm.eps).sqrt() * norm.weight + norm.bias


def encoded(mixer: LayerEncoder, query: Tensor, last: Tensor, states: list[Tensor]) -> Tensor:
    """Return the block as in the textbook: keys and values of every layer, one attention head after the other."""
    size = mixer.width // mixer.heads
    asked = mixer.query.weight @ query + mixer.query.bias
    keys = [mixer.key.weight @ state for state in states]
    values = [mixer.value.weight @ state + mixer.value.bias for state in states]
    parts = []
    for head in range(mixer.heads):
        own = slice(head * size, (head + 1) * size)
        shares = softmax([asked[own] @ key[own] / math.sqrt(size) for key in keys])
        parts.append(torch.stack([share * value[own] for share, value in zip(shares, values, strict=True)]).sum(0))
    x = normed(mixer.attention_norm, last + mixer.output.weight @ torch.cat(parts) + mixer.output.bias)
    up = mixer.up.weight @ x + mixer.up.bias
    inner = up * (1 + torch.erf(up / math.sqrt(2))) / 2
    return normed(mixer.output_norm, x + mixer.down.weight @ inner + mixer.down.bias)


def one_by_one(mixer: Any, stack: HiddenStack, asked: Tensor) -> Tensor:
    """Return [R, Q, T, H], computed by loops."""
    rows = []
    for r in range(len(stack.mask)):
        for number, query in enumerate(asked):
            for t in range(stack.mask.shape[1]):
                states = [stack.layer(layer)[r, t].float() for layer in mixer.layers]
                if isinstance(mixer, LayerEncoder):
                    rows.append(encoded(mixer, query, stack.layer(stack.depth)[r, t].float(), states))
                else:
                    rows.append(attended(mixer, query, number, states))
    return torch.stack(rows).view(len(stack.mask), len(asked), stack.mask.shape[1], -1)


@pytest.mark.parametrize("options", ALL, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_every_token_attends_to_its_own_layers(options: Any, dtype: torch.dtype) -> None:
    mixer, stack = built(options), random_stack(SHAPE, dtype=dtype)
    assert mixer.layers == ((0, 1, 2, 3) if options.embeddings else (1, 2, 3))
    mixed = mixer(stack, queries())
    assert mixed.shape == (3, 2, 5, 8)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, one_by_one(mixer, stack, queries()), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", ALL, ids=repr)
def test_gradients_equal_those_of_the_loops(options: Any) -> None:
    mixer = built(options)
    found = []
    for function in (mixer, lambda stack, asked: one_by_one(mixer, stack, asked)):
        mixer.zero_grad()
        stack, asked = random_stack(SHAPE, grad=True), queries().requires_grad_()
        mixed = function(stack, asked)
        (mixed * torch.linspace(-1, 1, mixed.numel()).view_as(mixed)).sum().backward()
        states = [stack.layer(layer).grad for layer in mixer.layers]
        found.append([asked.grad, *states, *(parameter.grad.clone() for parameter in mixer.parameters())])
    for ours, wanted in zip(*found, strict=True):
        assert wanted is not None
        torch.testing.assert_close(ours, wanted, atol=1e-4, rtol=1e-4)


def test_first_and_second_gradients_of_a_token_sum() -> None:
    torch.manual_seed(0)
    weights = torch.randn(2, 2, 3, 3, dtype=torch.double, requires_grad=True)
    states = [torch.randn(2, 3, 4, dtype=torch.double, requires_grad=True) for _ in range(3)]
    assert torch.autograd.gradcheck(TokenSum.apply, (weights, *states))
    assert torch.autograd.gradgradcheck(TokenSum.apply, (weights, *states))


@pytest.mark.parametrize("options", ALL, ids=repr)
def test_gradients_of_the_queries_are_equal_for_frozen_states(options: Any) -> None:
    found = []
    for grad in (False, True):
        mixer, stack, asked = built(options), random_stack(SHAPE, grad=grad), queries().requires_grad_()
        mixer(stack, asked).square().sum().backward()
        found.append(asked.grad)
    torch.testing.assert_close(*found)


# ---- identities


@pytest.mark.parametrize("embeddings", [True, False])
def test_a_zero_query_gives_the_average(embeddings: bool) -> None:
    stack = random_stack(SHAPE)
    mixed = DotOptions(embeddings=embeddings).build(SHAPE)(stack, torch.zeros(2, 8))
    average = AverageOptions(embeddings=embeddings).build(SHAPE)(stack)
    torch.testing.assert_close(mixed, average.expand_as(mixed), atol=1e-6, rtol=0)


@pytest.mark.parametrize("shared", [True, False])
def test_multiplicative_starts_as_dot(shared: bool) -> None:
    stack = random_stack(SHAPE)
    mixer, dot = MultiplicativeOptions(shared=shared).build(SHAPE), DotOptions().build(SHAPE)
    assert torch.equal(mixer(stack, queries()), dot(stack, queries()))


@pytest.mark.parametrize("raw", [True, False])
def test_learned_with_uniform_weights_is_the_average(raw: bool) -> None:
    stack = random_stack(SHAPE)
    mixed = LearnedOptions(raw=raw, embeddings=False).build(SHAPE)(stack, queries())
    torch.testing.assert_close(mixed, AverageOptions(embeddings=False).build(SHAPE)(stack).expand_as(mixed))


def test_learned_raw_weights_on_the_last_layer_are_the_plain_model() -> None:
    batch = make_batch(windows(corpus(2)[:8]), range(8))
    rows, tokens = batch.ids.shape
    stack, head = random_stack(SHAPE, rows=rows, tokens=tokens), SpanHead(8)
    learned = head(LearnedOptions(raw=True, init="last").build(SHAPE)(stack, head.queries()), batch)
    plain = head(LastLayerOptions().build(SHAPE)(stack, head.queries()), batch)
    torch.testing.assert_close((learned.start, learned.end), (plain.start, plain.end))


def test_the_logit_of_dot_equals_a_sum_of_scores() -> None:
    """Check q . sum_i w_i h_i = sum_i w_i (q . h_i)."""
    batch = make_batch(windows(corpus(2)[:3]), range(3))
    stack, head = random_stack(SHAPE, rows=3, tokens=batch.ids.shape[1]), SpanHead(8)
    nn.init.normal_(head.weight)
    outputs = head(DotOptions().build(SHAPE)(stack, head.queries()), batch)
    scores = torch.stack([stack.layer(layer) @ head.weight.t() for layer in (1, 2, 3)])  # [n, R, T, Q]
    start, end = (scores.softmax(0) * scores).sum(0).unbind(-1)
    torch.testing.assert_close((outputs.start, outputs.end), (start, end), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", ALL, ids=repr)
def test_padding_and_other_tokens_change_nothing(options: Any) -> None:
    mixer, stack = built(options), random_stack(SHAPE, grad=True)
    mixed = mixer(stack, queries())
    noisy = replace(stack, states=tuple(torch.where(stack.mask[..., None], state, 1e3) for state in stack.states))
    real = stack.mask[:, None].expand(mixed.shape[:3])
    torch.testing.assert_close(mixer(noisy, queries())[real], mixed[real])
    torch.testing.assert_close(mixer(stack.cls(), queries()), mixed[:, :, :1], atol=1e-5, rtol=1e-5)
    mixed[real].square().sum().backward()
    for layer in mixer.layers:
        gradient = stack.layer(layer).grad
        assert gradient is not None
        assert torch.equal(gradient.any(-1), stack.mask), "real tokens only"


# ---- weights of the layers


@pytest.mark.parametrize("options", [*ALL, LearnedOptions(init="random"), LearnedOptions(separate=False)], ids=repr)
def test_the_weights_of_the_layers_add_up_to_one(options: Any) -> None:
    mixer, stack = built(options), random_stack(SHAPE)
    assert isinstance(mixer, Weighing)
    weights = mixer.weights(stack, queries())
    layers = 4 if options.embeddings else 3
    assert weights.broadcast_to(3, 2, 5, layers).shape == (3, 2, 5, layers)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


@pytest.mark.parametrize("options", ALL[:4], ids=repr)
def test_the_vectors_are_the_weighted_sum_of_the_layers(options: Any) -> None:
    mixer, stack = built(options), random_stack(SHAPE)
    weights = mixer.weights(stack, queries())
    states = torch.stack([stack.layer(layer) for layer in mixer.layers], 2)  # [R, T, n, H]
    wanted = torch.einsum("rqtn,rtnh->rqth", weights, states)
    torch.testing.assert_close(mixer(stack, queries()), wanted, atol=1e-5, rtol=1e-5)


def test_a_large_query_of_the_encoder_attends_to_one_layer() -> None:
    mixer, stack = built(LayerEncoderOptions(heads=1)), random_stack(SHAPE)
    with torch.no_grad():
        for part in (mixer.query, mixer.key):
            part.weight.copy_(100 * torch.eye(8))
        mixer.query.bias.zero_()
    scores = torch.stack([stack.layer(layer) @ queries().t() for layer in (1, 2, 3)], -1)  # [R, T, Q, n]
    assert torch.equal(mixer.weights(stack, queries()).argmax(-1), scores.argmax(-1).transpose(1, 2))


def test_only_some_mixers_have_weights() -> None:
    assert not isinstance(LastLayerOptions().build(SHAPE), Weighing)
    assert not isinstance(AverageOptions().build(SHAPE), Weighing)


# ---- heads


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("options", [*ALL, LearnedOptions(init="random")], ids=repr)
def test_rows_of_classes_are_queries(options: Any, pooled: bool) -> None:
    """The rows of the classes attend over the layers, and over the pooled state if the head reads it."""
    table = {"type": "answerability", "pooled": pooled}
    recipe = parse_recipe(
        {
            "data": {"train": "unused"},
            "mixer": options.model_dump(),
            "head": table,
            "encoder": {"model": "tiny", "pretrained": False},
        }
    )
    torch.manual_seed(0)
    model: Any = build_model(recipe, encoders.build(encoders.find(recipe.encoder)))
    head, batch = model.tasks["main"].head, make_batch(windows(corpus(1)), range(5))
    assert isinstance(head, AnswerabilityHead)
    logits = model(batch).logits
    assert logits.shape == (5, 2)
    logits[:, 0].sum().backward()
    assert head.weight.grad is not None
    assert head.weight.grad[0].any()


class Silent(SpanHead):
    """A head without queries."""

    def queries(self) -> None:  # type: ignore[override]
        return None


class SilentOptions(SpanHeadOptions):
    def build(self, width: int, labels: Labels) -> Silent:
        return Silent(width)


@pytest.mark.parametrize("name", ["dot", "multiplicative", "encoder"])
def test_a_head_without_queries_is_refused_when_the_recipe_is_built(name: str) -> None:
    recipe = parse_recipe({"data": {"train": ""}, "mixer": {"type": name}, "encoder": {"model": "tiny", "pretrained": False}})
    build_on_meta(recipe)
    main = recipe.main.model_copy(update={"head": SilentOptions()})
    with pytest.raises(LaminaError, match=f'mixer.type: "{name}" attends') as caught:
        build_on_meta(recipe.model_copy(update={"tasks": {"main": main}}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [DotOptions(), LayerEncoderOptions()], ids=repr)
def test_attention_without_queries_raises_an_error(options: Any) -> None:
    mixer = options.build(SHAPE)
    assert isinstance(mixer, LayerAttention)
    with pytest.raises(ValueError, match="the head's queries"):
        mixer(random_stack(SHAPE))


# ---- counts and initial weights


def test_counts_of_bert_large() -> None:
    head, hidden = 2_050, 1024
    assert count(DotOptions()) == head, "dot has no parameters"
    assert count(MultiplicativeOptions()) == head + 2 * hidden**2
    assert count(MultiplicativeOptions(shared=True)) == head + hidden**2
    block = 4 * hidden**2 + 3 * hidden + 8 * hidden**2 + 5 * hidden + 4 * hidden
    assert count(LayerEncoderOptions()) == head + block


def test_the_initial_weights_of_the_encoder() -> None:
    torch.manual_seed(0)
    mixer = LayerEncoderOptions().build(Shape(96, 3, 2))
    for part in (mixer.query, mixer.key, mixer.value, mixer.output, mixer.up, mixer.down):
        assert part.weight.std().item() == pytest.approx(0.02, rel=0.1)
        assert part.bias is None or not part.bias.any()
    assert mixer.dropout.p == 0.1


@pytest.mark.parametrize(("hidden", "heads"), [(768, 12), (384, 12), (1024, 8), (64, 8), (8, 8), (7, 7), (13, 1)])
def test_the_default_number_of_heads_divides_the_width(hidden: int, heads: int) -> None:
    assert fitting_heads(hidden) == heads
    assert LayerEncoderOptions().build(Shape(hidden, 2, 2)).heads == heads


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(
        LaminaError, match=r"mixer\.heads: 12 does not divide .* hidden size of 64\. Fix: .* remove mixer\.heads for 8"
    ):
        LayerEncoderOptions(heads=12).build(Shape(64, 2, 2))
