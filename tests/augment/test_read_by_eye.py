"""A hundred made questions that were read by a person: does the text answer them after all?

`read_by_eye.json` keeps what was found, by id and a checksum of the made question. When the rules make others, draw and read
a hundred again: ``python scripts/unanswerable_samples.py squad2-train-assembled 100``.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from lamina.augment.unanswerable import UnanswerableOptions, make_unanswerable
from lamina.data.splits import sample
from lamina.data.squad import read

SEED = 7  # of the script


def test_the_old_answer_is_none_for_at_least_90_of_100(shared: Path) -> None:
    found = json.loads((Path(__file__).parent / "read_by_eye.json").read_text(encoding="utf-8"))
    made = make_unanswerable(read(shared / "data/squad2-train-assembled.json.xz"), UnanswerableOptions(share=0.5), SEED)
    drawn = [(one.id, hashlib.sha256(one.question.encode()).hexdigest()[:12]) for one in sample(made, 100, SEED)]
    assert [(one["id"], one["question"]) for one in found] == drawn, "these are others than those that were read"
    assert sum(not one["old_answer_fits"] for one in found) >= 90
