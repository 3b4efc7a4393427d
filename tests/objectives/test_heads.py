"""Which heads an objective fits."""

from __future__ import annotations

import pytest

from lamina.config.parse import parse_recipe
from lamina.errors import LaminaError
from lamina.objectives import SpanLossOptions


def test_a_heads_own_objective_fits_even_if_the_objective_does_not_list_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpanLossOptions, "heads", ("cacnn",))
    assert parse_recipe({"data": {"train": "fables/train"}, "head": {"type": "span"}}).main.objective.type == "span"
    with pytest.raises(LaminaError, match="'span' is for heads of type cacnn, not answerability"):
        parse_recipe({"data": {"train": "fables/train"}, "head": {"type": "answerability"}, "objective": {"type": "span"}})
