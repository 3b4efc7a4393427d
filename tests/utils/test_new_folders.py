"""A new folder appears whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from lamina.errors import LaminaError
from lamina.utils.locks import foreign
from lamina.utils.new_folders import new_folder, work_folder


def test_a_folder_gets_its_name_at_the_end(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with new_folder(out) as draft:
        (draft / "a").write_text("a")
        assert not out.exists() and draft.parent == tmp_path
    assert [path.name for path in out.iterdir()] == ["a"] and [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_empty_folder_is_replaced_and_a_full_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with new_folder(tmp_path / "out") as draft:
        (draft / "a").touch()
    with pytest.raises(LaminaError, match=r"exists and is not empty\. Fix: choose"), new_folder(tmp_path / "out", "choose"):
        pass


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"), new_folder(tmp_path / "out") as draft:
        (draft / "folder").mkdir()
        raise ValueError("no")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        with new_folder(tmp_path / "out") as draft:
            (draft / "half").touch()
            os._exit(0)
    os.waitpid(child, 0)
    assert [path.name for path in tmp_path.iterdir()] == [".out-draft"]
    with new_folder(tmp_path / "out") as draft:
        (draft / "whole").touch()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["whole"] and len(list(tmp_path.iterdir())) == 1


def test_two_processes_cannot_write_one_folder(tmp_path: Path) -> None:
    refused = pytest.raises(LaminaError, match="another process is writing here")
    with new_folder(tmp_path / "out"), refused, new_folder(tmp_path / "out"):
        pass


def test_a_folder_on_another_disk_gets_the_files_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("Device or resource busy")

    (tmp_path / "out").mkdir()
    with new_folder(tmp_path / "out") as draft:
        for name in ("run.json", "z", "a"):
            (draft / name).write_text(name)
        monkeypatch.setattr(Path, "replace", refuse)
        moved: list[str] = []
        move = shutil.move

        def noted(path: Path, place: Path) -> None:
            moved.append(path.name)
            move(path, place)

        monkeypatch.setattr(shutil, "move", noted)
    assert moved[-1] == "run.json" and len(moved) == 3
    assert len(list((tmp_path / "out").iterdir())) == 3 and len(list(tmp_path.iterdir())) == 1


def test_a_work_folder_is_removed_at_the_end(tmp_path: Path) -> None:
    with work_folder(tmp_path / ".work") as work:
        (work / "a").mkdir()
    assert not list(tmp_path.iterdir())


def test_drafts_of_a_killed_process_are_not_foreign(tmp_path: Path) -> None:
    for name in (".lock", ".recipe.json.123.tmp"):
        (tmp_path / name).touch()
    assert not foreign(tmp_path)
    (tmp_path / "notes.txt").touch()
    assert foreign(tmp_path)
