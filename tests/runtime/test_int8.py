"""Graphs in 8 bits: their numbers, the inputs that stay in float32, and products that cannot overflow."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lamina.encoder.packing import MOST, pack, quantise
from lamina.model import Model
from lamina.runs.onnx_int8 import BITS_7, Limits, limits_of, linear_maps, made_in_8_bits, packed_rows
from lamina.runs.onnx_int8 import quantise as quantise_graph
from lamina.runs.onnx_link import Array, LinkedGraph, link, made_of
from lamina.runs.onnx_trace import OPSET, trace
from lamina.runtime.graph_engine import feeds
from lamina.runtime.manifest import Initializer
from lamina.runtime.onnx_session import make_session
from tests.runtime.graphs import random_batch
from tests.runtime.test_graphs import SMALL, VOCAB, model_of


def linked() -> tuple[Model, LinkedGraph, dict[str, Array]]:
    """Return a model whose linear maps are large enough to pack, and its graph."""
    model, _ = model_of(replace(SMALL, hidden=64, embedding=64, intermediate=128))
    graph, weights = link(trace(model, "main", "outputs", sides=1))
    return model, graph, weights


def test_rows_are_those_of_packed_files() -> None:
    weight = torch.randn(7, 40)
    weight[3] = 0
    ours, theirs = packed_rows(weight.numpy(), MOST), quantise(weight)
    for a, b in zip(ours, theirs, strict=True):
        assert np.array_equal(a, b.numpy())


def test_limits_leave_out_the_places_that_are_always_large() -> None:
    random = np.random.default_rng(0)
    highs = random.uniform(0.5, 1, (4, 64))
    highs[:, 9] = 30
    found = limits_of(-highs / 2, highs)
    assert 9 in found.apart
    assert len(found.apart) == 2
    assert -0.5 <= found.low < found.high <= 1
    assert limits_of(-np.ones((4, 64)), np.ones((4, 64))) == Limits(-1, 1)


@pytest.mark.parametrize("apart", [(), (3, 11)])
def test_a_graph_in_8_bits_computes_nearly_the_same(apart: tuple[int, ...]) -> None:
    _, graph, weights = linked()
    made = {name: made_of(how, weights) for name, how in graph.initializers.items()}
    session = make_session(graph.model.SerializeToString(), made)
    batch = random_batch(3, 20, VOCAB, 0)
    given = feeds(batch, [one.name for one in session.get_inputs()])
    wanted = session.run(None, given)
    limits = {node.input[0]: Limits(-6.0, 6.0, apart) for node in linear_maps(graph)}
    small = quantise_graph(graph, limits)
    assert any(how.rows for how in small.initializers.values()) == bool(apart)
    for most in (MOST, BITS_7):
        made = {name: made_in_8_bits(how, weights, most) for name, how in small.initializers.items()}
        found = make_session(small.model.SerializeToString(), made).run(None, given)
        for a, b in zip(found, wanted, strict=True):
            assert not np.array_equal(a, b)
            assert np.corrcoef(a[batch.mask], b[batch.mask])[0, 1] > 0.9


def test_inputs_that_are_apart_may_be_of_any_size() -> None:
    """One input of a linear map is a thousand times as large as the range. Left out of it, it is nearly exact."""
    from onnx import TensorProto, helper

    random = np.random.default_rng(0)
    weights: dict[str, Array] = {"w": random.normal(size=(80, 64)).astype(np.float32)}
    how = Initializer(tensors=("w",), transposed=True)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, size]) for name, size in (("x", 64), ("y", 80))]
    inner = helper.make_graph([helper.make_node("MatMul", ["x", "w:transposed"], ["y"])], "map", ends[:1], ends[1:])
    inner.initializer.append(TensorProto(name="w:transposed", data_type=TensorProto.FLOAT, dims=[64, 80]))
    model = helper.make_model(inner, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    x = random.uniform(-1, 1, (9, 64)).astype(np.float32)
    x[:, 5] = 1000
    errors = {}
    for apart in ((), (5,)):
        small = quantise_graph(LinkedGraph(model, {"w:transposed": how}), {"x": Limits(-1.0, 1.0, apart)})
        made = {name: made_in_8_bits(one, weights, MOST) for name, one in small.initializers.items()}
        (found,) = make_session(small.model.SerializeToString(), made).run(None, {"x": x})
        errors[apart] = np.abs(found - x @ weights["w"].T).max()
    assert errors[()] > 500
    assert errors[5,] < 0.5


def test_products_of_exported_graphs_cannot_overflow_in_16_bits() -> None:
    """Emulate processors without VNNI, which add two products of 0..255 and -n..n in 16 bits and saturate."""
    random = np.random.default_rng(0)
    inputs = random.integers(200, 256, (1, 64))
    for most, exact in ((BITS_7, True), (MOST, False)):
        weights = random.choice([-most, most], (64, 8), p=[0.1, 0.9])
        pairs = (inputs[:, 0::2, None] * weights[None, 0::2] + inputs[:, 1::2, None] * weights[None, 1::2]).clip(
            -(2**15), 2**15 - 1
        )
        assert np.array_equal(pairs.sum(1), inputs @ weights) == exact


# Runs graphs with the product that onnxruntime takes, or the one that Lamina asks for on a processor without VNNI. Prints how
# far the results are from those in float32.
EMULATED = """
import sys
import numpy as np
from lamina.runtime import onnx_session
given = np.load(sys.argv[1])
for graph, mode in zip(sys.argv[2::2], sys.argv[3::2]):
    onnx_session.has_vnni = lambda: mode == "usual"
    (found,) = onnx_session.make_session(graph, {}).run(None, {"x": given["x"]})
    print(np.abs(found - given["y"]).max())
