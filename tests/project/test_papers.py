"""docs/papers.md lists every work that the code cites, and names only modules, recipes and results that exist."""

from __future__ import annotations

import re

import pytest

from tests.checkout import ROOT

PAPERS = (ROOT / "docs/papers.md").read_text(encoding="utf-8")
CITED = re.compile(r"\b([A-Z]\w+(?: et al\.| and [A-Z]\w+)) (\d{4})\b")  # "Guo et al. 2017", "Wei and Zou 2019"


def code_and_techniques() -> str:
    """Return the text of all modules and of the pages on techniques."""
    paths = [
        *(ROOT / "src/lamina").rglob("*.py"),
        *(ROOT / "docs").glob("techniques*"),
        *(ROOT / "docs/techniques").glob("*.md"),
    ]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths if path.is_file())


def cited_works() -> set[str]:
    found = {f"{authors} {year}" for authors, year in CITED.findall(code_and_techniques())}
    return {work for work in found if work != "Benge and King 2021"}  # BERTVision, which has a section of its own


def test_every_cited_work_is_listed() -> None:
    listed = set(re.findall(r"^\| ([^,|]+ \d{4}), ", PAPERS, re.MULTILINE))
    assert len(cited_works()) > 30
    assert cited_works() - listed == set()


def test_every_listed_work_has_a_use_and_is_listed_once() -> None:
    rows = re.findall(r"^\| ([^,|]+ \d{4}), [^|]+ \| ([^|]+) \|$", PAPERS.split("## Other works")[1], re.MULTILINE)
    works = [work for work, use in rows if use.strip()]
    assert len(works) == PAPERS.split("## Other works")[1].count("\n| ") - 2  # without the two lines of the head
    assert works == sorted(set(works))


@pytest.mark.parametrize("module", sorted(set(re.findall(r"`(\w+(?:/\w+)+\.py)`", PAPERS))))
def test_named_modules_exist(module: str) -> None:
    assert (ROOT / "src/lamina" / module).is_file()


def test_every_recipe_of_the_papers_is_there() -> None:
    folders = "layer-mixers|bertvision|minbert|parameter-efficiency|korean-qa|pretraining|spaces"
    named = set(re.findall(rf"`((?:{folders})/[\w-]+)`", PAPERS))
    assert len(named) > 25
    assert [name for name in named if not (ROOT / "recipes" / f"{name}.toml").is_file()] == []


def test_named_results_and_pages_exist() -> None:
    named = re.findall(r"`((?:results|recipes|docs)/[^`]+)`", PAPERS) + [
        f"docs/{page}" for page in re.findall(r"\((\w+\.md)\)", PAPERS)
    ]
    assert len(named) > 4
    assert [name for name in named if not (ROOT / name).exists()] == []
