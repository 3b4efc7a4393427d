"""Labelled sentences of the fables: sentiment (0 to 4), paraphrase (0 or 1) and similarity (0.0 to 5.0).

As in the corpus of questions, the splits share neither names nor templates.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final, Literal, get_args

from lamina.data.examples import Sentence
from lamina.data.fables.names import Split
from lamina.data.fables.opinions import DEGREES, opinion
from lamina.data.fables.statements import paraphrase_pair, similar_pair
from lamina.utils.files import make_folder, write_atomically

SentenceTask = Literal["sentiment", "paraphrase", "similarity"]

TASKS: Final[tuple[SentenceTask, ...]] = get_args(SentenceTask)
SENTENCES: Final[dict[Split, int]] = {"train": 1200, "dev": 240}
LEAST_WORDS, MOST_WORDS = 6, 25
PARAPHRASES: Final = 37  # of 100 pairs


def make_sentences(task: SentenceTask, split: Split, *, count: int | None = None, seed: int = 0) -> list[Sentence]:
    """Return rows of a task, all different. A larger set starts with the rows of a smaller one."""
    if task not in TASKS:
        raise ValueError(f"task is {task!r}: choose {', '.join(TASKS)}")
    if split not in SENTENCES:
        raise ValueError(f'split is {split!r}: choose "train" or "dev"')
    if count is not None and count < 0:
        raise ValueError(f"count = {count}: choose 0 or more")
    seen: set[str] = set()
    return [_sentence(task, split, number, seed, seen) for number in range(SENTENCES[split] if count is None else count)]


def write_sentences(folder: Path, seed: int = 0) -> dict[str, int]:
    """Write TASK-train.tsv and TASK-dev.tsv of every task. Return the number of rows of each file."""
    make_folder(folder)
    written = {}
    for task in TASKS:
        for split in SENTENCES:
            path = folder / f"{task}-{split}.tsv"
            sentences = make_sentences(task, split, seed=seed)
            texts = ("sentence",) if task == "sentiment" else ("sentence1", "sentence2")
            lines = ["\t".join(("id", *texts, "label")), *("\t".join(_cells(sentence)) for sentence in sentences)]
            write_atomically(path, ("\n".join(lines) + "\n").encode())
            written[str(path)] = len(sentences)
    return written


def _cells(sentence: Sentence) -> tuple[str, ...]:
    return tuple(cell for cell in (sentence.id, sentence.first, sentence.second, sentence.label) if cell is not None)


def _sentence(task: SentenceTask, split: Split, number: int, seed: int, seen: set[str]) -> Sentence:
    """Return the row of a number, drawn until it is new and of an allowed length."""
    rng = random.Random(f"fables/{task}/{split}/{seed}/{number}")
    while True:
        sentence = _draw(task, split, number, seed, rng)
        texts = [text for text in (sentence.first, sentence.second) if text is not None]
        fits = all(LEAST_WORDS <= len(text.split()) <= MOST_WORDS for text in texts)
        if fits and len(set(texts)) == len(texts) and "\t".join(texts) not in seen:
            seen.add("\t".join(texts))
            return sentence


def _draw(task: SentenceTask, split: Split, number: int, seed: int, rng: random.Random) -> Sentence:
    own_id = f"fables-{task}-{split}-{number:04d}"
    if task == "sentiment":
        degree = _dealt(task, split, number, seed, DEGREES)
        return Sentence(own_id, opinion(degree, rng, split), None, str(degree))
    if task == "paraphrase":
        same = _dealt(task, split, number, seed, 100) < PARAPHRASES
        return Sentence(own_id, *paraphrase_pair(same, rng, split), str(int(same)))
    first, second, score = similar_pair(rng, split)
    return Sentence(own_id, first, second, f"{score:.1f}")


def _dealt(task: SentenceTask, split: Split, number: int, seed: int, size: int) -> int:
    """Return a number below `size`. Each run of `size` rows has every number once, in a random order."""
    run, place = divmod(number, size)
    return random.Random(f"fables/{task}/{split}/{seed}/deal/{run}").sample(range(size), size)[place]
