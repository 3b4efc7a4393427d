"""Tiny data and models for tests: MiniLM's vocabulary, a small random model and a few written facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import torch

from lamina.data.examples import Answer, Example
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions, Windows, make_windows
from lamina.encoder.blocks import Encoder
from lamina.encoder.load import EncoderOptions, find
from lamina.encoder.presets import PRESETS
from lamina.heads import SpanHead
from lamina.mixers import LastLayer
from lamina.model import Model, Task
from lamina.utils.progress import Silent

torch.set_num_threads(1)  # the models are too small for several threads

TINY = EncoderOptions(model="tiny", pretrained=False)
SHORT = WindowOptions(length=64, query=16, step=16)

SMALL_RECIPE = """
[data]
train = "{folder}/train.json"
dev = "{folder}/dev.json"
holdout = 0.2
[encoder]
model = "tiny"
pretrained = false
[window]
length = 64
query = 16
step = 16
[train]
epochs = 2
threads = 1
lr = 1e-3
batch_tokens = 512
"""

_ANIMALS = ("heron", "badger", "otter", "falcon", "lizard", "weasel", "moose", "gecko", "raven", "trout", "bison")
_PLACES = ("a ruined mill", "the old harbour", "a deep quarry", "the copper mine", "a salt marsh", "the north tower")
_FOODS = ("wild honey", "dried figs", "river weed", "barley bread", "black berries", "green moss")


class Heard(Silent):
    """Progress that stores its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer(find(TINY).tokenizer)


def example(
    context: str, answer: str | None = None, *, question: str = "What is it?", start: int | None = None, id: str = "q"
) -> Example:
    """Return an example. The answer is at `start`, or else where its text occurs first."""
    answers = () if answer is None else (Answer(answer, context.index(answer) if start is None else start),)
    return Example(id, question, context, answers, id, "article")


def corpus(articles: int = 12) -> list[Example]:
    """Return five questions per article, one of them unanswerable."""
    examples = []
    for number in range(articles):
        animal = _ANIMALS[number % len(_ANIMALS)]
        place, food = _PLACES[number % 6], _FOODS[(number // 2) % 6]
        year = str(1800 + 7 * number)
        context = (
            f"The {animal} of tale {number} was born in {year}. It lives in {place} by the sea, far from any village. "
            f"Every morning the {animal} eats {food}, and at night it dreams of snow."
        )
        asked = (
            (f"When was the {animal} born?", year),
            (f"Where does the {animal} live?", place),
            (f"What does the {animal} eat?", food),
            (f"What does the {animal} dream of?", "snow"),
            (f"Who painted the {animal}?", None),
        )
        for index, (question, answer) in enumerate(asked):
            plain = example(context, answer, question=question, id=f"{number}-{index}")
            examples.append(replace(plain, article=f"tale {number}"))
    return examples


def windows(examples: Sequence[Example], options: WindowOptions = SHORT) -> Windows:
    """Return the windows of examples with the tiny model's tokenizer."""
    return make_windows(examples, tokenizer(), options)


_CLAIMS = (
    ("The heron sleeps in the old mill.", "In the old mill, a heron is asleep."),
    ("Nobody has ever seen the copper mine.", "Dried figs are sold at the harbour."),
    ("A falcon circles above the north tower, waiting for rain.", "Above the tower a falcon flies in circles."),
    ("The trout is silver.", "Barley bread tastes best on the second day after it was baked."),
    ("Badgers dig at night.", "At night, badgers dig."),
    ("What a wonderful salt marsh this is, full of reeds and birds!", "The raven has stolen my spoon."),
    ("Moose eat moss.", "Green moss is what a moose eats."),
    ("The quarry flooded in spring, and the otters came.", "Geckos walk on walls."),
)


def sentences(labels: Sequence[float], sides: int = 1) -> Windows:
    """Return eight sentences, or pairs in two windows each, of different short lengths. Every other pair means the same."""
    texts = [text for pair in _CLAIMS for text in pair[:sides]]
    tokens, layout = tokenizer().encode(texts), tokenizer().layout
    rows = [[*layout.before, *tokens.ids[tokens.text(number)].tolist(), *layout.after] for number in range(len(texts))]
    lengths = [len(row) for row in rows]
    nothing = np.zeros(sum(lengths), np.int32)
    return Windows(
        starts=np.concatenate([[0], np.cumsum(lengths)]),
        ids=np.concatenate(rows).astype(np.int32),
        type_ids=nothing,
        context=nothing.astype(bool),
        offsets=np.stack([nothing, nothing], 1),
        max_context=nothing.astype(bool),
        example=np.arange(len(texts), dtype=np.int32) // sides,
        gold=np.zeros((len(texts), 2), np.int32),
        pad=tokenizer().pad,
        sides=sides,
        labels=np.array(labels, np.float32),
    )


def model(seed: int = 0, *, layers: int = 1, hidden: int = 16, dropout: float = 0.0) -> Model:
    """Return an encoder with random weights and the plain span head, in training mode."""
    torch.manual_seed(seed)
    shape = replace(PRESETS["tiny"], layers=layers, hidden=hidden, embedding=hidden, intermediate=2 * hidden, dropout=dropout)
    return Model(Encoder(shape), {"main": Task(LastLayer(hidden, layers), SpanHead(hidden))})
