"""Easy data augmentation (EDA) for question answering: swap, delete and repeat words of contexts, but not of answers.

Lee and Kim (paper 004), after Wei and Zou 2019 (EDA) and Karimi et al. 2021 (AEDA's punctuation). White space separates
words. A word that overlaps an answer does not change, nor does what is attached to it, such as a Korean particle. Words move
only within their sentence and on their side of the answer. The offsets of answers stay exact.

Departures from the paper's code:

- Contexts without an answer are augmented too. The paper leaves them clean, so noise reveals to the model that there is an
  answer; `paper_leak` does the same.
- Strength 0 changes nothing. In the paper each operation changes one word.
- The last word of a sentence, which has its full stop, does not move.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, Literal

from pydantic import Field, model_validator

from lamina.augment.synonyms import NO_SYNONYMS, Synonyms, synonyms_of
from lamina.data.examples import Answer, Example
from lamina.errors import LaminaError
from lamina.utils.options import Options

Operation = Literal["swap", "delete", "duplicate", "synonyms", "insert", "punctuation"]

PUNCTUATION: Final = (".", ";", "?", ":", "!", ",")  # AEDA's

_WORD: Final = re.compile(r"\S+")
_SENTENCE_END: Final = re.compile(r"[.!?。！？…][\"'”’)\]»」』》]*$")


class EdaOptions(Options):
    """Options of EDA. Each operation changes max(1, floor(alpha N)) of the N words of a context.

    "delete" removes each word with probability alpha.
    A `ramp` counts epochs of the task's own data. A task with more than train.epochs of them has full strength in the last.
    """

    alpha: float = Field(default=0.1, ge=0, le=1)
    """Share of the words of a context that each operation changes, from 0 to 1."""
    ramp: bool = False
    """Raise the strength from 0 at the start of the run to `alpha` at its end."""
    ramp_by: Literal["progress", "epoch"] = "progress"
    """Raise the strength with every example, or once per epoch as in the paper."""
    operations: tuple[Operation, ...] = Field(default=("swap", "delete", "duplicate"), min_length=1)
    """Operations on the words of a context; all run, in this order."""
    synonyms: str | None = None
    """Synonyms for the operations `synonyms` and `insert`: `korean-wordnet`, or a file with a group per line."""
    mix: bool = False
    """Train on the original contexts too, one for each changed context."""
    paper_leak: bool = False
    """Leave contexts without an answer unchanged, as in the paper, which reveals the label."""

    @model_validator(mode="after")
    def _check_synonyms(self) -> EdaOptions:
        if self.synonyms is None and (odd := [name for name in self.operations if name in ("synonyms", "insert")]):
            raise ValueError(f'operation "{odd[0]}" needs synonyms. Fix: set synonyms to a file of them or to "korean-wordnet"')
        return self

    def strength(self, share: float = 1.0) -> float:
        """Return the strength after the share `share` of training, from 0 to 1.

        The paper's ramp goes from 0 to 0.09 in 10 epochs: alpha = 0.09 with `ramp` by epoch and the shares of `share_of`.

        >>> EdaOptions(alpha=0.09, ramp=True).strength(share_of(3, 10))
        0.03
        """
        return round(self.alpha * min(1.0, max(0.0, share)), 12) if self.ramp else self.alpha


def share_of(epoch: int, epochs: float) -> float:
    """Return the share of training of an epoch, counted from 0: 0 for the first and 1 for the last."""
    return min(1.0, epoch / (epochs - 1)) if epochs > 1 else 0.0


def moments_of(count: int, *, seed: int, epoch: int) -> list[float]:
    """Return the positions of `count` examples in an epoch, from 0 to 1, in an order drawn by the seed."""
    moments = [number / count for number in range(count)]
    random.Random(f"moments/{seed}/{epoch}").shuffle(moments)
    return moments


def augment_all(
    examples: Sequence[Example],
    options: EdaOptions,
    *,
    seed: int,
    epoch: int = 0,
    share: float | Sequence[float] = 1.0,
    synonyms: Synonyms = NO_SYNONYMS,
) -> list[Example]:
    """Return the augmented examples of one epoch. With `mix`, the originals come first, and augmented ids end in `#eda`.

    `share` is the share of training that is done, one number for all examples or one for each.
    """
    shares = [share] * len(examples) if isinstance(share, float | int) else share
    augmented = [
        augment(example, options, seed=seed, epoch=epoch, share=done, synonyms=synonyms)
        for example, done in zip(examples, shares, strict=True)
    ]
    if not options.mix:
        return augmented
    return [*examples, *(replace(example, id=f"{example.id}#eda") for example in augmented)]


def augment(
    example: Example,
    options: EdaOptions,
    *,
    seed: int,
    epoch: int = 0,
    share: float = 1.0,
    synonyms: Synonyms = NO_SYNONYMS,
) -> Example:
    """Return the example with its context augmented and its answers' offsets updated. Depends on (seed, epoch, id) only."""
    alpha = options.strength(share)
    if alpha == 0 or (options.paper_leak and not example.answers):
        return example
    text = _Text.cut(example.context, example.answers)
    count = max(1, int(alpha * len(example.context.split()) + 1e-9))
    draw = random.Random(f"{seed}/{epoch}/{example.id}")
    for operation in options.operations:
        if operation == "delete":
            text.delete(alpha, draw)
        elif operation in _WITH_WORDS:
            if not synonyms:
                raise LaminaError(f'synonyms: operation "{operation}" of EDA needs them. Fix: pass read_synonyms(file)')
            _WITH_WORDS[operation](text, count, draw, synonyms)
        else:
            _PLAIN[operation](text, count, draw)
    context, answers = text.joined(example.answers)
    return replace(example, context=context, answers=answers)


