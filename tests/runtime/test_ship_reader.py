"""scripts/ship_reader.py writes what the runtime needs, from any folder of a reader: graphs that read its packed weights."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lamina
from lamina.data.squad import to_squad
from lamina.runtime.manifest import read_manifest
from tests import tiny
from tests.checkout import ROOT

SCRIPTS = ROOT / "scripts"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    sys.path.insert(0, str(SCRIPTS))  # the script imports another one beside it
    try:
        spec = importlib.util.spec_from_file_location("ship_reader", SCRIPTS / "ship_reader.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SCRIPTS))
    return module


def test_graphs_read_the_packed_weights_of_the_folder(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("train", "dev"):
        (tmp_path / f"{name}.json").write_text(json.dumps(to_squad(tiny.corpus(6))))
    (tmp_path / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=tmp_path))
    lamina.train(str(tmp_path / "small.toml"), str(tmp_path / "run"), settings={"train.epochs": 0.5})
    folder = tmp_path / "packed"
    lamina.load(tmp_path / "run", device="cpu").save(folder, weights="int8")
    small = lamina.load(folder, device="cpu")
    assert small.backend == "torch, float32"
    monkeypatch.setattr(script, "MARGIN", 101.0)  # a model that learnt nothing may change many answers
    text = script.add_graphs(small, folder, small.read(tmp_path / "dev.json"))
    assert text in (folder / "README.md").read_text(encoding="utf-8")
    graphs = read_manifest(folder).tasks["main"].graphs
    for precision in ("float32", "int8"):
        assert graphs[precision]["outputs"].initializers
        assert (folder / graphs[precision]["outputs"].file).stat().st_size < 300_000
        ours = lamina.load(folder, precision=precision).predict(tiny.corpus(2))
        apart = [abs(a.null_odds - b.null_odds) for a, b in zip(ours, small.predict(tiny.corpus(2)), strict=True)]
        assert max(apart) < (1e-4 if precision == "float32" else 0.5)

    monkeypatch.setattr(script, "MARGIN", -1.0)  # any difference is too much
    assert script.add_graphs(small, folder, small.read(tmp_path / "dev.json")).startswith("graphs in float32 only")
    assert read_manifest(folder).precisions == ["float32"]
    assert not (folder / "model_quantized.onnx").exists()
