"""Which heads may choose an objective."""

from __future__ import annotations

import pytest

from lamina.config.parse import parse_recipe
from lamina.errors import LaminaError
from lamina.objectives import SpanLossOptions


def test_the_default_objective_of_a_head_always_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpanLossOptions, "heads", ("cacnn",))
    assert parse_recipe({"data": {"train": "fables/train"}, "head": {"type": "span"}}).main.objective.type == "span"
    with pytest.raises(LaminaError, match="'span' is for heads of type cacnn, not answerability"):
        parse_recipe({"data": {"train": "fables/train"}, "head": {"type": "answerability"}, "objective": {"type": "span"}})
