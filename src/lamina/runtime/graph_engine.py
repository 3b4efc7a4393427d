"""The engine that runs the graphs of an exported model, with onnxruntime or OpenVINO."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from lamina.answers.sentences import ItemOutputs
from lamina.data.logits import SpanLogits
from lamina.data.padding import Padded
from lamina.data.windows import Windows
from lamina.errors import LaminaError, first_line
from lamina.runtime import batching, onnx_session, openvino_session
from lamina.runtime.manifest import Graph, Manifest, Precision, Purpose
from lamina.runtime.weights import read_initializers
from lamina.utils.arrays import Floats
from lamina.utils.checksums import crc32_of
from lamina.utils.processor import processors
from lamina.utils.progress import Progress
from lamina.utils.run_folder import Run

INPUTS = {  # of a graph -> the field of a batch and its type
    "input_ids": ("ids", np.int64),
    "attention_mask": ("mask", np.int64),
    "token_type_ids": ("type_ids", np.int64),
    "context": ("context", np.bool_),
}


Runner = Literal["onnx", "openvino"]
Arrays = dict[str, npt.NDArray[Any]]


class Session(Protocol):
    """A loaded graph. Several threads may call it at once; each call uses one thread."""

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs."""
        ...

    def __call__(self, inputs: Arrays) -> Arrays:
        """Return the outputs by name."""
        ...


# Takes the path of a graph, the weights that the file does not hold, and how many threads may call the session at once.
Loader = Callable[[str, Mapping[str, npt.NDArray[Any]], int], Session]
SESSIONS: dict[Runner, Loader] = {
    "onnx": onnx_session.OnnxSession,
    "openvino": openvino_session.OpenVinoSession,
}


def feeds(batch: Padded, names: list[str]) -> Arrays:
    """Return the inputs of a graph for a batch, by their names."""
    return {name: getattr(batch, INPUTS[name][0]).astype(INPUTS[name][1], copy=False) for name in names}


class GraphEngine:
    """Runs the graphs of a folder. Graphs are loaded when they are first used."""

    def __init__(
        self, folder: Path, manifest: Manifest, precision: Precision, threads: int | None = None, *, runner: Runner = "onnx"
    ) -> None:
        self.folder, self.manifest, self.precision, self.runner = folder, manifest, precision, runner
        self.threads = threads or processors()
        self._graphs: dict[tuple[str, Purpose], LoadedGraph] = {}

    @property
    def name(self) -> str:
        """The name of the engine, and its number format."""
        return f"{self.runner}, {self.precision}"

    def spans(self, windows: Windows, task: str, progress: Progress) -> SpanLogits:
        """Return the start and end logits of every token of all windows."""
        return batching.spans(self._graph(task, "outputs").run, windows, self.threads, progress)

    def items(self, windows: Windows, task: str, progress: Progress) -> ItemOutputs:
        """Return the outputs of a head for every item, by their names."""
        run = self._graph(task, "outputs").run
        return batching.items(run, windows, self.threads, progress, sides=windows.sides)

    def vectors(self, windows: Windows, task: str, progress: Progress) -> Floats:
        """Return the pooled vector of every text, [W, D]; the head must be one for sentences."""
        found = batching.items(self._graph(task, "vectors").run, windows, self.threads, progress, sides=1)
        return found["vectors"]

    def _graph(self, task: str, purpose: Purpose) -> LoadedGraph:
        if (task, purpose) not in self._graphs:
            graph = self.manifest.tasks[task].graphs[self.precision][purpose]
            self._graphs[task, purpose] = LoadedGraph(self.folder, graph, SESSIONS[self.runner], self.threads)
        return self._graphs[task, purpose]


class LoadedGraph:
    """A graph with its weights. Several threads may call `run` at once; each call uses one thread."""

    def __init__(self, folder: Path, graph: Graph, load: Loader, threads: int) -> None:
        self._folder, self._graph, self._load, self._threads = folder, graph, load, threads
        self._loading = threading.Lock()

    def run(self, batch: Padded) -> Arrays:
        """Return the outputs for a batch, by name."""
        with self._loading:  # one thread loads the graph, the others wait for it
            session = self._session
        return session(feeds(batch, session.inputs))

    @cached_property
    def _session(self) -> Session:
        file = self._folder / self._graph.file
        if crc32_of(file) != self._graph.checksum:
            raise LaminaError(f"{file}: changed after it was exported. Fix: copy or export the model again")
        weights = read_initializers(Run(self._folder).model, self._graph.initializers)
        try:
            return self._load(str(file), weights, self._threads)
        except LaminaError:
            raise
        except Exception as error:  # the libraries raise their own kinds, and each means that the file cannot be used
            reason = first_line(error)
            raise LaminaError(f"{file}: cannot be loaded ({reason}). Fix: copy or export the model again") from None
