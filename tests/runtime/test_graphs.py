"""Graphs give the logits of torch: all families, mixers and heads, adapters and LoRA, batches of any size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from lamina.config.build import build_model
from lamina.config.parse import parse_recipe
from lamina.encoder.blocks import Encoder
from lamina.encoder.presets import PRESETS
from lamina.heads import HeadOptions
from lamina.heads.sentence import SentenceHeadOptions
from lamina.mixers import MixerOptions
from lamina.model import Model
from lamina.runtime.manifest import Purpose
from tests.conformance.test_techniques import LABELS, STAGES, each, stages_of
from tests.runtime.graphs import CLOSE, greatest_difference, random_batch, session_of

VOCAB = 60
SMALL = replace(PRESETS["tiny"], layers=2, hidden=24, embedding=24, heads=4, intermediate=40, vocab=VOCAB, positions=50)
FAMILIES = {
    "bert": SMALL,
    "electra": replace(SMALL, family="electra", embedding=16),
    "albert": replace(SMALL, family="albert", embedding=16, shared=True, activation="gelu_new"),
    "roberta": replace(SMALL, family="roberta", position_offset=2, pad_id=1, types=1),
    "distilbert": replace(SMALL, family="distilbert", types=0, pooler=False, activation="relu"),
}
# Those with filters or pictures take the longest; each of them is different code.
HEADS: list[dict[str, Any]] = [
    *({"type": name} | ({"context": 16} if name == "cacnn" else {}) for name in each(HeadOptions) if name != "span"),
    {"type": "cacnn", "form": "simplified"},
    {"type": "cacnn", "two_tower": True, "context": 16},
    {"type": "classification", "pooling": "pooler"},
]


def model_of(shape: Any = SMALL, **tables: Any) -> tuple[Model, int]:
    """Return a model with large random weights, so that attention is far from uniform, and the sides of its items."""
    head = tables.get("head", {}).get("type", "span")
    data = {"train": "unused"} | (LABELS[head][0] if head in LABELS else {})
    recipe = parse_recipe({"data": data, "encoder": {"model": "tiny", "pretrained": False}, **tables})
    torch.manual_seed(1)
    model = build_model(recipe, Encoder(shape)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.3 if parameter.shape[-1] < 100 else 0.05)
            elif "norm" not in name:
                parameter.normal_(std=0.1)
    options = recipe.main.head
    return model, options.sides if isinstance(options, SentenceHeadOptions) else 1


def assert_same(model: Model, sides: int, purpose: Purpose = "outputs", types: int = 2) -> None:
    session = session_of(model, purpose, sides)
    for seed, (rows, tokens) in enumerate(((2, 5), (2, 23), (6, 40))):
        batch = random_batch(rows, tokens, VOCAB, seed, types)
        assert greatest_difference(model, session, batch, purpose, sides) < CLOSE


@pytest.mark.parametrize("family", FAMILIES)
def test_families(family: str) -> None:
    model, sides = model_of(FAMILIES[family])
    assert_same(model, sides, types=FAMILIES[family].types)


@pytest.mark.parametrize("name", [*(name for name in each(MixerOptions) if name != "last"), *STAGES])
def test_mixers(name: str) -> None:
    model, sides = model_of(mixer=stages_of(name) if " + " in name else {"type": name})
    assert_same(model, sides)


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_heads(head: dict[str, Any]) -> None:
    model, sides = model_of(head=head)
    assert_same(model, sides)


@pytest.mark.parametrize("pooling", ["mean", "cls", "pooler"])
def test_vectors_of_texts(pooling: str) -> None:
    model, _ = model_of(head={"type": "cosine", "pooling": pooling})
    session = session_of(model, "vectors")
    batch = random_batch(3, 17, VOCAB, 0)  # an odd number of texts, which are no pairs
    assert greatest_difference(model, session, batch, "vectors") < CLOSE


@pytest.mark.parametrize("tune", [{"adapters": {"size": 8}}, {"lora": {"rank": 4}}], ids=str)
@pytest.mark.parametrize("family", ["bert", "albert"])
def test_adapters_and_lora(tune: dict[str, Any], family: str) -> None:
    model, sides = model_of(FAMILIES[family], tune={"layers": 0, **tune})
    assert_same(model, sides)
