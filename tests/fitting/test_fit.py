"""`lamina fit`: questions and sentences from all kinds of data, and the start is kept if training does not help."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.answers.calibration import Calibration
from lamina.data.examples import Example
from lamina.data.repair import repair_sentences
from lamina.data.sentences import ColumnOptions
from lamina.data.squad import to_squad
from lamina.errors import LaminaError
from lamina.fitting import fit as fitting
from lamina.fitting import starts
from lamina.fitting.choice import Choice
from lamina.fitting.comparison import compare_questions
from lamina.runs.export import export
from tests import tiny
from tests.command import lamina as command

FAST = {"train.lr": 3e-3, "train.threads": 1, "train.device": "cpu", "train.epochs": 6}
FAST_TABLE = {name.removeprefix("train."): value for name, value in FAST.items()}
SENTENCES = {"encoder.model": "tiny", "encoder.pretrained": False, "encoder.dropout": 0.0, **FAST}


def asked(articles: int, word: str = "snow") -> list[Example]:
    """Return questions whose answer is always the same word, which a tiny model learns at once."""
    examples = [example for example in tiny.corpus(articles) if example.question.startswith("What does")]
    return [replace(tiny.example(e.context, word, question=e.question, id=e.id), article=e.article) for e in examples]


def rows(examples: Sequence[Example]) -> list[dict[str, Any]]:
    return [{"question": e.question, "context": e.context, "answer": e.answers[0].text} for e in examples]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that has learnt nothing yet."""
    folder = tmp_path_factory.mktemp("start")
    for name in ("train", "dev"):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(tiny.corpus(6))))
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    return lamina.train(str(folder / "small.toml"), folder / "run", settings={"train.epochs": 0.2}).path


