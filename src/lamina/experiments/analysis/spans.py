"""Analyse a task that answers questions with spans, after BERTVision (Jiang, Benge and King 2021, section 4).

Predictions are taken at the run's own threshold. Right means the exact match of the official script. The second answer is the
second entry of the n-best list, which includes "no answer" (`scoring.nbest` describes the departure from the paper).
Questions with several contexts are analysed context by context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Final

from lamina.answers.decode import Prediction
from lamina.data.examples import Answer, Example
from lamina.data.question_types import QUESTION_TYPES, question_type
from lamina.experiments.analysis.common import Outcome, confidence_of, mean_words, most_confident, share
from lamina.experiments.analysis.results import Group, Mistake, SpanAnalysis
from lamina.experiments.analysis.saved_tasks import SavedSpans
from lamina.scoring.nbest import answer_counts, ranked_texts
from lamina.scoring.predictions import references
from lamina.scoring.squad import question_scores

UNANSWERABLE: Final = "no answer"
_LENGTHS: Final = {"1 word": 1, "2 words": 2, "3-4 words": 4, "5-8 words": 8}  # the most words of each group
_MORE: Final = "9 words or more"
_AROUND: Final = 70  # characters before and after a span


def analyze_spans(saved: SavedSpans) -> Outcome:
    """Return the analysis of a span task."""
    examples, decision = saved.examples, saved.scored.decision
    golds = references(examples)
    ranked = ranked_texts(saved.nbest, decision.threshold)
    texts = {question: ranked[question][0] for question in golds}
    exact, f1 = question_scores(golds, texts)
    right = [exact[example.id] > 0 for example in examples]
    null = sum(bool(e.answers) and not texts[e.id] and not ok for e, ok in zip(examples, right, strict=True))
    counts = answer_counts(golds, ranked) | {"HasAns_null": null}
    chances = [_confidence(decision.calibration.probabilities(p), texts[p.id]) for p in saved.predictions]
    contexts = {value: [e.context for e, ok in zip(examples, right, strict=True) if ok is value] for value in (True, False)}
    analysis = SpanAnalysis(
        questions=len(examples),
        threshold=decision.threshold,
        exact=100 * fmean(exact.values()),
        f1=100 * fmean(f1.values()),
        counts=counts,
        null_of_wrong_has_answer=share(counts["HasAns_null"], counts["HasAns_wrong"]),
        second_right_of_wrong=share(counts["second_right"], counts["wrong"]),
        has_answer_of_second_right=share(counts["HasAns_second_right"], counts["second_right"]),
        has_answer_of_right=share(counts["HasAns_right"], counts["HasAns_right"] + counts["NoAns_right"]),
        context_words_of_right=mean_words(contexts[True]),
        context_words_of_wrong=mean_words(contexts[False]),
        by_question_word=_groups(examples, exact, f1, lambda e: question_type(e.question), QUESTION_TYPES),
        by_answer_length=_groups(examples, exact, f1, answer_length, (*_LENGTHS, _MORE, UNANSWERABLE)),
        confidence=confidence_of(chances, right),
        mistakes=[
            _mistake(examples[n], saved.predictions[n], texts[examples[n].id], chances[n])
            for n in most_confident(chances, right)
        ],
    )
    return Outcome(analysis, examples, right)


def answer_length(example: Example) -> str:
    """Return the group of an example by the number of words of its shortest reference."""
    if not example.answers:
        return UNANSWERABLE
    words = min(len(answer.text.split()) for answer in example.answers)
    return next((name for name, most in _LENGTHS.items() if words <= most), _MORE)


def excerpt(context: str, start: int, end: int) -> str:
    """Return the piece of a context around a span, cut at white space, in one line.

    >>> excerpt("Ada built\\nthe mill.", 0, 3)
    'Ada built the mill.'
    """
    first, last = max(0, start - _AROUND), min(len(context), end + _AROUND)
    before, after = context[first:start], context[end:last]
    if first:
        before = before.partition(" ")[2] or before
    if last < len(context):
        after = after.rpartition(" ")[0] or after
    piece = " ".join(f"{before}{context[start:end]}{after}".split())
    return f"{'… ' if first else ''}{piece}{' …' if last < len(context) else ''}"


def question_mistake(example: Example, prediction: str, confidence: float, span: tuple[int, int] | None = None) -> Mistake:
    """Return a mistake with the context around a span; without a span, around the reference or at the beginning."""
    if span is None:
        gold = example.answers[0] if example.answers else Answer("", 0)
        span = gold.start, gold.start + len(gold.text)
    texts = list(dict.fromkeys(answer.text for answer in example.answers))
    return Mistake(example.id, example.question, texts, prediction, confidence, excerpt(example.context, *span))


def _confidence(probabilities: Sequence[float], text: str) -> float:
    """Return the probability of the reply: of the best candidate, or of "no answer"."""
    return probabilities[1] if text else probabilities[0]


def _groups(
    examples: Sequence[Example],
    exact: Mapping[str, float],
    f1: Mapping[str, float],
    group_of: Callable[[Example], str],
    order: Sequence[str],
) -> dict[str, Group]:
    """Return the scores of the groups that have questions, in the given order."""
    members: dict[str, list[str]] = {name: [] for name in order}
    for example in examples:
        members[group_of(example)].append(example.id)
    return {
        name: Group(len(ids), 100 * fmean(exact[i] for i in ids), 100 * fmean(f1[i] for i in ids))
        for name, ids in members.items()
        if ids
    }


def _mistake(example: Example, prediction: Prediction, text: str, confidence: float) -> Mistake:
    best = prediction.candidates[0] if text else None
    return question_mistake(example, text, confidence, None if best is None else (best.start, best.end))
