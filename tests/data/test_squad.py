from __future__ import annotations

import copy
import csv
import errno
import gzip
import io
import json
import lzma
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.data.examples import Answer, Example
from lamina.data.problems import Counts
from lamina.data.squad import check, clean, parse_corpus, read, to_squad
from lamina.data.table_formats import ENDINGS
from lamina.errors import LaminaError
from lamina.utils.files import read_text

CONTEXT = "The barn owl hunts mice. An owl sees at night."
V2 = {
    "version": "v2.0",
    "data": [
        {
            "title": "Owls",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {
                            "id": "a",
                            "question": "What hunts mice?",
                            "answers": [
                                {"text": "barn owl", "answer_start": 4},
                                {"text": "The barn owl", "answer_start": 0},
                            ],
                            "is_impossible": False,
                        },
                        {
                            "id": "b",
                            "question": "What hunts cats?",
                            "answers": [],
                            "plausible_answers": [{"text": "barn owl", "answer_start": 4}],
                            "is_impossible": True,
                        },
                    ],
                }
            ],
        }
    ],
}
EXAMPLES = [
    Example("a", "What hunts mice?", CONTEXT, (Answer("barn owl", 4), Answer("The barn owl", 0)), "a", "Owls"),
    Example("b", "What hunts cats?", CONTEXT, (), "b", "Owls"),
]


def packed(path: Path, data: bytes) -> Path:
    if path.suffix == ".gz":
        data = gzip.compress(data)
    path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)
    return path


def as_json(path: Path, value: object) -> Path:
    return packed(path, json.dumps(value, ensure_ascii=False).encode())


def as_jsonl(path: Path, *rows: object) -> Path:
    return packed(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())


def as_csv(path: Path, *rows: list[object], delimiter: str = ",") -> Path:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows(rows)
    return packed(path, text.getvalue().encode())


def complaint(path: Path) -> str:
    """Return the message of `read` without the name of the file, which must come first and on the same line."""
    with pytest.raises(LaminaError) as caught:
        read(path)
    text = str(caught.value)
    assert text.startswith((f"{path}: ", f"{path}, "))
    assert "\n" not in text
    return text[len(f"{path}: ") :]


def changed(**fields: Any) -> dict[str, Any]:
    """Return V2 with other fields in its first question; ... removes a field."""
    corpus = copy.deepcopy(V2)
    question = corpus["data"][0]["paragraphs"][0]["qas"][0]  # type: ignore[index]
    question.update(fields)
    for name in [name for name, value in fields.items() if value is ...]:
        del question[name]
    return corpus


# ---- reading


@pytest.mark.parametrize("packing", ["", ".gz", ".xz"])
def test_reads_squad2(tmp_path: Path, packing: str) -> None:
    assert read(as_json(tmp_path / f"x.json{packing}", V2)) == EXAMPLES


def test_reads_squad1_without_is_impossible(tmp_path: Path) -> None:
    corpus = changed(is_impossible=...)
    del corpus["data"][0]["paragraphs"][0]["qas"][1]
    assert read(as_json(tmp_path / "x.json", corpus)) == EXAMPLES[:1]


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    assert read(packed(tmp_path / "x.json.gz", b"\xef\xbb\xbf" + json.dumps(V2).encode())) == EXAMPLES


def test_parse_corpus_reads_an_object_in_memory() -> None:
    assert parse_corpus(V2, "here") == EXAMPLES
    with pytest.raises(LaminaError, match=r"here, data\[0\].paragraphs\[0\].qas\[0\] \(id a\): question is empty"):
        parse_corpus(changed(question=" "), "here")


def test_unanswerable_question_may_have_no_answers() -> None:
    assert parse_corpus(changed(answers=..., is_impossible=True), "here")[0].answers == ()


def test_answers_can_be_ignored_for_predictions() -> None:
    blind = changed(answers=[{"text": "", "answer_start": 0}])
    assert [example.answers for example in parse_corpus(blind, "here", answers="ignore")] == [(), ()]
    assert [example.answers for example in parse_corpus(changed(answers=...), "here", answers="ignore")] == [(), ()]


def test_whole_numbers_are_ids() -> None:
    assert parse_corpus(changed(id=7), "here")[0].id == "7"


