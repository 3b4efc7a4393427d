"""What trains: the counts of paper 003, and what stays as it was."""

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
def test_the_cut_lies_below_the_first_parameter_that_trains(options: dict[str, Any], cut: int) -> None:
    assert prepared(**options).cut == cut


def test_the_last_layers_train_and_nothing_else() -> None:
    names = trained(prepared(layers=1))
    assert names == {name for name, _ in Encoder(TINY).named_parameters() if name.startswith("blocks.2.")}


def test_norms_train_in_every_layer() -> None:
    names = trained(prepared(layers=0, norms=True))
    assert len(names) == 2 * (1 + 2 * 3)
    assert all("norm" in name for name in names)


def test_frozen_layers_stay_in_eval_mode() -> None:
    """Dropout below the cut would make the states of a window differ from epoch to epoch."""
    encoder = prepared(layers=1).train()
    active = [name for name, module in encoder.named_modules() if isinstance(module, Dropout) and module.training]
    assert active == ["blocks.2.dropout"]
    assert all(m.training for m in prepared().train().modules() if isinstance(m, Dropout))
    assert all(m.training for m in prepared(layers=1, dropout=True).train().modules() if isinstance(m, Dropout))
    assert not any(m.training for m in encoder.eval().modules())


@pytest.mark.parametrize("layers", [1, 2])
def test_albert_trains_whole_or_not_at_all(layers: int) -> None:
    with pytest.raises(LaminaError, match="share one block"):
        prepared(ALBERT, layers=layers)


def test_albert_is_cut_only_when_it_is_frozen_whole() -> None:
    assert prepared(ALBERT, layers=0).cut == 3
    assert prepared(ALBERT, layers=0, adapters={"size": 2, "layers": 1}).cut == 0
    assert prepared(ALBERT).cut == -1


def test_albert_s_adapters_are_per_layer() -> None:
    encoder = prepared(ALBERT, layers=0, adapters={"size": 2})
    one = 2 * (2 * 16 * 2 + 2 + 16)
    assert sum(p.numel() for p in encoder.parameters() if p.requires_grad) == 3 * one


def test_too_many_layers_are_refused() -> None:
    with pytest.raises(LaminaError, match=r"tune\.layers = 4, but the encoder has 3 layers"):
        prepared(layers=4)
