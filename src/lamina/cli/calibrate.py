"""The command that calibrates a model for the questions that it is used on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from lamina.cli.app import (
    ANSWERS,
    DATA,
    OUTPUT,
    BackendOption,
    Device,
    Duplicates,
    Json,
    ModelArgument,
    Pickle,
    TaskOption,
    Threads,
    load_model,
    print_json,
)
from lamina.errors import LaminaError

commands = typer.Typer()


def a_share(option: typer.CallbackParam, value: float | None) -> float | None:
    """Return the value of an option for a share, or raise LaminaError if it is not between 0 and 1."""
    if value is not None and not 0 < value < 1:
        raise LaminaError(f"{option.opts[0]}: {value:g} is not between 0 and 1. Fix: give a share, such as 0.5 for one half")
    return value


@commands.command()
def calibrate(
    model: ModelArgument,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            help="Fit on these questions. Without answers in them, estimate the share of unanswerable ones.",
            rich_help_panel=DATA,
        ),
    ] = None,
    unanswerable: Annotated[
        float | None,
        typer.Option(
            "--unanswerable",
            callback=a_share,
            metavar="SHARE",
            help="Calibrate for this share of unanswerable questions, from 0 to 1.",
            rich_help_panel=ANSWERS,
        ),
    ] = None,
    old_unanswerable: Annotated[
        float | None,
        typer.Option(
            "--old-unanswerable",
            callback=a_share,
            metavar="SHARE",
            help="Say for which share the model was fitted, if the model does not store it.",
            rich_help_panel=ANSWERS,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write the model into this new folder. Without it: write nothing.", rich_help_panel=OUTPUT),
    ] = None,
    task: TaskOption = None,
    duplicate_ids: Duplicates = "error",
    as_json: Json = False,
    device: Device = "auto",
    threads: Threads = None,
    backend: BackendOption = "auto",
    allow_pickle: Pickle = False,
) -> None:
    """Fit the threshold for "no answer" and the confidences to the questions that a model is used on.

    Labelled questions fit both, and 50 suffice. Without labels, both are shifted to the share of unanswerable questions.
    """
    from lamina.reader.calibrating import read_questions
    from lamina.utils.files import check_new
    from lamina.utils.progress import shown

    if out is not None:
        check_new(out)
    reader = load_model(model, device, threads, allow_pickle=allow_pickle, backend=backend)
    examples = None if data is None else read_questions(data, duplicate_ids=duplicate_ids)
    with shown() as progress:
        new, report = reader.calibrate(
            examples, unanswerable=unanswerable, old_unanswerable=old_unanswerable, task=task, progress=progress
        )
    if out is not None:
        new.save(out, weights=reader.trained.stored_precision)
    report |= {"model": model, "out": None if out is None else str(out)}
    print_json(report) if as_json else print("\n".join(lines(report)))


def lines(report: Mapping[str, Any]) -> list[str]:
    """Return the report as lines of text."""
    before, after, fair = report["before"], report["after"], report.get("cross_validated")
    found = [_first_line(report), f"{'':<18}{'before':>10}{'after':>10}" + (f"{'cross-validated':>17}" if fair else "")]
    for name, (key, digits) in ROWS.items():
        if key in after:
            cells = [_cell(before.get(key), digits), _cell(after[key], digits)]
            found.append(f"{name:<18}{cells[0]:>10}{cells[1]:>10}" + (f"{_cell(fair.get(key), digits):>17}" if fair else ""))
    if "f1" in after:
        found.append("before, after: on the questions of the fit" + ("; cross-validated: on others" if fair else ""))
    found.append("nothing written; --out FOLDER writes the model" if report["out"] is None else f"model: {report['out']}")
    return found


ROWS = {  # in the table -> key in the report, digits
    "unanswerable": ("unanswerable", 3),
    "threshold": ("threshold", 2),
    "for questions": ("question_threshold", 2),
    "temperature": ("temperature", 2),
    "of spans": ("span_temperature", 2),
    "bias": ("bias", 2),
    "replies no answer": ("no_answer", 3),
    "EM": ("exact", 2),
    "F1": ("f1", 2),
    "HasAns EM": ("HasAns_exact", 2),
    "HasAns F1": ("HasAns_f1", 2),
    "NoAns": ("NoAns_f1", 2),
    "calibration error": ("ece", 3),
}


def _first_line(report: Mapping[str, Any]) -> str:
    share = f"{report['unanswerable']:.1%} unanswerable"
    if report["how"] == "labelled":
        counted = f"{report['questions']} labelled questions, {report['data_unanswerable']:.1%} unanswerable"
        return f"fitted on {counted}" + ("" if report["unanswerable"] == report["data_unanswerable"] else f", for {share}")
    if report["how"] == "estimated":
        return f"estimated from {report['questions']} questions: {share}, give or take {report['standard_error']:.1%}"
    return f"shifted to the declared share: {share}"


def _cell(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
