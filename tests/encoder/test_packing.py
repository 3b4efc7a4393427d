"""Weights in 8 bits: the error of a row is bounded, packing twice changes nothing, and files unpack when they are read."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from lamina.encoder.files import read_tensors, tensor_names
from lamina.encoder.packing import MOST, SCALE, SMALL, pack, quantise, unpack
from lamina.errors import LaminaError


@st.composite
def matrices(draw: st.DrawFn) -> torch.Tensor:
    """Matrices of all sizes of weights: normal ones, rows of zeros, and rows with a few great weights."""
    rows, columns = draw(st.integers(1, 8)), draw(st.integers(1, 40))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    matrix = torch.randn(rows, columns, generator=generator)
    matrix = matrix.sign() * matrix.abs() ** draw(st.sampled_from([0.5, 1.0, 4.0]))
    sizes = draw(st.lists(st.sampled_from([0.0, 1e-38, 1e-20, 1e-3, 1.0, 50.0, 1e10]), min_size=rows, max_size=rows))
    return matrix * torch.tensor(sizes).unsqueeze(1)


@given(matrices())
@settings(max_examples=200, deadline=None)
def test_a_weight_is_off_by_half_a_step_at_most(matrix: torch.Tensor) -> None:
    whole, scale = quantise(matrix)
    assert whole.dtype == torch.int8 and int(whole.abs().max()) <= MOST
    step = matrix.double().abs().amax(1, keepdim=True) / MOST
    errors = (unpack(whole, scale).double() - matrix.double()).abs()
    assert (errors <= step / 2 * 1.0001 + 1e-30).all()


@given(matrices())
@settings(max_examples=100, deadline=None)
def test_packing_packed_weights_changes_nothing(matrix: torch.Tensor) -> None:
    whole, scale = quantise(matrix)
    again, same = quantise(unpack(whole, scale))
    torch.testing.assert_close(again, whole, rtol=0, atol=0)
    torch.testing.assert_close(same, scale, rtol=1e-6, atol=1e-30)


def test_a_file_has_a_quarter_of_the_size_and_unpacks(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    weights = {
        "word.weight": torch.randn(300, 64, generator=generator),
        "kernel.weight": torch.randn(32, 16, 3, 3, generator=generator),
        "bias": torch.randn(10_000, generator=generator).half(),
        "head.weight": torch.randn(2, 64, generator=generator),
        "count": torch.tensor([3]),
    }
    packed = pack(weights)
    assert weights["head.weight"].numel() < SMALL
    assert {name: str(value.dtype).removeprefix("torch.") for name, value in packed.items()} == {
        "word.weight": "int8",
        f"word.weight{SCALE}": "float32",
        "kernel.weight": "int8",
        f"kernel.weight{SCALE}": "float32",
        "bias": "float32",
        "head.weight": "float32",
        "count": "int64",
    }
    save_file(packed, tmp_path / "model.safetensors")
    files = (tmp_path / "model.safetensors",)
    assert sorted(tensor_names(files)) == sorted(weights)
    found = dict(read_tensors(files))
    assert found.keys() == weights.keys()
    for name, value in weights.items():
        torch.testing.assert_close(found[name], value if name == "count" else value.float(), rtol=0, atol=0.02)
    torch.testing.assert_close(found["head.weight"], weights["head.weight"], rtol=0, atol=0)
    assert dict(read_tensors(files, {"bias"})).keys() == {"bias"}
    size = sum(value.nbytes for value in load_file(files[0]).values() if value.dtype == torch.int8)
    assert size == 300 * 64 + 32 * 16 * 9


def test_weights_that_are_not_finite_are_refused() -> None:
    with pytest.raises(LaminaError, match=r"w: a weight is not finite, so it has no 8 bits. Fix: train the model again"):
        pack({"w": torch.full((64, 64), torch.nan)})
