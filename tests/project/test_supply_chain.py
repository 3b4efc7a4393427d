"""What SECURITY.md promises: no pickle of a stranger is read, and a hostile file runs no code."""

from __future__ import annotations

import ast
import json
import pickle
import re
import struct
from pathlib import Path

import pytest
import torch

import lamina
from lamina.encoder.files import opened, unpickled
from lamina.errors import LaminaError
from lamina.training.checkpoint import State, load_checkpoint, save_checkpoint
from tests.checkout import ROOT
from tests.golden import TRAINED

SOURCE = ROOT / "src" / "lamina"
PICKLING = {"utils/background.py"}  # it calls a function of this package in a process that it starts itself


def test_only_one_module_imports_pickle_and_torch_reads_tensors_only() -> None:
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            modules += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            if {"pickle", "cPickle", "_pickle", "dill", "joblib", "marshal", "shelve", "cloudpickle"} & set(modules):
                found.add(name)
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            arguments = {one.arg: ast.unparse(one.value) for one in node.keywords}
            assert called not in ("eval", "exec", "yaml.load", "torch.jit.load"), f"{name}: {called}"
            assert arguments.get("trust_remote_code") in (None, "False"), f"{name}: {called}"
            if called == "torch.load":
                assert arguments["weights_only"] == "True", name
            if called in ("np.load", "numpy.load"):
                assert arguments.get("allow_pickle", "False") == "False", name
    assert found == PICKLING


class Hostile:
    """A pickle that makes a file when it is read."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.target,)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors", "config.json", "tokenizer.json", "run.json"])
def test_a_hostile_pickle_in_a_model_runs_no_code(name: str, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    pickle.loads(pickle.dumps(Hostile(touched)))
    assert touched.exists(), "the pickle works"
    touched.unlink()
    folder = tmp_path / "model"
    folder.mkdir()
    for path in TRAINED.iterdir():
        if not (name == "pytorch_model.bin" and path.suffix == ".safetensors"):
            (folder / path.name).write_bytes(path.read_bytes())
    torch.save({"embeddings.word_embeddings.weight": Hostile(touched)}, folder / name)
    for allowed in (False, True):
        with pytest.raises(LaminaError, match="Fix: "):
            lamina.load(folder, device="cpu", allow_pickle=allowed)
        assert not touched.exists()


def test_a_hostile_checkpoint_of_a_run_runs_no_code(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    save_checkpoint(tmp_path / "checkpoint.pt", model, optimizer, State())
    content = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    torch.save({**content, "memories": Hostile(tmp_path / "touched")}, tmp_path / "checkpoint.pt")
    with pytest.raises(LaminaError, match="the checkpoint cannot be read"):
        load_checkpoint(tmp_path / "checkpoint.pt", model, optimizer)
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"\x80\x04", b"PK\x03\x04", b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01h\x05s.", pickle.dumps([1]), b"\x80\x02]q\x00."],
)
def test_a_damaged_pickle_is_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(content)
    with pytest.raises(LaminaError, match="Fix: "):
        unpickled(tmp_path / "pytorch_model.bin")


@pytest.mark.parametrize("length", [2**63, 2**40, 10**8 + 1, 2**64 - 1])
def test_the_header_of_a_safetensors_file_has_a_limit(length: int, tmp_path: Path) -> None:
    """A file of a few bytes must not ask for gigabytes."""
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", length) + b"{}" * 20)
    with pytest.raises(LaminaError, match="the weights are unreadable"):
        opened(tmp_path / "model.safetensors")


def test_a_tensor_outside_of_its_file_is_refused(tmp_path: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 16)
    with pytest.raises(LaminaError, match="the weights are unreadable"):
        opened(tmp_path / "model.safetensors")


def test_weights_that_are_a_pipe_are_refused(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(LaminaError, match="no such file"):
        opened(tmp_path / "model.safetensors")


def test_dependencies_are_pinned_and_have_no_known_weakness_of_security_md() -> None:
    """Compare constraints.txt with the versions that SECURITY.md asks for. `pip-audit` asks a service for all others."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if re.fullmatch(r"[\w.-]+==[\w.+]+", line))
    for name, least in (("torch", (2, 10)), ("transformers", (5, 3))):
        assert tuple(int(part) for part in pins[name].split(".")[:2]) >= least
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "torch 2.10" in text and "transformers 5.3" in text
