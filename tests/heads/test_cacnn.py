from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from lamina.config.build import build_model, make_optimizer
from lamina.config.parse import parse_recipe
from lamina.data.batches import Batch, make_batch
from lamina.data.labels import Labels
from lamina.encoder import load as encoders
from lamina.errors import LaminaError
from lamina.heads import ContextAwareHead, ContextAwareHeadOptions, SpanOutputs
from lamina.heads.context_filters import ContextFilters, PooledFilters, convolve_each, window_maxima
from lamina.objectives.span import span_cross_entropy
from lamina.runs.export import exportable_head
from lamina.tasks.checks import build_on_meta
from tests import tiny

DIM = 12
SMALL: dict[str, dict[str, Any]] = {
    "vectorised": {"context": 8, "filters": 3},
    "sum": {"context": 7, "filters": 3, "pool": "sum", "context_width": 5},  # a filter of 60 values, which is no multiple of 7
    "even width": {"context": 8, "filters": 2, "width": 4},
    "other first convolutions": {"first_widths": [1, 4, 7], "first_maps": [2, 3, 4], "filters": 2},
    "one even first width": {"first_widths": [2], "context": 8, "filters": 2},
    "tiled": {"context": 8, "filters": 3, "tile": True},
    "tiled, cut off": {"context": 7, "filters": 2, "tile": True},  # a filter of 60 values
    "relu": {"context": 8, "filters": 4, "activation": "relu", "mask_question": True},
    "two towers": {"context": 8, "filters": 3, "two_tower": True},
    "simplified": {"form": "simplified"},
    "simplified, wide": {"form": "simplified", "filters": 2, "width": 3, "mask_question": False},
    "simplified, even first width": {"form": "simplified", "filters": 2, "first_widths": [4]},
}
FORMS = pytest.mark.parametrize("form", SMALL)
MIXTURES = pytest.mark.parametrize("mixtures", [1, 2])


def built(form: str, dim: int = DIM) -> ContextAwareHead:
    """Return a head in eval mode with random, not too small parameters."""
    torch.manual_seed(0)
    head = ContextAwareHeadOptions(**SMALL[form]).build(dim, Labels())
    for parameter in head.parameters():
        nn.init.normal_(parameter, std=0.3)
    return head.eval()


def batch_of(lengths: tuple[int, ...], queries: int = 3, longest: int | None = None) -> Batch:
    """Return rows of [CLS], a question of `queries` tokens, a separator, a context and a separator, cut to their lengths."""
    column = torch.arange(longest or max(lengths))
    length = torch.tensor(lengths)[:, None]
    mask = column < length
    context = (column > queries + 1) & (column < length - 1)
    ids = torch.zeros(mask.shape, dtype=torch.int64)
    return Batch(ids, ids, mask, context, torch.zeros(len(lengths), 2, dtype=torch.int64), tuple(range(len(lengths))))


def random_vectors(batch: Batch, mixtures: int = 1, dim: int = DIM) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch.ids.shape[0], mixtures, batch.ids.shape[1], dim, generator=generator)


# ---- references: one window and one value at a time


