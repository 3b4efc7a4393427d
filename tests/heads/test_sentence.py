from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from pydantic import BaseModel
from torch import Tensor

from lamina.config.parse import parse_recipe
from lamina.data.batches import Batch, make_batch
from lamina.data.labels import Labels
from lamina.encoder.blocks import Encoder
from lamina.encoder.presets import PRESETS
from lamina.errors import LaminaError
from lamina.heads import (
    ClassificationHeadOptions,
    ClassOutputs,
    ConcatenationHeadOptions,
    CosineHeadOptions,
    Outputs,
    PairOutputs,
    RegressionHeadOptions,
    ScoreOutputs,
)
from lamina.heads.sentence import SentenceHead, pool
from lamina.mixers import LayerAttention, Mixer, Shape
from lamina.mixers.attention import DotOptions, LayerEncoderOptions, MultiplicativeOptions
from lamina.mixers.compression import CompressionOptions
from lamina.mixers.pooling import AverageOptions, LastLayerOptions, LearnedOptions
from lamina.model import Model, Task
from lamina.tasks.checks import build_on_meta
from tests.outputs import logits_of
from tests.tiny import sentences

WIDTH = 16
CLASSES = Labels(("bad", "fair", "good"))
TWO = Labels(("no", "yes"))
SCORES = Labels(low=0, high=5)
HEADS: list[tuple[Any, Labels]] = [
    (ClassificationHeadOptions, CLASSES),
    (RegressionHeadOptions, SCORES),
    (CosineHeadOptions, TWO),
    (ConcatenationHeadOptions, CLASSES),
    (ConcatenationHeadOptions, SCORES),
]
EACH_HEAD = pytest.mark.parametrize(("options", "labels"), HEADS)
EACH_POOLING = pytest.mark.parametrize("pooling", ["mean", "cls", "pooler"])
MIXERS: list[Any] = [
    LastLayerOptions,
    AverageOptions,
    LearnedOptions,
    DotOptions,
    MultiplicativeOptions,
    LayerEncoderOptions,
    CompressionOptions,
]


def batch_of(sides: int) -> Batch:
    return make_batch(sentences([0.0] * 8, sides), range(8 * sides))


def built(head: Any, labels: Labels, mixer: Any = LastLayerOptions) -> Model:
    torch.manual_seed(0)
    shape = replace(PRESETS["tiny"], layers=2, hidden=WIDTH, embedding=WIDTH, intermediate=2 * WIDTH, dropout=0.0)
    options: BaseModel = mixer()
    rows = head.queries(labels)
    mixing: Mixer = options.build(Shape(WIDTH, 2, head.slots, head.pooled, rows=rows))  # type: ignore[attr-defined]
    task = Task(mixing, head.build(mixing.width, labels))  # type: ignore[arg-type]
    if isinstance(mixing, LayerAttention) and task.head.queries() is None:
        assert isinstance(task.head, SentenceHead)
        task.head.learn_queries(mixing.width)
    model = Model(Encoder(shape), {"main": task})
    for name, parameter in model.named_parameters():
        if name.startswith("tasks.") and parameter.ndim:
            torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def naive_pool(vectors: Tensor, mask: Tensor) -> Tensor:
    rows = []
    for row, real in zip(vectors, mask, strict=True):
        tokens = [token for token, is_real in zip(row, real, strict=True) if is_real]
        rows.append(sum(tokens[1:], tokens[0]) / len(tokens))
    return torch.stack(rows)


def test_the_mean_covers_only_real_tokens() -> None:
    batch = batch_of(1)
    vectors = torch.randn(*batch.ids.shape, WIDTH)
    torch.testing.assert_close(pool(vectors, batch.mask, "mean"), naive_pool(vectors, batch.mask))
    assert torch.equal(pool(vectors, batch.mask, "cls"), vectors[:, 0])
    assert pool(vectors.bfloat16(), batch.mask, "mean").dtype == torch.float32


