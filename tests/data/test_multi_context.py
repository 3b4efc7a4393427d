"""Questions with several paragraphs: reading, checking, and finding answers in any Unicode form."""

from __future__ import annotations

import gzip
import json
import unicodedata
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lamina.data import multi_context
from lamina.data.examples import Answer, Example
from lamina.data.multi_context import _composed, find_first
from lamina.data.sources import load_examples
from lamina.errors import LaminaError, LaminaWarning
from tests.command import lamina

Form = Literal["NFC", "NFD"]

OWLS: dict[str, Any] = {
    "qa": {"id": "owl", "question": "What hunts mice?", "answer": "barn owl"},
    "paragraphs": [
        {"title": "Mice", "contents": "Mice eat corn."},
        {"title": "Owls", "contents": "At night the barn owl, a barn owl of the barn, hunts mice."},
        {"title": "Barns", "contents": "A barn owl lives here."},
    ],
}
MOON: dict[str, Any] = {
    "qa": {"question": "Who owns the moon?", "answers": []},
    "paragraphs": [{"title": "Moon", "contents": "The moon is far."}, {"contents": "Nobody was there."}],
}
EXAMPLES = [
    Example("owl#0", "What hunts mice?", "Mice eat corn.", (), "owl", "Owls"),
    Example("owl#1", "What hunts mice?", OWLS["paragraphs"][1]["contents"], (Answer("barn owl", 13),), "owl", "Owls"),
    Example("owl#2", "What hunts mice?", "A barn owl lives here.", (Answer("barn owl", 2),), "owl", "Owls"),
    Example("q2#0", "Who owns the moon?", "The moon is far.", (), "q2", "Moon"),
    Example("q2#1", "Who owns the moon?", "Nobody was there.", (), "q2", "Moon"),
]


def written(path: Path, questions: list[Any]) -> Path:
    text = "\n".join(json.dumps(question, ensure_ascii=False) for question in questions)
    if ".jsonl" not in path.name:
        text = json.dumps({"data": questions} if "data" in path.name else questions, ensure_ascii=False)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "data.json", "a.jsonl.gz", "data.json.gz"])
def test_every_format_gives_the_same_examples(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, [OWLS, MOON])
    assert multi_context.holds_contexts(path)
    assert multi_context.read_multi_context(path) == EXAMPLES
    assert load_examples(str(path)) == EXAMPLES, "the name leads to the right reader"


def test_written_questions_are_read_again(tmp_path: Path) -> None:
    for name in ("b.json", "b.jsonl", "b.jsonl.xz"):
        multi_context.write_questions(tmp_path / name, [OWLS, MOON])
        assert load_examples(str(tmp_path / name)) == EXAMPLES
    with pytest.raises(LaminaError, match=r"b\.csv: .*\.jsonl or \.json"):
        multi_context.write_questions(tmp_path / "b.csv", [OWLS])


def test_answers_of_a_paragraph_are_its_own(tmp_path: Path) -> None:
    second = OWLS["paragraphs"][1] | {"answers": [{"text": "barn owl", "answer_start": 25}]}
    third = OWLS["paragraphs"][2] | {"answers": []}
    path = written(tmp_path / "a.jsonl", [OWLS | {"paragraphs": [second, third]}])
    assert [example.answers for example in multi_context.read_multi_context(path)] == [(Answer("barn owl", 25),), ()]


def test_question_has_one_article(tmp_path: Path) -> None:
    named = {"qa": OWLS["qa"] | {"article": "Birds"}, "paragraphs": OWLS["paragraphs"]}
    silent = {"qa": {"question": "Who?", "answer": ""}, "paragraphs": OWLS["paragraphs"]}
    untitled = {"qa": MOON["qa"], "paragraphs": [{"contents": "Far."}, {"contents": "Far."}]}
    examples = multi_context.read_multi_context(written(tmp_path / "a.json", [named, silent, untitled]))
    assert [example.article for example in examples[:6]] == ["Birds"] * 3 + ["Mice"] * 3
    assert len({example.article for example in examples[6:]}) == 1 and examples[6].article.startswith("context-")


def test_several_answers_and_ignored_answers(tmp_path: Path) -> None:
    both = {"qa": OWLS["qa"] | {"answers": ["owl", "barn owl", "owl"]}, "paragraphs": OWLS["paragraphs"][2:]}
    path = written(tmp_path / "a.jsonl", [both])
    assert multi_context.read_multi_context(path)[0].answers == (Answer("owl", 7), Answer("barn owl", 2))
    withheld = {"qa": {"question": "Who?"}, "paragraphs": OWLS["paragraphs"]}
    path = written(tmp_path / "b.jsonl", [withheld])
    assert [example.answers for example in multi_context.read_multi_context(path, answers="ignore")] == [()] * 3


