"""Write run folders without training, with the outputs of a simulated model."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lamina.answers.decisions import SpanDecision
from lamina.answers.decode import AnswerOptions, decode
from lamina.answers.formats import nbest_json, null_odds_json, predictions_json
from lamina.answers.saved_outputs import save_outputs
from lamina.data.examples import Example
from lamina.data.logits import SpanLogits
from lamina.data.sources import load_examples
from lamina.data.windows import WindowOptions, Windows
from lamina.scoring.predictions import by_question, score_both, several_contexts
from lamina.utils.files import write_json
from lamina.utils.run_folder import FORMAT, Run
from tests import tiny

PLAIN = AnswerOptions()
CUT = WindowOptions(length=48, query=16, step=8)  # several windows per question


def half_right(windows: Windows, seed: int, hunch: float = 3.0) -> SpanLogits:
    """Return random logits with `hunch` added at the gold spans: the greater it is, the better the model."""
    random = np.random.default_rng(seed)
    start, end = random.normal(scale=1.5, size=(2, len(windows.ids))).astype(np.float32)
    start[windows.starts[:-1] + windows.gold[:, 0]] += hunch
    end[windows.starts[:-1] + windows.gold[:, 1]] += hunch
    return SpanLogits(start, end)


def make_run(
    path: Path,
    dev: Path,
    seed: int,
    *,
    window: WindowOptions = CUT,
    answer: AnswerOptions = PLAIN,
    threshold: float = 0.0,
    examples: Sequence[Example] | None = None,
    dev_questions: int | None = None,
    hunch: float = 3.0,
) -> Run:
    """Write a run folder like `lamina train`, with all files that can be read without a model."""
    run = Run(path)
    path.mkdir()
    examples = examples or load_examples(str(dev))
    windows = tiny.windows(examples, window)
    logits = half_right(windows, seed, hunch)
    data = {"train": "train.json", "dev": str(dev), "duplicate_ids": "error", "dev_questions": dev_questions}
    recipe = {"window": window.model_dump(), "answer": answer.model_dump(), "train": {"seed": seed}}
    write_json(run.recipe, recipe | {"tasks": {"main": {"data": data}}})
    decision = SpanDecision(threshold=threshold).model_dump(mode="json", exclude_none=True)
    write_json(run.info, {"format": FORMAT, "finished": True, "tasks": {"main": decision}})
    shutil.copyfile(tiny.tokenizer().path, run.tokenizer)
    predictions = decode(windows, logits.start, logits.end, examples, answer)
    write_json(run.scores, score_both(predictions, examples, threshold, threshold, answer.across))
    if several_contexts(examples):
        write_json(run.questions, predictions_json(by_question(predictions, examples, answer.across)[0], threshold))
    write_json(run.predictions, predictions_json(predictions, threshold))
    write_json(run.null_odds, null_odds_json(predictions))
    write_json(run.nbest, nbest_json(predictions))
    save_outputs(run, windows, logits)
    return run
