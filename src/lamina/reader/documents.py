"""Files -> texts to answer from, with the page or line of each character.

Plain text and Markdown are read as they are. HTML gives its visible text. PDF and Word files need the extra `documents`.
"""

from __future__ import annotations

import html
import io
import logging
import re
import zipfile
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lamina.errors import LaminaError, first_line
from lamina.utils.files import decode_text, is_open_pipe, most_bytes, read_bytes, unpack

MOST_BYTES = 1 << 28  # of a file after unpacking
XML_SHARE = 8  # a parsed Word file takes many times the memory of its XML
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

    A file of more than 256 MB after unpacking is refused. ``$LAMINA_MAX_BYTES`` sets another limit.

    Args:
        path: A .txt, .md, .html, .pdf or .docx file. Files with other endings are read as UTF-8 text.

    Returns:
        The text, with the index of the first character of each page if the format has pages.

    Raises:
        LaminaError: The file does not exist, holds no text, or cannot be read. PDF and Word files need the extra
            `documents`: ``pip install 'lamina-qa[documents]'``.
    """
    path = Path(path)
    most = most_bytes(MOST_BYTES)
    data = unpack(path, read_bytes(path, most), most)
    packed = path.suffix.lower() in (".gz", ".xz")
    ending = (Path(path.stem) if packed else path).suffix.lower()
    return make_document(_whole(str(path)), data, None if is_open_pipe(path) else ending)  # a pipe's name has no ending


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
    try:
        return Document(name, _visible_text(decode_text(name, data)))
    except _BrokenDeclarationError as error:
        raise LaminaError(f"{name}: the HTML cannot be read ({error}). Fix: repair the file, or save it as text") from None


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
        what = f"the PDF cannot be read ({first_line(error)})"
        raise LaminaError(f"{name}: {what}. Fix: save the file again as PDF or text") from None
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
        with zipfile.ZipFile(io.BytesIO(data)) as packed:  # reading a member stops at the size that it declares
            sizes = [member.file_size for member in packed.infolist()]
            xml = [member.file_size for member in packed.infolist() if member.filename.lower().endswith((".xml", ".rels"))]
        _check_unpacked(name, sum(sizes), sum(xml))
        lines = list(_docx_lines(docx.Document(io.BytesIO(data))))
    except LaminaError:
        raise
    except Exception as error:
        what = f"the Word file cannot be read ({first_line(error)})"
        raise LaminaError(f"{name}: {what}. Fix: save it again as .docx or text") from None
    return Document(name, "\n".join(lines))


def _check_unpacked(name: str, size: int, xml: int) -> None:
    """Raise LaminaError if a Word file unpacks to more bytes than allowed: `size` in all, `xml` of them to parse."""
    most = most_bytes(MOST_BYTES)
    if size > most or xml > most // XML_SHARE:
        what = f"unpacks to {size:,} bytes, {xml:,} of them XML, but at most {most:,} and {most // XML_SHARE:,} are allowed"
        raise LaminaError(f"{name}: {what}. Fix: save it as text, or allow more with LAMINA_MAX_BYTES (ask: --max-bytes)")


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


_TAG_NAME = re.compile(r"[a-zA-Z][^\s/>]*")
_TAG_STOP = re.compile(r"[>=]")
_SPACES = re.compile(r"\s*")
_SECTION = re.compile(r"<!\[\s*([a-zA-Z]*)\s*")
_SECTION_ENDS = dict.fromkeys(("temp", "cdata", "ignore", "include", "rcdata"), "]]>") | dict.fromkeys(
    ("if", "else", "endif"), "]>"
)
_RAW = {"script": re.compile("</script", re.I), "style": re.compile("</style", re.I)}  # tags mean nothing before their ends
_LARGE_NUMBER = re.compile(r"&#(?:[0-9]{8,}|[xX][0-9a-fA-F]{8,});?")  # of a character that does not exist


class _BrokenDeclarationError(ValueError):
    """A declaration is of no kind that HTML knows."""


def _visible_text(text: str) -> str:
    """Return the text that a browser shows, in a time that grows linearly with the length of the file.

    A tag or comment that never ends makes the rest of the file text, as it is written.
    """
    page = _VisibleText()
    begin = position = 0  # of the text before the next tag, and where to search for the tag
    while (start := text.find("<", position)) >= 0:
        name = _TAG_NAME.match(text, start + 2 if text.startswith("</", start) else start + 1)
        if name is None and not text.startswith(("<!", "<?", "</"), start):
            position = start + 1  # a plain "less than"
            continue
        page.add(text[begin:start])
        end = _end_of_tag(text, start, name)
        if end is None:
            begin = start
            break
        begin = position = end
        if name is not None:
            begin = position = _follow(page, text, start, name[0].lower(), end)
    page.add(text[begin:])
    return page.text()


def _end_of_tag(text: str, start: int, name: re.Match[str] | None) -> int | None:
    """Return the index after a tag, comment or declaration; None if it never ends."""
    if name is not None:
        return _end_of_attributes(text, name.end())
    ending, after = ">", start + 2
    if text.startswith("<!--", start):
        ending, after = "-->", start + 4
    elif section := _SECTION.match(text, start):
        known = _SECTION_ENDS.get(section[1].lower())
        if known is None:
            raise _BrokenDeclarationError(f"unknown declaration {text[start : start + 20]!r}")
        ending, after = known, section.end()
    found = text.find(ending, after)
    return None if found < 0 else found + len(ending)


def _end_of_attributes(text: str, position: int) -> int | None:
    """Return the index after the `>` that ends a tag, which is outside quoted values."""
    while stop := _TAG_STOP.search(text, position):
        position = stop.end()
        if stop[0] == ">":
            return position
        spaces = _SPACES.match(text, position)
        position = spaces.end() if spaces else position
        if text.startswith(('"', "'"), position):
            closed = text.find(text[position], position + 1)
            if closed < 0:
                return None
            position = closed + 1
    return None


def _follow(page: _VisibleText, text: str, start: int, tag: str, end: int) -> int:
    """Tell the page of a tag, and return where to read on: after a script, at its end."""
    if text.startswith("</", start):
        page.close(tag)
        return end
    page.open(tag)
    if text.startswith("/>", end - 2):
        page.close(tag)
    elif tag in _RAW:
        closing = _RAW[tag].search(text, end)
        return closing.start() if closing else len(text)
    return end


class _VisibleText:
    """Collects the text that a browser shows: each block on its own line, white space as one space."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._hidden = 0
        self._verbatim = 0

    def open(self, tag: str) -> None:
        if tag == "body":
            self._hidden = 0  # a head need not be closed
        if tag in _HIDDEN:
            self._hidden += 1
        if tag == "pre":
            self._verbatim += 1
        if tag in _BLOCKS:
            self._parts.append("\n")

    def close(self, tag: str) -> None:
        if tag in _HIDDEN:
            self._hidden = max(0, self._hidden - 1)
        if tag == "pre":
            self._verbatim = max(0, self._verbatim - 1)
        if tag in _BLOCKS:
            self._parts.append("\n")

    def add(self, written: str) -> None:
        """Add text as it is written in the file, with `&amp;` for `&`."""
        if written and not self._hidden:
            data = html.unescape(_LARGE_NUMBER.sub("\N{REPLACEMENT CHARACTER}", written))
            self._parts.append(data if self._verbatim else re.sub(r"\s+", " ", data))

    def text(self) -> str:
        joined = "\n".join(line.strip() for line in "".join(self._parts).split("\n"))
        return re.sub(r" {2,}", " ", re.sub(r"\n{3,}", "\n\n", joined)).strip()
