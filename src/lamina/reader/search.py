"""Questions put to many files: which file answers, and where.

Files are read in batches, each of which goes through the model together and is then forgotten, but for the files of the best
answers so far. So memory does not grow with the number of files; a single file is held whole.
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


BATCH = 256  # files at once, at most
CHARACTERS = 1 << 20  # questions times characters of a batch, at most; a batch has at least one file


@dataclass(frozen=True)
class SearchResult:
    """The reply to each question. The contexts of replies are numbers of `documents`, the files that they quote."""

    replies: list[Reply]
    documents: list[Document]
    files: int  # that were read
    skipped: int  # that could not be
    windows: int  # that went through the model, those of every question
    seconds: float

    @property
    def pace(self) -> str:
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
            raise LaminaError(f"{place}: the folder holds no files")
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
    """Answers each question from the file that answers it best. Files that cannot be read are skipped with a warning."""
    progress = progress or Silent()
    reading = reader.text_by_text(questions, top_k)
    kept: dict[int, Document] = {}
    began = time.monotonic()
    progress.start("reading", len(files))
    seen = 0
    for batch, passed in _batches(files, CHARACTERS // max(1, len(questions))):
        if batch:
            kept |= dict(enumerate(batch, reading.texts))
            reading.read([document.text for document in batch])
            wanted = reading.wanted
            kept = {number: document for number, document in kept.items() if number in wanted}
        seen += passed
        pace = reading.windows / max(time.monotonic() - began, 1e-9)
        progress.advance(passed, f"{pace:,.0f} questions x windows a second")
    if not reading.texts:
        raise LaminaError(f"none of the {seen} files could be read: name text, HTML, PDF or Word files")
    seconds = time.monotonic() - began
    numbers = {number: place for place, number in enumerate(sorted(kept))}
    replies = [_renumbered(reply, numbers) for reply in reading.replies(threshold)]
    return SearchResult(replies, [kept[n] for n in sorted(kept)], reading.texts, seen - reading.texts, reading.windows, seconds)


def _batches(files: Iterable[Path], characters: int) -> Iterator[tuple[list[Document], int]]:
    """Documents that are read together, and how many files were passed for them."""
    batch: list[Document] = []
    passed = size = 0
    for path in files:
        passed += 1
        try:
            document = read_document(path)
        except LaminaError as error:
            warnings.warn(f"{error}: skipped", LaminaWarning, stacklevel=2)
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
        warnings.warn(f"{error.filename}: cannot be read: {error.strerror}: skipped", LaminaWarning, stacklevel=2)

    seen: set[Path] = set()
    for where, folders, names in os.walk(folder, onerror=refused, followlinks=True):
        if (place := Path(where).resolve()) in seen:  # a link to a parent would be followed forever
            folders.clear()
            continue
        seen.add(place)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = (Path(where, name) for name in sorted(names) if not name.startswith("."))
        # A pipe would be waited for in vain; what cannot be looked at is told of when it is read.
        yield from (path for path in inside if holds(path.is_file) or not holds(path.exists))


def _renumbered(reply: Reply, numbers: dict[int, int]) -> Reply:
    def renumbered(quote: Quote) -> Quote:
        return replace(quote, context=numbers[quote.context])

    answer = None if reply.answer is None else renumbered(reply.answer)
    return replace(reply, answer=answer, others=tuple(map(renumbered, reply.others)))
