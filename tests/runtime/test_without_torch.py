"""An exported model gives the same results without torch: in a process that cannot import it, from Python and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.data.squad import to_squad
from lamina.errors import LaminaError
from lamina.reader.exporting import export_onnx
from lamina.reader.saving import save
from lamina.runs.load import as_torch
from lamina.runs.onnx_folder import GraphOptions, calibration_windows
from tests import tiny
from tests.command import lamina as command

TEXT = "The heron was born in 1812. It lives in a ruined mill by the sea. Every morning the heron eats wild honey."
QUESTIONS = ["When was the heron born?", "What does the heron eat?"]

# Runs a program in a process that cannot import torch, and prints what it puts into `found` as JSON.
BLOCKED = """
import json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers", "onnx"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import warnings
warnings.simplefilter("ignore")
import lamina
found = {}
arguments = json.loads(sys.argv[1])
exec(sys.stdin.read())
assert "torch" not in sys.modules
print(json.dumps(found))
"""


def without_torch(program: str, *arguments: object) -> Any:
    """Return what a program puts into the dictionary `found`."""
    given = json.dumps([str(one) for one in arguments])
    done = subprocess.run([sys.executable, "-c", BLOCKED, given], input=program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a small run, and its exports `onnx` (graphs alone) and `shared` (with model.safetensors)."""
    folder = tmp_path_factory.mktemp("runtime")
    for name in ("train", "dev"):
        (folder / f"{name}.json").write_text(json.dumps(to_squad(tiny.corpus(6))))
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    lamina.train(str(folder / "small.toml"), str(folder / "run"), settings={"train.epochs": 0.5})
    reader = lamina.load(folder / "run", device="cpu")
    export_onnx(reader, folder / "onnx", int8=True)
    trained = as_torch(reader.trained)
    save(trained, folder / "shared", weights="int8", graphs=GraphOptions(inside=False, windows=calibration_windows(trained)))
    return folder


@pytest.fixture(scope="module")
def reader(folder: Path) -> lamina.Reader:
    return lamina.load(folder / "run", device="cpu")


READ = """
folder, data = arguments
reader = lamina.load(folder, precision="float32")
replies = reader.answer(%r, %r, top_k=3)
found["backend"] = reader.backend
found["replies"] = [[one.text, one.confidence, one.no_answer] for one in replies]
found["scores"] = dict(reader.evaluate(data))
found["predictions"] = dict(reader.predictions(data)["predictions"])
calibrated, report = reader.calibrate(data)
found["threshold"] = calibrated.threshold
found["repr"] = repr(reader)
"""


@pytest.mark.parametrize("name", ["onnx", "shared"])
def test_answers_scores_and_calibration_are_those_of_torch(name: str, folder: Path, reader: lamina.Reader) -> None:
    if name == "shared":  # weights that were rounded to 8 bits
        reader = lamina.load(folder / name, backend="torch", device="cpu")
    data = folder / "dev.json"
    found = without_torch(READ % (QUESTIONS, TEXT), folder / name, data)
    replies = reader.answer(QUESTIONS, TEXT, top_k=3)
    assert found["backend"] == "onnx, float32"
    assert [one[0] for one in found["replies"]] == [one.text for one in replies]
    for ours, theirs in zip(found["replies"], replies, strict=True):
        assert ours[1:] == pytest.approx([theirs.confidence, theirs.no_answer], abs=1e-4)
    assert found["predictions"] == reader.predictions(data)["predictions"]
    assert found["scores"]["tuned"]["f1"] == pytest.approx(reader.evaluate(data)["tuned"]["f1"])
    assert found["threshold"] == pytest.approx(reader.calibrate(data)[0].threshold, abs=1e-3)
    assert found["repr"] == repr(reader)


COMMANDS = """
import io, contextlib
from lamina import cli
def run(*words):
    sys.argv = ["lamina", *words]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code
    return [code, out.getvalue(), err.getvalue()]
folder, data, text, out = arguments
found["ask"] = run("ask", "--model", folder, "--text", text, "When was the heron born?", "--json")
found["predict"] = run("predict", folder, "--data", data, "--out", out, "--json")
found["evaluate"] = run("evaluate", folder, "--data", data, "--json", "--precision", "float32")
found["calibrate"] = run("calibrate", folder, "--unanswerable", "0.4", "--json")
found["train"] = run("train", "quickstart", "--out", out + ".run")
found["torch"] = run("ask", "--model", folder, "--backend", "torch", "--text", text, "Who?")
"""


def test_commands_run_without_torch_and_others_name_the_extra(folder: Path, tmp_path: Path) -> None:
    found = without_torch(COMMANDS, folder / "onnx", folder / "dev.json", TEXT, tmp_path / "predictions.json")
    for name in ("ask", "predict", "evaluate", "calibrate"):
        code, out, err = found[name]
        assert code == 0, err
        assert json.loads(out)
    for name in ("train", "torch"):
        code, out, err = found[name]
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert "needs torch" in err
        assert "Fix: pip install 'lamina-qa[train]'" in err
    assert len(json.loads((tmp_path / "predictions.json").read_text())) == 30


def test_int8_answers_nearly_as_float32(folder: Path, reader: lamina.Reader) -> None:
    for name in ("onnx", "shared"):
        small = lamina.load(folder / name, precision="int8")
        assert small.backend == "onnx, int8"
        examples = small.read(folder / "dev.json")
        ours, theirs = (one.predict(examples) for one in (small, reader))
        apart = [abs(a.null_odds - b.null_odds) for a, b in zip(ours, theirs, strict=True)]
        assert 0 < max(apart) < 0.5


def test_a_folder_without_graphs_and_unknown_choices_are_refused(folder: Path) -> None:
    with pytest.raises(LaminaError, match=r"was not exported for onnx\. Fix: run `lamina export"):
        lamina.load(folder / "run", backend="onnx")
    with pytest.raises(LaminaError, match="only torch has it"):
        lamina.load(folder / "onnx", backend="onnx", precision="bfloat16")
    with pytest.raises(LaminaError, match='"int8" is for models that were exported'):
        lamina.load(folder / "run", precision="int8")
    with pytest.raises(LaminaError, match="holds graphs only"):
        _ = lamina.load(folder / "onnx").model
    assert lamina.load(folder / "shared").model.encoder.config.layers == 2


@pytest.mark.parametrize("damage", ["graph", "weights", "manifest"])
def test_damage_is_noticed(damage: str, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in (folder / "shared").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    name = {"graph": "model_quantized.onnx", "weights": "model.safetensors", "manifest": "onnx.json"}[damage]
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content if damage != "manifest" else b'{"format": 1}')
    with pytest.raises(LaminaError, match=r"Fix: "):
        lamina.load(copy, backend="onnx", precision="int8").answer(QUESTIONS[0], TEXT)


def test_export_command_writes_a_verdict(folder: Path, tmp_path: Path) -> None:
    done = command(
        "export", folder / "run", tmp_path / "out", "--to", "onnx", "--int8", "--data", folder / "dev.json", "--json"
    )
    assert done.code == 0, done.err
    table = json.loads(done.out)["equivalence"]
    assert table["verdict"] in ("equivalent", "different", "undecided")
    assert table["questions"] == 30
    assert table["text"] in (tmp_path / "out" / "README.md").read_text()
    assert lamina.load(tmp_path / "out").answer(QUESTIONS[0], TEXT).question == QUESTIONS[0]
    refused = command("export", folder / "run", tmp_path / "other", "--int8")
    assert refused.code == 2
    assert "--int8: is for --to onnx" in refused.err
