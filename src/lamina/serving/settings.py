"""The settings of the service, and its API keys."""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lamina.errors import LaminaError
from lamina.runtime.exported import Backend
from lamina.utils.files import expanded, read_text

KEYS_VARIABLE: Final = "LAMINA_SERVE_KEYS"
SHORTEST_KEY: Final = 16
_AT_ONCE: Final = 2


@dataclass(frozen=True)
class Limits:
    """How much one request may ask for, and how much may wait.

    Attributes:
        body: Bytes of a JSON body.
        upload: Bytes of an uploaded document.
        text: Characters of all texts of a request together.
        question: Characters of one question, or of one text to classify, compare or embed.
        items: Questions times texts of a request, or its texts to classify, compare or embed.
        waiting: Requests that wait or are computed at once; more get 429.
        seconds: Time of a request, after which it gets 504.
        receive: Seconds in which the head of a request, and then its body, must arrive.
        held: Bytes of the bodies of all requests at once; more get 429.
    """

    body: int = 8_000_000
    upload: int = 32_000_000
    text: int = 1_000_000
    question: int = 2_000
    items: int = 2_048
    waiting: int = 256
    seconds: float = 120.0
    receive: float = 20.0
    held: int = 256_000_000


@dataclass(frozen=True)
class Settings:
    """How the service behaves.

    Attributes:
        keys: API keys. If there is one, a request without it gets 401. None: everybody may use the service.
        names: Host names that a request may use besides localhost and IP addresses. Only checked without keys.
        origins: Origins of other web pages that may use the service (CORS).
        project: The folder of the corrections.
        runs: The folder whose runs the page lists.
        limits: How much a request may ask for.
        log_texts: Log questions and texts too.
        company: Seconds that a request waits for others at most, to be computed with them.
        budget: Tokens of a batch.
        backend: What computes, as for `lamina.load`.
        threads: How many threads compute, as for `lamina.load`.
    """

    keys: tuple[str, ...] = field(default=(), repr=False)
    names: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    project: Path = Path("lamina-project")
    runs: Path = Path("runs")
    limits: Limits = Limits()
    log_texts: bool = False
    company: float = 0.010
    budget: int = 8_192
    backend: Backend = "auto"
    threads: int | None = None

    @property
    def at_once(self) -> int:
        """The number of batches that are computed at once: two, unless there is one thread."""
        return min(_AT_ONCE, self.threads or os.cpu_count() or 1)


def read_keys(file: str | None, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the API keys of a file, one a line, or else of the environment, separated by commas.

    Raises:
        LaminaError: The file cannot be read or holds no key, or a key is too short. The message never shows a key.
    """
    if file is None:
        keys, where = [key.strip() for key in environment.get(KEYS_VARIABLE, "").split(",")], KEYS_VARIABLE
    else:
        lines = read_text(expanded(file)).splitlines()
        keys, where = [line.strip() for line in lines if not line.startswith("#")], file
    keys = [key for key in keys if key]
    if file is not None and not keys:
        raise LaminaError(f"{file}: has no key. Fix: write one key a line")
    for number, key in enumerate(keys, 1):
        if len(key) < SHORTEST_KEY or not key.isascii() or not key.isprintable():
            what = f"key {number} has {len(key)} characters, but needs {SHORTEST_KEY} or more, all of them ASCII"
            fix = "make one with python -c 'import secrets; print(secrets.token_urlsafe())'"
            raise LaminaError(f"{where}: {what}. Fix: {fix}")
    return tuple(keys)


def is_key(given: str, keys: tuple[str, ...]) -> bool:
    """Return whether a text is one of the keys. The time does not depend on which characters are right."""
    found = False
    for key in keys:
        found |= hmac.compare_digest(given.encode("utf-8", "replace"), key.encode())
    return found
