"""The engine that runs the graphs of an exported model with onnxruntime."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lamina.answers.sentences import ItemOutputs
from lamina.data.logits import SpanLogits
from lamina.data.padding import Padded
from lamina.data.windows import Windows
from lamina.errors import LaminaError, first_line
from lamina.runtime import batching
from lamina.runtime.manifest import Graph, Manifest, Precision, Purpose
from lamina.runtime.weights import read_initializers
from lamina.utils.arrays import Floats
from lamina.utils.checksums import crc32_of
from lamina.utils.processor import has_vnni, processors
from lamina.utils.progress import Progress
from lamina.utils.run_folder import Run

INPUTS = {  # of a graph -> the field of a batch and its type
    "input_ids": ("ids", np.int64),
    "attention_mask": ("mask", np.int64),
    "token_type_ids": ("type_ids", np.int64),
    "context": ("context", np.bool_),
}


def feeds(batch: Padded, names: list[str]) -> dict[str, npt.NDArray[Any]]:
    """Return the inputs of a graph for a batch, by their names."""
    return {name: getattr(batch, INPUTS[name][0]).astype(INPUTS[name][1], copy=False) for name in names}


class OnnxEngine:
    """Runs the graphs of a folder with onnxruntime. Graphs are loaded when they are first used."""

    def __init__(self, folder: Path, manifest: Manifest, precision: Precision, threads: int | None = None) -> None:
        self.folder, self.manifest, self.precision = folder, manifest, precision
        self.threads = threads or processors()
        self._graphs: dict[tuple[str, Purpose], OnnxGraph] = {}

    @property
    def name(self) -> str:
        """The name of the engine, and its number format."""
        return f"onnx, {self.precision}"

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

    def _graph(self, task: str, purpose: Purpose) -> OnnxGraph:
        if (task, purpose) not in self._graphs:
            graph = self.manifest.tasks[task].graphs[self.precision][purpose]
            self._graphs[task, purpose] = OnnxGraph(self.folder, graph)
        return self._graphs[task, purpose]


class OnnxGraph:
    """A graph with its weights. Several threads may call `run` at once; each call uses one thread."""

    def __init__(self, folder: Path, graph: Graph) -> None:
        self._folder, self._graph = folder, graph
        self._loading = threading.Lock()

    def run(self, batch: Padded) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs for a batch, by name."""
        with self._loading:  # one thread loads the graph, the others wait for it
            session = self._session
        found = session.run(None, feeds(batch, [one.name for one in session.get_inputs()]))
        return {one.name: values for one, values in zip(session.get_outputs(), found, strict=True)}

    @cached_property
    def _session(self) -> Any:
        file = self._folder / self._graph.file
        if crc32_of(file) != self._graph.checksum:
            raise LaminaError(f"{file}: changed after it was exported. Fix: copy or export the model again")
        weights = read_initializers(Run(self._folder).model, self._graph.initializers)
        try:
            return make_session(str(file), weights)
        except Exception as error:  # onnxruntime raises its own kinds, and each means that the file cannot be used
            reason = first_line(error)
            raise LaminaError(f"{file}: cannot be loaded ({reason}). Fix: copy or export the model again") from None


def make_session(graph: str | bytes, weights: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Return the session of a graph, a file or its content, with the weights that the file does not hold.

    Each call of the session uses one thread. Several threads may call it at once.
    """
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if not has_vnni():
        # Such processors add pairs of 8-bit products in 16 bits, which can overflow. With this option onnxruntime makes the
        # weights unsigned and multiplies them in 32 bits.
        options.add_session_config_entry("session.x64quantprecision", "1")
    if weights:
        held = {name: onnxruntime.OrtValue.ortvalue_from_numpy(values) for name, values in weights.items()}
        options.add_external_initializers(list(held), list(held.values()))
    # without a fallback: before it, onnxruntime prints lines about a damaged graph
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"], enable_fallback=0)
