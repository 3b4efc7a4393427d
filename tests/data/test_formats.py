"""Every format gives the same examples, under the usual names of columns."""

from __future__ import annotations

import builtins
import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lamina.data.examples import Answer, Sentence
from lamina.data.sentences import ColumnOptions, SentenceReading
from lamina.data.sources import load_examples, load_sentences
from lamina.data.squad import check, clean
from lamina.data.table_formats import TABLES, read_table
from lamina.errors import LaminaError
from lamina.utils.files import compress
from tests.command import lamina
from tests.data.owls import CONTEXT, EXAMPLES, ROWS

WRITABLE = [ending for ending, table in TABLES.items() if table.write]


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows in the format that the ending names."""
    ending = next(part for part in path.suffixes if part in TABLES)
    write = TABLES[ending].write
    assert write is not None
    path.write_bytes(compress(path, write(list(rows[0]), rows)))
    return path


def as_json(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def message_of(path: Path) -> str:
    with pytest.raises(LaminaError) as caught:
        load_examples(str(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("packing", ["", ".gz", ".xz"])
@pytest.mark.parametrize("ending", WRITABLE)
def test_a_table_of_questions_in_every_format(tmp_path: Path, ending: str, packing: str) -> None:
    path = written(tmp_path / f"own{ending}{packing}", ROWS)
    assert load_examples(str(path)) == EXAMPLES
    assert not check(path).problems
    assert clean(path, tmp_path / "clean.json").kept == 2


@pytest.mark.parametrize("ending", WRITABLE)
def test_a_table_of_sentences_in_every_format(tmp_path: Path, ending: str) -> None:
    path = written(tmp_path / f"own{ending}", [{"id": "x", "sentence": "An owl.", "label": 1}])
    assert load_sentences(str(path)) == [Sentence("x", "An owl.", None, "1")]
    assert lamina("data", "check", path).out == "1 sentences, labels 1 (1)\n"


def test_rows_of_the_hub_in_a_list_and_in_parquet(tmp_path: Path) -> None:
    answers: tuple[object, ...] = ({"text": ["owl"], "answer_start": [28]}, {"text": [], "answer_start": []})
    keys = ("id", "title", "question", "context")
    rows = [{**{key: row[key] for key in keys}, "answers": one} for row, one in zip(ROWS, answers, strict=True)]
    for ending in (".json", ".jsonl", ".parquet"):
        assert load_examples(str(written(tmp_path / f"own{ending}", rows))) == EXAMPLES


def test_a_parquet_file_names_its_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "own.parquet", [ROWS[0], ROWS[1] | {"answer": "cat"}])
    assert message_of(path).startswith(f"{path}, row 2 (id b): answer 'cat' is not in the context. Fix: ")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    assert message_of(tmp_path / "bad.parquet").startswith(f"{tmp_path / 'bad.parquet'}: not parquet (")


def test_parquet_without_pyarrow_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "own.parquet", ROWS)
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert message_of(path) == f"{path}: reading parquet needs pyarrow. Fix: pip install 'lamina-qa[parquet]'"


def test_floats_of_whole_numbers_are_starts(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pd.DataFrame(ROWS).to_parquet(tmp_path / "own.parquet")
    (_, first), _ = read_table(tmp_path / "own.parquet").rows
    assert isinstance(first, Mapping)
    assert isinstance(first["answer_start"], float)
    assert load_examples(str(tmp_path / "own.parquet")) == EXAMPLES


# Names of columns


@pytest.mark.parametrize(
    ("names", "note"),
    [
        ({}, None),
        ({"question": "Question", "context": "CONTEXT", "answer": "Answers"}, None),
        ({"question": "query", "context": "passage"}, "question from 'query', context from 'passage'"),
        ({"context": "paragraph", "answer": "answer_text"}, "context from 'paragraph', answers from 'answer_text'"),
        ({"context": "text", "answer": "label"}, "context from 'text', answers from 'label'"),
        ({"answer": "text", "answer_start": "start"}, "answers from 'text', answer_start from 'start'"),
        ({"answer": "Answer Text", "answer_start": "Answer-Start"}, "answers from 'Answer Text'"),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".json", ".parquet"])
def test_usual_names_of_columns(
    tmp_path: Path, ending: str, names: Mapping[str, str], note: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path / f"own{ending}", [{names.get(key, key): value for key, value in row.items()} for row in ROWS])
    with caplog.at_level(logging.WARNING, "lamina"):
        assert load_examples(str(path)) == load_examples(str(path)) == EXAMPLES
    assert [record.getMessage() for record in caplog.records] == ([] if note is None else [f"{path}: columns: {note}"])


def test_the_first_column_in_the_documented_order_is_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [{**row, "text": "An owl.", "query": "?"} for row in ROWS]
    with caplog.at_level(logging.WARNING, "lamina"):
        assert load_examples(str(written(tmp_path / "own.csv", rows))) == EXAMPLES
    assert [record.getMessage().partition(": columns: ")[2] for record in caplog.records] == [
        "question from 'question' (not 'query'), context from 'context' (not 'text'), answers from 'answer' (not 'text')"
    ]


@pytest.mark.parametrize(
    ("header", "note"),
    [
        ("question,Question,context,answer", "question from 'question' (not 'Question')"),
        ("question,question,context,answer", "question from the first 'question'"),
    ],
)
def test_the_first_of_two_columns_of_one_name_is_taken(
    tmp_path: Path, header: str, note: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "own.csv").write_text(f"{header}\nWho?,What?,An owl.,owl\n")
    with caplog.at_level(logging.WARNING, "lamina"):
        assert [e.question for e in load_examples(str(tmp_path / "own.csv"))] == ["Who?"]
    assert [record.getMessage() for record in caplog.records] == [f"{tmp_path / 'own.csv'}: columns: {note}"]


def test_the_first_of_two_columns_of_sentences_is_taken_and_copied_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "own.csv").write_text("text,text,Label,label\nfine,bad,1,0\n")
    with caplog.at_level(logging.WARNING, "lamina"):
        assert load_sentences(str(tmp_path / "own.csv")) == [Sentence("1", "fine", None, "1")]
    assert caplog.records[0].getMessage().endswith(": columns: text from the first 'text', label from 'Label' (not 'label')")
    lamina("data", "convert", tmp_path / "own.csv", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "text,Label,label\nfine,1,0\n"


def test_rows_may_spell_the_name_of_a_column_in_two_ways(tmp_path: Path) -> None:
    rest = {"context": "An owl.", "answer": "owl"}
    rows = [{"Question": "Who?", **rest}, {"question": "What?", **rest}, {"Question": "First", "question": "Second", **rest}]
    found = load_examples(str(as_json(tmp_path / "own.json", [*rows, {"question": "Second", "Question": "First", **rest}])))
    assert [e.question for e in found] == ["Who?", "What?", "First", "First"]


def test_the_command_prints_the_line_once_on_standard_error(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("review,sentiment\nfine,1\nbad,0\n")
    command = [sys.executable, "-m", "lamina", "data", "check", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "2 sentences, labels 1 (1), 0 (1)\n"
    assert result.stderr == f"{path}: columns: text from 'review', label from 'sentiment'\n"


def test_question_text_and_label_are_questions_or_sentences_as_the_reader_wants(tmp_path: Path) -> None:
    path = written(tmp_path / "own.csv", [{"question": "What hunts?", "text": CONTEXT, "label": "owl"}])
    assert load_examples(str(path))[0].answers == (Answer("owl", 9),)
    assert load_sentences(str(path))[0].first == CONTEXT
    written(path, [{"question": "What hunts?", "text": CONTEXT, "label": "cat"}])
    assert "answer 'cat' is not in the context" in message_of(path)
    sure = written(tmp_path / "sure.csv", [{"query": "What hunts?", "text": CONTEXT, "answer": "owl", "label": 1}])
    with pytest.raises(LaminaError, match="is a file of questions to contexts"):
        load_sentences(str(sure))
    named = SentenceReading(ColumnOptions(first="query"))
    assert load_sentences(str(sure), named) == [Sentence("1", "What hunts?", None, "1")]


def test_predictions_are_scored_on_parquet(tmp_path: Path) -> None:
    path = written(tmp_path / "own.parquet", ROWS)
    predictions = as_json(tmp_path / "predictions.json", {"a": "An owl", "b": ""})
    result = lamina("score", "--data", path, "--predictions", predictions, "--json")
    assert json.loads(result.out)["exact"] == 100.0


def test_a_table_without_answers_can_be_predicted_on(tmp_path: Path) -> None:
    path = written(tmp_path / "own.csv", [{"question": "What hunts?", "context": CONTEXT}])
    assert "line 2: answers are missing. Fix: " in message_of(path)
    assert load_examples(str(path), answers="ignore")[0].question == "What hunts?"


# Annotation tools

SPAN = {"start": 28, "end": 31, "text": "owl", "labels": ["Answer"]}


def task(number: int, question: str, *annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task as Label Studio exports it for its question answering template."""
    return {
        "id": number,
        "data": {"text": CONTEXT, "question": question, "title": "Owls"},
        "annotations": list(annotations),
        "predictions": [],
    }


