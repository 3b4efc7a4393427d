"""Each request is checked before the application sees it: host, origin, key, size and time."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import lamina
from lamina.errors import LaminaError
from lamina.serving.gate import urlsplit_or_none
from lamina.serving.settings import Limits, Settings, is_key, read_keys
from tests.serving.live import Service, running

KEY = "a-key-of-more-than-16-letters"
ASK = {"question": "Who built the mill?", "context": "Ada Thorn built the mill."}


@pytest.fixture(scope="module")
def guarded(reader: lamina.Reader, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Yield a service with a key, an allowed origin and small limits."""
    limits = replace(Limits(), body=5_000, upload=9_000)
    folder = tmp_path_factory.mktemp("guarded")
    settings = Settings(
        keys=("another-key-of-enough-letters", KEY), origins=("https://example.org",), limits=limits, project=folder
    )
    with running({"small": reader}, settings) as service:
        yield service


@pytest.fixture(scope="module")
def hasty(reader: lamina.Reader, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Yield a service that does not wait for slow clients."""
    limits = replace(Limits(), body=5_000, receive=0.4)
    with running({"small": reader}, Settings(limits=limits, project=tmp_path_factory.mktemp("hasty"))) as service:
        yield service


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8000", "192.168.1.4:80"])
def test_hosts_that_no_other_page_can_have(service: Service, host: str) -> None:
    assert service.get("/health", {"host": host}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", "", "[::", "a b"])
def test_a_page_that_rebinds_its_name_is_refused(service: Service, host: str) -> None:
    for path in ("/", "/health", "/models"):
        assert service.get(path, {"host": host}).status == 421
    assert service.post("/answer", ASK, {"host": host}).status == 421


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "file://", "http://[::"])
def test_requests_of_other_pages_are_refused(service: Service, origin: str) -> None:
    for path in ("/answer", "/project/corrections", "/project/improve", "/documents?name=a.txt"):
        reply = service.post(path, ASK, {"origin": origin})
        assert (reply.status, reply.json["error"]["code"]) == (403, "origin")
    assert service.send("DELETE", "/project/improve", headers={"origin": origin}).status == 403
    assert service.post("/answer", ASK, {"sec-fetch-site": "cross-site"}).status == 403


def test_requests_of_the_page_itself_are_answered(service: Service) -> None:
    assert service.post("/answer", ASK, {"origin": f"http://localhost:{service.port}"}).status == 200
    assert service.post("/answer", ASK, {"sec-fetch-site": "same-origin"}).status == 200


def test_every_reply_has_the_security_headers(service: Service) -> None:
    for reply in (
        service.get("/"),
        service.get("/nothing"),
        service.post("/answer", ASK),
        service.get("/", {"host": "evil.example"}),
    ):
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert "unsafe" not in reply.headers["content-security-policy"]
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in reply.headers


def test_a_key_is_needed_for_all_but_the_page(guarded: Service) -> None:
    for path in ("/", "/page/main.js", "/health", "/ready", "/openapi.json"):
        assert guarded.get(path).status == 200
    for path in ("/models", "/metrics", "/project", "/runs"):
        assert guarded.get(path).status == 401
        assert guarded.get(path, {"authorization": f"Bearer {KEY}"}).status == 200
    for header in ("", "Bearer", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", f"Basic {KEY}", KEY):
        reply = guarded.post("/answer", ASK, {"authorization": header})
        assert reply.status == 401 and reply.headers["www-authenticate"] == "Bearer"
    assert guarded.post("/answer", ASK, {"authorization": f"Bearer {KEY}"}).status == 200
    assert KEY not in json.dumps(guarded.logged) and KEY not in repr(guarded.state.settings)


def test_an_allowed_origin_may_use_the_service(guarded: Service) -> None:
    allowed = {"origin": "https://example.org"}
    asked = guarded.send("OPTIONS", "/answer", headers=allowed | {"access-control-request-method": "POST"})
    assert asked.status == 204 and asked.headers["access-control-allow-origin"] == "https://example.org"
    assert "authorization" in asked.headers["access-control-allow-headers"]
    reply = guarded.post("/answer", ASK, allowed | {"authorization": f"Bearer {KEY}"})
    assert (reply.status, reply.headers["access-control-allow-origin"]) == (200, "https://example.org")
    assert guarded.send("OPTIONS", "/answer", headers={"origin": "https://evil.example"}).status in (401, 403, 405)


def test_bodies_over_the_limit_get_413(guarded: Service) -> None:
    headers = {"authorization": f"Bearer {KEY}"}
    reply = guarded.post("/answer", {"question": "Who?", "context": "a" * 6_000}, headers)
    assert reply.status == 413 and "over the limit of 5,000" in reply.error
    assert guarded.send("POST", "/documents?name=a.txt", raw=b"a" * 8_000, headers=headers).status == 200
    assert guarded.send("POST", "/documents?name=a.txt", raw=b"a" * 9_001, headers=headers).status == 413
    chunks = b"POST /answer HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer " + KEY.encode()
    chunks += b"\r\ntransfer-encoding: chunked\r\n\r\n" + (b"400\r\n" + b"a" * 1024 + b"\r\n") * 8
    assert b" 413 " in sent(guarded, chunks + b"0\r\n\r\n")


def test_a_client_that_still_sends_gets_413(guarded: Service) -> None:
    headers = {"authorization": f"Bearer {KEY}"}
    for _ in range(3):
        reply = guarded.send("POST", "/answer", raw=b"a" * 20_000_000, headers=headers)
        assert reply.status == 413 and "has 20,000,000 bytes" in reply.error
    assert guarded.send("POST", "/answer", raw=iter([b"a" * 1_000_000] * 20), headers=headers).status == 413


def test_an_oversize_body_that_never_ends_gets_413(hasty: Service) -> None:
    head = b"POST /answer HTTP/1.1\r\nhost: localhost\r\n"
    assert b" 413 " in sent(hasty, head + b"content-length: 9000\r\n\r\n" + b"a" * 6_000)
    assert b" 413 " in sent(hasty, head + b"transfer-encoding: chunked\r\n\r\n" + b"1800\r\n" + b"a" * 0x1800 + b"\r\n")
    assert b" 413 " in sent(hasty, head + b"expect: 100-continue\r\ncontent-length: 9000\r\n\r\n")


def test_slow_and_half_closed_clients(hasty: Service) -> None:
    head = b"POST /answer HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n"
    assert b" 408 " in sent(hasty, head + b"{")
    before = len(hasty.logged)
    sent(hasty, head + b"{", half_closed=True)
    with socket.create_connection(("localhost", hasty.port)) as left:
        left.sendall(head + b"{")
    assert hasty.get("/health").status == 200
    assert all(entry["status"] != 500 for entry in hasty.logged[before:])


def sent(service: Service, data: bytes, *, half_closed: bool = False) -> bytes:
    """Return the reply to bytes on a connection."""
    with socket.create_connection(("localhost", service.port), timeout=20) as connection:
        connection.sendall(data)
        if half_closed:
            connection.shutdown(socket.SHUT_WR)
        return connection.recv(65_536)


def test_keys_come_from_a_file_or_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# the keys of the office\n{KEY}\n\nanother-key-of-enough-letters\n")
    assert read_keys(str(path), {}) == (KEY, "another-key-of-enough-letters")
    assert read_keys(None, {"LAMINA_SERVE_KEYS": f"{KEY}, x{KEY}"}) == (KEY, f"x{KEY}")
    assert read_keys(None, {}) == ()
    assert is_key(KEY, read_keys(str(path), {})) and not is_key("", (KEY,)) and not is_key(KEY + "é", (KEY,))
    for content in ("short", "# nothing", "ümlaut-in-a-long-enough-key"):
        path.write_text(content)
        with pytest.raises(LaminaError, match="Fix: ") as error:
            read_keys(str(path), {})
        assert content not in str(error.value)


def test_origins() -> None:
    found = [urlsplit_or_none(one) for one in ("http://A.example:80", "null", "ftp://a", "http://[::")]
    assert found == ["a.example:80", None, None, None]


def test_a_connection_that_stays_silent_is_closed(hasty: Service) -> None:
    for data in (b"", b"POST /answer HTTP/1.1\r\nhost: loc", b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\nGET /hea"):
        with socket.create_connection(("localhost", hasty.port), timeout=60) as connection:
            connection.sendall(data)
            got = b""
            while part := connection.recv(65_536):
                got += part
            assert got.startswith(b"HTTP/1.1 200") == data.startswith(b"GET")


def test_bodies_that_are_too_large_together_get_429(reader: lamina.Reader, tmp_path: Path) -> None:
    limits = replace(Limits(), held=5_000)
    with running({"small": reader}, Settings(project=tmp_path, limits=limits)) as service:
        body = json.dumps({"question": "Who?", "context": "a" * 4_000}).encode()
        with socket.create_connection(("localhost", service.port), timeout=60) as waiting:
            waiting.sendall(b"POST /answer HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4900\r\n\r\n" + b" " * 4_000)
            until = time.monotonic() + 60
            while (reply := service.send("POST", "/answer", raw=body)).status != 429:
                assert reply.status == 200 and time.monotonic() < until
            assert "retry-after" in reply.headers and "Fix: " in reply.error
            assert service.send("POST", "/answer", raw=b" " * 7_000_000).status == 429, "a client that still sends"
        until = time.monotonic() + 60
        while service.send("POST", "/answer", raw=body).status != 200:
            assert time.monotonic() < until, "the bytes of a client that has gone are free again"
