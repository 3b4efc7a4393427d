"""A real browser for the tests of reports: Debian's Chromium, which scripts/install_browser.sh installs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
SERIOUS = ("serious", "critical")


@contextmanager
def opened(file: Path, **options: Any) -> Iterator[Page]:
    """Yield a page that shows a file. Afterwards, check that nothing was loaded from elsewhere."""
    program = next((path for path in map(shutil.which, NAMES) if path), None)
    assert program, "there is no Chromium. Fix: run scripts/install_browser.sh"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(**options).new_page()
        page.set_default_timeout(120_000)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.as_uri())
        yield page
        assert asked == [file.as_uri()]
        browser.close()


def violations(page: Page) -> list[str]:
    """Return the serious violations of accessibility that axe-core finds on a page."""
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    wrong = [one for one in found["violations"] if one["impact"] in SERIOUS]
    return [f"{one['id']}: {node['html'][:150]}" for one in wrong for node in one["nodes"]]
