from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lamina.errors import LaminaError
from lamina.utils.files import replacing, write_atomically, write_json
from lamina.utils.run_folder import FORMAT, Run, versions


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="half way"), replacing(path) as draft:
        draft.write_text("half of the n")
        raise RuntimeError("half way")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path], "no draft is left"


def test_the_new_file_exists_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    with replacing(path) as draft:
        draft.write_text("new")
        assert not path.exists()
        assert draft.parent == path.parent, "a move between disks is not atomic"
    assert path.read_text() == "new"
    write_atomically(path, b"newer")
    assert path.read_bytes() == b"newer"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_into_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(LaminaError, match=r"gone/a\.json: cannot be written"):
        write_json(tmp_path / "gone" / "a.json", {})


def test_json_keeps_every_letter(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"서울": "é\u0301", "odds": -1.5})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"서울": "é\u0301", "odds": -1.5}
    assert "서울" in (tmp_path / "a.json").read_text(encoding="utf-8")


def test_opening_a_finished_run(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"format": FORMAT, "finished": True})
    run = Run.open(tmp_path)
    assert (run.exists, run.finished, run.path) == (True, True, tmp_path)
    assert {path.parent for path in vars(run).values() if path != tmp_path} == {tmp_path}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "not a run folder.* Fix: name a folder that `lamina train` wrote"),
        ({"format": FORMAT}, r"has not finished\. Fix: .*--resume --out"),
        ({"format": FORMAT, "finished": "yes"}, "has not finished"),
        ({"format": 99, "finished": True}, rf"run format 99, this version of Lamina reads formats 1 and {FORMAT}\. Fix: "),
    ],
)
def test_folders_that_are_no_finished_runs(tmp_path: Path, content: object, message: str) -> None:
    if content is not None:
        write_json(tmp_path / "run.json", content)
    with pytest.raises(LaminaError, match=message):
        Run.open(tmp_path)


def test_a_damaged_run(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(LaminaError, match=r"run\.json: not valid JSON"):
        Run.open(tmp_path)


def test_versions_include_all_packages_that_results_depend_on() -> None:
    found = versions()
    assert {"python", "platform", "lamina-qa", "torch", "tokenizers", "safetensors", "numpy"} <= found.keys()
    import torch

    assert found["torch"] == torch.__version__.partition("+")[0] or found["torch"] == torch.__version__


def test_two_processes_do_not_share_a_draft(tmp_path: Path) -> None:
    with replacing(tmp_path / "a") as draft:
        assert str(os.getpid()) in draft.name
        draft.touch()
