from __future__ import annotations

import csv
import io
import json
import lzma
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lamina.data.examples import Sentence
from lamina.data.sentences import ColumnOptions, SentenceReading, holds_sentences, read_sentences
from lamina.errors import LaminaError, LaminaWarning
from lamina.utils.files import compress


def file(folder: Path, text: str, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def complaint(path: Path, columns: ColumnOptions | None = None, *, skip_broken: bool = False) -> str:
    with pytest.raises(LaminaError) as caught:
        read_sentences(path, SentenceReading(columns or ColumnOptions(), skip_broken))
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


# Real files


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("ids-sst-train.csv", 8544),
        ("ids-sst-dev.csv", 1101),
        ("sts-train.csv", 6040),
        ("sts-dev.csv", 863),
        ("korsts-train.tsv", 5749),
        ("korsts-dev.tsv", 1500),
        ("ids-cfimdb-train.csv", 1707),
        ("ids-cfimdb-dev.csv", 245),
    ],
)
def test_real_files_are_read_whole(shared: Path, name: str, rows: int) -> None:
    sentences = read_sentences(shared / "data" / f"{name}.xz")
    assert len(sentences) == len({sentence.id for sentence in sentences}) == rows
    paired = "sts" in name.replace("sst", "")
    assert all((sentence.second is not None) == paired for sentence in sentences)
    assert all(0 <= float(sentence.label or "-1") <= 5 for sentence in sentences)
    assert not any("\t" in text or "\n" in text for s in sentences for text in (s.first, s.second or ""))


def test_quora_has_two_broken_lines(shared: Path) -> None:
    path = shared / "data" / "quora-dev-20212.csv.xz"
    assert complaint(path) == (
        "line 2577: is_duplicate is empty: 2 of 20214 rows are broken: mend them or set data.skip_broken=true"
    )
    with pytest.warns(LaminaWarning, match="2 of 20214 rows are broken and skipped, at line 2577, 14222;") as caught:
        sentences = read_sentences(path, SentenceReading(skip_broken=True))
    assert len(caught) == 1
    assert len(sentences) == 20212


def test_quotes_of_real_files_are_csv_s_only_where_they_were_meant_so(shared: Path) -> None:
    korean = read_sentences(shared / "data" / "korsts-train.tsv.xz")
    text = lzma.decompress((shared / "data" / "korsts-train.tsv.xz").read_bytes()).decode()
    assert [[s.first, s.second] for s in korean] == [
        [c.strip() for c in line.split("\t")[5:]] for line in text.split("\n")[1:-1]
    ]
    english = read_sentences(shared / "data" / "sts-train.csv.xz")
    assert not any('""' in s.first for s in english), "doubled quotes are one"
    assert sum('"' in s.first for s in english) > 200


# Formats


ROWS = [Sentence("x", "an owl, flying", "birds fly; some", "4.5"), Sentence("y", "it rains", "the sun shines", "0.5")]


@pytest.mark.parametrize("delimiter", ["\t", ",", ";"])
@pytest.mark.parametrize("name", ["own.csv", "own.tsv", "own.csv.gz", "own.tsv.xz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_header_line_tells_the_delimiter(tmp_path: Path, delimiter: str, name: str, end: str, mark: str) -> None:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end)
    writer.writerows([["id", "score", "sentence1", "sentence2"], *([s.id, s.label, s.first, s.second] for s in ROWS)])
    data = (mark + out.getvalue()).encode()
    (tmp_path / name).write_bytes(compress(Path(name), data))
    assert read_sentences(tmp_path / name) == ROWS


def test_jsonl_takes_numbers_for_labels_and_ids(tmp_path: Path) -> None:
    rows = [{"id": 7, "text": " so-so ", "label": 2}, {"text": "fine", "label": True}, {"id": "q", "text": "bad", "label": 0.5}]
    path = file(tmp_path, "\n".join(map(json.dumps, rows)) + "\n\n", "own.jsonl")
    assert [(s.id, s.first, s.label) for s in read_sentences(path, SentenceReading(labelled=False))] == [
        ("7", "so-so", "2"),
        ("2", "fine", "true"),
        ("q", "bad", "0.5"),
    ]


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1, max_size=12).filter(str.strip)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6), st.sampled_from(",;\t"))
def test_what_the_csv_module_writes_is_read_back(tmp_path: Path, rows: list[tuple[str, str]], delimiter: str) -> None:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows([("text", "label"), *rows])
    found = read_sentences(file(tmp_path, out.getvalue()), SentenceReading(labelled=False))
    assert [(s.first, s.label) for s in found] == [(text.strip(), label.strip()) for text, label in rows]


PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n\t"), min_size=1, max_size=12).filter(str.strip)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PLAIN, min_size=1, max_size=8))
def test_between_tabs_a_quote_out_of_place_makes_all_quotes_letters(tmp_path: Path, texts: list[str]) -> None:
    texts = ['"Owls" fly.', '"Mice" do not.', 'He said: 5" of rain.', *(text.replace('""', '"') for text in texts)]
    lines = ["text\tlabel", *(f"{text}\t1" for text in texts)]
    found = read_sentences(file(tmp_path, "\n".join(lines) + "\n"))
    assert [s.first for s in found] == [text.strip() for text in texts]


def test_a_quote_never_closed_costs_its_own_row_only(tmp_path: Path) -> None:
    text = 'text,label\n"one ""1""",0\n"two,1\n"three ""3""",0\nfour,1\n"five\nlines",1\n'
    path = file(tmp_path, text)
    assert complaint(path).startswith("line 3: ")
    with pytest.warns(LaminaWarning, match="1 of 5 rows is broken and skipped, at line 3"):
        found = read_sentences(path, SentenceReading(skip_broken=True))
    assert [s.first for s in found] == ['one "1"', 'three "3"', "four", "five\nlines"]


def test_the_limit_on_cells_is_put_back_whatever_happens(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    kept = []
    for text in ("text,label\na,1\n", "when,where\n1,2\n", 'text,label\n"a,1\n'):
        try:
            read_sentences(file(tmp_path, text))
        except LaminaError as error:
            kept.append(error)  # its frames stay alive
        assert csv.field_size_limit() == limit
    assert len(kept) == 2


def test_a_long_text_is_no_obstacle(tmp_path: Path) -> None:
    long = "word " * 60_000
    assert read_sentences(file(tmp_path, f'text,label\n"{long}",1\n'))[0].first == long.strip()
    assert csv.field_size_limit() < len(long), "the process's limit is as it was"


# Columns


def test_usual_names_are_guessed(tmp_path: Path) -> None:
    path = file(tmp_path, "ID,Question1,Question2,Is_Duplicate\n1,a,b,0\n")
    assert read_sentences(path) == [Sentence("1", "a", "b", "0")]


def test_named_columns_win(tmp_path: Path) -> None:
    path = file(tmp_path, "id,sentence1,sentence2,score,grade,key\n1,a,b,2,x,k\n")
    assert read_sentences(path, SentenceReading(ColumnOptions(first="sentence2", label="grade", id="key"))) == [
        Sentence("k", "b", None, "x")
    ]
    assert read_sentences(path, SentenceReading(ColumnOptions(first="sentence2", second="sentence1"))) == [
        Sentence("1", "b", "a", "2")
    ]
    assert read_sentences(path, SentenceReading(ColumnOptions(second="sentence2"))) == [Sentence("1", "a", "b", "2")]


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    path = file(tmp_path, "key,tweet,mood\n1,a,b\n")
    assert complaint(path) == "which column is the text? Name it with data.columns.first: it has key, tweet, mood"
    said = complaint(path, ColumnOptions(first="twet"))
    assert said == "no column 'twet' (data.columns.first): it has key, tweet, mood: did you mean 'tweet'?"
    assert "which column is the label?" in complaint(path, ColumnOptions(first="tweet"))


def test_without_labels(tmp_path: Path) -> None:
    path = file(tmp_path, "sentence\nowls fly\n\nmice do not\n")
    expected = [Sentence("1", "owls fly"), Sentence("2", "mice do not")]
    assert read_sentences(path, SentenceReading(labelled=False)) == expected
    assert read_sentences(path, SentenceReading(ColumnOptions(label="sentiment"), labelled=False)) == expected
    assert "which column is the label?" in complaint(path)


def test_ids_are_made_unique(tmp_path: Path) -> None:
    path = file(tmp_path, "id,text,label\nx,a,0\nx,b,0\nx#2,c,0\nx,d,0\n,e,0\n")
    assert [s.id for s in read_sentences(path)] == ["x", "x#2", "x#2#2", "x#3", "5"]


# Broken rows and files


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("3\tx\ta", "the header has 4 cells, but this row 3"),
        ("3\tx\ta\tb\t1", "the header has 4 cells, but this row 5"),
        ("3\t \ta\t1", "sentence1 is empty"),
        ("3\tx\t\t1", "sentence2 is empty"),
        ("3\tx\ty\t", "label is empty"),
    ],
)
def test_broken_rows(tmp_path: Path, row: str, said: str) -> None:
    path = file(tmp_path, f"id\tsentence1\tsentence2\tlabel\n1\ta\tb\t0\n\n{row}\n4\tc\td\t1\n")
    assert complaint(path) == f"line 4: {said}: 1 of 3 rows is broken: mend them or set data.skip_broken=true"
    with pytest.warns(LaminaWarning, match=f"1 of 3 rows is broken and skipped, at line 4; the first: {said}"):
        assert [s.id for s in read_sentences(path, SentenceReading(skip_broken=True))] == ["1", "4"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "not JSON (Expecting property name enclosed in double quotes at column 2)"),
        ("[1]", "expected a JSON object, found a list"),
        ('{"text": 5, "label": 1}', "text is 5, not a text"),
        ('{"text": null, "label": 1}', "text is null, not a text"),
        ('{"label": 1}', "text is empty"),
        ('{"text": "x"}', "label is empty"),
        ('{"text": "\\ud800", "label": 1}', "text holds half a character (a lone surrogate) at 0"),
    ],
)
def test_broken_rows_of_jsonl(tmp_path: Path, row: str, said: str) -> None:
    path = file(tmp_path, f'{{"text": "a", "label": 0}}\n{row}\n', "own.jsonl")
    assert complaint(path).startswith(f"line 2: {said}: 1 of 2 rows is broken")