def untitled(*paragraphs: tuple[str, str, str]) -> dict[str, Any]:
    return {
        "data": [
            {"paragraphs": [{"context": context, "qas": [{"id": name, "question": question, "answers": []}]}]}
            for name, question, context in paragraphs
        ]
    }


def test_articles_without_title_are_named_by_place_and_equal_texts_are_one() -> None:
    examples = parse_corpus(untitled(("a", "q", "One."), ("b", "q", "Two."), ("c", "q", "One.")), "here")
    assert [example.article for example in examples] == ["data[0]", "data[1]", "data[0]"]


def test_duplicate_ids_raise_or_are_renamed() -> None:
    corpus = untitled(*((name, f"q{i}", "One.") for i, name in enumerate(["0", "1", "0", "0~2", "0", "0"])))
    with pytest.raises(LaminaError, match=r"data\[2\].*\(id 0\): the id is not unique\. Fix: .*clean here.*rename"):
        parse_corpus(corpus, "here")
    examples = parse_corpus(corpus, "here", duplicate_ids="rename")
    assert [example.id for example in examples] == ["0", "1", "0~2", "0~2~2", "0~3", "0~4"]
    assert [example.group for example in examples] == [example.id for example in examples]


def test_equal_id_and_question_is_one_group_of_contexts() -> None:
    corpus = untitled(("0", "who", "One."), ("0", "what", "Two."), ("0", "who", "Three."), ("0", "what", "Four."))
    examples = parse_corpus(corpus, "here", duplicate_ids="rename")
    assert [(example.id, example.group) for example in examples] == [
        ("0", "0"), ("0~2", "0~2"), ("0~3", "0"), ("0~4", "0~2"),
    ]  # fmt: skip


# ---- tables


@pytest.mark.parametrize(
    "answer",
    [
        {"answer": "owl"},
        {"answers": "owl"},
        {"answers": ["owl"]},
        {"answers": [{"text": "owl"}]},
        {"answers": [{"text": "owl", "answer_start": 9}]},
        {"answers": [{"text": "owl", "start": 9}]},
        {"answers": {"text": ["owl"], "answer_start": [9]}},
        {"answers": {"text": "owl", "answer_start": 9}},
        {"answer": "owl", "answer_start": 9},
        {"answers": ["owl"], "answer_start": [9]},
    ],
)
def test_jsonl_takes_many_forms_of_answers(tmp_path: Path, answer: dict[str, Any]) -> None:
    path = as_jsonl(tmp_path / "x.jsonl", {"question": "Who?", "context": CONTEXT, **answer})
    assert read(path)[0].answers == (Answer("owl", 9),)


@pytest.mark.parametrize(
    "answer", [{"answer": ""}, {"answer": None}, {"answers": []}, {"answers": {"text": [], "answer_start": []}}]
)
def test_jsonl_without_an_answer_is_unanswerable(tmp_path: Path, answer: dict[str, Any]) -> None:
    assert read(as_jsonl(tmp_path / "x.jsonl", {"question": "Who?", "context": CONTEXT, **answer}))[0].answers == ()


def test_jsonl_fields(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"question": "q", "context": "One. \u2028 Two.", "answer": "Two", "id": "own", "title": "T"},
        {"question": "q", "context": "One.", "answer": ""},
        {"question": "q", "context": "One.", "answer": "", "article": "A", "id": 3},
        {"question": "q", "context": "One.", "answer": None, "id": ""},
    ]
    text = "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    examples = read(packed(tmp_path / "x.jsonl.xz", text.encode()))
    assert [example.id for example in examples] == ["own", "row-3", "3", "row-7"]
    assert [example.article for example in examples][::2] == ["T", "A"]
    assert examples[1].article == examples[3].article


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
@pytest.mark.parametrize("packing", ["", ".gz", ".xz"])
def test_reads_csv(tmp_path: Path, packing: str, delimiter: str) -> None:
    context = 'Two lines,\r\nwith "quotes"; and\ttabs.'
    path = as_csv(
        tmp_path / f"x.csv{packing}",
        ["ID", "Question", "Context ", "Answer", "answer_start", "Title"],
        ["a", "q", context, "lines", 4, "T"],
        [],
        ["", "q", context, "", "", ""],
        ["c", "q", context, "lines", "4.0", ""],
        ["d", "q", context, "t", "", ""],
        delimiter=delimiter,
    )
    examples = read(path)
    assert {example.context for example in examples} == {context}
    assert [example.id for example in examples] == ["a", "row-5", "c", "d"]
    lines, found = (Answer("lines", 4),), (Answer("t", context.index("t")),)
    assert [example.answers for example in examples] == [lines, (), lines, found]
    assert examples[0].article == "T"
    assert len({example.article for example in examples}) == 2


