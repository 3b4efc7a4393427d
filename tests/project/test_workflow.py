"""The workflow and the forms of a public forge are valid, and the workflow runs only targets that the Makefile has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from tests.checkout import ROOT

FORGE = ROOT / ".github"


@dataclass(frozen=True)
class Step:
    uses: str = ""
    run: str = ""
    name: str = ""


@dataclass(frozen=True)
class Strategy:
    matrix: dict[str, list[str]]


@dataclass(frozen=True)
class Job:
    steps: list[Step]
    strategy: Strategy = field(default_factory=lambda: Strategy({}))


@dataclass(frozen=True)
class Workflow:
    jobs: dict[str, Job]
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """One element of an issue form."""

    type: str
    attributes: dict[str, str]
    id: str = ""


@dataclass(frozen=True)
class Form:
    name: str
    description: str
    body: list[Question]


def parsed(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def workflow() -> Workflow:
    return TypeAdapter(Workflow).validate_python(parsed(FORGE / "workflows/ci.yml"))


def commands() -> Iterator[str]:
    for job in workflow().jobs.values():
        yield from (line for step in job.steps for line in step.run.splitlines())


def makefile_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))
    (phony,) = re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert targets == set(phony.split())
    return targets


def test_every_command_of_the_workflow_is_a_make_target() -> None:
    words = [command.split() for command in commands()]
    assert {program for program, *_ in words} == {"make"}
    used = {target for _, target, *_ in words}
    assert used <= makefile_targets()
    assert {"install", "lint", "types", "test", "check-quickstart", "docs", "dist"} <= used


def test_the_workflow_checks_what_the_local_check_does() -> None:
    (check,) = re.findall(r"^check: (.*?)  ##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    job = workflow().jobs["check"]
    assert [step.run for step in job.steps if step.run][1:] == [f"make {target}" for target in check.split()]
    local = re.findall(r"^make ([\w-]+)$", (ROOT / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(local) - {"check"} <= {command.split()[1] for command in commands()}


def test_the_workflow_tests_the_oldest_and_the_newest_python_of_the_classifiers() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    job = workflow().jobs["check"]
    assert job.strategy.matrix["python"] == [named[0], named[-1]]
    assert job.steps[2].run == "make install python=python${{ matrix.python }}"


def test_the_workflow_fetches_from_no_named_host() -> None:
    assert not re.findall(r"https?://|index-url", (FORGE / "workflows/ci.yml").read_text(encoding="utf-8"))
    used = {step.uses for job in workflow().jobs.values() for step in job.steps if step.uses}
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", action) for action in used)


def test_the_workflow_skips_the_tests_that_need_real_data() -> None:
    """A runner sets CI=true, with which `conftest.py` refuses to skip them."""
    assert workflow().env["CI"] == "false"


def test_issue_forms_are_valid() -> None:
    forms = [path for path in (FORGE / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    assert {path.stem for path in forms} == {"bug", "feature"}
    for path in forms:
        form = TypeAdapter(Form).validate_python(parsed(path))
        questions = [one for one in form.body if one.type != "markdown"]
        assert {one.type for one in questions} <= {"input", "textarea"}
        assert all(one.attributes["label"] for one in questions)
        assert len({one.id for one in questions} - {""}) == len(questions)
    assert parsed(FORGE / "ISSUE_TEMPLATE/config.yml") == {"blank_issues_enabled": False}
