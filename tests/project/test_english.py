"""What Lamina writes is plain English: docstrings, comments, messages, help texts and pages. `english.py` has the rules."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import lamina
from lamina.cli import app
from tests.checkout import ROOT
from tests.project.english import LONGEST, Text, banned, files_of, python_texts, sentences, texts_of, too_long, words

SRC = ROOT / "src/lamina"
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md")]
CODE = [ROOT / name for name in ("src", "tests", "scripts", "benchmarks", "examples")]
CORPUS = SRC / "data/fables"  # its strings are the texts of a corpus
RULES = [ROOT / "tests/project/english.py", ROOT / "tests/project/test_english.py"]  # they name what is banned


@cache
def written() -> list[Text]:
    """Return the prose of the project's modules and pages."""
    files = [file for path in (*CODE, *PAGES, ROOT / "docs") for file in files_of(path) if file not in RULES]
    texts = [text for file in files for text in texts_of(file)]
    return [text for text in texts if text.kind != "string" or _speaks(text.file)]


def _speaks(file: Path) -> bool:
    """Whether the strings of a module are Lamina's own words. Those of tests and of the corpus are examples."""
    return file.is_relative_to(SRC) and not file.is_relative_to(CORPUS)


def test_no_banned_phrase() -> None:
    assert [f"{text.place}: {found}" for text in written() for found in banned(text)] == []


def test_no_long_sentence() -> None:
    prose = [text for text in written() if text.kind != "string"]
    assert [f"{text.place}: {found}" for text in prose for found in too_long(text)] == []


def _helps(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield the help texts of a command, its options and its commands. The types are private to typer."""
    yield name, command.help or ""
    for parameter in command.params:
        yield f"{name} {parameter.name}", getattr(parameter, "help", None) or ""
    for one in getattr(command, "commands", {}).values():
        yield from _helps(one, f"{name} {one.name}")


@cache
def helps() -> list[tuple[str, str]]:
    return list(_helps(typer.main.get_command(app), "lamina"))


def test_every_command_and_option_has_a_short_help() -> None:
    assert len(helps()) > 100
    assert [name for name, text in helps() if not text.strip()] == []
    long = [(name, one) for name, text in helps() for one in sentences(text) if words(one) > LONGEST]
    assert long == []
    assert [(name, found) for name, text in helps() for found in banned(Text(SRC, 0, "help", text))] == []


def _error_calls(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the literal words of each LaminaError of a module, with its line."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "LaminaError":
            literals = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
            yield node.lineno, " ".join(str(value) for value in literals)


def test_every_error_says_how_to_fix_it() -> None:
    """An error with words of its own has a `Fix:`. One without only puts a place before another error."""
    calls = [(file, *call) for file in SRC.rglob("*.py") for call in _error_calls(file)]
    assert len(calls) > 150
    own = [(file, line, text) for file, line, text in calls if len(re.findall(r"[A-Za-z]{2,}", text)) > 3]
    assert [f"{file}:{line}: {text}" for file, line, text in own if "Fix: " not in text] == []


def _public() -> Iterator[tuple[str, object]]:
    """Yield the exported functions, and the public methods of exported classes that Lamina defines."""
    for name in lamina.__all__:
        value = getattr(lamina, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value) and not issubclass(value, Exception):
            yield name, value
            for method, inner in inspect.getmembers(value, inspect.isfunction):
                if not method.startswith("_") and (inner.__module__ or "").startswith("lamina."):
                    yield f"{name}.{method}", inner


@pytest.mark.parametrize("name, value", list(_public()), ids=lambda one: one if isinstance(one, str) else "")
def test_public_names_are_documented(name: str, value: object) -> None:
    """Functions and methods have Args with every parameter, and Returns where they return something."""
    document = inspect.getdoc(value) or ""
    assert document, name
    if not inspect.isfunction(value):
        return
    signature = inspect.signature(value)
    parameters = [one for one in signature.parameters if one != "self"]
    arguments = document.partition("Args:")[2]
    assert [one for one in parameters if not re.search(rf"^\s+\*{{0,2}}{one}\b.*:", arguments, re.MULTILINE)] == []
    if signature.return_annotation not in ("None", None):
        assert re.search(r"^(Returns|Yields):", document, re.MULTILINE), f"{name} has no Returns"


def test_the_checker_finds_what_it_should(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    long = "word " * (LONGEST + 1)
    module.write_text(f'"""Of pairs, the second."""\n# It is settled.\nraise LaminaError(f"{{x}}: {long}")\n')
    found = {text.kind: (banned(text), too_long(text)) for text in python_texts(module)}
    assert found["docstring"] == (["Of pairs, the second."], [])
    assert found["comment"] == (["settled"], [])
    assert found["message"][0] == [] and len(found["message"][1]) == 1
