"""Why a model answered: the start and end probability of each token, and the weights of its layers.

The probabilities of a window are a softmax over its context and the classifier token. A token counts in the window with the
most context around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamina.data.examples import Example
from lamina.data.logits import SpanLogits
from lamina.data.windows import Windows, cut_examples
from lamina.runtime.exported import Exported
from lamina.serving.run_tables import mixer_name
from lamina.utils.arrays import Floats
from lamina.utils.progress import Progress, Silent

if TYPE_CHECKING:
    from lamina.reader.load import Reader

_STRIP: Final = 64  # tokens around the best start whose layers are returned


def explain(reader: Reader, example: Example, progress: Progress | None = None) -> dict[str, Any]:
    """Return the tokens of the context with their probabilities, and the layers of the tokens around the best start.

    Returns:
        `start`, `end` (code points) and `starts`, `ends` (probabilities) by token. `none` is the smallest probability of "no
        answer" of a window. `layers` is None for a mixer without weights; else it has `first`, the number of its first token,
        the numbers of the layers, and `weights` [tokens, 2, layers]. `exported` says that the model runs without torch, which
        cannot show layers.
    """
    trained = reader.trained
    exported = isinstance(trained, Exported)
    windows = cut_examples([example], trained.tokenizer, trained.recipe.window).windows()
    logits: SpanLogits | None = None
    weights: Floats | None = None
    numbers: Sequence[int] = ()
    if not exported:
        logits, weights, numbers = _weighed(reader, windows, progress)
    if logits is None:
        logits = trained.engine.spans(windows, trained.span_task, progress or Silent())
    starts, ends = (_chances(windows, one) for one in (logits.start, logits.end))
    shown = np.flatnonzero(windows.max_context)
    shown = shown[np.argsort(windows.offsets[shown, 0], kind="stable")]
    firsts = windows.starts[:-1]
    found: dict[str, Any] = {
        "start": windows.offsets[shown, 0].tolist(),
        "end": windows.offsets[shown, 1].tolist(),
        "starts": np.round(starts[shown], 5).tolist(),
        "ends": np.round(ends[shown], 5).tolist(),
        "none": round(float((starts[firsts] * ends[firsts]).min()), 5),
        "layers": None,
        "exported": exported,
    }
    if weights is not None and len(shown):
        best = int(np.argmax(starts[shown]))
        first = max(0, min(best - _STRIP // 3, len(shown) - _STRIP))
        strip = np.abs(weights[shown[first : first + _STRIP]])
        found["layers"] = {
            "mixer": mixer_name(trained.recipe.tasks[trained.span_task].mixer),
            "first": first,
            "numbers": list(numbers),
            "weights": np.round(strip, 4).tolist(),
        }
    return found


def _weighed(
    reader: Reader, windows: Windows, progress: Progress | None
) -> tuple[SpanLogits | None, Floats | None, Sequence[int]]:
    """Return the logits, the weights of the layers and their numbers; nothing for a mixer without weights."""
    from lamina.experiments.layer_weights import weigh
    from lamina.mixers import weighing

    task = reader.trained.span_task
    mixer = weighing(reader.model.task(task).mixer)
    if mixer is None:
        return None, None, ()
    logits, weights = weigh(reader.model, windows, task, progress)
    return logits, weights, mixer.layers


def _chances(windows: Windows, logits: Floats) -> Floats:
    """Return the softmax of each window over its context and its classifier token, [tokens]."""
    window = np.repeat(np.arange(len(windows)), windows.lengths)
    allowed = windows.context.copy()
    allowed[windows.starts[:-1]] = True
    values = np.where(allowed, logits, -np.inf)
    highest = np.maximum.reduceat(values, windows.starts[:-1])
    shares = np.exp(values - highest[window])
    chances: Floats = (shares / np.add.reduceat(shares, windows.starts[:-1])[window]).astype(np.float32)
    return chances
