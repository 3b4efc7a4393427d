"""Graphs run with OpenVINO (the extra openvino)."""

from __future__ import annotations

from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from lamina.errors import LaminaError, first_line
from lamina.utils.extras import OPENVINO, needs
from lamina.utils.processor import has_vnni


class OpenVinoSession:
    """A graph compiled by OpenVINO, with some streams of one thread each.

    Args:
        graph: The file of the graph.
        weights: The tensors that the file does not hold, by name.
        threads: How many calls are computed at once; further ones wait.
    """

    def __init__(self, graph: str, weights: Mapping[str, npt.NDArray[Any]], threads: int) -> None:
        try:
            with needs("the backend openvino", *OPENVINO, extra="openvino"):
                import onnx
                import openvino
        except ImportError as error:
            raise LaminaError(
                f"openvino: cannot be imported ({first_line(error)}). Fix: install it again, or choose the backend onnx"
            ) from None

        content = onnx.load(graph, load_external_data=False)
        if not has_vnni() and any(node.op_type == "QuantizeLinear" for node in content.graph.node):
            # Without VNNI, OpenVINO adds pairs of 8-bit products in 16 bits, which can overflow.
            raise LaminaError(
                f"{graph}: in 8 bits OpenVINO can overflow on a processor that is not known to have VNNI. "
                "Fix: choose the backend onnx, or the precision float32"
            )
        for tensor in content.graph.initializer:
            if tensor.name in weights:
                tensor.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(weights[tensor.name]), tensor.name))
        settings = {
            "INFERENCE_PRECISION_HINT": "f32",  # not bfloat16, its default on processors that have it
            "NUM_STREAMS": threads,
            "INFERENCE_NUM_THREADS": threads,
            "ENABLE_CPU_PINNING": False,
        }
        core = openvino.Core()
        self._compiled = core.compile_model(core.read_model(content.SerializeToString()), "CPU", settings)
        self._outputs: list[str] = [one.get_any_name() for one in self._compiled.outputs]
        self._free: SimpleQueue[Any] = SimpleQueue()
        for _ in range(threads):
            self._free.put(self._compiled.create_infer_request())
        self.inputs: list[str] = [one.get_any_name() for one in self._compiled.inputs]

    def __call__(self, inputs: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs by name."""
        request = self._free.get()
        try:
            found = request.infer(inputs)
            return {name: np.array(found[number]) for number, name in enumerate(self._outputs)}
        finally:
            self._free.put(request)
