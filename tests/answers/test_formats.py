from __future__ import annotations

import json
import math

from lamina.answers.decode import NO_CANDIDATE_ODDS, Candidate, Prediction
from lamina.answers.formats import nbest_json, null_odds_json, predictions_json

SURE = Prediction("sure", 1.0, (Candidate("fox", 4, 7, 3.0), Candidate("red fox", 0, 7, 0.0)))
NULL = Prediction("null", 5.0, (Candidate("fox", 4, 7, 3.0),))
NONE = Prediction("none", -1.0, ())


def test_predictions_follow_the_threshold() -> None:
    assert predictions_json([SURE, NULL, NONE]) == {"sure": "fox", "null": "", "none": ""}
    assert predictions_json([SURE, NULL, NONE], threshold=2.0) == {"sure": "fox", "null": "fox", "none": ""}


def test_null_odds_are_finite() -> None:
    odds = null_odds_json([SURE, NULL, NONE])
    assert odds == {"sure": -2.0, "null": 2.0, "none": NO_CANDIDATE_ODDS}
    assert json.loads(json.dumps(odds, allow_nan=False)) == odds


def test_nbest_lists_rank_the_null_by_its_score() -> None:
    lists = nbest_json([SURE, NULL, NONE])
    assert [entry["text"] for entry in lists["sure"]] == ["fox", "", "red fox"]
    assert [entry["text"] for entry in lists["null"]] == ["", "fox"]
    assert lists["none"] == [{"text": "", "score": -1.0, "probability": 1.0, "start": 0, "end": 0}]
    for entries in lists.values():
        assert math.isclose(sum(float(entry["probability"]) for entry in entries), 1.0)
    json.dumps(lists, allow_nan=False)