def test_null_answers_and_answers_with_spaces_around(tmp_path: Path) -> None:
    qa = {"question": "What lives here?", "answers": None, "answer": " barn owl "}
    path = written(tmp_path / "a.jsonl", [{"qa": qa, "paragraphs": OWLS["paragraphs"][2:]}])
    assert multi_context.read_multi_context(path)[0].answers == (Answer("barn owl", 2),)
    table = tmp_path / "table.jsonl"
    table.write_text(json.dumps(qa | {"answer": "barn owl", "context": "A barn owl lives here."}))
    assert load_examples(str(table))[0].answers == (Answer("barn owl", 2),)


def test_answers_in_no_paragraph_are_warned_about(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl", [OWLS, MOON, {"qa": {"question": "Who?", "answer": "cat"}, "paragraphs": OWLS["paragraphs"]}]
    )
    with pytest.warns(LaminaWarning, match=r"a\.jsonl: 1 of 3 questions have an answer that is in none of their paragraphs"):
        assert multi_context.read_multi_context(path)[:5] == EXAMPLES
    with pytest.warns(LaminaWarning, match="1 of 3 questions have an answer"):
        assert not multi_context.check_multi_context(path).problems
    table = tmp_path / "table.jsonl"
    table.write_text(json.dumps({"qa": 1, "question": "Who?", "context": "An owl.", "answer": "owl"}))
    assert not multi_context.holds_contexts(table), "a column of that name"


def test_duplicate_ids(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [OWLS, OWLS])
    with pytest.raises(LaminaError, match=r"a\.jsonl, line 2\.qa: the id 'owl' is not unique\. Fix: .*duplicate_ids"):
        load_examples(str(path))
    examples = load_examples(str(path), duplicate_ids="rename")
    assert [e.group for e in examples] == ["owl"] * 3 + ["owl~2"] * 3 and len({e.id for e in examples}) == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"qa": None}, 'line 2: not a question with paragraphs. Fix: write {"qa"'),
        ({"qa": {}}, "line 2.qa: question is missing"),
        ({"qa": {"question": " ", "answer": "x"}}, "line 2.qa: question is empty"),
        ({"qa": {"question": "Who?"}}, "line 2.qa: answers are missing"),
        ({"qa": {"question": "Who?", "answers": [""]}}, "line 2.qa: an answer is empty"),
        ({"qa": {"question": "Who?", "answers": [5]}}, "line 2.qa: an answer is 5, not a text"),
        ({"qa": {"question": "Who?", "answer": 5}}, "line 2.qa: answers are 5, not a list"),
        ({"qa": {"question": "Who?", "answer": "x", "id": [1]}}, "line 2.qa: id is a list"),
        ({"qa": {"question": "Who?", "answer": "x", "id": "\ud800"}}, "line 2.qa: id holds half a character"),
        ({"paragraphs": None}, "line 2: paragraphs are missing"),
        ({"paragraphs": []}, "line 2: there are no paragraphs"),
        ({"paragraphs": "text"}, "line 2: paragraphs are 'text'"),
        ({"paragraphs": ["text"]}, "line 2.paragraphs[0]: not a paragraph"),
        ({"paragraphs": [{"title": "x"}]}, "line 2.paragraphs[0]: contents is missing"),
        ({"paragraphs": [{"contents": ""}]}, "line 2.paragraphs[0]: contents is empty"),
        ({"paragraphs": [{"contents": "a \ud800"}]}, "line 2.paragraphs[0]: contents holds half a character"),
        (
            {"paragraphs": [{"contents": "an owl", "answers": [{"text": "owl", "answer_start": 2}]}]},
            "line 2.paragraphs[0]: answer 'owl' is not at answer_start 2. Fix: correct it",
        ),
        ({"paragraphs": [{"contents": "a cat", "answers": ["owl"]}]}, "answer 'owl' is not in the contents. Fix: correct it"),
    ],
)
def test_mistakes_raise_one_line(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    broken = {"qa": {"question": "Who?", "answer": "x"}, "paragraphs": [{"contents": "x"}]} | change
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(MOON) + "\n" + json.dumps(broken) + "\n")
    with pytest.raises(LaminaError) as caught:
        load_examples(str(path))
    assert str(caught.value).startswith(f"{path}, ") and message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", json.dumps(MOON) + '\n{"qa": ', "line 2: not JSON"),
        ("a.json", json.dumps([MOON])[:-9], "truncated"),
        ("a.json", "[]", "holds no questions"),
        ("a.json", json.dumps({"qa": {}, "paragraphs": []}), "not SQuAD JSON"),
        ("a.json", json.dumps([{"qa": {}}]), r"\[0\]: paragraphs are missing\. Fix: give at least one"),
    ],
)
def test_files_without_questions(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(LaminaError, match=message):
        load_examples(str(tmp_path / name))


def test_check_lists_every_problem(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [OWLS, {"qa": {}, "paragraphs": []}, MOON, OWLS])
    result = lamina("data", "check", path, "--json")
    report = json.loads(result.out)
    assert result.code == 2
    assert [line.split(": ")[0].split(", ")[1] for line in report["problems"]] == [
        "line 2",
        "line 2.qa",
        "line 2.qa",
        "line 4.qa",
    ]
    assert report["counts"] == {
        "articles": 2,
        "contexts": 5,
        "questions": 4,
        "unanswerable": 1,
        "answers": 2,
        "duplicate_ids": 1,
    }
    good = lamina("data", "check", written(tmp_path / "b.json", [OWLS, MOON]))
    assert good.code == 0 and "on 5 contexts" in good.out


# ---- Unicode

LETTERS = st.sampled_from("가각갂힣한글서울aeéüếx .")
SPELLED = st.lists(st.tuples(LETTERS, st.sampled_from(["NFC", "NFD"])), max_size=24)


def spell(letters: list[tuple[str, Form]]) -> str:
    return "".join(unicodedata.normalize(form, letter) for letter, form in letters)


@given(SPELLED, SPELLED.filter(bool))
@example([("각", "NFD"), ("가", "NFD")], [("가", "NFD")])
@example([("é", "NFD"), ("e", "NFC")], [("e", "NFC")])
def test_the_first_occurrence_in_any_unicode_form(context: list[tuple[str, Form]], wanted: list[tuple[str, Form]]) -> None:
    """Compare letter by letter: the Unicode form of neither text changes the result."""
    letters, sought = "".join(letter for letter, _ in context), "".join(letter for letter, _ in wanted)
    at = letters.find(sought)
    found = find_first(spell(context), spell(wanted))
    if at < 0:
        assert found is None
    else:
        assert found == Answer(spell(context[at : at + len(sought)]), len(spell(context[:at])))


@given(SPELLED.filter(bool), st.data())
def test_a_quote_of_a_text_is_found_in_it(context: list[tuple[str, Form]], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(context) - 1))
    last = data.draw(st.integers(first + 1, len(context)))
    text = spell(context)
    found = find_first(text, spell(context[first:last]))
    assert found is not None and found.start <= len(spell(context[:first]))
    assert text[found.start : found.start + len(found.text)] == found.text