@dataclass(slots=True)
class _Piece:
    """A word, or an answer widened to whole words, and the white space after it. It does not change without a `group`.

    Other pieces move within their group: the words of a sentence on one side of an answer.
    """

    text: str
    gap: str
    group: int | None
    start: int = -1  # in the original text; -1 for an inserted piece


@dataclass(slots=True)
class _Text:
    before: str  # white space
    pieces: list[_Piece]

    @classmethod
    def cut(cls, context: str, answers: Sequence[Answer]) -> _Text:
        pieces: list[_Piece] = []
        begin = 0
        for group, (low, high) in enumerate([*_protected(context, answers), (len(context), len(context))]):
            words = _WORD.finditer(context, begin, low)
            pieces += [_Piece(match.group(), "", group, match.start()) for match in words]
            if low < high:
                pieces.append(_Piece(context[low:high], "", None, low))
            begin = high
        starts = [piece.start for piece in pieces] + [len(context)]
        for piece, after in zip(pieces, starts[1:], strict=True):
            piece.gap = context[piece.start + len(piece.text) : after]
        return cls(context[: starts[0]], _by_sentence(pieces))

    def joined(self, answers: Sequence[Answer]) -> tuple[str, tuple[Answer, ...]]:
        """Return the current text, and the answers with their new offsets."""
        now: list[tuple[int, int, int]] = []  # of unchanged pieces: old start, old end, shift
        parts, length = [self.before], len(self.before)
        for piece in self.pieces:
            if piece.group is None:
                now.append((piece.start, piece.start + len(piece.text), length - piece.start))
            parts += (piece.text, piece.gap)
            length += len(piece.text) + len(piece.gap)
        moved = tuple(
            Answer(answer.text, answer.start + next(by for low, high, by in now if low <= answer.start and end <= high))
            for answer in answers
            for end in (answer.start + len(answer.text),)
        )
        return "".join(parts), moved

    def free(self) -> list[int]:
        """Return the numbers of the pieces that may change."""
        return [number for number, piece in enumerate(self.pieces) if piece.group is not None]

    def swap(self, count: int, draw: random.Random) -> None:
        """Swap two words of a group, `count` times."""
        groups = [list(members) for _, members in groupby(self.free(), key=lambda number: self.pieces[number].group)]
        mates = {number: group for group in groups if len(group) > 1 for number in group}
        movable = list(mates)
        for _ in range(count if movable else 0):
            one = draw.choice(movable)
            other = draw.choice([number for number in mates[one] if number != one])
            first, second = self.pieces[one], self.pieces[other]
            first.text, second.text = second.text, first.text

    def delete(self, chance: float, draw: random.Random) -> None:
        """Delete each word that may change with this probability, but keep at least one piece."""
        kept = [piece for piece in self.pieces if piece.group is None or draw.random() >= chance]
        if self.pieces:
            kept = kept or [draw.choice(self.pieces)]
            kept[-1].gap = self.pieces[-1].gap
        self.pieces = kept

    def duplicate(self, count: int, draw: random.Random) -> None:
        """Insert a copy of a word somewhere in its group, `count` times."""
        for _ in range(count):
            if free := self.free():
                one = self.pieces[draw.choice(free)]
                self.insert(one.text, one.group, draw)

    def punctuate(self, count: int, draw: random.Random) -> None:
        """Insert a punctuation mark somewhere between words, `count` times."""
        for _ in range(count):
            if free := self.free():
                self.insert(draw.choice(PUNCTUATION), self.pieces[draw.choice(free)].group, draw)

    def replace(self, count: int, draw: random.Random, synonyms: Synonyms) -> None:
        """Replace `count` of the words that have synonyms by one of them."""
        known = [number for number in self.free() if synonyms_of(self.pieces[number].text, synonyms)]
        for number in draw.sample(known, min(count, len(known))):
            piece = self.pieces[number]
            piece.text = draw.choice(synonyms_of(piece.text, synonyms))

    def insert_synonyms(self, count: int, draw: random.Random, synonyms: Synonyms) -> None:
        """Insert a synonym of a word somewhere in the word's group, `count` times."""
        known = [self.pieces[number] for number in self.free() if synonyms_of(self.pieces[number].text, synonyms)]
        for _ in range(count if known else 0):
            one = draw.choice(known)
            self.insert(draw.choice(synonyms_of(one.text, synonyms)), one.group, draw)

    def insert(self, word: str, group: int | None, draw: random.Random) -> None:
        """Insert the word as a new piece before, between or after the pieces of the group."""
        places = [number for number, piece in enumerate(self.pieces) if piece.group == group]
        place = draw.choice([*places, places[-1] + 1])
        gap = " "
        if place > places[-1]:
            gap, self.pieces[place - 1].gap = self.pieces[place - 1].gap, gap
        self.pieces.insert(place, _Piece(word, gap, group))


