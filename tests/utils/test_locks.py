"""Tests of locks between real processes."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lamina.config.parse import parse_recipe
from lamina.errors import LaminaError
from lamina.training import trainer
from lamina.utils.locks import NAME, BusyError, Lock, alone
from lamina.utils.run_folder import Run
from tests import tiny

HOLD = """
import sys
from pathlib import Path
from lamina.utils.locks import alone
with alone(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_waiter_locks_the_new_file_after_a_removal(tmp_path: Path) -> None:
    """A process that waited while a store was cleared must not write at the same time as a later one."""
    first = Lock(tmp_path / "lock")
    waited = threading.Thread(target=lambda: held.append(Lock(tmp_path / "lock")))
    held: list[Lock] = []
    waited.start()
    (tmp_path / "lock").unlink()
    first.close()
    waited.join(10)
    with pytest.raises(BusyError):
        Lock(tmp_path / "lock", wait=False)
    held[0].close()


def test_two_runs_do_not_write_into_one_folder(tmp_path: Path) -> None:
    out = tmp_path / "run"
    recipe = parse_recipe({"data": {"train": "fables/train", "questions": 20}, "encoder": tiny.TINY.model_dump()})
    with subprocess.Popen([sys.executable, "-c", HOLD, out], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        message = r"run: another process is writing here\. Fix: wait until it has ended, or use another folder"
        with pytest.raises(LaminaError, match=message):
            trainer.train(recipe, out)
        other.kill()
    assert (out / NAME).exists(), "a killed process leaves its lock file"
    run = trainer.train(recipe, out)
    assert run.finished and not (out / NAME).exists()


def test_an_empty_folder_is_removed(tmp_path: Path) -> None:
    def fail() -> None:
        with alone(tmp_path / "empty"):
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert not (tmp_path / "empty").exists()
    with alone(tmp_path / "used"):
        (tmp_path / "used" / "file").touch()
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["file"]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP])
def test_a_disk_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "no locks")

    monkeypatch.setattr("fcntl.flock", refuse)
    with alone(tmp_path / "folder"):
        (tmp_path / "folder" / "file").touch()
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["file"]


def test_a_lock_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(LaminaError, match="cannot be written: Is a directory"), alone(tmp_path):
        pass


def test_a_run_that_another_process_finished_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = parse_recipe({"data": {"train": "fables/train", "questions": 20}, "encoder": tiny.TINY.model_dump()})
    run, check = Run(tmp_path / "run"), trainer._check_folder

    def slow(*arguments: Any, **options: Any) -> None:
        check(*arguments, **options)
        monkeypatch.setattr(trainer, "_check_folder", check)
        trainer.train(recipe, run.path)
        written.append(run.model.stat().st_mtime_ns)

    written: list[int] = []
    monkeypatch.setattr(trainer, "_check_folder", slow)
    trainer.train(recipe, run.path)
    assert [run.model.stat().st_mtime_ns] == written


def test_a_system_without_fcntl_has_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with alone(tmp_path / "folder"):
        assert list((tmp_path / "folder").iterdir()) == []
