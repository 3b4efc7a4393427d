"""What the golden answers of the old pipeline were asked: texts by name, and (checkpoint, question, text, options)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple

MILL = (
    "Ada Thorn built the old stone mill on the river Loam in 1823. The mill was sold to the guild of bakers, who "
    "ground rye and barley there. In 1871 a flood took the wheel; Bertram Vale, a smith, made a new one of oak and iron."
)


def _long(words: int) -> str:
    """Sentences without end, all different."""
    verbs, things = ("built", "sold", "found", "lost", "drew"), ("mill", "river", "stone", "house", "wheel", "song", "map")
    found: list[str] = []
    number = 0
    while len(found) < words:
        sentence = (
            f"In {1100 + number} the {things[number % 7]} of {things[(number * 3 + 1) % 7]} {number} was {verbs[number % 5]}."
        )
        found += sentence.split()
        number += 1
    return " ".join(found[:words])


TEXTS = {
    "mill": MILL,
    "word": "Ada",
    "ends": "Thorn built it. Nobody knows more, said Ada",
    "lines": MILL.replace(". ", ".\r\n"),
    "spaces": "  Ada\u00a0Thorn \t built   the mill .  ",
    "emoji": "The mill 🏭 was built by Ada 👩🏽‍🔧 and Bob 🇰🇷 in 1823 🎉!",
    "marks": "Ade\u0301la Tho\u0308rn built the cafe\u0301 and the mu\u0308hle by the river.",
    "korean": "대한민국의 수도는 서울이다. 강은 서울을 가른다. 다리는 1900년에 세워졌다.",
    "decomposed": unicodedata.normalize("NFD", "한국의 수도는 서울이다."),
    "arabic": "بني البيت في سنة 1823 على النهر. كتاب الطاحونة في البيت.",
    "specials": "The [SEP] token and <s> signs are no words; [CLS] neither.",
    "blank": " \n ",
    "repeated": "The mill. the mill! THE MILL? A mill, the Mill.",
    "long": _long(900),
    "library": _long(30_000),
}
QUESTIONS = {
    "mill": "Who built the mill?",
    "korean": "다리는 언제 세워졌는가?",
    "arabic": "أين الكتاب؟",
    "space": "  When was the wheel lost?  ",
    "odd": "?",
    "long": "Who of all the people by the river built the old stone mill " * 3,
    **{f"long {n}": "Who of all the people by the river built the old stone mill " * n for n in (6, 7, 8)},
    "longer": "Who of all the people by the river built the old stone mill " * 60,
}


class Case(NamedTuple):
    checkpoint: str
    question: str
    text: str
    options: dict[str, Any]


def cases(checkpoint: str) -> Iterator[Case]:
    """Every text, every question and every option, not all of their products."""

    def case(question: str = "mill", text: str = "mill", **options: Any) -> Case:
        return Case(checkpoint, question, text, options)

    for text in TEXTS:
        yield case(text=text)
        if text != "library":
            yield case(text=text, top_k=4, handle_impossible_answer=True)
            yield case(text=text, align_to_words=False, top_k=3)
            yield case(text=text, max_seq_len=48, doc_stride=8, top_k=2)
    for question in QUESTIONS:
        yield case(question, "word")  # short enough for every question that fits at all
        yield case(question, "mill")
        yield case(question, "long", top_k=2, handle_impossible_answer=True)
    yield case("korean", "korean", top_k=3)
    yield case("arabic", "arabic", top_k=3)
    for options in (
        {"top_k": 20},
        {"max_answer_len": 1},
        {"max_answer_len": 60, "top_k": 3},
        {"max_answer_len": 1, "align_to_words": False},
        {"handle_impossible_answer": True},
        {"align_to_words": False},
        {"doc_stride": 0, "max_seq_len": 64},
        {"doc_stride": 40, "max_seq_len": 64},
        {"doc_stride": 64, "max_seq_len": 64},
        {"doc_stride": 65, "max_seq_len": 64},
        {"max_seq_len": 512},
        {"max_seq_len": 100, "top_k": 5, "handle_impossible_answer": True, "align_to_words": False},
        {"max_question_len": 4},
    ):
        yield case(text="long", **options)
