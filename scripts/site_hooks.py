"""Change pages before MkDocs builds them.

A link to a file outside docs/ becomes plain text with the file's name. The glossary of CONTRIBUTING.md is put into its page.
"""

from __future__ import annotations

import re
from pathlib import Path

_CONTRIBUTING = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"
_GLOSSARY = "<!-- the site shows the table here: scripts/site_hooks.py -->"
_OUTSIDE = re.compile(r"!?\[([^\]]*)\]\((?:\.\./)+((?:results|recipes|examples|scripts|[A-Z]+\.md)[^)]*)\)")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the text of a page. MkDocs calls this for each page.

    >>> on_page_markdown("See ![curves](../results/minbert/curves.png) and [evaluate](../evaluate.md).")
    'See curves (`results/minbert/curves.png`) and [evaluate](../evaluate.md).'
    """
    return _OUTSIDE.sub(r"\1 (`\2`)", markdown).replace(_GLOSSARY, glossary() if _GLOSSARY in markdown else "")


def glossary() -> str:
    """Return the table of terms of CONTRIBUTING.md."""
    section = _CONTRIBUTING.read_text(encoding="utf-8").partition("## Glossary\n")[2].partition("\n## ")[0]
    return section[section.index("| term |") :]