def write_csv(path: Path, lines: Sequence[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    return path


def fables(count: int, *, pairs: bool = False) -> list[dict[str, Any]]:
    """Return rows of two classes; one word shows the class."""
    words = ("wonderful", "dreadful")
    plain = [
        {"text": f"The feast of tale {n} was {words[n % 2]} and long.", "label": ("good", "bad")[n % 2]} for n in range(count)
    ]
    if not pairs:
        return plain
    return [
        {
            "sentence1": f"tale {n} is {words[n % 2]}",
            "sentence2": f"story {n} is {words[0]}",
            "label": 4.5 - 4 * (n % 2) + 0.1 * (n % 3),
        }
        for n in range(count)
    ]


# Questions


def test_thirty_questions_from_csv_beat_an_untrained_start(tmp_path: Path, start: Path) -> None:
    data = write_csv(tmp_path / "my.csv", rows(asked(15)))
    heard = tiny.Heard()
    fitted = lamina.fit(data, tmp_path / "out", start=start, minutes=60, settings=FAST, progress=heard)
    assert not fitted.kept_start
    f1 = fitted.comparison.scores["f1"]
    assert f1.after > f1.before + 30 and f1.low > 0 and fitted.comparison.examples == 30
    assert [line for line in heard.lines if line.startswith(("choice: ", "test: "))] == list(fitted.choice)
    assert len(fitted.comparison.changed) == 3
    # an ordinary run: it answers, is evaluated, exported, and its recipe is complete
    reader = lamina.load(tmp_path / "out")
    example = asked(40)[-1]
    assert reader.answer(example.question, example.context, threshold=1e9).text == "snow"
    assert lamina.evaluate(reader, asked(20)[-8:])["tuned"]["f1"] > 60
    export(reader.trained, tmp_path / "exported")
    card = (reader.save(tmp_path / "saved").path / "README.md").read_text()
    assert "threshold for no answer was fitted on held-out questions" in card and "default" not in card
    recipe = lamina.read_recipe(tmp_path / "out" / "recipe.json")
    assert recipe.main.head.start == str(start) and recipe.encoder.model == str(start)
    assert json.loads((tmp_path / "out" / "fit.json").read_text())["scores"]["f1"]["after"] == f1.after
    assert sorted(file.name for file in tmp_path.iterdir()) == ["exported", "my.csv", "out", "saved"]


def test_data_on_which_training_hurts_keeps_the_start(tmp_path: Path, start: Path) -> None:
    good = lamina.fit(asked(15), tmp_path / "good", start=start, minutes=60, settings=FAST).run.path
    good = lamina.load(good).save(tmp_path / "packed", weights="int8").path
    before = lamina.load(good)
    wrecking = {**FAST, "train.lr": 1.0}
    fitted = lamina.fit(asked(15), tmp_path / "out", start=good, minutes=60, settings=wrecking)
    assert fitted.kept_start and "kept the start" in str(fitted)
    example = asked(30)[-1]
    question = example.question, example.context
    assert lamina.load(tmp_path / "out").answer(*question) == before.answer(*question)
    assert fitted.run.read_info()["weights"] == "int8", "a start in 8 bits stays in 8 bits"
    assert fitted.run.model.stat().st_size <= (good / "model.safetensors").stat().st_size
    assert json.loads((tmp_path / "out" / "fit.json").read_text())["kept_start"] is True


def test_little_time_holds_one_part_out_and_scores_it(tmp_path: Path, start: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "seconds_per_token", lambda *_: 1e-3)
    calibrated = _with_calibration(start, Calibration(2.0, 1.0), tmp_path / "calibrated")
    fitted = lamina.fit(asked(15), tmp_path / "out", start=calibrated, minutes=0.3, settings=FAST)
    assert lamina.load(fitted.run.path).calibration == Calibration(2.0, 1.0), "ten held-out questions are too few"
    assert "hold out 1 of 5 parts" in fitted.choice[1]
    assert fitted.comparison.examples < 10
    if not fitted.kept_start:  # the tested model is the one handed out, with its scores
        scores = json.loads(fitted.run.scores.read_text())
        assert scores["tuned"]["f1"] == pytest.approx(fitted.comparison.scores["f1"].after)


def _with_calibration(run: Path, calibration: Calibration, folder: Path) -> Path:
    trained = lamina.load(run).trained
    decision = trained.span_decision.model_copy(update={"calibration": calibration})
    return lamina.Reader(replace(trained, decisions={trained.span_task: decision})).save(folder).path


def test_checkpoints_and_saved_models_are_starts(tmp_path: Path, start: Path) -> None:
    reader = lamina.load(start)
    export(reader.trained, tmp_path / "exported")
    reader.save(tmp_path / "int8", weights="int8")
    for number, name in enumerate(("exported", "int8")):
        fitted = lamina.fit(asked(15), tmp_path / f"out{number}", start=tmp_path / name, minutes=60, settings=FAST)
        assert not fitted.kept_start
        assert lamina.load(fitted.run.path).answer("What is it?", "There is snow.", threshold=1e9).text


@pytest.mark.parametrize("settings", [{"tasks.main.data.holdout": 0.3, " train.lr ": 1e-3}, {"train": FAST_TABLE}])
def test_settings_with_another_spelling_win_over_the_choice(settings: dict[str, Any], tmp_path: Path, start: Path) -> None:
    begun = starts.question_start(start, settings)
    choice = Choice(layers=1, depth=2, epochs=9.0, parts=5, crossed=True, seconds=1.0)
    recipe = fitting._chosen(begun.recipe, choice, settings, 30)
    if "train" in settings:
        assert (recipe.train.epochs, recipe.main.data.holdout) == (6, 0.0)
    else:
        assert (recipe.train.epochs, recipe.train.lr, recipe.main.data.holdout) == (9, 1e-3, 0.3)


@pytest.mark.parametrize(
    ("settings", "precision"),
    [
        ({"train.device": "cpu"}, "bfloat16"),
        ({"train.device": "meta"}, "auto"),  # any device that is not the CPU
        ({"train.device": "cpu", "train.precision": "float32"}, "float32"),
        ({"train.device": "cpu", "train.precision": "auto"}, "auto"),
    ],
)
def test_the_fast_precision_of_the_processor_is_for_the_processor_only(
    settings: dict[str, Any], precision: str, start: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "fast_precision", lambda: "bfloat16")
    assert starts.question_start(start, settings).recipe.train.precision == precision
    sentences = repair_sentences(fables(16), ColumnOptions()).examples
    small = {**SENTENCES, **settings}
    assert starts.sentence_start(None, sentences, ColumnOptions(), small).recipe.train.precision == precision


def test_bad_rows_are_repaired_or_left_out(tmp_path: Path, start: Path) -> None:
    lines = [*rows(asked(16)), {"question": "", "context": "A text.", "answer": "text"}]
    lines += [{"question": "Where?", "context": "It is here.", "answer": "nowhere"}]
    lines[0]["answer"] = "Snow"  # as nothing in the context is written
    heard = tiny.Heard()
    data = write_csv(tmp_path / "my.csv", lines)
    settings = {**FAST, "train.epochs": 0.5, "tune.layers": 1}
    fitted = lamina.fit(str(data), tmp_path / "out", start=start, minutes=60, settings=settings, progress=heard)
    assert fitted.choice[0].startswith("choice: train the last 1 of 2 layers on stored states for 0.5 epochs on 32 questions")
    assert len(fitted.left_out) == 2 and all("my.csv, line" in line for line in fitted.left_out)
    assert len(fitted.repaired) == 1
    assert sum(line.startswith("left out: ") for line in heard.lines) == 2
    assert fitted.comparison.examples == 32


def test_frames_lists_and_squad_objects_are_the_same_data(tmp_path: Path, start: Path) -> None:
    settings = {**FAST, "train.epochs": 0.5}

    class Frame:  # as pandas
        columns = ("question", "context", "answer")

        def to_dict(self, orient: str) -> list[dict[str, Any]]:
            assert orient == "records"
            return rows(asked(15))

    scores = []
    forms: list[Any] = [Frame(), (row for row in rows(asked(15)))]
    for number, data in enumerate(forms):
        fitted = lamina.fit(data, tmp_path / str(number), start=start, minutes=60, settings=settings)
        scores.append(fitted.comparison.scores)
    assert scores[0] == scores[1]
    squad = lamina.fit(dict(to_squad(asked(15))), tmp_path / "squad", start=start, minutes=60, settings=settings)
    assert squad.comparison.examples == 30


# Sentences


def test_sentences_from_csv_start_from_a_fitted_head(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "moods.csv", fables(24))
    fitted = lamina.fit(str(data), tmp_path / "out", minutes=60, settings=SENTENCES)
    accuracy = fitted.comparison.scores["accuracy"]
    assert max(accuracy.before, accuracy.after) > 0.8 and fitted.comparison.examples == 24
    label = lamina.load(tmp_path / "out").classify("The feast of tale 99 was dreadful and long.")
    assert label.label == "bad"
    assert lamina.evaluate(tmp_path / "out", fables(40)[24:])["accuracy"] > 0.8


def test_trained_sentences_keep_their_start_beside_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "compare_sentences", _always_better)
    fitted = lamina.fit(fables(24), tmp_path / "out", minutes=60, settings=SENTENCES)
    assert not fitted.kept_start
    recipe = lamina.read_recipe(tmp_path / "out" / "recipe.json")
    assert recipe.main.head.start == str(tmp_path / "out" / "start")
    assert fitted.run.read_info()["heads"]["main"]["run"] == recipe.main.head.start
    assert lamina.load(tmp_path / "out" / "start").classify("The feast was dreadful.").label in ("good", "bad")
    again = lamina.train(recipe, tmp_path / "again")
    assert again.finished


def test_pairs_with_scores_are_compared_by_correlation(tmp_path: Path) -> None:
    fitted = lamina.fit(fables(32, pairs=True), tmp_path / "out", minutes=60, settings=SENTENCES)
    assert set(fitted.comparison.scores) == {"pearson"}
    assert lamina.load(tmp_path / "out").similarity("tale 1 is wonderful", "story 1 is wonderful") >= 0


@pytest.mark.parametrize("classes", [2, 3])
def test_pairs_with_classes(tmp_path: Path, classes: int) -> None:
    lines = [row | {"label": "abc"[n % classes]} for n, row in enumerate(fables(10 * classes, pairs=True))]
    fitted = lamina.fit(lines, tmp_path / "out", minutes=60, settings={**SENTENCES, "train.epochs": 1})
    assert set(fitted.comparison.scores) == {"accuracy"}


def test_texts_with_scores_and_named_columns(tmp_path: Path) -> None:
    lines = [{"words": row["text"], "stars": 1.5 + 3 * (row["label"] == "good")} for row in fables(20)]
    named = {"data.columns.first": "words", "data.columns.label": "stars"}
    fitted = lamina.fit(lines, tmp_path / "out", minutes=60, settings={**SENTENCES, **named, "train.epochs": 1})
    assert set(fitted.comparison.scores) == {"pearson"}


def test_a_run_with_the_same_labels_is_the_start_of_sentences(tmp_path: Path) -> None:
    first = lamina.fit(fables(24), tmp_path / "first", minutes=60, settings=SENTENCES)
    wrecking = {**FAST, "train.lr": 1.0}
    fitted = lamina.fit(fables(40)[16:], tmp_path / "out", start=first.run.path, minutes=60, settings=wrecking)
    assert fitted.kept_start
    with pytest.raises(LaminaError, match=r'data: the name is ""\. Fix: name a file or a dataset'):
        lamina.train(str(fitted.run.recipe), tmp_path / "again")
    text = "The feast of tale 7 was dreadful and long."
    assert lamina.load(tmp_path / "out").classify(text) == lamina.load(first.run.path).classify(text)


def _always_better(*arguments: Any) -> Any:
    from lamina.fitting.comparison import compare_sentences

    return replace(compare_sentences(*arguments), better=True)


# Mistakes and the command


def test_mistakes(tmp_path: Path, start: Path) -> None:
    with pytest.raises(LaminaError, match=r"28 questions are too few.* Fix: give at least 30"):
        lamina.fit(asked(14), tmp_path / "out", start=start)
    with pytest.raises(LaminaError, match=r"the class 'good' has 3 rows.* Fix: "):
        lamina.fit(fables(6), tmp_path / "out")
    with pytest.raises(LaminaError, match=r"nowhere: not a run folder.* Fix: name the folder"):
        lamina.fit(asked(15), tmp_path / "out", start="nowhere")
    with pytest.raises(LaminaError, match="exists and is not empty"):
        lamina.fit(asked(15), start)
    (tmp_path / "file").touch()
    with pytest.raises(LaminaError, match=r"the folder cannot be made: .* Fix: name another folder"):
        lamina.fit(asked(15), tmp_path / "file" / "out", start=start)
    with pytest.raises(ValueError, match="minutes must be above 0, not 0"):
        lamina.fit(asked(15), tmp_path / "out", start=start, minutes=0)
    assert not (tmp_path / "out").exists()


def test_command_prints_the_choice_the_table_and_examples(tmp_path: Path, start: Path) -> None:
    data = write_csv(tmp_path / "my.csv", rows(asked(15)))
    fast = [word for name, value in FAST.items() for word in ("--set", f"{name}={value}")]
    done = command("fit", data, "--from", start, "--minutes", 60, "--out", tmp_path / "out", *fast)
    assert done.code == 0, done.err
    assert "choice: train all 2 layers" in done.err and "test: 4 parts" in done.err
    lines = done.out.splitlines()
    assert lines[0].split()[:3] == ["before", "after", "difference"] and "95% interval" in lines[0]
    assert lines[1].startswith("F1") and lines[2].startswith("EM")
    assert sum(line.startswith("changed: ") for line in lines) == 3
    assert lines[-1] == f"run: {tmp_path / 'out'}"
    again = command("fit", data, "--from", start, "--out", tmp_path / "out")
    assert again.code == 2 and "Fix: name a new folder" in again.err
    done = command("fit", data, "--from", start, "--minutes", 60, "--out", tmp_path / "json", "--json", *fast)
    assert json.loads(done.out)["run"] == str(tmp_path / "json")


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_interrupt_leaves_nothing_behind(tmp_path: Path, start: Path) -> None:
    data = write_csv(tmp_path / "my.csv", rows(asked(15)))
    before = {path: path.stat().st_mtime_ns for path in start.rglob("*")}
    (tmp_path / ".out-fit" / "part-1").mkdir(parents=True)  # of a killed process
    (tmp_path / ".out-fit" / "part-1" / "recipe.json").touch()
    words = ["fit", str(data), "--from", str(start), "--minutes", "600", "--out", str(tmp_path / "out")]
    words += ["--set", "train.epochs=2000", "--threads", "1"]
    process = subprocess.Popen([sys.executable, "-m", "lamina", *words], stderr=subprocess.PIPE, env=dict(os.environ))
    try:
        until = time.monotonic() + 120
        while not list(tmp_path.glob(".out-*/part-1/metrics.jsonl")) and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.communicate()
    assert [path.name for path in tmp_path.iterdir()] == ["my.csv"]
    assert {path: path.stat().st_mtime_ns for path in start.rglob("*")} == before


def test_held_out_questions_are_never_trained_on(tmp_path: Path, start: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[set[str], set[str]]] = []
    trained: list[set[str]] = []

    def watched(recipe: Any, folder: Path, *, data: list[Example], **rest: Any) -> Any:
        trained.append({example.id for example in data})
        return lamina.train(recipe, folder, data=data, **rest)

    def compared(tested: Any, *rest: Any) -> Any:
        seen.extend((ids, {e.id for e in part.examples}) for ids, part in zip(trained, tested, strict=True))
        return compare_questions(tested, *rest)

    monkeypatch.setattr(fitting, "train", watched)
    monkeypatch.setattr(fitting, "compare_questions", compared)
    lamina.fit(asked(15), tmp_path / "out", start=start, minutes=60, settings=FAST)
    assert len(seen) == 4
    for ids, held_out in seen:
        assert held_out and not ids & held_out
