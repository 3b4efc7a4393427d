"""Spans of a passage that questions ask about: names, numbers, nouns and recurring spans."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lamina.pretraining.answer_spans import STOP_WORDS, answer_spans, places_of, recurring_spans
from lamina.pretraining.passages import Passage, PassageIndex, cut_passages

HARBOUR = (
    "The harbour of Port Ellery was built in 1871 by the engineer Maud Tanner. "
    "Maud Tanner had studied in Leeds, and Port Ellery was her first work. "
    "Ships of the Northern Tin Company used the harbour until 1932. "
    "Forty-one ships of the Northern Tin Company sank in the storm of that year; one was found again."
)


def passage(text: str = HARBOUR) -> Passage:
    (found,) = cut_passages(text, 500)
    return found


def texts(found: Passage, key: tuple[str, ...]) -> list[str]:
    return [found.sentences[place.sentence][place.start : place.end] for place in places_of(found, key)]


def test_names_numbers_and_nouns_of_a_passage() -> None:
    kinds = {" ".join(span.key): span.kind for span in answer_spans(passage())}
    assert kinds["port ellery"] in ("name", "place")
    assert kinds["maud tanner"] == "name"
    assert kinds["1871"] == kinds["1932"] == "year"
    assert kinds["northern tin company"] == "group"
    assert kinds["harbour"] == kinds["storm"] == "noun"
    assert not {"built", "studied", "used", "found again", "one"} & kinds.keys()


def test_recurring_spans_are_maximal_and_in_two_sentences() -> None:
    found = {" ".join(span.key): len(span.places) for span in recurring_spans(passage(), 10)}
    assert found == {"harbour": 2, "port ellery": 2, "maud tanner": 2, "ships of the northern tin company": 2}
    short = {" ".join(span.key) for span in recurring_spans(passage(), 3)}
    assert {"northern tin company", "ships"} <= short
    assert "ships of the northern tin company" not in short


def test_part_of_a_longer_span_recurs_if_it_is_elsewhere_too() -> None:
    text = "The tin mine of Ellery is deep. A new tin mine of Ellery was planned. Ellery is a town."
    found = {" ".join(span.key): len(span.places) for span in recurring_spans(passage(text), 10)}
    assert found == {"tin mine of ellery": 2, "ellery": 3}


def test_names_and_figures_weigh_most() -> None:
    weights = {" ".join(span.key): span.weight for span in answer_spans(passage())}
    assert weights["maud tanner"] == weights["1871"] > weights["harbour"]
    (two,) = (span for span in answer_spans(passage("Two ships left. They saw two of the old towers.")) if span.key == ("two",))
    assert two.weight < weights["harbour"]


def test_places_have_any_case_and_no_part_of_a_compound() -> None:
    found = passage("Night owls hunt. The NIGHT OWLS' eggs. A night-owls-nest, night. Owls sleep.")
    assert texts(found, ("night", "owls")) == ["Night owls", "NIGHT OWLS"]
    assert texts(passage(), ("one",)) == ["one"]  # not that of "Forty-one"


WORDS = ["the", "owl", "Owl", "of", "saw", "a", "nest", "1,000", "Ada", "-", ",", "in's"]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=40))
def test_every_place_has_the_words_of_its_span(words: list[str]) -> None:
    text = " ".join(words)
    sentences = tuple(part.strip() + "." for part in text.split(",") if part.strip())
    found = Passage(sentences or ("x.",), 0)
    for span in [*answer_spans(found), *recurring_spans(found, 4)]:
        assert span.places
        assert span.key[0] not in STOP_WORDS or span.kind != "noun"
        for place in span.places:
            written = found.sentences[place.sentence][place.start : place.end].casefold()
            assert all(part in written for part in span.key)
    for span in recurring_spans(found, 4):
        assert span.recurs
        assert len(span.key) <= 4


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.integers(5, 60))
def test_passages_have_all_sentences_and_about_equal_lengths(lengths: list[int], words: int) -> None:
    text = " ".join(" ".join(["Word"] * length) + "." for length in lengths)
    cut = cut_passages(text, words)
    assert " ".join(one.text for one in cut) == text
    assert all(len(one.text.split()) <= words + max(lengths) for one in cut)


def test_similar_passages_share_rare_words() -> None:
    topics = ["glaciers melt slowly in spring", "copper miners dug deep shafts", "herons nest beside quiet rivers"]
    passages = [Passage((f"Here {topic}.", "It is so."), number) for number, topic in enumerate(topics)]
    index = PassageIndex(passages)
    assert index.most_like("Some miners dug for copper.", 2, besides=0) == [1]
    assert index.most_like("Some miners dug for copper.", 2, besides=1) == []