_PLAIN: Final[Mapping[str, Callable[[_Text, int, random.Random], None]]] = {
    "swap": _Text.swap,
    "duplicate": _Text.duplicate,
    "punctuation": _Text.punctuate,
}
_WITH_WORDS: Final[Mapping[str, Callable[[_Text, int, random.Random, Synonyms], None]]] = {
    "synonyms": _Text.replace,
    "insert": _Text.insert_synonyms,
}


def _protected(context: str, answers: Sequence[Answer]) -> list[tuple[int, int]]:
    """Return the spans of the answers in order, widened to whole words and merged where they overlap."""
    spans: list[tuple[int, int]] = []
    for answer in sorted(answers, key=lambda answer: answer.start):
        low, high = answer.start, answer.start + len(answer.text)
        while low > 0 and not context[low - 1].isspace():
            low -= 1
        while high < len(context) and not context[high].isspace():
            high += 1
        if spans and low <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(high, spans[-1][1])
        else:
            spans.append((low, high))
    return spans


def _by_sentence(pieces: list[_Piece]) -> list[_Piece]:
    """Return the pieces with one group for each sentence; the last word of a sentence has no group."""
    sentences = 0
    for piece in pieces:
        ends = _SENTENCE_END.search(piece.text) is not None or "\n" in piece.gap
        if piece.group is not None:
            piece.group = None if ends else piece.group + sentences
        sentences += ends
    return pieces
