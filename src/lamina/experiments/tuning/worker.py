"""Trains one trial in a process of its own.

It reads the trial as a line of JSON from standard input, and reports lines of JSON on standard output: a score after each
evaluation, and the result at the end. The reply to a score says whether to stop.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import threading
from pathlib import Path
from typing import Any

from lamina.config.parse import parse_recipe
from lamina.errors import LaminaError
from lamina.training.trainer import train
from lamina.utils.files import read_json
from lamina.utils.locks import Lock
from lamina.utils.run_folder import Run


def main() -> None:
    heard: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_listen, args=(heard,), daemon=True).start()
    job = heard.get()

    def watch(share: float, score: float) -> bool:
        _report(share=share, score=score)
        return bool(heard.get())

    run = Run(Path(job["run"]))
    lock = Lock(run.path.with_name(f".{run.path.name}.lock"))  # waits for the end of an orphan of a search that was killed
    try:
        if run.path.exists() and not run.recipe.exists():  # killed before it began
            shutil.rmtree(run.path)
        train(parse_recipe(job["recipe"], name=str(run.recipe)), run.path, resume=True, watch=watch, dev=False)
        info = read_json(run.info)
        if info["score"] is None:
            raise LaminaError("nothing was held out to score the trials by: set data.holdout higher")
        seconds = sum(info["costs"][f"{part}_seconds"] for part in ("store", "train", "evaluate"))
        _report(score=info["score"], minutes=seconds / 60)
    except LaminaError as error:
        _report(problem=str(error), trained=run.metrics.exists() and not run.finished)
    except KeyboardInterrupt:  # the loop has saved its state
        raise SystemExit(130) from None
    finally:
        lock.close()
    os._exit(0)  # taking an interpreter with torch apart takes longer than some trials


def _listen(heard: queue.Queue[Any]) -> None:
    """Queue what the leading process sends. End when it is gone: a resumed search must not find this trial running."""
    with os.fdopen(os.dup(0), encoding="utf-8") as lines:  # ours alone: sys.stdin could not be closed while we wait here
        for line in lines:
            heard.put(json.loads(line))
    os._exit(1)


def _report(**message: object) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
