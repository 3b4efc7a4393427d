"""Graphs run with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from lamina.utils.processor import has_vnni


class OnnxSession:
    """A graph in a session of onnxruntime. `threads` does not matter: each call computes in the thread that makes it."""

    def __init__(self, graph: str, weights: Mapping[str, npt.NDArray[Any]], threads: int) -> None:
        self._session = make_session(graph, weights)
        self.inputs: list[str] = [one.name for one in self._session.get_inputs()]

    def __call__(self, inputs: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs by name."""
        found = self._session.run(None, inputs)
        return {one.name: values for one, values in zip(self._session.get_outputs(), found, strict=True)}


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