def test_csv_answers_may_be_json_and_cells_may_be_long(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    context = CONTEXT + " " * (limit + 1) + "."
    answers = json.dumps({"text": ["owl", "mice"], "answer_start": [9, 19]})
    header: list[object] = ["question", "context", "answers", "is_impossible"]
    examples = read(as_csv(tmp_path / "x.csv", header, ["q", context, answers, "False"], ["q", context, "", "TRUE"]))
    assert [example.answers for example in examples] == [(Answer("owl", 9), Answer("mice", 19)), ()]
    assert csv.field_size_limit() == limit


# ---- problems


AT = "data[0].paragraphs[0].qas[0] (id a): "


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"question": ...}, AT + "question is missing"),
        ({"question": ""}, AT + "question is empty"),
        ({"question": 5}, AT + "question is 5, not a text"),
        ({"question": "\ud83d?"}, AT + "question holds half a character"),
        ({"id": ...}, "data[0].paragraphs[0].qas[0]: id is missing"),
        ({"id": ["a"]}, "data[0].paragraphs[0].qas[0]: id is a list, not a text"),
        ({"id": "b"}, "data[0].paragraphs[0].qas[1] (id b): the id is not unique"),
        ({"answers": ...}, AT + "answers are missing"),
        ({"answers": 5}, AT + "answers are 5, not a list"),
        ({"answers": []}, AT + "is_impossible is false but there are no answers"),
        ({"is_impossible": True}, AT + "is_impossible is true but there are answers"),
        ({"is_impossible": "no"}, AT + "is_impossible is 'no', not true or false"),
        ({"answers": [{"answer_start": 4}]}, AT + "an answer has no text"),
        ({"answers": [{"text": 5, "answer_start": 4}]}, AT + "an answer's text is 5"),
        ({"answers": [{"text": "", "answer_start": 4}]}, AT + "an answer's text is empty"),
        ({"answers": [{"text": "owl"}]}, AT + "answer 'owl' has no answer_start; found at 9. Fix: run lamina data clean "),
        (
            {"answers": [{"text": "owl", "answer_start": "9"}]},
            AT + "answer 'owl' has an answer_start that is not a whole number ('9'); found at 9",
        ),
        (
            {"answers": [{"text": "owl", "answer_start": 25}]},
            AT + "answer 'owl' is not at answer_start 25; found at 28. Fix: run lamina data clean ",
        ),
        ({"answers": [{"text": "owl", "answer_start": -37}]}, AT + "answer 'owl' is not at answer_start -37; found"),
        (
            {"answers": [{"text": "Barn", "answer_start": 4}]},
            AT + "answer 'Barn' is not at answer_start 4; found 'barn' at 4",
        ),
        ({"answers": [{"text": "cat", "answer_start": 4}]}, AT + "answer 'cat' is not in the context. Fix: correct it, or run"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_one_clear_line(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    path = packed(tmp_path / "x.json", json.dumps(changed(**fields)).encode())
    assert complaint(path).startswith(message)


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ([], "holds no questions"),
        (5, 'not SQuAD JSON: found 5. Fix: write {"data": [articles…]}'),
        ({"rows": []}, 'not SQuAD JSON: found the keys rows. Fix: write {"data": [articles…]}'),
        ([5], "row 1: expected a JSON object, found 5"),
        ([{"title": "T", "paragraphs": [5]}], "data[0].paragraphs[0]: not a paragraph"),
        ({"data": {}}, "not SQuAD JSON"),
        ({"data": []}, "holds no questions"),
        ({"data": [{"paragraphs": []}]}, "holds no questions"),
        ({"data": [5]}, "data[0]: not an article"),
        ({"data": [{"title": "T"}]}, "data[0]: not an article"),
        ({"data": [{"paragraphs": [5]}]}, "data[0].paragraphs[0]: not a paragraph"),
        ({"data": [{"paragraphs": [{"context": "c"}]}]}, "data[0].paragraphs[0]: not a paragraph"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, "data[0].paragraphs[0]: context is missing"),
        ({"data": [{"paragraphs": [{"qas": [], "context": "\n"}]}]}, "data[0].paragraphs[0]: context is empty"),
        ({"data": [{"paragraphs": [{"qas": [5], "context": "c"}]}]}, "data[0].paragraphs[0].qas[0]: not a question"),
    ],
)
def test_a_wrong_structure_is_one_clear_line(tmp_path: Path, corpus: object, message: str) -> None:
    assert complaint(as_json(tmp_path / "x.json", corpus)).startswith(message)