def annotation(*values: Mapping[str, Any], cancelled: bool = False) -> dict[str, Any]:
    results = [{"value": dict(value), "from_name": "answer", "to_name": "text", "type": "labels"} for value in values]
    return {"id": 7, "result": results, "was_cancelled": cancelled, "ground_truth": False}


def test_label_studio(tmp_path: Path) -> None:
    tasks = [
        task(1, "What hunts?", annotation(SPAN), annotation(SPAN, SPAN | {"start": 4, "end": 12, "text": "barn owl"})),
        task(2, "What swims?", annotation(), annotation(SPAN, cancelled=True)),
    ]
    first, second = load_examples(str(as_json(tmp_path / "own.json", tasks)))
    assert (first.id, first.article, first.answers) == ("1", "Owls", (Answer("owl", 28), Answer("barn owl", 4)))
    assert (second.id, second.answers) == ("2", ())
    for one in tasks:
        one["data"]["Answer"] = "mice"
    given = load_examples(str(as_json(tmp_path / "given.json", tasks)))
    assert [e.answers for e in given] == [first.answers, (Answer("mice", 19),)], "spans replace answers in the data"
    for one in tasks:
        del one["data"]["Answer"]
    path = as_json(tmp_path / "open.json", [*tasks, task(3, "Who?")])
    assert message_of(path).startswith(f"{path}, row 3 (id 3): answers are missing. Fix: ")
    wrong = as_json(tmp_path / "wrong.json", [task(1, "Who?", annotation(SPAN | {"start": 3}))])
    assert "row 1 (id 1): answer 'owl' is not at answer_start 3; found at 9" in message_of(wrong)


