"""Static quantisation of a linked graph: linear maps multiply 8-bit numbers, in the form of ONNX that all engines read (QDQ).

- Weights are rows of whole numbers with a scale each, as `encoder.packing` stores them.
- The inputs of linear maps are rounded to 0 to 255. Their ranges are fixed beforehand, from the inputs on calibration windows.
- A few inputs of a linear map are far greater than all others, always the same ones. They would make the steps between the
  whole numbers coarse. As in LLM.int8() (Dettmers et al. 2022), they are multiplied in float32, and the rest in 8 bits. There
  the paper finds them in each batch; here they are fixed beforehand.
- The word table is read in 8 bits too. Everything else stays in float32.

A product of 8-bit numbers adds pairs in 16 bits on x86 processors without VNNI. With weights up to 127 a pair can overflow. A
graph that holds its own weights has them up to 63, so no engine overflows: 2 * 255 * 63 < 2^15. A graph that reads
model.safetensors has 127; Lamina's engine then asks onnxruntime for products that cannot overflow.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from lamina.data.padding import Padded, pack, pad_windows
from lamina.data.windows import Windows
from lamina.encoder.packing import SMALL
from lamina.runs.onnx_link import Array, LinkedGraph, made_of, set_external
from lamina.runtime.batching import TOKENS
from lamina.runtime.graph_engine import feeds
from lamina.runtime.manifest import Initializer
from lamina.runtime.onnx_session import make_session
from lamina.runtime.weights import arranged

WINDOWS = 200  # to calibrate on
BITS_7 = 63  # the greatest weight of a graph that every engine may run
SHARE = 32  # one of so many inputs of a linear map may be in float32
WORTH = 1.3  # by how much that must shrink the range of the others
_WORDS = "encoder.embeddings.word.weight"


class Limits(NamedTuple):
    """The range of the input of a linear map, which holds 0, and the places of the inputs that are left out of it."""

    low: float
    high: float
    apart: tuple[int, ...] = ()


def linear_maps(graph: LinkedGraph) -> list[Any]:
    """Return the nodes that multiply with a weight that can be packed."""
    return [
        node
        for node in graph.model.graph.node
        if node.op_type == "MatMul"
        and (how := graph.initializers.get(node.input[1])) is not None
        and how.transposed
        and _size(graph, node.input[1]) >= SMALL
    ]


def calibrate(graph: LinkedGraph, weights: Mapping[str, Array], windows: Windows, *, most: int = WINDOWS) -> dict[str, Limits]:
    """Return the limits of the input of each linear map on some windows.

    Args:
        graph: The float32 graph.
        weights: Its weights, by the names that they have in the model.
        windows: The windows of texts as they are in use.
        most: The greatest number of windows to run.
    """
    import onnx

    inputs = sorted({node.input[0] for node in linear_maps(graph)})
    watched = copy.deepcopy(graph.model)
    del watched.graph.output[:]
    watched.graph.output.extend(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in inputs)
    held = {name: made_of(how, weights) for name, how in graph.initializers.items()}
    session = make_session(watched.SerializeToString(), held)
    names = [one.name for one in session.get_inputs()]
    found: dict[str, list[tuple[Array, Array]]] = {name: [] for name in inputs}
    for batch in _batches(windows, most):
        for name, values in zip(inputs, session.run(inputs, feeds(batch, names)), strict=True):
            real = values[batch.mask] if values.shape[:2] == batch.mask.shape else values.reshape(-1, values.shape[-1])
            found[name].append((real.min(0), real.max(0)))
    return {name: limits_of(*map(np.stack, zip(*seen, strict=True))) for name, seen in found.items()}


def limits_of(lows: Array, highs: Array) -> Limits:
    """Return the limits of a tensor from the lowest and highest value of each of its D places in each batch, [B, D].

    The range is the mean over the batches, so that one odd window does not make the steps coarse for all others.
    """
    top = np.maximum(np.abs(lows), np.abs(highs)).max(0)  # [D]
    apart = np.sort(np.argsort(top)[len(top) - len(top) // SHARE :])
    rest = np.delete(np.arange(len(top)), apart)
    if not len(apart) or top[rest].max() * WORTH > top.max():
        apart, rest = apart[:0], np.arange(len(top))
    low, high = lows[:, rest].min(1).mean(), highs[:, rest].max(1).mean()
    return Limits(min(0.0, float(low)), max(0.0, float(high)), tuple(apart.tolist()))


def quantise(graph: LinkedGraph, limits: Mapping[str, Limits]) -> LinkedGraph:
    """Return the graph with linear maps in 8 bits. The graph that is given does not change."""
    import onnx

    made = LinkedGraph(copy.deepcopy(graph.model), dict(graph.initializers))
    inner = made.model.graph
    ours = {node.output[0] for node in linear_maps(made)}
    nodes: dict[str, Any] = {}  # by their first output, in order; nodes that several linear maps share are there once
    for node in inner.node:
        if node.output[0] in ours:
            new = _linear_in_8_bits(made, node, limits[node.input[0]])
        else:
            words = node.op_type == "Gather" and node.input[0] == _WORDS and _size(made, _WORDS) >= SMALL
            new = _packed_rows(made, node) if words else [node]
        for one in new:
            nodes.setdefault(one.output[0], one)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes.values()]
    used = {name for node in kept for name in node.input}
    stored = {one.name: one for one in inner.initializer if one.name in used}
    copies = [onnx.TensorProto.FromString(one.SerializeToString()) for one in stored.values()]
    del inner.node[:]
    inner.node.extend(kept)
    del inner.initializer[:]
    inner.initializer.extend(copies)
    return replace(made, initializers={name: how for name, how in made.initializers.items() if name in used})


def packed_rows(weight: Array, most: int) -> tuple[Array, Array]:
    """Return a matrix as whole numbers from -most to most and the scale of each row, as `encoder.packing.quantise` does."""
    rows = weight.reshape(len(weight), -1)
    scale = (np.abs(rows).max(1) / most).astype(np.float32)
    whole = np.rint(rows / np.where(scale > 0, scale, np.inf)[:, None]).astype(np.int8)
    return whole.reshape(weight.shape), scale


def made_in_8_bits(how: Initializer, weights: Mapping[str, Array], most: int = BITS_7) -> Array:
    """Return the tensor of an initializer of any form."""
    if how.form == "float32":
        return made_of(how, weights)
    which = 0 if how.form == "int8" else 1
    return arranged([packed_rows(weights[name], most)[which] for name in how.tensors], how)


def _batches(windows: Windows, most: int) -> Iterator[Padded]:
    """Yield up to `most` windows, spread over all of them, in padded batches of whole items."""
    chosen = np.unique(np.linspace(0, windows.items - 1, min(windows.items, max(1, most // windows.sides))).astype(np.int64))
    lengths = windows.item_lengths[chosen]
    order = np.argsort(-lengths, kind="stable")
    for part in pack(lengths[order], TOKENS):
        yield pad_windows(windows, windows.windows_of(chosen[order[part]]))


def _linear_in_8_bits(graph: LinkedGraph, node: Any, limits: Limits) -> list[Any]:
    """Return the nodes that multiply as `node` does, in 8 bits but for the inputs `apart`."""
    import onnx

    make, (given, weight), out = onnx.helper.make_node, node.input, node.output[0]
    how = graph.initializers[weight]
    inputs, outputs = next(list(one.dims) for one in graph.model.graph.initializer if one.name == weight)
    scale = max((limits.high - limits.low) / 255, 1e-9)
    constants = {
        f"{given}:scale": np.float32(scale),
        f"{given}:zero": np.uint8(np.clip(round(-limits.low / scale), 0, 255)),
        f"{given}:apart": np.asarray(limits.apart, np.int64),
    }
    _store(graph, constants)
    whole = how.model_copy(update={"form": "int8", "zeros": limits.apart})
    scales = how.model_copy(update={"form": "scales", "transposed": False})
    _declare(graph, f"{weight}:int8", whole, onnx.TensorProto.INT8, [inputs, outputs])
    _declare(graph, f"{weight}:scales", scales, onnx.TensorProto.FLOAT, [outputs])
    steps = [f"{given}:scale", f"{given}:zero"]
    found = [
        make("QuantizeLinear", [given, *steps], [f"{given}:whole"]),
        make("DequantizeLinear", [f"{given}:whole", *steps], [f"{given}:rounded"]),
        make("DequantizeLinear", [f"{weight}:int8", f"{weight}:scales"], [f"{weight}:packed"], axis=1),
    ]
    if not limits.apart:
        return [*found, make("MatMul", [f"{given}:rounded", f"{weight}:packed"], [out])]
    rows = how.model_copy(update={"rows": limits.apart})
    _declare(graph, f"{weight}:apart", rows, onnx.TensorProto.FLOAT, [len(limits.apart), outputs])
    return [
        *found,
        make("MatMul", [f"{given}:rounded", f"{weight}:packed"], [f"{out}:int8"]),
        make("Gather", [given, f"{given}:apart"], [f"{given}:few"], axis=-1),
        make("MatMul", [f"{given}:few", f"{weight}:apart"], [f"{out}:float32"]),
        make("Add", [f"{out}:int8", f"{out}:float32"], [out]),
    ]


def _packed_rows(graph: LinkedGraph, gather: Any) -> list[Any]:
    """Return the nodes that read rows of the word table in 8 bits."""
    import onnx

    name, ids, out = gather.input[0], gather.input[1], gather.output[0]
    dims = next(list(one.dims) for one in graph.model.graph.initializer if one.name == name)
    _declare(graph, f"{name}:int8", Initializer(tensors=(name,), form="int8"), onnx.TensorProto.INT8, dims)
    _declare(graph, f"{name}:scales", Initializer(tensors=(name,), form="scales"), onnx.TensorProto.FLOAT, dims[:1])
    _store(graph, {f"{name}:last": np.asarray([-1])})
    make = onnx.helper.make_node
    return [
        make("Gather", [f"{name}:int8", ids], [f"{out}:int8"]),
        make("Cast", [f"{out}:int8"], [f"{out}:whole"], to=onnx.TensorProto.FLOAT),
        make("Gather", [f"{name}:scales", ids], [f"{out}:scales"]),
        make("Unsqueeze", [f"{out}:scales", f"{name}:last"], [f"{out}:factors"]),
        make("Mul", [f"{out}:whole", f"{out}:factors"], [out]),
    ]


def _declare(graph: LinkedGraph, name: str, how: Initializer, type: int, dims: list[int]) -> None:
    """Add an initializer without data to the graph."""
    import onnx

    graph.initializers[name] = how
    tensor = onnx.TensorProto(name=name, data_type=type, dims=dims)
    set_external(tensor)
    graph.model.graph.initializer.append(tensor)


def _store(graph: LinkedGraph, constants: Mapping[str, Any]) -> None:
    """Add constants with their data to the graph."""
    import onnx

    made = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph.model.graph.initializer.extend(made)


def _size(graph: LinkedGraph, name: str) -> int:
    return next(int(np.prod(list(one.dims))) for one in graph.model.graph.initializer if one.name == name)
