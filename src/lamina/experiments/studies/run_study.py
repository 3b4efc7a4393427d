"""Run a study: train what is not finished yet, each run in a process of its own, and collect the table.

The folder of a study has these files:

- ``study.json``: the study, its size and where the results of its variants are
- ``runs/``, ``ensembles/``, ``steps/``: the results of the jobs, by the names of the plan
- ``logs/``: the output of each job
- ``failed.json``: the jobs that failed, with the reason; the same command tries them again
- ``times.json``: seconds of inference on the dev set, measured after the runs, one model at a time
- ``table.json``, ``table.csv``: the scores of all finished variants
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lamina.config.bundled import study_path
from lamina.data.sources import locate_data
from lamina.errors import LaminaError
from lamina.experiments.studies.plan import Job, Plan, plan_study
from lamina.experiments.studies.processes import Message, Processes, Starter
from lamina.experiments.studies.ray_jobs import OnRay
from lamina.experiments.studies.results import StudyTable, read_rows, write_tables
from lamina.experiments.studies.study_file import SizeName, read_study
from lamina.state_cache.maintenance import clear_store, list_stores
from lamina.utils.checksums import crc32_of
from lamina.utils.files import is_folder, read_json, write_atomically, write_json
from lamina.utils.locks import alone, foreign
from lamina.utils.run_folder import Run, read_object
from lamina.utils.shipped import model_folder

ABOUT = "study.json"
PAUSE = 1.0  # seconds between two looks at the clock


@dataclass(frozen=True)
class Doing:
    """A running job: its stage, and the share of the stage that is done."""

    stage: str
    share: float


@dataclass
class Status:
    """How far a study is. `line` is news for a log; it is empty most of the time."""

    plan: Plan
    done: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    running: dict[str, Doing] = field(default_factory=dict)
    line: str = ""

    @property
    def left(self) -> list[Job]:
        """The jobs that are neither done nor failed, in the order of their work."""
        return [job for job in self.plan.jobs if job.key not in self.done and job.key not in self.failed]


Watch = Callable[[Status], None]


def study(
    file: str | Path,
    *,
    size: SizeName = "desk",
    out: str | Path | None = None,
    only: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    settings: Sequence[str] = (),
    encoders: Mapping[str, str] | None = None,
    jobs: int = 1,
    minutes: float | None = None,
    watch: Watch | None = None,
    cluster: OnRay | None = None,
) -> StudyTable:
    """Train all variants of a study and return the table of their scores.

    Finished runs are not trained again. A study that was stopped or killed continues with the same call.

    Args:
        file: A STUDY.toml, or the name of a study that comes with Lamina, such as "parameter-efficiency".
        size: The size of the study: "paper", "desk" or "smoke".
        out: The folder of the study. Without it: runs/studies, the name of the study and the size.
        only: Train and return only these variants, and train those that they start from.
        seeds: Train with these seeds instead of those of the size.
        settings: Changes of all recipes, as texts ``"train.epochs=0.5"``.
        encoders: Paths or ids instead of those in `[encoders]` of the study, by name.
        jobs: The number of runs at once.
        minutes: Stop after so many minutes. Running jobs save their state.
        watch: Called with the status after each change.
        cluster: Run the jobs as tasks of a Ray cluster, which decides how many run at once.

    Returns:
        The table of the finished variants, with the reasons of those that failed.

    Raises:
        LaminaError: The study has a mistake, or another process is writing in its folder.
    """
    planned = make_plan(file, size, out, only, seeds, settings, encoders)
    return run_study(planned, jobs=jobs, minutes=minutes, watch=watch, cluster=cluster)


def make_plan(
    file: str | Path,
    size: SizeName = "desk",
    out: str | Path | None = None,
    only: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    settings: Sequence[str] = (),
    encoders: Mapping[str, str] | None = None,
) -> Plan:
    """Return the plan of `study`. Nothing is written."""
    path = study_path(str(file))
    folder = Path(out) if out is not None else Path("runs") / "studies" / f"{path.stem}-{size}"
    return plan_study(
        read_study(path),
        size,
        folder,
        seeds=seeds,
        only=only,
        settings=settings,
        encoders=encoders,
        stamp=stamp_of,
        name=str(path),
    )


def stamp_of(name: str) -> str:
    """Return the checksum of a file or dataset, those of the weights of a folder, and an empty text for what is not local."""
    if not name or name.startswith("-"):
        return ""
    try:
        if is_folder(folder := model_folder(name)):
            weights = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
            return " ".join(crc32_of(file) for file in weights)
        place = locate_data(name)
        return crc32_of(place) if isinstance(place, Path) and place.is_file() else ""
    except LaminaError:
        return ""


def finished(job: Job) -> bool:
    """Return whether the result of a job is complete."""
    if job.kind == "step":
        return _marker(job).is_file()
    return Run(job.path).finished if job.kind == "train" else (job.path / "ensemble.json").is_file()


def run_study(
    plan: Plan,
    *,
    jobs: int = 1,
    minutes: float | None = None,
    watch: Watch | None = None,
    cluster: OnRay | None = None,
) -> StudyTable:
    """Run the jobs of a plan that are not finished, and return the table."""
    until = math.inf if minutes is None else time.monotonic() + 60 * minutes
    if not (plan.out / ABOUT).exists() and foreign(plan.out):
        raise LaminaError(f"{plan.out}: already exists and is not the folder of a study. Fix: use another --out")
    with alone(plan.out):
        _write_about(plan)
        status = Status(plan, {job.key for job in plan.jobs if finished(job)})
        shown = watch or (lambda status: None)
        logs = plan.out / "logs"
        with Processes(logs, jobs) if cluster is None else cluster.jobs(logs) as processes:
            _Runner(status, processes, until, shown).run()
            if not status.left:
                _measure_times(plan, processes, until)
        write_json(plan.out / "failed.json", status.failed)
        rows = read_rows(plan)
        write_tables(plan.out, rows)
    return StudyTable(plan.study.title, plan.size, plan.out, rows, status.failed, len(status.left))


def read_table(plan: Plan) -> StudyTable:
    """Return the table of what is finished, without running anything."""
    left = sum(not finished(job) for job in plan.jobs)
    return StudyTable(plan.study.title, plan.size, plan.out, read_rows(plan), {}, left)


def _write_about(plan: Plan) -> None:
    results = [
        {"variant": one.variant, "seed": one.seed, "job": one.job, "path": str(one.path.relative_to(plan.out))}
        for one in plan.results
    ]
    variants = {name: one.model_dump(mode="json") for name, one in plan.variants.items()}
    study = plan.study.model_dump(mode="json", exclude={"variants"})
    about = {"study": study, "size": plan.size, "settings": plan.settings, "variants": variants, "results": results}
    write_json(plan.out / ABOUT, about)


def _marker(job: Job) -> Path:
    """Return the file that says that a step is complete."""
    return job.path.with_name(f"{job.path.name}.done")


@dataclass
class _Runner:
    """Keeps all processes busy until nothing is left that can run, or the time is over."""

    status: Status
    processes: Starter
    until: float
    watch: Watch

    def run(self) -> None:
        self._news(f"{len(self.status.done)} of {len(self.status.plan.jobs)} jobs are finished")
        while True:
            over = time.monotonic() >= self.until
            if not over:
                self._start_ready()
            elif self.processes.running:
                self.processes.stop()
            if not self.processes.running:
                return
            while self.processes.running and (message := self.processes.next_message(PAUSE)) is not None:
                self._read(message)
                if "ended" in message or time.monotonic() >= self.until:
                    break

    def _start_ready(self) -> None:
        """Start jobs while processes are free. A job whose needs have failed fails too."""
        for job in self.status.left:
            if failed := [needed for needed in job.needs if needed in self.status.failed]:
                self.status.failed[job.key] = f"it needs {failed[0]}, which failed"
                self._news(f"{job.key}: {self.status.failed[job.key]}")
            elif len(self.processes.running) >= self.processes.size:
                return
            elif job.key not in self.status.running and all(needed in self.status.done for needed in job.needs):
                self.status.running[job.key] = Doing("starting", 0.0)
                self.processes.start(job.key, described(job))
                self._news(f"{job.key}: started")

    def _read(self, message: Message) -> None:
        key = message["key"]
        if "stage" in message:
            self.status.running[key] = Doing(message["stage"], message["share"])
            self._news("")
        elif "failed" in message:
            self.status.failed[key] = message["failed"]
            self._news(f"{key}: failed: {message['failed']}")
        elif "done" in message:
            self._finish(key, message["seconds"])
        elif "ended" in message:
            self._ended(key, message["ended"])

    def _finish(self, key: str, seconds: float) -> None:
        job = next(job for job in self.status.plan.jobs if job.key == key)
        if job.kind == "step":
            write_atomically(_marker(job), b"")
        self.status.done.add(key)
        write_tables(self.status.plan.out, read_rows(self.status.plan))
        _clear_stores(self.status)
        self._news(f"{key}: finished in {seconds / 60:.1f} minutes")

    def _ended(self, key: str, code: int) -> None:
        self.status.running.pop(key, None)
        if key in self.status.done or key in self.status.failed:
            return
        if time.monotonic() < self.until:
            log = self.processes.log(key)
            self.status.failed[key] = f"its process ended with code {code}, perhaps for lack of memory. Fix: see {log}"
            self._news(f"{key}: {self.status.failed[key]}")
        else:
            self._news(f"{key}: stopped; the same command continues it")

    def _news(self, line: str) -> None:
        self.status.line = line
        self.watch(self.status)


def _clear_stores(status: Status) -> None:
    """Remove the stored states of runs of the study that no job will read again: they are large."""
    inside = tuple(f"{job.path}" for job in status.plan.jobs if job.key in status.done)
    needed = {job.recipe.encoder.model for job in status.left if job.recipe is not None}
    for store in list_stores():
        if store.model.startswith(inside) and store.model not in needed:
            with suppress(LaminaError):  # another process uses it
                clear_store(store.name)


def described(job: Job) -> dict[str, Any]:
    """Return a job as JSON values for its process."""
    return {
        "kind": job.kind,
        "path": str(job.path),
        "recipe": job.recipe.model_dump(mode="json") if job.recipe is not None else None,
        "command": list(job.command),
        "members": [str(member) for member in job.members],
    }


def _measure_times(plan: Plan, processes: Starter, until: float) -> None:
    """Measure the inference of the first seed of each variant, one at a time. Known times are kept.

    Shares of the data and parts of an epoch are left out: their models are as fast as the others.
    """
    size, file = plan.study.sizes[plan.size], plan.out / "times.json"
    times = read_object(file) if file.is_file() else {}
    for variant in plan.variants:
        result = next(iter(plan.results_of(variant)), None)
        if result is None or variant not in plan.study.variants or size.time_examples == 0 or time.monotonic() >= until:
            continue
        name = str(result.path.relative_to(plan.out))
        if name in times or not Run(result.path).exists or not Run(result.path).finished:
            continue
        job = {"kind": "time", "path": str(result.path), "examples": size.time_examples, "repeats": size.time_repeats}
        processes.start(name, job)
        while name in processes.running:
            message = processes.next_message(PAUSE) or {}
            if "times" in message:
                times[name] = {"seconds": message["times"], "examples": size.time_examples, "layers": message["layers"]}
        write_json(file, times)


def read_about(out: Path) -> dict[str, Any]:
    """Return the content of study.json, or raise LaminaError if the folder is not that of a study."""
    if not (out / ABOUT).is_file():
        raise LaminaError(f"{out}: not the folder of a study (it has no {ABOUT}). Fix: name the folder of `lamina study`")
    found: dict[str, Any] = read_json(out / ABOUT)
    return found