WHOLE = json.dumps(V2).encode()
GZ = gzip.compress(WHOLE, mtime=0)  # without the time, so that test names are the same in all workers


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.json", b"", "is empty"),
        ("x.json", b" \n", "is empty"),
        ("x.json.gz", b"", "is empty"),
        ("x.json.xz", lzma.compress(b""), "is empty"),
        ("x.txt", WHOLE, "unknown ending. Fix: name it .json, .jsonl, .csv, .tsv or .parquet"),
        ("x.json", WHOLE[:200], "line 1 column "),
        ("x.json", WHOLE[:-1], "line 1 column 4"),
        ("x.json", b'{"data": [,]}', "line 1 column 11: not JSON: Expecting value"),
        ("x.json", b"[" * 200_000, "the JSON is nested too deeply"),
        ("x.json", b"question,context,answer\n", "not JSON: it starts with 'question,context,answer'. Fix: name a table"),
        ("x.json", b'{"a": 1}\n{"a": 2}\n', "line 2 column 1: the JSON ends, but more follows. Fix: name"),
        ("x.json", WHOLE.replace(b"owl", b"o\xfcl", 1), "byte 85: not UTF-8. Fix: save the file as UTF-8"),
        ("x.json", json.dumps(V2).encode("utf-16"), "byte 0: not UTF-8 (it looks like UTF-16)"),
        ("x.json", GZ, "is gz data. Fix: rename it to x.json.gz"),
        ("x.json", lzma.compress(WHOLE), "is xz data. Fix: rename it to x.json.xz"),
        ("x.json.gz", WHOLE, "not gz data, despite its name. Fix: rename it to x.json"),
        ("x.json.gz", lzma.compress(WHOLE), "not gz data, despite its name. Fix: rename it to x.json.xz"),
        ("x.json.xz", GZ, "not xz data, despite its name. Fix: rename it to x.json.gz"),
        ("x.json.gz", GZ[:-20], "the gz data ends in the middle (truncated)"),
        ("x.json.gz", GZ[:5], "the gz data ends in the middle (truncated)"),
        ("x.json.gz", GZ[:-8] + b"\0" * 8, "the gz data is damaged"),
        ("x.json.xz", lzma.compress(WHOLE)[:-20], "the xz data ends in the middle (truncated)"),
        ("x.json.xz", lzma.compress(WHOLE)[:60] + b"\0" * 60, "the xz data is damaged"),
        ("x.jsonl", b"question,context,answer\n", "not JSONL: it starts with 'question,context,answer'. Fix: write one"),
        ("x.jsonl", json.dumps(V2, indent=1).encode(), "not JSONL: its first line is only '{'. Fix: name a JSON document"),
        ("x.jsonl", WHOLE, "line 1: this is SQuAD JSON. Fix: name it .json"),
        ("x.jsonl", b'{"question": "q", "cont', "line 1: not JSON ("),
        ("x.jsonl", b'{"question": "q"}\n{"question": "q", "context": "c"}', "line 1: context is missing"),
        ("x.jsonl", b'{"question": "q", "context": "c"}', "line 1: answers are missing"),
        ("x.jsonl", b'{"question": "q", "context": "c", "answer": "x", "id": 5}', "line 1 (id 5): answer 'x' is not"),
        ("x.jsonl", b'{"question": "q", "context": "c", "answers": ["c", "c"], "answer_start": [0]}', "line 1: 2 a"),
        ("x.csv", WHOLE, "not CSV: it starts like JSON"),
        ("x.csv", b"question,answer\na,b\n", "the header needs the columns question, context, answer"),
        ("x.csv", b"question,context,answer\n", "holds no questions"),
        ("x.csv", b"question,context,answer\nq,c\n", "line 2: the header has 3 cells, but this row 2"),
        ("x.csv", b'question,context,answer\nq,"c\nd",c\nq,c,d\n', "line 4: answer 'd' is not in the context"),
        ("x.csv", b'question,context,answer\nq,c,c\nq,"c,\n', "line 3: not CSV: unexpected end of data"),
        ("x.csv", b"question,context,answer,answer_start\nq,c,c,x\n", "line 2: answer 'c' has an answer_start that is"),
        ("x.csv", b"question,context,answer\nq,,c\n", "line 2: context is empty"),
    ],
)  # fmt: skip
def test_an_unreadable_file_is_one_clear_line(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert complaint(path).startswith(message)


@pytest.mark.parametrize("cut", [5, 60, 130, 333, len(WHOLE) - 3])
def test_truncated_json_is_recognised(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(WHOLE[:cut])
    assert "the JSON ends in the middle (truncated)" in complaint(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    assert complaint(tmp_path / "x.json") == "no such file. Fix: check the path"
    assert complaint(tmp_path) == "is a folder. Fix: name a file in it"
    for action in (check, read_text):
        with pytest.raises(LaminaError, match="no such file"):
            action(tmp_path / "x.json")


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: Path, mode: str) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "x.json").touch()
    monkeypatch.setattr(Path, "open", closed)
    assert complaint(tmp_path / "x.json") == "cannot be read: Permission denied. Fix: check the path and its permissions"


@given(st.binary(max_size=200), st.sampled_from(ENDINGS))
def test_any_bytes_raise_only_lamina_errors(tmp_path_factory: pytest.TempPathFactory, data: bytes, ending: str) -> None:
    path = packed(tmp_path_factory.getbasetemp() / f"any{ending}", data)
    with pytest.raises(LaminaError):
        read(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | st.sampled_from(["", "owl", "An owl.", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "answer_start", "start"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["id", "question", "answers", "is_impossible", "group"]), json_values))
def test_any_question_is_read_or_raises_one_line(fields: dict[str, Any]) -> None:
    corpus = {"data": [{"paragraphs": [{"context": "An owl.", "qas": [fields]}]}]}
    try:
        examples = parse_corpus(corpus, "here")
    except LaminaError as error:
        assert "\n" not in str(error)
    else:
        assert parse_corpus(to_squad(examples), "here") == examples


# ---- checking


def test_check_counts_and_lists_every_problem(tmp_path: Path) -> None:
    corpus = changed(answers=[{"text": "owl", "answer_start": 3}, {"text": "cat", "answer_start": 0}])
    questions = corpus["data"][0]["paragraphs"][0]["qas"]
    questions += [{"id": "a", "question": "", "answers": []}, 5]
    report = check(as_json(tmp_path / "x.json", corpus))
    assert report.problems
    assert report.counts == Counts(articles=1, contexts=1, questions=3, unanswerable=1, answers=1, duplicate_ids=1)
    file = tmp_path / "x.json"
    at = f"{file}, data[0].paragraphs[0].qas"
    assert [str(problem) for problem in report.problems] == [
        f"{at}[0] (id a): answer 'owl' is not at answer_start 3; found at 9. Fix: run lamina data clean {file}",
        f"{at}[0] (id a): answer 'cat' is not in the context. Fix: correct it, or run lamina data clean {file} to drop it",
        f"{at}[2] (id a): question is empty. Fix: write it or remove the question",
        f'{at}[2] (id a): the id is not unique. Fix: run lamina data clean {file} or set duplicate_ids = "rename" '
        "(in a command: --duplicate-ids rename)",
        f"{at}[3]: not a question, but 5. Fix: write an object",
    ]


def test_check_of_a_good_file(tmp_path: Path) -> None:
    report = check(as_json(tmp_path / "x.json", V2))
    assert not report.problems
    assert report.counts == Counts(articles=1, contexts=1, questions=2, unanswerable=1, answers=2)


def test_check_counts_the_different_contexts_of_a_table(tmp_path: Path) -> None:
    rows = [{"question": "q", "context": context, "answer": "c", "title": "T"} for context in ("c", "cc", "c")]
    assert check(as_jsonl(tmp_path / "x.jsonl", *rows)).counts == Counts(1, 2, 3, 0, 3, 0)


# ---- cleaning


def spoiled() -> dict[str, Any]:
    corpus = changed(answers=[{"text": "BARN owl", "answer_start": 17}, {"text": "cat", "answer_start": 0}])
    corpus["data"][0]["paragraphs"][0]["qas"] += [
        {"id": "b", "question": "Who?", "answers": [{"text": "owl", "answer_start": 9}]},
        {"id": "c", "question": "Who?", "answers": [{"text": "cat", "answer_start": 9}]},
        {"id": "d", "question": "Who?", "answers": [{"text": "", "answer_start": 0}], "is_impossible": True},
        {"question": "Who?", "answers": []},
    ]
    return corpus


@pytest.mark.parametrize("packing", ["", ".gz", ".xz"])
def test_clean_repairs_renames_drops_and_reports(tmp_path: Path, packing: str) -> None:
    path, out = as_json(tmp_path / "x.json", spoiled()), tmp_path / f"out.json{packing}"
    before = path.read_bytes()
    report = clean(path, out)
    assert [(example.id, example.answers) for example in read(out)] == [
        ("a", (Answer("barn owl", 4),)),
        ("b", ()),
        ("b~2", (Answer("owl", 9),)),
        ("d", ()),
        ("data[0].paragraphs[0].qas[5]", ()),
    ]
    assert not check(out).problems
    assert (report.counts.questions, report.kept) == (6, 5)
    assert [problem.what for problem in report.dropped] == ["answer 'cat' is not in the context"]
    assert [problem.what for problem in report.repaired] == [
        "answer 'BARN owl' is not at answer_start 17; found 'barn owl' at 4",
        "answer 'cat' is not in the context",
        "the id is not unique",
        'is_impossible is true but there is an answer ""',
        "id is missing",
    ]
    assert path.read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == {path.name, out.name}


def test_clean_converts_tables_to_json(tmp_path: Path) -> None:
    path = as_jsonl(tmp_path / "x.jsonl", {"question": "Who?", "context": CONTEXT, "answer": "Owl", "id": "a"})
    clean(path, tmp_path / "out.json")
    assert read(tmp_path / "out.json")[0].answers == (Answer("owl", 9),)


def test_clean_twice_equals_clean_once(tmp_path: Path) -> None:
    first, second = tmp_path / "1.json.gz", tmp_path / "2.json.gz"
    clean(as_json(tmp_path / "x.json", spoiled()), first)
    report = clean(first, second)
    assert (report.repaired, report.dropped) == ([], [])
    assert first.read_bytes() == second.read_bytes()


def test_clean_never_overwrites_the_original(tmp_path: Path) -> None:
    path = as_json(tmp_path / "x.json", V2)
    (tmp_path / "soft.json").symlink_to(path)
    (tmp_path / "hard.json").hardlink_to(path)
    (tmp_path / "folder").mkdir()
    for out in (path, tmp_path / "soft.json", tmp_path / "hard.json", tmp_path / "folder" / ".." / "x.json"):
        with pytest.raises(LaminaError, match="is the original, which is never overwritten"):
            clean(path, out)
        with pytest.raises(LaminaError, match="is the original"):
            clean(out, path)
    assert read(path) == EXAMPLES


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("out.csv", "cleaned data is SQuAD JSON"),
        ("out.txt", "unknown ending"),
        ("nowhere/out.json", "cannot be written: there is no folder"),
        ("folder.json", "cannot be written: Is a directory"),
    ],
)
def test_clean_names_the_file_that_it_cannot_write(tmp_path: Path, out: str, message: str) -> None:
    (tmp_path / "folder.json").mkdir()
    path = as_json(tmp_path / "x.json", V2)
    with pytest.raises(LaminaError, match=message):
        clean(path, tmp_path / out)
    assert {file.name for file in tmp_path.iterdir()} == {"x.json", "folder.json"}


