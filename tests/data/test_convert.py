"""Conversions keep ids, questions, contexts and answers with their starts, and say what they do not copy."""

from __future__ import annotations

import datetime
import json
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lamina.data.convert import Conversion, convert
from lamina.data.examples import Answer, Example, Sentence
from lamina.data.multi_context import write_questions
from lamina.data.sources import load_examples, load_sentences
from lamina.data.squad import squad_bytes
from lamina.data.table_formats import TABLES, read_table
from lamina.errors import LaminaError
from tests.command import lamina

ENDINGS = [ending for ending, table in TABLES.items() if table.write]
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0") | st.sampled_from('"\n\r\t,;[{\u2028é'), min_size=1, max_size=16
).filter(str.strip)


@st.composite
def examples_of_files(draw: st.DrawFn) -> list[Example]:
    """Draw examples with unique ids, several answers, and contexts that questions share."""
    examples: list[Example] = []
    contexts = draw(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3))
    for name in draw(st.lists(TEXTS.map(str.strip), min_size=1, max_size=5, unique=True)):
        title, context = draw(st.sampled_from(contexts))
        answers = []
        for _ in range(draw(st.integers(0, 2))):
            start = draw(st.integers(0, len(context) - 1))
            text = context[start : start + draw(st.integers(1, 6))]
            answers += [Answer(text, start)] if text.strip() else []
        group = draw(st.sampled_from([name, "shared"]))
        examples.append(Example(name, draw(TEXTS), context, tuple(answers), group, title))
    return examples


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(examples_of_files(), st.sampled_from(ENDINGS), st.sampled_from(ENDINGS), st.sampled_from(["", ".gz", ".xz"]))
def test_questions_survive_every_round_trip(
    tmp_path: Path, examples: list[Example], there: str, back: str, packing: str
) -> None:
    start, middle, end = tmp_path / "start.json", tmp_path / f"middle{there}{packing}", tmp_path / f"end{back}"
    start.write_bytes(squad_bytes(examples))
    for source, out in ((start, middle), (middle, end)):
        assert convert(str(source), out) == Conversion("questions", len(examples))
    found = {example.id: example for example in load_examples(str(end))}
    assert found == {example.id: example for example in examples}


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12).filter(str.strip)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=5), st.sampled_from(ENDINGS), st.sampled_from(ENDINGS))
def test_tables_of_sentences_survive_every_round_trip(
    tmp_path: Path, cells: list[tuple[str, str, str]], there: str, back: str
) -> None:
    rows = [{"sentence": text, "label": f"c {label}", "note": note} for text, label, note in cells]
    start, middle, end = tmp_path / "start.jsonl", tmp_path / f"middle{there}", tmp_path / f"end{back}"
    start.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for source, out in ((start, middle), (middle, end)):
        assert convert(str(source), out) == Conversion("sentences", len(rows))
    assert [row for _, row in read_table(end).rows] == rows


@pytest.mark.parametrize("ending", ENDINGS)
def test_questions_with_several_contexts_keep_their_groups(tmp_path: Path, ending: str) -> None:
    path, out = tmp_path / "own.jsonl", tmp_path / f"out{ending}"
    paragraphs = [{"title": "A", "contents": "An owl."}, {"title": "B", "contents": "A cat."}]
    write_questions(path, [{"qa": {"id": "q", "question": "Who?", "answer": "owl"}, "paragraphs": paragraphs}])
    convert(str(path), out)
    assert load_examples(str(out)) == load_examples(str(path))
    assert {example.group for example in load_examples(str(out))} == {"q"}


def test_csv_is_plain_where_no_question_has_several_answers(tmp_path: Path) -> None:
    one = Example("a", "Who?", "[1] owls", (Answer("[1]", 0),), "a", "Owls")
    none = Example("b", "Who?", "[1] owls", (), "b", "Owls")
    two = Example("c", "Who?", "[1] owls", (Answer("[1]", 0), Answer("owls", 4)), "c", "Owls")
    for examples, text in (
        ([one, none], "id,title,context,question,answer,answer_start\na,Owls,[1] owls,Who?,[1],0\nb,Owls,[1] owls,Who?,,\n"),
        (
            [two],
            'id,title,context,question,answers,answer_start\nc,Owls,[1] owls,Who?,"[""[1]"", ""owls""]","[0, 4]"\n',
        ),
    ):
        (tmp_path / "in.json").write_bytes(squad_bytes(examples))
        convert(str(tmp_path / "in.json"), tmp_path / "out.csv")
        assert (tmp_path / "out.csv").read_text() == text
        assert load_examples(str(tmp_path / "out.csv")) == examples


def test_answers_of_parquet_have_the_type_of_the_hub(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "in.json").write_bytes(squad_bytes([Example("b", "Who?", "owls", (), "b", "Owls")]))
    convert(str(tmp_path / "in.json"), tmp_path / "out.parquet")
    kind = parquet.read_schema(tmp_path / "out.parquet").field("answers").type
    assert str(kind).replace("element", "item") == "struct<text: list<item: string>, answer_start: list<item: int32>>"


def test_bundled_data_can_be_written(tmp_path: Path) -> None:
    for name, file in (("fables/dev", "dev.parquet"), ("fables/sentiment/dev", "sentiment.csv")):
        assert lamina("data", "convert", name, tmp_path / file).code == 0
    assert load_examples(str(tmp_path / "dev.parquet")) == load_examples("fables/dev")
    assert load_sentences(str(tmp_path / "sentiment.csv")) == load_sentences("fables/sentiment/dev")


