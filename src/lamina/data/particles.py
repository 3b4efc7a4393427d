"""Korean particles: the short endings of nouns, their forms, and how to find one at the end of a word.

Many particles have two forms. One follows a consonant (책을), the other a vowel (나무를). So a particle that does not fit the
syllable before it is no particle: 소아과 is a word, because 과 follows consonants only. All texts here are in NFC.
"""

from __future__ import annotations

from typing import Final

# In each pair, the first form follows a consonant, the second a vowel.
PAIRS: Final = (
    ("은", "는"),
    ("이", "가"),
    ("을", "를"),
    ("과", "와"),
    ("으로", "로"),
    ("으로서", "로서"),
    ("으로써", "로써"),
    ("으로부터", "로부터"),
    ("으로의", "로의"),
    ("으로는", "로는"),
    ("과의", "와의"),
    ("이라고", "라고"),
    ("이라는", "라는"),
    ("이나", "나"),
)
# 도 is not among them: it also ends many nouns, such as 인지도 and 강원도.
_ONE_FORM: Final = """
의 에 만 에서 에게 까지 부터 보다 처럼 에는 에도 에서는 에서도 에서의 에게는 에게서 께서 마다 조차 까지의 부터의
"""
_PAIR_OF: Final = {form: pair for pair in PAIRS for form in pair}
PARTICLES: Final = tuple(sorted({*_ONE_FORM.split(), *_PAIR_OF}, key=lambda form: (-len(form), form)))

_FIRST_SYLLABLE: Final = 0xAC00
_SYLLABLES: Final = 11172
_FINALS: Final = 28  # no consonant, or one of 27
_RIEUL: Final = 8  # ㄹ takes 로, as a vowel does


def is_syllable(letter: str) -> bool:
    """Return whether the character is a whole syllable of Hangul.

    >>> is_syllable("한"), is_syllable("ㅎ"), is_syllable("韓")
    (True, False, False)
    """
    return 0 <= ord(letter) - _FIRST_SYLLABLE < _SYLLABLES


def form_after(stem: str, particle: str) -> str | None:
    """Return the form of the particle after the stem, or None if the stem's last sound is unknown (TV, 3, 李).

    >>> form_after("학원", "는"), form_after("물", "으로"), form_after("TV", "는"), form_after("TV", "에서")
    ('은', '로', None, '에서')
    """
    pair = _PAIR_OF.get(particle)
    if pair is None:
        return particle
    if not stem or not is_syllable(stem[-1]):
        return None
    final = (ord(stem[-1]) - _FIRST_SYLLABLE) % _FINALS
    return pair[1] if final == 0 or (final == _RIEUL and pair[0].startswith("으로")) else pair[0]


def split_particle(word: str, particles: tuple[str, ...] = PARTICLES) -> tuple[str, str]:
    """Return the word's stem and its particle: the longest of `particles` that fits the stem, or "".

    >>> split_particle("서울에서"), split_particle("학교는"), split_particle("소아과"), split_particle("은")
    (('서울', '에서'), ('학교', '는'), ('소아과', ''), ('은', ''))
    """
    for particle in particles:
        stem = word.removesuffix(particle)
        if stem and stem != word and form_after(stem, particle) in (particle, None):
            return stem, particle
    return word, ""
