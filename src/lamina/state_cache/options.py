"""The options of the store: when and how the states of frozen layers are stored."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Dtype = Literal["float32", "float16", "int8"]


class CacheOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    use: Literal["auto", "always", "never"] = "auto"  # always: a recipe whose states cannot be stored is a mistake
    dtype: Dtype = "float16"
    max_gb: float = Field(default=20.0, ge=0)  # of one training's states; beyond it the encoder runs live
