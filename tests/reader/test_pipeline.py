"""The replacement of the question-answering pipeline that transformers removed, against answers of the original."""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lamina
from lamina.answers.transformers_decoding import SummedAnswers, add_windows
from lamina.data.windows import Cutting, WindowOptions
from lamina.errors import LaminaWarning
from tests.golden import GOLDEN, TRAINED, cases, checkpoints
from tests.tiny import tokenizer

REFUSED = {"Exception", "PanicException", "ValueError"}  # the errors of the original if a window had no room


@cache
def golden() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress((GOLDEN / "pipeline.json.gz").read_bytes()))
    return found


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("checkpoints")
    return {name: checkpoints.write(name, folder / name) for name in checkpoints.names()} | {TRAINED.name: TRAINED}


@pytest.mark.filterwarnings("ignore::lamina.LaminaWarning")
@pytest.mark.parametrize("name", [*checkpoints.names(), TRAINED.name])
def test_answers_equal_those_of_the_old_pipeline(name: str, places: dict[str, Path]) -> None:
    answer = lamina.pipeline("question-answering", model=places[name], device="cpu")
    asked = [case for case in golden() if case["checkpoint"] == name]
    assert len(asked) == len(list(cases.cases(name))) > 80
    refused = 0
    for case in asked:
        call = {"question": cases.QUESTIONS[case["question"]], "context": cases.TEXTS[case["text"]], **case["options"]}
        if "error" in case:
            assert case["error"] in REFUSED
            with pytest.raises(ValueError, match=r"window|doc_stride"):
                answer(**call)
            refused += 1
        else:
            check(answer(**call), case["result"], f"{case['question']}, {case['text']}, {case['options']}")
    assert 2 <= refused <= 8


def check(ours: Any, theirs: Any, where: str) -> None:
    assert type(ours) is type(theirs), where
    ours, theirs = ([one] if isinstance(one, dict) else one for one in (ours, theirs))
    if not any(answer["score"] > 0 for answer in theirs):
        assert ours == theirs[:1], where
        return
    theirs = [answer for answer in theirs if answer["score"] > 0]  # see lamina.answers.transformers_decoding
    assert [answer["score"] for answer in ours] == pytest.approx([answer["score"] for answer in theirs], abs=1e-4), where
    for mine, other in zip(ours, theirs, strict=True):
        if mine != other | {"score": mine["score"]}:  # only answers with the same score may be exchanged
            rivals = [answer for answer in theirs if abs(answer["score"] - mine["score"]) < 2e-6]
            assert len(rivals) > 1 and any(mine == rival | {"score": mine["score"]} for rival in rivals), (where, mine, other)


@pytest.fixture(scope="module")
def answer() -> Any:
    return lamina.pipeline("question-answering", model=str(TRAINED), device=-1)


CONTEXT = cases.TEXTS["mill"]


def test_every_form_of_input(answer: Any) -> None:
    one = answer(question="Who?", context=CONTEXT)
    assert one.keys() == {"score", "start", "end", "answer"}
    assert CONTEXT[one["start"] : one["end"]] == one["answer"]
    two = answer(question="When?", context=CONTEXT)
    pair = {"question": "Who?", "context": CONTEXT}
    assert answer("Who?", CONTEXT) == answer(pair) == answer([pair]) == answer(data=pair) == answer(X=[pair]) == one
    assert answer(question=["Who?", "When?"], context=CONTEXT) == [one, two]
    assert answer(question=["Who?", "When?"], context=[CONTEXT, CONTEXT]) == [one, two]
    assert answer([pair, pair | {"question": "When?"}]) == answer(pair, pair | {"question": "When?"}) == [one, two]
    generated = answer(pair | {"question": q} for q in ("Who?", "When?"))
    assert next(generated) == one and list(generated) == [two]

    class SquadExample:
        question_text, context_text = "Who?", CONTEXT

    assert answer(SquadExample()) == answer([SquadExample()]) == one
    assert answer(question="Who?", context=CONTEXT, batch_size=8, padding="longest", max_question_len=3) == one

    class Rows:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, number: int) -> dict[str, str]:
            return pair | {"question": ("Who?", "When?")[number]}

    assert list(answer(Rows())) == [one, two]


