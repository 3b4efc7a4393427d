from __future__ import annotations

import numpy as np
import pytest
import torch

from lamina.data.batches import make_batch
from lamina.model.inference import span_logits
from tests.tiny import corpus, model, windows


class Counting:
    """Progress that records its calls."""

    def __init__(self) -> None:
        self.total = self.done = 0

    def start(self, label: str, total: int, done: int = 0) -> None:
        self.total = total

    def advance(self, amount: int, note: str = "") -> None:
        self.done += amount

    def say(self, line: str) -> None: ...


def test_logits_of_a_window_do_not_depend_on_its_batch() -> None:
    made = windows(corpus(3))
    assert len(set(made.lengths.tolist())) > 3
    tiny = model(layers=2).eval()
    found = span_logits(tiny, made)
    assert found.start.shape == found.end.shape == made.ids.shape
    assert found.start.dtype == np.float32
    with torch.no_grad():
        for row in range(len(made)):
            alone = tiny(make_batch(made, [row]))
            own = slice(int(made.starts[row]), int(made.starts[row + 1]))
            np.testing.assert_allclose(found.start[own], alone.start[0].numpy(), atol=1e-5)
            np.testing.assert_allclose(found.end[own], alone.end[0].numpy(), atol=1e-5)
    assert found.start.std() > 1e-3
    assert not np.allclose(found.start, found.end, atol=1e-3)


@pytest.mark.parametrize("tokens", [1, 100, 10**6])
def test_the_batch_size_changes_nothing(tokens: int) -> None:
    made = windows(corpus(2))
    tiny = model().eval()
    usual, other = span_logits(tiny, made), span_logits(tiny, made, tokens=tokens)
    np.testing.assert_allclose(other.start, usual.start, atol=1e-5)
    np.testing.assert_allclose(other.end, usual.end, atol=1e-5)


def test_progress_counts_windows() -> None:
    made = windows(corpus(1))
    progress = Counting()
    span_logits(model().eval(), made, tokens=100, progress=progress)
    assert progress.done == len(made)


def test_no_windows_give_no_logits() -> None:
    found = span_logits(model().eval(), windows([]))
    assert found.start.shape == found.end.shape == (0,)


def test_no_gradients_are_kept() -> None:
    tiny = model().eval()
    span_logits(tiny, windows(corpus(1)))
    assert all(parameter.grad is None for parameter in tiny.parameters())


def test_the_number_of_threads_does_not_change_the_logits() -> None:
    made, tiny, before = windows(corpus(3)), model(layers=2).eval(), torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(span_logits(tiny, made, tokens=300))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(other.start, found[0].start)
        np.testing.assert_array_equal(other.end, found[0].end)


def test_bfloat16_gives_nearly_the_same_logits() -> None:
    made = windows(corpus(2))
    tiny = model(layers=2).eval()
    exact = span_logits(tiny, made)
    tiny.precision = torch.bfloat16
    rounded = span_logits(tiny, made)
    assert rounded.start.dtype == np.float32
    assert not np.array_equal(rounded.start, exact.start)
    scale = np.abs(exact.start).max()
    np.testing.assert_allclose(rounded.start, exact.start, atol=0.05 * scale)
    np.testing.assert_allclose(rounded.end, exact.end, atol=0.05 * scale)
