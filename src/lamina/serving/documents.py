"""Uploaded files -> texts. Each is read in a process of its own, with little memory and time.

So a file that unpacks to gigabytes, or that makes a parser loop, ends its own process only.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import PurePosixPath
from typing import Any, Final

from lamina.errors import LaminaError
from lamina.reader.documents import Document
from lamina.serving.settings import Limits

ENDINGS: Final = (".txt", ".md", ".html", ".htm", ".xhtml", ".pdf", ".docx")
_MODULE: Final = "lamina.serving.document_process"
_SECONDS: Final = 30.0
_AT_ONCE: Final = 2
_LONGEST_NAME: Final = 120


class DocumentReader:
    """Reads uploads, two at a time. The name of a file is for its ending and for messages; no path is opened."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def read(self, name: str, data: bytes) -> Document:
        """Return the text of the bytes of a file.

        Raises:
            LaminaError: The file cannot be read, holds no text, or takes too long or too much memory.
            TimeoutError: Too many other files are read first.
        """
        shown = clean_name(name)
        suffix = PurePosixPath(shown).suffix.lower()
        if suffix not in ENDINGS:
            raise LaminaError(
                f"{shown}: is no file of a known kind. Fix: choose a {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]} file"
            )
        async with asyncio.timeout(self._limits.seconds), self._free:
            found = await _in_process(shown, suffix, data)
        if found is None:
            raise LaminaError(f"{shown}: is damaged, or too large to read. Fix: save its text as .txt, in parts")
        if "error" in found:
            raise LaminaError(found["error"])
        if len(found["text"]) > self._limits.text:
            what = f"has {len(found['text']):,} characters, over the limit of {self._limits.text:,}"
            raise LaminaError(f"{shown}: {what}. Fix: split it into several files")
        return Document(shown, found["text"], tuple(found["pages"]))


def clean_name(name: str) -> str:
    r"""Return the last part of a name, without characters that cannot be printed.

    >>> clean_name("C:\\texts\\my report.pdf"), clean_name("../a\x00b.txt"), clean_name("")
    ('my report.pdf', 'ab.txt', 'document')
    """
    last = name.replace("\\", "/").rpartition("/")[2]
    kept = "".join(letter for letter in last if letter.isprintable()).strip()
    return kept[-_LONGEST_NAME:] or "document"


async def _in_process(name: str, suffix: str, data: bytes) -> dict[str, Any] | None:
    """Return the result of the process: a text with its pages, or an error. None if the process was ended."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", _MODULE, suffix, name),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        async with asyncio.timeout(_SECONDS):
            out, _ = await process.communicate(data)
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        return None
    found: dict[str, Any] = json.loads(out)
    return found
