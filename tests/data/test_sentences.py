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
    assert text.startswith((f"{path}: ", f"{path}, "))
    return text[len(f"{path}: ") :]


# ---- real files


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
        "line 2577: is_duplicate is empty: 2 of 20214 rows are broken. Fix: correct them, or set data.skip_broken=true"
    )
    with pytest.warns(LaminaWarning, match="2 of 20214 rows are broken and skipped, at line 2577, 14222;") as caught:
        sentences = read_sentences(path, SentenceReading(skip_broken=True))
    assert len(caught) == 1
    assert len(sentences) == 20212


def test_quotes_of_real_files_have_their_csv_meaning_only_in_csv(shared: Path) -> None:
    korean = read_sentences(shared / "data" / "korsts-train.tsv.xz")
    text = lzma.decompress((shared / "data" / "korsts-train.tsv.xz").read_bytes()).decode()
    assert [[s.first, s.second] for s in korean] == [
        [c.strip() for c in line.split("\t")[5:]] for line in text.split("\n")[1:-1]
    ]
    english = read_sentences(shared / "data" / "sts-train.csv.xz")
    assert not any('""' in s.first for s in english), "doubled quotes are read as one"
    assert sum('"' in s.first for s in english) > 200


# ---- formats


ROWS = [Sentence("x", "an owl, flying", "birds fly; some", "4.5"), Sentence("y", "it rains", "the sun shines", "0.5")]


