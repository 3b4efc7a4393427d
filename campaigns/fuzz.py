"""Damaged files and requests: each is refused with one clear line, or read correctly, and never hangs.

Each case takes a good file, damages it by its structure or byte by byte, and reads it in this process. Questions that the
readers accept must equal those of a second, naive reader (`campaigns/naive.py`). A case may take 10 processor seconds. The
cases run in a second process, so that a crash of a library is a failure of one case.

    python -m campaigns.fuzz --size 10000 --log fuzz.jsonl --out results/hardening/fuzz.json
    python -m campaigns.fuzz --only csv pdf --size 300
    python -m campaigns.fuzz --case 1234        # one case again, with its traceback
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from campaigns import material, mutate, naive
from campaigns.common import Campaign, Failure, HangError, limited, one_line, parser
from lamina.errors import LaminaError
from lamina.utils.checksums import crc32_of

STUCK = 600.0  # seconds on the clock without a finished case, after which the second process is ended


class WrongError(Exception):
    """What was read differs from what the file holds."""


@dataclass(frozen=True)
class Target:
    """A kind of input: good files by name, how to damage each, and how to read the folder of a damaged one."""

    files: Mapping[str, tuple[Callable[[], bytes], mutate.Mutator]]
    read: Callable[[Path, str, Random], object]  # (folder, name of the damaged file, random choices)
    base: Callable[[], Path] | None = None  # a folder with all other files
    repaired: Callable[[Path, str], None] = field(default=lambda folder, name: None)  # makes checksums fit


# ---- the kinds of input


def read_questions(second: Callable[[bytes], list[naive.Question] | None]) -> Callable[[Path, str, Random], object]:
    """Return a function that reads questions with Lamina and with a naive reader, and compares them."""

    def read(folder: Path, name: str, draw: Random) -> object:
        from lamina.data.sources import check_data, load_examples

        path = folder / name
        if draw.random() < 0.3:
            str(check_data(str(path)))
        examples = load_examples(str(path))
        for one in examples:
            for answer in one.answers:
                if one.context[answer.start : answer.start + len(answer.text)] != answer.text:
                    raise WrongError(f"{answer!r} is not in its context")
        if len({one.id for one in examples}) != len(examples):
            raise WrongError("two questions have one id")
        wanted = second(path.read_bytes())
        if wanted is None:
            return "accepted, not compared"
        found = [(one.question, one.context, tuple((a.text, a.start) for a in one.answers)) for one in examples]
        if len(found) != len(wanted):
            raise WrongError(f"{len(found)} questions, but the naive reader finds {len(wanted)}")
        for ours, theirs in zip(found, wanted, strict=True):
            if not _same(ours, theirs):
                raise WrongError(f"{ours!r}, but the naive reader finds {theirs!r}")
        return "accepted"

    return read


def _same(ours: naive.Question, theirs: naive.Question) -> bool:
    if ours[:2] != theirs[:2] or len(ours[2]) != len(theirs[2]):
        return False
    return all(
        text == other and start in (place, place if place is not None else start)
        for (text, start), (other, place) in zip(ours[2], theirs[2], strict=True)
    )


def read_sentences(folder: Path, name: str, draw: Random) -> object:
    from lamina.data.sources import check_data, load_sentences

    str(check_data(str(folder / name)))
    return load_sentences(str(folder / name))


def read_document(folder: Path, name: str, draw: Random) -> object:
    from lamina.reader.documents import read_document as read

    found = read(folder / name)
    found.text.encode()
    found.place(len(found.text) // 2)
    return None


def read_recipe(folder: Path, name: str, draw: Random) -> object:
    from lamina.config.parse import read_recipe as read
    from lamina.tasks.checks import build_on_meta

    build_on_meta(read(folder / name))
    return None


def read_space(folder: Path, name: str, draw: Random) -> object:
    from lamina.experiments.tuning.space import read_space as read

    space = read(folder / name)
    space.check_size(str(folder / name))
    for number, one in enumerate(space.grid() if space.search.method == "grid" else ()):
        _ = one
        if number > 100:
            break
    return None


def read_study(folder: Path, name: str, draw: Random) -> object:
    from lamina.experiments.studies.run_study import make_plan

    return make_plan(str(folder / name), "desk", folder / "out", [], None, [], {})


def read_model(folder: Path, name: str, draw: Random) -> object:
    import lamina

    lamina.load(folder, device="cpu").answer(material.QUESTION, material.CONTEXT)
    return None


def read_resumed(folder: Path, name: str, draw: Random) -> object:
    import lamina

    lamina.train(folder / "recipe.json", folder, resume=True)
    return None


def read_comparison(folder: Path, name: str, draw: Random) -> object:
    from lamina.experiments.compare import compare, lines

    return lines(compare(folder, folder))


def _bytes_in(folder: Callable[[], Path], name: str) -> bytes:
    return (folder() / name).read_bytes()


def read_store(folder: Path, name: str, draw: Random) -> object:
    from lamina.state_cache.maintenance import list_stores, verify_store

    for one in list_stores(folder):
        verify_store(one.name, folder)
    return None


def fit_checksums(folder: Path, name: str) -> None:
    """Remove or repair the checksums of a run with a damaged file, as a hostile author would."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, LaminaError):  # the damaged file may be run.json
        content = json.loads((folder / "run.json").read_bytes())
        del content["checksums"]
        _replace(folder / "run.json", json.dumps(content).encode())
    manifest = folder / "onnx.json"
    if not manifest.exists():
        return
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        content = json.loads(manifest.read_bytes())
        content.pop("checksum", None)
        if name == "model.safetensors" and content.get("weights"):
            content["weights"] = crc32_of(folder / name)
        for task in content["tasks"].values():
            for purposes in task["graphs"].values():
                for graph in purposes.values():
                    if graph["file"] == name:
                        graph["checksum"] = crc32_of(folder / name)
        _replace(manifest, json.dumps(content).encode())


