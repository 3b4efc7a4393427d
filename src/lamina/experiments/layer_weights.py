"""Measure the weights that a mixer gives to the layers, by type of question.

Each question is measured at two places. The first is its answer: the start token with the start's weights, and the end token
with the end's. For "no answer" it is the classifier token. The second is the mean over the tokens of the context. The row of
a type is the mean over its questions. The entropy of a token's weights is in bits; it is 0 if one layer has all the weight.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from lamina.answers.decode import Candidate, Prediction, decode
from lamina.data.batches import Batch
from lamina.data.examples import Example
from lamina.data.logits import SpanLogits
from lamina.data.padding import places
from lamina.data.question_types import QUESTION_TYPES, question_type
from lamina.data.windows import Windows, cut_examples, tokens_of
from lamina.errors import LaminaError
from lamina.heads import SpanOutputs
from lamina.mixers import weighing
from lamina.model import Model
from lamina.model.inference import each_batch
from lamina.runs.load import Trained, as_torch
from lamina.runtime.ready import ReadyModel
from lamina.utils.arrays import Doubles, Floats, Longs
from lamina.utils.drawing import heat, png, shades
from lamina.utils.files import make_folder, write_atomically
from lamina.utils.progress import Progress, Silent

TokenPlace = Literal["answer", "context"]

ENDS: tuple[Literal["start", "end"], ...] = ("start", "end")
PLACES: tuple[TokenPlace, ...] = ("answer", "context")
TYPES = ("all", *QUESTION_TYPES)
AT_ONCE = 256  # questions whose weights are in memory together
SHOWN = 40  # tokens of the example in the terminal
CELL = 8  # pixels of a token and layer in the picture


@dataclass(frozen=True, slots=True)
class LayerRow:
    """The mean weights of one type of question at one place, for the start or the end."""

    type: str
    at: TokenPlace
    end: Literal["start", "end"]
    questions: int
    entropy: float
    weights: tuple[float, ...]  # of each layer


@dataclass(frozen=True, slots=True)
class Strip:
    """The tokens of the window that has the answer to one question, with the weights of their layers."""

    id: str
    question: str
    answer: str | None
    first: int  # the answer's first and last token; 0, the classifier token, for "no answer"
    last: int
    tokens: tuple[str, ...]
    weights: Floats  # [T, 2, n]

    def darkness(self) -> Floats:
        """Return absolute weights divided by the window's greatest, [T, 2, n]: among many layers no weight is near 1."""
        size = np.abs(self.weights)
        shares: Floats = (size / max(1e-9, float(size.max()))).astype(np.float32)
        return shares


@dataclass(frozen=True, slots=True)
class Layers:
    """The layer weights of a model: the mean by type of question, and those of one example."""

    mixer: str
    layers: tuple[int, ...]
    rows: tuple[LayerRow, ...]
    example: Strip


def look_at_layers(
    model: ReadyModel, examples: Sequence[Example], *, example: str | None = None, progress: Progress | None = None
) -> Layers:
    """Return the mean weights of the layers over questions, and all weights of one question (`example`, or the first)."""
    progress = progress or Silent()
    trained = as_torch(model)
    task = trained.span_task
    name, weighed = trained.recipe.tasks[task].mixer.type, weighing(trained.model.task(task).mixer)
    if weighed is None:
        raise LaminaError(
            f'mixer.type: "{name}" has no weights of layers. '
            "Fix: use a model with the mixer learned, dot, multiplicative or encoder"
        )
    if not examples:
        raise LaminaError("--data: has no questions. Fix: name a file with questions")
    if example is not None and example not in {item.id for item in examples}:
        raise LaminaError(
            f"--example: none of the {len(examples)} questions has the id {example!r}. Fix: name the id of one of them"
        )
    shown = examples[0].id if example is None else example
    means: dict[tuple[str, TokenPlace, int], _Mean] = {}
    strip: Strip | None = None
    progress.start("measuring", len(examples))
    for begin in range(0, len(examples), AT_ONCE):
        part = examples[begin : begin + AT_ONCE]
        for item, seen in zip(part, _see(trained, part), strict=True):
            for at, weights in zip(PLACES, (seen.at_answer(), seen.in_context()), strict=True):
                for end in range(len(ENDS)):
                    for kind in ("all", question_type(item.question)):
                        means.setdefault((kind, at, end), _Mean()).add(weights[:, end])
            if strip is None and item.id == shown:
                strip = _strip(trained, item, seen)
        progress.advance(len(part))
    assert strip is not None
    return Layers(name, weighed.layers, tuple(_rows(means)), strip)


