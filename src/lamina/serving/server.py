"""Run the service: with uvicorn, until it is stopped."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import signal
import socket
import sys
import webbrowser
from types import FrameType
from typing import TYPE_CHECKING, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from lamina.errors import LaminaError
from lamina.serving.service import State

if TYPE_CHECKING:
    from fastapi import FastAPI

_GRACE: Final = 5  # seconds for what was accepted, besides the time of a request


class _Protocol(H11Protocol):
    """Closes a connection on which the head of a request does not arrive in time; uvicorn waits for it without an end."""

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the timer while no request runs, and stop it when one has begun."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._head is None:
            self._head = self.loop.call_later(self.timeout_keep_alive, self.transport.close)

    def _stop(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


class _Server(uvicorn.Server):
    """A server that ends its streams when it is stopped, and stops if no model can be loaded."""

    def __init__(self, config: uvicorn.Config, state: State, address: str) -> None:
        super().__init__(config)
        self._state, self._address, self._said = state, address, False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._state.closing.set()
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if self._state.models.failure is not None:
            self.should_exit = True
        if self._state.models.ready and not self._said:
            self._said = True
            print(f"lamina: ready at {self._address}", file=sys.stderr, flush=True)
        return await super().on_tick(counter)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 chooses a free one.

    Raises:
        LaminaError: The address is in use or is not of this machine.
    """
    found = None
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # With the protocol 0, asyncio would not set TCP_NODELAY, and each reply would wait 40 ms.
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(2048)
    except OSError as error:
        if found is not None:
            found.close()
        raise LaminaError(
            f"--port {port}: cannot be used: {error.strerror or error}. Fix: choose another --port or --host"
        ) from None
    return found


def configuration(app: FastAPI) -> uvicorn.Config:
    """Return the configuration of uvicorn for the service."""
    state: State = app.state.lamina
    limits = state.settings.limits
    return uvicorn.Config(
        app,
        http=_Protocol,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=math.ceil(limits.receive),
        timeout_graceful_shutdown=math.ceil(limits.seconds) + _GRACE,
        h11_max_incomplete_event_size=64 << 10,
        ws="none",
    )


def run(app: FastAPI, sock: socket.socket, path: str = "", *, opens: bool = False) -> None:
    """Serve until Ctrl-C or SIGTERM. What was accepted is finished.

    Args:
        app: The application of `create_app`.
        sock: The socket of `listen`.
        path: What the address of the page ends with.
        opens: Open the page in the browser of the user.

    Raises:
        LaminaError: A model cannot be loaded.
    """
    host, port = sock.getsockname()[:2]
    shown = "localhost" if is_loopback(host) else host
    address = f"http://[{shown}]:{port}/{path}" if ":" in shown else f"http://{shown}:{port}/{path}"
    print(f"lamina: the page is at {address} (Ctrl-C ends it)", file=sys.stderr, flush=True)
    if opens:
        webbrowser.open(address)  # the socket listens already
    config = configuration(app)
    state: State = app.state.lamina
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # uvicorn raises its signal again after a shutdown in order
    _Server(config, state, address).run([sock])
    if state.models.failure is not None:
        raise state.models.failure
