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
    print("this output must not mix with the result")
    return os.getpid(), os.getppid()


def only_here(process: int) -> str:
    if os.getpid() != process:
        os.kill(os.getpid(), signal.SIGKILL)
    return "computed here"


def refused() -> None:
    raise ValueError("not like this")


def test_the_call_runs_in_its_own_process() -> None:
    child, parent = BackgroundCall(where).result()
    assert child != parent == os.getpid()
    zeros = BackgroundCall(partial(np.zeros, 10**6)).result()  # more than a pipe holds
    assert zeros.shape == (10**6,)


def test_the_call_runs_here_if_its_process_dies() -> None:
    assert BackgroundCall(partial(only_here, os.getpid())).result() == "computed here"


def test_an_error_is_raised_here() -> None:
    with pytest.raises(ValueError, match="not like this"):
        BackgroundCall(refused).result()


def test_the_process_ends_with_its_object() -> None:
    ahead = BackgroundCall(partial(time.sleep, 1000))
    process = ahead._process
    del ahead
    gc.collect()
    assert process.wait(timeout=60) == -signal.SIGKILL


def test_a_plain_script_runs_once(tmp_path: Path) -> None:
    """Users write scripts without `if __name__ == "__main__"`."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "999999\n", "")
    assert (tmp_path / "log").read_text() == "begun\n"