def _replace(path: Path, data: bytes) -> None:
    path.unlink()  # the file may be a link to that of another case
    path.write_bytes(data)


Headers = Sequence[tuple[bytes, bytes]]


class Service:
    """The service in this process, without a network."""

    def __init__(self, folder: Path) -> None:
        from tests.golden import TRAINED

        import lamina
        from lamina.serving.app import create_app
        from lamina.serving.settings import Settings

        self.logged: list[Mapping[str, object]] = []
        self.runner = asyncio.Runner()
        settings = Settings(project=folder / "project", runs=folder)
        self.app = create_app({"small": lamina.load(TRAINED, device="cpu")}, settings, log=self.logged.append)
        try:
            self.runner.run(self._start())
        except BaseException:
            self.runner.close()
            raise

    async def _start(self) -> None:
        self._life = self.app.router.lifespan_context(self.app)
        await self._life.__aenter__()
        while not self.app.state.lamina.models.ready:
            await asyncio.sleep(0.01)

    def close(self) -> None:
        """Shut the service down and close its event loop."""
        try:
            self.runner.run(self._stop())
        finally:
            self.runner.close()

    async def _stop(self) -> None:
        await self._life.__aexit__(None, None, None)

    def send(self, method: str, path: str, query: bytes, headers: Headers, body: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the reply to a request."""
        return self.runner.run(self._send(method, path, query, headers, body))

    async def _send(self, method: str, path: str, query: bytes, headers: Headers, body: bytes) -> tuple[int, bytes]:
        status, parts = 0, [b""]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("utf-8", "replace"),
            "query_string": query,
            "root_path": "",
            "headers": [(b"host", b"localhost"), *headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        sent = False

        async def receive() -> dict[str, Any]:
            nonlocal sent
            if sent:
                await asyncio.sleep(3600)
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts.append(message.get("body", b""))

        await asyncio.wait_for(self.app(scope, receive, send), 60)
        return status, b"".join(parts)


ASKED = {"question": material.QUESTION, "context": material.CONTEXT}
REQUESTS: dict[str, tuple[str, object]] = {
    "answer": ("POST", ASKED | {"top_k": 2, "threshold": 0.5}),
    "answer/batch": ("POST", {"questions": [material.QUESTION, "When?"], "contexts": [material.CONTEXT, "It is red."]}),
    "why": ("POST", ASKED),
    "classify": ("POST", {"texts": ["It is red."]}),
    "similar": ("POST", {"text": "It is red.", "texts": ["It is blue."]}),
    "embed": ("POST", {"texts": ["It is red."]}),
    "project/corrections": ("POST", ASKED | {"answer": "Ada Thorn", "start": 36}),
    "project/corrections/x": ("PUT", ASKED | {"answer": None}),
    "project/export": ("GET", {}),
    "runs/details": ("GET", {}),
    "models": ("GET", {}),
}


class Targets:
    """All kinds of input. Folders with other files are made once, when they are first needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._service: Service | None = None
        data = {
            "squad": ("a.json", material.squad_json, mutate.JSON, naive.squad),
            "rows": ("a.json", lambda: material.table(".json"), mutate.JSON, naive.squad),
            "csv": ("a.csv", lambda: material.table(".csv"), mutate.TEXT, naive.delimited),
            "tsv": ("a.tsv", lambda: material.table(".tsv"), mutate.TEXT, naive.delimited),
            "jsonl": ("a.jsonl", lambda: material.table(".jsonl"), mutate.JSONL, naive.jsonl),
            "parquet": ("a.parquet", lambda: material.table(".parquet"), mutate.BYTES, naive.parquet),
            "contexts": (
                "a.jsonl",
                material.contexts_jsonl,
                mutate.JSONL,
                lambda data: naive.contexts(data, lines=True),
            ),
        }
        self.all: dict[str, Target] = {
            name: Target({file: (good, how)}, read_questions(second)) for name, (file, good, how, second) in data.items()
        }
        self.all |= {
            "rows-parquet": Target(
                {"a.parquet": (lambda: material.table(".jsonl"), odd_parquet)}, read_questions(naive.parquet)
            ),
            "sentences": Target({"a.csv": (material.sentences_csv, mutate.TEXT)}, read_sentences),
            "html": Target({"a.html": (material.HTML.encode, mutate.TEXT)}, read_document),
            "pdf": Target({"a.pdf": (material.pdf_file, mutate.TEXT)}, read_document),
            "docx": Target({"a.docx": (material.docx, mutate.ZIP)}, read_document),
            "recipe": Target(self._files(self.data, RECIPE_FILES), read_recipe, self.data),
            "space": Target({"a.toml": (material.SPACE.encode, mutate.TEXT)}, read_space),
            "study": Target(self._files(self.data, {"study.toml": mutate.TEXT}), read_study, self.data),
            "run": Target(self._files(self.run, RUN_FILES), read_model, self.run, fit_checksums),
            "scored": Target(self._files(self.run, SCORED_FILES), read_comparison, self.run),
            "halfway": Target(self._files(self.halfway, HALFWAY_FILES), read_resumed, self.halfway),
            "checkpoint": Target(self._files(self.checkpoint, CHECKPOINT_FILES), read_model, self.checkpoint),
            "onnx": Target(self._files(self.exported, ONNX_FILES), read_model, self.exported, fit_checksums),
            "shipped": Target(self._files(self.shipped, ONNX_FILES | WEIGHTS), read_model, self.shipped, fit_checksums),
            "store": Target(self._files(self.store, STORE_FILES), read_store, self.store),
        }

    def _files(
        self, base: Callable[[], Path], named: Mapping[str, mutate.Mutator]
    ) -> dict[str, tuple[Callable[[], bytes], mutate.Mutator]]:
        return {name: (partial(_bytes_in, base, name), how) for name, how in named.items()}

    def _once(self, name: str, make: Callable[[Path], None]) -> Path:
        folder = self.folder / name
        if not folder.exists():
            draft = self.folder / f"{name}-draft"
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            make(draft)
            draft.rename(folder)
        return folder

    def data(self) -> Path:
        """Return the folder of a recipe and a study."""

        def make(folder: Path) -> None:
            from lamina.config.parse import read_recipe

            final = self.folder / "data"
            path = material.write_recipe(folder)
            made = read_recipe(path)
            (folder / "recipe.json").write_text(made.model_dump_json().replace(str(folder), str(final)))
            path.write_text(path.read_text().replace(str(folder), str(final)))
            (folder / "study.toml").write_text(material.STUDY.format(folder=final))

        return self._once("data", make)

    def run(self) -> Path:
        """Return a finished run."""

        def make(folder: Path) -> None:
            import lamina

            run = lamina.train(self.data() / "recipe.toml", folder / "run", settings={"train.epochs": 0.25}).path
            for path in run.iterdir():
                path.rename(folder / path.name)
            run.rmdir()

        return self._once("run", make)

    def halfway(self) -> Path:
        """Return a run that was stopped."""

        def make(folder: Path) -> None:
            from tests.resuming import stopped_and_resumed

            from lamina.config import parse

            def stop() -> None:
                shutil.copytree(folder / "run", folder / "kept")

            recipe = parse.read_recipe(self.data() / "recipe.toml")
            stopped_and_resumed(recipe, folder / "run", before=5, meanwhile=stop)
            shutil.rmtree(folder / "run")
            for path in (folder / "kept").iterdir():
                path.rename(folder / path.name)
            (folder / "kept").rmdir()

        return self._once("halfway", make)

    def checkpoint(self) -> Path:
        """Return a checkpoint of another library."""
        from tests.golden import TRAINED

        return TRAINED

    def exported(self) -> Path:
        """Return a run with its graphs."""

        def make(folder: Path) -> None:
            from tests.command import lamina as command

            done = command("export", self.run(), folder / "out", "--to", "onnx")
            if done.code:
                raise RuntimeError(done.err)
            for path in (folder / "out").iterdir():
                path.rename(folder / path.name)
            (folder / "out").rmdir()

        return self._once("onnx", make)

    def shipped(self) -> Path:
        """Return a saved model in 8 bits with graphs that read its weights, as the reader of the package."""

        def make(folder: Path) -> None:
            import lamina
            from lamina.runs.load import as_torch
            from lamina.runs.onnx_folder import GraphOptions, write_graphs

            lamina.load(self.run(), device="cpu").save(folder, weights="int8")
            saved = as_torch(lamina.load(folder, backend="torch", device="cpu").trained)
            write_graphs(saved, folder, GraphOptions(inside=False))

        return self._once("shipped", make)

    def store(self) -> Path:
        """Return a store of hidden states."""

        def make(folder: Path) -> None:
            from tests.state_cache.test_store import contents, opened

            opened(folder, contents()).close()
            (made,) = folder.iterdir()
            made.rename(folder / "s")

        return self._once("store", make)

    @property
    def names(self) -> list[str]:
        return [*self.all, "service"]

    def close(self) -> None:
        """Shut the service down, if a case has started it."""
        if self._service is not None:
            self._service.close()
            self._service = None

    def run_case(self, name: str, draw: Random, folder: Path) -> str:
        """Run one case in an empty folder, and return its outcome."""
        if name == "service":
            return self._request(draw, folder)
        target = self.all[name]
        file = draw.choice(sorted(target.files))
        good, how = target.files[file]
        data = how(good(), draw)
        if target.base is None:
            (folder / file).write_bytes(data)
        else:
            material.copied(target.base(), folder, file, data)
            if draw.random() < 0.7:
                target.repaired(folder, file)
        with limited():
            found = target.read(folder, file, draw)
        return found if isinstance(found, str) else "accepted"

    def _request(self, draw: Random, folder: Path) -> str:
        if self._service is None:
            self._service = Service(self.folder / "service")
        path = draw.choice(sorted(REQUESTS))
        method, good = REQUESTS[path]
        body = mutate.JSON(json.dumps(good).encode(), draw) if good else b""
        query = mutate.mutate_text(b"name=run&format=json", draw) if not good else b""
        headers = [(b"content-type", draw.choice([b"application/json"] * 9 + [b"text/plain"]))]
        if draw.random() < 0.1:
            headers.append((b"origin", draw.choice([b"null", b"http://evil.example", b"http://localhost", b"\xff"])))
        if draw.random() < 0.1:
            path = mutate.mutate_text(path.encode(), draw).decode("utf-8", "replace")
            method = draw.choice(["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "X"])
        with limited():
            status, reply = self._service.send(method, f"/{path}", query, headers, body)
        if status >= 500 or not status:
            raise WrongError(f"{method} {path}: status {status}: {reply[:300]!r}; body {body[:300]!r}")
        if status >= 400 and method != "HEAD" and json.loads(reply)["error"]["message"].count("Fix: ") != 1:
            raise WrongError(f"{method} {path}: no clear line: {reply[:300]!r}")
        if any("error" in entry for entry in self._service.logged):
            raise WrongError(f"the log has an error: {self._service.logged}")
        self._service.logged.clear()
        return "accepted" if status < 400 else "refused"


RECIPE_FILES = {"recipe.toml": mutate.TEXT, "recipe.json": mutate.JSON}
STORE_FILES = {"s/store.json": mutate.JSON, "s/00000.bin": mutate.BYTES}
RUN_FILES = {
    "run.json": mutate.JSON,
    "recipe.json": mutate.JSON,
    "encoder.json": mutate.JSON,
    "tokenizer.json": mutate.JSON,
    "model.safetensors": mutate.SAFETENSORS,
}
SCORED_FILES = {
    "run.json": mutate.JSON,
    "recipe.json": mutate.JSON,
    "predictions.json": mutate.JSON,
    "null_odds.json": mutate.JSON,
    "scores.json": mutate.JSON,
    "outputs.safetensors": mutate.SAFETENSORS,
    "windows.safetensors": mutate.SAFETENSORS,
}
HALFWAY_FILES = {
    "run.json": mutate.JSON,
    "recipe.json": mutate.JSON,
    "metrics.jsonl": mutate.JSONL,
    "checkpoint.pt": mutate.BYTES,
}
CHECKPOINT_FILES = {
    "config.json": mutate.JSON,
    "tokenizer.json": mutate.JSON,
    "tokenizer_config.json": mutate.JSON,
    "model.safetensors": mutate.SAFETENSORS,
}
ONNX_FILES = {"onnx.json": mutate.JSON, "model.onnx": mutate.BYTES, "run.json": mutate.JSON, "recipe.json": mutate.JSON}
WEIGHTS = {"model.safetensors": mutate.SAFETENSORS}


def odd_parquet(data: bytes, draw: Random) -> bytes:
    """Return a parquet file of changed rows, with the types that pyarrow finds for them."""
    import pyarrow

    from lamina.data.parquet import parquet_bytes

    lines = mutate.mutate_jsonl(data, draw).decode("utf-8", "replace").split("\n")
    rows = [json.loads(line) for line in lines if line.strip()]
    rows = [row for row in rows if isinstance(row, dict)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    try:
        return parquet_bytes(names, rows)
    except (pyarrow.ArrowException, UnicodeEncodeError, OverflowError, TypeError):
        return mutate.mutate_bytes(material.table(".parquet"), draw)


# ---- the cases


def run_one(targets: Targets, name: str, case: int, campaign: Campaign) -> tuple[str, Failure | None]:
    """Run one case, and return its outcome and its failure."""
    folder = Path(tempfile.mkdtemp(dir=targets.folder))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return targets.run_case(name, campaign.draw(case), folder), None
    except LaminaError as error:
        problem = one_line(error)
        return "refused", None if problem is None else Failure(case, name, "no clear line", problem)
    except HangError as error:
        return "hang", Failure(case, name, "hang", str(error))
    except WrongError as error:
        return "wrong", Failure(case, name, "wrong", str(error)[:1500])
    except Exception:
        return "traceback", Failure(case, name, "traceback", traceback.format_exc()[-1500:])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def worker(campaign: Campaign, names: Sequence[str], folder: Path, first: int, pipe: Connection) -> None:
    """Run the cases from `first` on, and send the number, the kind, the outcome and the failure of each."""
    import logging

    import torch

    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    os.environ.update(HF_HUB_OFFLINE="1", LAMINA_CACHE=str(folder / "cache"))
    with closing(Targets(folder)) as targets:
        for case in range(first, campaign.size):
            name = names[case % len(names)]
            pipe.send((case, name, None, None))
            pipe.send((case, name, *run_one(targets, name, case, campaign)))
    pipe.send(None)


def outcomes(campaign: Campaign, names: Sequence[str], folder: Path) -> Iterator[tuple[str, str, Failure | None]]:
    """Yield the kind, the outcome and the failure of every case. A process that crashes or hangs is started again."""
    context = multiprocessing.get_context("fork")
    next_case, running, began = 0, "", time.monotonic()
    while next_case < campaign.size:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=worker, args=(campaign, names, folder, next_case, theirs), daemon=True)
        process.start()
        theirs.close()
        kind = "crash"
        try:
            while True:
                if not ours.poll(STUCK):
                    kind = "hang"
                    process.kill()
                    break
                message = ours.recv()
                if message is None:
                    next_case = campaign.size
                    break
                case, running, outcome, failure = message
                if outcome is None:
                    next_case, began = case, time.monotonic()
                    continue
                next_case = case + 1
                yield running, outcome, failure
                running = ""
        except EOFError:
            process.join(10)
        if next_case < campaign.size:
            what = f"the process ended with {process.exitcode}" if kind == "crash" else f"{time.monotonic() - began:.0f} s"
            yield running, kind, Failure(next_case, running, kind, what)
            next_case += 1
        process.join(10)


@contextmanager
def working_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def run(campaign: Campaign, names: Sequence[str] = ()) -> Campaign:
    """Run all cases; those of different kinds take turns."""
    with working_folder() as folder:
        for name, outcome, failure in outcomes(campaign, names or Targets(folder).names, folder):
            if failure is None:
                campaign.count(name, outcome)
            else:
                campaign.fail(failure)
            if campaign.over:
                break
    return campaign


def main() -> int:
    options = parser(__doc__ or "", size=3000)
    options.add_argument("--only", nargs="+", default=[], help="kinds of input")
    options.add_argument("--case", type=int, help="run one case here, with its traceback")
    given = options.parse_args()
    campaign = Campaign("fuzz", given.seed, given.size, given.log, given.at_most)
    if given.case is not None:
        with working_folder() as folder, closing(Targets(folder)) as targets:
            names = given.only or targets.names
            name = names[given.case % len(names)]
            print(name, targets.run_case(name, campaign.draw(given.case), Path(tempfile.mkdtemp(dir=folder))))
        return 0
    return run(campaign, given.only).finish(given.out)


if __name__ == "__main__":
    sys.exit(main())
