"""Convert predictions to the JSON objects of the SQuAD scripts: predictions, null odds and n-best lists, by example id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lamina.answers.calibration import Calibration
from lamina.answers.decode import Candidate, Prediction
from lamina.errors import LaminaError


def predictions_json(predictions: Iterable[Prediction], threshold: float = 0.0) -> dict[str, str]:
    """Return the answer's text by id, "" for "no answer", as the official scorers read it."""
    return {prediction.id: answer.text if (answer := prediction.answer(threshold)) else "" for prediction in predictions}


def null_odds_json(predictions: Iterable[Prediction]) -> dict[str, float]:
    """Return the null odds by id, for the scorers' ``--na-prob-file``, which takes any increasing score of "no answer"."""
    return {prediction.id: prediction.null_odds for prediction in predictions}


def nbest_json(predictions: Iterable[Prediction]) -> dict[str, list[dict[str, str | float | int]]]:
    """Return all candidates and the null answer "" by id, best first, as ``run_qa`` writes them.

    `score` is the start logit plus the end logit. `start` and `end` are character offsets in the context, 0 for the null.

    >>> prediction = Prediction("q", null=1.0, candidates=(Candidate("Paris", 10, 15, 1.0),))
    >>> for entry in nbest_json([prediction])["q"]:
    ...     print(entry)
    {'text': 'Paris', 'score': 1.0, 'probability': 0.5, 'start': 10, 'end': 15}
    {'text': '', 'score': 1.0, 'probability': 0.5, 'start': 0, 'end': 0}
    """
    return {prediction.id: _entries(prediction) for prediction in predictions}


def _entries(prediction: Prediction) -> list[dict[str, str | float | int]]:
    null, *rest = Calibration().probabilities(prediction)
    entries: list[tuple[float, dict[str, str | float | int]]] = [
        (c.score, {"text": c.text, "score": c.score, "probability": p, "start": c.start, "end": c.end})
        for c, p in zip(prediction.candidates, rest, strict=True)
    ]
    entries.append((prediction.null, {"text": "", "score": prediction.null, "probability": null, "start": 0, "end": 0}))
    return [entry for _, entry in sorted(entries, key=lambda pair: -pair[0])]


def predictions_of(nbest: Mapping[str, Any]) -> dict[str, Prediction]:
    """Return the predictions by id that `nbest_json` wrote; `nbest` is the content of its file.

    >>> prediction = Prediction("q", null=1.0, candidates=(Candidate("Paris", 10, 15, 1.0),))
    >>> predictions_of(nbest_json([prediction])) == {"q": prediction}
    True
    """
    found = {}
    for question, entries in nbest.items():
        try:
            (null,) = [float(entry["score"]) for entry in entries if not entry["text"]]
            candidates = tuple(
                Candidate(entry["text"], entry["start"], entry["end"], float(entry["score"]))
                for entry in entries
                if entry["text"]
            )
        except (KeyError, TypeError, ValueError):
            raise LaminaError(
                f"question {question}: not an n-best list of a run. "
                "Fix: give each entry a text, a score, a start and an end, and one entry the empty text"
            ) from None
        found[question] = Prediction(question, null, candidates)
    return found