@torch.no_grad()
def test_the_heads_equal_their_formulas() -> None:
    """Compare item by item."""
    pairs, singles = batch_of(2), batch_of(1)
    vectors = torch.randn(16, 1, pairs.ids.shape[1], WIDTH)
    pooled = naive_pool(vectors[:, 0], pairs.mask)
    concatenation = ConcatenationHeadOptions().build(WIDTH, CLASSES).eval()
    joined_outputs = concatenation(vectors, pairs)
    near = CosineHeadOptions().build(WIDTH, TWO)(vectors, pairs)
    bare = CosineHeadOptions(paper_sigmoid=True).build(WIDTH, TWO)
    paper = bare(vectors, pairs)
    assert isinstance(joined_outputs, ClassOutputs)
    assert not list(bare.parameters())
    for item in range(8):
        u, v = pooled[2 * item], pooled[2 * item + 1]
        joined = torch.tensor([*u, *v, *(abs(a - b) for a, b in zip(u, v, strict=True)), *(u * v)])
        linear = concatenation.read.linear
        torch.testing.assert_close(joined_outputs.logits[item], linear.weight @ joined + linear.bias)
        cosine = float(u @ v) / math.sqrt(float(u @ u) * float(v @ v))
        assert near.cosine[item].item() == pytest.approx(cosine, abs=1e-6)
        assert near.logits[item].item() == pytest.approx(5 * cosine - 2.5, abs=1e-5)
        assert paper.logits[item].item() == near.cosine[item].item()
        torch.testing.assert_close(near.first[item], u / u.norm())
        torch.testing.assert_close(near.second[item], v / v.norm())
    alone = vectors[:8, :, : singles.ids.shape[1]]
    head = RegressionHeadOptions().build(WIDTH, SCORES).eval()
    scores = head(alone, singles)
    assert isinstance(scores, ScoreOutputs)
    wanted = naive_pool(alone[:, 0], singles.mask) @ head.read.linear.weight[0] + head.read.linear.bias
    torch.testing.assert_close(scores.scores, wanted)


# ---- mixers that attend with the rows of a head


def dot_mixture(query: Tensor, states: list[Tensor]) -> Tensor:
    """Return the mixture of a token's layers, one product at a time: H -> H."""
    scores = [math.exp(float(query @ state)) for state in states]
    return torch.stack([score / sum(scores) * state for score, state in zip(scores, states, strict=True)]).sum(0)


@torch.no_grad()
@EACH_POOLING
@pytest.mark.parametrize(("head", "labels"), [(ClassificationHeadOptions, CLASSES), (RegressionHeadOptions, SCORES)])
def test_dot_attends_with_the_row_of_each_output(head: Any, labels: Labels, pooling: Any) -> None:
    """Each class reads the mean, or the first token, of its own mixture; its logit is the product with the same row."""
    model, batch = built(head(pooling=pooling), labels, DotOptions), batch_of(1)
    task: Any = model.task()
    linear = task.head.read.linear
    assert torch.equal(task.head.queries(), linear.weight)
    assert [name for name, _ in task.named_parameters()] == ["head.read.linear.weight", "head.read.linear.bias"]
    stack = model.hidden(batch, task.mixer.layers)
    found = logits_of(model(batch))[0].reshape(8, -1)  # [I, classes], or [I, 1]
    for item in range(8):
        tokens = int(batch.mask[item].sum()) if pooling == "mean" else 1
        for row, (weight, bias) in enumerate(zip(linear.weight, linear.bias, strict=True)):
            own = [dot_mixture(weight, [state[item, t] for state in stack.states]) for t in range(tokens)]
            wanted = float(weight @ (sum(own[1:], own[0]) / tokens) + bias)
            assert found[item, row].item() == pytest.approx(wanted, abs=1e-4)
    queries = torch.randn_like(linear.weight)
    mixed = task.mixer(stack.cls() if pooling != "mean" else stack, queries)
    assert mixed.shape[1] == len(linear.weight)


@pytest.mark.parametrize(("head", "labels"), [(CosineHeadOptions, TWO), (ConcatenationHeadOptions, CLASSES)])
def test_heads_of_two_windows_learn_one_query(head: Any, labels: Labels) -> None:
    model = built(head(), labels, DotOptions)
    queries = model.task().head.queries()
    assert queries is not None
    assert queries.shape == (1, WIDTH)
    assert "tasks.main.head.asking" in dict(model.named_parameters())


def test_each_class_has_its_own_matrix_unless_it_is_shared() -> None:
    values: dict[str, Any] = {
        "data": {"train": "unused", "classes": ["bad", "fair", "good"]},
        "head": {"type": "classification"},
        "encoder": {"model": "tiny", "pretrained": False},
    }
    for shared, sets in ((False, 3), (True, 1)):
        mixer = {"type": "multiplicative", "shared": shared}
        task: Any = build_on_meta(parse_recipe({**values, "mixer": mixer})).task()
        assert task.mixer.turn.weight.shape == (sets, 64, 64)
    learned: Any = build_on_meta(parse_recipe({**values, "mixer": {"type": "learned"}})).task()
    assert len(learned.mixer.gamma) == 1, "a learned mixture without queries is the same for all classes"


