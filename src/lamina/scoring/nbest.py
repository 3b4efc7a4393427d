"""What n-best lists say beyond the score: how many of each kind of question are right, and how often the right answer stood
second (BERTVision, Jiang, Benge and King 2021, section "Analysis").

The paper finds its second answer by masking the best start and the best end of the window and taking the next ones. Ours is
the second entry of the n-best list, "no answer" included; right is what the official script's exact match calls right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lamina.errors import LaminaError
from lamina.scoring.squad import Golds, question_scores


def ranked_texts(nbest: Mapping[str, Any], threshold: float = 0.0) -> dict[str, list[str]]:
    """Each question's answers, best first, "" for "no answer", which loses `threshold` of its score.

    `nbest` is what `nbest_json` makes of predictions, or a file that `lamina predict --nbest` wrote, read back.

    >>> entries = [{"text": "", "score": 2.0}, {"text": "Paris", "score": 1.5}]
    >>> ranked_texts({"q": entries}), ranked_texts({"q": entries}, threshold=1.0)
    ({'q': ['', 'Paris']}, {'q': ['Paris', '']})
    """
    ranked = {}
    for question, entries in nbest.items():
        try:
            scored = [(float(entry["score"]) - (0.0 if entry["text"] else threshold), entry["text"]) for entry in entries]
        except (KeyError, TypeError, ValueError):
            raise LaminaError(f"question {question}: not an n-best list: each entry has a text and a score") from None
        scored.sort(key=lambda pair: (-pair[0], pair[1] == ""))  # among equals "no answer" comes last
        ranked[question] = [text for _, text in scored]
    return ranked


def answer_counts(golds: Golds, ranked: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How many questions have an answer (HasAns) and how many have none, and how many of each are right; and of the `wrong`
    how many have the right answer second: of all, and of those with an answer."""
    absent = [question for question in golds if not ranked.get(question)]
    if absent:
        raise LaminaError(
            f"{len(absent)} questions without n-best answers (first id {absent[0]}): give those of every question"
        )
    right = question_scores(golds, {question: ranked[question][0] for question in golds})[0]
    wrong = {question: golds[question] for question in golds if not right[question]}
    second = question_scores(
        {question: texts for question, texts in wrong.items() if len(ranked[question]) > 1},
        {question: ranked[question][1] for question in wrong if len(ranked[question]) > 1},
    )[0]
    has_answer = {question for question, texts in golds.items() if texts}
    return {
        "HasAns_total": len(has_answer),
        "HasAns_right": sum(right[question] > 0 for question in has_answer),
        "NoAns_total": len(golds) - len(has_answer),
        "NoAns_right": sum(right[question] > 0 for question in golds if question not in has_answer),
        "wrong": len(wrong),
        "second_right": sum(value > 0 for value in second.values()),
        "HasAns_wrong": len(wrong.keys() & has_answer),
        "HasAns_second_right": sum(value > 0 for question, value in second.items() if question in has_answer),
    }
