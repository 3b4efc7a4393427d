"""Name the weights of a traced graph: which tensors of the model each initializer holds.

The tracer leaves a linear map as it is in torch: a transposition of a weight, or of several that are joined, and a product.
Here each such weight becomes one initializer, joined and transposed already. Its `Initializer` says how to make it, so a graph
can be stored without weights and read them from model.safetensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from lamina.runs.onnx_trace import PREFIX
from lamina.runtime.manifest import Initializer
from lamina.runtime.weights import arranged

Array = npt.NDArray[Any]


@dataclass
class LinkedGraph:
    """A graph and the weights of its initializers. The graph itself holds other constants only."""

    model: Any  # onnx.ModelProto
    initializers: dict[str, Initializer] = field(default_factory=dict)


def link(model: Any) -> tuple[LinkedGraph, dict[str, Array]]:
    """Return a traced graph without its weights, and the weights by the names that they have in the model.

    Args:
        model: What `trace` returns. It is changed.
    """
    import onnx

    weights = {
        one.name.removeprefix(PREFIX): onnx.numpy_helper.to_array(one)
        for one in model.graph.initializer
        if one.name.startswith(PREFIX)
    }
    others = [one for one in model.graph.initializer if not one.name.startswith(PREFIX)]
    made = _joined_and_transposed(model.graph)
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            if name in made:
                node.input[place] = made[name][0]
    found = dict(made.values())
    used = {name for node in model.graph.node for name in node.input}
    graph = LinkedGraph(model, {name: how for name, how in found.items() if name in used})
    _remove_unused(model.graph)
    used = {name for node in model.graph.node for name in node.input}
    graph.initializers = {name: how for name, how in graph.initializers.items() if name in used}
    del model.graph.initializer[:]
    model.graph.initializer.extend(one for one in others if one.name in used)
    model.graph.initializer.extend(_placeholder(name, how, weights) for name, how in graph.initializers.items())
    return graph, weights


def made_of(how: Initializer, weights: Mapping[str, Array]) -> Array:
    """Return the float32 tensor of an initializer."""
    return arranged([weights[name][:, list(how.rows)] if how.rows else weights[name] for name in how.tensors], how)


def _joined_and_transposed(graph: Any) -> dict[str, tuple[str, Initializer]]:
    """Return for each tensor that is made of weights alone a name without the prefix, and how it is made."""
    made: dict[str, tuple[str, Initializer]] = {}
    for one in graph.initializer:
        if one.name.startswith(PREFIX):
            own = one.name.removeprefix(PREFIX)
            made[one.name] = own, Initializer(tensors=(own,))
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in made:
            made[node.output[0]] = made[node.input[0]]
        if node.op_type == "Concat" and all(name in made for name in node.input) and _attribute(node, "axis") == 0:
            tensors = tuple(name for part in node.input for name in made[part][1].tensors)
            if not any(made[part][1].transposed for part in node.input):
                made[node.output[0]] = "+".join(tensors), Initializer(tensors=tensors)
        if node.op_type == "Transpose" and node.input[0] in made and list(_attribute(node, "perm")) == [1, 0]:
            own, how = made[node.input[0]]
            if not how.transposed:
                made[node.output[0]] = f"{own}:transposed", how.model_copy(update={"transposed": True})
    return made


def _placeholder(name: str, how: Initializer, weights: Mapping[str, Array]) -> Any:
    """Return an initializer without data, in the type and the shape that it will have."""
    import onnx

    values = made_of(how, weights)
    found = onnx.TensorProto(name=name, data_type=onnx.helper.np_dtype_to_tensor_dtype(values.dtype), dims=values.shape)
    set_external(found)
    return found


def set_external(tensor: Any) -> None:
    """Mark the data of an initializer as held elsewhere. The place is a name only: the runtime gives the data."""
    import onnx

    tensor.data_location = onnx.TensorProto.EXTERNAL
    del tensor.external_data[:]
    tensor.external_data.add(key="location", value="model.safetensors")


def _attribute(node: Any, name: str) -> Any:
    import onnx

    return next((onnx.helper.get_attribute_value(one) for one in node.attribute if one.name == name), None)


def _remove_unused(graph: Any) -> None:
    """Remove nodes whose outputs nothing reads, and inputs that no node reads."""
    while True:
        read = {name for node in graph.node for name in node.input} | {one.name for one in graph.output}
        idle = [node for node in graph.node if not any(name in read for name in node.output)]
        if not idle:
            break
        for node in idle:
            graph.node.remove(node)
    kept = [one for one in graph.input if one.name in read]
    del graph.input[:]
    graph.input.extend(kept)
