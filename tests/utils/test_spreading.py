"""One item that kills its process costs no other item its result."""

from __future__ import annotations

import os
import signal

from lamina.utils.spreading import TRIES, Lost, Workers


def halved(number: int) -> float:
    """Return half of a number; 0 kills the process, as a lack of memory does."""
    if number == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return number / 2


def test_an_item_that_kills_its_process_is_lost_alone() -> None:
    found = dict(Workers(count=2).spread(halved, range(40)))
    assert found.pop(0) == Lost(f"a process was killed {TRIES} times")
    assert found == {number: number / 2 for number in range(1, 40)}
