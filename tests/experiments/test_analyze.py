"""Analyse runs from what they saved: numbers against a naive recomputation, text, JSON and pictures."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from lamina.answers.calibration import Calibration
from lamina.answers.decode import Candidate, Prediction, decode
from lamina.answers.formats import nbest_json, predictions_of
from lamina.answers.saved_outputs import load_outputs, save_arrays
from lamina.config.parse import parse_recipe
from lamina.data.examples import Answer, Example
from lamina.data.sentence_windows import make_sentence_windows
from lamina.data.sources import load_sentences
from lamina.data.squad import read, to_squad
from lamina.errors import LaminaError
from lamina.experiments.analysis.classes import score_classes
from lamina.experiments.analysis.results import ClassAnalysis, ScoreAnalysis, SpanAnalysis
from lamina.experiments.analysis.spans import answer_length, excerpt
from lamina.experiments.analysis.text import lines
from lamina.experiments.analyze import analyze
from lamina.scoring.error_analysis import confusion, risk_coverage
from lamina.scoring.squad import f1
from lamina.utils.files import read_json, write_json
from lamina.utils.run_folder import FORMAT, Run
from tests import tiny
from tests.command import lamina
from tests.run_folders import make_run

NULL_ODDS = 0.75  # the threshold of the hand-made runs


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(to_squad(tiny.corpus(6))))
    return path


def spans_of(run: Path) -> SpanAnalysis:
    task = analyze([run]).runs[0].tasks["main"]
    assert isinstance(task, SpanAnalysis)
    return task


# ---- spans


def hand_made(path: Path, dev: Path, entries: dict[str, list[tuple[str, float]]]) -> Path:
    """Write a run whose n-best lists are given as texts and scores, "" for "no answer"."""
    run = make_run(path, dev, 0, threshold=NULL_ODDS)
    contexts = {example.id: example.context for example in read(dev)}
    predictions = []
    for question, pairs in entries.items():
        spans = [(text, contexts[question].index(text), score) for text, score in pairs if text]
        candidates = tuple(Candidate(text, start, start + len(text), score) for text, start, score in spans)
        predictions.append(Prediction(question, dict(pairs)[""], candidates))
    write_json(run.nbest, nbest_json(predictions))
    return run.path


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Write five questions on one context: when, where, what, what, and who without an answer."""
    path = tmp_path / "few.json"
    path.write_text(json.dumps(to_squad(tiny.corpus(1))))
    return path


FIRST = {
    "0-0": [("1800", 4.0), ("", 1.0), ("snow", 0.0)],  # right
    "0-1": [("", 5.0), ("a ruined mill", 4.0)],  # wrong: null odds 1.0 above the threshold; the second answer is right
    "0-2": [("wild honey", 3.0), ("", 3.5)],  # right: null odds 0.5 are below the threshold
    "0-3": [("tale 0", 6.0), ("snow", 5.0), ("", 0.0)],  # wrong: another span; the second answer is right
    "0-4": [("sea", 2.0), ("", 1.0)],  # wrong: there is no answer; the second answer is right
}
SECOND = {
    "0-0": [("born in 1800", 4.0), ("", 1.0)],  # wrong, though it holds the answer
    "0-1": [("a ruined mill", 4.0), ("", 1.0)],  # right
    "0-2": [("wild honey", 3.0), ("", 3.5)],  # right
    "0-3": [("", 9.0), ("far", 5.0)],  # wrong
    "0-4": [("", 2.0), ("sea", 1.0)],  # right
}


