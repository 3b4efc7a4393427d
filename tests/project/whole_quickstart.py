"""The quickstart of the README with the shipped reader. `.ci/run` runs it after all other tests.

It takes minutes, so pytest collects it only if it is named: `make check-quickstart`.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

from lamina.utils.files import read_json
from tests.checkout import ROOT, copy_checkout, installed_in
from tests.project.pages import blocks, text_of

RIGHT = ["Odile Marrash", "240", "no answer"]  # the right answers to the three questions


def quickstart(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LAMINA_CACHE": str(folder / "cache")}
    done = subprocess.run(["make", "quickstart"], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def answers_in(printed: str) -> list[str]:
    """Return the answers that `lamina ask` printed, without their confidences.

    >>> answers_in("Q: When?\\nA: 1712 (confidence 0.84)")
    ['1712']
    """
    return [answer.rpartition(" (")[0] for answer in re.findall(r"^A: (.*)$", printed, re.MULTILINE)]


def readme_answers(folder: Path) -> list[str]:
    """Run the first example of the README. Return its answers, without their confidences."""
    code = blocks(text_of("README.md"), "python")[0]
    python = [str(ROOT / ".venv/bin/python"), "-c", code]
    done = subprocess.run(python, cwd=folder, capture_output=True, text=True, check=True)
    return without_confidences(done.stdout)


def readme_promises() -> list[str]:
    """Return the answers that the README prints under its first example."""
    return without_confidences(blocks(text_of("README.md"), "text")[0])


def without_confidences(printed: str) -> list[str]:
    """Remove what may differ between processors.

    >>> without_confidences("1712 (confidence 0.84)")
    ['1712']
    """
    return [line.rpartition(" (confidence ")[0] for line in printed.splitlines()]


def test_quickstart_answers_fits_and_answers_again(tmp_path: Path) -> None:
    folder = tmp_path / "a fresh checkout"
    folder.mkdir()
    copy_checkout(folder)
    began = time.monotonic()
    printed = quickstart(folder).stdout
    print(f"\nmake quickstart: {(time.monotonic() - began) / 60:.1f} minutes\n{printed}")
    answers = answers_in(printed)
    assert len(answers) == 6
    assert sum(right in answer for right, answer in zip(RIGHT, answers[:3], strict=True)) == 3
    fitted = read_json(folder / "runs/fitted-quickstart/fit.json")
    assert fitted["kept_start"] or fitted["scores"]["f1"]["after"] > fitted["scores"]["f1"]["before"]
    assert readme_answers(folder) == readme_promises()
    again = answers_in(quickstart(folder).stdout)
    assert again == answers, "the finished fit is used again"
    assert installed_in(folder).is_relative_to(ROOT), "the environment is still that of this checkout"
