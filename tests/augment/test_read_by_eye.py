"""Test the quality of a hundred synthetic questions that a person has read: does the text answer them after all?

`read_by_eye.json` has the findings, with the id and a checksum of each question and its text. If the rules change, sample and
read a hundred again: ``python scripts/unanswerable_samples.py squad2-train-31k 100``.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from lamina.augment.unanswerable import UnanswerableOptions, make_unanswerable
from lamina.data.examples import Example
from lamina.data.splits import sample
from lamina.data.squad import read

SEED = 7  # of the script


def test_at_least_90_of_100_have_no_answer(shared: Path) -> None:
    found = json.loads((Path(__file__).parent / "read_by_eye.json").read_text(encoding="utf-8"))
    synthetic = make_unanswerable(read(shared / "data/squad2-train-31k.json.xz"), UnanswerableOptions(share=0.5), SEED)
    drawn = [(one.id, _checksum(one)) for one in sample(synthetic, 100, SEED)]
    assert [(one["id"], one["sha256"]) for one in found] == drawn, "these are not the questions that were read"
    assert sum(not (one["old_answer_fits"] or one["another_fits"]) for one in found) >= 90


def _checksum(synthetic: Example) -> str:
    return hashlib.sha256(f"{synthetic.question}\n{synthetic.context}".encode()).hexdigest()[:12]