@pytest.mark.parametrize("delimiter", ["\t", ",", ";"])
@pytest.mark.parametrize("name", ["own.csv", "own.tsv", "own.csv.gz", "own.tsv.xz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_header_line_decides_the_delimiter(tmp_path: Path, delimiter: str, name: str, end: str, mark: str) -> None:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end)
    writer.writerows([["id", "score", "sentence1", "sentence2"], *([s.id, s.label, s.first, s.second] for s in ROWS)])
    data = (mark + out.getvalue()).encode()
    (tmp_path / name).write_bytes(compress(Path(name), data))
    assert read_sentences(tmp_path / name) == ROWS


def test_jsonl_labels_and_ids_may_be_numbers(tmp_path: Path) -> None:
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
def test_output_of_the_csv_module_is_read_back(tmp_path: Path, rows: list[tuple[str, str]], delimiter: str) -> None:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows([("text", "label"), *rows])
    found = read_sentences(file(tmp_path, out.getvalue()), SentenceReading(labelled=False))
    assert [(s.first, s.label) for s in found] == [(text.strip(), label.strip()) for text, label in rows]


PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n\t"), min_size=1, max_size=12).filter(str.strip)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PLAIN, min_size=1, max_size=8))
def test_one_quote_out_of_place_between_tabs_makes_all_quotes_ordinary(tmp_path: Path, texts: list[str]) -> None:
    texts = ['"Owls" fly.', '"Mice" do not.', 'He wrote: 5" of rain.', *(text.replace('""', '"') for text in texts)]
    lines = ["text\tlabel", *(f"{text}\t1" for text in texts)]
    found = read_sentences(file(tmp_path, "\n".join(lines) + "\n"))
    assert [s.first for s in found] == [text.strip() for text in texts]


def test_an_open_quote_breaks_only_its_own_row(tmp_path: Path) -> None:
    text = 'text,label\n"one ""1""",0\n"two,1\n"three ""3""",0\nfour,1\n"five\nlines",1\n'
    path = file(tmp_path, text)
    assert complaint(path).startswith("line 3: ")
    with pytest.warns(LaminaWarning, match="1 of 5 rows is broken and skipped, at line 3"):
        found = read_sentences(path, SentenceReading(skip_broken=True))
    assert [s.first for s in found] == ['one "1"', 'three "3"', "four", "five\nlines"]


def test_the_limit_on_cells_is_always_restored(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    kept = []
    for text in ("text,label\na,1\n", "when,where\n1,2\n", 'text,label\n"a,1\n'):
        try:
            read_sentences(file(tmp_path, text))
        except LaminaError as error:
            kept.append(error)  # keeps its frames alive
        assert csv.field_size_limit() == limit
    assert len(kept) == 2


def test_a_long_text_is_read(tmp_path: Path) -> None:
    long = "word " * 60_000
    assert read_sentences(file(tmp_path, f'text,label\n"{long}",1\n'))[0].first == long.strip()
    assert csv.field_size_limit() < len(long), "the limit of the process is restored"


# ---- columns


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


def test_missing_columns(tmp_path: Path) -> None:
    path = file(tmp_path, "key,tweet,mood\n1,a,b\n")
    assert complaint(path) == ("no column is surely the text: it has key, tweet, mood. Fix: name it with data.columns.first")
    assert complaint(path, ColumnOptions(first="twet")) == (
        "no column 'twet' (data.columns.first): it has key, tweet, mood. Fix: did you mean 'tweet'?"
    )
    assert "no column is surely the label" in complaint(path, ColumnOptions(first="tweet"))


def test_without_labels(tmp_path: Path) -> None:
    path = file(tmp_path, "sentence\nowls fly\n\nmice do not\n")
    expected = [Sentence("1", "owls fly"), Sentence("2", "mice do not")]
    assert read_sentences(path, SentenceReading(labelled=False)) == expected
    assert read_sentences(path, SentenceReading(ColumnOptions(label="sentiment"), labelled=False)) == expected
    assert "no column is surely the label" in complaint(path)


def test_ids_are_made_unique(tmp_path: Path) -> None:
    path = file(tmp_path, "id,text,label\nx,a,0\nx,b,0\nx#2,c,0\nx,d,0\n,e,0\n")
    assert [s.id for s in read_sentences(path)] == ["x", "x#2", "x#2#2", "x#3", "5"]


# ---- broken rows and files


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("3\tx\ta", "the header has 4 cells, but this row 3"),
        ("3\tx\ta\tb\t1", "the header has 4 cells, but this row 5"),
        ("3\t \ta\t1", "sentence1 is empty"),
        ("3\tx\t\t1", "sentence2 is empty"),
        ("3\tx\ty\t", "label is empty"),
    ],
)
def test_broken_rows(tmp_path: Path, row: str, message: str) -> None:
    path = file(tmp_path, f"id\tsentence1\tsentence2\tlabel\n1\ta\tb\t0\n\n{row}\n4\tc\td\t1\n")
    assert complaint(path) == (f"line 4: {message}: 1 of 3 rows is broken. Fix: correct them, or set data.skip_broken=true")
    with pytest.warns(LaminaWarning, match=f"1 of 3 rows is broken and skipped, at line 4; the first: {message}"):
        assert [s.id for s in read_sentences(path, SentenceReading(skip_broken=True))] == ["1", "4"]


@pytest.mark.parametrize(
    ("row", "message"),
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
def test_broken_rows_of_jsonl(tmp_path: Path, row: str, message: str) -> None:
    path = file(tmp_path, f'{{"text": "a", "label": 0}}\n{row}\n', "own.jsonl")
    assert complaint(path).startswith(f"line 2: {message}: 1 of 2 rows is broken")


def test_label_that_is_no_number_among_scores_raises(tmp_path: Path) -> None:
    scores = file(tmp_path, "text,label\na,0.5\nb,1\nc,n/a\n")
    assert complaint(scores).startswith("line 4: the label 'n/a' is no number, but the others are: 1 of 3 rows is broken")
    stray = file(tmp_path, "text,label\n" + "a,1\n" * 120 + "b,l\n", "stray.csv")
    assert complaint(stray).startswith("line 122: the label 'l' is no number")
    classes = file(tmp_path, "text,label\n" + "a,1\n" * 20 + "b,unclear\n", "classes.csv")
    assert len(read_sentences(classes)) == 21


def test_many_broken_rows_list_the_first_lines(tmp_path: Path) -> None:
    path = file(tmp_path, "text,label\na,1\n" + "b\n" * 9)
    with pytest.warns(LaminaWarning, match="9 of 10 rows are broken and skipped, at line 3, 4, 5, 6, 7 …"):
        read_sentences(path, SentenceReading(skip_broken=True))
    path = file(tmp_path, "text,label\nb\nc\n")
    assert (
        complaint(path, skip_broken=True)
        == "line 2: the header has 2 cells, but this row 1: all 2 rows are broken. Fix: correct them"
    )


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (b"", "a.csv", "is empty"),
        (b" \n", "a.csv", "is empty"),
        (b"text,label\n", "a.csv", "holds a header but no rows"),
        (b"\t\t\na\tb\tc\n", "a.tsv", "no column is surely the text"),
        (b"text,label\n\xff,1\n", "a.csv", "byte 11: not UTF-8"),
        ("text,label\n".encode("utf-16"), "a.csv", "it looks like UTF-16"),
        (b'{"text": "a"}', "a.csv", "it starts like JSON. Fix: name it .jsonl"),
        (b"text,label\n", "a.jsonl", "not JSONL: it starts with 'text,label'. Fix: write one JSON object a line"),
        (b"text,label\n", "a.txt", "unknown ending. Fix: name it .json, .jsonl, .csv, .tsv or .parquet"),
        (b"{}", "a.json", "is no list of rows, but an object"),
        (b"question,context,answer\na,b,c\n", "a.csv", "is a file of questions to contexts, which the span heads read"),
        (b'{"question": "a", "context": "b"}', "a.jsonl", "is a file of questions to contexts"),
        (b"text,label\n", "a.csv.xz", "not xz data, despite its name"),
    ],
)
def test_files_that_hold_no_sentences(tmp_path: Path, data: bytes, name: str, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert message in complaint(tmp_path / name)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    assert complaint(tmp_path / "gone.csv") == "no such file. Fix: check the path"
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in complaint(tmp_path / "folder.csv")


def test_sentences_are_recognised_by_the_header(tmp_path: Path) -> None:
    assert holds_sentences(file(tmp_path, "text,label\na,1\n"))
    assert not holds_sentences(file(tmp_path, "question,context,answer\na,b,c\n"))
    assert not holds_sentences(tmp_path / "gone.csv")


def test_standard_columns_are_read_without_a_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_sentences(file(tmp_path, "text,label\na,1\n"), SentenceReading(skip_broken=True))
