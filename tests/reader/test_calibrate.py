"""`lamina calibrate` and `Reader.calibrate`, on a small trained checkpoint."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.answers.decisions import SpanDecision
from lamina.data.examples import Example
from lamina.data.sources import load_examples
from lamina.data.squad import to_squad
from lamina.reader.calibrating import read_questions
from tests import tiny
from tests.command import lamina as run_command
from tests.golden import TRAINED, cases

EXAMPLES = load_examples("fables/dev")[:60]


@pytest.fixture(scope="module")
def reader() -> lamina.Reader:
    return lamina.load(TRAINED, device="cpu")


@pytest.fixture(scope="module")
def calibrated(reader: lamina.Reader) -> lamina.Reader:
    return reader.calibrate(EXAMPLES)[0]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Questions as a user has them: with a column of answers, and without."""
    found = {"labelled": tmp_path / "labelled.csv", "unlabelled": tmp_path / "unlabelled.csv"}
    for name, path in found.items():
        with path.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["question", "context", "answer"][: 3 if name == "labelled" else 2])
            for e in EXAMPLES:
                cells = [e.question, e.context, e.answers[0].text if e.answers else ""]
                rows.writerow(cells[: 3 if name == "labelled" else 2])
    return found


def test_labelled_questions_fit_a_checkpoint_of_another_library(reader: lamina.Reader) -> None:
    new, report = reader.calibrate(EXAMPLES)
    share = sum(not example.answers for example in EXAMPLES) / 60
    assert (report["how"], report["questions"], report["unanswerable"]) == ("labelled", 60, share)
    assert reader.decision == SpanDecision(), "the old reader does not change"
    assert new.model is reader.model and new.threshold == report["after"]["threshold"] != 0
    assert new.calibration.temperature == report["after"]["temperature"]
    assert report["after"]["ece"] < report["before"]["ece"]
    scores = new.evaluate(EXAMPLES)["tuned"]
    assert {key: scores[key] for key in ("exact", "f1", "HasAns_f1", "NoAns_f1")} == pytest.approx(
        {key: report["after"][key] for key in ("exact", "f1", "HasAns_f1", "NoAns_f1")}
    )
    assert report["cross_validated"].keys() == {*scores.keys() & report["after"].keys(), "ece"} - {"threshold"}
    other, report = reader.calibrate(EXAMPLES, unanswerable=0.8)
    assert other.threshold < new.threshold and (other.decision.unanswerable, report["unanswerable"]) == (0.8, 0.8)


def test_a_declared_share_moves_threshold_and_confidence(calibrated: lamina.Reader) -> None:
    texts = (cases.MILL, cases.MILL)
    replies = []
    for share in (0.1, 0.5, 0.9):
        new, report = calibrated.calibrate(unanswerable=share)
        assert report["how"] == "declared" and report["after"]["unanswerable"] == share
        replies.append((new.threshold, new.answer("Who built the mill?", texts[0]).no_answer))
    assert [threshold for threshold, _ in replies] == sorted((t for t, _ in replies), reverse=True)
    assert [null for _, null in replies] == sorted(null for _, null in replies)


def test_the_share_of_unlabelled_questions_is_estimated(calibrated: lamina.Reader) -> None:
    rows = [{"question": e.question, "context": e.context} for e in EXAMPLES]
    new, report = calibrated.calibrate(rows)
    assert report["how"] == new.decision.calibrated == "estimated"
    truth = sum(not example.answers for example in EXAMPLES) / 60
    assert abs(report["unanswerable"] - truth) < 2 * report["standard_error"] < 0.6
    assert 0 <= report["after"]["no_answer"] <= 1 and "f1" not in report["after"]
    declared, report = calibrated.calibrate(rows, unanswerable=0.9)
    assert report["how"] == "declared" and report["after"]["no_answer"] > report["before"]["no_answer"]
    assert declared.decision == calibrated.calibrate(unanswerable=0.9)[0].decision


def test_a_calibrated_model_is_saved_loaded_and_exported(calibrated: lamina.Reader, tmp_path: Path) -> None:
    from lamina.runs.export import export

    saved = calibrated.save(tmp_path / "saved")
    again = lamina.load(saved.path, device="cpu")
    assert again.decision == calibrated.decision and again.decision.curve is not None
    assert again.answer("Who built the mill?", cases.MILL) == calibrated.answer("Who built the mill?", cases.MILL)
    assert "was calibrated after training" in (saved.path / "README.md").read_text()
    export(again.trained, tmp_path / "exported")
    exported = lamina.load(tmp_path / "exported", device="cpu")
    assert exported.decision == calibrated.decision
    assert exported.calibrate(unanswerable=0.7)[0].decision == calibrated.calibrate(unanswerable=0.7)[0].decision