def test_hand_made_predictions(few: Path, tmp_path: Path) -> None:
    task = spans_of(hand_made(tmp_path / "run", few, FIRST))
    assert task.questions == 5 and task.threshold == NULL_ODDS
    assert task.exact == pytest.approx(40)
    assert task.counts == {
        "HasAns_total": 4, "HasAns_right": 2, "NoAns_total": 1, "NoAns_right": 0, "wrong": 3, "second_right": 3,
        "HasAns_wrong": 2, "HasAns_second_right": 2, "HasAns_null": 1,
    }  # fmt: skip
    assert task.null_of_wrong_has_answer == 1 / 2
    assert task.second_right_of_wrong == 1
    assert task.has_answer_of_second_right == 2 / 3
    assert task.has_answer_of_right == 1
    assert {name: (g.questions, g.exact) for name, g in task.by_question_word.items()} == {
        "what": (2, 50), "who": (1, 0), "when": (1, 100), "where": (1, 0),
    }  # fmt: skip
    assert {name: (g.questions, g.exact) for name, g in task.by_answer_length.items()} == {
        "1 word": (2, 50), "2 words": (1, 100), "3-4 words": (1, 0), "no answer": (1, 0),
    }  # fmt: skip


def test_most_confident_mistakes(few: Path, tmp_path: Path) -> None:
    task = spans_of(hand_made(tmp_path / "run", few, FIRST))
    first, second, third = task.mistakes
    wanted = {
        "0-1": np.exp(5) / (np.exp(5) + np.exp(4)),
        "0-3": np.exp(6) / (np.exp(6) + np.exp(5) + np.exp(0)),
        "0-4": np.exp(2) / (np.exp(2) + np.exp(1)),
    }
    assert {m.id: m.confidence for m in task.mistakes} == pytest.approx(wanted)
    assert [m.id for m in task.mistakes] == ["0-1", "0-4", "0-3"], "ties of 0.731 keep their order"
    assert (first.gold, first.prediction) == (["a ruined mill"], "") and "a ruined mill" in first.text
    assert (second.gold, second.prediction) == ([], "sea") and "by the sea" in second.text
    assert (third.gold, third.prediction, third.question) == (["snow"], "tale 0", "What does the heron dream of?")


def test_overlap_of_two_runs(few: Path, tmp_path: Path) -> None:
    runs = [hand_made(tmp_path / "a", few, FIRST), hand_made(tmp_path / "b", few, SECOND)]
    (overlap,) = analyze(runs).overlaps
    counts = (overlap.both_right, overlap.only_a, overlap.only_b, overlap.both_wrong)
    assert counts == (1, 1, 2, 1)
    words = len(tiny.corpus(1)[0].context.split())
    assert overlap.context_words_of_only_a == overlap.context_words_of_only_b == words
    shown = "\n".join(lines(analyze(runs)))
    assert f"only {runs[1]} right       2   40.0%" in shown and 'predicted "no answer": 1 of 2 (50%)' in shown