"""


@pytest.mark.skipif(shutil.which("valgrind") is None or platform.machine() != "x86_64", reason="needs valgrind on x86-64")
def test_products_do_not_overflow_on_a_processor_without_vnni(tmp_path: Path) -> None:
    """Valgrind runs programs on a processor with AVX2 and without VNNI, so onnxruntime takes the products of such machines."""
    from onnx import ModelProto, TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    weights: dict[str, Array] = {"w": random.choice([-1.0, 1.0], (96, 128), p=[0.1, 0.9]).astype(np.float32)}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, size]) for name, size in (("x", 128), ("y", 96))]
    inner = helper.make_graph([helper.make_node("MatMul", ["x", "w:transposed"], ["y"])], "map", ends[:1], ends[1:])
    inner.initializer.append(TensorProto(name="w:transposed", data_type=TensorProto.FLOAT, dims=[128, 96]))
    model = helper.make_model(inner, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    linked = LinkedGraph(model, {"w:transposed": Initializer(tensors=("w",), transposed=True)})
    small = quantise_graph(linked, {"x": Limits(0.0, 1.0)})
    x = random.uniform(0.8, 1, (16, 128)).astype(np.float32)
    np.savez(tmp_path / "given.npz", x=x, y=x @ weights["w"].T)
    for most in (MOST, BITS_7):
        whole = ModelProto.FromString(small.model.SerializeToString())
        for place, one in enumerate(whole.graph.initializer):
            if (how := small.initializers.get(one.name)) is not None:
                made = made_in_8_bits(how, weights, most)
                whole.graph.initializer[place].CopyFrom(numpy_helper.from_array(made, one.name))
        (tmp_path / f"{most}.onnx").write_bytes(whole.SerializeToString())
    cases = ((MOST, "usual"), (MOST, "safe"), (BITS_7, "usual"))
    arguments = [str(word) for most, mode in cases for word in (tmp_path / f"{most}.onnx", mode)]
    command = ["valgrind", "--tool=none", "-q", sys.executable, "-c", EMULATED, str(tmp_path / "given.npz"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    overflown, safe, small_weights = map(float, done.stdout.split())
    assert overflown > 10  # the emulation shows what happens without care
    assert safe < 0.1
    assert small_weights < 0.1


def test_packed_weights_serve_torch_and_the_graph() -> None:
    """The tensors of model.safetensors are the initializers, but for joining and transposing."""
    model, graph, weights = linked()
    packed: dict[str, Any] = pack({f"{name}": value for name, value in model.state_dict().items()})
    small = quantise_graph(graph, {node.input[0]: Limits(-8, 8) for node in linear_maps(graph)})
    kept = {how.form for how in small.initializers.values()}
    assert kept == {"float32", "int8", "scales"}
    for how in small.initializers.values():
        if how.form == "int8" and len(how.tensors) == 1:
            stored = packed[how.tensors[0]].numpy()
            assert np.array_equal(made_in_8_bits(how, weights, MOST), stored.T if how.transposed else stored)
