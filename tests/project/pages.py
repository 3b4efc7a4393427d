"""Read the pages of the project: README.md and docs/. Their commands, examples, recipes and sections.

A block that cannot run here follows a line `<!-- not run: REASON -->`. Such a block must still compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.checkout import ROOT

DOCS = ROOT / "docs"
TECHNIQUES = DOCS / "techniques"
REASONS = ("needs the hub", "needs mlflow", "needs wandb")  # why a block may be left out
_NOT_RUN = re.compile(r"^<!-- not run: (.+?) -->\n(```python\n.*?^```)$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """Return all pages, the README first."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def text_of(page: str | Path) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def not_run(text: str) -> list[tuple[str, str]]:
    """Return the reason and the code of each block that is left out."""
    return [(reason, block.removeprefix("```python\n").removesuffix("```")) for reason, block in _NOT_RUN.findall(text)]


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of a language, without those that are marked as not run."""
    return re.findall(rf"^```{language}\n(.*?)^```", _NOT_RUN.sub("", text), re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """Return the commands of a page in their order, without comments."""
    lines = [line.partition("  #")[0].strip() for block in blocks(text, "sh") for line in block.splitlines()]
    return [line for line in lines if line]


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Yield ("sh", command) and ("python", code) in the order of the page."""
    for language, block in re.findall(r"^```(sh|python)\n(.*?)^```", _NOT_RUN.sub("", text), re.MULTILINE | re.DOTALL):
        if language == "python":
            yield language, block
        else:
            yield from (("sh", command) for command in commands(f"```sh\n{block}```"))


def sections(page: str | Path) -> dict[str, str]:
    """Return the text under each heading of a page, by heading. Lines of code that start with # are no headings."""
    found: dict[str, list[str]] = {}
    current, code = "", False
    for line in text_of(page).splitlines(keepends=True):
        code ^= line.startswith("```")
        if not code and re.match(r"#+ ", line):
            current = line.lstrip("#").strip()
        found.setdefault(current, []).append(line)
    return {heading: "".join(lines) for heading, lines in found.items()}


def technique(page: str, name: str) -> str:
    """Return the section of docs/techniques/PAGE.md whose heading names a technique, such as `dot` or `terms.rdrop`."""
    found = [text for heading, text in sections(TECHNIQUES / f"{page}.md").items() if f"`{name}`" in heading]
    assert len(found) == 1, f"docs/techniques/{page}.md: {len(found)} headings with `{name}`, not 1"
    return found[0]


def assert_documented(page: str, name: str) -> None:
    """Check that a technique has a section with its lines of a recipe, its effect, its trade-off and its limits."""
    text = technique(page, name)
    missing = [part for part in ("```toml", "**What it does.**", "**Trade-off.**", "**When not.**") if part not in text]
    assert not missing, f"docs/techniques/{page}.md: the section of `{name}` lacks {', '.join(missing)}"
