"""The corrections of a project: questions with the right answer, in one file of SQuAD JSON.

Every change reads the file, changes it and replaces it atomically, while it holds a lock. So neither a crash nor a second tab
or process loses a correction. A question that is corrected again on the same text replaces its old answer.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lamina.data.convert import convert
from lamina.data.squad_format import SquadAnswer, SquadArticle, SquadCorpus, SquadParagraph, SquadQuestion
from lamina.data.table_formats import TABLES
from lamina.errors import LaminaError
from lamina.utils.files import make_folder, read_json, write_json

FILE: Final = "corrections.json"
FORMATS: Final = tuple(name.removeprefix(".") for name, table in TABLES.items() if table.write)


@dataclass(frozen=True)
class Correction:
    """A question on a text, with its answer: the first code point and the one after the last. None: there is none."""

    title: str
    context: str
    question: str
    answer: tuple[int, int] | None
    id: str = ""

    def check(self) -> None:
        """Raise LaminaError if something is empty, not UTF-8 or outside the text."""
        for name, text in (("title", self.title), ("context", self.context), ("question", self.question)):
            if not text.strip():
                raise LaminaError(f"{name}: is empty. Fix: give a {name}")
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise LaminaError(f"{name}, character {error.start}: not UTF-8 text. Fix: remove the character") from None
        if self.answer is not None:
            start, end = self.answer
            if not 0 <= start < end <= len(self.context):
                what = f"characters {start} to {end} are not in a text of {len(self.context)}"
                raise LaminaError(f"answer: {what}. Fix: mark a part of the text")
            if not self.context[start:end].strip():
                raise LaminaError("answer: is only white space. Fix: mark the words of the answer")

    def to_json(self) -> dict[str, Any]:
        """Return the correction as the page shows it."""
        answer = None if self.answer is None else {"start": self.answer[0], "end": self.answer[1]}
        text = None if self.answer is None else self.context[slice(*self.answer)]
        names = {"id": self.id, "title": self.title, "question": self.question}
        return {**names, "answer": answer, "text": text, "context": self.context}


class Corrections:
    """The corrections in a folder, which is made with the first of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / FILE

    def all(self) -> list[Correction]:
        """Return all corrections, in the order of the file."""
        return _corrections(self._read())

    def add(self, correction: Correction) -> Correction:
        """Store a correction and return it with its id. The same question on the same text is replaced."""
        correction.check()
        answer = correction.answer
        answers: list[SquadAnswer] = []
        if answer is not None:
            answers.append({"text": correction.context[slice(*answer)], "answer_start": answer[0]})

        def change(corpus: SquadCorpus) -> str:
            paragraph = _paragraph(corpus, correction.title, correction.context)
            same = [qa for qa in paragraph["qas"] if qa["question"] == correction.question]
            name = correction.id or (same[0]["id"] if same else secrets.token_hex(8))
            paragraph["qas"] = [qa for qa in paragraph["qas"] if qa not in same]
            _remove(corpus, name)
            question: SquadQuestion = {
                "id": name,
                "question": correction.question,
                "answers": answers,
                "is_impossible": answer is None,
            }
            paragraph["qas"].append(question)
            return name

        return Correction(correction.title, correction.context, correction.question, answer, self._change(change))

    def remove(self, name: str) -> bool:
        """Remove a correction; return whether there was one."""
        return bool(self._change(lambda corpus: _remove(corpus, name)))

    def export(self, form: str) -> bytes:
        """Return all corrections in a format of `FORMATS`.

        Raises:
            LaminaError: There is none, or the format cannot be written.
        """
        if form not in FORMATS:
            raise LaminaError(f"format: {form[:20]!r} is not one of {', '.join(FORMATS)}. Fix: choose one of them")
        if not self.all():
            raise LaminaError("project: has no correction yet. Fix: correct an answer first")
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / f"corrections.{form}"
            convert(str(self.path), out)
            return out.read_bytes()

    def _read(self) -> SquadCorpus:
        if not self.path.is_file():
            return {"version": "v2.0", "data": []}
        corpus: SquadCorpus = read_json(self.path)
        try:
            _corrections(corpus)
        except (KeyError, TypeError, IndexError, AttributeError):
            raise LaminaError(f"{self.path}: is no SQuAD JSON. Fix: name another folder with --project") from None
        return corpus

    def _change(self, change: Callable[[SquadCorpus], Any]) -> Any:
        make_folder(self.folder)
        with _alone(self.folder):
            corpus = self._read()
            result = change(corpus)
            corpus["data"] = [article for article in map(_without_empty, corpus["data"]) if article["paragraphs"]]
            write_json(self.path, corpus)
            return result


def _alone(folder: Path) -> AbstractContextManager[object]:
    """Return a lock against other writers of the folder. It waits. A system without locks has none."""
    from contextlib import closing

    from lamina.utils.locks import Lock

    try:
        return closing(Lock(folder / ".corrections.lock"))
    except ImportError:
        return nullcontext()


def _corrections(corpus: SquadCorpus) -> list[Correction]:
    """Return the corrections in a file; raise KeyError, TypeError or the like if it is no SQuAD JSON."""
    found = [
        Correction(article["title"], paragraph["context"], qa["question"], _answer(qa), qa["id"])
        for article in corpus["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]
    for one in found:
        "".join((one.title, one.context, one.question, one.id))  # only texts can be joined
    return found


def _answer(qa: SquadQuestion) -> tuple[int, int] | None:
    if not qa["answers"]:
        return None
    first = qa["answers"][0]
    return first["answer_start"], first["answer_start"] + len(first["text"])


def _paragraph(corpus: SquadCorpus, title: str, context: str) -> SquadParagraph:
    """Return the paragraph of a text; add it if it is new."""
    articles = [article for article in corpus["data"] if article["title"] == title]
    if not articles:
        articles = [{"title": title, "paragraphs": []}]
        corpus["data"] += articles
    for paragraph in articles[0]["paragraphs"]:
        if paragraph["context"] == context:
            return paragraph
    new: SquadParagraph = {"context": context, "qas": []}
    articles[0]["paragraphs"].append(new)
    return new


def _remove(corpus: SquadCorpus, name: str) -> bool:
    """Remove the question with this id; return whether there was one."""
    found = False
    for article in corpus["data"]:
        for paragraph in article["paragraphs"]:
            kept = [qa for qa in paragraph["qas"] if qa["id"] != name]
            found |= len(kept) < len(paragraph["qas"])
            paragraph["qas"] = kept
    return found


def _without_empty(article: SquadArticle) -> SquadArticle:
    return {"title": article["title"], "paragraphs": [one for one in article["paragraphs"] if one["qas"]]}
