"""The exception for mistakes that the user can fix, and the warning for likely mistakes."""

import re

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_LONG = re.compile(r"(\S{149})\S{3,}(\S{149})")


class LaminaError(Exception):
    """A mistake in a file, a recipe, a command or an argument, which the user can fix.

    Commands print the message as one line, without a traceback, and exit with code 2.

    The message has the form `WHERE: what is wrong. Fix: what to do.` WHERE is a file, an option (`--contexts`), a recipe
    field (`train.lr`) or an argument. `Fix: ` occurs once, in the last sentence. An error that adds a prefix to another
    error keeps the fix of that error. For example:
    `train.csv, line 12: the answer '1999' is not in the context. Fix: run lamina data clean train.csv`.

    Messages quote texts of strangers. So a line end becomes a space, and characters that control a terminal or the order of
    letters are written as escapes. A word of more than 300 characters loses its middle.

    >>> str(LaminaError("a.csv: the id \\x1b[2J is not unique. Fix: rename it"))
    'a.csv: the id \\\\x1b[2J is not unique. Fix: rename it'

    Args:
        message: The whole message; `str(error)` returns it.
    """

    def __init__(self, message: str) -> None:
        super().__init__(_LONG.sub(r"\1…\2", _UNPRINTABLE.sub(_escaped, message)))


def _escaped(found: re.Match[str]) -> str:
    return " " if found[0] == "\n" else ascii(found[0])[1:-1]


def first_line(error: BaseException) -> str:
    """Return the first line of an error without its fix, or the kind of the error if it has no text.

    >>> first_line(MemoryError()), first_line(LaminaError("a: b. Fix: c"))
    ('MemoryError', 'a: b')
    """
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).partition(". Fix: ")[0]


class LaminaWarning(UserWarning):
    """A warning about input that works but is probably a mistake.

    Commands print it as one line on standard error and go on.

    Args:
        message: The whole message; it starts with the file, option, recipe field or argument.
    """
