"""Choose what `lamina fit` trains in a time budget: layers, epochs, and how the result is tested.

The choice is a pure function of the size of the data, the measured speed and the minutes. It takes the first of these that
fits the budget, with at least half of the epochs that data of this size should have:

1. Cross-validation of small data: each part is answered by a model that was trained on the other parts. If that is better
   than the start, the model to hand out is trained on everything.
2. One part held out: the model that was tested is handed out. All layers train.
3. The same with the upper half of the layers, from stored states of the layers below.
4. The same with the last quarter, for as many epochs as fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

CROSSED: Final = 400  # with fewer examples, one part alone is too small to decide on
FEW: Final = 100  # examples; with fewer, cross-validation has more parts, so that each model trains on more
USABLE: Final = 0.9  # share of the budget to plan with; the rest is for reading and writing files
PER_TRAINING: Final = 3.0  # seconds to load, save and plan
UPDATES: Final = 1.15  # the optimiser's time, as a factor
HELD_OUT: Final = 0.1  # share of the training examples that choose the checkpoint, if one part is held out
EVALUATIONS: Final = 2  # of these, in an epoch
LEAST: Final = 0.1  # epochs


@dataclass(frozen=True)
class Size:
    """The size of the data and of the model."""

    examples: int  # questions or rows
    tokens: int  # in the windows of all examples
    layers: int
    shared: bool = False  # the layers of the encoder share one block, so all train or none
    sentences: bool = False


@dataclass(frozen=True)
class Speed:
    """Seconds for one token, measured on this machine."""

    train: float  # forward and backward, all layers
    read: float  # forward only


@dataclass(frozen=True)
class Choice:
    """What to train and how to test it."""

    parts: int  # the data is cut into so many
    crossed: bool  # every part is tested in turn, and the final model trains on all of them; else one part is held out
    layers: int  # how many of the last layers train
    depth: int  # of the encoder
    epochs: float
    seconds: float  # estimated

    @property
    def whole(self) -> bool:
        """Whether all layers train, with the embeddings."""
        return self.layers == self.depth

    def lines(self, size: Size, minutes: float) -> tuple[str, str]:
        """Return the choice in two lines for the user."""
        noun = "rows" if size.sentences else "questions"
        layers = f"all {self.depth} layers" if self.whole else f"the last {self.layers} of {self.depth} layers on stored states"
        first = f"choice: train {layers} for {self.epochs:g} epochs on {size.examples} {noun} ({size.tokens:,} tokens)"
        test = (
            f"{self.parts} parts, each predicted by a model trained on the others; if that is better, train on all of them"
            if self.crossed
            else f"hold out 1 of {self.parts} parts, and train on the others"
        )
        return first, f"test: {test}; about {self.seconds / 60:.1f} of {minutes:g} minutes here"


def choose(size: Size, speed: Speed, minutes: float) -> Choice:
    """Return the first choice that fits into the minutes. The last one has at least a tenth of an epoch.

    >>> few, fast = Size(examples=30, tokens=9_000, layers=6), Speed(train=3e-4, read=1e-4)
    >>> choice = choose(few, fast, minutes=5)
    >>> choice.parts, choice.crossed, choice.layers, choice.epochs
    (4, True, 6, 6.0)
    """
    budget = USABLE * 60 * minutes
    options = list(_options(size))
    for option in options:
        fixed = cost(replace(option, epochs=0.0), size, speed)
        an_epoch = cost(replace(option, epochs=1.0), size, speed) - fixed
        fitting = math.floor(10 * min(option.epochs, (budget - fixed) / an_epoch)) / 10
        if fitting >= option.epochs / 2 or option is options[-1]:
            chosen = replace(option, epochs=max(LEAST, fitting))
            break
    return replace(chosen, seconds=cost(chosen, size, speed))


def target_epochs(size: Size) -> float:
    """Return the number of epochs that data of this size should have: more for less data."""
    steps = ((100, 6.0), (500, 4.0), (2000, 3.0))
    usual = next((epochs for below, epochs in steps if size.examples < below), 2.0)
    return 2 * usual if size.sentences else usual  # a sentence has one label, an answer has two ends in many windows


def cost(choice: Choice, size: Size, speed: Speed) -> float:
    """Return the estimated seconds of a choice: storing, training, evaluating, and reading the tested parts twice."""
    above = choice.layers / choice.depth
    trainings = choice.parts + 1 if choice.crossed else 1
    trained = choice.parts if choice.crossed else (choice.parts - 1) / choice.parts  # times the data
    tested = 1.0 if choice.crossed else 1 / choice.parts
    stored = 0.0 if choice.whole else trained * (1 - above) * speed.read
    evaluated = 0.0 if choice.crossed else EVALUATIONS * HELD_OUT * choice.epochs * speed.read
    per_token = stored + evaluated + trained * choice.epochs * UPDATES * above * speed.train + 2 * tested * speed.read
    return trainings * PER_TRAINING + size.tokens * per_token


def _options(size: Size) -> Iterator[Choice]:
    """Yield the choices in the order of preference, without their seconds."""
    epochs, depth = target_epochs(size), size.layers
    parts = 10 if size.examples >= 2000 else 5
    if size.examples < CROSSED:
        yield Choice(4 if size.examples < FEW else 3, True, depth, depth, epochs, 0.0)
    whole = Choice(parts, False, depth, depth, epochs, 0.0)
    yield whole
    if size.shared:
        return
    for layers in dict.fromkeys((math.ceil(depth / 2), math.ceil(depth / 4))):
        yield replace(whole, layers=layers)
