"""How much memory this process has needed."""

from __future__ import annotations

import sys


def peak_memory() -> dict[str, float]:
    """The most memory that this process has had, in megabytes; nothing where the system does not tell (Windows)."""
    try:
        import resource
    except ImportError:
        return {}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"peak_memory_mb": peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)}
