from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lamina.training.pcgrad import pcgrad

SHAPES = ((3, 2), (4,), (), (2, 2))


def flat(gradients: list[Tensor | None]) -> Tensor:
    parts = [torch.zeros(s) if g is None else g for g, s in zip(gradients, SHAPES, strict=True)]
    return torch.cat([part.flatten() for part in parts])


def naive(gradients: list[list[Tensor | None]], seed: int) -> Tensor:
    """Run the paper's algorithm on concatenated gradients, with the same draws."""
    vectors = [flat(gradient).double() for gradient in gradients]
    draw = np.random.default_rng(seed)
    total = torch.zeros_like(vectors[0])
    for i, vector in enumerate(vectors):
        projected = vector.clone()
        for j in draw.permutation(len(vectors)):
            dot = float(projected @ vectors[j])
            if j != i and dot < 0:
                projected -= dot / float(vectors[j] @ vectors[j]) * vectors[j]
        total += projected
    return total


def draw_gradients(tasks: int, seed: int) -> list[list[Tensor | None]]:
    """Return random gradients; each task leaves out some parameters."""
    generator = torch.Generator().manual_seed(seed)
    return [
        [None if torch.rand((), generator=generator) < 0.2 else torch.randn(s, generator=generator) for s in SHAPES]
        for _ in range(tasks)
    ]


@given(st.integers(1, 5), st.integers(0, 10_000))
@settings(deadline=None, max_examples=100)
def test_pcgrad_equals_the_papers_algorithm(tasks: int, seed: int) -> None:
    gradients = draw_gradients(tasks, seed)
    found = pcgrad(gradients, seed)
    torch.testing.assert_close(flat(found).double(), naive(gradients, seed), atol=1e-4, rtol=1e-4)
    for number, part in enumerate(found):
        assert (part is None) == all(gradient[number] is None for gradient in gradients)


def test_gradient_of_one_task_is_unchanged() -> None:
    (gradient,) = draw_gradients(1, 1)
    for found, given_one in zip(pcgrad([gradient], 0), gradient, strict=True):
        assert found is given_one is None or torch.equal(found, given_one)  # type: ignore[arg-type]


def test_orthogonal_gradients_are_summed() -> None:
    a, b, c = torch.tensor([3.0, 0, 0]), torch.tensor([0, 0.1, 0]), torch.tensor([0, 0, -7.0])
    (found,) = pcgrad([[a], [b], [c]], 0)
    assert found is not None
    assert torch.equal(found, a + b + c)


def test_agreeing_gradients_are_summed() -> None:
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([2.0, 0.5])
    (found,) = pcgrad([[a], [b]], 0)
    assert found is not None
    assert torch.equal(found, a + b)


def test_opposite_gradients_cancel_at_any_length() -> None:
    a = torch.tensor([1.0, -2.0])
    (found,) = pcgrad([[a], [-3 * a]], 0)
    assert found is not None
    assert found.abs().max() < 1e-6


def test_two_conflicting_gradients() -> None:
    """Check a = (1, 0) and b = (-1, 1): each loses its component along the other."""
    (found,) = pcgrad([[torch.tensor([1.0, 0.0])], [torch.tensor([-1.0, 1.0])]], 0)
    assert found is not None
    torch.testing.assert_close(found, torch.tensor([0.5, 0.5]) + torch.tensor([0.0, 1.0]))


def test_zero_gradient_is_no_conflict() -> None:
    a = torch.tensor([1.0, -1.0])
    (found,) = pcgrad([[a], [torch.zeros(2)]], 0)
    assert found is not None
    assert torch.equal(found, a)


def test_seed_draws_the_order_and_inputs_are_unchanged() -> None:
    gradients: list[list[Tensor | None]] = [[torch.tensor(v)] for v in ([1.0, 0.0], [-1.0, 0.1], [-0.5, -2.0])]
    before = [gradient[0].clone() for gradient in gradients if gradient[0] is not None]
    results = {tuple(flat_.tolist()) for seed in range(20) if (flat_ := pcgrad(gradients, seed)[0]) is not None}
    assert len(results) > 1
    again = [pcgrad(gradients, 3)[0] for _ in range(2)]
    assert again[0] is not None
    assert again[1] is not None
    assert torch.equal(again[0], again[1])
    assert all(torch.equal(old, new[0]) for old, new in zip(before, gradients, strict=True) if new[0] is not None)


def test_lists_of_different_lengths_raise() -> None:
    with pytest.raises(ValueError, match="zip"):
        pcgrad([[torch.ones(1)], [torch.ones(1), torch.ones(1)]], 0)
