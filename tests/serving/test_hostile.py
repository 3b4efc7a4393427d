"""Hostile input gets a refusal, never a traceback or a server error."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

import lamina
from lamina.data.squad import to_squad
from lamina.serving.settings import Settings
from tests import tiny
from tests.reader.test_documents import pdf
from tests.serving.live import Service, running

RANDOM_BODIES = int(os.environ.get("LAMINA_RANDOM_BODIES", "250"))
EXAMPLES = 6  # requests of each path
STREAM = "/project/improve/events"
SAMPLE = {"question": "Who built the mill?", "context": "Ada Thorn built the mill."}


@pytest.fixture(scope="module")
def target(reader: lamina.Reader, sentences: lamina.Reader, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("hostile")
    with running({"small": reader, "sentences": sentences}, Settings(project=folder / "project", runs=folder)) as service:
        yield service


def test_no_request_of_the_openapi_document_is_a_server_error(target: Service) -> None:
    schema = schemathesis.openapi.from_dict(target.get("/openapi.json").json)
    paths = set()
    for found in schema.get_all_operations():
        operation = found.ok()  # type: ignore[union-attr]
        if operation.path == STREAM:
            continue
        paths.add(operation.path)

        @given(case=operation.as_strategy())
        @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        def check(case: Any) -> None:
            reply = case.call(base_url=target.address.rstrip("/"))
            assert reply.status_code < 500, (case.body, reply.text)
            if reply.status_code >= 400:
                assert reply.json()["error"]["message"].count("Fix: ") == 1

        check()
    assert {"/answer", "/documents", "/project/corrections/{name}", "/runs/details"} <= paths


def _bodies(seed: int) -> bytes:
    """Return a body: random bytes, or a good body with something wrong in it."""
    draw = random.Random(seed)
    good = json.dumps(SAMPLE).encode()
    match seed % 5:
        case 0:
            return draw.randbytes(draw.randrange(200))
        case 1:
            place = draw.randrange(len(good))
            return good[:place] + draw.randbytes(1 + draw.randrange(3)) + good[place + 1 :]
        case 2:
            return b"[" * draw.choice((10, 5_000, 100_000)) + good
        case 3:
            values: list[Any] = [None, 1, -1, 1e308, [], {}, True, "\ud800", "\x00", "a" * 3_000, ["b"], "9" * 5_000]
            return json.dumps({name: draw.choice(values) for name in (*SAMPLE, "top_k", "threshold", "names")}).encode()
        case _:
            return json.dumps(SAMPLE).replace("1", "9" * 6_000).encode()[
                : draw.randrange(len(good))
            ] + b"\xff" * draw.randrange(2)


def test_random_bodies(target: Service) -> None:
    paths = ("/answer", "/answer/batch", "/classify", "/similar", "/embed", "/why", "/project/corrections", "/project/improve")
    before = len(target.logged)
    for seed in range(RANDOM_BODIES):
        reply = target.send("POST", paths[seed % len(paths)], raw=_bodies(seed))
        assert reply.status in (200, 400, 404, 413, 422), (seed, reply.body)
    assert not [entry for entry in target.logged[before:] if "error" in entry]


def test_a_body_of_any_depth_is_refused(target: Service) -> None:
    before = len(target.logged)
    for depth in (10, *range(900, 1_010), 3_000):
        reply = target.send("POST", "/answer", raw=b'{"question": "Who?", "context": ' + b"[" * depth + b"]" * depth + b"}")
        assert reply.status in (400, 422) and reply.error.count("Fix: ") == 1, (depth, reply.body)
    assert not [entry for entry in target.logged[before:] if "error" in entry]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("run.json", b'{"format": 2, "finished": true, "costs": [], "encoder": {"name": 5}}'),
        ("run.json", b"[]"),
        ("recipe.json", b"[1]"),
        ("recipe.json", b'{"tasks": {"a": {}}}'),
        ("scores.json", b'{"f1": 1' + b"0" * 400 + b"}"),
        ("scores.json", b'{"f1": NaN}'),
        ("metrics.jsonl", b'{"step": 1, "loss": 2.0}\n\xff\xfe\n{"step": 2, "loss": 1.0}\n'),
    ],
)
def test_a_damaged_run_is_no_server_error(trained: Path, target: Service, file: str, content: bytes) -> None:
    folder = target.state.settings.runs / "damaged"
    shutil.copytree(trained, folder)
    try:
        (folder / file).write_bytes(content)
        assert target.get("/runs").status == 200
        reply = target.get("/runs/details?name=damaged")
        assert reply.status == (200 if file == "metrics.jsonl" or b"NaN" in content else 422), reply.body
        if file == "metrics.jsonl":
            assert reply.json["curves"]["loss"] == [[1.0, 2.0], [2.0, 1.0]]
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small run."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "train.json").write_text(json.dumps(to_squad(tiny.corpus(3))))
    (folder / "dev.json").write_text(json.dumps(to_squad(tiny.corpus(1))))
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    return lamina.train(folder / "small.toml", folder / "run", settings={"train.epochs": 0}).path


def _zip(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def _word_file(document: bytes) -> bytes:
    import docx

    made = io.BytesIO()
    docx.Document().save(made)
    with zipfile.ZipFile(made) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    return _zip(files | {"word/document.xml": document})


def _entities() -> bytes:
    """Return an XML file whose entities would unfold to gigabytes."""
    lines = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    text = "<w:body><w:p><w:r><w:t>&e11;</w:t></w:r></w:p></w:body>"
    start = f'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY e0 "0123456789">{lines}]>'
    return f'{start}<w:document xmlns:w="{space}">{text}</w:document>'.encode()


def _deep_pdf() -> bytes:
    return pdf("Text.").replace(b"/Kids [", b"/Deep " + b"[" * 30_000 + b"]" * 30_000 + b" /Kids [")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bomb.docx", _word_file(b"<w>" + b"\0" * 400_000_000)),
        ("entities.docx", _word_file(_entities())),
        ("many.docx", _zip({f"word/{number}.xml": b"a" for number in range(5_000)})),
        ("deep.pdf", _deep_pdf()),
        ("no.pdf", b"%PDF-1.7\n" + bytes(range(256)) * 40),
        ("loop.pdf", pdf("a").replace(b"/Type /Pages /Kids [3 0 R]", b"/Type /Pages /Kids [2 0 R]")),
        ("many.html", b"<div>" * 200_000 + b"a"),
        ("x.txt", b"\xff\xfe\x00"),
        ("../../etc/passwd", b"a"),
        ("noending", b"a"),
        ("surrogate\udcff.txt".encode("utf-8", "surrogateescape").decode("latin-1"), b""),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_hostile_files(target: Service, name: str, data: bytes) -> None:
    from urllib.parse import quote

    reply = target.send("POST", f"/documents?name={quote(name)}", raw=data)
    assert reply.status in (200, 422), reply.body
    if reply.status == 422:
        assert reply.error.count("Fix: ") == 1
    else:
        assert len(reply.json["text"]) < 1_000_000
    assert "/etc" not in reply.body.decode()
    assert target.get("/health").status == 200


def test_no_path_of_a_request_is_opened(target: Service, tmp_path: Path) -> None:
    for name in ("../pyproject.toml", "..%2f..%2fetc%2fpasswd", "main.py", "%2e%2e/app.py"):
        assert target.get(f"/page/{name}").status == 404
    assert target.get("/runs/details?name=../../x").status == 422
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret of the mill")
    reply = target.post("/answer", {"question": "What is it?", "context": str(secret), "threshold": 1e9})
    assert reply.status == 200 and "secret of" not in reply.body.decode()
    assert target.post("/answer", SAMPLE | {"model": str(tmp_path)}).status == 404
