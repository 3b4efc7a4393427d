"""The choice of trainable weights: the counts of paper 003, and frozen layers stay unchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from lamina.encoder.blocks import Dropout, Encoder
from lamina.encoder.freezing import TuneOptions, prepare
from lamina.encoder.presets import PRESETS
from lamina.errors import LaminaError

TINY = replace(PRESETS["tiny"], layers=3, hidden=16, embedding=16, intermediate=32, vocab=50, positions=20)
ALBERT = replace(TINY, family="albert", shared=True)


def prepared(config: Any = TINY, **options: Any) -> Encoder:
    torch.manual_seed(0)
    encoder = Encoder(config)
    prepare(encoder, TuneOptions.model_validate(options))
    return encoder


def trained(encoder: Encoder) -> set[str]:
    return {name for name, parameter in encoder.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize(
    ("options", "cut"),
    [
        ({}, -1),
        ({"layers": 3}, 0),
        ({"layers": 1}, 2),
        ({"layers": 0}, 3),
        ({"layers": 1, "norms": True}, -1),
        ({"layers": 1, "embeddings": True}, -1),
        ({"layers": 1, "dropout": True}, -1),
        ({"layers": 0, "adapters": {"size": 2, "layers": 1}}, 2),
        ({"layers": 1, "adapters": {"size": 2, "layers": [2]}}, 1),
        ({"layers": 0, "lora": {"rank": 1}}, 0),
        ({"layers": "all", "adapters": {"size": 2}}, -1),
    ],
)
def test_the_cut_is_below_the_first_trainable_parameter(options: dict[str, Any], cut: int) -> None:
    assert prepared(**options).cut == cut


def test_only_the_last_layers_train() -> None:
    names = trained(prepared(layers=1))
    assert names == {name for name, _ in Encoder(TINY).named_parameters() if name.startswith("blocks.2.")}


def test_norms_train_in_every_layer() -> None:
    names = trained(prepared(layers=0, norms=True))
    assert len(names) == 2 * (1 + 2 * 3)
    assert all("norm" in name for name in names)


def test_frozen_layers_stay_in_eval_mode() -> None:
    """With dropout below the cut, the states of a window would differ between epochs."""
    encoder = prepared(layers=1).train()
    active = [name for name, module in encoder.named_modules() if isinstance(module, Dropout) and module.training]
    assert active == ["blocks.2.dropout"]
    assert all(m.training for m in prepared().train().modules() if isinstance(m, Dropout))
    assert all(m.training for m in prepared(layers=1, dropout=True).train().modules() if isinstance(m, Dropout))
    assert not any(m.training for m in encoder.eval().modules())


@pytest.mark.parametrize("layers", [1, 2])
def test_albert_trains_all_layers_or_none(layers: int) -> None:
    with pytest.raises(LaminaError, match="share one block"):
        prepared(ALBERT, layers=layers)


def test_albert_has_a_cut_only_if_all_layers_are_frozen() -> None:
    assert prepared(ALBERT, layers=0).cut == 3
    assert prepared(ALBERT, layers=0, adapters={"size": 2, "layers": 1}).cut == 0
    assert prepared(ALBERT).cut == -1


def test_adapters_of_albert_are_separate_for_each_layer() -> None:
    encoder = prepared(ALBERT, layers=0, adapters={"size": 2})
    one = 2 * (2 * 16 * 2 + 2 + 16)
    assert sum(p.numel() for p in encoder.parameters() if p.requires_grad) == 3 * one


def test_too_many_layers_are_refused() -> None:
    with pytest.raises(LaminaError, match=r"tune\.layers: 4, but the encoder has 3 layers"):
        prepared(layers=4)
