"""Write a model as graphs in the format of ONNX, and test whether 8 bits give equivalent answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from lamina.data.sources import load_examples
from lamina.encoder.families import unparse
from lamina.encoder.tokenizer_config import tokenizer_config
from lamina.errors import LaminaError
from lamina.experiments.compare import equivalence_line, equivalence_table
from lamina.reader.saving import save
from lamina.runs.load import Trained, as_torch
from lamina.runs.onnx_folder import AUTO, GraphOptions, calibration_windows
from lamina.runtime.exported import load_exported
from lamina.runtime.manifest import MANIFEST, write_manifest
from lamina.scoring.predictions import references
from lamina.scoring.squad import question_scores
from lamina.utils.files import expanded, read_json, write_atomically, write_json

if TYPE_CHECKING:
    from lamina.data.examples import Example
    from lamina.reader.load import Reader

MARGIN = 0.5  # points of F1


def export_onnx(
    reader: Reader, out: str | Path, *, int8: bool = False, calibrate: str = AUTO, data: str | None = None
) -> dict[str, Any]:
    """Write a folder of graphs that `lamina.load` and other engines run without torch.

    Args:
        reader: The model, run by torch.
        out: The new folder; it may exist if it is empty.
        int8: Write graphs that compute in 8 bits too.
        calibrate: The data that 8 bits read ranges of values from; "auto" for the training data or the bundled corpus.
        data: Questions to test on whether the answers in 8 bits are equivalent. The folder's card and manifest get the result.

    Returns:
        The table `equivalence`, if there was a test, with the same as `text`; otherwise nothing.

    Raises:
        LaminaError: The folder is not empty, data cannot be read, or the test is not for this model.
    """
    trained, folder = as_torch(reader.trained), expanded(out)
    examples = None if data is None else load_examples(data)
    if examples is not None:
        _ = trained.span_task  # refuses a model that does not answer questions
        _check_labels(examples)
        if not int8:
            raise ValueError("data tests graphs in 8 bits: set int8=True")
    windows = calibration_windows(trained, calibrate) if int8 else {}
    save(trained, folder, graphs=GraphOptions(windows=windows))
    _write_config(trained, folder)
    if examples is None:
        return {}
    table = compare_precisions(reader, folder, examples)
    note_equivalence(folder, table)
    return {"equivalence": table}


def compare_precisions(reader: Reader, folder: Path, examples: list[Example]) -> dict[str, Any]:
    """Return the test whether the graphs of a folder in 8 bits answer questions as a reader does, each at its threshold."""
    _check_labels(examples)
    small = type(reader)(load_exported(folder, "int8", None))
    answers = [cast(dict[str, str], one.predictions(examples)["predictions"]) for one in (reader, small)]
    found = [question_scores(references(examples), texts)[1] for texts in answers]
    a, b = (np.array([scores[example.id] for example in examples]) for scores in found)
    changed = sum(answers[0][example.id] != answers[1][example.id] for example in examples)
    table = equivalence_table(a, b, MARGIN, examples, "context", changed)
    return {**table, "text": f"8 bits and float32: {equivalence_line(table)}"}


def _check_labels(examples: list[Example]) -> None:
    if not any(example.answers for example in examples):
        raise LaminaError("--data: has no answers to score. Fix: give labelled questions")


def note_equivalence(folder: Path, table: dict[str, Any]) -> None:
    """Write the result of `compare_precisions` into the manifest and the model card of a folder."""
    write_manifest(folder, {**read_json(folder / MANIFEST), "equivalence": table})
    card = folder / "README.md"
    text = card.read_text(encoding="utf-8").rstrip()
    write_atomically(card, f"{text}\n\n## 8 bits\n\n{table['text']}.\n".encode())


def _write_config(trained: Trained, folder: Path) -> None:
    """Write the files that transformers.js reads beside the graph: config.json and tokenizer_config.json."""
    config = trained.model.encoder.config
    values = unparse(config)
    labels = [task.data.labels.classes for task in trained.recipe.tasks.values() if task.data.labels.classes]
    if labels:
        values |= {"id2label": dict(enumerate(labels[0])), "label2id": {name: number for number, name in enumerate(labels[0])}}
    write_json(folder / "config.json", values)
    settings = tokenizer_config(trained.tokenizer, config.max_length, types=config.types > 1)
    write_json(folder / "tokenizer_config.json", settings)