def test_spans_of_label_studio_without_a_text_or_without_offsets(tmp_path: Path) -> None:
    bare = {"start": 28, "end": 31, "labels": ["Answer"]}
    html = {"start": "/p[1]/text()[1]", "end": "/p[1]/text()[1]", "text": "mice", "hypertextlabels": ["Answer"]}
    tasks = [task(1, "What hunts?", annotation(bare)), task(2, "What is hunted?", annotation(html))]
    found = load_examples(str(as_json(tmp_path / "own.json", tasks)))
    assert [e.answers for e in found] == [(Answer("owl", 28),), (Answer("mice", 19),)]
    lost = as_json(tmp_path / "lost.json", [task(1, "What?", annotation({"start": "/p[1]", "end": "/p[2]"}))])
    assert "row 1 (id 1): an answer has no text" in message_of(lost)


@pytest.mark.parametrize("name", ["answer", "label"])
def test_label_studio_in_its_small_form(tmp_path: Path, name: str) -> None:
    rest = {"annotator": 1, "annotation_id": 5, "created_at": "2026-01-01T00:00:00Z", "lead_time": 2.5}
    rows: list[dict[str, Any]] = [
        {"id": 1, "text": CONTEXT, "question": "What hunts?", name: [SPAN], **rest},
        {"id": 2, "text": CONTEXT, "question": "What swims?", **rest},
    ]
    assert [e.answers for e in load_examples(str(as_json(tmp_path / "own.json", rows)))] == [(Answer("owl", 28),), ()]
    cells = [{**row, name: json.dumps(row[name]) if name in row else ""} for row in rows]
    assert [e.answers for e in load_examples(str(written(tmp_path / "own.csv", cells)))] == [(Answer("owl", 28),), ()]


