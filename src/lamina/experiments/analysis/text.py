"""Print an analysis as lines for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lamina.experiments.analysis.results import (
    Analysis,
    ClassAnalysis,
    Confidence,
    Group,
    Mistake,
    Overlap,
    ScoreAnalysis,
    SpanAnalysis,
    TaskAnalysis,
)
from lamina.utils.drawing import curve

_WIDTH = 12  # characters of a class name in a table


def lines(analysis: Analysis) -> list[str]:
    """Return the analysis of every run and task, then the overlap of runs, with an empty line between the sections."""
    found: list[str] = []
    for run in analysis.runs:
        for name, task in run.tasks.items():
            where = run.run if len(run.tasks) == 1 else f"{run.run}, task {name}"
            found += [f"== {where}", *_task_lines(task), ""]
    for overlap in analysis.overlaps:
        found += [*_overlap_lines(overlap), ""]
    return found[:-1]


def _task_lines(task: TaskAnalysis) -> Iterator[str]:
    if isinstance(task, SpanAnalysis):
        yield from _span_lines(task)
    else:
        yield from _class_lines(task)


def _span_lines(task: SpanAnalysis) -> Iterator[str]:
    counts = task.counts
    yield f"{task.questions:,} questions at the threshold {task.threshold:.2f}: EM {task.exact:.2f}, F1 {task.f1:.2f}"
    yield (
        f"right: {counts['HasAns_right']:,} of {counts['HasAns_total']:,} with an answer (HasAns), "
        f"{counts['NoAns_right']:,} of {counts['NoAns_total']:,} without (NoAns)"
    )
    null = _part(counts["HasAns_null"], counts["HasAns_wrong"], task.null_of_wrong_has_answer)
    yield f'wrong HasAns questions that were predicted "no answer": {null}'
    second = _part(counts["second_right"], counts["wrong"], task.second_right_of_wrong)
    yield f"wrong questions whose second answer is right: {second}"
    answerable = _part(counts["HasAns_second_right"], counts["second_right"], task.has_answer_of_second_right)
    yield f"right second answers to questions with an answer: {answerable}"
    right, wrong = _number(task.context_words_of_right), _number(task.context_words_of_wrong)
    yield f"mean words of the context: {right} where the run is right, {wrong} where it is wrong"
    yield from _group_lines("question word", task.by_question_word)
    yield from _group_lines("answer length", task.by_answer_length)
    yield from _confidence_lines(task.confidence)
    yield from _mistake_lines(task.mistakes, "most confident mistakes")


def _class_lines(task: ClassAnalysis | ScoreAnalysis) -> Iterator[str]:
    noun = "questions" if task.kind == "answerability" else "sentences"
    if isinstance(task, ScoreAnalysis):
        scores = f"Pearson {task.pearson:.3f}, Spearman {task.spearman:.3f}, mean difference {task.mean_difference:.2f}"
    else:
        scores = f"accuracy {task.accuracy:.2f}, macro-F1 {task.macro_f1:.2f}"
    yield f"{task.items:,} {noun}: {scores}"
    yield ""
    yield from _confusion_lines(task)
    if isinstance(task, ClassAnalysis):
        yield from _confidence_lines(task.confidence)
    title = "greatest differences" if isinstance(task, ScoreAnalysis) else "most confident mistakes"
    yield from _mistake_lines(task.mistakes, title)


def _confusion_lines(task: ClassAnalysis | ScoreAnalysis) -> Iterator[str]:
    """Yield the confusion matrix with the shares of the classes in the data and among the predictions."""
    names = [name if len(name) < _WIDTH else f"{name[: _WIDTH - 2]}…" for name in task.classes]
    yield f"{'gold / predicted':<18}" + "".join(f"{name:>{_WIDTH}}" for name in [*names, "share"])
    for name, full, row in zip(names, task.classes, task.confusion, strict=True):
        yield f"{name:<18}" + "".join(f"{count:>{_WIDTH},}" for count in row) + f"{task.gold[full]:>{_WIDTH}.3f}"
    yield f"{'share':<18}" + "".join(f"{task.predicted[full]:>{_WIDTH}.3f}" for full in task.classes)


def _group_lines(title: str, groups: Mapping[str, Group]) -> Iterator[str]:
    yield ""
    yield f"{title:<18}{'questions':>10}{'EM':>8}{'F1':>8}"
    for name, group in groups.items():
        yield f"{name:<18}{group.questions:>10,}{group.exact:>8.2f}{group.f1:>8.2f}"


def _confidence_lines(confidence: Confidence) -> Iterator[str]:
    yield ""
    yield f"calibration: expected error {confidence.error:.3f}"
    yield f"{'confidence':>10}{'right':>8}{'share':>8}"
    for one in confidence.bins:
        yield f"{one.confidence:>10.2f}{one.right:>8.2f}{one.share:>8.2f}"
    yield ""
    worst = max(confidence.risks.values())
    last = confidence.risks["100"]
    yield f"risk-coverage: area {confidence.area:.3f}, wrong overall {last:.3f}"
    if worst > 0:
        yield "share of wrong predictions, among the most confident 5% to 100%:"
        doubled = [risk for risk in confidence.risks.values() for _ in range(2)]
        yield from curve(doubled, round(worst, 3) or worst, height=4)


def _mistake_lines(mistakes: Sequence[Mistake], title: str) -> Iterator[str]:
    yield ""
    yield f"{title}: {len(mistakes) or 'none'}"
    for number, mistake in enumerate(mistakes, 1):
        confidence = "" if mistake.confidence is None else f" (confidence {mistake.confidence:.2f})"
        yield f"{number:>3}. {mistake.question} [{mistake.id}]"
        yield f"     predicted: {mistake.prediction or 'no answer'}{confidence}"
        yield f"     gold: {' | '.join(mistake.gold) or 'no answer'}"
        if mistake.text:
            yield f"     text: {mistake.text}"


def _overlap_lines(overlap: Overlap) -> Iterator[str]:
    total = overlap.both_right + overlap.only_a + overlap.only_b + overlap.both_wrong
    yield f"== {overlap.a} and {overlap.b}, task {overlap.task}"
    rows = (
        ("both right", overlap.both_right),
        (f"only {overlap.a} right", overlap.only_a),
        (f"only {overlap.b} right", overlap.only_b),
        ("both wrong", overlap.both_wrong),
    )
    width = max(len(name) for name, _ in rows)
    for name, count in rows:
        yield f"{name:<{width}}{count:>8,}{100 * count / total:>7.1f}%"
    a, b = overlap.context_words_of_only_a, overlap.context_words_of_only_b
    if a is not None or b is not None:
        yield f"mean words of the context: {_number(a)} where only the first is right, {_number(b)} where only the second is"


def _part(some: int, all_: int, share: float | None) -> str:
    return f"{some:,} of {all_:,}" + ("" if share is None else f" ({100 * share:.0f}%)")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
