"""How much memory this process has needed."""

from __future__ import annotations

import sys


def peak_memory_mb() -> float | None:
    """The most memory that this process has had, in megabytes; None where the system does not tell (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
