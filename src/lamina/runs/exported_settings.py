"""The settings of Lamina in the config.json of an exported model: its decision, windows and decoding.

`transformers` keeps fields that it does not know, so it loads such a folder as any other.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from lamina.answers.decisions import SpanDecision
from lamina.answers.decode import AnswerOptions
from lamina.data.windows import WindowOptions
from lamina.errors import LaminaError, LaminaWarning
from lamina.utils.checksums import crc32_of
from lamina.utils.files import is_file, read_json

FIELD = "lamina"  # of config.json


class ExportedSettings(BaseModel):
    """The settings that a model needs to answer as its run does. A newer version may add fields."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    weights: str  # checksum of the file that the decision was fitted for
    decision: SpanDecision = SpanDecision()
    window: WindowOptions = WindowOptions()
    answer: AnswerOptions = AnswerOptions()
    language: str | None = None  # of the training texts


def read_settings(folder: Path) -> ExportedSettings | None:
    """Return the settings in a folder's config.json; None if there are none, or if they are for other weights."""
    file = folder / "config.json"
    table = read_json(file).get(FIELD)
    if table is None:
        return None
    try:
        settings = ExportedSettings.model_validate(table)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, (FIELD, *problem["loc"])))
        raise LaminaError(f"{file}: {place}: {problem['msg']}. Fix: export the run again") from None
    weights = folder / "model.safetensors"
    if not is_file(weights) or crc32_of(weights) != settings.weights:
        message = (
            f"{file}: the threshold and calibration were fitted for other weights than those of the folder, "
            "so the defaults are used. Fix: export the run again"
        )
        warnings.warn(message, LaminaWarning, stacklevel=2)
        return None
    return settings
