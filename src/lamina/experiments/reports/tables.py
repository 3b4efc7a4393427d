"""The tables of a report: each table of the paper with our numbers beside the paper's, and the comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lamina.config.paper_rows import PaperNumber
from lamina.experiments.reports.comparing import Compared, Comparisons, table_of
from lamina.experiments.reports.study_results import StudyResults, VariantResult
from lamina.experiments.studies.results import is_share, spread
from lamina.experiments.studies.study_file import rows_by_name

_TASKS: Final = {"SST": "sentiment", "Quora": "paraphrase", "STS": "similarity"}  # in the data of paper 002
_TITLES: Final = {
    "em": "EM",
    "f1": "F1",
    "loss": "dev loss",
    "parameters": "trained parameters",
    "percent_parameters": "trained, % of all",
    "minutes": "minutes of training",
    "inference_seconds": "seconds of inference",
    "overall": "mean",
}
_SETTINGS: Final = ("layers_trained", "adapter_size", "dropout", "learning_rate", "share")  # not results
_UNKNOWN: Final = ""


@dataclass(frozen=True)
class Table:
    """A table with a title. Cells are texts; the first column names the row. `note` is below it."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def paper_tables(results: StudyResults) -> list[Table]:
    """Return a table for each table, figure or section of the paper that a variant reproduces: paper and ours side by side."""
    places: dict[str, list[tuple[str, VariantResult]]] = {}
    for one in results.variants.values():
        for row in one.rows:
            places.setdefault(row.split("/")[1], []).append((row, one))
    return [_paper_table(results, where, places[where]) for where in sorted(places, key=_place)]


def _place(where: str) -> tuple[int, str]:
    """Return the order of a place of a paper: tables, then figures, then the text."""
    kind = where.partition(" ")[0]
    return {"Table": 0, "Figure": 1}.get(kind, 2), where


def _paper_table(results: StudyResults, where: str, members: Sequence[tuple[str, VariantResult]]) -> Table:
    numbers = {row: _numbers(row) for row, _ in members}
    metrics = list(dict.fromkeys(title for found in numbers.values() for title in found)) or ["EM", "F1"]
    head = ["row of the paper", "ours", "seeds"]
    for metric in metrics:
        head += [f"{metric}, paper", f"{metric}, ours"]
    rows = []
    for row, one in members:
        cells = [row.split("/", 2)[2], one.name, f"{len(one.seeds)} of {one.asked}"]
        for metric in metrics:
            cells += [_paper_cell(numbers[row].get(metric)), our_cell(one, metric)]
        rows.append(cells)
    lost = not any(numbers.values())
    notes = ["The paper's numbers of this place are lost: they are a picture, or are not public." if lost else ""]
    rows_by_note: dict[str, list[str]] = {}
    for row in dict.fromkeys(row for row, _ in members):
        for note in dict.fromkeys(number.note for number in numbers[row].values() if number.note):
            rows_by_note.setdefault(note, []).append(row.split("/", 2)[2])
    notes += [f"{'; '.join(named)}: {note}." for note, named in rows_by_note.items()]
    if "dev loss" in metrics:
        notes.append("The paper does not say of what its loss is a mean; ours is that of the last point of the curves.")
    return Table(f"Paper {results.paper}, {where}", head, rows, " ".join(dict.fromkeys(note for note in notes if note)))


def _numbers(row: str) -> dict[str, PaperNumber]:
    """Return the numbers of a row of the paper by the title of their column."""
    readings = rows_by_name().get(row, ())
    found = {}
    for number in readings[0].numbers if readings else ():
        if number.metric not in _SETTINGS:
            found[_title(number)] = number
    return found


def _title(number: PaperNumber) -> str:
    task = next((task for text, task in _TASKS.items() if number.data.startswith(text)), None)
    if task is not None and number.metric in ("accuracy", "pearson"):
        return f"{task} {'Pearson' if number.metric == 'pearson' else 'accuracy'}"
    if "answerability" in number.data:
        return {"em": "accuracy in %", "f1": "F1 impossible"}.get(number.metric, number.metric)
    return _TITLES.get(number.metric, number.metric)


