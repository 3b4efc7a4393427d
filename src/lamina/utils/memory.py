"""Measure and bound the memory of this process."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress

KERNELS = 64  # compiled kernels that are kept; a batch needs about 15, which all layers share
CAPACITIES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")  # variables of oneDNN, and of torch's layer above it


def peak_memory() -> dict[str, float]:
    """Return the peak memory of this process in megabytes, as `peak_memory_mb`. Empty on Windows, which has no `resource`."""
    try:
        import resource
    except ImportError:
        return {}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"peak_memory_mb": peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)}


def limit_kernels() -> None:
    """Keep few compiled kernels, unless the user has chosen how many. Call it before the first computation of the process.

    In bfloat16, torch compiles kernels for each shape of a batch and keeps 1,024 of them twice, of about 0.3 MB each.
    """
    for name in CAPACITIES:
        os.environ.setdefault(name, str(KERNELS))


def return_memory() -> None:
    """Give freed memory back to the system, where the C library has `malloc_trim` (Linux with glibc).

    Blocks of batches of many shapes leave gaps, which the C library keeps otherwise.
    """
    with suppress(OSError, AttributeError, TypeError):  # another system, or another C library
        ctypes.CDLL(None).malloc_trim(0)