@pytest.mark.parametrize("name", ["answer", "label", "span"])
def test_annotators_of_one_task_in_the_small_form_all_count(tmp_path: Path, name: str) -> None:
    def row(number: int, annotator: int, *spans: Mapping[str, Any]) -> dict[str, Any]:
        cells = {"id": number, "text": CONTEXT, "question": "What hunts?", "annotator": annotator, "annotation_id": annotator}
        return {**cells, name: list(spans)} if spans else cells

    other = {"start": 4, "end": 12, "text": "barn owl", "labels": ["Answer"]}
    path = as_json(tmp_path / "own.json", [row(1, 1, SPAN), row(1, 2), row(1, 3, other, SPAN), row(2, 1)])
    found = load_examples(str(path))
    assert [(e.id, e.answers) for e in found] == [("1", (Answer("owl", 28), Answer("barn owl", 4))), ("2", ())]
    assert '"questions": 2' in lamina("data", "check", path, "--json").out


def test_classes_of_several_annotators_in_the_small_form(tmp_path: Path) -> None:
    rest = {"id": 1, "text": "fine", "annotation_id": 5}
    rows = [{**rest, "sentiment": label, "annotator": number} for number, label in enumerate(("good", "bad"))]
    assert load_sentences(str(as_json(tmp_path / "own.json", rows))) == [Sentence("1", "fine", None, "good")]


def test_classes_of_label_studio_are_labels_of_sentences(tmp_path: Path) -> None:
    tasks = [
        {"id": n, "data": {"text": text}, "annotations": [annotation({"choices": [choice]})]}
        for n, text, choice in ((1, "fine", "good"), (2, "awful", "bad"))
    ]
    expected = [Sentence("1", "fine", None, "good"), Sentence("2", "awful", None, "bad")]
    assert load_sentences(str(as_json(tmp_path / "own.json", tasks))) == expected


def test_haystack(tmp_path: Path) -> None:
    """Its annotation tool exports SQuAD JSON without titles and with keys of its own."""
    answer = {"answer_id": 5, "document_id": 3, "question_id": 4, "text": "owl", "answer_start": 28, "answer_category": None}
    questions = [
        {"question": "What hunts?", "id": 4, "answers": [answer], "is_impossible": False},
        {"question": "What swims?", "id": 6, "answers": [], "is_impossible": True},
    ]
    paragraph = {"qas": questions, "context": CONTEXT, "document_id": 3, "document_name": "owls.txt"}
    examples = load_examples(str(as_json(tmp_path / "own.json", {"data": [{"paragraphs": [paragraph]}]})))
    assert [(e.id, e.article, e.answers) for e in examples] == [("4", "data[0]", (Answer("owl", 28),)), ("6", "data[0]", ())]


# Several files


def test_a_pattern_reads_all_files_that_match_in_order(tmp_path: Path) -> None:
    for number, ending in enumerate([".csv", ".jsonl", ".json"]):
        rows = [{key: row[key] for key in row if key != "id"} for row in ROWS]
        written(tmp_path / f"part-{number}{ending}", rows)
    examples = load_examples(str(tmp_path / "part-*"))
    assert [e.id for e in examples] == ["row-2", "row-3", "row-4", "row-5", "row-6", "row-7"]
    assert [e.answers for e in examples] == [e.answers for e in EXAMPLES] * 3
    assert check(tmp_path / "part-?.*").counts.questions == 6
    written(tmp_path / "part-3.csv", [ROWS[0] | {"answer": "cat"}])
    assert message_of(tmp_path / "part-*").startswith(f"{tmp_path / 'part-3.csv'}, line 2 (id a): answer 'cat'")
    result = lamina("data", "clean", tmp_path / "part-*", "--out", tmp_path / "part-2.json")
    assert result.code == 2
    assert "is the original" in result.err


def test_sentences_of_several_files_have_running_numbers(tmp_path: Path) -> None:
    for name in "ab":
        written(tmp_path / f"{name}.csv", [{"sentence": f"{name} {n}", "label": n} for n in range(2)])
    found = load_sentences(str(tmp_path / "*.csv"))
    assert [(s.id, s.first) for s in found] == [("1", "a 0"), ("2", "a 1"), ("3", "b 0"), ("4", "b 1")]


def test_questions_with_several_contexts_of_several_files(tmp_path: Path) -> None:
    for n in range(2):
        question = {"qa": {"id": f"q{n}", "question": "Who?", "answer": "owl"}, "paragraphs": [{"contents": CONTEXT}]}
        (tmp_path / f"{n}.jsonl").write_text(json.dumps(question))
    assert [e.id for e in load_examples(str(tmp_path / "*.jsonl"))] == ["q0#0", "q1#0"]
