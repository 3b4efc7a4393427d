"""Convert predictions to the JSON objects of the SQuAD scripts: predictions, null odds and n-best lists, by example id."""

from __future__ import annotations

from collections.abc import Iterable

from lamina.answers.calibration import Calibration
from lamina.answers.decode import Prediction


def predictions_json(predictions: Iterable[Prediction], threshold: float = 0.0) -> dict[str, str]:
    """Return the answer's text by id, "" for "no answer", as the official scorers read it."""
    return {prediction.id: answer.text if (answer := prediction.answer(threshold)) else "" for prediction in predictions}


def null_odds_json(predictions: Iterable[Prediction]) -> dict[str, float]:
    """Return the null odds by id, for the scorers' ``--na-prob-file``, which takes any increasing score of "no answer"."""
    return {prediction.id: prediction.null_odds for prediction in predictions}


def nbest_json(predictions: Iterable[Prediction]) -> dict[str, list[dict[str, str | float | int]]]:
    """Return all candidates and the null answer "" by id, best first, as ``run_qa`` writes them.

    `score` is the start logit plus the end logit. `start` and `end` are character offsets in the context, 0 for the null.

    >>> from lamina.answers.decode import Candidate
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
