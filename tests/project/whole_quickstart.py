"""The quickstart of the README with its real encoder and corpus. `.ci/run` runs it after all other tests.

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


def quickstart(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LAMINA_CACHE": str(folder / "cache")}
    done = subprocess.run(["make", "quickstart"], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def readme_answers(folder: Path) -> list[str]:
    """Run the first example of the README with the trained model. Return its answers, without their confidences."""
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


def test_quickstart_answers_as_in_the_readme(tmp_path: Path) -> None:
    folder = tmp_path / "a fresh checkout"
    folder.mkdir()
    copy_checkout(folder)
    began = time.monotonic()
    printed = quickstart(folder).stdout
    minutes = (time.monotonic() - began) / 60
    scores = read_json(folder / "runs/quickstart/scores.json")
    print(f"\nmake quickstart: {minutes:.1f} minutes, tuned F1 {scores['tuned']['f1']:.1f}\n{printed}")

    answers = re.findall(r"^A: (.*)$", printed, re.MULTILINE)
    assert len(answers) == 3
    assert sum(answer.startswith("no answer") for answer in answers) == 1
    all_null = 100 * scores["zero"]["NoAns_total"] / scores["zero"]["total"]
    assert scores["tuned"]["f1"] >= 70
    assert scores["tuned"]["f1"] >= all_null + 25
    # Processors round differently, so training ends with other weights, as with another seed.
    pairs = list(zip(readme_answers(folder), readme_promises(), strict=True))
    assert sum(answer == promise for answer, promise in pairs) >= 2, pairs
    assert "already finished" in quickstart(folder).stderr
    assert installed_in(folder).is_relative_to(ROOT), "the environment is still that of this checkout"
