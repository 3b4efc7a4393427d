"""Improve: `lamina fit` on the corrections, in a process of its own, with its progress as events."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from lamina.errors import LaminaError
from lamina.utils.files import read_json, write_json

FEWEST_QUESTIONS: Final = 30  # as `lamina fit` needs; its module imports torch
CURRENT: Final = "current.json"  # names the model that the user switched to
MODELS: Final = "models"  # the folder of improved models in a project
_MODULE: Final = "lamina.serving.improve_process"
_LINE: Final = 1 << 20  # bytes of a line of the process
_KEPT: Final = 200  # lines

Stage = Literal["idle", "running", "done", "failed", "stopped"]


@dataclass
class Improvement:
    """The last or the running improvement of a project."""

    folder: Path
    stage: Stage = "idle"
    lines: list[str] = field(default_factory=list)
    label: str = ""
    done: int = 0
    total: int = 0
    result: dict[str, Any] | None = None  # what `lamina fit --json` prints
    start: str = ""  # the model that it started from
    switched: bool = False
    _process: Process | None = None
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self.stage == "running"

    def to_json(self) -> dict[str, Any]:
        """Return the state as the page shows it."""
        names = ("stage", "lines", "label", "done", "total", "result", "start", "switched")
        return {name: getattr(self, name) for name in names}

    async def begin(self, data: Path, start: str, source: str, minutes: float) -> None:
        """Start to fit the model `source` to a file of corrections.

        Raises:
            LaminaError: An improvement is running.
        """
        if self.running:
            raise LaminaError("improve: is running already. Fix: wait until it has ended, or stop it")
        self.stage, self.lines, self.label, self.done, self.total = "running", [], "", 0, 0
        self.result, self.start, self.switched = None, start, False
        try:
            self._process = await self._spawn(data, source, minutes)
        except BaseException:  # also if the request is cancelled
            self.stage = "failed"
            raise
        self._task = asyncio.create_task(self._follow(self._process))

    async def _spawn(self, data: Path, source: str, minutes: float) -> Process:
        out = new_folder(self.folder / MODELS)
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", _MODULE, str(data.resolve()), source, str(out.resolve()), str(minutes)),
            stdin=asyncio.subprocess.PIPE,  # its end tells the process that the service has gone
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            limit=_LINE,
            process_group=0,  # Ctrl-C reaches the service only
        )

    async def stop(self) -> None:
        """End the running process; what it trained is removed by itself."""
        if self._process is not None and self._process.returncode is None:
            self.stage = "stopped"
            self._process.terminate()
            await self._process.wait()
        if self._task is not None:
            await self._task

    async def events(self, closing: asyncio.Event) -> AsyncIterator[dict[str, Any]]:
        """Yield the state now and after each change, until the improvement or the service ends."""
        while True:
            yield self.to_json()
            if not self.running or closing.is_set():
                return
            async with self._changed:
                try:
                    async with asyncio.timeout(2.0):
                        await self._changed.wait()
                except TimeoutError:
                    continue

    async def _follow(self, process: Process) -> None:
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                self._hear(json.loads(line))
                await self._tell()
        except (ValueError, KeyError, TypeError):  # a line that is too long, or no event
            process.kill()
            await process.stdout.read()  # a full pipe would never end
        code = await process.wait()
        if self.stage == "running":
            self.stage = "failed"
            self.lines.append(f"improve: the process ended with code {code}. Fix: free memory, and try again")
        await self._tell()

    def _hear(self, event: dict[str, Any]) -> None:
        match event["kind"]:
            case "say":
                self.lines = [*self.lines, event["line"]][-_KEPT:]
            case "stage":
                self.label, self.done, self.total = event["label"], event["done"], event["total"]
            case "advance":
                self.done = event["done"]
            case "done":
                self.result, self.stage = event["result"], "done"
            case "failed":
                self.lines.append(event["message"])
                self.stage = "failed"

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def new_folder(models: Path) -> Path:
    """Return a path for a new model: improved-1, improved-2 and so on."""
    number = 1
    while (models / f"improved-{number}").exists():
        number += 1
    return models / f"improved-{number}"


def accepted(project: Path) -> list[str]:
    """Return the folder of the model that the user switched to last, if it still exists; else nothing."""
    path = project / CURRENT
    if not path.is_file():
        return []
    name = read_json(path).get("model", "")
    folder = project / MODELS / str(name)
    return [str(folder)] if name and (folder / "run.json").is_file() else []


def accept(project: Path, folder: Path) -> None:
    """Remember a model of the project as the one to answer with, also after a restart."""
    write_json(project / CURRENT, {"model": folder.name})