def test_a_label_that_is_no_number_among_scores(tmp_path: Path) -> None:
    scores = file(tmp_path, "text,label\na,0.5\nb,1\nc,n/a\n")
    assert complaint(scores).startswith("line 4: the label 'n/a' is no number, as the others are: 1 of 3 rows is broken")
    stray = file(tmp_path, "text,label\n" + "a,1\n" * 120 + "b,l\n", "stray.csv")
    assert complaint(stray).startswith("line 122: the label 'l' is no number")
    classes = file(tmp_path, "text,label\n" + "a,1\n" * 20 + "b,unclear\n", "classes.csv")
    assert len(read_sentences(classes)) == 21


def test_many_broken_rows_give_the_first_lines(tmp_path: Path) -> None:
    path = file(tmp_path, "text,label\na,1\n" + "b\n" * 9)
    with pytest.warns(LaminaWarning, match="9 of 10 rows are broken and skipped, at line 3, 4, 5, 6, 7 …"):
        read_sentences(path, SentenceReading(skip_broken=True))
    path = file(tmp_path, "text,label\nb\nc\n")
    assert complaint(path, skip_broken=True) == "line 2: the header has 2 cells, but this row 1: all 2 rows are broken"


@pytest.mark.parametrize(
    ("data", "name", "said"),
    [
        (b"", "a.csv", "is empty"),
        (b" \n", "a.csv", "is empty"),
        (b"text,label\n", "a.csv", "holds a header but no rows"),
        (b"\t\t\na\tb\tc\n", "a.tsv", "which column is the text?"),
        (b"text,label\n\xff,1\n", "a.csv", "byte 11: not UTF-8"),
        ("text,label\n".encode("utf-16"), "a.csv", "it looks like UTF-16"),
        (b'{"text": "a"}', "a.csv", "it starts like JSON: name it .jsonl"),
        (b"text,label\n", "a.jsonl", "not JSONL: expected one JSON object a line"),
        (b"text,label\n", "a.txt", "unknown ending: expected .csv, .tsv or .jsonl"),
        (b"{}", "a.json", "heads of sentences read .csv, .tsv and .jsonl"),
        (b"question,context,answer\na,b,c\n", "a.csv", "is a file of questions to contexts, which the span heads read"),
        (b'{"question": "a", "context": "b"}', "a.jsonl", "is a file of questions to contexts"),
        (b"text,label\n", "a.csv.xz", "not xz data, despite its name"),
    ],
)
def test_files_that_hold_no_sentences(tmp_path: Path, data: bytes, name: str, said: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert said in complaint(tmp_path / name)


def test_files_that_are_no_files(tmp_path: Path) -> None:
    assert complaint(tmp_path / "gone.csv") == "no such file. Fix: check the path"
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in complaint(tmp_path / "folder.csv")


def test_what_a_file_seems_to_hold(tmp_path: Path) -> None:
    assert holds_sentences(file(tmp_path, "text,label\na,1\n"))
    assert not holds_sentences(file(tmp_path, "question,context,answer\na,b,c\n"))
    assert not holds_sentences(tmp_path / "gone.csv")


def test_reading_well_is_silent(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_sentences(file(tmp_path, "text,label\na,1\n"), SentenceReading(skip_broken=True))
