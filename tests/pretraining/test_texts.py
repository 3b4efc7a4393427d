"""Texts of all file formats, and one-line errors for broken files."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path
from typing import Any

import pytest

from lamina.data.squad import to_squad
from lamina.errors import LaminaError, LaminaWarning
from lamina.pretraining.texts import PairSource, TextSource, exclude_texts, read_pairs, read_texts, split_sentences, split_texts
from tests.tiny import corpus


def source(path: Path, content: str | bytes, **options: Any) -> TextSource:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return TextSource(source=str(path), **options)


def test_blank_lines_separate_the_texts_of_a_plain_file(tmp_path: Path) -> None:
    content = "One line.\nAnother.\n \n\n  Second text. \n\n"
    plain = source(tmp_path / "a.txt", content)
    packed = source(tmp_path / "b.txt.xz", lzma.compress(content.encode()))
    assert read_texts([plain]) == read_texts([packed]) == ["One line.\nAnother.", "Second text."]


def test_a_folder_means_all_plain_files_in_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    source(tmp_path / "deep" / "a.md", "Third.")
    source(tmp_path / "b.txt", "First.\n\nSecond.")
    source(tmp_path / "c.txt.xz", lzma.compress(b"Second."))
    source(tmp_path / "picture.png", b"\x89PNG")
    assert set(read_texts([TextSource(source=f"{tmp_path}/")])) == {"First.", "Second.", "Third."}


def test_duplicate_contexts_are_read_once(tmp_path: Path) -> None:
    asked = source(tmp_path / "q.json", json.dumps(to_squad(corpus(3))))
    assert read_texts([asked]) == list(dict.fromkeys(e.context for e in corpus(3)))
    assert len(read_texts([asked, asked])) == 3


def test_columns_of_tables(tmp_path: Path) -> None:
    tabs = source(tmp_path / "a.csv", '\tid\ta\tb\n0\tx\t"one ""quoted"""\ttwo\n1\ty\tthree\tfour\n', columns=("a", "b"))
    assert read_texts([tabs]) == ['one "quoted"', "two", "three", "four"]
    commas = source(tmp_path / "b.csv", 'a,b\n"one, two",3\n', columns=("a",))
    assert read_texts([commas]) == ["one, two"]
    bare = source(tmp_path / "c.tsv", 'a\tb\n"Open\tquote\n', columns=("a", "b"))
    assert read_texts([bare]) == ['"Open', "quote"]
    lines = source(tmp_path / "d.jsonl", '{"a": "one", "n": 1}\n\n{"a": "two", "n": 2}\n', columns=("a",))
    assert read_texts([lines]) == ["one", "two"]


def test_rows_of_a_dev_set_are_skipped(tmp_path: Path) -> None:
    table = source(tmp_path / "a.csv", "t,u\n" + "".join(f"t{i},u\n" for i in range(10)), columns=("t",), skip_every=4)
    assert read_texts([table]) == ["t1", "t2", "t3", "t5", "t6", "t7", "t9"]


def test_broken_rows_raise_and_are_skipped_with_the_option(tmp_path: Path) -> None:
    content = "t,u\na,1\nb\nc,\nd,4\n"
    with pytest.raises(
        LaminaError, match=r"line 3: the header has 2 cells, but this row 1\. Fix: correct the row, or .*skip_broken = true"
    ):
        read_texts([source(tmp_path / "a.csv", content, columns=("t",))])
    with pytest.warns(LaminaWarning, match=r"skipped 2 broken rows, the first at line 3"):
        assert read_texts([source(tmp_path / "a.csv", content, columns=("t",), skip_broken=True, skip_every=2)]) == ["d"]


def test_excluded_texts_are_left_out(tmp_path: Path) -> None:
    learned = source(tmp_path / "a.txt", "one\n\ntwo\n\nthree")
    assert exclude_texts(read_texts([learned]), [source(tmp_path / "b.txt", "two\n\nfour")]) == ["one", "three"]


def test_read_pairs_with_labels(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("a,b,same\nx,y,1.0\nx,z,0\np,q,True\n")
    pairs = PairSource(source=str(tmp_path / "p.csv"), columns=("a", "b"), label="same")
    assert read_pairs(pairs) == [("x", "y", True), ("x", "z", False), ("p", "q", True)]
    (tmp_path / "p.csv").write_text("a,b,same\nx,y,maybe\n")
    with pytest.raises(LaminaError, match=r"p\.csv: line 2: same = 'maybe' is not a label\. Fix: write 1 or 0"):
        read_pairs(pairs)


@pytest.mark.parametrize(
    ("name", "content", "options", "line"),
    [
        ("a.txt", " \n ", {}, "is empty"),
        ("a.csv", "t,u\n", {"columns": ("t",)}, "has no rows"),
        ("a.csv", "t,u\na,b\n", {"columns": ("v",)}, "has no column 'v'. Fix: choose one of t, u"),
        ("a.tsv", "t\tu\na\tb\n", {}, "the columns with texts are not known. Fix: name them with columns"),
        ("a.jsonl", "{", {"columns": ("t",)}, "not JSONL: "),
        ("a.jsonl", "[]", {"columns": ("t",)}, "not JSONL: "),
    ],
)
def test_mistakes_in_files_raise_one_line(tmp_path: Path, name: str, content: str, options: dict[str, Any], line: str) -> None:
    with pytest.raises(LaminaError, match=re.escape(line)) as raised:
        read_texts([source(tmp_path / name, content, **options)])
    assert "\n" not in str(raised.value)


def test_missing_file_raises() -> None:
    with pytest.raises(LaminaError, match=r"nowhere\.txt: no such data"):
        read_texts([TextSource(source="nowhere.txt")])
    with pytest.raises(LaminaError, match=r"fables/train: has no columns"):
        read_texts([TextSource(source="fables/train", columns=("a",))])


def test_split_texts() -> None:
    texts = [str(number) for number in range(40)]
    learned, held = split_texts(texts, 0.1, seed=0)
    assert len(held) == 4
    assert sorted([*learned, *held]) == sorted(texts)
    assert split_texts(texts, 0.1, seed=1)[1] != held
    assert split_texts(texts, 0, seed=0) == (texts, [])
    assert [len(part) for part in split_texts(texts[:2], 0.9, seed=0)] == [1, 1]
    with pytest.raises(LaminaError, match="set holdout = 0"):
        split_texts(["one"], 0.1, seed=0)


def test_split_sentences() -> None:
    assert split_sentences('I wrote "No." Then he left! Did he?\nYes.') == ['I wrote "No."', "Then he left!", "Did he?", "Yes."]
    assert split_sentences("雨だ。晴れ！本当？") == ["雨だ。", "晴れ！", "本当？"]
    assert split_sentences("3.5 km") == ["3.5 km"]
