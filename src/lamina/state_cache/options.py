"""The options of the store: when and how to store the states of frozen layers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lamina.utils.options import Options

Dtype = Literal["float32", "float16", "int8"]


class CacheOptions(Options):
    """When to store hidden states of frozen layers, and in which number format."""

    use: Literal["auto", "always", "never"] = "auto"
    """Use the store if possible, always (an error if impossible), or never."""
    dtype: Dtype = "float16"
    """Number format of stored states."""
    max_gb: float = Field(default=20.0, ge=0)
    """Largest size of the stored states of one run in GB; beyond it, the encoder computes them in every epoch."""
    dev: bool = False
    """Store the states of the dev set too; it saves time if several runs read the same frozen layers."""