@torch.no_grad()
def test_the_vector_of_a_text_is_the_mean_over_the_mixtures() -> None:
    model, batch = built(ClassificationHeadOptions(), CLASSES, DotOptions), batch_of(1)
    vectors = model.vectors(batch)
    assert vectors.shape[1] == 3
    head = model.task().head
    assert isinstance(head, SentenceHead)
    wanted = sum(naive_pool(vectors[:, row], batch.mask) for row in range(3)) / 3
    torch.testing.assert_close(head.pooled(vectors, batch), wanted)


def test_initial_outputs() -> None:
    """A score starts in the middle of its range; the logit of a cosine of 0.5 is 0."""
    regression, cosine = RegressionHeadOptions().build(WIDTH, SCORES), CosineHeadOptions().build(WIDTH, TWO)
    assert regression.read.linear.bias.item() == 0.5
    assert cosine.turn(torch.tensor(0.5)).item() == 0
    assert ClassificationHeadOptions().dropout == 0.3


def test_dropout_acts_on_the_pooled_vector() -> None:
    head = ClassificationHeadOptions(dropout=0.5).build(WIDTH, CLASSES)
    batch = batch_of(1)
    vectors = torch.randn(8, 1, batch.ids.shape[1], WIDTH)
    torch.manual_seed(0)
    once, again = head.train()(vectors, batch), head(vectors, batch)
    assert not torch.equal(logits_of(once)[0], logits_of(again)[0])
    assert torch.equal(logits_of(head.eval()(vectors, batch))[0], logits_of(head(vectors, batch))[0])


@EACH_POOLING
@EACH_HEAD
@pytest.mark.parametrize("mixer", MIXERS)
@torch.no_grad()
def test_every_mixer_with_every_pooling(mixer: Any, options: Any, labels: Labels, pooling: str) -> None:
    """Outputs have the right kind and shape, and do not depend on the other items of a batch."""
    head = options(pooling=pooling)
    model = built(head, labels, mixer)
    batch = batch_of(head.sides)
    outputs: Outputs = model(batch)
    kind = PairOutputs if head.type == "cosine" else ScoreOutputs if labels.are_scores else ClassOutputs
    assert isinstance(outputs, kind)
    some = make_batch(sentences([0.0] * 8, head.sides), range(2 * head.sides, 5 * head.sides))
    for all_of_them, part in zip(logits_of(outputs), logits_of(model(some)), strict=True):
        torch.testing.assert_close(part, all_of_them[2:5], atol=1e-5, rtol=1e-4)


@EACH_POOLING
@EACH_HEAD
@torch.no_grad()
def test_stored_states_give_the_same_outputs(options: Any, labels: Labels, pooling: str) -> None:
    head = options(pooling=pooling)
    model = built(head, labels)
    batch = batch_of(head.sides)
    encoder = model.encoder
    stored = encoder(encoder.embed(batch.ids, batch.type_ids), batch.mask, keep=(1,))
    for live, from_store in zip(logits_of(model(batch)), logits_of(model(replace(batch, states=stored))), strict=True):
        assert torch.equal(live, from_store)


@EACH_HEAD
def test_options_of_pooling(options: Any, labels: Labels) -> None:
    assert options(pooling="pooler").pooled
    assert not options().pooled
    positions = [options(pooling=pooling).build(WIDTH, labels).positions for pooling in ("mean", "cls", "pooler")]
    assert positions == ["tokens", "cls", "cls"]


def test_a_head_of_pairs_needs_two_windows() -> None:
    batch = batch_of(1)
    with pytest.raises(ValueError, match="two windows"):
        CosineHeadOptions().build(WIDTH, TWO)(torch.zeros(8, 1, batch.ids.shape[1], WIDTH), batch)


@pytest.mark.parametrize(
    ("options", "labels", "message"),
    [
        (ClassificationHeadOptions(), SCORES, '"classification" needs classes'),
        (RegressionHeadOptions(), TWO, r'"regression" needs scores, but the labels are classes \(no, yes\)'),
        (CosineHeadOptions(), CLASSES, '"cosine" needs two classes or scores, but the labels are 3 classes'),
    ],
)
def test_labels_that_a_head_cannot_predict(options: Any, labels: Labels, message: str) -> None:
    with pytest.raises(LaminaError, match=message) as error:
        options.build(WIDTH, labels)
    assert "\n" not in str(error.value)
