"""What happens to each request before and after the application: checks, limits, headers, one log line.

- Host: without keys, only localhost, IP addresses and the names in the settings. So no other web page can reach a local
  service under a name of its own (DNS rebinding).
- Origin: a request that can change something must come from this page, from an allowed origin, or from no browser.
- Key: with keys, all but the page itself needs one, as `Authorization: Bearer KEY`.
- Body: it must arrive whole within a time and a size, before the application starts.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import secrets
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from lamina.serving.metrics import Metrics
from lamina.serving.settings import Settings, is_key

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
Log = Callable[[Mapping[str, object]], None]

PUBLIC: Final = ("/", "/health", "/ready", "/openapi.json", "/favicon.ico")  # without a key
SAFE: Final = ("GET", "HEAD", "OPTIONS")
UPLOADS: Final = "/documents"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def to_standard_error(entry: Mapping[str, object]) -> None:
    """Print a log entry as one line of JSON."""
    print(json.dumps(entry, ensure_ascii=True), file=sys.stderr, flush=True)


@dataclass
class Refusal(Exception):  # noqa: N818 - it is no mistake of ours
    """A request that the application does not see."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)


def error_body(code: str, message: str) -> dict[str, dict[str, str]]:
    """Return the body of every error reply."""
    return {"error": {"code": code, "message": message}}


class Gate:
    """ASGI middleware around the application."""

    def __init__(self, app: App, settings: Settings, metrics: Metrics, log: Log) -> None:
        self._app, self._settings, self._metrics, self._log = app, settings, metrics, log
        self._held = 0  # bytes of the bodies of all open requests

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, send, self._settings)
        try:
            self._check(exchange)
            if exchange.preflight:
                await exchange.refuse(Refusal(204, "", ""))
            else:
                body = await self._body(exchange, receive)
                await _run(self._app, scope, body, receive, exchange.send)
        except Refusal as refusal:
            await exchange.refuse(refusal)
        except ConnectionError:
            exchange.status = exchange.status or 499  # the client has gone
        except Exception as error:
            exchange.failure = error
            if not exchange.status:
                await exchange.refuse(Refusal(500, "internal", "service: an error of Lamina itself. Fix: report it"))
        finally:
            self._free(exchange)
            self._note(exchange)

    def _check(self, exchange: _Exchange) -> None:
        """Raise Refusal unless the request may be answered."""
        settings = self._settings
        if not settings.keys and not _may_name(exchange.host, settings.names):
            fix = "use localhost or an IP address, or start lamina serve with --name"
            raise Refusal(421, "host", f"host: this name is not served. Fix: {fix}")
        if exchange.method not in SAFE and not exchange.same_origin:
            raise Refusal(403, "origin", "origin: another web page may not do this. Fix: allow it with lamina serve --cors")
        public = exchange.path in PUBLIC or exchange.path.startswith("/page/") or exchange.preflight
        if settings.keys and not public and not is_key(exchange.key, settings.keys):
            message = "key: the service needs a key. Fix: send the header Authorization: Bearer KEY"
            raise Refusal(401, "key", message, {"www-authenticate": "Bearer"})

    async def _body(self, exchange: _Exchange, receive: Receive) -> bytes:
        """Return the whole body; raise Refusal if it is too large or too slow.

        The rest of a refused body is read and discarded: a client that still sends would see a reset instead of the reply.
        """
        limits = self._settings.limits
        limit = limits.upload if exchange.path == UPLOADS else limits.body
        declared, refused = exchange.headers.get("content-length", "0"), None
        if declared.isdigit() and int(declared) > limit:
            refused = _too_large(int(declared), limit)
            if "expect" in exchange.headers:
                raise refused  # the client sends nothing before it may
        parts, size = list[bytes](), 0
        try:
            async with asyncio.timeout(limits.receive):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ConnectionError
                    if refused is None:
                        parts.append(message.get("body", b""))
                        size += len(parts[-1])
                        refused = _too_large(size, limit) if size > limit else self._hold(exchange, len(parts[-1]))
                    if refused is not None:
                        parts.clear()
                        self._free(exchange)
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            if refused is not None:
                raise refused from None
            what = f"body: did not arrive within {limits.receive:g} seconds"
            raise Refusal(408, "slow", f"{what}. Fix: send it faster", {"connection": "close"}) from None
        if refused is not None:
            raise refused
        return b"".join(parts)

    def _hold(self, exchange: _Exchange, size: int) -> Refusal | None:
        """Count more bytes of a body; return a refusal if all open requests hold too many."""
        if self._held + size > self._settings.limits.held:
            headers = {"connection": "close", "retry-after": "2"}
            return Refusal(429, "full", "body: too many large requests wait. Fix: try again after some seconds", headers)
        self._held += size
        exchange.held += size
        return None

    def _free(self, exchange: _Exchange) -> None:
        """Count the bytes of a request no longer."""
        self._held -= exchange.held
        exchange.held = 0

    def _note(self, exchange: _Exchange) -> None:
        """Count the request and log one line. The line has no text of the request, unless the settings ask for it."""
        route = exchange.scope.get("route")
        path = getattr(route, "path", None) or (exchange.path if exchange.path in PUBLIC else "other")
        seconds = time.monotonic() - exchange.began
        status = exchange.status or 499
        self._metrics.requests.add(path=path, method=exchange.known_method, status=str(status))
        self._metrics.seconds.observe(seconds, path=path)
        entry: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "request": exchange.id,
            "method": exchange.known_method,
            "path": path,
            "status": status,
            "ms": round(1000 * seconds, 1),
            "client": (exchange.scope.get("client") or ("",))[0],
            **exchange.scope.get("state", {}).get("noted", {}),
        }
        if exchange.failure is not None:  # the places, without the message: it could hold a text
            frames = traceback.extract_tb(exchange.failure.__traceback__)[-3:]
            entry["error"] = type(exchange.failure).__name__
            entry["at"] = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
        self._log(entry)


