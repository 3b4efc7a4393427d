"""Answers in Korean end before the particle, as KorQuAD's annotators end them."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.answers.decode import AnswerOptions, decode
from lamina.answers.particles import without_particle
from lamina.data.examples import Example
from lamina.data.particles import PAIRS, PARTICLES, form_after, split_particle
from lamina.data.squad import read
from lamina.data.tokenizer import Tokenizer
from lamina.data.windows import WindowOptions, Windows, make_windows

OPEN, CLOSED, RIEUL = "나무", "책", "물"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(
    ("before", "token", "after", "expected"),
    [
        ("", "서울에서", " 열렸다", "서울"),
        ("", "서울에", "서 열렸다", "서울"),  # the particle continues in the next token
        ("", "서울", "에서 열렸다", "서울"),  # the model ended the answer before it
        ("서울", "에서", " 열렸다", "에서"),  # a token of its own: the model wants it
        ("", "책을", ", 그리고", "책"),
        ("", "나무를", "", "나무"),
        ("", "임종석이", "라고 한다", "임종석"),
        ("", "카스트로", "는 말했다", "카스트로"),
        ("", "소아과", " 의사", "소아과"),  # 과 follows consonants only
        ("", "민주주의", " 국가", "민주주의"),
        ("", "현정은", "》에서", "현정은"),  # before a bracket there is no particle
        ("", "바나나", " 한 개", "바나나"),
        ("", "1999년부터", " 지금까지", "1999년"),
        ("", "이", " 책", "이"),
        ("", "Seoul", " city", "Seoul"),
        ("", "首都는", " 서울", "首都"),
    ],
)
def test_where_an_answer_ends(form: Literal["NFC", "NFD"], before: str, token: str, after: str, expected: str) -> None:
    before, token, after = (unicodedata.normalize(form, text) for text in (before, token, after))
    end = without_particle(before + token + after, len(before), len(before + token))
    assert unicodedata.normalize("NFC", (before + token + after)[len(before) : end]) == expected


@pytest.mark.parametrize(("closed", "opened"), PAIRS)
def test_the_form_depends_on_the_last_sound(closed: str, opened: str) -> None:
    for particle in (closed, opened):
        assert form_after(CLOSED, particle) == closed
        assert form_after(OPEN, particle) == opened
        assert form_after(RIEUL, particle) == (opened if closed.startswith("으로") else closed)
        assert form_after("TV", particle) is form_after("", particle) is None
    assert split_particle(OPEN + opened) == (OPEN, opened)
    assert split_particle(CLOSED + closed) == (CLOSED, closed)
    assert split_particle(OPEN + closed)[1] != closed and split_particle(CLOSED + opened)[1] != opened


HANGUL = st.sampled_from("가나다책물의에서는은이를을과와로으부터 .,(")


@given(st.text(HANGUL, min_size=1, max_size=20), st.data())
def test_only_a_particle_is_cut(text: str, data: st.DataObject) -> None:
    token = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(token + 1, len(text)))
    cut = without_particle(text, token, end)
    assert token < cut <= end, "a part of the last token stays"
    if cut < end:
        assert any(particle.startswith(text[cut:end]) for particle in (*PARTICLES, "이다", "이라", "이란", "이고")), text[
            cut:end
        ]
    decomposed = [len(unicodedata.normalize("NFD", text[:place])) for place in (token, end, cut)]
    assert without_particle(unicodedata.normalize("NFD", text), decomposed[0], decomposed[1]) == decomposed[2]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20), st.data())
def test_other_scripts_are_unchanged(text: str, data: st.DataObject) -> None:
    token = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(token + 1, len(text)))
    if "HANGUL" not in unicodedata.name(text[end - 1], ""):
        assert without_particle(text, token, end) == end


def exact(windows: Windows, examples: list[Example], *, cut: bool) -> float:
    """Return the share of examples whose gold tokens give the annotator's text."""
    start, end = np.zeros(len(windows.ids), np.float32), np.zeros(len(windows.ids), np.float32)
    with_answer = np.flatnonzero(windows.gold[:, 0] > 0)
    start[windows.starts[with_answer] + windows.gold[with_answer, 0]] = 9
    end[windows.starts[with_answer] + windows.gold[with_answer, 1]] = 9
    found = decode(windows, start, end, examples, AnswerOptions(n_best=1, max_tokens=100, cut_particles=cut))
    pairs = zip(found, examples, strict=True)
    return sum(one.candidates[0].text == example.answers[0].text for one, example in pairs) / len(examples)


@pytest.mark.parametrize(
    ("encoder", "length", "without", "least"),
    [("multilingual-e5-small-ko-en", 384, 0.92, 0.985), ("albert-kor-base", 256, 0.8, 0.975)],
)
def test_answers_of_korquad_end_as_their_annotators_ended_them(
    shared: Path, encoder: str, length: int, without: float, least: float
) -> None:
    examples = read(shared / "data/korquad-v1.0-dev.json.xz")[::11]
    tokenizer = Tokenizer(shared / "encoders" / encoder / "tokenizer.json")
    windows = make_windows(examples, tokenizer, WindowOptions(length=length, overlap=64))
    assert exact(windows, examples, cut=False) < without, "there is something to cut"
    assert exact(windows, examples, cut=True) >= least
