from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.data.examples import Answer, Example
from lamina.data.squad import read, to_squad
from lamina.errors import LaminaError, LaminaWarning
from lamina.scoring.korquad import exact, f1, normalize, score_composed, score_korquad
from lamina.scoring.predictions import korquad, references
from lamina.utils.files import read_json
from tests import tiny
from tests.command import lamina

DATA = "data/korquad-v1.0-dev.json.xz"
GOLDS = {"one": ["서울 특별시", "서울"], "two": ["《해를 품은 달》"]}

words = st.text(alphabet="가나다 ab.,'《》(‘", max_size=10)


def reference(shared: Path, kind: str) -> dict[str, Any]:
    loaded: dict[str, Any] = read_json(shared / f"reference/korquad-v1.0-dev.perturbed.{kind}.json")
    return loaded


def test_equals_the_official_script_on_every_key(shared: Path) -> None:
    scores = score_korquad(references(read(shared / DATA)), reference(shared, "predictions"))
    assert list(scores) == list(reference(shared, "scores"))
    assert scores == pytest.approx(reference(shared, "scores"), abs=1e-9, rel=0)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("'서울'은", "서울 은"),  # a quote separates words
        ("U.S.(1950)", "us 1950"),  # a full stop is removed, a bracket separates
        ("<A> 〈B〉 ‘C’ “D”", "a b c “d”"),
        ("the  An", "the an"),  # no articles
        ("", ""),
        ("《》", ""),
    ],
)
def test_normalize(text: str, normal: str) -> None:
    assert normalize(text) == normal


def test_f1_counts_characters_without_spaces() -> None:
    assert f1("서울특별시", "서울 특별시") == 1 and not exact("서울특별시", "서울 특별시")
    assert f1("서울", "서울 특별시") == pytest.approx(2 * 1 * 0.4 / 1.4)
    assert f1("부산", "서울") == 0


def test_two_empty_texts_have_an_f1_of_0() -> None:
    """By the rule of the script, an exact match of two texts without characters has an F1 of 0."""
    assert (exact("", "()"), f1("", "()"), f1("가", ""), f1("", "가")) == (1, 0, 0, 0)


@given(words, words)
def test_f1_is_symmetric_and_bounded_and_1_for_the_same(one: str, other: str) -> None:
    assert f1(one, other) == pytest.approx(f1(other, one))
    assert 0 <= f1(one, other) <= 1
    assert f1(one, one) == float(bool(normalize(one)))


def test_the_best_reference_counts_and_missing_ones_score_0() -> None:
    assert score_korquad(GOLDS, {"one": "서울", "two": "해를 품은 달"}) == {"exact_match": 100, "f1": 100}
    with pytest.warns(LaminaWarning, match=r"1 missing prediction \(first id two\), scored 0"):
        assert score_korquad(GOLDS, {"one": "서울"}) == {"exact_match": 50, "f1": 50}


def test_only_score_composed_ignores_the_unicode_form() -> None:
    spelled = {question: unicodedata.normalize("NFD", texts[0]) for question, texts in GOLDS.items()}
    assert score_korquad(GOLDS, spelled)["exact_match"] == 0
    assert score_composed(GOLDS, spelled) == {"nfc_exact_match": 100, "nfc_f1": 100}
    golds = {question: [unicodedata.normalize("NFD", text) for text in texts] for question, texts in GOLDS.items()}
    assert score_composed(golds, {"one": "서울", "two": "해를 품은 달"})["nfc_exact_match"] == 100


def test_input_that_cannot_be_scored() -> None:
    with pytest.raises(LaminaError, match=r"1 unanswerable question \(first id no\), but KorQuAD 1.0 has none\. Fix: "):
        score_korquad({"no": []}, {"no": ""})
    with pytest.raises(LaminaError, match="not a text"):
        score_composed(GOLDS, {"one": 1})  # type: ignore[dict-item]
    with pytest.raises(LaminaError, match="no questions"):
        score_korquad({}, {})


# The command, and a run


def seoul(tmp_path: Path) -> Path:
    context = "서울은 한국의 수도이다."
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(to_squad([Example("q", "수도는?", context, (Answer("서울", 0),), "q", "a")])))
    return path


def test_the_command(tmp_path: Path) -> None:
    dev, predictions = seoul(tmp_path), tmp_path / "predictions.json"
    predictions.write_text(json.dumps({"q": unicodedata.normalize("NFD", "서울")}))
    command = ("score", "--data", dev, "--predictions", predictions, "--metric", "korquad", "--json")
    printed = lamina(*command)
    assert printed.code == 0, printed.err
    assert json.loads(printed.out) == {"exact_match": 0, "f1": 0}
    assert json.loads(lamina(*command, "--nfc").out) == {"nfc_exact_match": 100, "nfc_f1": 100}
    refused = lamina("score", "--data", dev, "--predictions", predictions, "--nfc")
    line = "lamina: --nfc: only --metric korquad compares texts in NFC. Fix: leave it out\n"
    assert refused.code == 2 and refused.err == line
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 200_000)
    refused = lamina("score", "--data", dev, "--predictions", deep)
    assert (
        refused.code == 2
        and refused.err == f"lamina: {deep}: the JSON is nested too deeply. Fix: name a file with fewer levels\n"
    )
    refused = lamina(*command, "--null-odds", predictions)
    assert refused.code == 2 and "KorQuAD 1.0 has no unanswerable questions" in refused.err
    refused = lamina(*command, "--missing", "null")
    assert refused.code == 2 and "only --metric squad2 needs all predictions" in refused.err


def test_a_run_has_korquad_scores_and_the_official_ones(tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text(json.dumps(to_squad(tiny.corpus(12))))
    (tmp_path / "dev.json").write_text(json.dumps(to_squad(tiny.corpus(4))))
    (tmp_path / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=tmp_path))
    out = tmp_path / "run"
    trained = lamina(
        "train", tmp_path / "small.toml", "--out", out, "--set", "train.scorer=korquad", "--set", "train.epochs=0.5"
    )
    assert trained.code == 0, trained.err
    assert "korquad" in trained.out
    has_answer = [example for example in tiny.corpus(4) if example.answers]
    scores = read_json(out / "scores.json")
    assert set(scores) == {"zero", "tuned", "best", "korquad", "korquad_always"}
    assert scores["korquad"] == korquad(has_answer, read_json(out / "predictions.json"))
    assert scores["korquad"]["total"] == 16
    spans = {name: next(one["text"] for one in best if one["text"]) for name, best in read_json(out / "nbest.json").items()}
    assert scores["korquad_always"] == korquad(has_answer, spans)
    evaluated = lamina("evaluate", out, "--data", tmp_path / "dev.json", "--json")
    assert json.loads(evaluated.out)["korquad"] == scores["korquad"]
