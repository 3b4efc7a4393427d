"""Training, scoring and predicting with several contexts per question."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lamina as library
from lamina.config.parse import parse_recipe
from lamina.config.recipe import TaskOptions
from lamina.data import multi_context
from lamina.data.bm25 import with_neighbours
from lamina.data.examples import Example
from lamina.data.sources import load_examples
from lamina.data.squad import to_squad
from lamina.errors import LaminaError
from lamina.runs.scored_run import ScoredRun
from lamina.scoring.predictions import korquad, whole_questions
from lamina.tasks.checks import build_on_meta
from lamina.tasks.kind import FileCache
from lamina.tasks.spans import SPANS
from tests import tiny
from tests.command import lamina


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a run on questions with three contexts each; two of them are in the training split."""
    folder = tmp_path_factory.mktemp("contexts")
    for name, seed in (("train", 0), ("dev", 1)):
        multi_context.write_questions(
            folder / f"{name}.json", with_neighbours(tiny.corpus(), 3, seed=seed, hits="impossible").questions
        )
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    done = lamina(
        *("train", folder / "small.toml", "--out", folder / "run", "--set", "data.contexts=2"),
        *("--set", "data.dev_questions=40", "--set", "train.epochs=1", "--set", "train.scorer=korquad"),
    )
    assert done.code == 0, done.err
    assert "per question, over all of its contexts:" in done.out and "questions with" in done.err
    return folder


def task(folder: Path, **data: Any) -> TaskOptions:
    values = {"train": str(folder / "train.json"), "dev": str(folder / "dev.json"), "holdout": 0.2}
    return parse_recipe({"data": values | data}).main


def split(options: TaskOptions, seed: int) -> tuple[list[Example], list[Example]]:
    splits = SPANS.splits(options, seed, FileCache(), dev=False)
    return splits.train, splits.holdout


def test_scores_per_context_and_per_question_are_written(folder: Path) -> None:
    scores = json.loads((folder / "run" / "scores.json").read_text())
    info = json.loads((folder / "run" / "run.json").read_text())
    fitted, questions = info["tasks"]["main"], scores["questions"]
    assert set(questions) == {"zero", "tuned", "best", "korquad", "korquad_always"}
    assert (scores["korquad"]["total"], questions["korquad"]["total"]) == (32, 32)
    golds = whole_questions(multi_context.read_multi_context(folder / "dev.json")[:120])
    answered = [question for question in golds if question.answers]
    assert questions["korquad"] == korquad(answered, json.loads((folder / "run" / "questions.json").read_text()))
    assert (scores["zero"]["total"], questions["zero"]["total"]) == (120, 40)
    assert questions["zero"]["HasAns_total"] == 32, "a question is answerable if any of its contexts is"
    assert (scores["tuned"]["threshold"], questions["tuned"]["threshold"]) == (
        fitted["threshold"],
        fitted["question_threshold"],
    )
    assert any("question_balanced_f1" in line for line in (folder / "run" / "metrics.jsonl").read_text().splitlines())


def test_evaluate_gives_the_scores_of_the_run(folder: Path) -> None:
    dev = multi_context.read_multi_context(folder / "dev.json")[:120]
    reader = library.load(folder / "run", device="cpu", threads=1)
    assert (
        reader.question_threshold
        == json.loads((folder / "run" / "run.json").read_text())["tasks"]["main"]["question_threshold"]
    )
    expected = json.loads((folder / "run" / "scores.json").read_text())
    found = reader.evaluate(dev)
    for place in ("zero", "tuned", "best"):
        assert found[place]["f1"] == pytest.approx(expected[place]["f1"])
        assert found["questions"][place]["f1"] == pytest.approx(expected["questions"][place]["f1"])
    shown = lamina("evaluate", folder / "run", "--data", folder / "dev.json", "--threads", 1)
    assert "per context:" in shown.out and "per question, over all of its contexts:" in shown.out
    as_json = json.loads(lamina("evaluate", folder / "run", "--data", folder / "dev.json", "--threads", 1, "--json").out)
    assert as_json["total"] == 180 and as_json["questions"]["total"] == as_json["questions"]["zero"]["total"] == 60


def test_predictions_per_question(folder: Path, tmp_path: Path) -> None:
    done = lamina(
        *("predict", folder / "run", "--data", folder / "dev.json", "--threads", 1),
        *("--out", tmp_path / "all.json", "--questions", tmp_path / "questions.json"),
    )
    assert done.code == 0, done.err
    each = json.loads((tmp_path / "all.json").read_text())
    questions = json.loads((tmp_path / "questions.json").read_text())
    assert len(each) == 180 and len(questions) == 60
    written = json.loads((folder / "run" / "questions.json").read_text())
    assert {name: questions[name] for name in written} == written and len(written) == 40
    asked = ("score", "--data", folder / "dev.json", "--metric", "korquad", "--predictions")
    refused = lamina(*asked, tmp_path / "all.json")
    assert refused.code == 2 and "some contexts hold no answer. Fix: score with --per question" in refused.err


