"""Which arguments of `lamina ask` are texts and which are questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lamina.errors import LaminaError
from lamina.utils.files import holds

AT_ONCE = 32  # so many files are read at once; more are read one after the other
ENDINGS = (".txt", ".md", ".html", ".htm", ".xhtml", ".pdf", ".docx")
PACKED = (".gz", ".xz")
_QUESTION_ENDS = ("?", "？", "؟", "!", "。")


@dataclass(frozen=True)
class Asked:
    """The questions and the texts of a command line."""

    questions: list[str]  # empty: they come from standard input or from a conversation
    files: list[str]  # files and folders; - is standard input
    texts: list[str]  # given on the command line itself
    streamed: bool  # files are read one after the other, in bounded memory


def sort_arguments(
    words: Sequence[str],
    after_dashes: Sequence[str],
    context: Sequence[str],
    contexts: Sequence[str],
    texts: Sequence[str],
    *,
    piped: bool,
) -> Asked:
    """Return the questions and the texts of a command line.

    Args:
        words: The arguments before `--`: names that exist and `-` are texts, the rest are questions.
        after_dashes: The arguments after `--`: all are questions.
        context: The values of `--context`: files that are read at once.
        contexts: The values of `--contexts`: files and folders that are read one after the other.
        texts: The values of `--text`.
        piped: Whether standard input is a pipe or a file.

    Raises:
        LaminaError: An argument looks like a path but does not exist, or the texts cannot be read together.
    """
    named = [word for word in words if _is_text(word)]
    questions = [*(word for word in words if not _is_text(word)), *after_dashes]
    folders = [name for name in named if name != "-" and holds(Path(name).is_dir)]
    if contexts and (context or texts or named):
        other = "--context" if context else "--text" if texts else named[0]
        raise LaminaError(
            f"--contexts: reads files one after the other, but {other} is kept in memory. Fix: name all texts one way"
        )
    at_once = [*context, *named]
    if folders and (context or texts or "-" in named):
        other = "--context" if context else "--text" if texts else "standard input"
        raise LaminaError(
            f"{folders[0]}: a folder is read file by file, but {other} is kept in memory. Fix: ask them one by one"
        )
    streamed = bool(contexts or folders) or (len(named) > AT_ONCE and not (context or texts or "-" in named))
    if piped and questions and not at_once and not texts and not contexts:
        at_once = ["-"]  # piped input is the text
    if at_once.count("-") > (1 if questions else 0):
        raise LaminaError("-: standard input is read once. Fix: name the questions, and the other texts as files")
    return Asked(questions, [*contexts, *at_once], [*texts], streamed)


def _is_text(word: str) -> bool:
    """Whether an argument is a text. A name of a file that does not exist raises LaminaError."""
    if word == "-" or (word.strip() and holds(Path(word).exists)):
        return True
    if looks_like_path(word):
        raise LaminaError(f"{word}: no such file. Fix: check the name; if it is a question, put it after --")
    return False


def looks_like_path(word: str) -> bool:
    """Return whether a word that is no file was meant as one: by its ending, or by a slash in a word without spaces.

    >>> [looks_like_path(word) for word in ("report.pdf", "my notes.txt.gz", "docs/2024", "Who?", "Is it and/or?", "뭐/누구?")]
    [True, True, True, False, False, False]
    """
    word = word.strip()
    path = Path(word)
    ending = (Path(path.stem) if path.suffix.lower() in PACKED else path).suffix.lower()
    return ending in ENDINGS or ("/" in word and len(word.split()) == 1 and not word.endswith(_QUESTION_ENDS))
