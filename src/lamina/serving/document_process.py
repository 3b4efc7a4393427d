"""The process that reads one upload: bytes on standard input, JSON on standard output."""

from __future__ import annotations

import json
import re
import sys
from typing import Final

from lamina.errors import LaminaError
from lamina.reader.documents import make_document

_MEMORY: Final = 1_500_000_000  # bytes
_SECONDS: Final = 25  # of the processor


def main(suffix: str, name: str) -> None:
    """Read the file and print its text and pages, or the error."""
    _limit()
    data = sys.stdin.buffer.read()
    found: dict[str, object]
    try:
        document = make_document(name, data, suffix)
        text = document.text if document.pages else "\n".join(re.split(r"\r\n?|\n", document.text))  # as browsers count lines
        found = {"text": text, "pages": document.pages}
    except LaminaError as error:
        found = {"error": str(error)}
    sys.stdout.write(json.dumps(found))


def _limit() -> None:
    """Limit the memory and the time of this process, where the system can."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
