"""Files that people have -> texts to answer from, with what a reader needs to find a place again: its page or line.

Plain text and Markdown are taken as they are, HTML gives its visible text; PDF and Word files need the extra `documents`.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from lamina.errors import LaminaError
from lamina.files import decode, read_bytes

_SENTENCE_END = re.compile(r"[.!?…]['\")\]]*\s+|[。！？]|\n\s*\n")
_REACH = 240  # characters of a sentence that are shown on either side of the answer
_HIDDEN = {"script", "style", "template", "noscript", "head", "svg"}
_BLOCKS = {
    *("address", "article", "aside", "blockquote", "body", "br", "dd", "div", "dl", "dt", "figcaption", "figure", "footer"),
    *("form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "table"),
    *("td", "th", "tr", "ul", "title", "caption", "option"),
}


@dataclass(frozen=True)
class Document:
    """A text, and where its pages begin if its format has pages."""

    name: str
    text: str
    pages: tuple[int, ...] = ()  # the first character of each

    def place(self, start: int) -> str:
        r"""Where a character is, in a reader's words.

        >>> Document("notes.txt", "one\ntwo\nthree").place(9)
        'line 3'
        >>> Document("book.pdf", "one two", pages=(0, 4)).place(4)
        'page 2'
        """
        if self.pages:
            return f"page {bisect_right(self.pages, start)}"
        return f"line {self.text.count(chr(10), 0, start) + 1}"

    def sentence(self, start: int, end: int) -> tuple[int, int]:
        """The sentence around ``text[start:end]``, or as much of it as a screen has room for.

        >>> text = "It rained. The mill was built by Ada. It stood."
        >>> text[slice(*Document("", text).sentence(33, 36))]
        'The mill was built by Ada.'
        """
        low, high = max(0, start - _REACH), min(len(self.text), end + _REACH)
        before = [match.end() for match in _SENTENCE_END.finditer(self.text, low, start)]
        after = _SENTENCE_END.search(self.text, end, high)
        first, last = before[-1] if before else low, after.end() if after else high
        found = self.text[first:last]
        return first + len(found) - len(found.lstrip()), last - (len(found) - len(found.rstrip()))


def read_document(path: Path) -> Document:
    """The text of a file, by its ending."""
    return make_document(str(path), read_bytes(path), path.suffix.lower())


def make_document(name: str, data: bytes, suffix: str = "") -> Document:
    if suffix in _READERS:
        return _READERS[suffix](name, data)
    if b"\0" in data[:1024] or data.startswith((b"%PDF-", b"PK\x03\x04")):
        raise LaminaError(f"{name}: not a text file; Lamina reads .txt, .md, .html, .pdf and .docx")
    return Document(name, decode(Path(name), data))


def _html(name: str, data: bytes) -> Document:
    parser = _VisibleText()
    parser.feed(decode(Path(name), data))
    parser.close()
    return Document(name, parser.text())


def _pdf(name: str, data: bytes) -> Document:
    try:
        import pypdf
    except ImportError:
        raise LaminaError(f"{name}: reading PDF files needs pypdf: pip install 'lamina-qa[documents]'") from None
    try:
        pages = [page.extract_text() for page in pypdf.PdfReader(io.BytesIO(data)).pages]
    except Exception as error:  # damaged files raise whatever the library was doing
        raise LaminaError(f"{name}: not a PDF that can be read ({error})") from None
    if not any(page.strip() for page in pages):
        raise LaminaError(f"{name}: its {len(pages)} pages hold no text: scanned pages need OCR first")
    starts, position = [], 0
    for page in pages:
        starts.append(position)
        position += len(page) + 2
    return Document(name, "\n\n".join(pages), tuple(starts))


def _docx(name: str, data: bytes) -> Document:
    try:
        import docx
    except ImportError:
        raise LaminaError(f"{name}: reading Word files needs python-docx: pip install 'lamina-qa[documents]'") from None
    try:
        blocks = list(docx.Document(io.BytesIO(data)).iter_inner_content())
    except Exception as error:
        raise LaminaError(f"{name}: not a Word file that can be read ({error})") from None
    lines: list[str] = []
    for block in blocks:
        if hasattr(block, "rows"):  # a table
            lines += ["\t".join(cell.text for cell in row.cells) for row in block.rows]
        else:
            lines.append(block.text)
    return Document(name, "\n".join(lines))


_READERS: dict[str, Callable[[str, bytes], Document]] = {
    ".html": _html,
    ".htm": _html,
    ".xhtml": _html,
    ".pdf": _pdf,
    ".docx": _docx,
}


class _VisibleText(HTMLParser):
    """The text that a browser would show: blocks on lines of their own, white space as one space."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._hidden = 0
        self._verbatim = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN:
            self._hidden += 1
        if tag == "pre":
            self._verbatim += 1
        if tag in _BLOCKS:
            self._parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN:
            self._hidden = max(0, self._hidden - 1)
        if tag == "pre":
            self._verbatim = max(0, self._verbatim - 1)
        if tag in _BLOCKS:
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data if self._verbatim else re.sub(r"\s+", " ", data))

    def text(self) -> str:
        joined = re.sub(r"[^\S\n]*\n[^\S\n]*", "\n", "".join(self._parts))
        return re.sub(r" {2,}", " ", re.sub(r"\n{3,}", "\n\n", joined)).strip()
