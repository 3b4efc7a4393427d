"""Measure the memory of this process."""

from __future__ import annotations

import sys


def peak_memory() -> dict[str, float]:
    """Return the peak memory of this process in megabytes, as `peak_memory_mb`. Empty on Windows, which has no `resource`."""
    try:
        import resource
    except ImportError:
        return {}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"peak_memory_mb": peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)}
