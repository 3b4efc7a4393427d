"""Answers from many files, in bounded memory.

Files are read in batches, and each batch runs through the model together. Only the files of the best answers so far are
kept. So memory does not grow with the number of files, but a single file is held whole.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lamina.answers.across_contexts import Quote
from lamina.errors import LaminaError, LaminaWarning
from lamina.reader.documents import Document, read_document
from lamina.reader.replies import Reply
from lamina.utils.files import expanded, holds
from lamina.utils.progress import Progress, Silent

if TYPE_CHECKING:
    from lamina.reader.load import Reader


BATCH = 256  # the most files in a batch
CHARACTERS = 1 << 20  # the most questions times characters in a batch; a batch has at least one file


@dataclass(frozen=True)
class SearchResult:
    """The reply to each question. The context of a quote is the number of its file in `documents`."""

    replies: list[Reply]
    documents: list[Document]
    files: int  # files that were read
    skipped: int  # files that could not be read
    windows: int  # windows that went through the model, of all questions
    seconds: float

    @property
    def pace(self) -> str:
        """The number of files and windows, and the windows a second, as text."""
        left_out = f", {self.skipped:,} could not be read" if self.skipped else ""
        return (
            f"{self.files:,} files{left_out}; {self.windows:,} questions x windows in {self.seconds:.1f} s: "
            f"{self.windows / max(self.seconds, 1e-9):,.0f} a second"
        )


def files_in(places: Iterable[str | Path]) -> list[Path]:
    """Return the given files, and those in the given folders and their subfolders, sorted by name.

    Links to folders are followed. A folder with several names is read once. Hidden files and folders are left out.
    """
    found: dict[Path, None] = {}
    for place in map(expanded, places):
        inside = list(_walk(place)) if holds(place.is_dir) else [place]
        if not inside:
            raise LaminaError(f"{place}: the folder holds no files. Fix: name a folder with text files")
        found |= dict.fromkeys(inside)
    return list(found)


def search(
    reader: Reader,
    questions: Sequence[str],
    files: Sequence[Path],
    *,
    threshold: float | None = None,
    top_k: int = 1,
    progress: Progress | None = None,
) -> SearchResult:
    """Return the best answer of any file to each question. A file that cannot be read is skipped with a warning."""
    progress = progress or Silent()
    reading = reader.text_by_text(questions, top_k)
    kept: dict[int, Document] = {}
    began = time.monotonic()
    progress.start("reading", len(files))
    seen = 0
    for batch, passed in _batches(files, CHARACTERS // max(1, len(questions))):
        if batch:
            kept |= dict(enumerate(batch, reading.texts))
            reading.read([document.text for document in batch], [document.name for document in batch])
            wanted = reading.wanted
            kept = {number: document for number, document in kept.items() if number in wanted}
        seen += passed
        pace = reading.windows / max(time.monotonic() - began, 1e-9)
        progress.advance(passed, f"{pace:,.0f} questions x windows a second")
    if not reading.texts:
        raise LaminaError(f"files: none of the {seen} files could be read. Fix: name text, HTML, PDF or Word files")
    seconds = time.monotonic() - began
    numbers = {number: place for place, number in enumerate(sorted(kept))}
    replies = [_renumbered(reply, numbers) for reply in reading.replies(threshold)]
    return SearchResult(replies, [kept[n] for n in sorted(kept)], reading.texts, seen - reading.texts, reading.windows, seconds)


def _batches(files: Iterable[Path], characters: int) -> Iterator[tuple[list[Document], int]]:
    """Yield the documents of each batch, and the number of files that were read or skipped for it."""
    batch: list[Document] = []
    passed = size = 0
    for path in files:
        passed += 1
        try:
            document = read_document(path)
        except LaminaError as error:
            warnings.warn(f"skipped {error}", LaminaWarning, stacklevel=2)
            continue
        if batch and size + len(document.text) > characters:
            yield batch, passed - 1
            batch, passed, size = [], 1, 0
        batch.append(document)
        size += len(document.text)
        if len(batch) == BATCH:
            yield batch, passed
            batch, passed, size = [], 0, 0
    yield batch, passed


def _walk(folder: Path) -> Iterator[Path]:
    def refused(error: OSError) -> None:
        warnings.warn(f"skipped {error.filename}: cannot be read ({error.strerror})", LaminaWarning, stacklevel=2)

    seen: set[Path] = set()
    for where, folders, names in os.walk(folder, onerror=refused, followlinks=True):
        if (place := Path(where).resolve()) in seen:  # a link to a parent would be followed forever
            folders.clear()
            continue
        seen.add(place)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = (Path(where, name) for name in sorted(names) if not name.startswith("."))
        # Reading a pipe would never end. A file whose type cannot be read is kept: reading it gives the warning.
        yield from (path for path in inside if holds(path.is_file) or not holds(path.exists))


def _renumbered(reply: Reply, numbers: dict[int, int]) -> Reply:
    def renumbered(quote: Quote) -> Quote:
        return replace(quote, context=numbers[quote.context])

    answer = None if reply.answer is None else renumbered(reply.answer)
    return replace(reply, answer=answer, others=tuple(map(renumbered, reply.others)))
