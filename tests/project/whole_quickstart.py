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


def quickstart(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LAMINA_CACHE": str(folder / "cache")}
    done = subprocess.run(["make", "quickstart"], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


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
    assert "already finished" in quickstart(folder).stderr
    assert installed_in(folder).is_relative_to(ROOT), "the environment is still that of this checkout"