def naive_convolution(x: Tensor, kernel: Tensor) -> Tensor:
    """Return [n, D] convolved with [C, w, D], [n, C]; there are zeros beyond the ends."""
    n, width = len(x), kernel.shape[1]
    result = torch.zeros(n, len(kernel))
    for t in range(n):
        for k in range(width):
            if 0 <= (at := t + k - (width - 1) // 2) < n:
                for c in range(len(kernel)):
                    result[t, c] += torch.dot(x[at], kernel[c, k])
    return result


def naive_layer(x: Tensor, layer: Any) -> Tensor:
    bias: Tensor = layer.bias
    return bias + naive_convolution(x, layer.weight.transpose(1, 2))


def naive_context_filters(x: Tensor, tokens: list[int], generator: ContextFilters) -> Tensor:
    maps = torch.cat([naive_layer(x, view) for view in generator.views], 1)[tokens]
    context = maps.max(0).values if generator.pool == "max" else maps.sum(0)  # [M]
    channels = naive_layer(context[:, None], generator.generator).t()  # [N * pieces, M]
    count, width, dim = generator.shape
    pieces = len(channels) // count
    joined = [torch.cat(list(channels[n * pieces : (n + 1) * pieces])) for n in range(count)]
    filters = [torch.stack([values[i % len(values)] for i in range(width * dim)]) for values in joined]
    return torch.stack(filters).view(count, width, dim)


def naive_maxima(maps: Tensor, windows: int) -> Tensor:
    """Return the maximum over 8 neighbours, then over each of the windows."""
    n = len(maps)
    wide = torch.stack([maps[max(0, t - 3) : t + 5].max(0).values for t in range(n)])
    ends = [(i * n // (windows + 1), -(-(i + 2) * n // (windows + 1))) for i in range(windows)]
    return torch.stack([wide[first:stop].max(0).values for first, stop in ends])


def naive_pooled_filters(x: Tensor, tokens: list[int], generator: PooledFilters) -> Tensor:
    count, width, dim = generator.shape
    maxima = naive_maxima(naive_layer(x, generator.convolution).relu()[: len(tokens)], width)  # [w, N * D]
    return torch.stack([torch.stack([maxima[k, n * dim : (n + 1) * dim] for k in range(width)]) for n in range(count)])


def naive_logits(head: ContextAwareHead, vectors: Tensor, batch: Batch, options: ContextAwareHeadOptions) -> Tensor:
    """Return the logits [2, R, T], zeros at padding."""
    logits = torch.zeros(2, *batch.ids.shape)
    for r in range(len(vectors)):
        n = int(batch.mask[r].sum())
        context = batch.context[r, :n].tolist()
        source = [t for t in range(n) if not (options.two_tower and context[t])]
        target = [t for t in range(n) if not (options.two_tower or options.mask_question) or context[t] or t == 0]
        for slot in range(2):
            own = vectors[r, min(slot, vectors.shape[1] - 1), :n]
            read, convolved = torch.zeros_like(own), torch.zeros_like(own)
            read[source], convolved[target] = own[source], own[target]
            generator = head.generator
            if isinstance(generator, ContextFilters):
                filters, feeding = naive_context_filters(read, source, generator), slice(None)
            else:
                assert isinstance(generator, PooledFilters)
                half = options.filters // 2
                filters, feeding = naive_pooled_filters(read, source, generator), slice(slot * half, (slot + 1) * half)
            maps = head.activation(naive_convolution(convolved, filters))[:, feeding]
            logits[slot, r, :n] = maps @ head.weight[slot] + head.bias[slot]
    return logits


def assert_as_naive(head: ContextAwareHead, form: str, batch: Batch, mixtures: int) -> None:
    vectors = random_vectors(batch, mixtures)
    with torch.no_grad():
        outputs = head(vectors, batch)
        wanted = naive_logits(head, vectors, batch, ContextAwareHeadOptions(**SMALL[form]))
    scale = wanted.abs().max().clamp(min=1)
    for logits, right in zip((outputs.start, outputs.end), wanted, strict=True):
        torch.testing.assert_close(logits[batch.mask] / scale, right[batch.mask] / scale, atol=1e-5, rtol=0)


@FORMS
@MIXTURES
def test_the_head_equals_loops_over_windows(form: str, mixtures: int) -> None:
    assert_as_naive(built(form), form, batch_of((11, 17, 8)), mixtures)


@FORMS
@pytest.mark.parametrize("lengths", [(1,), (2, 1), (3, 2, 4)])
def test_texts_shorter_than_a_filter(form: str, lengths: tuple[int, ...]) -> None:
    assert_as_naive(built(form), form, batch_of(lengths, queries=0), 1)


@pytest.mark.parametrize("width", [1, 2, 5, 6])
def test_separate_filters_for_each_row_equal_a_convolution(width: int) -> None:
    torch.manual_seed(0)
    x, filters = torch.randn(3, 9, 4), torch.randn(3, 2, width, 4)
    result = convolve_each(x, filters)
    assert result.shape == (3, 9, 2)
    for row in range(3):
        torch.testing.assert_close(result[row], naive_convolution(x[row], filters[row]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("windows", [1, 3, 6])
def test_windows_cover_each_text(windows: int) -> None:
    torch.manual_seed(0)
    lengths = torch.tensor([1, 2, 6, 7, 30, 41])
    maps = torch.randn(len(lengths), 41, 3)
    result = window_maxima(maps, lengths, windows)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(result[row], naive_maxima(maps[row, :length], windows), atol=0, rtol=0)


# ---- properties


@FORMS
@MIXTURES
def test_padding_changes_nothing(form: str, mixtures: int) -> None:
    head, lengths = built(form), (9, 13)
    narrow, wide = batch_of(lengths), batch_of(lengths, longest=18)
    vectors = random_vectors(narrow, mixtures)
    noisy = torch.full((2, mixtures, 18, DIM), 1e3)
    noisy[:, :, :13] = torch.where(narrow.mask[:, None, :, None], vectors, torch.tensor(-1e3))
    with torch.no_grad():
        plain, other = head(vectors, narrow), head(noisy, wide)
        for row, length in enumerate(lengths):  # a row alone equals the row in a batch
            alone = head(vectors[row : row + 1, :, :length], batch_of((length,)))
            torch.testing.assert_close(alone.start[0], plain.start[row, :length], atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(other.start[wide.mask], plain.start[narrow.mask], atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(other.end[wide.mask], plain.end[narrow.mask], atol=1e-4, rtol=1e-5)


@FORMS
@MIXTURES
def test_gradients_reach_everything(form: str, mixtures: int) -> None:
    head, batch = built(form).train(), batch_of((11, 17))
    vectors = random_vectors(batch, mixtures).requires_grad_()
    outputs = head(vectors, batch)
    (outputs.start[outputs.allowed].square().sum() + outputs.end[outputs.allowed].square().sum()).backward()
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        assert (parameter.grad.flatten(1) if parameter.ndim > 1 else parameter.grad[:, None]).any(1).all(), name
    assert vectors.grad is not None
    reached = vectors.grad.abs().sum((1, 3)) > 0  # [R, T]
    assert not reached[~batch.mask].any()
    assert reached[batch.context].all()


@FORMS
def test_equal_mixtures_for_both_ends_equal_one_mixture(form: str) -> None:
    head, batch = built(form), batch_of((11, 17))
    one = random_vectors(batch)
    shared, twice = head(one, batch), head(one.expand(-1, 2, -1, -1), batch)
    torch.testing.assert_close(twice.start, shared.start)
    torch.testing.assert_close(twice.end, shared.end)


def test_the_head_has_no_queries_until_it_learns_some() -> None:
    head, batch = built("vectorised"), batch_of((11, 17))
    outputs = head(random_vectors(batch), batch)
    assert isinstance(outputs, SpanOutputs) and outputs.start.dtype == torch.float32
    assert outputs.allowed.equal(batch.context | (torch.arange(17) == 0))
    assert (head.slots, head.positions, head.queries()) == (2, "tokens", None)


def test_the_question_is_found_without_type_ids() -> None:
    """RoBERTa has only one type."""
    for form in ("relu", "two towers", "simplified"):
        head, batch = built(form), batch_of((11, 17))
        vectors = random_vectors(batch)
        other = replace(batch, type_ids=torch.ones_like(batch.type_ids))
        assert head(vectors, batch).start.equal(head(vectors, other).start)


def test_two_towers_compute_filters_from_the_question() -> None:
    head, batch = built("two towers"), batch_of((17,))
    vectors = random_vectors(batch)
    changed_question, changed_context = vectors.clone(), vectors.clone()
    changed_question[:, :, 2] += 1  # a token of the question
    changed_context[:, :, 9] += 1  # a token of the context
    with torch.no_grad():
        plain = head(vectors, batch).start[0]
        assert (head(changed_question, batch).start[0] != plain)[batch.context[0]].all(), "other filters"
        changed = (head(changed_context, batch).start[0] != plain).nonzero().flatten().tolist()
    assert changed == [7, 8, 9, 10, 11], "the same filters for other tokens"


def test_dropout_acts_only_in_training() -> None:
    head, batch = built("simplified"), batch_of((11, 17))
    vectors = random_vectors(batch)
    assert head(vectors, batch).start.equal(head(vectors, batch).start)
    assert not head.train()(vectors, batch).start.equal(head(vectors, batch).start)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"form": "simplified"}, {"two_tower": True}, {"activation": "relu"}], ids=str)
def test_each_form_learns(options: dict[str, Any]) -> None:
    """The defaults are trained in tests/conformance/test_techniques.py."""
    encoder = {"model": "tiny", "pretrained": False, "dropout": 0.0}
    head = {"type": "cacnn", **options}
    recipe = parse_recipe({"data": {"train": ""}, "encoder": encoder, "head": head, "train": {"lr": 2e-3}})
    model = build_model(recipe, encoders.build(encoders.find(recipe.encoder))).train()
    batch, optimizer = make_batch(tiny.windows(tiny.corpus(2)[:8]), range(8)), make_optimizer(model, recipe.train)
    losses = []
    for _ in range(70):
        loss = span_cross_entropy(cast(SpanOutputs, model(batch)), batch.gold).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 < 2 < losses[0]


# ---- options


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 395_298),
        ({"filters": 4}, 4 * 98_304 + 128 + 4 * 120 + 10),
        ({"filters": 64}, 4 * 98_304 + 128 + 64 * 120 + 130),
        ({"two_tower": True, "pool": "sum"}, 395_298),
        ({"form": "simplified"}, 11_799_558),
        ({"first_widths": [3, 5], "first_maps": [64, 64]}, 395_298),
        ({"first_widths": [1, 3, 5, 7], "first_maps": [16, 32, 64, 16]}, 768 * (16 + 96 + 320 + 112) + 128 + 16 * 120 + 34),
        ({"first_widths": [2], "context": 768}, 768 * 2 * 768 + 768 + 16 * 5 * 4 + 34),  # M = D: five channels are one filter
        ({"tile": True}, 4 * 98_304 + 128 + 16 * 4 + 34),
        ({"form": "simplified", "first_widths": [3]}, 11_799_558 - 2 * 768 * 3072),
    ],
)
def test_counts_for_bert_base(options: dict[str, Any], count: int) -> None:
    with torch.device("meta"):
        head = ContextAwareHeadOptions(**options).build(768, Labels())
    assert sum(parameter.numel() for parameter in head.parameters()) == count


def test_the_simplified_form_has_the_predecessor_s_defaults() -> None:
    options = ContextAwareHeadOptions(form="simplified")
    assert (options.filters, options.width, options.dropout, options.mask_question) == (4, 6, 0.2, True)
    assert options.first_widths == (5,)
    assert ContextAwareHeadOptions(**options.model_dump()) == options
    assert ContextAwareHeadOptions(form="simplified", width=3, mask_question=False).width == 3


def test_the_number_of_first_maps_sets_the_context() -> None:
    options = ContextAwareHeadOptions(first_widths=(3, 5, 7), first_maps=(10, 20, 30))
    assert options.context == 60
    assert ContextAwareHeadOptions(**options.model_dump()) == options
    assert ContextAwareHeadOptions(first_widths=(3, 5, 7), context=11).first == ((3, 4), (5, 4), (7, 3))
    assert ContextAwareHeadOptions().first == ((3, 64), (5, 64))


def test_its_default_objective_is_the_span_loss() -> None:
    recipe = parse_recipe({"data": {"train": ""}, "head": {"type": "cacnn", "filters": 4}})
    assert recipe.main.objective.type == "span"
    assert parse_recipe(recipe.model_dump()) == recipe
    with pytest.raises(LaminaError, match=r"objective\.type 'answerability' is for heads of type answerability, not cacnn"):
        parse_recipe({"data": {"train": ""}, "head": {"type": "cacnn"}, "objective": {"type": "answerability"}})


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"context_width": 4}, "head: context_width = 4 is even, so it has no middle. Fix: choose an odd number"),
        ({"form": "simplified", "two_tower": True}, 'head: two_tower is for form = "vectorised": the simplified form has no'),
        ({"form": "simplified", "context": 64}, 'head: context is for form = "vectorised"'),
        ({"form": "simplified", "tile": True}, 'head: tile is for form = "vectorised"'),
        (
            {"form": "simplified", "first_widths": [3, 5]},
            "head: first_widths has 2 widths, .* one first convolution. Fix: give one",
        ),
        ({"first_maps": [64]}, "head: first_maps and first_widths have different lengths, 1 and 2. Fix: give one number"),
        ({"first_maps": [8, 8], "context": 9}, "head: first_maps adds up to 16, but context is 9. Fix: remove head.context"),
        ({"first_widths": [1, 3, 5], "context": 2}, "head: context = 2 leaves no map .* Fix: raise context to at least 3"),
        ({"first_widths": []}, "head.first_widths: "),
        ({"first_maps": ["many", 3]}, "head.first_maps.0: .* Fix: give a whole number"),
        ({"form": "simplified", "filters": 3}, "head: filters = 3 cannot be halved between start and end. Fix: choose an even"),
        ({"width": 0}, "head.width: .* greater than or equal to 1"),
        ({"heads": 3}, "head.heads: no such field"),
        ({"form": "long"}, "head.form: "),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], line: str) -> None:
    with pytest.raises(LaminaError, match=line):
        parse_recipe({"data": {"train": ""}, "head": {"type": "cacnn", **options}})


