"""Helpers for tests that compare the outputs of heads."""

from __future__ import annotations

from dataclasses import fields

from torch import Tensor

from lamina.heads.outputs import Outputs


def logits_of(outputs: Outputs) -> list[Tensor]:
    """Return every floating-point tensor of a head's outputs of any kind."""
    values = [getattr(outputs, field.name) for field in fields(outputs)]
    return [value for value in values if value.is_floating_point()]