def test_every_character_that_decomposes_keeps_its_place() -> None:
    characters = [chr(code) for code in range(0x110000) if unicodedata.decomposition(chr(code)) or 0xAC00 <= code < 0xD7A4]
    assert len(characters) > 13_000
    for character in characters:
        apart = unicodedata.normalize("NFD", character)
        composed, places = _composed.__wrapped__(f"<{apart}>")
        assert composed == unicodedata.normalize("NFC", f"<{character}>")
        if not unicodedata.category(character).startswith("M"):  # a mark is part of the letter before it
            assert places[:2] == [0, 1] and places[-2:] == [1 + len(apart), 2 + len(apart)]


def test_an_answer_cannot_start_inside_a_changed_grapheme() -> None:
    """The grapheme composes to two characters, and the second has no place in the original."""
    context = "a\u0301\u0323 and a\u0301"
    composed = unicodedata.normalize("NFC", context)
    assert composed.startswith("ạ\u0301")
    assert find_first(context, "\u0301") is None
    assert find_first(context, "ạ\u0301") == Answer("a\u0301\u0323", 0)
    assert find_first(context, "á") == Answer("a\u0301", 8)


def test_decomposed_file_has_the_same_labels(tmp_path: Path) -> None:
    question = {
        "qa": {"id": "k", "question": "누가 지었나?", "answer": "세종대왕"},
        "paragraphs": [
            {"title": "한글", "contents": "한글은 세종대왕이 만들었다."},
            {"title": "서울", "contents": "서울은 크다."},
        ],
    }
    apart = json.loads(unicodedata.normalize("NFD", json.dumps(question, ensure_ascii=False)))
    mixed = question | {"paragraphs": apart["paragraphs"]}
    for number, one in enumerate((question, apart, mixed)):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps([one], ensure_ascii=False), encoding="utf-8")
        first, second = load_examples(str(path))
        (answer,) = first.answers
        assert unicodedata.normalize("NFC", answer.text) == "세종대왕" and second.answers == ()
        assert first.context[answer.start :].startswith(answer.text)
        assert unicodedata.normalize("NFC", first.context[: answer.start]) == "한글은 "
