"""`kill -9` at random moments: the resumed command ends with the same files as an uninterrupted one.

A case runs one writing command, kills it at random moments of the time that it usually takes, and runs it again with its way
to resume, until it ends. Then the results must be equal byte by byte, apart from times. No draft file, lock or child process
may be left. Each command runs in a fork of this process; the workers of `tune` and `study` are their own children.

    python -m campaigns.kill --size 100 --log kill.jsonl --out results/hardening/kill.json
    python -m campaigns.kill --only train average --size 6
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from campaigns import material
from campaigns.common import Campaign, Command, Failure, HangError, bad_end, parser, preload

PATIENCE = 900.0  # seconds on the clock for one command
KILLS = 3  # at most, in one case
TIMES = ("costs", "minutes", "seconds", "_seconds", "began", "ended", "peak_memory_mb", "versions", "times", "when", "timing")

PLACES = ("folder", "checksums")  # the way from a run to its encoder depends on where the run is


@dataclass(frozen=True)
class Job:
    """A writing command: how it starts, how it continues after a kill, and the folder that it writes."""

    start: Callable[[Path], Sequence[object]]
    again: Callable[[Path], Sequence[object]]
    compared: Callable[[Path], dict[str, object]]


def jobs(data: Path) -> dict[str, Job]:
    """Return the commands, on the material in a folder."""
    recipe = data / "recipe.toml"

    def train(out: Path) -> list[object]:
        return ["train", recipe, "--out", out]

    def pretrain(out: Path) -> list[object]:
        return ["pretrain", data / "pretrain.json", "--out", out]

    def tune(out: Path) -> list[object]:
        return ["tune", recipe, "--space", data / "space.toml", "--out", out, "--set", "data.dev=none"]

    def study(out: Path) -> list[object]:
        return ["study", data / "study.toml", "--out", out]

    def extract(out: Path) -> list[object]:
        frozen = ("tune.layers=0", "cache.use=always", "train.epochs=0.1")
        return ["train", recipe, "--out", out, *(word for one in frozen for word in ("--set", one))]

    def fit(out: Path) -> list[object]:
        fast = ["--set", "train.epochs=1", "--set", "tune.layers=all", "--set", "train.threads=1"]
        return ["fit", data / "train.json", "--from", data / "run", "--minutes", 60, "--out", out, *fast]

    def average(out: Path) -> list[object]:
        return ["average", data / "run", data / "run2", "--out", out]

    def resumed(words: Callable[[Path], list[object]]) -> Callable[[Path], list[object]]:
        return lambda out: [*words(out), "--resume"]

    return {
        "train": Job(train, resumed(train), results),
        "pretrain": Job(pretrain, resumed(pretrain), results),
        "tune": Job(tune, resumed(tune), results),
        "study": Job(study, study, results),
        "extract": Job(extract, resumed(extract), results),
        "fit": Job(fit, fit, results),  # it has no --resume: it starts again
        "average": Job(average, average, results),
    }


def results(out: Path) -> dict[str, object]:
    """Return the content of each file of a folder, without times. A database is left out: its tables are in other files."""
    found: dict[str, object] = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if not path.is_file() or path.suffix in (".db", ".png", ".html", ".lock", ".log"):
            continue
        data = path.read_bytes().replace(str(out).encode(), b"OUT")
        if path.suffix == ".json":
            found[name] = _without_times(json.loads(data))
        elif path.suffix in (".md", ".txt", ".csv"):
            continue  # tables for people, with times
        else:
            found[name] = data
    return found


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_times(v) for k, v in value.items() if not k.endswith((*TIMES, *PLACES))}
    return [_without_times(one) for one in value] if isinstance(value, list) else value


def leftovers(folder: Path) -> list[str]:
    """Return drafts and lock files that are left. A store keeps its lock files, which no process holds."""
    names = [path for path in folder.rglob("*") if path.name.startswith(".") and path.name.endswith((".tmp", ".lock"))]
    return [str(path.relative_to(folder)) for path in names]


class Kills:
    """The commands with their uninterrupted results, in a working folder."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._prepare()
        self.jobs = {name: job for name, job in jobs(self.data).items() if not names or name in names}
        self._whole: dict[str, tuple[float, dict[str, object]]] = {}

    def _prepare(self) -> None:
        recipe = material.write_recipe(self.data)
        (self.data / "space.toml").write_text(material.SPACE)
        (self.data / "study.toml").write_text(material.STUDY.format(folder=self.data))
        (self.data / "pretrain.json").write_text(json.dumps(material.pretraining(self.data)))
        for number, name in enumerate(("run", "run2")):
            self._end(Command(["train", recipe, "--out", self.data / name, "--set", f"train.seed={number}"], self.folder / "o"))

    def _variables(self, work: Path) -> dict[str, str | None]:
        return {"LAMINA_CACHE": str(work / "cache"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "LAMINA_DATA": None}

    def _end(self, command: Command) -> float:
        began = time.monotonic()
        ended = command.wait(PATIENCE)
        if problem := bad_end(ended):
            raise RuntimeError(problem)
        if ended.code:
            raise RuntimeError(ended.err)
        return time.monotonic() - began

    def whole(self, name: str) -> tuple[float, dict[str, object]]:
        """Return how long the uninterrupted command takes, and its results."""
        if name not in self._whole:
            work = self.folder / f"whole-{name}"
            work.mkdir()
            words = self.jobs[name].start(work / "out")
            seconds = self._end(Command(words, work / "o", self._variables(work), cwd=work))
            self._whole[name] = seconds, self.jobs[name].compared(work / "out")
        return self._whole[name]

    def run_case(self, name: str, draw: Random, work: Path) -> str:
        """Run one case. Return its outcome; raise AssertionError if a promise is broken."""
        seconds, _ = self.whole(name)
        job, kills = self.jobs[name], 0
        words = job.start(work / "out")
        for _ in range(draw.randint(1, KILLS)):
            command = Command(words, work / "o", self._variables(work), cwd=work)
            until = time.monotonic() + draw.uniform(0, seconds)
            while command.running() and time.monotonic() < until:
                time.sleep(0.005)
            if not command.running():
                ended = command.ended()
                check(bad_end(ended) or (ended.err if ended.code else None), "the command failed")
                return self._compared(name, work, kills)  # it was faster than the kill
            command.kill()
            kills += 1
            check("; ".join(command.survivors()), "a child process is left")
            if name == "fit" and (work / "out").exists() and not (work / "out" / "fit.json").exists():
                shutil.rmtree(work / "out")  # as the message of the next start says
            if name == "average" and (work / "out").exists():
                return self._compared(name, work, kills)  # its folder appears whole, so the kill came after its work
            words = job.again(work / "out") if started(work / "out") else job.start(work / "out")
        command = Command(words, work / "o", self._variables(work), cwd=work)
        ended = command.wait(PATIENCE)
        check(bad_end(ended) or (ended.err if ended.code else None), "the resumed command failed")
        check("; ".join(command.survivors()), "a child process is left")
        return self._compared(name, work, kills)

    def _compared(self, name: str, work: Path, kills: int) -> str:
        """Compare the results with those of the uninterrupted command."""
        job, (_, wanted) = self.jobs[name], self.whole(name)
        check(different(job.compared(work / "out"), wanted), "other results in")
        check(", ".join(leftovers(work)), "left over")
        return f"{kills} kills"


def different(found: dict[str, object], wanted: dict[str, object]) -> str:
    """Return the names of the files that differ."""
    return ", ".join(sorted(file for file in found.keys() | wanted.keys() if found.get(file) != wanted.get(file)))


def started(out: Path) -> bool:
    """Return whether a command has written its first file, from which it can be resumed."""
    return any((out / name).is_file() for name in ("recipe.json", "search.json", "pretraining.json", "run.json"))


def check(problem: str | None, what: str) -> None:
    if problem:
        raise AssertionError(f"{what}: {problem}")


def run(campaign: Campaign, names: Sequence[str] = ()) -> Campaign:
    """Run all cases; the commands take turns."""
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    preload()
    with tempfile.TemporaryDirectory(prefix="kill-", ignore_cleanup_errors=True) as place:
        kills = Kills(Path(place).resolve(), names)
        order = list(kills.jobs)
        for case in range(campaign.size):
            if campaign.over:
                break
            name = order[case % len(order)]
            work = Path(place).resolve() / "work"
            work.mkdir()
            try:
                campaign.count(name, kills.run_case(name, campaign.draw(case), work))
            except AssertionError as problem:
                campaign.fail(Failure(case, name, "wrong", str(problem)[:1500]))
            except HangError as problem:
                campaign.fail(Failure(case, name, "hang", str(problem)))
            shutil.rmtree(work, ignore_errors=True)
    return campaign


def main() -> int:
    options = parser(__doc__ or "", size=20)
    options.add_argument("--only", nargs="+", default=[], help="commands")
    given = options.parse_args()
    return run(Campaign("kill", given.seed, given.size, given.log, given.at_most), given.only).finish(given.out)


if __name__ == "__main__":
    sys.exit(main())