def entropy(weights: npt.NDArray[np.floating]) -> Doubles:
    """Return the entropy over the last axis in bits.

    Weights need not be positive or sum to 1: they are divided by the sum of their absolute values.

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5], [2.0, -2.0]])).tolist()
    [0.0, 1.0, 1.0]
    """
    size = np.abs(weights.astype(np.float64))
    share = size / np.maximum(size.sum(-1, keepdims=True), 1e-30)
    bits: Doubles = 0 - (share * np.log2(np.maximum(share, 1e-30))).sum(-1)
    return bits


@dataclass(slots=True)
class _Mean:
    """A mean over questions. Each question has the same weight, whatever its number of tokens."""

    questions: int = 0
    weights: Doubles = field(default_factory=lambda: np.zeros(()))
    entropy: float = 0.0

    def add(self, weights: Floats) -> None:
        """Add the weights at a question's tokens, [tokens, n]."""
        self.questions += 1
        self.weights = self.weights + weights.mean(0, dtype=np.float64)
        self.entropy += float(entropy(weights).mean())


def _rows(means: dict[tuple[str, TokenPlace, int], _Mean]) -> Iterable[LayerRow]:
    for kind in TYPES:
        for at in PLACES:
            for number, end in enumerate(ENDS):
                if mean := means.get((kind, at, number)):
                    weights = tuple((mean.weights / mean.questions).tolist())
                    yield LayerRow(kind, at, end, mean.questions, mean.entropy / mean.questions, weights)


# ---- one question


@dataclass(frozen=True, slots=True)
class _Seen:
    """One question: its windows, the weights of all layers at their tokens, and the place of its answer."""

    windows: Windows  # of several questions
    weights: Floats  # [tokens, 2, n] of the same questions
    own: slice  # the question's tokens
    window: int  # the window that has the answer
    first: int  # the answer's first token and its last, counted over all windows
    last: int
    answer: Candidate | None

    def at_answer(self) -> Floats:
        """Return the start's weights at the start token and the end's at the end token, [1, 2, n]."""
        return np.stack([self.weights[self.first, 0], self.weights[self.last, 1]])[None]

    def in_context(self) -> Floats:
        """Return the weights at every token of the context, [tokens, 2, n]; at all tokens if the context is empty."""
        inside = self.windows.context[self.own]
        weights = self.weights[self.own]
        return weights[inside] if inside.any() else weights


def _see(trained: Trained, examples: Sequence[Example]) -> Iterable[_Seen]:
    windows = cut_examples(examples, trained.tokenizer, trained.recipe.window).windows()
    logits, weights = weigh(trained.model, windows, trained.span_task)
    predictions = decode(windows, logits.start, logits.end, examples, trained.recipe.answer)
    for number, prediction in enumerate(predictions):
        rows = np.flatnonzero(windows.example == number)
        own = slice(int(windows.starts[rows[0]]), int(windows.starts[rows[-1] + 1]))
        answer = prediction.answer(trained.span_decision.threshold)
        window, first, last = _place(windows, rows, logits, prediction, answer)
        yield _Seen(windows, weights, own, window, first, last, answer)


def weigh(model: Model, windows: Windows, name: str = "main", progress: Progress | None = None) -> tuple[SpanLogits, Floats]:
    """Return the logits of every token, and the weights of its layers for start and end, [tokens, 2, n]."""
    task = model.task(name)
    mixer, weighed = task.mixer, weighing(task.mixer)
    assert weighed is not None
    count = len(windows.ids)
    logits = SpanLogits(np.empty(count, np.float32), np.empty(count, np.float32))
    weights = np.empty((count, len(ENDS), len(weighed.layers)), np.float32)

    def work(rows: Longs, batch: Batch) -> None:
        stack, queries = model.hidden(batch, mixer.layers), task.head.queries()
        outputs = task.head(mixer(stack, queries), batch)
        assert isinstance(outputs, SpanOutputs)
        shares = weighed.weights(stack, queries)  # [R, Q, T, n], or less of it
        shares = shares.broadcast_to(len(rows), len(ENDS), batch.mask.shape[1], -1).transpose(1, 2)  # [R, T, 2, n]
        mask = batch.mask.cpu().numpy()
        token = places(windows, rows, mask)
        logits.start[token] = outputs.start.cpu().numpy()[mask]
        logits.end[token] = outputs.end.cpu().numpy()[mask]
        weights[token] = shares.float().cpu().numpy()[mask]

    each_batch(model, windows, work, progress=progress)
    return logits, weights


