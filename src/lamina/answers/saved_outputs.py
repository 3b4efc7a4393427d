"""Store the outputs of a run on its dev set, to decode them again without the model and the tokenizer.

Every kind of task stores its arrays by `save_arrays`. A task of spans stores:

- ``outputs.safetensors``: the logits `start` and `end` [tokens], and `row_starts` [W + 1], the first token of each window
- ``windows.safetensors``: the fields of the windows that `decode` reads. These are `lengths` and `example` [W], `context`
  and `max_context` [tokens] as bits, and `first` and `width` [C] in characters, of the tokens of the context.

Integers have the smallest type that fits all of an array. Both files store the fingerprint of the windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from lamina.data.logits import SpanLogits
from lamina.data.windows import Windows
from lamina.errors import LaminaError, first_line
from lamina.utils.files import is_file, replacing
from lamina.utils.run_folder import Run

Arrays = Mapping[str, npt.NDArray[Any]]

_FIX = "copy the run folder again, or train the run again"
_LOGITS = ("start", "end", "row_starts")
_WINDOWS = ("lengths", "example", "context", "max_context", "first", "width")


def save_outputs(run: Run, windows: Windows, logits: SpanLogits) -> None:
    """Write the logits of the dev set, and the fields of its windows that decoding needs."""
    begin, stop = windows.offsets[windows.context].T  # [C] each
    stored = {
        "lengths": _smallest(windows.lengths),
        "example": _smallest(windows.example),
        "context": np.packbits(windows.context),
        "max_context": np.packbits(windows.max_context),
        "first": _smallest(begin),
        "width": _smallest(stop - begin),
    }
    save_arrays(run.windows, stored, windows.fingerprint)
    start, end = np.asarray(logits.start, np.float32), np.asarray(logits.end, np.float32)
    save_arrays(run.outputs, {"start": start, "end": end, "row_starts": windows.starts}, windows.fingerprint)


def saved_fingerprint(run: Run) -> str:
    """Return the fingerprint of the windows of the logits, without reading the logits."""
    _check_outputs(run)
    return _read(run.outputs, ())[1]


def load_outputs(run: Run) -> tuple[Windows, SpanLogits]:
    """Return the windows and their logits. The windows have no token ids and no gold spans: use them for decoding only."""
    _check_outputs(run)
    if not is_file(run.windows):
        raise LaminaError(f"{run.path}: has no {run.windows.name}, as in runs of older versions. Fix: train the run again")
    outputs, outputs_of = _read(run.outputs, _LOGITS)
    stored, fingerprint = _read(run.windows, _WINDOWS)
    if outputs_of != fingerprint:
        raise LaminaError(f"{run.path}: {run.outputs.name} and {run.windows.name} are of different windows. Fix: {_FIX}")
    starts = np.concatenate([[0], np.cumsum(stored["lengths"], dtype=np.int64)])
    tokens = int(starts[-1])
    context, max_context = (np.unpackbits(stored[name], count=tokens).astype(np.bool_) for name in ("context", "max_context"))
    sizes = [(len(outputs["start"]), tokens), (len(outputs["end"]), tokens), (len(stored["example"]), len(starts) - 1)]
    sizes += [(len(stored[name]), int(np.count_nonzero(context))) for name in ("first", "width")]
    if not np.array_equal(starts, outputs["row_starts"]) or any(found != wanted for found, wanted in sizes):
        raise LaminaError(f"{run.path}: {run.outputs.name} and {run.windows.name} have different sizes. Fix: {_FIX}")
    offsets = np.zeros((tokens, 2), np.int32)
    offsets[context, 0] = stored["first"]
    offsets[context, 1] = stored["first"].astype(np.int32) + stored["width"].astype(np.int32)
    absent = np.zeros(0, np.int32)  # empty, because zeros would look like token ids
    windows = Windows(
        starts=starts,
        ids=absent,
        type_ids=absent,
        context=context,
        offsets=offsets,
        max_context=max_context,
        example=stored["example"].astype(np.int32),
        gold=absent.reshape(0, 2),
        pad=0,
        fingerprint=fingerprint,
    )
    return windows, SpanLogits(outputs["start"], outputs["end"])


def load_arrays(run: Run) -> tuple[Arrays, str]:
    """Return the arrays that a task of any kind stored, and the fingerprint of their windows."""
    _check_outputs(run)
    return _read(run.outputs, None)


def _check_outputs(run: Run) -> None:
    if not is_file(run.outputs):
        fix = "train the run with data.dev"
        if run.path.parent.name == "checkpoints":
            fix += " and train.checkpoint_outputs = true"
        raise LaminaError(f"{run.path}: has no {run.outputs.name}, which needs a dev set. Fix: {fix}")


def _smallest(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the same non-negative integers in the smallest type that fits the greatest."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def save_arrays(path: Path, arrays: Arrays, fingerprint: str) -> None:
    """Write arrays with the fingerprint of their windows."""
    with replacing(path) as draft:
        save_file({name: np.ascontiguousarray(value) for name, value in arrays.items()}, draft, {"windows": fingerprint})


def _read(path: Path, names: Sequence[str] | None) -> tuple[Arrays, str]:
    """Return the named arrays of a file, or all, and the fingerprint of their windows."""
    try:
        with safe_open(path, framework="numpy") as file:
            wanted = file.keys() if names is None else names
            return {name: file.get_tensor(name) for name in wanted}, (file.metadata() or {}).get("windows", "")
    except (OSError, SafetensorError) as error:
        raise LaminaError(f"{path}: cannot be read ({first_line(error)}). Fix: {_FIX}") from None
