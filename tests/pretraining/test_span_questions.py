"""Questions made from plain texts: answers are at their offsets, and contexts without an answer do not hold the span."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.data.examples import Example
from lamina.pretraining.answer_spans import STOP_WORDS
from lamina.pretraining.passages import parts_of, words_in
from lamina.pretraining.span_questions import QuestionKind, SpanQuestionOptions, cut_around, make_questions
from lamina.pretraining.texts import split_sentences
from tests.pretraining.test_answer_spans import HARBOUR

MASK = "[MASK]"
LEEDS = (
    "The engineer Maud Tanner was born in Leeds, the daughter of a miller. She studied the tides of the River Sarn for years. "
    "Her first work was a harbour for the ships of the Northern Tin Company, and her last a mill in Leeds."
)
TIDES = (
    "The River Sarn reaches the sea beside a low town of fishermen. Its tides are the highest of the coast, up to nine metres. "
    "In 1901 the engineer Otto Falk measured the tides again, and a harbour for larger ships was planned."
)
TEXTS = [HARBOUR, LEEDS, TIDES]

sentences = st.builds(
    "{} {} the {} of {} in {} near the old {}.".format,
    st.sampled_from(["Maud Tanner", "Otto Falk", "The Sarn Company", "Later they"]),
    st.sampled_from(["built", "left", "measured"]),
    st.sampled_from(["harbour", "copper mine", "tower"]),
    st.sampled_from(["Port Ellery", "Leeds", "Maud Tanner"]),
    st.sampled_from(["1871", "1901", "May"]),
    st.sampled_from(["mill", "river bank", "harbour"]),
)
corpora = st.lists(st.lists(sentences, min_size=2, max_size=8, unique=True).map(" ".join), min_size=1, max_size=5, unique=True)
options = st.builds(
    SpanQuestionOptions,
    kinds=st.sampled_from([("recurring",), ("cloze",), ("recurring", "cloze")]),
    questions=st.integers(1, 4),
    unanswerable=st.sampled_from([0.0, 0.3, 0.8]),
    passage=st.sampled_from([20, 60, 150]),
)


def hidden(question: Example, texts: list[str]) -> list[str]:
    """Return the spans that a blank may hide: a sentence of the texts equals the question with them."""
    pattern = re.compile(re.escape(question.question).replace(re.escape(MASK), "(.+)"))
    found = (pattern.fullmatch(sentence) for text in texts for sentence in split_sentences(text))
    return [match[1] for match in found if match]


@settings(max_examples=60, deadline=None)
@given(corpora, options, st.integers(0, 3), st.integers(0, 3))
def test_answers_are_at_their_offsets_and_fit_the_blank(
    texts: list[str], given_options: SpanQuestionOptions, seed: int, epoch: int
) -> None:
    made = make_questions(texts, given_options, MASK, seed=seed, epoch=epoch)
    assert made == make_questions(texts, given_options, MASK, seed=seed, epoch=epoch)
    assert len({question.id for question in made}) == len(made)
    for question in made:
        assert MASK in question.question
        spans = hidden(question, texts)
        assert spans
        if question.answers:
            (answer,) = question.answers
            assert question.context[answer.start : answer.start + len(answer.text)] == answer.text
            assert answer.text.casefold() in {span.casefold() for span in spans}
        else:
            held = parts_of(question.context)
            assert any(held.isdisjoint(parts_of(span) - STOP_WORDS) for span in spans)


@settings(max_examples=40, deadline=None)
@given(corpora, st.integers(0, 3))
def test_recurring_span_is_once_in_its_context(texts: list[str], seed: int) -> None:
    made = make_questions(texts, SpanQuestionOptions(kinds=("recurring",), unanswerable=0), MASK, seed=seed, epoch=0)
    for question in made:
        (answer,) = question.answers
        key = [word.key for word in words_in(answer.text)]
        words = [word.key for word in words_in(question.context)]
        assert sum(words[n : n + len(key)] == key for n in range(len(words))) == 1


@settings(max_examples=40, deadline=None)
@given(corpora, options)
def test_share_of_unanswerable_questions_is_not_exceeded(texts: list[str], given_options: SpanQuestionOptions) -> None:
    made = make_questions(texts, given_options, MASK, seed=0, epoch=0)
    none = sum(not question.answers for question in made)
    assert none <= given_options.unanswerable * len(made) + 1
    if not given_options.unanswerable:
        assert none == 0


def by_name(kind: QuestionKind, **more: object) -> dict[str, Example]:
    """Return the questions of the three texts, by the kind and the words of their span."""
    wanted = SpanQuestionOptions.model_validate({"kinds": (kind,), "questions": 50, "unanswerable": 0.0, **more})
    return {
        question.id.partition("-")[2]: question
        for epoch in range(20)
        for question in reversed(make_questions(TEXTS, wanted, MASK, seed=0, epoch=epoch))
    }


def test_recurring_spans_of_a_written_paragraph() -> None:
    made = by_name("recurring")
    assert {"recurring-maud_tanner", "recurring-port_ellery", "recurring-ships_of_the_northern_tin_company"} <= made.keys()
    tanner = made["recurring-maud_tanner"]
    first, second, *rest = split_sentences(HARBOUR)
    assert tanner.question in (first.replace("Maud Tanner", MASK), second.replace("Maud Tanner", MASK))
    assert tanner.context == " ".join([second if tanner.question.startswith("The") else first, *rest])
    assert tanner.answers[0].text == "Maud Tanner"


def test_all_but_one_occurrence_are_masked() -> None:
    text = (
        "The heron of Sarn caught nine fish before noon. A heron stood in the reeds of the river for hours. "
        "The third heron flew away, and a heron chick cried in its nest."
    )
    for epoch in range(6):
        made = make_questions([text], SpanQuestionOptions(kinds=("recurring",), unanswerable=0), MASK, seed=0, epoch=epoch)
        (heron,) = (question for question in made if question.answers[0].text == "heron")
        assert len(re.findall("heron", heron.context)) == 1
        assert heron.context.count(MASK) == 3 - heron.question.count(MASK)
        assert "heron" not in heron.question


def test_cloze_questions_are_answered_by_other_passages() -> None:
    made = by_name("cloze")
    assert made["cloze-engineer_maud_tanner"].answers[0].text == "engineer Maud Tanner"
    assert any(question.context in TEXTS for question in made.values())  # another passage, whole
    assert any(question.context not in TEXTS for question in made.values())  # the rest of the own passage


def test_question_words_fit_the_kind_of_the_span() -> None:
    made = by_name("cloze", blank="question_word")
    asked = [question.question for question in made.values() if re.fullmatch(r"\d{4}", question.answers[0].text)]
    assert all("what year" in question for question in asked)
    assert all(question.question.endswith("?") and MASK not in question.question for question in made.values())


def test_questions_differ_between_epochs_and_seeds() -> None:
    few = SpanQuestionOptions(questions=1)
    first, *others = (
        make_questions(TEXTS, few, MASK, seed=seed, epoch=epoch) for seed, epoch in ((0, 0), (0, 1), (1, 0), (0, -1))
    )
    assert all(other != first for other in others)


def test_questions_are_equal_in_every_process() -> None:
    """The order of sets differs between processes, and must not matter."""
    code = (
        "from tests.pretraining.test_span_questions import *\n"
        "print(make_questions(TEXTS, SpanQuestionOptions(unanswerable=0.5), MASK, seed=0, epoch=0))"
    )
    outputs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout for _ in range(2)
    }
    assert len(outputs) == 1
    assert "Example(" in outputs.pop()


def test_unanswerable_contexts_of_a_written_text() -> None:
    made = make_questions(TEXTS, SpanQuestionOptions(unanswerable=0.5), MASK, seed=0, epoch=0)
    none = [question for question in made if not question.answers]
    assert len(none) >= 0.3 * len(made)
    for question in none:
        held = parts_of(question.context)
        assert any(held.isdisjoint(parts_of(span) - STOP_WORDS) for span in hidden(question, TEXTS))


@pytest.mark.parametrize("texts", [[], ["Too short."], ["One sentence of many words, " + "and so on, " * 20 + "ends."]])
def test_texts_without_questions(texts: list[str]) -> None:
    assert make_questions(texts, SpanQuestionOptions(), MASK, seed=0, epoch=0) == []


@given(st.lists(st.sampled_from("abc"), max_size=20), st.lists(st.sampled_from("abc"), max_size=20), st.integers(2, 12))
def test_cut_sentences_keep_the_blank(before: list[str], after: list[str], most: int) -> None:
    found = cut_around(" ".join([*before, ""]), "?", " ".join(["", *after]), most).split()
    assert "?" in found
    assert len(found) == min(most, len(before) + 1 + len(after))
