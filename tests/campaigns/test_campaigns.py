"""Each campaign runs small: no failure, and the summary counts every case. Their second readers and helpers are right."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import pytest
from campaigns.common import Campaign, Command, Ended, Failure, HangError, bad_end, limited

from campaigns import disk, flip, fuzz, kill, material, memory, mutate, naive
from lamina.data.sources import load_examples
from lamina.data.table_formats import TABLES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("campaigns"),
    pytest.mark.skipif(sys.platform != "linux", reason="the campaigns use fork and /proc"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of fork beside threads
]


def passed(campaign: Campaign) -> None:
    """Check that all cases were run without a failure."""
    found = campaign.summary()
    assert not found["failures"], json.dumps(found["failures"], indent=1)
    assert found["cases"] >= campaign.size


def test_fuzz() -> None:
    passed(fuzz.run(Campaign("fuzz", 5, 150)))


def test_flip() -> None:
    passed(flip.run(Campaign("flip", 5, 24)))


def test_kill() -> None:
    passed(kill.run(Campaign("kill", 5, 3), ["train", "average"]))


def test_disk() -> None:
    passed(disk.run(Campaign("disk", 5, 10)))


def test_memory() -> None:
    found = memory.run(Campaign("memory", 5, 40), 0, []).summary()
    assert not found["failures"], json.dumps(found["failures"], indent=1)
    assert found["outcomes"] == {"answers": {"flat": 1}, "requests": {"flat": 1}}


def test_the_service_ends_with_its_loop(tmp_path: Path) -> None:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    service = fuzz.Service(tmp_path)
    body = json.dumps({"question": material.QUESTION, "context": material.CONTEXT}).encode()
    assert service.send("POST", "/answer", b"", [(b"content-type", b"application/json")], body)[0] == 200
    running = service.runner.run(loop())
    names = {task.get_name() for task in asyncio.all_tasks(running)}
    assert "lamina-batches" in names and not running.is_closed()
    service.close()
    assert running.is_closed() and not asyncio.all_tasks(running)


# ---- the parts of the campaigns


@pytest.mark.parametrize("ending", sorted(TABLES))
def test_the_second_readers_agree_on_good_files(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{ending}"
    path.write_bytes(material.table(ending))
    second = {".json": naive.squad, ".jsonl": naive.jsonl, ".parquet": naive.parquet}.get(ending, naive.delimited)
    wanted = second(path.read_bytes())
    found = [(one.question, one.context, tuple((a.text, a.start) for a in one.answers)) for one in load_examples(str(path))]
    assert wanted == found and len(found) == 15


def test_a_wrong_read_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naive, "ROLES", {**naive.ROLES, "question": ("context",)})
    (tmp_path / "a.csv").write_bytes(material.table(".csv"))
    with pytest.raises(fuzz.WrongError, match="the naive reader finds"):
        fuzz.read_questions(naive.delimited)(tmp_path, "a.csv", Random(0))


def test_mutators_are_fixed_by_their_seed_and_change_files() -> None:
    for how, good in (
        (mutate.JSON, material.squad_json()),
        (mutate.TEXT, material.HTML.encode()),
        (mutate.ZIP, material.docx()),
    ):
        made = [how(good, Random(seed)) for seed in range(30)]
        assert made == [how(good, Random(seed)) for seed in range(30)]
        assert len(set(made) - {good}) > 20


def test_a_hang_is_ended() -> None:
    with pytest.raises(HangError), limited(processor=0.2):
        while True:
            pass
    with pytest.raises(HangError), limited(clock=0.1):
        time.sleep(60)


def test_a_crash_and_a_log_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = Campaign("fuzz", 0, 3, tmp_path / "log.jsonl")
    monkeypatch.setattr(fuzz, "run_one", lambda *_: os._exit(3))
    fuzz.run(campaign, ["csv"])
    assert [(one.case, one.kind) for one in campaign.failures] == [(0, "crash"), (1, "crash"), (2, "crash")]
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["case"] for line in lines] == [0, 1, 2] and "ended with 3" in lines[0]["detail"]
    assert campaign.finish(tmp_path / "summary.json") == 1
    assert json.loads((tmp_path / "summary.json").read_text())["outcomes"] == {"csv": {"crash": 3}}


def test_a_failure_names_no_place_of_this_machine(tmp_path: Path) -> None:
    campaign = Campaign("fuzz", 0, 1)
    campaign.fail(Failure(0, "csv", "traceback", f'File "{fuzz.__file__}", line 1; {tempfile.gettempdir()}/a/b.csv'))
    assert campaign.failures[0].detail == 'File "campaigns/fuzz.py", line 1; a/b.csv'


def test_no_result_names_a_place_of_a_machine() -> None:
    endings = (".csv", ".json", ".md", ".toml", ".txt")
    results = Path(__file__).parents[2] / "results"
    texts = {path: path.read_text(encoding="utf-8") for path in results.rglob("*") if path.suffix in endings}
    assert texts
    assert not [path for path, text in texts.items() if re.search(r"(?<![\w.])/(root|home|tmp|work|opt)/", text)]


def test_what_is_a_bad_end(tmp_path: Path) -> None:
    assert bad_end(Ended(0, "", "")) is None
    assert bad_end(Ended(2, "", "reading a\nlamina: a: is empty. Fix: get it again\n")) is None
    for code, err in ((1, "lamina: a. Fix: b"), (2, "lamina: a"), (2, ""), (-9, ""), (0, "Traceback (most recent call last):")):
        assert bad_end(Ended(code, "", err)) is not None
    assert bad_end(Command(["data", "list"], tmp_path).wait(100)) is None
    assert bad_end(Command(["data", "check", tmp_path / "none.csv"], tmp_path).wait(100)) is None


def test_a_child_that_is_left_is_found(tmp_path: Path) -> None:
    def leave_a_child() -> None:
        if os.fork() == 0:
            time.sleep(100)
            os._exit(0)

    command = Command(["data", "list"], tmp_path, before=leave_a_child)
    command.wait(100)
    assert len(command.survivors(0.5)) == 1
    assert command.survivors(5) == []


def test_growth_is_found() -> None:
    flat, grown = Campaign("memory", 0, 1), Campaign("memory", 0, 1)
    memory.watch(flat, "answers", [300.0] * 50 + [301.0] * 50)
    memory.watch(grown, "answers", [300.0 + number for number in range(100)])
    assert not flat.failures and [one.kind for one in grown.failures] == ["grows"]
    assert Failure(0, "answers", "grows", "").kind == "grows"
