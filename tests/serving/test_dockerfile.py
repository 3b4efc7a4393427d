"""The Dockerfile: its lint, and its steps as plain commands, because a test machine runs no container."""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.checkout import ROOT, copy_checkout

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PORT = "8000"


def instructions() -> list[tuple[str, str]]:
    """Return the instructions with their arguments, without comments."""
    lines = [line for line in TEXT.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def named(name: str) -> list[str]:
    return [rest for found, rest in instructions() if found == name]


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "hadolint", ROOT / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_is_slim_and_runs_as_nobody_special() -> None:
    assert all(image.startswith("python:3.13-slim") for image in named("FROM"))
    assert named("USER") == ["10001:10001"] and named("HEALTHCHECK") and named("EXPOSE") == [PORT]
    names = [name for name, _ in instructions()]
    assert names.index("USER") < names.index("ENTRYPOINT")


@pytest.mark.slow
def test_the_steps_run_as_plain_commands(tmp_path: Path) -> None:
    """Paths are below a temporary folder. pip takes the dependencies from this environment, so nothing is downloaded."""
    source = copy_checkout(tmp_path / "src")
    places = {"/src": str(source), "/opt/lamina": str(tmp_path / "opt"), "/data": str(tmp_path / "data")}
    build, folder = named("RUN")
    venv, install = build.split(" && ")
    shell(venv.replace("python ", f"{shlex.quote(sys.executable)} ", 1).replace(" venv ", " venv --without-pip "), places)
    site = next((tmp_path / "opt/lib").glob("python*/site-packages"))
    site.joinpath("dependencies.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    python, made = shlex.quote(sys.executable), shlex.quote(f"{tmp_path}/opt/bin/python")
    offline = f"{python} -m pip --python {made} install --no-deps --no-build-isolation --no-index"
    shell(install.replace("/opt/lamina/bin/pip install", offline), places)
    shell(folder.replace("10001", str(os.getuid())), places)

    entry = [*json.loads(named("ENTRYPOINT")[0])]
    words = [swapped(word, places) for word in entry]
    environment = {"PATH": f"{tmp_path}/opt/bin:{os.environ['PATH']}", "HOME": str(tmp_path / "data"), "OMP_NUM_THREADS": "1"}
    refused = subprocess.run(words, env=environment, cwd=tmp_path / "data", capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "without a key" in refused.stderr

    words[words.index(PORT)] = "0"
    keys = {"LAMINA_SERVE_KEYS": "a-key-of-more-than-16-letters"}
    process = subprocess.Popen(words, env=environment | keys, cwd=tmp_path / "data", stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        (port,) = re.findall(r":(\d+)/", process.stderr.readline())
        check = json.loads(named("HEALTHCHECK")[0].partition("CMD ")[2])
        check = [sys.executable, *(word.replace(PORT, port) for word in check[1:])]
        subprocess.run(check, env=environment, check=True)
        assert ready(int(port), keys["LAMINA_SERVE_KEYS"])
    finally:
        process.kill()
        process.communicate()


def swapped(text: str, places: dict[str, str]) -> str:
    return re.sub(r"(?<![\w/])/(?:src|opt/lamina|data)\b", lambda match: places[match[0]], text)


def shell(command: str, places: dict[str, str]) -> None:
    """Run a simple command of the shell. Its words are swapped one by one, because a path may have a space."""
    swapped_words = shlex.join(swapped(word, places) for word in shlex.split(command))
    done = subprocess.run(["/bin/sh", "-c", swapped_words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def ready(port: int, key: str) -> bool:
    """Return whether the models load and a question gets a reply."""
    for _ in range(600):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = json.dumps({"question": "Who built the mill?", "context": "Ada Thorn built the mill in 1712."})
        connection.request("POST", "/answer", body, {"content-type": "application/json", "authorization": f"Bearer {key}"})
        reply = connection.getresponse()
        content = json.loads(reply.read())
        connection.close()
        if reply.status == 200:
            return bool(content["answer"] == "Ada Thorn")
        time.sleep(0.2)
    return False
