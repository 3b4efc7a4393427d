"""A small model and a fitting batch for every kind of head, to test terms that any task may add."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from lamina.data.batches import Batch, make_batch
from lamina.data.labels import Labels
from lamina.encoder.blocks import Encoder
from lamina.encoder.presets import PRESETS
from lamina.heads import (
    ClassificationHeadOptions,
    ConcatenationHeadOptions,
    CosineHeadOptions,
    RegressionHeadOptions,
    SpanHeadOptions,
)
from lamina.mixers import LastLayer
from lamina.model import Model, Task
from lamina.objectives import (
    BinaryCrossEntropyOptions,
    CrossEntropyOptions,
    SpanLossOptions,
    SquaredErrorOptions,
    Term,
)
from tests.tiny import corpus, sentences, windows

WIDTH = 16
THREE = Labels(("bad", "fair", "good"))
HEADS: dict[str, tuple[Any, Labels]] = {
    "classification": (ClassificationHeadOptions(), THREE),
    "regression": (RegressionHeadOptions(), Labels(low=0, high=5)),
    "cosine": (CosineHeadOptions(), Labels(("no", "yes"))),
    "concatenation": (ConcatenationHeadOptions(), THREE),
    "span": (SpanHeadOptions(), Labels()),
}
OBJECTIVES: dict[str, Any] = {
    "classification": CrossEntropyOptions(),
    "regression": SquaredErrorOptions(),
    "cosine": BinaryCrossEntropyOptions(),
    "concatenation": CrossEntropyOptions(),
    "span": SpanLossOptions(),
}
EACH_HEAD = pytest.mark.parametrize("name", HEADS)


def batch_of(name: str) -> Batch:
    if name == "span":
        return make_batch(windows(corpus(1)), range(5))
    sides = HEADS[name][0].sides
    return make_batch(sentences([0.0, 1.0] * 4, sides), range(8 * sides))


def model_of(name: str = "classification", *, dropout: float = 0.0, std: float = 0.5) -> Model:
    torch.manual_seed(0)
    shape = replace(PRESETS["tiny"], layers=2, hidden=WIDTH, embedding=WIDTH, intermediate=2 * WIDTH, dropout=dropout)
    options, labels = HEADS[name]
    tasks = {"main": Task(LastLayer(WIDTH, 2), options.build(WIDTH, labels))}
    tasks["other"] = Task(LastLayer(WIDTH, 2), ClassificationHeadOptions().build(WIDTH, THREE))
    model = Model(Encoder(shape), tasks)
    for key, parameter in model.named_parameters():
        if parameter.ndim > 1 and not key.startswith("encoder.embeddings"):
            nn.init.normal_(parameter, std=std / math.sqrt(parameter.shape[1] / 4))
    return model.train()


def objective_of(name: str) -> Term:
    term: Term = OBJECTIVES[name].build(HEADS[name][1])
    return term
