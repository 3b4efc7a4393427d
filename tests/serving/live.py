"""A service that listens on loopback, in a thread of the test, and a client for it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI

from lamina.serving.app import create_app
from lamina.serving.server import configuration, listen
from lamina.serving.service import State
from lamina.serving.settings import Settings


@dataclass
class Reply:
    """The reply to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"]["message"])


@dataclass
class Service:
    """A running service, with the entries of its log."""

    app: FastAPI
    port: int
    logged: list[Mapping[str, object]] = field(default_factory=list)

    @property
    def state(self) -> State:
        found: State = self.app.state.lamina
        return found

    @property
    def address(self) -> str:
        return f"http://localhost:{self.port}/"

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        raw: bytes | Iterator[bytes] | None = None,
    ) -> Reply:
        """Send a request on a connection of its own and return the reply."""
        connection = http.client.HTTPConnection("localhost", self.port, timeout=120)
        content = raw if raw is not None else None if body is None else json.dumps(body).encode()
        named = {"content-type": "application/json"} if content is not None else {}
        try:
            connection.request(method, path, content, {**named, **(headers or {})})
            reply = connection.getresponse()
            return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
        return self.send("POST", path, body, headers)


@contextmanager
def running(models: Any, settings: Settings, label: str | None = None) -> Iterator[Service]:
    """Yield a service whose models are loaded."""
    logged: list[Mapping[str, object]] = []
    app = create_app(models, settings, label=label, log=logged.append)
    sock = listen("127.0.0.1", 0)
    server = uvicorn.Server(configuration(app))
    thread = threading.Thread(target=server.run, args=([sock],), daemon=True)
    thread.start()
    service = Service(app, sock.getsockname()[1], logged)
    until = time.monotonic() + 120
    while not service.state.models.ready:
        assert thread.is_alive() and service.state.models.failure is None, service.state.models.failure
        assert time.monotonic() < until
        time.sleep(0.02)
    try:
        yield service
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
