from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from lamina.utils.background import BackgroundCall

SCRIPT = """
import sys
from functools import partial
from pathlib import Path
from lamina.utils.background import BackgroundCall

with Path(sys.argv[1]).open("a") as log:
    log.write("begun\\n")
print(BackgroundCall(partial(max, range(10**6))).result())
"""


def where() -> tuple[int, int]:
    print("what is printed there is not part of the answer")
    return os.getpid(), os.getppid()


def only_here(process: int) -> str:
    if os.getpid() != process:
        os.kill(os.getpid(), signal.SIGKILL)
    return "made here"


def refused() -> None:
    raise ValueError("not like this")


def test_it_is_made_in_a_process_of_its_own() -> None:
    child, parent = BackgroundCall(where).result()
    assert child != parent == os.getpid()
    zeros = BackgroundCall(partial(np.zeros, 10**6)).result()  # more than a pipe holds
    assert zeros.shape == (10**6,)


def test_where_the_process_dies_it_is_made_here() -> None:
    assert BackgroundCall(partial(only_here, os.getpid())).result() == "made here"


def test_an_error_is_told_here() -> None:
    with pytest.raises(ValueError, match="not like this"):
        BackgroundCall(refused).result()


def test_the_process_ends_with_what_waits_for_it() -> None:
    ahead = BackgroundCall(partial(time.sleep, 1000))
    process = ahead._process
    del ahead
    gc.collect()
    assert process.wait(timeout=60) == -signal.SIGKILL


def test_a_plain_script_runs_once(tmp_path: Path) -> None:
    """One without `if __name__ == "__main__"`, as people write them."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "999999\n", "")
    assert (tmp_path / "log").read_text() == "begun\n"
