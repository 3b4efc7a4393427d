"""Two runs side by side, from what they saved."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamina.answers.decode import AnswerOptions
from lamina.data import multi_context
from lamina.data.bm25 import with_neighbours
from lamina.data.squad import read, to_squad
from lamina.errors import LaminaError
from lamina.experiments.compare import Per, Together, compare, lines
from lamina.experiments.ensemble import ensemble
from lamina.scoring.predictions import references
from lamina.scoring.significance import Difference, compare_scores
from lamina.scoring.squad import question_scores
from lamina.utils.files import read_json, write_json
from tests import tiny
from tests.command import lamina
from tests.run_folders import make_run

KEYS = ["a", "b", "difference", "low", "high", "p", "verdict", "questions", "clusters", "needed"]


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """Thirty questions, five on each context."""
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(to_squad(tiny.corpus(6))))
    return path


@pytest.mark.parametrize("at", ["tuned", "zero"])
@pytest.mark.parametrize("metric", ["f1", "exact"])
def test_the_scores_are_those_of_the_runs(dev: Path, tmp_path: Path, at: Any, metric: Any) -> None:
    runs = [make_run(tmp_path / f"run{seed}", dev, seed, threshold=1.25 - seed) for seed in range(2)]
    result = compare(runs[0].path, runs[1].path, at=at, metric=metric)
    assert (result["metric"], result["at"], result["clusters"]) == (metric, at, "context")
    for side, run in zip("ab", runs, strict=True):
        own = read_json(run.scores)[at]
        for part, prefix in (("overall", ""), ("HasAns", "HasAns_"), ("NoAns", "NoAns_")):
            assert list(result[part]) == KEYS
            assert result[part][side] == pytest.approx(own[f"{prefix}{metric}"])
            assert result[part]["questions"] == own[f"{prefix}total"]
            assert result[part]["difference"] == pytest.approx(result[part]["b"] - result[part]["a"])
            assert result[part]["low"] <= result[part]["difference"] <= result[part]["high"]
            assert result[part]["clusters"] == 6


def test_the_difference_is_told_by_questions_on_one_context_together(dev: Path, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run{seed}", dev, seed) for seed in range(2)]
    examples = read(dev)
    a, b = (np.array(list(question_scores(references(examples), read_json(run.predictions))[1].values())) for run in runs)
    together = compare_scores(a, b, np.repeat(np.arange(6), 5))
    alone = compare_scores(a, b)
    assert together.p != alone.p
    told: dict[Together, Difference] = {"context": together, "article": together, "question": alone}
    for clusters, wanted in told.items():
        found = compare(runs[0].path, runs[1].path, clusters=clusters)["overall"]
        assert (found["p"], found["verdict"], found["needed"]) == (wanted.p, wanted.verdict, wanted.needed)
        assert (found["low"], found["high"]) == pytest.approx((100 * wanted.low, 100 * wanted.high))
        assert found["clusters"] == wanted.clusters


def test_a_run_that_knows_more_is_better(dev: Path, tmp_path: Path) -> None:
    guesses, knows = (make_run(tmp_path / name, dev, 0, hunch=hunch).path for name, hunch in (("guesses", 0.0), ("knows", 9.0)))
    result = compare(guesses, knows)
    assert result["overall"]["verdict"] == "better" and result["overall"]["low"] > 0
    first, *others = lines(result)
    assert first.startswith(f"{knows} is better than {guesses} by ") and "p = 0.03" in first and "30 questions" in first
    assert [line.split(":")[0] for line in others] == ["HasAns F1", "NoAns F1"]
    turned = compare(knows, guesses, metric="exact")
    assert turned["overall"]["verdict"] == "worse" and turned["overall"]["high"] < 0
    assert lines(turned)[0].startswith(f"{guesses} is worse than {knows} by ") and " EM: " in lines(turned)[0]


def test_a_run_and_itself(dev: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", dev, 0).path
    result = compare(run, run)
    overall = result["overall"]
    assert (overall["difference"], overall["low"], overall["high"], overall["p"], overall["needed"]) == (0, 0, 0, 1, None)
    assert lines(result)[0].startswith(f"not distinguishable: {run} and {run} have the same F1")


def test_runs_of_different_windows(dev: Path, tmp_path: Path) -> None:
    """The questions are what must be the same, not how they were cut."""
    runs = [make_run(tmp_path / "one", dev, 0), make_run(tmp_path / "two", dev, 1, window=tiny.SHORT)]
    assert compare(runs[0].path, runs[1].path)["overall"]["questions"] == 30


def test_ensembles(dev: Path, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run{seed}", dev, seed, threshold=0.5).path for seed in range(2)]
    both, alone = tmp_path / "both", tmp_path / "alone"
    scores = ensemble(runs, both, how="mean")["scores"]
    result = compare(runs[0], both)
    assert result["overall"]["b"] == pytest.approx(scores["tuned"]["f1"])
    ensemble(runs[:1], alone)
    assert compare(runs[0], alone)["overall"]["p"] == 1
    with pytest.raises(LaminaError, match="both: an ensemble keeps its answers at the runs' own thresholds"):
        compare(runs[0], both, at="zero")
    runs[0].rename(tmp_path / "elsewhere")
    with pytest.raises(LaminaError, match=r"both: its run .*run0 is not there"):
        compare(runs[1], both)
    write_json(both / "ensemble.json", {"runs": []})
    with pytest.raises(LaminaError, match=r"ensemble\.json: names no runs"):
        compare(runs[1], both)


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """Thirty questions with three contexts each."""
    path = tmp_path / "several.jsonl"
    multi_context.write_questions(path, with_neighbours(tiny.corpus(6), 3, hits="impossible").questions)
    return path


@pytest.mark.parametrize("at", ["tuned", "zero"])
@pytest.mark.parametrize("across", ["margin", "paper_probability"])
def test_questions_with_several_contexts(several: Path, tmp_path: Path, at: Any, across: Any) -> None:
    how = AnswerOptions(across=across)
    runs = [make_run(tmp_path / f"run{seed}", several, seed, threshold=1.25 - seed, answer=how) for seed in range(2)]
    totals: dict[Per, int] = {"context": 90, "question": 30}
    for per, total in totals.items():
        result = compare(runs[0].path, runs[1].path, at=at, per=per)
        assert (result["per"], result["overall"]["questions"], result["overall"]["clusters"]) == (per, total, 6)
        for side, run in zip("ab", runs, strict=True):
            scores = read_json(run.scores)
            own = (scores if per == "context" else scores["questions"])[at]
            for part, prefix in (("overall", ""), ("HasAns", "HasAns_"), ("NoAns", "NoAns_")):
                assert result[part][side] == pytest.approx(own[f"{prefix}f1"])
                assert result[part]["questions"] == own[f"{prefix}total"]


def test_the_contexts_of_a_question_depend_on_each_other(several: Path, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run{seed}", several, seed).path for seed in range(2)]
    assert compare(*runs, clusters="question")["overall"]["clusters"] == 30
    assert compare(*runs, clusters="question", per="question")["overall"]["clusters"] == 30
    shown = lamina("compare", *runs, "--per", "question", "--clusters", "question")
    assert shown.code == 0 and "30 questions)" in shown.out


def test_what_has_no_answers_by_question(dev: Path, several: Path, tmp_path: Path) -> None:
    plain = make_run(tmp_path / "plain", dev, 0).path
    with pytest.raises(LaminaError, match="--per question: these questions have one context each"):
        compare(plain, plain, per="question")
    run = make_run(tmp_path / "run", several, 0)
    ensemble([run.path], tmp_path / "both")
    with pytest.raises(LaminaError, match="both: an ensemble keeps its answers at the runs' own thresholds"):
        compare(run.path, tmp_path / "both", per="question", at="zero")
    same = compare(run.path, tmp_path / "both", per="question")["overall"]
    assert same["difference"] == 0 and same["questions"] == 30
    run.questions.unlink()
    with pytest.raises(LaminaError, match=r"questions\.json: no such file"):
        compare(run.path, run.path, per="question")


def test_different_questions_are_refused(dev: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", dev, 0).path
    fewer = make_run(tmp_path / "fewer", dev, 0, examples=read(dev)[:12], dev_questions=12).path
    with pytest.raises(LaminaError, match=r"fewer: was not scored on the same questions as .*run: .* one data\.dev_questions"):
        compare(run, fewer)
    assert compare(fewer, fewer)["overall"]["questions"] == 12
    moved = dev.rename(tmp_path / "moved.json")
    with pytest.raises(LaminaError, match=r"dev\.json: no such data"):
        compare(run, run)
    assert compare(run, run, data=str(moved))["overall"]["questions"] == 30
    moved.write_text(moved.read_text().replace("by the sea", "at the sea"))
    with pytest.raises(LaminaError, match=r"run: was not scored on .*moved\.json as it is now"):
        compare(run, run, data=str(moved))


def test_questions_of_one_context(dev: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", dev, 0, examples=read(dev)[:5], dev_questions=5).path
    with pytest.raises(LaminaError, match=r"all 5 questions are of one context, .*--clusters question"):
        compare(run, run)
    result = compare(run, run, clusters="question")
    assert "HasAns" in result and "NoAns" not in result, "a single question tells nothing"
    assert len(lines(result)) == 2


def test_only_answerable_questions(tmp_path: Path) -> None:
    dev = tmp_path / "dev.json"
    examples = [example for example in tiny.corpus(3) if example.answers]
    dev.write_text(json.dumps(to_squad(examples)))
    runs = [make_run(tmp_path / f"run{seed}", dev, seed).path for seed in range(2)]
    result = compare(runs[0], runs[1])
    assert "NoAns" not in result
    assert result["HasAns"] == result["overall"]


def test_folders_with_something_missing(dev: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", dev, 0)
    with pytest.raises(LaminaError, match="not a run folder"):
        compare(run.path, tmp_path / "nowhere")
    run.windows.unlink()  # as in runs of older versions
    assert compare(run.path, run.path)["overall"]["questions"] == 30
    texts = read_json(run.predictions)
    write_json(run.predictions, dict(list(texts.items())[3:]))
    with pytest.raises(LaminaError, match="run: has no answers to 3 of its 30 questions"):
        compare(run.path, run.path)
    run.nbest.unlink()
    with pytest.raises(LaminaError, match=r"nbest\.json: no such file"):
        compare(run.path, run.path, at="zero")
    run.outputs.unlink()
    with pytest.raises(
        LaminaError, match=r"has no outputs\.safetensors, which needs a dev set\. Fix: train the run with data\.dev"
    ):
        compare(run.path, run.path)


# In words


def part(difference: float, low: float, high: float, p: float, verdict: str, needed: int | None) -> dict[str, Any]:
    return {
        "a": 57.31, "b": 57.31 + difference, "difference": difference, "low": low, "high": high, "p": p,
        "verdict": verdict, "questions": 6078, "clusters": 646, "needed": needed,
    }  # fmt: skip


def test_the_words() -> None:
    result = {
        "a": "A", "b": "B", "metric": "f1", "at": "tuned", "clusters": "context",
        "overall": part(0.2, -0.4, 0.8, 0.52, "not distinguishable", 38_211),
        "HasAns": part(-1.5, -2.5, -0.5, 0.0001, "worse", 900),
    }  # fmt: skip
    assert lines(result) == [
        "not distinguishable: B has 0.20 F1 more than A, 57.51 against 57.31 (95% interval -0.40 to +0.80, p = 0.520, "
        "6,078 questions); if that is real, it would take about 39,000 questions to tell",
        "HasAns F1: 55.81 against 57.31, -1.50, worse (95% interval -2.50 to -0.50, p < 0.001, 6,078 questions)",
    ]
    result["overall"] = part(1.3, 0.4, 2.2, 0.004, "better", 2000)
    assert lines(result)[0] == (
        "B is better than A by 1.30 F1: 58.61 against 57.31 (95% interval +0.40 to +2.20, p = 0.004, 6,078 questions)"
    )


# The command


def test_the_command(dev: Path, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run{seed}", dev, seed).path for seed in range(2)]
    printed = lamina("compare", *runs, "--metric", "exact", "--at", "zero", "--clusters", "question", "--json")
    assert printed.code == 0, printed.err
    assert json.loads(printed.out) == compare(runs[0], runs[1], metric="exact", at="zero", clusters="question")
    shown = lamina("compare", *runs, "--data", dev)
    assert shown.code == 0, shown.err
    assert shown.out.splitlines() == lines(compare(runs[0], runs[1]))
    refused = lamina("compare", runs[0], tmp_path)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("lamina: ") and refused.err.count("\n") == 1


def test_no_model_is_loaded(dev: Path, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run{seed}", dev, seed).path for seed in range(2)]
    words = ["lamina", "compare", *map(str, runs)]
    code = f"import sys; from lamina import cli; sys.argv = {words}\ntry: cli.main()\nexcept SystemExit: pass\n"
    code += "assert not {'torch', 'transformers', 'lamina.model', 'lamina.encoder'} & set(sys.modules), 'a model was loaded'"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
