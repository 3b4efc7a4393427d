"""Replies as text, and the conversation that `lamina ask` opens on a terminal without a question."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lamina.answers.across_contexts import Quote
from lamina.errors import LaminaError
from lamina.reader.documents import Document, read_document
from lamina.reader.replies import Reply
from lamina.utils.files import expanded

if TYPE_CHECKING:
    from lamina.reader.load import Reader


WHY = 5  # runners-up that :why shows
HELP = """\
Type a question, or
  :context FILE  answer from this file instead (:context alone names the texts in use)
  :add FILE      answer from this file as well
  :why           show the runners-up of the last answer
  :quit          leave (so does Ctrl-D)"""


def reply_text(reply: Reply, documents: Sequence[Document]) -> str:
    """Return the question, the answer with its place, and the sentence around it."""
    lines = [f"Q: {reply.question}"]
    if reply.answer is None:
        lines.append(f"A: no answer in the text (confidence {reply.confidence:.2f})")
    else:
        lines.append(f"A: {_quote_text(reply.answer, documents)}")
        lines.append(f"   {_marked(reply.answer, documents[reply.answer.context])}")
    also = "or" if reply.answer is not None else "perhaps"
    lines += [f"   {also} {_quote_text(quote, documents)}" for quote in reply.others]
    return "\n".join(lines)


class Conversation:
    """Answers one line after the other; remembers the texts and the last answer."""

    def __init__(self, reader: Reader, documents: Iterable[Document], *, threshold: float | None, top_k: int) -> None:
        self.reader, self.documents = reader, list(documents)
        self.threshold, self.top_k = threshold, top_k
        self._last: Reply | None = None

    def say(self, line: str) -> str | None:
        """Return the answer to a line, or the text of a mistake. None ends the conversation."""
        line = line.strip()
        command, _, rest = line.partition(" ")
        try:
            if not command.startswith(":"):
                return self._answer(line) if line else ""
            if command in (":q", ":quit", ":exit"):
                return None
            if command in (":context", ":add"):
                return self._use(rest.strip(), add=command == ":add")
            return self._why() if command == ":why" else HELP
        except LaminaError as error:
            return str(error)

    def _answer(self, question: str) -> str:
        if not self.documents:
            return "There is no text to answer from. Fix: name one with :context FILE"
        texts = [document.text for document in self.documents]
        self._last = self.reader.answer(question, texts, threshold=self.threshold, top_k=max(self.top_k, WHY + 1))
        shown = self.top_k - (self._last.text is not None) if self.top_k > 1 else 0
        return reply_text(replace(self._last, others=self._last.others[:shown]), self.documents)

    def _use(self, name: str, *, add: bool) -> str:
        if name:
            document = read_document(expanded(name))
            self.documents = [*self.documents, document] if add else [document]
            self._last = None
        return "\n".join(f"{d.name}: {len(d.text):,} characters" for d in self.documents) or "no text yet"

    def _why(self) -> str:
        if self._last is None:
            return "There is no answer yet. Fix: ask a question first"
        lines = [f"no answer: confidence {self._last.no_answer:.2f}"]
        for quote in self._last.others[:WHY]:
            lines += [_quote_text(quote, self.documents), f"   {_marked(quote, self.documents[quote.context])}"]
        return "\n".join(lines)


def converse(conversation: Conversation, read: Callable[[], str], write: Callable[[str], object]) -> None:
    """Answer lines until the input ends or a line is `:quit`."""
    while True:
        try:
            answer = conversation.say(read())
        except EOFError:
            return
        if answer is None:
            return
        if answer:
            write(answer)


def _quote_text(quote: Quote, documents: Sequence[Document]) -> str:
    document = documents[quote.context]
    name = f"{document.name}, " if document.name else ""
    place = f"{name}{document.place(quote.start)}, characters {quote.start}-{quote.end}"
    return f"{_line(quote.text)} ({place}, confidence {quote.confidence:.2f})"


def _marked(quote: Quote, document: Document) -> str:
    """Return the sentence around a quote, with the quote in brackets."""
    first, last = document.sentence(quote.start, quote.end)
    text = document.text
    return _line(f"{text[first : quote.start]}[{quote.text}]{text[quote.end : last]}")


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