def test_clean_keeps_the_old_file_if_no_question_can_be_kept(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    out.write_text("before")
    with pytest.raises(LaminaError, match=r"no question can be kept, nothing written \(first problem: data\[0\]"):
        clean(as_json(tmp_path / "x.json", {"data": [5]}), out)
    assert out.read_text() == "before"


# ---- to SQuAD and back


def test_to_squad_gives_squad2() -> None:
    corpus = to_squad(EXAMPLES)
    wanted = copy.deepcopy(V2)
    del wanted["data"][0]["paragraphs"][0]["qas"][1]["plausible_answers"]  # type: ignore[index]
    assert corpus == wanted


texts = st.text(alphabet="abc é각", min_size=1, max_size=9).filter(str.strip)


@st.composite
def examples_by_article(draw: st.DrawFn) -> list[Example]:
    examples: list[Example] = []
    for article in draw(st.lists(texts, unique=True, max_size=3)):
        for context in draw(st.lists(texts, unique=True, min_size=1, max_size=2)):
            for _ in range(draw(st.integers(1, 3))):
                start = draw(st.integers(0, len(context) - 1))
                text = context[start : start + draw(st.integers(1, 4))]
                answers = (Answer(text, start),) if text.strip() and draw(st.booleans()) else ()
                name = f"q{len(examples)}"
                group = draw(st.sampled_from([name, "shared"]))
                examples.append(Example(name, draw(texts), context, answers, group, article))
    return examples


@given(examples_by_article().filter(bool))
def test_parse_corpus_is_the_inverse_of_to_squad(examples: list[Example]) -> None:
    assert parse_corpus(json.loads(json.dumps(to_squad(examples))), "here") == examples


# ---- real data


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("squad2-train-31k", Counts(2029, 4930, 31452, 9317, 22135)),
        ("squad2-dev-cs224n", Counts(16, 646, 6078, 3168, 10052)),
        ("squad11-dev-v1.1", Counts(48, 2067, 10570, 0, 34726)),
        ("korquad-v1.0-dev", Counts(140, 964, 5774, 0, 5774)),
        ("quac-train-full", Counts(1, 6843, 83568, 14459, 69109)),
    ],
)
def test_real_files_have_no_problems(shared: Path, name: str, counts: Counts) -> None:
    report = check(shared / f"data/{name}.json.xz")
    assert not report.problems
    assert report.counts == counts