def test_the_command(tmp_path: Path) -> None:
    rows = [{"id": "a", "question": "Who?", "context": "An owl.", "answers": ["owl"], "level": 3, "Source": "me"}]
    path, out = tmp_path / "in.jsonl", tmp_path / "out.tsv"
    path.write_text(json.dumps(rows[0]))
    result = lamina("data", "convert", path, out)
    assert result.out == f"{out}: 1 question\nnot copied, because examples do not have these fields: level, source\n"
    assert load_examples(str(out))[0].answers == (Answer("owl", 3),)
    out.write_text("before")
    shown = json.loads(lamina("data", "convert", path, out, "--json").out)
    assert shown == {"out": str(out), "kind": "questions", "rows": 1, "not_copied": ["level", "source"]}


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("in.csv", "is the original, which is never overwritten"),
        ("out.txt", "unknown ending. Fix: name it .json, .jsonl, .csv, .tsv or .parquet"),
        ("nowhere/out.csv", "cannot be written: there is no folder"),
    ],
)
def test_where_nothing_is_written(tmp_path: Path, out: str, message: str) -> None:
    path = tmp_path / "in.csv"
    path.write_text("question,context,answer\nWho?,An owl.,owl\n")
    before = path.read_bytes()
    result = lamina("data", "convert", path, tmp_path / out)
    assert result.code == 2
    assert message in result.err
    assert [file.name for file in tmp_path.iterdir()] == ["in.csv"]
    assert path.read_bytes() == before


def test_problems_stop_a_conversion(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("question,context,answer\nWho?,An owl.,cat\n")
    with pytest.raises(LaminaError, match=rf"^{path}, line 2: answer 'cat' is not in the context\. Fix: .* clean {path}"):
        convert(str(path), tmp_path / "out.json")
    path.write_text("text,label\nfine,1\nbad\n")
    with pytest.raises(LaminaError, match=r"in\.csv, line 3: .* 1 of 2 rows is broken\. Fix: correct them"):
        convert(str(path), tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


def test_ids_of_sentences_are_copied(tmp_path: Path) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.parquet"
    path.write_text("id,text,label\nx,fine,1\ny,bad,0\n")
    convert(str(path), out)
    assert load_sentences(str(out)) == [Sentence("x", "fine", None, "1"), Sentence("y", "bad", None, "0")]


@pytest.mark.parametrize("ending", ENDINGS)
def test_sentences_with_dates_decimals_and_bytes(tmp_path: Path, ending: str) -> None:
    columns = {
        "text": ["fine", "awful"],
        "label": [Decimal("1.50"), Decimal("2.00")],
        "day": [datetime.datetime(2026, 1, 2), None],
        "photo": [b"\xff", b""],
        "parts": [{"bytes": b"\xff", "path": "a.png"}, None],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "own.parquet")
    assert lamina("data", "check", tmp_path / "own.parquet").out == "2 sentences, labels 1.5 (1), 2 (1)\n"
    result = lamina("data", "convert", tmp_path / "own.parquet", out := tmp_path / f"out{ending}")
    dropped = "" if ending == ".parquet" else "not copied, because only parquet holds bytes: photo\n"
    assert result.out == f"{out}: 2 sentences\n{dropped}"
    table = read_table(out)
    rows = [row for _, row in table.rows if isinstance(row, dict)]
    assert [row["day"] or None for row in rows] == ["2026-01-02T00:00:00", None]
    assert next(str(row["label"]) for row in rows) == "1.5" and load_sentences(str(out))[1].first == "awful"
    assert ("photo" in table.header) == (ending == ".parquet")


@pytest.mark.parametrize("answer", ["[{}]", '[{"text": "owl"}]', "[{"])
@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_an_answer_that_looks_like_json_survives(tmp_path: Path, answer: str, ending: str) -> None:
    example = Example("a", "What?", f"Write {answer}.", (Answer(answer, 6),), "a", "t")
    (tmp_path / "own.json").write_bytes(squad_bytes([example]))
    convert(str(tmp_path / "own.json"), tmp_path / f"out{ending}")
    assert load_examples(str(tmp_path / f"out{ending}")) == [example]


def test_a_plain_cell_of_brackets_is_an_answer(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("question,context,answer\nWhat?,Write [{}].,[{}]\n")
    assert load_examples(str(tmp_path / "own.csv"))[0].answers == (Answer("[{}]", 6),)


def test_fields_of_several_contexts_that_are_not_copied(tmp_path: Path) -> None:
    question = {
        "qa": {"id": "a", "question": "Who?", "answer": "owl", "level": 2},
        "paragraphs": [{"title": "A", "contents": "An owl.", "rank": 1}, {"title": "B", "contents": "A cat."}],
        "source": "web",
    }
    write_questions(tmp_path / "own.jsonl", [question])
    done = convert(str(tmp_path / "own.jsonl"), tmp_path / "out.json")
    assert done.not_copied == ("paragraphs.rank", "paragraphs.title", "qa.level", "source")


def test_a_broken_table_of_sentences_names_no_field_of_recipes(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("text,label\nfine,1\nbad,\n")
    result = lamina("data", "convert", tmp_path / "own.csv", tmp_path / "out.jsonl")
    assert result.code == 2 and result.err.endswith("1 of 2 rows is broken. Fix: correct them or remove them\n")


def test_writing_into_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    out = tmp_path / "nowhere" / "out.json"
    result = lamina("data", "convert", "fables/dev", out)
    problem = f"there is no folder {out.parent}. Fix: make the folder, or name another path"
    assert (result.code, result.err) == (2, f"lamina: {out}: cannot be written: {problem}\n")


def test_writing_parquet_without_pyarrow_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(LaminaError) as caught:
        convert("fables/dev", tmp_path / "out.parquet")
    assert (
        str(caught.value) == f"{tmp_path / 'out.parquet'}: writing parquet needs pyarrow. Fix: pip install 'lamina-qa[parquet]'"
    )
