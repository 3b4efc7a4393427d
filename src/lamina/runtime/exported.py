"""Load an exported model without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from lamina.answers.decisions import read_decision
from lamina.data.tokenizer import Tokenizer
from lamina.errors import LaminaError
from lamina.runtime.choose import Candidate, Trial, choose
from lamina.runtime.engine import Engine
from lamina.runtime.graph_engine import SESSIONS, GraphEngine, Runner
from lamina.runtime.manifest import MANIFEST, Manifest, has_manifest, read_manifest
from lamina.runtime.ready import ReadyModel
from lamina.runtime.settings import read_view
from lamina.tasks.registry import kind_of
from lamina.utils.checksums import crc32_of
from lamina.utils.extras import OPENVINO, TORCH, installed, missing
from lamina.utils.processor import has_vnni
from lamina.utils.run_folder import Run

Backend = Literal["auto", "torch", "onnx", "openvino"]
Precision = Literal["auto", "float32", "bfloat16", "int8"]


@dataclass(frozen=True, kw_only=True)
class Exported(ReadyModel):
    """An exported model, and the engine that runs its graphs."""

    runs: Engine
    shape_text: str

    @property
    def engine(self) -> Engine:
        """What runs the model."""
        return self.runs

    @property
    def shape(self) -> str:
        """The family and the size of the encoder, as text."""
        return self.shape_text


@dataclass(frozen=True)
class Graphs:
    """The engine of an exported model, as a candidate."""

    engine: Engine
    alone: Callable[[], AbstractContextManager[object]] = nullcontext  # a single batch has one thread
    other_threads: bool = False


class Rival:
    """Another way to run a model, as a candidate. The model is loaded when the test needs it, or was won by it before.

    Args:
        load: Loads the model.
        alone: Within it, the engine computes with one thread.
    """

    other_threads = False

    def __init__(self, load: Callable[[], ReadyModel], alone: Callable[[], AbstractContextManager[object]]) -> None:
        self._load, self.alone = load, alone

    @cached_property
    def model(self) -> ReadyModel:
        """The loaded model. Raises LaminaError if it cannot be loaded."""
        return self._load()

    @property
    def engine(self) -> Engine:
        """What runs the model."""
        return self.model.engine


def wants_export(folder: Path, backend: Backend, precision: Precision, *, device: str, plain: bool) -> bool:
    """Return whether to run the graphs of a folder.

    Args:
        folder: The folder of the model; it may not exist.
        backend: As for `lamina.load`. With "auto", a folder with graphs is loaded with them, and they may lose the test.
        precision: As for `lamina.load`.
        device: As for `lamina.load`. "auto" with a graphics processor is torch's.
        plain: Whether the caller changes nothing that only torch can change, such as the tokenizer.

    Raises:
        LaminaError: The backend cannot run this model or this number format.
    """
    if backend == "torch":
        return False
    if backend == "auto":
        fits = plain and precision != "bfloat16" and device in ("auto", "cpu")
        only = precision == "int8" or not Run(folder).model.is_file()  # torch cannot run it
        return fits and has_manifest(folder) and (only or not _graphics(device))
    if not has_manifest(folder):
        raise LaminaError(f"{folder}: was not exported for {backend}. Fix: run `lamina export {folder} OUT --to onnx`")
    if precision == "bfloat16" or device not in ("auto", "cpu"):
        what = f"precision {precision!r}" if precision == "bfloat16" else f"device {device!r}"
        raise LaminaError(f"{what}: only torch has it, not {backend}. Fix: leave it out, or choose the backend torch")
    if not plain:
        what = "another tokenizer or revision"
        raise LaminaError(f"{folder}: only torch takes {what}. Fix: leave it out, or choose the backend torch")
    return True


def load_exported(
    folder: Path,
    precision: Precision,
    threads: int | None,
    *,
    backend: Backend = "onnx",
    rivals: Mapping[str, Rival] | None = None,
) -> ReadyModel:
    """Return the model of a folder with graphs, run in the fastest way (`runtime.choose`).

    Args:
        folder: The folder of the model.
        precision: The number format of the graphs. With "auto", any that the folder has.
        threads: As for `lamina.load`.
        backend: What runs the graphs. With "auto", onnxruntime or, if it is installed, OpenVINO.
        rivals: Other ways to run the model, by the names of their engines.

    Raises:
        LaminaError: The folder is damaged, or has no graph in this number format.
    """
    run = Run.open(folder)
    run.check_files()
    manifest = read_manifest(folder)
    heads = {name: task.head for name, task in manifest.tasks.items()}
    view = read_view(run.read_recipe(), heads, str(run.recipe))
    info, where = run.read_info(), str(run.info)
    fitted = info.get("tasks")
    recipe = cast(Any, view)  # the fields of a recipe that predictions need
    decisions = {name: read_decision(kind_of(task).decision, fitted, name, where) for name, task in recipe.tasks.items()}
    engines: dict[str, Candidate] = _engines(folder, manifest, precision, threads, backend)
    name = next(iter(manifest.tasks))
    trial = Trial(crc32_of(folder / MANIFEST), name, recipe.tasks[name], view.window.length, threads)
    best = choose({**engines, **(rivals or {})}, trial)
    if rivals and best in rivals:
        return rivals[best].model
    return Exported(
        recipe=recipe,
        tokenizer=Tokenizer(run.tokenizer),
        decisions=decisions,
        run=run,
        language=info.get("language"),
        runs=engines[best].engine,
        shape_text=manifest.shape,
    )


def _engines(
    folder: Path, manifest: Manifest, precision: Precision, threads: int | None, backend: Backend
) -> dict[str, Candidate]:
    """Return the engines of a backend and a number format by name, or all that there are if one of them is "auto"."""
    if backend == "openvino" and (absent := [package for package in OPENVINO if not installed(package)]):
        raise missing("the backend openvino", absent[0], "openvino")
    known = manifest.precisions
    if precision != "auto" and precision not in known:
        raise LaminaError(
            f"{folder}: was exported in {' and '.join(known)}, not {precision}. Fix: leave the precision out, or export again"
        )
    named = backend == "openvino" and precision == "int8"  # without VNNI it is refused, and otherwise left out
    runners: list[Runner] = [one for one in SESSIONS if backend == one or (backend == "auto" and _is_there(one))]
    engines = [
        GraphEngine(folder, manifest, one, threads, runner=runner)
        for runner in runners
        for one in known
        if precision in ("auto", one) and (named or runner != "openvino" or one != "int8" or has_vnni())
    ]
    return {engine.name: Graphs(engine, other_threads=engine.runner == "openvino") for engine in engines}


def _is_there(runner: Runner) -> bool:
    return runner == "onnx" or all(map(installed, OPENVINO))


def has_torch() -> bool:
    """Return whether torch is installed."""
    return installed(TORCH)


def _graphics(device: str) -> bool:
    """Return whether there is a graphics processor that torch, if it is installed, would use for `device` = "auto"."""
    return device == "auto" and Path("/dev/nvidiactl").exists() and has_torch()
