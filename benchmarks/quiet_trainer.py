"""Settings with which the trainer of `transformers` runs on a CPU and writes and prints nothing.

It imports no packages, so that any environment can import it.
"""

from __future__ import annotations

from typing import Any, Final

QUIET: Final[dict[str, Any]] = {
    "use_cpu": True,
    "dataloader_pin_memory": False,
    "save_strategy": "no",
    "logging_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
}
