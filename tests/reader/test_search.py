"""`lamina ask --contexts` on many files, batch by batch."""

from __future__ import annotations

import json
import os
import re
import weakref
from dataclasses import replace
from pathlib import Path

import pytest

import lamina as library
from lamina.answers.decisions import SpanDecision
from lamina.cli.conversation import reply_text
from lamina.errors import LaminaError
from lamina.reader import search as searching
from lamina.reader.documents import Document, read_document
from lamina.reader.search import files_in, search
from tests.command import lamina
from tests.golden import TRAINED, cases

QUESTIONS = ["Who built the mill?", "When was it built?"]


@pytest.fixture(scope="module")
def reader() -> library.Reader:
    return library.load(TRAINED, device="cpu")


def write_files(folder: Path, count: int) -> list[Path]:
    folder.mkdir()
    for number in range(count):
        text = (
            cases.MILL if number == count // 2 else f"Page {number}. In {1000 + number} it rained on the hill of town {number}."
        )
        (folder / f"{number:05}.txt").write_text(text)
    return files_in([folder])


@pytest.mark.parametrize("batch", [1, 3, 256])
def test_files_give_the_replies_of_their_texts(
    reader: library.Reader, tmp_path: Path, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "BATCH", batch)
    files = write_files(tmp_path / "files", 10)
    texts = [path.read_text() for path in files]
    for threshold in (1e6, -1e6):
        found = search(reader, QUESTIONS, files, threshold=threshold, top_k=4)
        assert found.files == 10 and found.skipped == 0 and found.windows >= 20
        for reply, whole in zip(found.replies, reader.answer(QUESTIONS, texts, threshold=threshold, top_k=4), strict=True):
            assert (reply.question, reply.text) == (whole.question, whole.text)
            assert reply.confidence == pytest.approx(whole.confidence, abs=1e-6)
            assert reply.no_answer == pytest.approx(whole.no_answer, abs=1e-6)
            assert len(reply.others) == len(whole.others)
            for quote, other in zip(reply.others, whole.others, strict=True):
                document = found.documents[quote.context]
                assert (quote.text, quote.start, document.name) == (other.text, other.start, str(files[other.context]))
                assert document.text[quote.start : quote.end] == quote.text


def test_batches_are_limited_by_characters_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_files(tmp_path / "files", 9)
    size = len(read_document(files[0]).text)
    batches = list(searching._batches(files, 3 * size))
    assert sum(passed for _, passed in batches) == 9 and [len(batch) for batch, _ in batches] != [9]
    for batch, _ in batches:
        assert len(batch) == 1 or sum(len(document.text) for document in batch) <= 3 * size
    assert [document.name for batch, _ in batches for document in batch] == [str(path) for path in files]


def test_only_the_files_of_the_best_answers_are_kept(
    reader: library.Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that at most one batch and the files of the best answers are in memory."""
    alive: weakref.WeakSet[Held] = weakref.WeakSet()
    most = 0

    class Held(Document):
        __hash__ = object.__hash__

    def read(path: Path) -> Document:
        nonlocal most
        most = max(most, len(alive))
        document = read_document(path)
        held = Held(document.name, document.text)
        alive.add(held)
        return held

    monkeypatch.setattr(searching, "BATCH", 4)
    monkeypatch.setattr(searching, "read_document", read)
    search(reader, QUESTIONS, write_files(tmp_path / "files", 40), top_k=2)
    assert 4 <= most <= 2 * 4 + 2 * 2


def test_files_in_finds_visible_files_in_order(tmp_path: Path) -> None:
    for name in ("b/two.txt", "a.md", "b/.hidden", ".git/config", "b/c/three.html"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    inside = [tmp_path / name for name in ("a.md", "b/two.txt", "b/c/three.html")]
    assert files_in([tmp_path]) == inside
    assert files_in([tmp_path / "b" / ".hidden", tmp_path / "a.md", tmp_path]) == [tmp_path / "b" / ".hidden", *inside]
    os.mkfifo(tmp_path / "b" / "pipe")
    assert files_in([tmp_path]) == inside
    (tmp_path / "empty").mkdir()
    with pytest.raises(LaminaError, match="empty: the folder holds no files"):
        files_in([tmp_path / "empty"])


@pytest.mark.filterwarnings("default::lamina.LaminaWarning")
def test_unreadable_files_are_named_and_skipped(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", 3)
    (tmp_path / "files" / "picture.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "files" / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "files" / "none.txt").write_bytes(b"")
    result = lamina(
        *("ask", "--model", TRAINED, "--threshold", "1e6", "--json", "--contexts", tmp_path / "files"),
        *("--contexts", tmp_path / "gone.txt", QUESTIONS[0]),
    )
    *shown, pace = result.err.splitlines()
    for name, what in (("picture.png", "not a text file"), ("latin.txt", "not UTF-8"), ("none.txt", "is empty")):
        assert any(line.startswith("lamina: warning: ") and f"{name}: " in line and what in line for line in shown)
    assert any("warning: skipped " in line and "gone.txt: no such file" in line for line in shown) and len(shown) == 4
    assert result.code == 0 and pace.startswith("3 files, 4 could not be read; 3 questions x windows")
    (reply,) = json.loads(result.out)
    quoted = Path(reply["context"])
    assert quoted in files and quoted.read_text()[reply["start"] : reply["end"]] == reply["answer"]


def test_names_that_are_not_utf_8_are_shown(tmp_path: Path, reader: library.Reader) -> None:
    """Use names as archives of other systems have them; a strict output cannot print them unchanged."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xc7\xd1.txt"))
    path.write_text("The old mill at Dunmore was built in 1712 by Ada Thorn.")
    found = search(reader, ["Who built the mill?"], files_in([tmp_path]), threshold=1e6)
    assert [document.name for document in found.documents] == [f"{tmp_path}/??.txt"]
    reply_text(found.replies[0], found.documents).encode()


