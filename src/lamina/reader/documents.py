"""Files -> texts to answer from, with the page or line of each character.

Plain text and Markdown are read as they are. HTML gives its visible text. PDF and Word files need the extra `documents`.
"""

from __future__ import annotations

import io
import logging
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from lamina.errors import LaminaError
from lamina.utils.files import decode_text, read_bytes, unpack

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
    """The text of a file. `pages` holds the index of the first character of each page, if the format has pages."""

    name: str
    text: str
    pages: tuple[int, ...] = ()

    def place(self, start: int) -> str:
        r"""Return the page or line of a character, counted from 1.

        >>> Document("notes.txt", "one\ntwo\nthree").place(9)
        'line 3'
        >>> Document("book.pdf", "one two", pages=(0, 4)).place(4)
        'page 2'

        Args:
            start: The index of the character in `text`.

        Returns:
            ``"page N"`` if the document has pages, else ``"line N"``.
        """
        if self.pages:
            return f"page {bisect_right(self.pages, start)}"
        return f"line {self.text.count(chr(10), 0, start) + 1}"

    def sentence(self, start: int, end: int) -> tuple[int, int]:
        """Return the first and the last index of the sentence around ``text[start:end]``.

        A longer sentence is cut to 240 characters on either side.

        >>> text = "It rained. The mill was built by Ada. It is red."
        >>> text[slice(*Document("", text).sentence(33, 36))]
        'The mill was built by Ada.'

        Args:
            start: The index of the first character of the span in `text`.
            end: The index after its last character.

        Returns:
            The index of the first character of the sentence, and the index after its last character.
        """
        low, high = max(0, start - _REACH), min(len(self.text), end + _REACH)
        before = [match.end() for match in _SENTENCE_END.finditer(self.text, low, start)]
        after = _SENTENCE_END.search(self.text, max(start, end - 1), high)
        first, last = before[-1] if before else low, after.end() if after else high
        found = self.text[first:last]
        return first + len(found) - len(found.lstrip()), last - (len(found) - len(found.rstrip()))


def read_document(path: str | Path) -> Document:
    """Return the text of a file. Its ending names the format, and .gz or .xz may follow.

    Args:
        path: A .txt, .md, .html, .pdf or .docx file. Files with other endings are read as UTF-8 text.

    Returns:
        The text, with the index of the first character of each page if the format has pages.

    Raises:
        LaminaError: The file does not exist, holds no text, or cannot be read. PDF and Word files need the extra
            `documents`: ``pip install 'lamina-qa[documents]'``.
    """
    path = Path(path)
    data = unpack(path, read_bytes(path))
    packed = path.suffix.lower() in (".gz", ".xz")
    return make_document(_whole(str(path)), data, (Path(path.stem) if packed else path).suffix.lower())


def make_document(name: str, data: bytes, suffix: str | None = None) -> Document:
    """Return the text of the bytes of a file. `suffix` names the format; None for the format that the bytes begin with."""
    if suffix is None:
        suffix = next((ending for ending, magic in _MAGIC.items() if magic.match(data)), "")
    if suffix in _READERS:
        document = _READERS[suffix](name, data)
        if not document.text.strip():
            raise LaminaError(f"{name}: holds no text. Fix: name a file with text")
        return document
    utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))  # `decode_text` has a better message for these
    if (b"\0" in data[:1024] and not utf16) or data.startswith((b"%PDF-", b"PK\x03\x04")):
        raise LaminaError(f"{name}: not a text file. Fix: name a .txt, .md, .html, .pdf or .docx file")
    return Document(name, decode_text(name, data))


def _html(name: str, data: bytes) -> Document:
    parser = _VisibleText()
    try:
        parser.feed(decode_text(name, data))
        parser.close()
    except AssertionError as error:  # the standard parser raises it for some broken declarations
        raise LaminaError(f"{name}: the HTML cannot be read ({error}). Fix: repair the file, or save it as text") from None
    return Document(name, parser.text())


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """Keep the lines that a package logs from the terminal."""
    log = logging.getLogger(logger)
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)


def _pdf(name: str, data: bytes) -> Document:
    try:
        import pypdf
    except ImportError:
        raise LaminaError(f"{name}: reading PDF files needs pypdf. Fix: pip install 'lamina-qa[documents]'") from None
    try:
        with _quiet("pypdf"):  # it logs what it repairs
            pages = [_whole(page.extract_text()) for page in pypdf.PdfReader(io.BytesIO(data)).pages]
    except Exception as error:  # pypdf raises many kinds of errors for damaged files
        raise LaminaError(f"{name}: the PDF cannot be read ({error}). Fix: save the file again as PDF or text") from None
    if not any(page.strip() for page in pages):
        raise LaminaError(f"{name}: its {len(pages)} pages hold no text. Fix: run OCR on scanned pages first")
    starts, position = [], 0
    for page in pages:
        starts.append(position)
        position += len(page) + 2
    return Document(name, "\n\n".join(pages), tuple(starts))


def _whole(text: str) -> str:
    """Return a text with a question mark for each lone surrogate. PDF files and odd file names hold such characters."""
    return text.encode("utf-8", "replace").decode()


def _docx(name: str, data: bytes) -> Document:
    try:
        import docx
    except ImportError:
        raise LaminaError(f"{name}: reading Word files needs python-docx. Fix: pip install 'lamina-qa[documents]'") from None
    try:
        lines = list(_docx_lines(docx.Document(io.BytesIO(data))))
    except Exception as error:
        raise LaminaError(f"{name}: the Word file cannot be read ({error}). Fix: save it again as .docx or text") from None
    return Document(name, "\n".join(lines))


def _docx_lines(part: Any) -> Iterator[str]:
    """Yield the paragraphs, and the tables row by row. A merged cell appears once."""
    for block in part.iter_inner_content():
        if not hasattr(block, "rows"):
            yield block.text
            continue
        seen: set[Any] = set()
        for row in block.rows:
            cells = {cell._tc: cell for cell in row.cells if cell._tc not in seen}
            seen |= cells.keys()
            yield "\t".join(" ".join(_docx_lines(cell)) for cell in cells.values())


_READERS: dict[str, Callable[[str, bytes], Document]] = {
    ".html": _html,
    ".htm": _html,
    ".xhtml": _html,
    ".svg": _html,  # a picture: its text is hidden, so it holds no text
    ".pdf": _pdf,
    ".docx": _docx,
}

_MAGIC = {
    ".pdf": re.compile(rb"%PDF-"),
    ".docx": re.compile(rb"PK\x03\x04"),
    ".html": re.compile(rb"\s*<(!doctype html|html)", re.I),
}


class _VisibleText(HTMLParser):
    """Collects the text that a browser shows: each block on its own line, white space as one space."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._hidden = 0
        self._verbatim = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "body":
            self._hidden = 0  # a head need not be closed
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