@pytest.mark.parametrize(("name", "questions", "duplicates"), [("ko", 1625, 1531), ("en", 3696, 3607)])
def test_tydiqa_ids_are_made_unique(shared: Path, name: str, questions: int, duplicates: int) -> None:
    path = shared / f"data/tydiqa-goldp-{name}-train.json.xz"
    assert "the id is not unique" in complaint(path)
    report = check(path)
    assert report.counts.duplicate_ids == len(report.problems) == duplicates
    examples = read(path, duplicate_ids="rename")
    assert len({example.id for example in examples}) == len(examples) == questions
    assert [example.id for example in examples if example.id.split("~")[0] == "0"][:3] == ["0", "0~2", "0~3"]
    assert len({example.article for example in examples}) == len({example.context for example in examples})


def test_tydiqa_has_no_answers_in_its_korean_dev_set(shared: Path) -> None:
    path = shared / "data/tydiqa-goldp-ko-dev.json.xz"
    assert "an answer's text is empty" in complaint(path)
    assert len(check(path).problems) == len(read(path, answers="ignore")) == 276


def test_the_mixed_up_korquad_prerelease_has_problems(shared: Path, tmp_path: Path) -> None:
    path = shared / "data/korquad-v1.0-dev-prerelease-2018.json.xz"
    report = clean(path, tmp_path / "out.json")
    assert len(report.repaired) + len(report.dropped) == 3292
    assert report.kept == len(read(tmp_path / "out.json")) == 6127 - len(report.dropped)


def test_reading_is_fast(shared: Path) -> None:
    def seconds() -> float:
        start = time.process_time()
        read(shared / "data/squad2-train-31k.json.xz")
        return time.process_time() - start

    assert any(seconds() < 1 for _ in range(3))


def test_several_answers_with_one_start_are_refused(tmp_path: Path) -> None:
    """The start cannot be that of all answers, so it must not be ignored."""
    row = {"question": "Who?", "context": "Ada built it for Eve.", "answers": {"text": ["Ada", "Eve"], "answer_start": 0}}
    for start in (0, {"text": [0]}):
        row["answers"] = {"text": ["Ada", "Eve"], "answer_start": start}
        (tmp_path / "a.jsonl").write_text(json.dumps(row))
        with pytest.raises(LaminaError, match=r"2 answers but one answer_start\. Fix: give one start for each answer"):
            read(tmp_path / "a.jsonl")
    row["answers"] = {"text": ["Ada", "Eve"], "answer_start": [0, 17]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    assert [answer.start for answer in read(tmp_path / "a.jsonl")[0].answers] == [0, 17]