def test_a_context_larger_than_a_filter_is_refused() -> None:
    encoder = {"model": "tiny", "pretrained": False}
    values = {"data": {"train": ""}, "encoder": encoder, "head": {"type": "cacnn", "context": 400}}
    with pytest.raises(LaminaError, match=r"head.context: 400, but .* uses at most 320\. Fix: lower head.context"):
        build_on_meta(parse_recipe(values))


@FORMS
@pytest.mark.parametrize("mixer", ["last", "average", "learned", "dot", "multiplicative", "encoder", "compression"])
def test_the_head_works_with_any_mixer(form: str, mixer: str) -> None:
    encoder = {"model": "tiny", "pretrained": False}
    values = {"data": {"train": ""}, "encoder": encoder, "head": {"type": "cacnn", **SMALL[form]}, "mixer": {"type": mixer}}
    recipe = parse_recipe(values)
    build_on_meta(recipe)
    torch.manual_seed(0)
    model = build_model(recipe, encoders.build(encoders.find(recipe.encoder)))
    learned = [name for name, _ in model.named_parameters() if name.endswith("head.asking")]
    assert len(learned) == (mixer in ("dot", "multiplicative", "encoder")), "only the mixer gives them a gradient"
    outputs = cast(SpanOutputs, model(make_batch(tiny.windows(tiny.corpus(1)), range(5))))
    (outputs.start.square() + outputs.end.square())[outputs.allowed].sum().backward()
    for name, parameter in model.tasks.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name


def test_it_cannot_be_exported() -> None:
    model = tiny.model()
    model.tasks["main"].head = ContextAwareHeadOptions(context=16).build(16, Labels())
    with pytest.raises(LaminaError, match=r"ContextAwareHead.* is not a plain span head"):
        exportable_head(model)
