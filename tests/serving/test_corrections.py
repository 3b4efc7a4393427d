"""Corrections are kept on disk, whole, also with several writers; every format that is exported can be read."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.data.sources import load_examples
from lamina.errors import LaminaError
from lamina.serving.corrections import FORMATS, Correction, Corrections
from tests.serving.live import Service

TEXT = "🌊 The mill was built by Ada Thorn."
ADA = (TEXT.index("Ada"), TEXT.index("Ada") + len("Ada Thorn"))


def test_a_correction_is_squad(folder: Path) -> None:
    corrections = Corrections(folder)
    assert corrections.all() == [] and not folder.exists()
    stored = corrections.add(Correction("mill.txt", TEXT, "Who built it?", ADA))
    corrections.add(Correction("mill.txt", TEXT, "How tall is it?", None))
    first, second = load_examples(str(corrections.path))
    assert (first.id, first.answers[0].text, first.article) == (stored.id, "Ada Thorn", "mill.txt")
    assert second.answers == () and [one.answer for one in corrections.all()] == [ADA, None]


def test_the_same_question_is_replaced_and_removed(folder: Path) -> None:
    corrections = Corrections(folder)
    first = corrections.add(Correction("a", TEXT, "Who?", None))
    again = corrections.add(Correction("a", TEXT, "Who?", ADA))
    assert first.id == again.id and [one.answer for one in corrections.all()] == [ADA]
    changed = corrections.add(Correction("b", TEXT, "Who built it?", ADA, again.id))
    assert [(one.title, one.question) for one in corrections.all()] == [("b", "Who built it?")]
    assert corrections.remove(changed.id) and not corrections.remove(changed.id)
    assert corrections.all() == [] and json.loads(corrections.path.read_text())["data"] == []


@pytest.mark.parametrize("form", FORMATS)
def test_every_export_reads_back(folder: Path, form: str, tmp_path: Path) -> None:
    corrections = Corrections(folder)
    corrections.add(Correction("mill", TEXT, "Who built it?", ADA))
    corrections.add(Correction("mill", TEXT, 'How tall is it, "really"?\nSay.', None))
    (tmp_path / f"out.{form}").write_bytes(corrections.export(form))
    found = load_examples(str(tmp_path / f"out.{form}"))
    assert [(one.question, one.context, one.answers) for one in found] == [
        (one.question, one.context, one.answers) for one in load_examples(str(corrections.path))
    ]


_ADD = "import sys; from pathlib import Path; from lamina.serving.corrections import *\nfor n in range(8): "
_ADD += "Corrections(Path(sys.argv[1])).add(Correction('t', 'a text', f'question {sys.argv[2]} {n}', None))"


def test_nothing_is_lost_with_several_tabs_and_processes(folder: Path) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", _ADD, str(folder), str(number)]) for number in range(2)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: Corrections(folder).add(Correction("t", "a text", f"mine {n}", None)), range(16)))
    assert [process.wait(60) for process in processes] == [0, 0]
    assert len(Corrections(folder).all()) == 32


def test_a_crash_while_writing_loses_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corrections = Corrections(folder)
    corrections.add(Correction("a", TEXT, "Who?", ADA))
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        corrections.add(Correction("a", TEXT, "When?", None))
    monkeypatch.undo()
    assert [one.question for one in corrections.all()] == ["Who?"]


@given(st.text(max_size=40), st.integers(-3, 45), st.integers(-3, 45))
@settings(max_examples=60)
def test_only_spans_of_the_text_pass(text: str, start: int, end: int) -> None:
    correction = Correction("t", text, "q", (start, end))
    good = bool(text.strip()) and 0 <= start < end <= len(text) and bool(text[start:end].strip())
    try:
        correction.check()
        assert good
    except LaminaError as error:
        assert not good and str(error).count("Fix: ") == 1


_QA = {"id": "a", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}]}


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"data": [{"paragraphs": []}, {"paragraphs": [{"context": "Ada", "qas": [_QA]}]}]},  # no title
        {"data": [{"title": "t", "paragraphs": [{"context": "Ada", "qas": [{"id": "a", "question": "Who?"}]}]}]},
        {"data": [{"title": "t", "paragraphs": [{"context": 5, "qas": [_QA]}]}]},
        {"data": [{"title": "t", "paragraphs": [{"context": "Ada", "qas": [_QA | {"answers": [{"text": "Ada"}]}]}]}]},
        {"data": ["t"]},
    ],
)
def test_a_broken_file_is_one_line(folder: Path, content: object) -> None:
    folder.mkdir()
    (folder / "corrections.json").write_text(json.dumps(content))
    for use in (Corrections(folder).all, lambda: Corrections(folder).add(Correction("t", TEXT, "Who?", None))):
        with pytest.raises(LaminaError, match="is no SQuAD JSON"):
            use()
    assert json.loads((folder / "corrections.json").read_text()) == content


def test_the_routes(service: Service) -> None:
    body = {"question": "Who built it?", "context": TEXT, "title": "mill", "answer": {"start": ADA[0], "end": ADA[1]}}
    stored = service.post("/project/corrections", body).json
    assert (stored["text"], stored["answer"]) == ("Ada Thorn", body["answer"])
    path = f"/project/corrections/{stored['id']}"
    assert service.send("PUT", path, body | {"answer": None}).json["text"] is None
    assert [one["answer"] for one in service.get("/project").json["corrections"]] == [None]
    assert service.get("/project/export?format=csv").headers["content-type"].startswith("text/csv")
    assert service.get("/project/export?format=exe").status == 422
    assert service.post("/project/corrections", body | {"answer": {"start": 30, "end": 99}}).status == 422
    few = service.post("/project/improve", {"minutes": 1})
    assert few.status == 422 and "1 corrections are too few" in few.error
    assert service.send("DELETE", path).json == {"removed": True}
    assert service.send("DELETE", path).status == 422 and service.send("PUT", path, body).status == 422
    assert service.post("/project/improve/switch", {}).status == 422