def test_text_too_long_for_a_path_is_no_folder() -> None:
    place = "a text where a file was meant " * 40
    assert files_in([place]) == [Path(place)]


@pytest.mark.filterwarnings("default::lamina.LaminaWarning")
def test_no_readable_file_is_an_error(tmp_path: Path) -> None:
    result = lamina("ask", "--model", TRAINED, "--contexts", tmp_path / "gone.txt", "Who?")
    assert result.code == 2 and "none of the 1 files could be read" in result.err and result.out == ""


def test_questions_are_read_from_standard_input(tmp_path: Path) -> None:
    write_files(tmp_path / "files", 5)
    asked = ("ask", "--model", TRAINED, "--contexts", tmp_path / "files", "--threshold", "1e6")
    result = lamina(*asked, "--jsonl", "--top-k", 3, stdin="\n".join(QUESTIONS).encode())
    replies = [json.loads(line) for line in result.out.splitlines()]
    assert [reply["question"] for reply in replies] == QUESTIONS and len(replies[0]["others"]) == 2
    printed = lamina(*asked, QUESTIONS[0])
    assert printed.code == 0 and re.search(r"A: .* \(.*\d+\.txt, line 1, characters \d+-\d+, confidence", printed.out)
    assert re.search(r"5 files; \d+ questions x windows in .* s: [\d,]+ a second", printed.err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--contexts", "x", "--text", "y", "Who?"], "Fix: name all texts one way"),
        (["--contexts", "x", "--context", "y", "Who?"], "Fix: name all texts one way"),
        (["--contexts", "x", ""], "question 1: is empty"),
    ],
)
def test_mistakes_print_one_line(arguments: list[str], message: str) -> None:
    result = lamina("ask", "--model", TRAINED, *arguments)
    assert result.code == 2 and message in result.err


def test_one_file_has_the_threshold_of_one_text() -> None:
    alone = library.load(TRAINED, device="cpu")
    decision = SpanDecision(threshold=1e6, question_threshold=-1e6)
    alone = library.Reader(replace(alone.trained, decisions={alone.trained.span_task: decision}))
    for texts in ([cases.MILL], [cases.MILL, "It rained."]):
        reading = alone.text_by_text(QUESTIONS[:1])
        reading.read(texts)
        (reply,) = reading.replies()
        assert reply.text == alone.answer(QUESTIONS[0], texts).text
        assert (reply.text is None) is (len(texts) > 1)


@pytest.mark.parametrize("odd", ["\u200b", "\u00a0\u00a0", "\ufeff.", "\U000e0041", "\x00", "é" * 3])
def test_nearly_empty_texts(reader: library.Reader, odd: str) -> None:
    reading = reader.text_by_text(QUESTIONS)
    reading.read([odd])
    reading.read(["x", odd, cases.MILL, odd])
    for reply in reading.replies(1e6):
        assert reply.text


def test_replies_without_a_text_raise(reader: library.Reader) -> None:
    with pytest.raises(LaminaError, match="Fix: read a text first"):
        reader.text_by_text(["Who?"]).replies()


@pytest.mark.slow
def test_ten_thousand_files(tmp_path: Path) -> None:
    write_files(tmp_path / "files", 10_000)
    result = lamina(
        "ask", "--model", TRAINED, "--contexts", tmp_path / "files", "--threshold", "1e6", "--top-k", 3, "--json", QUESTIONS[0]
    )
    (reply,) = json.loads(result.out)
    assert result.code == 0 and "10,000 files; 10,000 questions x windows" in result.err
    assert len(reply["others"]) == 2
    assert Path(reply["context"]).read_text()[reply["start"] : reply["end"]] == reply["answer"]


def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    inside, outside = tmp_path / "notes", tmp_path / "elsewhere"
    for folder in (inside / "own", outside / "deep"):
        folder.mkdir(parents=True)
        (folder / "text.txt").write_text(cases.MILL)
    (inside / "linked").symlink_to(outside, target_is_directory=True)
    (outside / "deep" / "back").symlink_to(inside, target_is_directory=True)  # a loop
    (inside / "own" / "loop").symlink_to(inside / "own", target_is_directory=True)
    (inside / "twice").symlink_to(outside / "deep", target_is_directory=True)
    wanted = [inside / "linked" / "deep" / "text.txt", inside / "own" / "text.txt"]
    assert files_in([inside]) == wanted
    (tmp_path / "link").symlink_to(inside, target_is_directory=True)
    assert len(files_in([tmp_path / "link"])) == 2
