"""The weights of graphs, made from model.safetensors with numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from lamina.errors import LaminaError, first_line
from lamina.runtime.manifest import Initializer
from lamina.utils.arrays import Floats

SCALE = ":scale"  # after the name of a packed tensor, the name of its scales (`encoder.packing`)

Array = npt.NDArray[Any]


def read_initializers(file: Path, wanted: Mapping[str, Initializer]) -> dict[str, Array]:
    """Return the tensors of a graph by name.

    Raises:
        LaminaError: The file cannot be read, or a tensor is missing.
    """
    if not wanted:
        return {}
    try:
        with safe_open(file, framework="numpy") as stored:
            names = set(stored.keys())

            def tensor(name: str) -> Array:
                found: Array = stored.get_tensor(name)
                return found

            return {name: _made(one, tensor, names) for name, one in wanted.items()}
    except (OSError, SafetensorError) as error:
        reason = first_line(error)
        raise LaminaError(f"{file}: the weights cannot be read ({reason}). Fix: copy or export the model again") from None


def unpacked(packed: npt.NDArray[np.int8], scales: Floats) -> Floats:
    """Return the weights of int8 rows [N, ...] and their scales [N], in float32."""
    found: Floats = np.multiply(packed, scales.reshape(-1, *[1] * (packed.ndim - 1)), dtype=np.float32)
    return found


def arranged(parts: Sequence[Array], how: Initializer) -> Array:
    """Return the tensor of an initializer from its parts, which have the `rows` only."""
    joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if not how.transposed:
        return joined
    found = np.ascontiguousarray(joined.T)
    if how.zeros:
        found[list(how.zeros)] = 0
    return found


def _made(one: Initializer, tensor: Callable[[str], Array], names: set[str]) -> Array:
    return arranged([_part(name, one, tensor, names) for name in one.tensors], one)


def _part(name: str, one: Initializer, tensor: Callable[[str], Array], names: set[str]) -> Array:
    if one.form == "scales":
        return tensor(name + SCALE)
    stored = tensor(name)[:, list(one.rows)] if one.rows else tensor(name)
    return unpacked(stored, tensor(name + SCALE)) if one.form == "float32" and name + SCALE in names else stored
