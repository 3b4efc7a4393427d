"""Tests of what every technique promises, for every entry of the registries. Registering a technique tests it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
import torch
from safetensors.torch import load_file, save_file

from lamina.answers.decode import decode
from lamina.config.build import build_model, make_optimizer
from lamina.config.parse import parse_recipe
from lamina.config.recipe import Recipe
from lamina.data.batches import Batch, make_batch
from lamina.encoder import load as encoders
from lamina.heads import ClassOutputs, HeadOptions, Outputs, PairOutputs, ScoreOutputs, SpanOutputs
from lamina.heads.sentence import SentenceHeadOptions
from lamina.mixers import MixerOptions
from lamina.model import Model
from lamina.model.inference import item_outputs, span_logits
from lamina.model.weights import load_weights, trained_weights
from lamina.objectives import ObjectiveOptions
from lamina.scoring.answerability import IMPOSSIBLE
from tests.outputs import logits_of
from tests.project.pages import assert_documented
from tests.tiny import corpus, sentences, windows

PAGES = {"mixer": "mixers", "head": "heads", "objective": "losses"}  # of docs/techniques


def each(options: Any) -> dict[str, Any]:
    """Return the members of a registry by their `type`. A registry is an options class or an (annotated) union of them."""
    if get_origin(options) is Annotated:
        options = get_args(options)[0]
    return {member.model_fields["type"].default: member for member in get_args(options) or (options,)}


REGISTRIES = {"mixer": MixerOptions, "head": HeadOptions, "objective": ObjectiveOptions}
TECHNIQUES = [(kind, name) for kind, options in REGISTRIES.items() for name in each(options)]
# Mixers of several stages; the first has the stages of 001's Tables 1 and 2.
STAGES = ("learned + compression + xception", "average + convolution", "compression + learned", "compression + dot")
TECHNIQUES += [("mixer", stages) for stages in STAGES]

pytestmark = pytest.mark.parametrize(("kind", "name"), TECHNIQUES, ids=[f"{kind} {name}" for kind, name in TECHNIQUES])


RATE = 2e-3
RATES = dict.fromkeys(
    ("average", "learned", "multiplicative", "encoder"), 0.001
)  # the embeddings in a mixture slow learning down
BAR = 0.05  # below this loss, a model has memorised the eight examples
ENOUGH, LOOK_EVERY, MOST_STEPS = BAR / 2, 5, 600  # other processors round differently and may need more steps

# The labels of the eight sentences or pairs, and their meaning. Every other pair is similar.
CLASSES: dict[str, Any] = {"classes": ["bad", "poor", "good", "best"]}
SIMILAR: dict[str, Any] = {"classes": ["no", "yes"]}
SCORES: dict[str, Any] = {"scores": [0, 5]}
LABELS: dict[str, tuple[dict[str, Any], list[float]]] = {
    "classification": (CLASSES, [0, 1, 2, 3, 3, 2, 1, 0]),
    "regression": (SCORES, [0, 1.5, 2, 3, 5, 4.5, 2.5, 1]),
    "cosine": (SIMILAR, [1, 0] * 4),
    "concatenation": (SIMILAR, [1, 0] * 4),
}


def stages_of(name: str) -> list[dict[str, Any]]:
    """Return the options of stages such as "learned + xception". Convolutions get a narrow input, because they are slow."""
    stages = [{"type": stage} for stage in name.split(" + ")]
    return [stage | {"size": 32} if stage["type"] == "compression" and "xception" in name else stage for stage in stages]


def recipe_of(kind: str, name: str) -> Recipe:
    """Return the default recipe with one technique and a tiny random encoder without dropout.

    An objective has the first head that it fits.
    """
    head = each(ObjectiveOptions)[name].heads[0] if kind == "objective" else name if kind == "head" else "span"
    labels = LABELS[head][0] if head in LABELS else {}
    return parse_recipe(
        {
            "data": {"train": "unused"} | labels,
            "head": {"type": head},
            kind: stages_of(name) if " + " in name else {"type": name},
            "encoder": {"model": "tiny", "pretrained": False, "dropout": 0.0},
            "train": {"lr": RATES.get(name, RATE)},
        }
    )


def built(recipe: Recipe, seed: int = 0) -> Model:
    torch.manual_seed(seed)
    return build_model(recipe, encoders.build(encoders.find(recipe.encoder)))


def batch_of_eight(recipe: Recipe) -> Batch:
    """Return eight questions of two articles, one of them unanswerable, or eight sentences or pairs with labels."""
    head = recipe.main.head
    if not isinstance(head, SentenceHeadOptions):
        return make_batch(windows(corpus(2)[:8]), range(8))
    return make_batch(sentences(LABELS[head.type][1], head.sides), range(8 * head.sides))


def loss_of(model: Model, recipe: Recipe, batch: Batch) -> torch.Tensor:
    term = recipe.main.objective.build(recipe.main.data.labels)
    return term(model, batch, model(batch), term.counts(batch))


def shapes(outputs: Outputs, batch: Batch) -> list[tuple[int, ...]]:
    if isinstance(outputs, SpanOutputs):
        return [tuple(batch.ids.shape)] * 2
    if isinstance(outputs, PairOutputs):
        return [(8,), (8,), (8, outputs.first.shape[1]), (8, outputs.first.shape[1])]
    return (
        [(8,)] if isinstance(outputs, ScoreOutputs) else [(8, 4 if batch.labels is not None and batch.labels.max() > 1 else 2)]
    )


def test_shapes_and_finiteness(kind: str, name: str) -> None:
    recipe = recipe_of(kind, name)
    batch = batch_of_eight(recipe)
    outputs = built(recipe).eval()(batch)
    assert [tuple(logits.shape) for logits in logits_of(outputs)] == shapes(outputs, batch)
    for logits in logits_of(outputs):
        assert logits.dtype == torch.float32
        assert torch.isfinite(logits).all()


def test_padding_is_ignored(kind: str, name: str) -> None:
    recipe = recipe_of(kind, name)
    model = built(recipe).eval()
    batch = batch_of_eight(recipe)
    assert not batch.mask.all()
    noise = torch.randint(1000, 2000, batch.ids.shape)
    noisy = replace(batch, ids=torch.where(batch.mask, batch.ids, noise), type_ids=batch.type_ids | ~batch.mask)
    narrow = (batch.ids, batch.type_ids, batch.mask, batch.context)
    ids, type_ids, mask, context = (torch.nn.functional.pad(part, (0, 5)) for part in narrow)
    wide = replace(batch, ids=ids, type_ids=type_ids, mask=mask, context=context)
    with torch.no_grad():
        plain, other, wider = model(batch), model(noisy), model(wide)
    spans = isinstance(plain, SpanOutputs)
    for wanted, noisily, widely in zip(logits_of(plain), logits_of(other), logits_of(wider), strict=True):
        wanted = wanted[batch.mask] if spans else wanted
        torch.testing.assert_close(noisily[batch.mask] if spans else noisily, wanted, atol=1e-5, rtol=0)
        torch.testing.assert_close(widely[wide.mask] if spans else widely, wanted, atol=1e-5, rtol=0)


def test_gradients_reach_every_trainable_parameter(kind: str, name: str) -> None:
    recipe = recipe_of(kind, name)
    model = built(recipe).train()
    loss = loss_of(model, recipe, batch_of_eight(recipe))
    assert torch.isfinite(loss)
    loss.backward()
    reached = {
        parameter_name: parameter.grad
        for parameter_name, parameter in model.named_parameters()
        if parameter.requires_grad
        and (name == "answerability" or not parameter_name.startswith("encoder.pooler."))
        and not (name == "cosine_embedding" and ".turn." in parameter_name)  # it trains the cosine only, not the logit
    }
    assert len(reached) > 20
    for parameter_name, gradient in reached.items():
        assert gradient is not None, parameter_name
        assert torch.isfinite(gradient).all(), parameter_name
        if not parameter_name.endswith("attention.key.bias"):  # the softmax over keys cancels it
            assert gradient.any(), parameter_name


def test_loaded_weights_equal_the_saved_ones(kind: str, name: str, tmp_path: Path) -> None:
    recipe = recipe_of(kind, name)
    model, other = built(recipe).eval(), built(recipe, seed=1).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    batch = batch_of_eight(recipe)
    wanted = logits_of(model(batch))
    assert not torch.equal(logits_of(other(batch))[0], wanted[0])
    save_file(trained_weights(model), tmp_path / "model.safetensors")
    load_weights(other, load_file(tmp_path / "model.safetensors"))
    assert all(map(torch.equal, logits_of(other(batch)), wanted))


@torch.no_grad()
def judged(model: Model, recipe: Recipe, batch: Batch) -> float:
    """Return the loss in evaluation mode."""
    model.eval()
    loss = loss_of(model, recipe, batch).item()
    model.train()
    return loss


@cache
def learned(recipe_json: str) -> Model:
    """Train until the loss is half of the bar. The cache trains the common default of the three registries once."""
    recipe = Recipe.model_validate_json(recipe_json)
    model = built(recipe).train()
    optimizer = make_optimizer(model, recipe.train)
    batch = batch_of_eight(recipe)
    for step in range(MOST_STEPS):
        if step % LOOK_EVERY == 0 and judged(model, recipe, batch) < ENOUGH:
            break
        loss = loss_of(model, recipe, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.train.clip)  # as in the training loop
        optimizer.step()
    return model.eval()


@torch.no_grad()
def learned_labels(model: Model, batch: Batch) -> bool:
    """Return whether a model predicts every sentence's label."""
    outputs, wanted = model(batch), batch.labels
    assert wanted is not None
    if isinstance(outputs, ScoreOutputs):
        return bool(((5 * outputs.scores - wanted).abs() < 0.5).all())
    if isinstance(outputs, PairOutputs):
        return bool(((outputs.logits > 0) == wanted.bool()).all())
    assert isinstance(outputs, ClassOutputs)
    return bool((outputs.logits.argmax(-1) == wanted).all())


def test_a_model_can_memorise_eight_examples(kind: str, name: str) -> None:
    recipe = recipe_of(kind, name)
    model = learned(recipe.model_dump_json())
    with torch.no_grad():
        assert loss_of(model, recipe, batch_of_eight(recipe)).item() < BAR
    if isinstance(recipe.main.head, SentenceHeadOptions):
        assert learned_labels(model, batch_of_eight(recipe))
        return
    examples = corpus(2)[:8]
    data = windows(examples)
    if recipe.main.head.type == "answerability":
        predicted = item_outputs(model, data)["logits"].argmax(1)
        assert predicted.tolist() == [IMPOSSIBLE if not example.answers else 1 - IMPOSSIBLE for example in examples]
        return
    logits = span_logits(model, data)
    for prediction, example in zip(decode(data, logits.start, logits.end, examples), examples, strict=True):
        answer = prediction.answer()
        assert (answer.text if answer else None) == (example.answers[0].text if example.answers else None)


def test_it_has_a_section_in_the_documentation(kind: str, name: str) -> None:
    for part in name.split(" + "):
        assert_documented(PAGES[kind], part)
