"""Count right answers in n-best lists: by kind of question, and as the second entry of a list.

After BERTVision (Jiang, Benge and King 2021, section "Analysis"). The paper masks the best start and the best end of the
window, and takes the next ones as its second answer. Ours is the second entry of the n-best list, which includes "no answer".
An answer is right by the exact match of the official script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lamina.errors import LaminaError
from lamina.scoring.squad import Golds, question_scores


def ranked_texts(nbest: Mapping[str, Any], threshold: float = 0.0) -> dict[str, list[str]]:
    """Return each question's answers, best first, "" for "no answer", whose score is reduced by `threshold`.

    `nbest` is a result of `nbest_json`, or the content of a file by `lamina predict --nbest`.

    >>> entries = [{"text": "", "score": 2.0}, {"text": "Paris", "score": 1.5}]
    >>> ranked_texts({"q": entries}), ranked_texts({"q": entries}, threshold=1.0)
    ({'q': ['', 'Paris']}, {'q': ['Paris', '']})
    """
    ranked = {}
    for question, entries in nbest.items():
        try:
            scored = [(float(entry["score"]) - (0.0 if entry["text"] else threshold), entry["text"]) for entry in entries]
        except (KeyError, TypeError, ValueError):
            raise LaminaError(f"question {question}: not an n-best list. Fix: give each entry a text and a score") from None
        scored.sort(key=lambda pair: (-pair[0], pair[1] == ""))  # "no answer" comes last among equal scores
        ranked[question] = [text for _, text in scored]
    return ranked


def answer_counts(golds: Golds, ranked: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the numbers of questions with an answer (HasAns) and without, and how many of each are right.

    `wrong` counts the others, and `second_right` those of them whose second answer is right. `HasAns_wrong` and
    `HasAns_second_right` count the same among questions with an answer.
    """
    absent = [question for question in golds if not ranked.get(question)]
    if absent:
        raise LaminaError(
            f"ranked: {len(absent)} questions without n-best answers (first id {absent[0]}). "
            "Fix: give the n-best answers of every question"
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
