"""`lamina serve` as a process: it starts, refuses to be open by mistake, and ends in order."""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from lamina.cli import app
from tests.checkout import ROOT
from tests.command import lamina
from tests.golden import TRAINED

BODY = json.dumps({"question": "Who built the mill?", "context": "Ada Thorn built the mill. " * 4_000})


@dataclass
class Process:
    """A running `lamina serve`."""

    process: subprocess.Popen[str]
    port: int

    def request(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, {"content-type": "application/json"})
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def wait_until_ready(self) -> None:
        until = time.monotonic() + 120
        while self.request("GET", "/ready")[0] != 200:
            assert time.monotonic() < until and self.process.poll() is None
            time.sleep(0.1)


@contextmanager
def started(folder: Path, *options: object) -> Iterator[Process]:
    words = [sys.executable, "-m", "lamina", "serve", "--port", "0", "--project", str(folder / "project"), *map(str, options)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"http://localhost:(\d+)/", line)
        assert found, line + process.stderr.read()
        yield Process(process, int(found[1]))
    finally:
        process.kill()
        process.communicate()


def test_it_serves_before_the_model_is_loaded_and_finishes_what_it_accepted(tmp_path: Path) -> None:
    with started(tmp_path, TRAINED) as serving:
        status, page = serving.request("GET", "/")
        assert status == 200 and "<title>Lamina</title>" in page
        serving.wait_until_ready()
        replies: list[tuple[int, str]] = []
        threads = [threading.Thread(target=lambda: replies.append(serving.request("POST", "/answer", BODY))) for _ in range(3)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 60
        while "lamina_open_requests 3\n" not in serving.request("GET", "/metrics")[1]:
            assert time.monotonic() < until and not replies
            time.sleep(0.005)
        serving.process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
        assert [status for status, _ in replies] == [200] * 3
        _, err = serving.process.communicate(timeout=60)
        assert serving.process.returncode == 0
        assert "Traceback" not in err and "Ada Thorn" not in err
        entries = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
        assert sum(entry["path"] == "/answer" for entry in entries) == 3
        assert not (tmp_path / "project").exists()


def test_a_model_that_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    with started(tmp_path, "nothing-here") as serving:
        _, err = serving.process.communicate(timeout=120)
        assert serving.process.returncode == 2
        assert err.splitlines()[-1].startswith("lamina: nothing-here") and "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0: other machines could use the service without a key"),
        (["--key-file", "missing"], "missing: no such file"),
        (["--cors", "*"], "--cors *: is no origin"),
        (["--port", "70000"], "lamina serve: "),
    ],
)
def test_mistakes(words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAMINA_SERVE_KEYS", raising=False)
    done = lamina("serve", *words)
    assert done.code == 2 and message in done.err and "Fix: " in done.err


def test_a_port_in_use_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lamina.serving.server import listen

    monkeypatch.chdir(tmp_path)
    with listen("127.0.0.1", 0) as taken:
        done = lamina("serve", "--port", taken.getsockname()[1])
    assert done.code == 2 and "cannot be used" in done.err


def test_the_commands_of_the_page_are_commands() -> None:
    lines = re.findall(r"^\$ (lamina (?:serve|label).*)", (ROOT / "docs/serve.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) == 3
    for line in lines:
        _, name, *words = shlex.split(line, comments=True)
        typer.main.get_command(app).commands[name].make_context(name, words)  # type: ignore[attr-defined]


def test_a_server_of_your_own_takes_the_application() -> None:
    code = "import sys; import lamina.serving; assert not {'torch', 'fastapi'} & set(sys.modules); "
    code += "app = lamina.serving.create_app('reader'); assert 'torch' not in sys.modules; print(app.title)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Lamina\n"