class _Exchange:
    """One request and its reply."""

    def __init__(self, scope: MutableMapping[str, Any], send: Send, settings: Settings) -> None:
        self.scope, self._send, self._settings = scope, send, settings
        self.began = time.monotonic()
        self.id = secrets.token_hex(6)
        self.method, self.path = str(scope["method"]), str(scope["path"])
        self.headers: dict[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        self.status = 0
        self.held = 0  # bytes of its body
        self.failure: Exception | None = None
        scope.setdefault("state", {})["noted"] = {}

    @property
    def known_method(self) -> str:
        return self.method if self.method in (*SAFE, "POST", "PUT", "DELETE", "PATCH") else "other"

    @property
    def host(self) -> str:
        """The host that the client named, without the port."""
        try:
            return (urlsplit(f"//{self.headers.get('host', '')}").hostname or "").lower()
        except ValueError:
            return ""

    @property
    def origin(self) -> str:
        return self.headers.get("origin", "")

    @property
    def allowed_origin(self) -> bool:
        return bool(self.origin) and self.origin in self._settings.origins

    @property
    def same_origin(self) -> bool:
        """Whether no other web page sent the request. A browser always sends Origin with a request that is not safe."""
        if self.allowed_origin:
            return True
        if self.origin:
            return urlsplit_or_none(self.origin) == self.headers.get("host", "").lower()
        return self.headers.get("sec-fetch-site", "none") in ("none", "same-origin")

    @property
    def preflight(self) -> bool:
        return self.method == "OPTIONS" and self.allowed_origin and "access-control-request-method" in self.headers

    @property
    def key(self) -> str:
        scheme, _, value = self.headers.get("authorization", "").partition(" ")
        return value.strip() if scheme.lower() == "bearer" else ""

    async def send(self, message: Message) -> None:
        """Send a message of the application, with the headers of every reply."""
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            own = {**HEADERS, "x-request-id": self.id, **self._cors()}
            present = {name.lower() for name, _ in message.get("headers", [])}
            if b"cache-control" not in present:
                own["cache-control"] = "no-store"
            added = [(name.encode(), value.encode("latin-1")) for name, value in own.items() if name.encode() not in present]
            message["headers"] = [*message.get("headers", []), *added]
        await self._send(message)

    def _cors(self) -> dict[str, str]:
        if not self.allowed_origin:
            return {}
        return {
            "access-control-allow-origin": self.origin,
            "access-control-allow-methods": "GET, POST, PUT, DELETE",
            "access-control-allow-headers": "authorization, content-type",
            "cross-origin-resource-policy": "cross-origin",
            "vary": "origin",
        }

    async def refuse(self, refusal: Refusal) -> None:
        """Reply with an error, or with nothing for status 204."""
        body = b"" if refusal.status == 204 else json.dumps(error_body(refusal.code, refusal.message)).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body)), **refusal.headers}
        start = {"type": "http.response.start", "status": refusal.status}
        with suppress(ConnectionError, OSError):
            await self.send(start | {"headers": [(name.encode(), value.encode()) for name, value in headers.items()]})
            await self.send({"type": "http.response.body", "body": body})


async def _run(app: App, scope: MutableMapping[str, Any], body: bytes, receive: Receive, send: Send) -> None:
    """Run the application with a body that has arrived. Cancel it when the client goes."""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])
    gone = asyncio.Event()

    async def given() -> Message:
        for message in messages:
            return message
        await gone.wait()
        return {"type": "http.disconnect"}

    work = asyncio.ensure_future(app(scope, given, send))

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()
        work.cancel()

    watcher = asyncio.create_task(watch())
    try:
        await work
    except asyncio.CancelledError:
        if gone.is_set():
            raise ConnectionError from None
        work.cancel()
        raise
    finally:
        watcher.cancel()


def _too_large(size: int, limit: int) -> Refusal:
    what = f"body: has {size:,} bytes or more, over the limit of {limit:,}"
    return Refusal(413, "too_large", f"{what}. Fix: send less at once", {"connection": "close"})


def _may_name(host: str, names: tuple[str, ...]) -> bool:
    """Return whether a host cannot be a name of another web page: localhost, an IP address, or a name in the settings."""
    if host in ("localhost", *names):
        return True
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def urlsplit_or_none(origin: str) -> str | None:
    """Return the host and port of an origin; None for one that is not http or https, such as "null"."""
    try:
        parts = urlsplit(origin.lower())
    except ValueError:
        return None
    return parts.netloc if parts.scheme in ("http", "https") and parts.netloc else None
