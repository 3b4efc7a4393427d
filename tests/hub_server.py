"""A small hub on this machine: the HTTP interface that huggingface_hub uses to create, upload and download a model.

It keeps repositories as branches of files in memory. It refuses unknown paths with 404 and requests without its token
with 401, as the hub does.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from huggingface_hub import ModelCard

TOKEN = "hf_" + "x" * 30


@dataclass
class Repository:
    private: bool
    branches: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"main": {}})
    messages: list[str] = field(default_factory=list)

    def commit(self, branch: str) -> str:
        """Return the id of the last commit of a branch: the checksum of its files."""
        files = self.branches[branch]
        return hashlib.sha1(b"".join(name.encode() + files[name] for name in sorted(files))).hexdigest()

    def files(self, revision: str) -> dict[str, bytes] | None:
        """Return the files of a branch or commit."""
        return next((self.branches[name] for name in self.branches if revision in (name, self.commit(name))), None)


NOTHING = Repository(private=False, branches={})


def _checksum(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


class Hub(ThreadingHTTPServer):
    """The server, and what was uploaded to it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Repository] = {}
        self.requests: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def running_hub() -> Iterator[Hub]:
    hub = Hub()
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        thread.join()
        hub.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *_: Any) -> None:
        self.server.requests.append(f"{self.command} {self.path}")

    def do_POST(self) -> None:
        body = self._body()
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._json({"error": "Invalid username or password."}, 401)
        elif self.path == "/api/repos/create":
            self._create(json.loads(body))
        elif self.path == "/api/validate-yaml":
            front = ModelCard(json.loads(body)["content"]).data
            missing = [name for name in ("library_name", "pipeline_tag") if not front.get(name)]
            errors = [{"message": f"{name} is missing"} for name in missing]
            self._json({"errors": errors, "warnings": []}, 400 if errors else 200)
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/branch/([^/?]+)", self.path):
            self._branch(match[1], unquote(match[2]))
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/preupload/([^/?]+).*", self.path):
            files = [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in json.loads(body)["files"]]
            self._json({"files": files})
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/([^/?]+).*", self.path):
            self._commit(match[1], unquote(match[2]), [json.loads(line) for line in body.splitlines()])
        else:
            self._json({"error": "Not Found"}, 404)

    def do_GET(self) -> None:
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/([^/?]+).*", self.path):
            repository = self._repository(match[1])
            files = repository.files(unquote(match[2]))
            if files is None:
                self._missing("RepoNotFound" if repository is NOTHING else "RevisionNotFound")
                return
            sha = next(repository.commit(name) for name, one in repository.branches.items() if one is files)
            siblings = [{"rfilename": name} for name in sorted(files)]
            self._json({"id": match[1], "modelId": match[1], "sha": sha, "private": repository.private, "siblings": siblings})
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/?]+).*", self.path):
            files = self._repository(match[1]).files(unquote(match[2])) or {}
            tree = [{"type": "file", "path": name, "size": len(files[name]), "oid": _checksum(files[name])} for name in files]
            self._json(tree)
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/([^?]+)", self.path):
            self._file(match[1], unquote(match[2]), unquote(match[3]))
        else:
            self._json({"error": "Not Found"}, 404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _create(self, wanted: dict[str, Any]) -> None:
        name = f"{wanted['organization']}/{wanted['name']}" if wanted.get("organization") else f"me/{wanted['name']}"
        known = name in self.server.repositories
        if not known:
            self.server.repositories[name] = Repository(bool(wanted.get("private")) or wanted.get("visibility") == "private")
        self._json({"url": f"{self.server.address}/{name}", "name": name}, 409 if known else 200)

    def _branch(self, name: str, branch: str) -> None:
        branches = self.server.repositories[name].branches
        known = branch in branches
        branches.setdefault(branch, dict(branches["main"]))
        self._json({}, 409 if known else 201)

    def _commit(self, name: str, branch: str, lines: list[dict[str, Any]]) -> None:
        repository = self.server.repositories[name]
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                repository.messages.append(value["summary"])
            elif line["key"] == "file":
                assert value["encoding"] == "base64"
                repository.branches[branch][value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "deletedFile":
                del repository.branches[branch][value["path"]]
            else:
                self._json({"error": f"unknown operation {line['key']}"}, 400)
                return
        sha = repository.commit(branch)
        self._json({"success": True, "commitOid": sha, "commitUrl": f"{self.server.address}/{name}/commit/{sha}"})

    def _file(self, name: str, revision: str, file: str) -> None:
        files = self._repository(name).files(revision)
        if files is None or file not in files:
            self._missing("RepoNotFound" if files is None else "EntryNotFound")
            return
        self.send_response(200)
        self.send_header("X-Repo-Commit", revision)
        self.send_header("ETag", f'"{_checksum(files[file])}"')
        self._send(files[file])

    def _repository(self, name: str) -> Repository:
        """Return a repository that this request may read; one without branches if there is none."""
        found = self.server.repositories.get(name, NOTHING)
        allowed = not found.private or self.headers.get("Authorization") == f"Bearer {TOKEN}"
        return found if allowed else NOTHING

    def _missing(self, code: str) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self._send(b"{}")

    def _json(self, value: object, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self._send(json.dumps(value).encode())

    def _send(self, content: bytes) -> None:
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            found = b""
            while size := int(self.rfile.readline(), 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return found
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))