def _place(
    windows: Windows, rows: Longs, logits: SpanLogits, prediction: Prediction, answer: Candidate | None
) -> tuple[int, int, int]:
    """Return the window of an answer, whose logits sum to the answer's score, and its first and last token there."""
    spans = []
    for row in rows.tolist():
        begin, stop = windows.starts[row], windows.starts[row + 1]
        if answer is None:
            first = last = int(begin)
        else:
            inside = begin + np.flatnonzero(windows.context[begin:stop])
            low, high = tokens_of(windows.offsets[inside], answer.start, answer.end)
            if low > high:
                continue  # this window does not have the answer
            first, last = int(inside[low]), int(inside[high])
        score = float(logits.start[first]) + float(logits.end[last])
        spans.append((abs(score - (prediction.null if answer is None else answer.score)), row, first, last))
    _, window, first, last = min(spans)
    return window, first, last


def _strip(trained: Trained, example: Example, seen: _Seen) -> Strip:
    windows = seen.windows
    begin, stop = (int(edge) for edge in windows.starts[seen.window : seen.window + 2])
    texts = [
        example.context[slice(*windows.offsets[token])] if windows.context[token] else trained.tokenizer.token_of(int(number))
        for token, number in enumerate(windows.ids[begin:stop].tolist(), begin)
    ]
    return Strip(
        id=example.id,
        question=example.question,
        answer=seen.answer.text if seen.answer else None,
        first=seen.first - begin,
        last=seen.last - begin,
        tokens=tuple(texts),
        weights=seen.weights[begin:stop].copy(),
    )


# ---- tables, pictures and files


def table_lines(layers: Layers) -> list[str]:
    """Return the lines of a table of mean weights: each type at the answer, and all questions in the context."""
    widths = [max(6, len(f"{layer}") + 2) for layer in layers.layers]
    head = "".join(f"{layer:>{width}}" for layer, width in zip(layers.layers, widths, strict=True))
    lines = [f"{'questions':<16}{'at':<9}{'of':<6}{head}  entropy"]
    for row in layers.rows:
        if row.at == "answer" or row.type == "all":
            cells = "".join(f"{weight:>{width}.2f}" for weight, width in zip(row.weights, widths, strict=True))
            lines.append(f"{row.type:<7}{row.questions:>7}  {row.at:<9}{row.end:<6}{cells}{row.entropy:>9.2f}")
    return lines


def strip_lines(strip: Strip, shown: int = SHOWN) -> list[str]:
    """Return one line per token around the answer, with one character per layer, for start and for end."""
    darkness = strip.darkness()
    begin = max(0, min(strip.first - shown // 3, len(strip.tokens) - shown))
    width = max(len("start"), strip.weights.shape[-1])
    lines = [f"{'':17} {'start':<{width}}   end"]
    for place, text in list(enumerate(strip.tokens))[begin : begin + shown]:
        mark = ">" if strip.first <= place <= strip.last else " "
        start, end = (shades(darkness[place, number].tolist()) for number in range(len(ENDS)))
        lines.append(f"{mark} {_printable(text):<15}│{start:<{width}}│ │{end:<{width}}│")
    return lines


def _printable(text: str, width: int = 15) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def picture(strip: Strip) -> bytes:
    """Return a PNG with one column per token and one row per layer, the last layer at the top.

    The weights of the start are above those of the end. Tokens of the answer have a blue mark below.
    """
    tokens = np.arange(len(strip.tokens))
    answer = (tokens >= strip.first) & (tokens <= strip.last)
    blue, grey = np.array([[40, 90, 220], [235, 235, 235]], np.uint8)
    mark = np.where(answer[:, None], blue, grey)[None]  # [1, T, 3]
    darkness = strip.darkness()
    panels = [heat(darkness[:, number].T[::-1]) for number in range(len(ENDS))]  # [n, T, 3] each
    cells = np.concatenate([panels[0], mark, panels[1], mark])
    return png(cells.repeat(CELL, 0).repeat(CELL, 1))


def write_layers(layers: Layers, folder: Path) -> list[Path]:
    """Write layers.csv, example.csv and example.png into the folder, and return their paths."""
    make_folder(folder)
    names = [str(layer) for layer in layers.layers]
    table: list[Sequence[object]] = [
        ["type", "at", "of", "questions", "entropy", *(f"layer {name}" for name in names)],
        *([r.type, r.at, r.end, r.questions, f"{r.entropy:.6f}", *(f"{w:.6f}" for w in r.weights)] for r in layers.rows),
    ]
    strip = layers.example
    tokens: list[Sequence[object]] = [
        ["token", "text", "answer", *(f"{end} {name}" for end in ENDS for name in names)],
        *(
            [place, text, int(strip.first <= place <= strip.last), *(f"{w:.6f}" for w in strip.weights[place].ravel())]
            for place, text in enumerate(strip.tokens)
        ),
    ]
    contents = {"layers.csv": _csv(table), "example.csv": _csv(tokens), "example.png": picture(strip)}
    for name, content in contents.items():
        write_atomically(folder / name, content)
    return [folder / name for name in contents]


def _csv(rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
