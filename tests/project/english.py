"""Find sentences that break the rules of plain English: banned phrases, and sentences that are too long.

`python -m tests.project.english PATH…` lists them for Python and Markdown files.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LONGEST = 25  # words of a sentence

BANNED = (  # what not to write; CONTRIBUTING.md has the words to write
    r"said",
    r"told",
    r"tells? apart",
    r"settl(?:e|es|ed|ing)",
    r"mend(?:s|ed|ing)?",
    r"laps?",
    r"in vain",
    r"flatter(?:s|ed|ing)?",
    r"knows? no",
    r"(?:bring|brings|brought) it back",
    r"without number",
    r"made (?:questions?|unanswerable|sentences?|answers?)",
    r"held-out part",
    r"pass(?:es)? over the data",
    r"data sets?",
    r"stands? (?:in|at|on|beside|there|under|where|before|behind)",
    r"stood",
    r"as it is (?:said|told)",
)
_BANNED = re.compile(rf"\b(?:{'|'.join(BANNED)})\b", re.IGNORECASE)
_OF_OPENING = re.compile(r"^Of (?!course\b)\w")  # "Of pairs, the second text"
_SENTENCE_END = re.compile(r"(?<=[.!?:;])[\"')\]]*\s+")
_MESSAGES = ("LaminaError", "Fault", "Problem", "warn", "LaminaWarning", "TypeError", "ValueError", "fail")


@dataclass(frozen=True)
class Text:
    """A piece of prose with its place. `kind`: comment, docstring, message, string or page."""

    file: Path
    line: int
    kind: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line} ({self.kind})"


def sentences(text: str) -> list[str]:
    """Return the sentences of a prose text. A colon, a semicolon and an empty line end one too.

    >>> sentences("Read it. Then write: `a. b` it!")
    ['Read it.', 'Then write:', 'x it!']
    """
    text = re.sub(r"`+[^`]*`+", "x", text)  # code counts as one word
    blocks = re.split(r"\n\s*\n|\n\s*(?=[-*] |\d+\. )", text)
    joined = (" ".join(block.split()) for block in blocks)
    return [one for block in joined for one in _SENTENCE_END.split(block) if one]


def words(sentence: str) -> int:
    """Return the number of words of a sentence; numbers and signs alone do not count.

    >>> words("Use 3 of the -- two files.")
    5
    """
    return sum(1 for word in sentence.split() if re.search(r"[^\W\d]", word))


def banned(text: Text) -> list[str]:
    """Return the banned phrases in a text."""
    prose = re.sub(r"`+[^`]*`+", "x", text.text)
    found = [match.group() for match in _BANNED.finditer(prose)]
    return found + [one[:30] for one in sentences(text.text) if _OF_OPENING.match(one)]


def too_long(text: Text, longest: int = LONGEST) -> list[str]:
    """Return the sentences of a text that have more words than allowed."""
    return [one for one in sentences(text.text) if words(one) > longest]


def texts_of(path: Path) -> Iterator[Text]:
    """Yield the prose of a Python or Markdown file."""
    yield from page_texts(path) if path.suffix == ".md" else python_texts(path)


def page_texts(path: Path) -> Iterator[Text]:
    """Yield the paragraphs, list items and table cells of a Markdown page, without its code blocks."""
    number, block = 1, list[str]()
    code = False
    for line_number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        fence = line.lstrip().startswith(("```", "~~~"))
        row = line.lstrip().startswith("|")
        if code or fence or row or not line.strip() or re.match(r"\s*([-*]|\d+\.|#+) ", line):
            if block:
                yield Text(path, number, "page", _without_links("\n".join(block)))
            block, number = [], line_number
        code ^= fence
        if row:
            for cell in re.split(r"(?<!\\)\|", line):
                yield Text(path, line_number, "page", _without_links(cell))
        elif not code and not fence and line.strip():
            block.append(re.sub(r"^\s*([-*>]|\d+\.|#+) ", "", line))


def _without_links(text: str) -> str:
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("**", "")


def python_texts(path: Path) -> Iterator[Text]:
    """Yield the comments, docstrings, messages and other strings of a module. A field of an f-string becomes `x`."""
    source = path.read_text(encoding="utf-8")
    yield from _comments(path, source)
    tree = ast.parse(source)
    docstrings = {id(node) for node in _docstrings(tree)}
    messages = {id(part) for call in _message_calls(tree) for part in ast.walk(call)}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        kind = "docstring" if id(node) in docstrings else "message" if id(node) in messages else "string"
        if isinstance(node, ast.JoinedStr):
            yield Text(path, node.lineno, kind, "".join(map(_literal, node.values)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and (id(node) not in inside):
            yield Text(path, node.lineno, kind, _without_examples(node.value) if kind == "docstring" else node.value)


def _literal(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "x"


def _without_examples(docstring: str) -> str:
    """A docstring without its doctests."""
    return re.sub(r"^\s*>>> .*(?:\n(?!\s*\n).*)*", "", docstring, flags=re.MULTILINE)


def _docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            first = node.body[0]
            assert isinstance(first, ast.Expr)
            yield first.value


def _message_calls(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in _MESSAGES:
                yield node


def _comments(path: Path, source: str) -> Iterator[Text]:
    """Yield comments; lines that only hold a comment and follow one another are one text."""
    block, first, last = list[str](), 0, -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or re.match(r"# ?(?:noqa|type:|!)", token.string):
            continue
        text, alone = token.string.lstrip("#").strip(), token.line.lstrip().startswith("#")
        if not (alone and token.start[0] == last + 1):
            if block:
                yield Text(path, first, "comment", "\n".join(block))
            block, first = [], token.start[0]
        block.append(text)
        last = token.start[0] if alone else -1
    if block:
        yield Text(path, first, "comment", "\n".join(block))


def files_of(path: Path) -> list[Path]:
    """Return the Python and Markdown files of a folder, or the file itself."""
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.suffix in (".py", ".md"))


def main(paths: list[str]) -> None:
    count = 0
    for file in (file for path in paths for file in files_of(Path(path))):
        for text in texts_of(file):
            for found in banned(text):
                print(f"{text.place}: banned: {found}")
                count += 1
            if text.kind != "string":
                for found in too_long(text):
                    print(f"{text.place}: {words(found)} words: {found}")
                    count += 1
    print(count, "findings")


if __name__ == "__main__":
    main(sys.argv[1:])
