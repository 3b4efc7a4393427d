from __future__ import annotations

import gzip
import io
import lzma
import re
import sys
from pathlib import Path

import docx
import pypdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import LaminaError
from lamina.reader.documents import Document, make_document, read_document

PAGE = """<!doctype html><html><head><title>Hidden</title><style>p {}</style></head><body>
<h1>The Mill</h1><p>Built by <b>Ada</b>&nbsp;Thorn
in 1823.</p><script>var x = "no";</script><ul><li>one</li><li>two &amp; three</li></ul><pre>a
  b</pre></body></html>"""


def pdf(*pages: str) -> bytes:
    """Return a PDF with these lines, one per page. It is written by hand: the library that reads PDFs cannot write text."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for page in pages:
        stream = f"BT /F1 12 Tf 40 700 Td ({page}) Tj ET" if page else ""
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /Contents {len(objects)} 0 R /Resources {font} /MediaBox [0 0 600 800] >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(pages)} >>"
    out, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return f"{out}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}".encode()


def test_plain_text_is_unchanged(tmp_path: Path) -> None:
    for name in ("a.txt", "a.md", "README", "a.rst"):
        (tmp_path / name).write_bytes("# Ada\r\n\r\n*Thorn* é 🏭\n".encode())
        assert read_document(tmp_path / name).text == "# Ada\r\n\r\n*Thorn* é 🏭\n"


def test_html_gives_the_visible_text(tmp_path: Path) -> None:
    (tmp_path / "page.HTML").write_text(PAGE)
    text = read_document(tmp_path / "page.HTML").text
    assert text == "The Mill\n\nBuilt by Ada Thorn in 1823.\n\none\n\ntwo & three\n\na\nb"


def test_html_with_an_unclosed_head() -> None:
    assert make_document("x", b"<html><head><title>T</title><body><p>Ada built it.").text == "Ada built it."


def test_packed_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt.gz").write_bytes(gzip.compress(b"Ada built it."))
    (tmp_path / "page.html.xz").write_bytes(lzma.compress(b"<p>Ada built it."))
    assert read_document(tmp_path / "notes.txt.gz").text == read_document(tmp_path / "page.html.xz").text == "Ada built it."


def test_pdf_has_page_numbers(tmp_path: Path) -> None:
    data = pdf("The mill was built by Ada.", "", "It burnt down in 1871.")
    assert len(pypdf.PdfReader(io.BytesIO(data)).pages) == 3
    (tmp_path / "book.pdf").write_bytes(data)
    book = read_document(tmp_path / "book.pdf")
    assert book.place(book.text.index("mill")) == "page 1"
    assert book.place(book.text.index("1871")) == "page 3"


def test_what_pypdf_repairs_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = re.sub(rb"startxref\s+\d+", b"startxref\n7", pdf("The mill was built by Ada."))
    (tmp_path / "book.pdf").write_bytes(data)
    assert "Ada" in read_document(tmp_path / "book.pdf").text
    assert caplog.records == []
    assert pypdf.PdfReader(io.BytesIO(data)).pages and caplog.records, "by itself, it logs a warning"


def test_lone_surrogate_in_a_pdf_becomes_a_question_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a lone surrogate, as maps of damaged fonts have them: it must not stop a search."""
    (tmp_path / "a.pdf").write_bytes(pdf("The mill."))
    monkeypatch.setattr(pypdf.PageObject, "extract_text", lambda _: "\ud800The mill\udc00")
    assert read_document(tmp_path / "a.pdf").text == "?The mill?"


def test_word_files_with_tables(tmp_path: Path) -> None:
    made = docx.Document()
    made.add_paragraph("The mill was built by Ada.")
    table = made.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Wheel", "oak"
    wide = made.add_table(1, 3)
    wide.cell(0, 0).merge(wide.cell(0, 2)).text = "Total"
    made.add_paragraph("It is red.")
    made.save(str(tmp_path / "book.docx"))
    assert read_document(tmp_path / "book.docx").text == "The mill was built by Ada.\nWheel\toak\nTotal\nIt is red."


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.pdf", b"%PDF-1.4 no", "the PDF cannot be read"),
        ("a.pdf", pdf("", ""), "its 2 pages hold no text"),
        ("a.docx", b"PK\x03\x04 no", "the Word file cannot be read"),
        ("a.txt", b"%PDF-1.4", "not a text file"),
        ("a.doc", b"\xd0\xcf\x11\xe0\0\0", "not a text file"),
        ("a.txt", b"caf\xe9", "not UTF-8"),
        ("a.txt", b"", "is empty"),
        ("a.html", b"", "is empty"),
        ("a.html", b"<p> </p>", "holds no text"),
        ("a.html", b"<![foo[x]]>text", "the HTML cannot|holds no text"),
        ("a.svg", b"<?xml version='1.0'?>\n<svg><text>Ada</text></svg>", "holds no text"),
        ("a.txt", "ab".encode("utf-16"), "looks like UTF-16"),
        ("a.txt.gz", b"no", "not gz data"),
    ],
)
def test_files_that_cannot_be_read_raise(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(LaminaError, match=message) as caught:
        read_document(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("module", "name"), [("pypdf", "a.pdf"), ("docx", "a.docx")])
def test_without_the_extra_the_error_names_the_package(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(LaminaError, match=r"pip install 'lamina-qa\[documents\]'"):
        make_document(name, b"x", Path(name).suffix)


@given(st.text(max_size=400), st.data())
def test_sentence_contains_the_answer(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    quote = text[start:end]
    first, last = Document("", text).sentence(start, end)
    if quote.strip() == quote != "":
        assert first <= start <= end <= last
        assert text[first:last] == text[first:last].strip()
