"""An improvement that cannot start, or whose process prints something else, has failed and can start again."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from lamina.errors import LaminaError
from lamina.serving import improving
from lamina.serving.improving import Improvement


async def begun(improvement: Improvement, folder: Path) -> None:
    await improvement.begin(folder / "corrections.json", "a model", "reader", 1.0)


def test_a_process_that_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        improvement = Improvement(tmp_path)
        monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
        for _ in range(2):
            with pytest.raises(FileNotFoundError):
                await begun(improvement, tmp_path)
            assert improvement.stage == "failed"

    asyncio.run(check())


def test_a_request_that_is_cancelled(tmp_path: Path) -> None:
    async def check() -> None:
        improvement = Improvement(tmp_path)
        task = asyncio.create_task(begun(improvement, tmp_path))
        await asyncio.sleep(0)
        assert improvement.running
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert improvement.stage == "failed"

    asyncio.run(check())


@pytest.mark.parametrize("printed", ["'a' * (3 << 20)", "'no JSON'", "'[1]'", "'{}'"])
def test_a_process_that_prints_no_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str) -> None:
    endless = f"import time\nprint({printed}, flush=True)\nprint('a' * 1000000, flush=True)\ntime.sleep(1000)\n"
    (tmp_path / "chatty_process.py").write_text(endless)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(improving, "_MODULE", "chatty_process")

    async def check() -> None:
        improvement = Improvement(tmp_path)
        await begun(improvement, tmp_path)
        with pytest.raises(LaminaError, match="is running already"):
            await begun(improvement, tmp_path)
        async with asyncio.timeout(60):
            async for event in improvement.events(asyncio.Event()):
                stage = event["stage"]
        assert stage == "failed" and "the process ended with code" in improvement.lines[-1]
        await improvement.stop()

    asyncio.run(check())
