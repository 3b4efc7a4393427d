"""Train one trial in its own process.

The process reads the trial as a line of JSON from standard input. It writes lines of JSON to standard output: a score after
each evaluation, and the result at the end. The reply to a score is whether to stop.
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
    received: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_listen, args=(received,), daemon=True).start()
    job = received.get()

    def watch(share: float, score: float) -> bool:
        _report(share=share, score=score)
        return bool(received.get())

    run = Run(Path(job["run"]))
    lock = Lock(run.path.with_name(f".{run.path.name}.lock"))  # a worker of a killed search may still be running
    try:
        if run.path.exists() and not run.recipe.exists():  # killed before it began
            shutil.rmtree(run.path)
        train(parse_recipe(job["recipe"], name=str(run.recipe)), run.path, resume=True, watch=watch, dev=False)
        info = read_json(run.info)
        if info["score"] is None:
            raise LaminaError("data.holdout: the held-out split is empty, so trials have no score. Fix: raise data.holdout")
        seconds = sum(info["costs"][f"{part}_seconds"] for part in ("store", "train", "evaluate"))
        _report(score=info["score"], minutes=seconds / 60)
    except LaminaError as error:
        _report(problem=str(error), trained=run.metrics.exists() and not run.finished)
    except OSError as error:
        where = error.filename or run.path
        what = f"{where}: {error.strerror or error}. Fix: free disk space or check the permissions, then use --resume"
        _report(problem=what, trained=run.metrics.exists() and not run.finished)
    except KeyboardInterrupt:  # the loop has saved its state
        raise SystemExit(130) from None
    finally:
        lock.close()
    os._exit(0)  # the normal end of an interpreter with torch takes longer than some trials


def _listen(received: queue.Queue[Any]) -> None:
    """Queue the messages of the main process. End this process when the main one ends, so that a resumed search can begin."""
    with os.fdopen(os.dup(0), encoding="utf-8") as lines:  # a copy, because sys.stdin cannot be closed while a thread reads it
        for line in lines:
            received.put(json.loads(line))
    os._exit(1)


def _report(**message: object) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
