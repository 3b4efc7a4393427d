"""The service of `lamina serve`: models behind HTTP, and a page in the browser.

>>> from lamina.serving import create_app  # in a file of your own, for an ASGI server
>>> app = create_app("reader")  # doctest: +SKIP

`app` builds the application. `batching` forms batches across requests, and `work` computes them with a `Reader`. `gate` checks
each request before the application sees it. `documents` reads uploads, `corrections` stores what users correct, and `improving`
fits a model to it. `page/` is the page. It needs the extra `serve`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lamina.serving.app import create_app
    from lamina.serving.settings import Limits, Settings

__all__ = ["Limits", "Settings", "create_app"]


def __getattr__(name: str) -> object:
    from importlib import import_module

    homes = {"create_app": "app", "Limits": "settings", "Settings": "settings"}
    if name not in homes:
        raise AttributeError(f"module 'lamina.serving' has no attribute {name!r}")
    return getattr(import_module(f"lamina.serving.{homes[name]}"), name)
