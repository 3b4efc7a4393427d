"""`lamina ask`: what it prints, in a pipe and in a conversation."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import lamina as library
from lamina.answers.across_contexts import Quote
from lamina.cli.ask_arguments import AT_ONCE
from lamina.cli.conversation import HELP, Conversation, converse, reply_text
from lamina.reader.documents import Document
from lamina.reader.replies import Reply, reply_json
from tests.command import lamina
from tests.golden import TRAINED, cases

LAMINA = Path(sys.executable).with_name("lamina")
STORY = "It rained.\nThe mill was built\nby Ada Thorn. It is red."
PLACE = STORY.index("Ada")
DOCUMENTS = [Document("a.txt", "Nothing."), Document("b.txt", STORY)]
REPLY = Reply("Who?", Quote("Ada Thorn", 0.912, 1, PLACE, PLACE + 9), 0.05, (Quote("Ada", 0.03, 1, PLACE, PLACE + 3),))


@pytest.fixture
def model() -> Path:
    return TRAINED


def test_reply_shows_the_answer_in_its_sentence() -> None:
    assert reply_text(REPLY, DOCUMENTS).splitlines() == [
        "Q: Who?",
        "A: Ada Thorn (b.txt, line 3, characters 33-42, confidence 0.91)",
        "   The mill was built by [Ada Thorn].",
        "   or Ada (b.txt, line 3, characters 33-36, confidence 0.03)",
    ]
    silent = Reply("Who?", None, 0.8, REPLY.others)
    assert reply_text(silent, DOCUMENTS).splitlines() == [
        "Q: Who?",
        "A: no answer in the text (confidence 0.80)",
        "   perhaps Ada (b.txt, line 3, characters 33-36, confidence 0.03)",
    ]


def test_reply_as_json() -> None:
    found = reply_json(REPLY, DOCUMENTS)
    assert found == {
        "question": "Who?",
        "answer": "Ada Thorn",
        "confidence": 0.912,
        "no_answer": 0.05,
        "context": "b.txt",
        "place": "line 3",
        "start": PLACE,
        "end": PLACE + 9,
        "sentence": "The mill was built\nby Ada Thorn.",
        "others": [
            {
                "answer": "Ada",
                "confidence": 0.03,
                "context": "b.txt",
                "place": "line 3",
                "start": PLACE,
                "end": PLACE + 3,
                "sentence": "The mill was built\nby Ada Thorn.",
            }
        ],
    }
    assert reply_json(Reply("Who?", None, 0.8), DOCUMENTS).keys() == found.keys()


def test_texts_from_files_options_and_pipes(model: Path, tmp_path: Path) -> None:
    (tmp_path / "mill.html").write_text(f"<p>{cases.MILL}</p>")
    ask = ("ask", "--model", model, "--threshold", "1e6", "--json", "Who built it?", "When?")
    for given in (("--context", tmp_path / "mill.html"), ("--text", cases.MILL)):
        first, second = json.loads(lamina(*ask, *given).out)
        assert cases.MILL[first["start"] : first["end"]] == first["answer"]
        assert second["question"] == "When?"
    piped = json.loads(lamina(*ask, stdin=cases.MILL.encode()).out)
    assert piped[0]["context"] == "standard input" and piped[0]["answer"] == first["answer"]
    both = json.loads(lamina(*ask, "--top-k", 3, "--text", "It rained.", "--text", cases.MILL).out)
    assert len(both[0]["others"]) == 2 and {both[0]["context"]} <= {"text 1", "text 2"}


def test_threshold_of_nan_is_refused(model: Path, tmp_path: Path) -> None:
    ask = ("ask", "--model", model, "--text", cases.MILL, "Who built it?", "--threshold")
    refused = lamina(*ask, "nan")
    complaint = "lamina: --threshold: nan is not a number. Fix: give a number; inf always answers and -inf never\n"
    assert (refused.code, refused.err, refused.out) == (2, complaint, "")
    for file in ("predictions.json", "data.json"):
        (tmp_path / file).write_text("{}")
    score = ("score", "--data", tmp_path / "data.json", "--predictions", tmp_path / "predictions.json")
    assert lamina(*score, "--threshold", "nan").err == complaint
    assert "no answer" not in lamina(*ask, "inf").out
    assert "no answer" in lamina(*ask, "-inf").out


def test_questions_from_a_pipe_are_answered_line_by_line(model: Path) -> None:
    run: list[str | Path] = [LAMINA, "ask", "--model", model, "--text", cases.MILL, "--jsonl", "--threads", "1"]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        print("Who built it?\n", file=process.stdin, flush=True)
        assert json.loads(process.stdout.readline())["question"] == "Who built it?"  # while the input is still open
        out, err = process.communicate("When?\nWhere?")
    assert process.returncode == 0 and err == ""
    assert [json.loads(line)["question"] for line in out.splitlines()] == ["When?", "Where?"]


def test_pipe_that_closes_early_is_no_error(model: Path) -> None:
    questions = "".join(f"Who is number {n}?\n" for n in range(4000))
    run = f'"{LAMINA}" ask --model "{model}" --text "Ada is number one." --json --threads 1 | head -c 10 > /dev/null'
    run += "; exit ${PIPESTATUS[0]}"
    done = subprocess.run(["bash", "-c", run], input=questions, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Who?"], "is empty"),  # standard input is the text, and there is none
        (["--context", "-"], "read once"),
        (["-"], "read once"),
        (["report.pdf", "Who?"], "report.pdf: no such file. Fix: check the name; if it is a question, put it after --"),
        (["notes/of/2024", "Who?"], "notes/of/2024: no such file"),
        (["--contexts", "x", "--text", "y", "Who?"], "--contexts: reads files one after the other, but --text is kept"),
        (["--context", "-", "--context", "-", "Who?"], "read once"),
        (["--text", "caf\udce9", "Who?"], "text 1, character 3: not UTF-8"),
        (["--text", "x", "--model", "~nosuchuser/x", "Who?"], "~nosuchuser/x"),
        ([], "no text to answer from"),
        (["--text", " ", "Who?"], "the context is empty"),
        (["--text", "x", "--top-k", "0", "Who?"], "top-k"),
    ],
)
def test_mistakes(model: Path, arguments: list[str], message: str) -> None:
    result = lamina("ask", "--model", model, *arguments)
    assert result.code == 2 and message in result.err and result.out == ""


def test_names_that_exist_are_texts_and_the_rest_are_questions(model: Path, tmp_path: Path) -> None:
    (tmp_path / "mill.txt").write_text(cases.MILL)
    (tmp_path / "Who built it?").write_text("It rained.")
    ask = ("ask", "--model", model, "--threshold", "1e6", "--json")
    one = json.loads(lamina(*ask, tmp_path / "mill.txt", "Who built it?", "When?").out)
    assert [reply["question"] for reply in one] == ["Who built it?", "When?"]
    assert {reply["context"] for reply in one} == {str(tmp_path / "mill.txt")}
    named = json.loads(lamina(*ask, "--context", tmp_path / "mill.txt", "Who built it?", "When?").out)
    assert one == named
    piped = json.loads(lamina(*ask, "-", "When?", stdin=cases.MILL.encode()).out)
    assert piped[0]["context"] == "standard input" and piped[0]["answer"] == one[1]["answer"]
    lines = json.loads(lamina(*ask, tmp_path / "mill.txt", stdin=b"When?\n").out)
    assert lines == one[1:]
    after = json.loads(lamina(*ask, tmp_path / "mill.txt", "--", str(tmp_path / "mill.txt"), "nowhere.pdf").out)
    assert [reply["question"] for reply in after] == [str(tmp_path / "mill.txt"), "nowhere.pdf"]


def test_a_folder_and_many_files_are_read_one_after_the_other(model: Path, tmp_path: Path) -> None:
    (tmp_path / "mill.txt").write_text(cases.MILL)
    (tmp_path / "broken.pdf").write_text("not a PDF")
    for number in range(AT_ONCE - 1):
        (tmp_path / f"rain-{number}.txt").write_text("It rained.")
    ask = ("ask", "--model", model, "--threshold", "1e6", "--json", "Who built it?")
    files = sorted(tmp_path.iterdir())
    assert len(files) == AT_ONCE + 1
    with warnings.catch_warnings():
        warnings.simplefilter("always", library.LaminaWarning)
        folder, many = lamina(*ask, tmp_path), lamina(*ask, *files)
    assert folder.code == many.code == 0 and json.loads(folder.out) == json.loads(many.out)
    for result in (folder, many):
        assert re.search(r"lamina: warning: skipped .*broken\.pdf: ", result.err)
        assert f"{AT_ONCE} files, 1 could not be read" in result.err
    few = lamina(*ask, *files[:AT_ONCE])
    assert few.code == 2 and "broken.pdf" in few.err and "skipped" not in few.err, "so few files are read at once"
    mixed = lamina(*ask, tmp_path, "--text", "x")
    assert mixed.code == 2 and "a folder is read file by file, but --text is kept in memory" in mixed.err


def test_a_command_of_the_conversation_is_no_question(model: Path) -> None:
    result = lamina("ask", "--model", model, "--text", cases.MILL, stdin=b"Who built it?\n:why\n")
    assert result.code == 2 and result.out == ""
    assert "standard input, line 2: :why is a command of the conversation, not a question. Fix: " in result.err


def test_questions_that_are_not_utf8(model: Path) -> None:
    result = lamina("ask", "--model", model, "--text", "x", stdin=b"Who?\ncaf\xe9?\n")
    assert result.code == 2 and "standard input, line 2, byte 3: not UTF-8" in result.err


def test_piped_text_is_read_by_its_first_bytes(model: Path) -> None:
    page = b"<!DOCTYPE html><title>x</title><body><p>Ada built it."
    result = lamina("ask", "--model", model, "--threshold", "1e6", "--json", "Who?", stdin=page)
    assert "<p>" not in json.loads(result.out)[0]["sentence"]


def test_conversation(model: Path, tmp_path: Path) -> None:
    (tmp_path / "mill.txt").write_text(cases.MILL)
    (tmp_path / "ada.txt").write_text("Ada was born in 1790.")
    lines = iter(
        [
            "Who built it?",
            ":why",
            f":context {tmp_path / 'mill.txt'}",
            "Who built it?",
            ":why",
            f":add {tmp_path / 'ada.txt'}",
            ":context",
            ":context nowhere.txt",
            "",
            ":what",
            ":quit",
            "never read",
        ]
    )
    printed: list[str] = []
    conversation = Conversation(library.load(model, device="cpu"), [], threshold=1e6, top_k=1)
    converse(conversation, lambda: next(lines), printed.append)
    assert "name one with :context FILE" in printed[0]
    assert printed[1] == "There is no answer yet. Fix: ask a question first"
    assert printed[2] == f"{tmp_path / 'mill.txt'}: {len(cases.MILL)} characters"
    assert printed[3].startswith("Q: Who built it?\nA: ") and "mill.txt, line 1" in printed[3]
    assert printed[4].startswith("no answer: confidence") and len(printed[4].splitlines()) == 1 + 2 * 5
    assert printed[5].count("\n") == 1 and printed[6] == printed[5]
    assert printed[7].startswith("nowhere.txt: no such file")
    assert printed[8] == HELP and len(printed) == 9
    assert next(lines) == "never read"


def test_terminal_gets_a_prompt(model: Path, tmp_path: Path) -> None:
    """Run a real process on a real terminal: a question, its runners-up, Ctrl-D. The history is kept."""
    ours, theirs = pty.openpty()
    run: list[str | Path] = [LAMINA, "ask", "--model", model, "--text", cases.MILL, "--threshold", "1e6", "--threads", "1"]
    environment = os.environ | {"LAMINA_CACHE": str(tmp_path), "TERM": "dumb"}
    with subprocess.Popen(run, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True) as process:
        os.close(theirs)
        seen = read_until(ours, "? ")
        assert "Type a question" in seen
        os.write(ours, b"Who built it?\n")
        assert "A: " in read_until(ours, "\n? ")
        os.write(ours, b":why\n")
        assert "no answer: confidence" in read_until(ours, "\n? ")
        os.write(ours, b"\x04")
        assert process.wait(timeout=60) == 0
    os.close(ours)
    assert (tmp_path / "history").read_text().splitlines() == ["Who built it?", ":why"]


def read_until(terminal: int, end: str, seconds: float = 120) -> str:
    seen, stop = "", time.monotonic() + seconds
    while not seen.replace("\r", "").endswith(end):
        assert time.monotonic() < stop, seen
        if select.select([terminal], [], [], 1)[0]:
            seen += os.read(terminal, 4096).decode()
    return seen.replace("\r", "")
