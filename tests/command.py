"""Run the command `lamina` inside the process of the test."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from lamina import cli


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


def lamina(*arguments: object, stdin: bytes = b"") -> Result:
    """Return the exit code, the standard output and the standard error of a command."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    words: Sequence[str] = ["lamina", *map(str, arguments)]
    with (
        patch.object(sys, "argv", words),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        patch("signal.signal"),  # keep pytest's handler of Ctrl-C
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    return Result(code, out.getvalue(), err.getvalue())