def test_question_with_one_context_has_the_threshold_of_contexts(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    info["tasks"]["main"] |= {"threshold": -1e9, "question_threshold": 1e9}
    del info["checksums"]["run.json"]
    (tmp_path / "run" / "run.json").write_text(json.dumps(info))
    (tmp_path / "plain.json").write_text(json.dumps(to_squad(tiny.corpus(1))))
    for data, silent in ((tmp_path / "plain.json", True), (folder / "dev.json", False)):
        files = ("--out", tmp_path / "all.json", "--questions", tmp_path / "questions.json")
        assert lamina("predict", tmp_path / "run", "--data", data, *files, "--threads", 1).code == 0
        answers = json.loads((tmp_path / "questions.json").read_text())
        assert all(not text for text in answers.values()) if silent else all(answers.values())


def test_predict_does_not_overwrite_its_inputs(folder: Path, tmp_path: Path) -> None:
    data = Path(shutil.copy(folder / "dev.json", tmp_path))
    before = data.read_bytes()
    for names, message in (
        (("--out", data), "is the original, which is never overwritten"),
        (("--out", tmp_path / "a.json", "--nbest", data), "is the original, which is never overwritten"),
        (
            ("--out", tmp_path / "a.json", "--nbest", tmp_path / "a.json"),
            "is named twice, so one output would replace the other",
        ),
    ):
        refused = lamina("predict", folder / "run", "--data", data, *names, "--threads", 1)
        assert refused.code == 2 and message in refused.err and refused.err.count("\n") == 1
    assert data.read_bytes() == before and list(tmp_path.iterdir()) == [data]


def test_inspect_counts_questions_not_contexts(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(f'[data]\ntrain = "{folder}/train.json"\nholdout = 0.2\nquestions = 30\n')
    report = json.loads(lamina("inspect", tmp_path / "small.toml", "--threads", 1, "--json").out)["training"]
    assert report["questions"] == 21 and 21 < report["windows"] <= 63, "9 are held out: whole articles, at most a third"


def test_score_predictions_of_questions(folder: Path, tmp_path: Path) -> None:
    dev = tmp_path / "dev.jsonl"
    rows = json.loads((folder / "dev.json").read_text())["data"][:40]
    multi_context.write_questions(dev, rows)
    predictions = folder / "run" / "questions.json"
    scores = json.loads(lamina("score", "--data", dev, "--predictions", predictions, "--per", "question", "--json").out)
    wanted = json.loads((folder / "run" / "scores.json").read_text())["questions"]["tuned"]
    assert scores["f1"] == pytest.approx(wanted["f1"]) and scores["total"] == 40
    refused = lamina("score", "--data", dev, "--predictions", predictions)
    assert refused.code == 2 and "120" in refused.err


def test_run_finds_the_questions_of_its_dev_set(folder: Path) -> None:
    scored = ScoredRun.open(folder / "run")
    examples = scored.read()
    assert len(examples) == 120 and scored.answered(examples)


def test_questions_and_contexts_limits(folder: Path) -> None:
    everything = load_examples(str(folder / "train.json"))
    kept, held = split(task(folder, questions=55), 0)
    assert len({e.group for e in kept + held}) == 55 and len(held) == 3 * len({e.group for e in held})
    assert not {e.context for e in kept if not e.answers} & {e.context for e in held if e.answers}
    assert not {e.group for e in kept} & {e.group for e in held} and not {e.article for e in kept} & {e.article for e in held}
    two, same = split(task(folder, questions=55, contexts=2), 0)
    assert same == held and set(two) < set(kept) and max(Counter(e.group for e in two).values()) == 2
    assert {e.group for e in two if e.answers} == {e.group for e in kept if e.answers}
    half, _ = split(task(folder, questions=55, contexts=2, fraction=0.5), 0)
    assert set(half) < set(two) and len({e.group for e in half}) == round(len({e.group for e in two}) / 2)
    assert SPANS.dev(task(folder, dev_questions=7), FileCache()) == multi_context.read_multi_context(folder / "dev.json")[:21]
    assert split(task(folder, holdout=0), 0) == (everything, [])


def test_across_can_be_the_papers_rule(folder: Path) -> None:
    paper = library.load(folder / "run", device="cpu", threads=1)
    ours = library.load(folder / "run", device="cpu", threads=1)
    across = paper.recipe.answer.model_copy(update={"across": "paper_probability"})
    paper = library.Reader(replace(paper.trained, recipe=paper.recipe.model_copy(update={"answer": across})))
    dev = multi_context.read_multi_context(folder / "dev.json")
    found, usual = paper.evaluate(dev), ours.evaluate(dev)
    assert found["zero"] == usual["zero"], "the scores per context are equal"
    assert found["questions"]["zero"] != usual["questions"]["zero"]
    example = dev[0]
    one = paper.answer(example.question, example.context, top_k=3)
    other = ours.answer(example.question, example.context, top_k=3)
    assert (one.text, one.start) == (other.text, other.start) and one.confidence == pytest.approx(other.confidence)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data": {"train": "x", "contexts": 0}}, "data.contexts"),
        ({"data": {"train": "x", "choose": "best"}}, "data.choose"),
        ({"data": {"train": "x"}, "answer": {"across": "mean"}}, "answer.across"),
        ({"data": {"train": "x", "contexts": 2}, "head": {"type": "classification"}}, "data.contexts: is for questions"),
        ({"data": {"train": "x", "choose": "first"}, "head": {"type": "classification"}}, "data.choose: is for questions"),
    ],
)
def test_mistakes_in_recipes_raise(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(LaminaError, match=message):
        build_on_meta(parse_recipe(settings))
