"""Take the two pictures of docs/serve.md and the README again: the page with an answer, and without one in the dark.

    python scripts/page_pictures.py

It serves the reader in the package and opens the page in Chromium. The pictures of the repository have the fonts Inter and
Noto Serif (on Debian: the packages fonts-inter and fonts-noto-core).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final, Literal

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.serving.browser import chromium, opened  # noqa: E402
from tests.serving.live import running  # noqa: E402

from lamina.serving.settings import Settings  # noqa: E402 - the line above finds the helpers of the tests

TEXT: Final = """The Lantern Guild of Harrowmere is the oldest guild of the marsh country. The guild was established in 1412 \
by Odile Marrash, a chandler's daughter who had lost two brothers to the fog. Its members keep the great lamp on Saltmarsh \
Hill, which can be seen from nine miles away. The guild's motto, "One flame, many roads", is carved above the door of its \
hall in Tallow Street. In 1530 a rival company, the Bellringers of Quenby, began its work; the Bellringers were dissolved \
after only eleven years. Today the Lantern Guild counts some 240 members and is governed by a council of seven wardens, who \
are chosen every spring.

The guild keeps two books. The first lists every keeper of the lamp since its founding, with the year of the oath. The \
second, bound in grey leather, lists the ships that were seen from the hill during the great fog of 1688, and the names of \
those who came ashore.

On the longest night of the year the wardens climb Saltmarsh Hill together. Each carries a lantern of a different colour, \
and the youngest warden lights the great lamp. Nobody may speak until it burns."""
PICTURES: Final[dict[str, tuple[Literal["light", "dark"], str]]] = {
    "serve-answer.png": ("light", "Who founded the Lantern Guild of Harrowmere?"),
    "serve-none.png": ("dark", "What food was served at the feasts of the Lantern Guild?"),
}


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        running(["reader"], Settings(project=Path(folder))) as service,
        chromium() as browser,
    ):
        for name, (scheme, question) in PICTURES.items():
            with opened(browser, service.address, color_scheme=scheme) as page:
                page.wait_for_selector("html[data-ready=yes]")
                page.fill("#paste", TEXT)
                page.fill("#question", question)
                page.press("#question", "Enter")
                page.wait_for_selector("#answer .card")
                page.evaluate("() => document.activeElement.blur()")
                page.screenshot(path=str(ROOT / "docs" / name))


if __name__ == "__main__":
    main()