def _paper_cell(number: PaperNumber | None) -> str:
    if number is None:
        return _UNKNOWN
    if number.unit == "count":
        return f"{number.value:,.0f}"
    percent = number.unit == "fraction" and number.metric in ("f1", "em")
    value = 100 * number.value if percent else number.value
    return f"{value:.10g}" if not percent else f"{value:.1f}"


def our_cell(one: VariantResult, title: str) -> str:
    """Return our value for a column of the paper, as mean and standard deviation over the seeds."""
    if title == "trained parameters":
        return _UNKNOWN if one.parameters is None else f"{one.parameters:,}"
    if title == "trained, % of all":
        return _UNKNOWN if one.share is None else f"{one.share:.3g}"
    if title == "minutes of training":
        return _UNKNOWN if one.minutes is None else f"{one.minutes:.1f}"
    if title == "seconds of inference":
        return _UNKNOWN if one.inference is None else f"{one.inference:.1f} for 1,000 examples"
    names = (f"by question KorQuAD {title}", f"by question {title}", title) if title in ("EM", "F1") else (title,)
    for name in names:
        if values := one.values(name):
            return spread(values, name)
    return _UNKNOWN


def cost_table(results: StudyResults) -> Table:
    """Return our own table: scores, costs and efficiency of every variant."""
    scores = [name for name in _score_names(results) if not name.startswith("by question best")]
    head = ["variant", "seeds", *scores, "trained parameters", "minutes of training", "inference, s per 1,000", "efficiency"]
    rows = []
    for one in results.variants.values():
        score = one.efficiency(one.mean("F1"))
        cells = [one.name, f"{len(one.seeds)} of {one.asked}", *(spread(one.values(name), name) for name in scores)]
        cells += [our_cell(one, "trained parameters"), our_cell(one, "minutes of training")]
        cells += ["" if one.inference is None else f"{one.inference:.1f}"]
        rows.append([*cells, "" if score is None else f"{score:.2f}"])
    note = (
        "Efficiency is (F1 - 50) / log10(trained parameters), as in Hulburd's paper. Inference is the model's time alone. "
        "Minutes of training leave out the extraction of stored states, which several runs share."
    )
    return Table("All variants", head, rows, note)


def _score_names(results: StudyResults) -> list[str]:
    return list(dict.fromkeys(name for one in results.variants.values() for seed in one.seeds for name in seed.scores))


def comparison_table(results: StudyResults, comparisons: Comparisons) -> Table:
    """Return the table of all differences from the baselines, with their verdicts in words."""
    head = ["variant", "table", "score", "difference", "95% interval", "p", "p, Holm", "seeds that agree", "verdict"]
    rows = []
    for one in results.variants.values():
        rows += [[one.name, table_of(one) or "ours", *_cells(compared)] for compared in comparisons.found.get(one.name, ())]
        if one.name in comparisons.missing:
            rows.append(
                [one.name, table_of(one) or "ours", "", "", "", "", "", "", f"no comparison: {comparisons.missing[one.name]}"]
            )
    note = (
        "Differences are means over the seeds. The interval is of a paired bootstrap over questions, in clusters of one "
        "context. p is of approximate randomisation, corrected by Holm's method over each table. "
        "A difference of Pearson correlations has an interval only. "
        "A verdict also needs the same sign in every seed."
    )
    return Table("Differences from the baseline", head, rows, note)


def _cells(one: Compared) -> list[str]:
    digits = 3 if is_share(one.metric) else 2
    return [
        one.metric,
        f"{one.difference:+.{digits}f}",
        f"{one.low:+.{digits}f} to {one.high:+.{digits}f}",
        _p(one.p),
        _p(one.holm),
        f"{one.agree} of {one.seeds}",
        one.words,
    ]


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}" if value >= 0.001 else "< 0.001"
