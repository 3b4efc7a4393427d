"""The table of a study: one row for each variant and seed, with its scores."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from lamina.errors import LaminaError
from lamina.experiments.studies.plan import Plan, Result
from lamina.utils.files import read_json, write_atomically, write_json
from lamina.utils.run_folder import Run

_KORQUAD = {"korquad": "KorQuAD", "korquad_always": "KorQuAD always"}
_SENTENCES = (("accuracy", "accuracy"), ("pearson", "Pearson"))


@dataclass(frozen=True)
class StudyRow:
    """A finished variant of one seed.

    Attributes:
        variant: The name of the variant.
        seed: The seed of its run.
        parameters: The number of trained parameters; None of an ensemble.
        scores: Scores on the dev set by name: EM, F1 and others in percent, accuracies and correlations as shares.
        run: The folder of the run or ensemble.
    """

    variant: str
    seed: int
    parameters: int | None
    scores: Mapping[str, float]
    run: Path


@dataclass(frozen=True)
class StudyTable:
    """The result of `lamina.study`. `str()` of it is a table of means and standard deviations over the seeds.

    Attributes:
        title: The title of the study.
        size: The size of the study.
        out: The folder of the study; `lamina report` takes it.
        rows: The finished variants and seeds, in the order of the study.
        failed: The reasons of failed runs by their folder's name.
        left: The number of runs that are not finished and have not failed.
    """

    title: str
    size: str
    out: Path
    rows: Sequence[StudyRow]
    failed: Mapping[str, str] = field(default_factory=dict)
    left: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON values.

        Returns:
            The fields by their names; folders are texts.
        """
        rows = [_values(one) | {"run": str(one.run)} for one in self.rows]
        about = {"title": self.title, "size": self.size, "out": str(self.out)}
        return {**about, "rows": rows, "failed": dict(self.failed), "left": self.left}

    def to_pandas(self) -> Any:
        """Return the table as a pandas DataFrame, one row for each variant and seed.

        Returns:
            A DataFrame with the columns variant, seed, parameters and one for each score.

        Raises:
            LaminaError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise LaminaError("to_pandas: needs pandas, which is not installed. Fix: pip install pandas") from None
        return pandas.DataFrame([_flat(one) for one in self.rows])

    def __str__(self) -> str:
        names = list(dict.fromkeys(name for one in self.rows for name in one.scores))
        table = [["variant", "seeds", "trained", *names]]
        for variant in dict.fromkeys(one.variant for one in self.rows):
            of = [one for one in self.rows if one.variant == variant]
            trained = "" if of[0].parameters is None else f"{of[0].parameters:,}"
            values = [[one.scores[name] for one in of if name in one.scores] for name in names]
            table.append(
                [variant, str(len(of)), trained, *(spread(found, name) for found, name in zip(values, names, strict=True))]
            )
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return "\n".join(_line(row, widths) for row in table)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = [f"{cell:<{w}}" if n == 0 else f"{cell:>{w}}" for n, (cell, w) in enumerate(zip(row, widths, strict=True))]
    return "  ".join([first, *others]).rstrip()


def spread(values: Sequence[float], name: str = "F1") -> str:
    """Return the mean and, of several values, the standard deviation. Shares have more digits than percents.

    >>> spread([60.0, 61.0]), spread([0.5], "accuracy"), spread([])
    ('60.50 ±0.71', '0.500', '')
    """
    if not values:
        return ""
    digits = 3 if is_share(name) else 2
    deviation = f" ±{stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{deviation}"


def is_share(name: str) -> bool:
    """Return whether a score is a share or a correlation, up to 1, and not in percent.

    >>> is_share("similarity Pearson"), is_share("accuracy in %"), is_share("F1")
    (True, False, False)
    """
    return name.endswith(("accuracy", "Pearson")) or name == "mean"


def scores_of(found: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores that a table shows, from the content of a scores.json."""
    if "tuned" in found:
        return _of_questions(found)
    if "impossible_f1" in found or ("f1" in found and "accuracy" in found):  # answerability, in percent
        return {"accuracy in %": float(found["accuracy"]), "F1 impossible": float(found["f1"])}
    if any(name in found for name, _ in _SENTENCES):
        return _of_sentences(found)
    tasks = {name: scores_of(one) for name, one in found.items() if isinstance(one, Mapping) and name != "overall"}
    several = {f"{task} {name}": value for task, scores in tasks.items() for name, value in scores.items()}
    mean = found.get("overall", {}).get("mean")
    return several | ({} if mean is None else {"mean": float(mean)})


def _of_questions(found: Mapping[str, Any], before: str = "") -> dict[str, float]:
    """Return the scores of answers: by context and, if questions have several contexts, by question."""
    tuned = found["tuned"]
    scores = {f"{before}EM": tuned["exact"], f"{before}F1": tuned["f1"], f"{before}best F1": found["best"]["f1"]}
    for key, name in _KORQUAD.items():
        if key in found:
            scores |= {f"{before}{name} EM": found[key]["exact_match"], f"{before}{name} F1": found[key]["f1"]}
    if "questions" in found:
        scores |= _of_questions(found["questions"], "by question ")
    return {name: float(value) for name, value in scores.items()}


def _of_sentences(found: Mapping[str, Any]) -> dict[str, float]:
    if "pearson_of_cosine" in found:
        return {"Pearson": float(found["pearson_of_cosine"])}
    return {title: float(found[name]) for name, title in _SENTENCES if name in found}


def read_row(result: Result) -> StudyRow | None:
    """Return the row of a result; None if its run has not finished or has no scores."""
    scores = result.path / "scores.json"
    ensemble = (result.path / "ensemble.json").is_file()
    if not scores.is_file() or not (ensemble or Run(result.path).finished):
        return None
    parameters = None if ensemble else int(read_json(Run(result.path).info)["parameters"]["trainable"])
    return StudyRow(result.variant, result.seed, parameters, scores_of(read_json(scores)), result.path)


def read_rows(plan: Plan) -> list[StudyRow]:
    """Return the rows of all finished results, in the order of the variants."""
    found = [row for result in plan.results if (row := read_row(result)) is not None]
    order = {name: number for number, name in enumerate(plan.variants)}
    return sorted(found, key=lambda one: order[one.variant])


def write_tables(out: Path, rows: Sequence[StudyRow]) -> None:
    """Write table.json and table.csv. They hold no times, so equal studies have equal files."""
    write_json(out / "table.json", [_values(one) for one in rows])
    flat = [_flat(one) for one in rows]
    columns = list(dict.fromkeys(name for one in flat for name in one))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    write_atomically(out / "table.csv", text.getvalue().encode())


def _values(row: StudyRow) -> dict[str, Any]:
    return {"variant": row.variant, "seed": row.seed, "parameters": row.parameters, "scores": dict(row.scores)}


def _flat(row: StudyRow) -> dict[str, Any]:
    return {"variant": row.variant, "seed": row.seed, "parameters": row.parameters, **row.scores}
