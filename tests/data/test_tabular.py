"""Tables: promises that hold for all readers of rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.data import squad
from lamina.data.delimited import delimited_table
from lamina.data.problems import Fault
from lamina.data.sentences import check_sentences
from lamina.data.table_formats import ENDINGS, FORMATS, read_table
from lamina.data.tabular import format_of
from lamina.errors import LaminaError

BROKEN_QUESTIONS = """question,context,answer
What flies?,An owl flies.,An owl
Who spoke?,He cried "hi", then left.,He
What "swims?,"A trout ""swims"" here.",A trout
What hops?,"A frog, "a green one" hops.",A frog
What runs?,A mouse runs.,A mouse
"""


def lines_of(path: Path) -> tuple[list[int], list[int]]:
    """Return the lines of the good rows and of the broken ones."""
    rows = list(read_table(path).rows)
    return [line for line, row in rows if not isinstance(row, Fault)], [line for line, row in rows if isinstance(row, Fault)]


def test_check_lists_a_bad_row_of_questions_and_counts_those_after_it(tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    path.write_text(BROKEN_QUESTIONS)
    report = squad.check(path)
    assert [problem.where for problem in report.problems] == ["line 3", "line 5"]
    assert "the header has 3 cells, but this row 4" in report.problems[0].what
    assert report.problems[1].what.startswith("not CSV: ")
    assert (report.counts.questions, report.counts.answers) == (3, 3)


def test_clean_keeps_the_questions_after_a_bad_row(tmp_path: Path) -> None:
    path, out = tmp_path / "questions.csv", tmp_path / "clean.json"
    path.write_text(BROKEN_QUESTIONS)
    report = squad.clean(path, out)
    assert (report.kept, len(report.dropped)) == (3, 2)
    assert [(e.id, e.answers[0].text) for e in squad.read(out)] == [
        ("row-2", "An owl"),
        ("row-4", "A trout"),
        ("row-6", "A mouse"),
    ]


def test_an_open_quote_breaks_only_its_own_question(tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    path.write_text('question,context,answer\nq,"An owl,owl\nq,"A ""trout""\nswims",trout\nq,A mouse,mouse\n')
    report = squad.check(path)
    assert [problem.where for problem in report.problems] == ["line 2"]
    assert report.counts.questions == 2
    assert squad.clean(path, tmp_path / "clean.json").kept == 2


def test_questions_and_sentences_lose_the_same_rows(tmp_path: Path) -> None:
    rows = 'a,b,c\n"a,b,c\na,b\na,"b"b",c\na,"b\nb",c\n'
    questions, sentences = tmp_path / "questions.csv", tmp_path / "sentences.csv"
    questions.write_text("question,context,answer\n" + rows.replace("c\n", "b\n"))
    sentences.write_text("sentence1,sentence2,label\n" + rows)
    broken = list(check_sentences(sentences).broken)
    assert broken == [3, 4, 5]
    assert [problem.where for problem in squad.check(questions).problems] == [f"line {line}" for line in broken]


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_header_decides_the_delimiter(tmp_path: Path, ending: str, delimiter: str) -> None:
    path = tmp_path / f"a{ending}"
    path.write_text("\n".join(delimiter.join(cells) for cells in (("one", "two"), ("1", "2"), ("3",), ("4", "5"))))
    assert read_table(path).header == ["one", "two"]
    assert lines_of(path) == ([2, 4], [3])


def test_a_bad_line_of_jsonl_breaks_only_itself_even_the_first(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    good = '{"question": "q", "context": "An owl", "answer": "owl"}'
    path.write_text(f'[1]\n{good}\n{{"quest\n\n{good}\n')
    assert lines_of(path) == ([2, 5], [1, 3])
    report = squad.check(path)
    assert [problem.where for problem in report.problems] == ["line 1", "line 3"]
    assert report.counts.questions == 2


def test_a_return_inside_a_cell_counts_as_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'one,two\r\n"a\rb",c\r\nd,e\r\n')
    assert list(read_table(path).rows) == [(2, {"one": "a\rb", "two": "c"}), (4, {"one": "d", "two": "e"})]


def test_endings_and_formats() -> None:
    assert [format_of(Path("A" + ending.upper()), FORMATS) for ending in ENDINGS] == [
        ending.removesuffix(".gz").removesuffix(".xz") for ending in ENDINGS
    ]
    with pytest.raises(LaminaError, match=r"a\.tsv: unknown ending\. Fix: name it \.json or \.csv, alone or with"):
        format_of(Path("a.tsv"), (".json", ".csv"))


def test_a_return_outside_quotes_breaks_the_whole_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"one,two\na\rb,c\nd,e\n")
    assert lines_of(path) == ([4], [2])


@pytest.mark.parametrize("first", ["sep=;\n", '"sep=;"\r\n', "SEP=;\n", "\ufeffsep=|\n"])
def test_the_first_line_of_excel_names_the_delimiter(first: str) -> None:
    mark = "|" if "|" in first else ";"
    table = delimited_table(f"{first}text{mark}a,b,c\nfine{mark}1\n".encode(), "own.csv")
    assert list(table.header) == ["text", "a,b,c"]
    assert list(table.rows) == [(3, {"text": "fine", "a,b,c": "1"})]