def test_generator_is_read_only_as_far_as_answered(answer: Any) -> None:
    drawn = []

    def questions() -> Iterator[dict[str, str]]:
        for number in range(10):
            drawn.append(number)
            yield {"question": f"Who is {number}?", "context": CONTEXT}

    answers = answer(questions())
    next(answers)
    assert drawn == [0]
    answers = answer(questions(), batch_size=4)
    next(answers)
    assert drawn == [0, 0, 1, 2, 3]


def test_text_without_words_has_an_empty_answer(answer: Any) -> None:
    assert answer(question="Who?", context=" \n ") == {"score": 0.0, "start": 0, "end": 0, "answer": ""}


def test_arguments_of_code_for_the_old_pipeline(places: dict[str, Path]) -> None:
    name = str(places["bert-cased"])
    answer = lamina.pipeline(
        "question-answering", model=name, tokenizer=name, framework="pt", torch_dtype="float32", device=torch.device("cpu")
    )
    other = lamina.pipeline("question-answering", model=name, tokenizer=str(places["bert-cased"] / "tokenizer.json"), device=-1)
    assert answer.reader.tokenizer.fingerprint == other.reader.tokenizer.fingerprint
    with pytest.raises(TypeError, match="model must be a folder or a hub id, not object"):
        lamina.pipeline("question-answering", model=object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="torch only"):
        lamina.pipeline("question-answering", model=name, framework="tf")
    with pytest.raises(ValueError, match="float32"):
        lamina.pipeline("question-answering", model=name, torch_dtype=torch.float16)
    with pytest.raises(ValueError, match=r"lamina\.load"):
        lamina.pipeline("question-answering", model=answer.reader, device="cpu")


def test_old_model_names_without_an_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def load(name: str, **_: object) -> lamina.Reader:
        asked.append(name)
        return lamina.load(TRAINED, device="cpu")

    monkeypatch.setattr("lamina.reader.pipeline.load", load)
    lamina.pipeline(model="distilbert-base-cased-distilled-squad")
    lamina.pipeline()
    assert asked == ["distilbert/distilbert-base-cased-distilled-squad"] * 2


def test_batches_do_not_change_answers(answer: Any) -> None:
    asked = [{"question": f"Who is number {n}?", "context": CONTEXT[: 40 + 9 * n]} for n in range(17)]
    together = answer(asked, top_k=3)
    for item, found in zip(asked, together, strict=True):
        alone = answer(item, top_k=3)
        assert [a["answer"] for a in alone] == [a["answer"] for a in found]
        assert [a["score"] for a in alone] == pytest.approx([a["score"] for a in found], abs=1e-5)


