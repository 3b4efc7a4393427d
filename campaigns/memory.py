"""Memory stays flat over many answers, requests and steps, and its peak is near the estimate of `lamina inspect`.

- answers: the reader of the package answers so many questions on texts of different lengths (`--size`).
- requests: the service in this process gets a quarter as many requests.
- pretraining: a tiny encoder trains for `--minutes`; the memory is read ten times a minute.
- estimate: recipes of `--recipes` train for some steps; the peak in run.json is compared with `memory_mb` of `inspect`.

A use is flat if the memory at its end is at most 5% and 16 MB above that after its first quarter. The bar of an estimate is
15%.

    python -m campaigns.memory --size 2000 --minutes 10 --recipes quickstart --out results/hardening/memory.json
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from campaigns import material
from campaigns.common import Campaign, Command, Failure, parser, preload
from campaigns.fuzz import Service

SHARE, MEGABYTES, BAR = 0.05, 16.0, 0.15


def resident(process: int | str = "self") -> float:
    """Return the memory of a process in megabytes, without what is only reserved."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def growth(measured: list[float]) -> tuple[float, float]:
    """Return the median memory in the second tenth after the first quarter, and in the last tenth."""
    tenth = max(1, len(measured) // 10)
    first = len(measured) // 4
    return median(measured[first : first + tenth]), median(measured[-tenth:])


def watch(campaign: Campaign, what: str, measured: list[float]) -> None:
    """Count a use as flat, or fail."""
    before, after = growth(measured)
    campaign.notes.append(f"{what}: {before:.0f} MB after a quarter, {after:.0f} MB at the end, {len(measured)} measurements")
    if after > before * (1 + SHARE) + MEGABYTES:
        campaign.fail(Failure(0, what, "grows", f"from {before:.0f} to {after:.0f} MB"))
    else:
        campaign.count(what, "flat")


def text(campaign: Campaign, case: int) -> str:
    """Return a text of a random length."""
    draw = campaign.draw(case)
    return " ".join([material.CONTEXT] * draw.choice([1, 1, 2, 5, 20 if case % 50 == 0 else 1]))


def answers(campaign: Campaign) -> Iterator[float]:
    import lamina

    reader = lamina.load(device="cpu")
    for case in range(campaign.size):
        reader.answer(material.QUESTION, text(campaign, case))
        yield resident()


def requests(campaign: Campaign, folder: Path) -> Iterator[float]:
    with closing(Service(folder)) as service:
        for case in range(max(20, campaign.size // 4)):
            body = json.dumps({"question": material.QUESTION, "context": text(campaign, case)}).encode()
            status, reply = service.send("POST", "/answer", b"", [(b"content-type", b"application/json")], body)
            if status != 200:
                campaign.fail(Failure(case, "requests", "wrong", f"status {status}: {reply[:300]!r}"))
            service.logged.clear()
            yield resident()


def pretraining(folder: Path, minutes: float) -> Iterator[float]:
    values = material.pretraining(folder)
    values["train"] = {**values["train"], "epochs": 1e5, "checkpoint_minutes": 1, "evaluate_every": 1e5}  # type: ignore[dict-item]
    (folder / "pretrain.json").write_text(json.dumps(values))
    command = Command(["pretrain", folder / "pretrain.json", "--out", folder / "out"], folder / "o", {"HF_HUB_OFFLINE": "1"})
    until = time.monotonic() + 60 * minutes
    try:
        while command.running() and time.monotonic() < until:
            if (folder / "out" / "metrics.jsonl").exists():
                yield resident(command.pid)
            time.sleep(min(6.0, 6 * minutes))
        if not command.running():
            raise RuntimeError(command.ended().err)
    finally:
        command.kill()


def estimate(campaign: Campaign, name: str, folder: Path) -> None:
    """Train a recipe for some steps in a process of its own, and compare its peak with the estimate."""
    words = [sys.executable, "-m", "lamina"]
    short = ["--set", "train.epochs=0.02", "--set", "data.dev=none", "--set", "cache.use=never"]
    inspected = _json([*words, "inspect", name, "--json"])["memory_mb"]
    _json([*words, "train", name, "--out", str(folder / "run"), "--json", *short])
    found = json.loads((folder / "run" / "run.json").read_text())["costs"]["peak_memory_mb"]
    campaign.notes.append(f"{name}: peak {found:.0f} MB, estimate {inspected} MB ({found / inspected - 1:+.0%})")
    near = abs(found / inspected - 1) <= BAR
    campaign.count("estimate", "near") if near else campaign.fail(Failure(0, name, "estimate", campaign.notes[-1]))


def _json(words: list[str]) -> Any:
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout[done.stdout.index("{") :])


def run(campaign: Campaign, minutes: float, recipes: list[str]) -> Campaign:
    """Measure all uses."""
    import torch

    torch.set_num_threads(1)
    preload()
    with tempfile.TemporaryDirectory(prefix="memory-") as place:
        folder = Path(place)
        uses: dict[str, Callable[[], Iterator[float]]] = {
            "pretraining": lambda: pretraining(folder, minutes),  # first: its process is a fork of this one
            "answers": lambda: answers(campaign),
            "requests": lambda: requests(campaign, folder / "service"),
        }
        for what, measure in uses.items():
            if what == "pretraining" and not minutes:
                continue
            measured = list(measure())
            if len(measured) < 4:
                campaign.notes.append(f"{what}: too few measurements ({len(measured)})")
            else:
                watch(campaign, what, measured)
        for number, name in enumerate(recipes):
            (folder / str(number)).mkdir()
            estimate(campaign, name, folder / str(number))
    return campaign


def main() -> int:
    options = parser(__doc__ or "", size=400)
    options.add_argument("--minutes", type=float, default=2, help="minutes of pretraining (default %(default)s)")
    options.add_argument("--recipes", nargs="*", default=[], help="recipes whose peak is compared with the estimate")
    given = options.parse_args()
    return run(Campaign("memory", given.seed, given.size, given.log, given.at_most), given.minutes, given.recipes).finish(
        given.out
    )


if __name__ == "__main__":
    sys.exit(main())
