"""What is known about the processors of this machine."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_vnni() -> bool:
    """Return whether the processor adds 8-bit products in 32 bits. False if that is not known."""
    return bool(set(_field("flags").split()) & {"avx512_vnni", "avx_vnni", "amx_int8"})


def mkl_lacks_avx512() -> bool:
    """Return whether the processor has AVX-512, but MKL does not use it since AMD made the processor."""
    return _field("vendor_id") == "AuthenticAMD" and "avx512f" in _field("flags").split()


def identity() -> str:
    """Return a text that differs between kinds of processors."""
    return "; ".join((platform.machine(), platform.processor(), _field("model name"), _field("flags")))


@cache
def _field(name: str) -> str:
    """Return a field of the first processor, or "" if the system does not tell."""
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    line = next((line for line in text.splitlines() if line.partition(":")[0].strip() == name), "")
    return line.partition(":")[2].strip()
