"""Change pages before MkDocs builds them: a link to a file outside docs/ becomes plain text with the file's name."""

from __future__ import annotations

import re

_OUTSIDE = re.compile(r"!?\[([^\]]*)\]\((?:\.\./)+((?:results|recipes|examples|scripts|[A-Z]+\.md)[^)]*)\)")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the text of a page. MkDocs calls this for each page.

    >>> on_page_markdown("See ![curves](../results/minbert/curves.png) and [evaluate](../evaluate.md).")
    'See curves (`results/minbert/curves.png`) and [evaluate](../evaluate.md).'
    """
    return _OUTSIDE.sub(r"\1 (`\2`)", markdown)