def test_a_run_stores_its_share_and_its_old_scores_are_left_out(tmp_path: Path) -> None:
    for name in ("train", "dev"):
        (tmp_path / f"{name}.json").write_text(json.dumps(to_squad(tiny.corpus(12))))
    (tmp_path / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=tmp_path))
    settings = {"train.epochs": 0.5, "data.holdout": 0.5}
    run = lamina.train(tmp_path / "small.toml", tmp_path / "run", settings=settings)
    reader = lamina.load(run.path, device="cpu")
    assert reader.decision.unanswerable == 0.2 and reader.decision.curve is not None
    new, report = reader.calibrate(unanswerable=0.5)
    assert report["before"]["unanswerable"] == 0.2
    assert (reader.save(tmp_path / "plain").scores.is_file(), new.save(tmp_path / "new").scores.is_file()) == (True, False)
    small = reader.save(tmp_path / "small", weights="int8")
    done = run_command("calibrate", small.path, "--unanswerable", "0.5", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    out = lamina.Run(tmp_path / "out")
    assert out.read_info()["weights"] == "int8" and out.model.stat().st_size == small.model.stat().st_size
    assert lamina.load(out.path).decision == lamina.load(small.path).calibrate(unanswerable=0.5)[0].decision


def test_an_unknown_share_is_asked_for(reader: lamina.Reader, calibrated: lamina.Reader) -> None:
    with pytest.raises(lamina.LaminaError, match=r"is not known\. Fix: give labelled questions .* --old-unanswerable"):
        reader.calibrate(unanswerable=0.5)
    new, report = reader.calibrate(unanswerable=0.5, old_unanswerable=0.2)
    assert report["before"]["unanswerable"] == 0.2
    assert new.threshold == pytest.approx(-1.386, abs=1e-3) == -new.calibration.bias
    with pytest.raises(lamina.LaminaError, match=r"the model stores the share of its fit, 0\.317\. Fix: "):
        calibrated.calibrate(unanswerable=0.5, old_unanswerable=0.2)


def test_other_mistakes_are_one_line(reader: lamina.Reader, calibrated: lamina.Reader) -> None:
    with pytest.raises(lamina.LaminaError, match=r"there is nothing to calibrate with\. Fix: "):
        reader.calibrate()
    with pytest.raises(lamina.LaminaError, match=r"19 questions without answers are too few to estimate a share\. Fix: "):
        calibrated.calibrate([Example(str(n), "Who?", cases.MILL, (), str(n), "a") for n in range(19)])
    with pytest.raises(ValueError, match=r"unanswerable must be between 0 and 1, not 1\.5"):
        reader.calibrate(EXAMPLES, unanswerable=1.5)
    one_kind = lamina.Reader(_with_decision(reader, SpanDecision(threshold=1.0, unanswerable=0.0)))
    with pytest.raises(lamina.LaminaError, match=r"questions of one kind only, .*Fix: give labelled questions of both kinds"):
        one_kind.calibrate(unanswerable=0.5)


def _with_decision(reader: lamina.Reader, decision: SpanDecision) -> Any:
    from dataclasses import replace

    return replace(reader.trained, decisions={"main": decision})


def test_sentences_are_refused(tmp_path: Path) -> None:
    settings = {"encoder.model": "tiny", "encoder.pretrained": False, "train.epochs": 0, "train.threads": 1}
    settings |= {f"tasks.{task}.data.questions": 40 for task in ("sentiment", "paraphrase", "similarity")}
    run = lamina.train("sentences", tmp_path / "run", dev=False, settings=settings)
    done = run_command("calibrate", run.path, "--unanswerable", "0.5", "--task", "sentiment")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "has no threshold for spans. Fix: calibrate a model that answers questions with spans" in done.err


def test_answers_are_optional_but_not_for_some_questions(files: dict[str, Path]) -> None:
    assert [bool(e.answers) for e in read_questions(str(files["labelled"]))] == [bool(e.answers) for e in EXAMPLES]
    assert not any(e.answers for e in read_questions(str(files["unlabelled"])))
    rows: list[dict[str, Any]] = [{"question": "Who?", "context": "Ada built it.", "answer": "Ada"}]
    with pytest.raises(lamina.LaminaError, match="data, row 2: answers are missing"):
        read_questions([*rows, {"question": "When?", "context": "Ada built it."}])
    assert [bool(e.answers) for e in read_questions(row for row in rows)] == [True], "rows that can be read only once"
    paragraphs = [{"title": "t", "contents": "Ada built it."}]
    several: list[dict[str, Any]] = [{"qa": {"id": str(n), "question": "Who?"}, "paragraphs": paragraphs} for n in range(2)]
    file = files["labelled"].with_name("several.json")
    file.write_text(json.dumps(several))
    assert [e.answers for e in read_questions(str(file))] == [(), ()]
    file.write_text(json.dumps([{**one, "qa": {**one["qa"], "answer": "Ada"}} for one in several]))
    assert all(e.answers for e in read_questions(str(file)))


def test_the_command_prints_before_and_after(files: dict[str, Path], tmp_path: Path) -> None:
    done = run_command("calibrate", TRAINED, "--data", files["labelled"], "--out", tmp_path / "model")
    assert done.code == 0, done.err
    first, header, *rows, note, last = done.out.splitlines()
    assert first == "fitted on 60 labelled questions, 31.7% unanswerable"
    assert header.split() == ["before", "after", "cross-validated"]
    assert {"threshold", "F1", "HasAns F1", "NoAns", "calibration error"} <= {row[:18].strip() for row in rows}
    assert note == "before, after: on the questions of the fit; cross-validated: on others"
    assert last == f"model: {tmp_path / 'model'}"
    again = run_command("calibrate", tmp_path / "model", "--data", files["unlabelled"])
    assert again.out.startswith("estimated from 60 questions: ") and again.out.endswith("writes the model\n")
    shown = json.loads(run_command("calibrate", tmp_path / "model", "--unanswerable", "0.5", "--json").out)
    assert shown["after"]["unanswerable"] == 0.5 and shown["out"] is None and shown["model"] == str(tmp_path / "model")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--unanswerable", "1.5"), "lamina: --unanswerable: 1.5 is not between 0 and 1. Fix: give a share, such as 0.5"),
        (("--unanswerable", "0.5", "--out", "."), "lamina: .: exists and is not empty. Fix: save into a new folder"),
        ((), "lamina: calibrate: there is nothing to calibrate with. Fix: "),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(words: tuple[str, ...], line: str) -> None:
    done = run_command("calibrate", TRAINED, *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(line)
