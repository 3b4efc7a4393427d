"""The pages are true without running them: links, recipes, data, the field reference and the built site."""

from __future__ import annotations

import ast
import json
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import lamina as lamina_package
from lamina.config.parse import parse_recipe
from lamina.config.recipe import TYPES
from lamina.experiments.studies.plan import plan_study
from lamina.experiments.studies.study_file import Study
from lamina.experiments.tuning.space import parse_space
from lamina.pretraining.pretrain_recipe import parse_pretrain_recipe
from lamina.tasks.checks import build_on_meta
from tests.checkout import ROOT
from tests.command import lamina
from tests.project.pages import DOCS, REASONS, blocks, commands, not_run, pages, sections, steps, text_of

EACH_PAGE = pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
SMALL = {"model": "tiny", "pretrained": False}
REFERENCE = DOCS / "reference" / "recipe.md"


def test_a_marked_block_is_left_out_and_the_others_are_found() -> None:
    text = "<!-- not run: needs the hub -->\n```python\na = 1\n```\n\n```python\nb = 2\n```\n```sh\nmake x  # why\n\nls\n```\n"
    assert not_run(text) == [("needs the hub", "a = 1\n")]
    assert blocks(text, "python") == ["b = 2\n"]
    assert list(steps(text)) == [("python", "b = 2\n"), ("sh", "make x"), ("sh", "ls")]


def test_a_heading_inside_code_is_no_section(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# One\n```sh\n# no heading\n```\n## Two `x`\ntext\n")
    assert list(sections(tmp_path / "page.md")) == ["One", "Two `x`"]


@EACH_PAGE
def test_a_block_that_is_not_run_has_a_known_reason_and_compiles(page: Path) -> None:
    text = text_of(page)
    marked = not_run(text)
    assert len(marked) == text.count("<!-- not run:")
    assert {reason for reason, _ in marked} <= set(REASONS)
    for _, code in marked:
        ast.parse(code)


@EACH_PAGE
def test_every_link_leads_to_a_file(page: Path) -> None:
    code = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", code.sub("", text_of(page)))
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


@EACH_PAGE
def test_the_recipes_of_a_page_are_valid(page: Path) -> None:
    """Those of questions and sentences are built, without weights."""
    for text in blocks(text_of(page), "toml"):
        values = tomllib.loads(text)
        if page.name == "pretrain.md":
            parse_pretrain_recipe(values)
        elif page.name == "studies.md":
            plan = plan_study(Study.model_validate(values), "desk", Path("out"))
            assert len(plan.jobs) == 6 * 3
        elif page.name == "tune.md":
            assert len(parse_space(values).space) == 2
        else:
            if "tasks" not in values:
                values.setdefault("data", {}).setdefault("train", "unused")
            values["encoder"] = SMALL | values.get("encoder", {})
            build_on_meta(parse_recipe(values))


@EACH_PAGE
@pytest.mark.parametrize("ending", ["csv", "json"])
def test_the_data_of_a_page_has_no_problems(page: Path, ending: str, tmp_path: Path) -> None:
    for number, text in enumerate(blocks(text_of(page), ending)):
        file = tmp_path / f"{number}.{ending}"
        file.write_text(text if ending == "csv" else json.dumps([json.loads(text)]))
        done = lamina("data", "check", file)
        assert done.code == 0, done.out + done.err


def test_no_page_names_a_command_that_does_not_exist() -> None:
    from typer.main import get_group

    from lamina.cli import app

    known = {*get_group(app).commands, "--version", "help"}
    named = {command.split()[1] for page in pages() for command in commands(text_of(page)) if command.startswith("lamina ")}
    assert named <= known


def test_the_reference_of_fields_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "recipe_reference.py"))
    assert script["PAGE"] == REFERENCE
    assert REFERENCE.read_text(encoding="utf-8") == script["reference"](), "run make docs"


def test_the_reference_lists_every_field_and_type() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    assert "|  |\n" not in text, "every field has a description"
    for table, types in TYPES.items():
        assert [name for name in types if f'### `{table}.type = "{name}"`' not in text] == []
    fields = sections(REFERENCE)["`train.rates`"]
    assert re.findall(r"^\| `(\w+)`", fields, re.MULTILINE) == ["encoder", "adapters", "mixer", "head"]


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    built = (tmp_path / "site" / "reference" / "python" / "index.html").read_text(encoding="utf-8")
    assert re.search(r'id="lamina\.Reader\.answer"', built)
    loads = re.compile(r'<(?:link|script|img)\b[^>]*?(?:href|src)="?(https?://[^"> ]+)')
    loaded = {found for page in (tmp_path / "site").rglob("*.html") for found in loads.findall(page.read_text("utf-8"))}
    assert loaded == set(), "pages must load nothing from elsewhere"


def test_every_public_name_is_in_the_reference() -> None:
    named = re.findall(r"^::: lamina\.(\w+)$", text_of("docs/reference/python.md"), re.MULTILINE)
    assert sorted(named) == sorted(set(lamina_package.__all__) - {"__version__"})


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = {str(page.relative_to(DOCS)) for page in pages()[1:]}
    assert [name for name in sorted(named) if f" {name}\n" not in navigation] == []