def test_options_of_the_pipeline_are_defaults_of_its_calls(answer: Any) -> None:
    wide = lamina.pipeline("question-answering", model=answer.reader, top_k=3, handle_impossible_answer=True)
    assert wide(question="Who?", context=CONTEXT) == answer(
        question="Who?", context=CONTEXT, top_k=3, handle_impossible_answer=True
    )
    assert isinstance(wide(question="Who?", context=CONTEXT, top_k=1), dict)
    with pytest.warns(UserWarning, match="top_k"):
        assert len(answer(question="Who?", context=CONTEXT, topk=2)) == 2


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ({"question": "", "context": "x"}, ValueError, "`question` cannot be empty"),
        ({"question": "x", "context": ""}, ValueError, "`context` cannot be empty"),
        ({"question": None, "context": "x"}, ValueError, "understood"),
        ({"data": {"question": None, "context": "x"}}, ValueError, "`question` cannot be None"),
        ({"data": {"question": 3, "context": "x"}}, ValueError, "`question` must be a text"),
        ({"data": {"question": "x"}}, KeyError, "dictionary with keys"),
        ({"data": ["Who?"]}, ValueError, "needs to be a dict"),
        ({"data": "Who?"}, ValueError, "needs to be a dict"),
        ({"question": ["a", "b"], "context": ["c"]}, ValueError, "same lengths"),
        ({"question": "a", "context": ["c"]}, ValueError, "understood"),
        ({"question": "a"}, ValueError, "Unknown arguments"),
        ({"question": "a", "context": "b", "top_k": 0}, ValueError, "top_k parameter should be >= 1"),
        ({"question": "a", "context": "b", "max_answer_len": 0}, ValueError, "max_answer_len parameter"),
        ({"question": "a", "context": "b", "max_seq_len": 10, "doc_stride": 11}, ValueError, "doc_stride"),
        ({"question": "a", "context": "b", "max_seq_len": 4000}, ValueError, "larger than the 512"),
        ({"question": "a", "context": "b", "topK": 2}, TypeError, "no option 'topK'"),
    ],
)
def test_mistakes_raise(answer: Any, call: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        answer(**call)


def test_other_tasks_raise() -> None:
    with pytest.raises(ValueError, match="question-answering"):
        lamina.pipeline("sentiment-analysis", model="x")


def test_decoder_equals_its_definition() -> None:
    """Compare with a simple version: all products, the best few of each window, whole words, equal texts summed."""
    random = np.random.default_rng(0)
    texts = ["the miller of the old miller sold unbelievable honeycombs to Unbelievable bakers " * 3, "one word", "x"]
    cutting = Cutting(["who?"] * 3, texts, tokenizer(), WindowOptions(length=24, overlap=6, query=None), words=True)
    for top_k, longest, words in [(1, 15, True), (3, 4, True), (5, 15, False), (1, 1, False)]:
        windows = cutting.windows()
        start, end = (random.normal(0, 3, len(windows.ids)).astype(np.float32) for _ in range(2))
        found = [SummedAnswers(text) for text in texts]
        add_windows(found, windows, start, end, top_k=top_k, max_tokens=longest, words=words)
        for number, text in enumerate(texts):
            expected, null = naive(windows, start, end, number, text, 2 * top_k + 10 if words else top_k, longest, words)
            got = {answer["answer"].lower(): answer["score"] for answer in found[number].by_text.values()}
            assert got == pytest.approx(expected, abs=1e-6)
            assert found[number].null == pytest.approx(null, abs=1e-6)


def naive(windows: Any, start: Any, end: Any, example: int, text: str, pool: int, longest: int, words: bool) -> Any:
    scores: dict[str, float] = {}
    null = 1e6
    for window in np.flatnonzero(windows.example == example):
        own = np.arange(windows.starts[window], windows.starts[window + 1])
        allowed = [t for t in own if windows.context[t] or t == own[0]]
        p = {t: float(np.exp(start[t]) / np.exp(start[allowed]).sum()) for t in allowed}
        q = {t: float(np.exp(end[t]) / np.exp(end[allowed]).sum()) for t in allowed}
        null = min(null, p[own[0]] * q[own[0]])
        spans = [(p[s] * q[e], s, e) for s in allowed[1:] for e in allowed[1:] if s <= e < s + longest]
        for score, s, e in sorted(spans, reverse=True)[:pool]:
            if words:
                s = min(t for t in allowed[1:] if windows.words[t] == windows.words[s])
                e = max(t for t in allowed[1:] if windows.words[t] == windows.words[e])
            quoted = text[windows.offsets[s, 0] : windows.offsets[e, 1]].lower()
            scores[quoted] = scores.get(quoted, 0.0) + score
    return scores, null


def test_foreign_script_warns(answer: Any) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        answer(question="Who?", context="ሰላም ለዓለም ሁሉ ይሁን")
    assert [warning.category for warning in seen] == [LaminaWarning]
