"""A real browser for the tests of the page: Debian's Chromium, started once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
SERIOUS = ("serious", "critical")


def program() -> str:
    """Return the path of Chromium. `make install` installs it."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    assert found, "there is no Chromium. Fix: run scripts/install_browser.sh"
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a browser without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """Yield a page that shows an address. Afterwards, check that no script failed and nothing was loaded from elsewhere."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, "accept_downloads": True, **options})
    context.set_default_timeout(60_000)
    page = context.new_page()
    wrong, origin = list[str](), address.partition("#")[0]
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if "Content Security" in message.text else None)
    page.on(
        "request", lambda request: None if request.url.startswith((origin, "blob:", "data:")) else wrong.append(request.url)
    )
    try:
        page.goto(address)
        yield page
        assert wrong == []
    finally:
        context.close()


@cache
def _axe() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def violations(page: Page) -> list[str]:
    """Return the serious violations of accessibility that axe-core finds on a page."""
    page.evaluate(_axe())
    found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{one['id']}: {node['html'][:150]} {node['any'][0]['message'][:200] if node['any'] else ''}"
        for one in found["violations"]
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]