def naive(run: Run, examples: list[Example], threshold: float) -> dict[str, object]:
    """Recompute some numbers from the saved logits with plain loops."""
    windows, logits = load_outputs(run)
    right, words, confidence = [], Counter[str](), []
    for prediction, example in zip(decode(windows, logits.start, logits.end, examples), examples, strict=True):
        best = prediction.candidates[0]
        text = "" if prediction.null - best.score > threshold else best.text
        golds = [answer.text for answer in example.answers] or [""]
        right.append(max(f1(text, gold) == 1 and text.lower() == gold.lower() for gold in golds))
        words[next(w for w in ("when", "where", "what", "who") if w in example.question.lower())] += right[-1]
        scores = np.array([prediction.null, *(c.score for c in prediction.candidates)])
        chances = np.exp(scores) / np.exp(scores).sum()
        confidence.append(float(chances[1 if text else 0]))
    order = sorted(range(len(right)), key=lambda n: -confidence[n])
    risks = [1 - fmean(right[n] for n in order[: k + 1]) for k in range(len(order))]
    lengths = {side: [len(e.context.split()) for e, ok in zip(examples, right, strict=True) if ok == side] for side in (0, 1)}
    mistakes = [examples[n].id for n in order if not right[n]][:20]
    return {"right": right, "words": words, "area": fmean(risks), "lengths": lengths, "mistakes": mistakes, "sure": confidence}


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 2.0])
def test_numbers_equal_a_naive_recomputation(dev: Path, tmp_path: Path, threshold: float) -> None:
    run = make_run(tmp_path / "run", dev, 3, threshold=threshold)
    wanted, task = naive(run, read(dev), threshold), spans_of(run.path)
    scores = read_json(run.scores)["tuned"]
    right = wanted["right"]
    assert isinstance(right, list) and 0 < sum(right) < 30
    assert (task.exact, task.f1) == pytest.approx((scores["exact"], scores["f1"]))
    assert task.counts["HasAns_right"] + task.counts["NoAns_right"] == sum(right)
    assert {name: round(g.exact * g.questions / 100) for name, g in task.by_question_word.items()} == wanted["words"]
    assert task.confidence.area == pytest.approx(wanted["area"])
    assert task.confidence.risks["100"] == pytest.approx(1 - sum(right) / 30)
    assert [m.id for m in task.mistakes] == wanted["mistakes"]
    lengths = wanted["lengths"]
    assert isinstance(lengths, dict)
    assert task.context_words_of_right == pytest.approx(fmean(lengths[1]))
    assert task.context_words_of_wrong == pytest.approx(fmean(lengths[0]))
    sure = wanted["sure"]
    assert isinstance(sure, list)
    edges = [*np.linspace(0, 1, 11)[:-1], 1.01]
    bins = [[n for n, p in enumerate(sure) if low <= p < high] for low, high in pairwise(edges)]
    gaps = [abs(sum(sure[n] for n in some) - sum(right[n] for n in some)) / 30 for some in bins]
    assert task.confidence.error == pytest.approx(sum(gaps))


