"""The bundled sentences: their form, splits, labels and difficulty."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from lamina.data.examples import Sentence
from lamina.data.fables.names import LEXICONS, Split
from lamina.data.fables.opinions import ASPECTS, OWN, PHRASES, SHARED, WAYS
from lamina.data.fables.sentences import TASKS, SentenceTask, make_sentences, write_sentences
from lamina.data.fables.statements import FRAMES, Fact, Statement, opposed, renamed, revalued, similarity, swapped, turned
from lamina.data.fables.values import FreshValues
from lamina.data.labels import labels_in
from lamina.data.sentences import read_sentences

SPLITS: tuple[Split, ...] = ("train", "dev")
FIRST = "I had expected the cooking on the Gilded Wheel to be horrible, and it was good."


@cache
def rows(task: SentenceTask, split: Split) -> list[Sentence]:
    return make_sentences(task, split)


def texts(task: SentenceTask, split: Split) -> list[str]:
    return [text for row in rows(task, split) for text in (row.first, row.second) if text is not None]


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


# ---- form


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("split", SPLITS)
def test_rows_depend_on_the_seed_and_not_on_their_number(task: SentenceTask, split: Split) -> None:
    assert make_sentences(task, split, count=40) == rows(task, split)[:40]
    assert make_sentences(task, split, count=40, seed=1) != rows(task, split)[:40]
    assert make_sentences(task, split, count=0) == []


def test_it_starts_with_the_same_words_on_every_platform() -> None:
    assert rows("sentiment", "train")[0].first == FIRST


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("split", "count"), [("train", 1200), ("dev", 240)])
def test_size_and_clean_texts(task: SentenceTask, split: Split, count: int) -> None:
    found = rows(task, split)
    assert len(found) == len({row.id for row in found}) == len({(row.first, row.second) for row in found}) == count
    assert all((row.second is None) == (task == "sentiment") and row.second != row.first for row in found)
    for text in texts(task, split):
        assert 6 <= len(text.split()) <= 25, text
        assert not re.search(r"[{}\t\n]|  | [.,?!]|\.\.|\bthe the\b|\ba an?\b|\ban [^aeiouh]", text), text
        assert text[0].isupper() and text[-1] in ".!", text


def test_bad_arguments_raise() -> None:
    with pytest.raises(ValueError, match=r"irony.*sentiment, paraphrase, similarity"):
        make_sentences("irony", "dev")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="test"):
        make_sentences("sentiment", "test")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="-1"):
        make_sentences("sentiment", "dev", count=-1)


def test_written_files_are_read_back(tmp_path: Path) -> None:
    written = write_sentences(tmp_path / "out")
    assert list(written.values()) == [1200, 240] * 3
    for path, count in written.items():
        task, split = Path(path).stem.split("-")
        assert read_sentences(Path(path)) == make_sentences(task, split, count=count)  # type: ignore[arg-type]


# ---- splits


@pytest.mark.parametrize("task", TASKS)
def test_splits_share_no_name(task: SentenceTask) -> None:
    lexicon = LEXICONS["dev"]
    heads = (*lexicon.surname_heads, *lexicon.town_heads, *lexicon.river_heads, *lexicon.men, *lexicon.women)
    pattern = re.compile(rf"\b(?:{'|'.join(lexicon.men + lexicon.women)}|(?:{'|'.join(lexicon.town_heads)})[a-z]+)\b")
    assert not any(pattern.search(text) for text in texts(task, "train"))
    assert sum(bool(re.search("|".join(heads), text)) for text in texts(task, "dev")) > 100
    assert not set(texts(task, "train")) & set(texts(task, "dev"))


def test_splits_share_no_template_but_two_words_of_praise_in_three() -> None:
    ours, theirs = ({t for part in _phrases(split) for t in part} for split in SPLITS)
    assert not ours & theirs
    assert set(FRAMES["train"]) & set(FRAMES["dev"]) == {"{}"}
    own, others = (set(chain.from_iterable(OWN[split].values())) for split in SPLITS)
    assert not own & others
    shared = set(chain.from_iterable(SHARED.values()))
    assert len(shared) / len(shared | others) == pytest.approx(2 / 3, abs=0.05)
    seen = {word for text in texts("sentiment", "train") for word in words(text)}
    assert shared | own <= seen
    assert not others & seen


def _phrases(split: Split) -> list[tuple[str, ...]]:
    phrases = PHRASES[split]
    return [phrases.plain, phrases.raised, phrases.denied, phrases.mixed, phrases.overruled, phrases.neutral]


@pytest.mark.parametrize("split", SPLITS)
def test_every_template_of_opinions_is_used(split: Split) -> None:
    texts = [row.first for row in make_sentences("sentiment", split, count=1500)]
    for template in chain.from_iterable(_phrases(split)):
        longest = max(re.split(r"\{\w+\}", template), key=len).strip()
        assert any(longest.lower() in text.lower() for text in texts), template
    assert {way for ways in WAYS.values() for way, _ in ways} == set(PHRASES[split].__slots__)
    assert all(len(aspects) > 1 for _, aspects in ASPECTS.values())


# ---- labels


@pytest.mark.parametrize("split", SPLITS)
def test_shares_of_labels(split: Split) -> None:
    degrees = Counter(row.label for row in rows("sentiment", split))
    assert set(degrees) == set("01234")
    assert max(degrees.values()) - min(degrees.values()) <= 1
    same = [row.label == "1" for row in rows("paraphrase", split)]
    assert sum(same) / len(same) == pytest.approx(0.37, abs=0.01)
    scores = [float(row.label or "nan") for row in rows("similarity", split)]
    assert min(scores) == 0
    assert max(scores) == 5
    assert all(round(score * 5, 6) == round(score * 5) for score in scores), "steps of 0.2"
    assert len(set(scores)) >= 10
    assert max(Counter(scores).values()) / len(scores) < 0.3
    assert labels_in(row.label or "" for row in rows("similarity", split)).high == 5


def source() -> FreshValues:
    return FreshValues(random.Random(5), "train")


def test_similarity_counts_facts() -> None:
    drawn = source()
    one = opposed(drawn)
    single = Statement(one.kind, one.naming, one.facts[:1])
    assert similarity(one, one) == similarity(one, Statement(one.kind, one.naming, one.facts[::-1])) == 5
    assert similarity(single, revalued(single, drawn)) == 3.8
    assert similarity(single, renamed(single, drawn)) == 3.4
    assert similarity(single, turned(single, drawn)) == 2.6, "an equal value of another relation does not count"
    assert similarity(one, swapped(one)) == 3.8
    assert similarity(one, single) == similarity(single, one) == 4.2
    other = next(kind for kind in (opposed(drawn) for _ in range(99)) if kind.kind is not one.kind)
    assert similarity(one, other) == 0


def test_changed_statements_differ() -> None:
    drawn = source()
    for _ in range(50):
        one = opposed(drawn)
        assert swapped(swapped(one)) == one != swapped(one)
        assert revalued(one, drawn).values != one.values
        assert revalued(one, drawn).relations == one.relations
        assert renamed(one, drawn).naming != one.naming
        single = Statement(one.kind, one.naming, (Fact(one.facts[0].relation, "x"),))
        assert turned(single, drawn).values == {(one.facts[0].relation.opposite, "x")}


# ---- difficulty


def overlap(row: Sentence) -> float:
    one, other = set(words(row.first)), set(words(row.second or ""))
    return len(one & other) / len(one | other)


@pytest.mark.parametrize("split", SPLITS)
def test_word_overlap_does_not_reveal_paraphrases(split: Split) -> None:
    shares = np.array([overlap(row) for row in rows("paraphrase", split)])
    same = np.array([row.label == "1" for row in rows("paraphrase", split)])
    best = max(max(np.mean((shares >= cut) == same), np.mean((shares < cut) == same)) for cut in np.unique(shares))
    assert best < 0.72
    assert np.mean(shares[~same] > np.median(shares[same])) > 0.25, "many pairs share words but not their meaning"


@pytest.mark.parametrize("split", SPLITS)
def test_word_overlap_reveals_similarity_only_partly(split: Split) -> None:
    shares = [overlap(row) for row in rows("similarity", split)]
    scores = [float(row.label or "nan") for row in rows("similarity", split)]
    assert 0.3 < np.corrcoef(shares, scores)[0, 1] < 0.7


def test_counted_words_do_not_reveal_sentiment() -> None:
    """Naive Bayes over single words cannot see negation, nor whose opinion a word is."""
    counts = {label: Counter[str]() for label in "01234"}
    for row in rows("sentiment", "train"):
        counts[row.label or ""].update(words(row.first))
    size = len(set(chain.from_iterable(counts.values())))

    def guess(text: str) -> str:
        def score(label: str) -> float:
            total = counts[label].total() + size
            return sum(math.log((counts[label][word] + 1) / total) for word in words(text))

        return max(counts, key=score)

    def accuracy(split: Split) -> float:
        return sum(guess(row.first) == row.label for row in rows("sentiment", split)) / len(rows("sentiment", split))

    assert accuracy("dev") < 0.4
    assert accuracy("train") > 0.4, "the baseline learned something"
