"""A baseline that matches words: it finds the sentence most similar to the question, then a likely chunk of it.

It shows how many questions can be answered without understanding. It is not trained. Its threshold for "no answer" is chosen
on the questions that it answers, so its score is an upper bound.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final

from lamina.data.squad_format import SquadCorpus
from lamina.scoring.squad import score_squad2

_WORD: Final = re.compile(r"[A-Za-z0-9']+")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_CAPITALISED: Final = re.compile(r"[A-Z][\w']*(?:(?: of| the| of the)? [A-Z][\w']*)*")
_YEAR: Final = re.compile(r"\b1\d{3}\b")
_NUMBER: Final = re.compile(r"\b\d[\d,]*(?: [a-z]+)?")
_MONTHS: Final = "January|February|March|April|May|June|July|August|September|October|November|December"
_MONTH: Final = re.compile(rf"\b(?:{_MONTHS})\b")
_STEPS: Final = 40


def overlap_baseline(corpus: SquadCorpus) -> dict[str, str]:
    """Return an answer for every question id, "" if the overlap is too small."""
    texts: dict[str, str] = {}
    overlaps: dict[str, float] = {}
    golds: dict[str, list[str]] = {}
    for article in corpus["data"]:
        for paragraph in article["paragraphs"]:
            sentences = _SENTENCE.split(paragraph["context"])
            idf = _idf(sentences)
            for qa in paragraph["qas"]:
                texts[qa["id"]], overlaps[qa["id"]] = _answer(qa["question"], sentences, idf)
                golds[qa["id"]] = [answer["text"] for answer in qa["answers"]]
    candidates = [{key: text if overlaps[key] >= bar else "" for key, text in texts.items()} for bar in _bars(overlaps)]
    return max(candidates, key=lambda predictions: score_squad2(golds, predictions)["f1"], default={})


def _bars(overlaps: dict[str, float]) -> list[float]:
    ranked = sorted(overlaps.values())
    return [0.0, *ranked[:: max(1, len(ranked) // _STEPS)], math.inf] if ranked else []


def _words(text: str) -> list[str]:
    return [word.lower().removesuffix("'s") for word in _WORD.findall(text)]


def _idf(sentences: list[str]) -> dict[str, float]:
    counts = Counter(word for sentence in sentences for word in dict.fromkeys(_words(sentence)))
    return {word: math.log(1 + len(sentences) / count) for word, count in counts.items()}


def _answer(question: str, sentences: list[str], idf: dict[str, float]) -> tuple[str, float]:
    asked = list(dict.fromkeys(_words(question)))
    scored = [(sum(idf[word] for word in asked if word in _words(sentence)), sentence) for sentence in sentences]
    ranked = sorted(scored, key=lambda pair: -pair[0])
    total = sum(idf.get(word, math.log(1 + len(sentences))) for word in asked)
    for overlap, sentence in ranked[:3]:
        chunk = _chunk(question, sentence)
        if chunk:
            return chunk, overlap / total
    return "", 0.0


def _chunk(question: str, sentence: str) -> str:
    """Return the chunk of the sentence that fits the question word."""
    lowered = question.lower()
    if " month" in lowered:
        return _first(_MONTH.findall(sentence))
    if re.search(r"\bwhen\b|\byear\b", lowered):
        return _first(_YEAR.findall(sentence))
    if re.search(r"\bhow (?!does|was)|\bnumber\b|\bprice\b|\bfee\b|\blength\b|\bfine\b", lowered):
        return _first(_NUMBER.findall(sentence))
    names = [name for name in _CAPITALISED.findall(sentence) if name.split()[0] not in _OPENERS]
    asked = set(_words(question))
    fresh = [name for name in names if not set(_words(name)) & asked]
    if fresh or re.search(r"\bwhom?\b|\bwhere\b|\btown\b|\bplace\b", lowered):
        return max(fresh, key=len, default="")
    return _tail(sentence, asked)


_OPENERS: Final = ("The", "A", "An", "It", "Its", "He", "His", "She", "Her", "In", "At", "On", "For", "After", "By")


def _tail(sentence: str, asked: set[str]) -> str:
    """Return the last few words, which are often the new information."""
    words = [word for word in sentence.rstrip(".").split(" ") if word.lower() not in asked]
    return " ".join(words[-3:])


def _first(found: list[str]) -> str:
    return found[0] if found else ""