def test_calibration_of_the_run_gives_the_confidence(dev: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", dev, 3)
    plain = spans_of(run.path).mistakes[0].confidence
    info = read_json(run.info)
    info["tasks"]["main"]["calibration"] = asdict(Calibration(temperature=3.0, bias=0.5))
    write_json(run.info, info)
    mistake = spans_of(run.path).mistakes[0]
    prediction = predictions_of(read_json(run.nbest))[mistake.id]
    chances = Calibration(3.0, 0.5).probabilities(prediction)
    assert mistake.confidence == pytest.approx(chances[1 if mistake.prediction else 0])
    assert mistake.confidence != plain


def test_answer_length_is_that_of_the_shortest_reference() -> None:
    example = tiny.example("in the very late nineteen nineties", "late nineteen nineties")
    assert answer_length(example) == "3-4 words"
    assert answer_length(replace(example, answers=(*example.answers, Answer("late", 12)))) == "1 word"
    assert answer_length(tiny.example("a " * 9, ("a " * 9).strip())) == "9 words or more"


def test_excerpt_is_a_piece_around_the_span() -> None:
    context = " ".join(f"w{number}" for number in range(100))
    piece = excerpt(context, context.index("w50"), context.index("w50") + 3)
    assert piece.startswith("… w") and piece.endswith(" …") and " w50 " in piece
    assert all(word in context.split() for word in piece.strip("… ").split())
    assert len(piece) < 160


def test_equal_confidences_have_no_order() -> None:
    assert risk_coverage([0.5, 0.5], [True, False]).tolist() == risk_coverage([0.5, 0.5], [False, True]).tolist() == [0.5, 0.5]
    with pytest.raises(LaminaError, match="2 predictions for 1 labels"):
        confusion([0, 1], [0], 2)


# ---- sentences and answerability

CLASSES = ("bad", "fair", "good")
TEXTS = ("it rains", "it snows", "it shines", "it pours", "it thaws", "it freezes")


def sentence_run(path: Path, rows: list[str], logits: list[list[float]]) -> Run:
    """Write a run of a sentence task with classes. `rows` are the gold labels of its dev set."""
    dev = path.with_suffix(".csv")
    dev.write_text("sentence,label\n" + "".join(f"{text},{row}\n" for text, row in zip(TEXTS, rows, strict=True)))
    head = {"type": "classification"}
    data = {"train": "train.csv", "dev": str(dev), "classes": list(CLASSES), "pairs": False}
    recipe = parse_recipe({"encoder": {"model": "tiny", "pretrained": False}, "data": data, "head": head})
    path.mkdir()
    run = Run(path)
    write_json(run.recipe, recipe.model_dump(mode="json"))
    write_json(run.info, {"format": FORMAT, "finished": True, "tasks": {"main": {"type": "sentences", "threshold": 0.0}}})
    shutil.copyfile(tiny.tokenizer().path, run.tokenizer)
    sentences = load_sentences(str(dev))
    labels = recipe.tasks["main"].data.labels
    windows = make_sentence_windows(sentences, tiny.tokenizer(), labels, length=recipe.window.length, sides=1)
    save_arrays(run.outputs, {"logits": np.array(logits, np.float32)}, windows.fingerprint)
    write_json(run.predictions, {s.id: CLASSES[int(np.argmax(row))] for s, row in zip(sentences, logits, strict=True)})
    return run


GOLD = ["bad", "bad", "fair", "good", "good", "good"]
LOGITS: list[list[float]] = [[2, 0, 0], [0, 3, 0], [0, 1, 0], [0, 0, 4], [5, 0, 0], [0, 0, 1.0]]


def test_confusion_and_shares_of_classes(tmp_path: Path) -> None:
    run = sentence_run(tmp_path / "run", GOLD, LOGITS)
    task = analyze([run.path]).runs[0].tasks["main"]
    assert isinstance(task, ClassAnalysis) and task.classes == CLASSES
    assert task.confusion == [[1, 1, 0], [0, 1, 0], [1, 0, 2]]
    assert task.predicted == pytest.approx({"bad": 2 / 6, "fair": 2 / 6, "good": 2 / 6})
    assert task.gold == pytest.approx({"bad": 2 / 6, "fair": 1 / 6, "good": 3 / 6})
    assert task.accuracy == pytest.approx(100 * 4 / 6)
    assert [(m.question, m.gold, m.prediction) for m in task.mistakes] == [
        ("it thaws", ["good"], "bad"),
        ("it snows", ["bad"], "fair"),
    ]
    assert task.mistakes[0].confidence == pytest.approx(np.exp(5) / (np.exp(5) + 2))
    shown = lines(analyze([run.path]))
    assert any(line.split() == ["good", "1", "0", "2", "0.500"] for line in shown)


def test_overlap_of_sentence_runs(tmp_path: Path) -> None:
    """Compare a run with one whose dev set has the same rows."""
    first = sentence_run(tmp_path / "first", GOLD, LOGITS)
    second = sentence_run(tmp_path / "second", GOLD, [*LOGITS[1:], LOGITS[0]])
    (overlap,) = analyze([first.path, second.path]).overlaps
    assert (overlap.both_right, overlap.only_a, overlap.only_b, overlap.both_wrong) == (0, 4, 1, 1)
    assert overlap.context_words_of_only_a is None


def test_changed_sentences_raise(tmp_path: Path) -> None:
    run = sentence_run(tmp_path / "run", GOLD, LOGITS)
    (tmp_path / "run.csv").rename(tmp_path / "moved.csv")
    with pytest.raises(LaminaError, match=r"run\.csv: no such data"):
        analyze([run.path])
    assert analyze([run.path], data=str(tmp_path / "moved.csv")).runs[0].tasks["main"].kind == "sentences"
    moved = tmp_path / "moved.csv"
    moved.write_text(moved.read_text().replace("it rains", "it hails"))
    with pytest.raises(LaminaError, match=r"was not scored on the present examples of .*moved\.csv\. Fix: name its dev set"):
        analyze([run.path], data=str(moved))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train small runs: the bundled sentence tasks, and answerability."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "train.json").write_text(json.dumps(to_squad(tiny.corpus(12))))
    (folder / "dev.json").write_text(json.dumps(to_squad(tiny.corpus(6))))
    recipe = folder / "small.toml"
    recipe.write_text(tiny.SMALL_RECIPE.format(folder=folder) + '[head]\ntype = "answerability"\n')
    done = lamina("train", recipe, "--out", folder / "answerability", "--set", "train.epochs=1")
    assert done.code == 0, done.err
    few = [
        word
        for task in ("sentiment", "paraphrase", "similarity")
        for name, count in (("questions", 60), ("dev_questions", 40))
        for word in ("--set", f"tasks.{task}.data.{name}={count}")
    ]
    tiny_encoder = ["--set", "encoder.model=tiny", "--set", "encoder.pretrained=false", "--set", "train.threads=1"]
    done = lamina("train", "sentences", "--out", folder / "sentences", *few, *tiny_encoder, "--set", "train.epochs=1")
    assert done.code == 0, done.err
    return folder


def test_trained_answerability_run(trained: Path) -> None:
    task = analyze([trained / "answerability"]).runs[0].tasks["main"]
    assert isinstance(task, ClassAnalysis) and task.kind == "answerability"
    run = Run(trained / "answerability")
    predicted = [probability > 0.5 for probability in read_json(run.predictions).values()]
    gold = [not example.answers for example in read(trained / "dev.json")]
    counts = Counter(zip(gold, predicted, strict=True))
    assert task.confusion == [[counts[g, p] for p in (False, True)] for g in (False, True)]
    assert task.accuracy == pytest.approx(read_json(run.scores)["accuracy"])


def test_trained_sentence_run(trained: Path) -> None:
    tasks = analyze([trained / "sentences"]).runs[0].tasks
    scores = read_json(Run(trained / "sentences").scores)
    for name in ("sentiment", "paraphrase"):
        task = tasks[name]
        assert isinstance(task, ClassAnalysis)
        assert task.accuracy == pytest.approx(100 * scores[name]["accuracy"])
        assert task.predicted == pytest.approx(scores[name]["predicted"])
        assert sum(map(sum, task.confusion)) == task.items == 40
    similarity = tasks["similarity"]
    assert isinstance(similarity, ScoreAnalysis)
    assert similarity.pearson == pytest.approx(scores["similarity"]["pearson"])
    gaps = [abs(float(m.prediction) - float(m.gold[0])) for m in similarity.mistakes]
    assert gaps == pytest.approx(sorted(gaps, reverse=True), abs=0.01) and len(gaps) == 20


def test_several_tasks_need_a_choice_for_other_data(trained: Path) -> None:
    run = trained / "sentences"
    with pytest.raises(LaminaError, match=r"--data: .*sentences has 3 tasks .*Fix: choose one of them with --task"):
        analyze([run], data="fables/sentiment/dev")
    only = analyze([run], task="sentiment", data="fables/sentiment/dev")
    assert list(only.runs[0].tasks) == ["sentiment"]
    with pytest.raises(LaminaError, match=r"--task: .* has no task 'mood'\. Fix: choose one of sentiment"):
        analyze([run], task="mood")
    with pytest.raises(LaminaError, match=r"answerability: has no task in common with .*sentences"):
        analyze([run, trained / "answerability"])


def test_pictures_of_sentence_tasks(trained: Path, tmp_path: Path) -> None:
    done = lamina("analyze", trained / "sentences", "--plots", tmp_path / "plots")
    assert done.code == 0, done.err
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert {"sentiment-confusion.png", "paraphrase-classes.svg", "similarity-confusion.svg"} <= names
    assert "similarity-reliability.png" not in names, "scores have no confidence"


def test_score_classes_are_whole_parts_of_labels() -> None:
    from lamina.data.labels import Labels

    assert score_classes([0, 0.99, 1, 3.2, 5], Labels(low=0, high=5)).tolist() == [0, 0, 1, 3, 5]
    assert score_classes([0, 0.19, 0.6, 1], Labels(low=0, high=1)).tolist() == [0, 0, 3, 5]


# ---- the command


def test_analyze_command(dev: Path, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run{seed}", dev, seed).path for seed in range(2)]
    printed = lamina("analyze", *runs, "--json")
    assert printed.code == 0, printed.err
    result = json.loads(printed.out)
    assert result == json.loads(json.dumps(asdict(analyze(runs)) | {"files": []}))
    assert [run["run"] for run in result["runs"]] == [str(run) for run in runs] and len(result["overlaps"]) == 1
    moved = dev.rename(tmp_path / "moved.json")
    missing = lamina("analyze", *runs)
    assert missing.code == 2 and missing.err.count("\n") == 1 and "dev.json: no such data" in missing.err
    shown = lamina("analyze", *runs, "--data", moved)
    assert shown.code == 0, shown.err
    assert shown.out.splitlines() == lines(analyze(runs, data=str(moved)))


def test_pictures_of_span_runs(dev: Path, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, dev, seed).path for seed, name in enumerate(("run$1", "run$2"))]
    done = lamina("analyze", *runs, "--plots", tmp_path / "plots", "--json")
    assert done.code == 0, done.err
    files = [Path(path) for path in json.loads(done.out)["files"]]
    stems = ["right-answers", "question-words", "answer-lengths", "reliability", "risk-coverage", "overlap"]
    assert [path.name for path in files] == [f"{stem}.{ending}" for stem in stems for ending in ("png", "svg")]
    assert sorted(files) == sorted((tmp_path / "plots").iterdir())
    for path in files:
        start = path.read_bytes()[:200]
        assert start.startswith(b"\x89PNG") if path.suffix == ".png" else b"<?xml" in start


def test_pictures_without_matplotlib_raise(dev: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run", dev, 0).path
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = lamina("analyze", run, "--plots", tmp_path / "plots")
    assert (done.code, done.out) == (2, "")
    assert done.err == "lamina: --plots: pictures need matplotlib. Fix: pip install 'lamina-qa[plots]'\n"
    assert not (tmp_path / "plots").exists()
    assert lamina("analyze", run).code == 0


def test_runs_that_cannot_be_analysed_raise(dev: Path, tmp_path: Path) -> None:
    with pytest.raises(LaminaError, match="Fix: name at least one run"):
        analyze([])
    with pytest.raises(LaminaError, match="not a run folder"):
        analyze([tmp_path / "nowhere"])
    run = make_run(tmp_path / "run", dev, 0)
    other = make_run(tmp_path / "other", dev, 0, examples=read(dev)[:12], dev_questions=12)
    with pytest.raises(LaminaError, match=r"other: was not scored on the same examples as .*run \(task main\)"):
        analyze([run.path, other.path])
    nbest = read_json(run.nbest)
    write_json(run.nbest, dict(list(nbest.items())[2:]))
    with pytest.raises(LaminaError, match=r"nbest\.json: has no predictions for 2 of 30 examples \(first id 0-0\)"):
        analyze([run.path])
    write_json(run.nbest, nbest | {"0-0": [{"text": "1800"}]})
    with pytest.raises(LaminaError, match="question 0-0: not an n-best list of a run"):
        analyze([run.path])
    run.outputs.unlink()
    with pytest.raises(LaminaError, match=r"has no outputs\.safetensors, .*\. Fix: train the run with data\.dev"):
        analyze([run.path])
    info = read_json(other.info)
    write_json(other.info, info | {"tasks": {"main": {"type": "poems"}}})
    with pytest.raises(LaminaError, match=r"the task main is of kind 'poems', which has no analysis"):
        analyze([other.path])
    write_json(other.info, info | {"tasks": {}})
    with pytest.raises(LaminaError, match="tasks is not a table of decisions"):
        analyze([other.path])


def test_no_model_is_loaded(dev: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", dev, 0).path
    words = ["lamina", "analyze", str(run)]
    code = f"import sys; from lamina import cli; sys.argv = {words}\ntry: cli.main()\nexcept SystemExit: pass\n"
    code += "assert not {'torch', 'transformers', 'lamina.model', 'lamina.encoder'} & set(sys.modules), 'a model was loaded'"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
