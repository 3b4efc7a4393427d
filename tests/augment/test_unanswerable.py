"""Tests of synthetic unanswerable questions and of the rules that make them."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pydantic import ValidationError

from lamina.augment.antonyms import ANTONYMS
from lamina.augment.entities import known_names, names, numerals, sentence_spans
from lamina.augment.similar_texts import TextIndex, other_paragraph
from lamina.augment.swaps import change_number, negate, swap_antonym, swap_entity
from lamina.augment.synthetic import ID_SUFFIXES, letters_and_digits, source_id
from lamina.augment.unanswerable import UnanswerableOptions, make_unanswerable, with_unanswerable
from lamina.data.examples import Answer, Example
from lamina.data.squad import read
from lamina.errors import LaminaWarning
from tests import tiny

PLAN = (
    "On 27 April 1944 Patrick Abercrombie published the Plan for Plymouth. By 1964 over 20,000 new homes had been built. "
    "The architect James Paton disliked tower blocks. Later, Armada Way became a wide street in Devon."
)
LIKED = tiny.example(PLAN, "tower blocks", question="What did James Paton dislike?")


def asked(synthetic: Example | None) -> str:
    """Return the question of a synthetic example, which must exist."""
    assert synthetic is not None
    return synthetic.question


def draws(count: int = 30) -> list[random.Random]:
    return [random.Random(seed) for seed in range(count)]


# Entities of a text


def test_names_are_runs_of_capitals() -> None:
    found = {entity.text: entity.kind for entity in names(PLAN)}
    assert found == {
        "Patrick Abercrombie": "name",
        "Plan": "name",
        "Plymouth": "name",
        "James Paton": "name",
        "Armada Way": "name",
        "Devon": "place",
    }
    for entity in names(PLAN):
        assert PLAN[entity.start : entity.end] == entity.text
    more = names("King Louis XIV of France saw the University of Paris. Sir Isaac Newton's laws. Eventually Apple failed.")
    assert [(entity.text, entity.kind) for entity in more] == [
        ("King Louis XIV of France", "name"),
        ("University of Paris", "group"),
        ("Isaac Newton", "person"),
        ("Apple", "name"),
    ]


def test_names_in_lower_cased_texts_come_from_other_texts() -> None:
    known = known_names([PLAN.replace("Later", "In Devon") + " He saw Devon, devoted to Devon and Plymouth."], least=2)
    assert {"devon", "plymouth"} <= known and "plan" not in known and "homes" not in known
    found = names("later , devon was sold to plymouth devon .", known)
    assert [entity.text for entity in found] == ["devon", "plymouth devon"]
    assert names("later , devon was sold .") == []


def test_numerals() -> None:
    text = (
        "In 1944, the 1960s, 9 , 800 pages, 12,000 men, 3rd, third, 11.4% and 15 percent, seven, on Monday 2 May; 2013-14, v2"
    )
    assert [(entity.text, entity.kind) for entity in numerals(text)] == [
        ("1944", "year"),
        ("1960s", "decade"),
        ("9 , 800", "number"),
        ("12,000", "number"),
        ("3rd", "ordinal"),
        ("third", "ordinal"),
        ("11.4%", "percent"),
        ("15 percent", "percent"),
        ("seven", "number"),
        ("Monday", "day"),
        ("2", "number"),
        ("May", "month"),
    ]


def test_sentences_cover_the_text() -> None:
    found = sentence_spans(PLAN)
    assert len(found) == 4 and found[0][0] == 0 and found[-1][1] == len(PLAN)
    assert "".join(PLAN[low:high] for low, high in found) == PLAN
    assert sentence_spans("") == []


def test_the_list_of_opposites() -> None:
    assert len(ANTONYMS) > 1000
    assert all(word not in others and word == word.lower() for word, others in ANTONYMS.items())
    assert "largest" in ANTONYMS["smallest"] and "smallest" in ANTONYMS["largest"]


# One question


def test_a_name_becomes_another_name_of_the_text() -> None:
    asked = {synthetic.question for draw in draws() if (synthetic := swap_entity(LIKED, draw)) is not None}
    assert "What did Patrick Abercrombie dislike?" in asked and "What did Plymouth dislike?" in asked
    assert "What did James Paton dislike?" not in asked
    lower = tiny.example(PLAN, "tower blocks", question="what did james paton dislike ?")
    synthetic = swap_entity(lower, random.Random(0))
    assert synthetic is not None and synthetic.question == synthetic.question.lower() != lower.question
    assert (synthetic.answers, synthetic.context, synthetic.id, synthetic.group) == ((), PLAN, "q#swap-entity", "q#swap-entity")


def test_names_in_the_sentence_of_the_answer_are_no_replacement() -> None:
    """Facts about one item of a list are often true of the others, and of the names in the next sentence."""
    text = "Robert Scott and Frank Bickerton lived in Plymouth. So did Ann Lee. It was cold. Keith Rowe was born elsewhere."
    example = tiny.example(text, "Plymouth", question="Where did Robert Scott live?")
    asked = {synthetic.question for draw in draws() if (synthetic := swap_entity(example, draw)) is not None}
    assert asked == {"Where did Keith Rowe live?"}
    again = tiny.example(f"{text} It rained. Later, Keith Rowe saw Plymouth.", "Plymouth", question=example.question)
    assert swap_entity(again, random.Random(0)) is None, "another sentence has the answer too"


def test_names_in_sentences_like_the_question_are_no_replacement() -> None:
    text = "Robert Scott was born in 1868. It was cold. Frank Bickerton was born in 1889. The tutor was Keith Rowe."
    example = tiny.example(text, "1868", question="When was Robert Scott born?")
    asked = {synthetic.question for draw in draws() if (synthetic := swap_entity(example, draw)) is not None}
    assert asked == {"When was Keith Rowe born?"}


def test_other_forms_of_a_name_and_the_title_are_no_replacement() -> None:
    text = "In 1868 it began. The United Nations met. The UN met again. Nations United is a film. It was cold in Plymouth."
    example = tiny.example(text, "1868", question="When did the United Nations begin?")
    assert {asked(swap_entity(example, draw)) for draw in draws()} == {"When did the Plymouth begin?"}
    about = Example("q", example.question, text, example.answers, "q", "Plymouth")
    assert swap_entity(about, random.Random(0)) is None
    text = "In 1822 it left. It was cold. A ship saw Portugal. The Kingdom of Portugal fell. A Kingdom grew. It is in Madrid."
    longer = tiny.example(text, "1822", question="When did it leave Portugal?")
    assert {asked(swap_entity(longer, draw)) for draw in draws()} == {"When did it leave Madrid?"}, "not its own Kingdom"


def opposite(text: str, question: str, seed: int = 0) -> str | None:
    """Return the question with an opposite; the answer is the first word of the text."""
    synthetic = swap_antonym(tiny.example(text, text.split()[0], question=question), random.Random(seed))
    return None if synthetic is None else synthetic.question


def test_a_word_becomes_its_opposite() -> None:
    text = "Ann wrote the large plan."
    synthetic = swap_antonym(tiny.example(text, "Ann", question="Who wrote the large plan?"), random.Random(0))
    assert synthetic is not None and (synthetic.question, synthetic.id) == ("Who wrote the small plan?", "q#swap-antonym")
    assert opposite("Ann found an easy way.", "Who found an easy way?") in (
        "Who found a difficult way?",
        "Who lost an easy way?",
        "Who found a harder way?",
    )
    assert opposite(text, "Who wrote the plan that was not large?") is None


@pytest.mark.parametrize(
    ("text", "question", "why"),
    [
        ("Ann wrote the large plan. It was small.", "Who wrote the large plan?", "the text may be about the opposite"),
        ("Ann wrote the large plan. It was smaller.", "Who wrote the large plan?", "another form of it"),
        ("Ann paid for most. Bob paid for lesser events.", "Who paid for the most events?", "an irregular form of it"),
        ("Ann wrote the plan.", "Who wrote the large plan?", "the text says nothing against the opposite"),
        ("Ann is thicker than Bob.", "Who is thicker?", "a comparison is about both"),
        ("Ann saw the large Plymouth.", "Who saw the large Plymouth?", "it describes a name"),
        ("Ann is ten feet tall.", "How many feet tall is she?", "a measure"),
        ("Ann was economically backward.", "How economically backward is she?", "a measure too"),
        ("Ann saw it last.", "When did it last?", "a verb"),
        ("Ann must sing to cause pain.", "Who must sing to cause pain?", "to effect is to cause"),
    ],
)
def test_words_that_keep_their_place(text: str, question: str, why: str) -> None:
    assert all(opposite(text, question, seed) is None for seed in range(5)), why


def test_a_number_becomes_one_that_is_not_in_the_text() -> None:
    example = tiny.example(PLAN, "Plan for Plymouth", question="What was published in April 1944?")
    for draw in draws():
        synthetic = change_number(example, draw)
        assert synthetic is not None and synthetic.id == "q#change-number"
        year = numerals(synthetic.question)[-1].text
        assert year not in PLAN and 1914 <= int(year) <= 1974
    bound = tiny.example(PLAN, "20,000", question="How many homes had been built by 1964?")
    assert change_number(bound, random.Random(0)) is None
    all_ten = "Ada won season one. Two, 3, four, the fifth, six, the 7th, eight, nine and the tenth had other winners."
    seasons = tiny.example(all_ten, "Ada", question="Who won the first season?")
    assert change_number(seasons, random.Random(0)) is None, "the text has all the other ordinals"
    begin = tiny.example(PLAN, "1944", question="When did it first begin?")
    assert change_number(begin, random.Random(0)) is None
    pages = tiny.example("a . 9 , 800 pages .", "a", question="what has 9 , 800 pages ?")
    assert " , " in asked(change_number(pages, random.Random(0)))
    endless = tiny.example(f"a owl {'9' * 400} {'9' * 308}", "a", question=f"Who has {'9' * 400} or {'9' * 308} owls?")
    assert change_number(endless, random.Random(0)) is None
    season = tiny.example("Thirteen singers were there.", "Thirteen", question="How many singers had season eight?")
    assert change_number(season, random.Random(0)) is None, "the text answers it without the number"
    early = tiny.example("Ann sang until 1935.", "Ann", question="Who sang prior to late 1935?")
    assert change_number(early, random.Random(0)) is None, "a bound"
    prize = tiny.example(
        "The first prize, of 0.1 pounds, went to Ann.", "Ann", question="Who won the 1st prize, of 0.1 pounds?"
    )
    assert all(asked(change_number(prize, draw)) != prize.question for draw in draws(100))


@pytest.mark.parametrize(
    ("question", "negated"),
    [
        ("Who was born in 1868?", "Who wasn't born in 1868?"),
        ("What can a heron eat?", "What can't a heron eat?"),
        ("what will it do ?", "what won't it do ?"),
        ("Who did not sing?", None),
        ("Was it red?", None),
    ],
)
def test_negation(question: str, negated: str | None) -> None:
    synthetic = negate(tiny.example(PLAN, "1944", question=question), random.Random(0))
    assert (synthetic and synthetic.question) == negated


# Another text


def paragraph(text: str, answer: str | None, question: str, id: str, article: str = "a") -> Example:
    plain = tiny.example(text, answer, question=question, id=id)
    return Example(id, question, text, plain.answers, id, article)


def test_the_other_text_is_similar_and_lacks_the_answer() -> None:
    facts = "The heron of Wells eats figs every morning, sleeps at noon, and dreams of snow and ice at night."
    source = paragraph(facts, "figs", "What does the heron of Wells eat every morning?", "1")
    twin = paragraph(facts.lower().replace(",", " ,").replace("figs", "fruit"), None, "who ?", "2")
    answer = paragraph("A heron in Wells likes dried Figs, green moss and river weed.", None, "who?", "3")
    alike = paragraph("Bronze statues of a heron adorn the harbour at Wells, which children adore.", None, "who?", "4")
    others = [paragraph(f"Otters swim in lake {number}.", None, "who?", f"o{number}", "b") for number in range(10)]
    library = TextIndex([source, twin, answer, alike, *others])
    synthetic = other_paragraph(source, library)
    assert synthetic is not None and synthetic.context == alike.context
    assert (synthetic.id, synthetic.group, synthetic.question, synthetic.answers) == (
        "1#other-paragraph",
        "1#other-paragraph",
        source.question,
        (),
    )
    assert other_paragraph(source, TextIndex([source, twin, answer, *others])) is None
    given = dataclasses.replace(source, id="1#1", context=alike.context, answers=())
    assert other_paragraph(source, TextIndex([source, given, twin, answer, alike, *others])) is None, (
        "the question has that context already"
    )
    unnamed = paragraph(facts.replace("Wells", "wells"), "figs", "What does the heron of the wells eat every morning?", "1")
    assert other_paragraph(unnamed, library) is None
    assert other_paragraph(unnamed, library, {"heron"}) is not None
    vague = paragraph(source.context, "figs", "What does the heron of Wells eat?", "1")
    assert other_paragraph(vague, library) is None


# Many questions


def fables() -> list[Example]:
    return tiny.corpus(40)


@pytest.mark.parametrize("share", [0.3, 0.5])
@pytest.mark.parametrize("replace", [False, True])
def test_the_share_is_reached(share: float, replace: bool) -> None:
    examples = fables()
    options = UnanswerableOptions(share=share, replace=replace, kinds=("antonym", "number", "negation", "paragraph"))
    found = with_unanswerable(examples, options, 0)
    assert sum(not example.answers for example in found) / len(found) == pytest.approx(share, abs=0.01)
    assert len({example.id for example in found}) == len(found)
    assert (len(found) == len(examples)) is replace
    if not replace:
        assert found[: len(examples)] == examples


@pytest.mark.parametrize("replace", [False, True])
def test_the_share_counts_questions_not_contexts(replace: bool) -> None:
    """Two of three contexts of each question have no answer, but most questions have one."""
    examples = [
        dataclasses.replace(one, id=f"{one.id}#{number}", context=context, answers=answers)
        for one in fables()
        for number, (context, answers) in enumerate([(one.context, one.answers), ("It rained.", ()), ("It snowed.", ())])
    ]
    options = UnanswerableOptions(share=0.4, replace=replace, kinds=("antonym", "number", "negation", "paragraph"))
    found = with_unanswerable(examples, options, 0)
    held: dict[str, bool] = {}
    for example in found:
        held[example.group] = held.get(example.group, False) or bool(example.answers)
    assert 1 - sum(held.values()) / len(held) == pytest.approx(0.4, abs=0.01)
    assert (len(held) == len(fables())) is replace
    again = 0 if replace else 2 * sum(group.endswith("#other-paragraph") for group in held)
    assert len(found) == 3 * len(held) - again, "a synthetic question has the other contexts too, unless it is unchanged"
    assert len({(example.group, example.question) for example in found}) == len(held)
    assert len({example.id for example in found}) == len(found)


def test_contexts_that_may_answer_a_synthetic_question_are_left_out() -> None:
    own = "Ada Thorn was born in 1890 in a small house. It was warm. The old mill at the river belongs to Bob Crane nowadays."
    others = (
        "Bob Crane was born in 1870 and grew up by the sea.",
        "The sea was rough in 1870.",
        "Crane was born in 1870.",
        "Bob Crane's birth in 1870 was noted.",
    )
    source = tiny.example(own, "1890", question="In which year was Ada Thorn born?", id="q#0")
    contexts = [dataclasses.replace(source, id=f"q#{n}", context=text, answers=()) for n, text in enumerate(others, 1)]
    synthetic = make_unanswerable([source, *contexts], UnanswerableOptions(share=0.5, kinds=("entity",)), 0)
    assert [(one.question, one.context) for one in synthetic] == [
        ("In which year was Bob Crane born?", own),
        ("In which year was Bob Crane born?", others[1]),
    ]


def test_a_question_that_two_contexts_answer_is_used_once_per_kind() -> None:
    one = tiny.example("Ada was born in 1890.", "1890", question="When was Ada born?", id="q#0")
    other = dataclasses.replace(one, id="q#1", context="In 1890 Ada was born.", answers=(Answer("1890", 3),))
    rest = [dataclasses.replace(one, id=f"{n}", group=f"{n}", question="Was it?") for n in range(4)]
    with pytest.warns(LaminaWarning, match="could be made"):
        synthetic = make_unanswerable([one, other, *rest], UnanswerableOptions(share=0.5, kinds=("negation",)), 0)
    assert [one.question for one in synthetic].count("When wasn't Ada born?") == 1


def test_a_question_is_tried_with_each_context_that_answers_it() -> None:
    poor = tiny.example("Ada Thorn was born in 1890.", "1890", question="In which year was Ada Thorn born?", id="q#0")
    text = "Ada Thorn was born in 1890 in a small house. It was warm. The old mill at the river belongs to Bob Crane nowadays."
    rich = dataclasses.replace(poor, id="q#1", context=text, answers=(Answer("1890", text.index("1890")),))
    for seed in range(6):
        synthetic = make_unanswerable([poor, rich], UnanswerableOptions(share=0.5, kinds=("entity",)), seed)
        assert [one.question for one in synthetic] == ["In which year was Bob Crane born?"]


def test_a_paragraph_belongs_to_the_article_of_the_questions_that_it_answers() -> None:
    own = paragraph("Ada Thorn was born in 1890.", "1890", "When was Ada Thorn born?", "q1#0", "Ada")
    lent = paragraph("Ada Thorn was born in 1890.", None, "Who was Bob?", "q0#1", "Bob")
    assert [text.article for text in TextIndex([lent, own])._texts] == ["Ada"]


@pytest.mark.parametrize("replace", [False, True])
def test_a_question_with_another_text_does_not_repeat_its_other_contexts(replace: bool) -> None:
    facts = "The heron of Wells eats figs every morning, sleeps at noon, and dreams of snow and ice at night."
    source = paragraph(facts, "figs", "What does the heron of Wells eat every morning?", "1")
    beside = dataclasses.replace(source, id="1#1", context="It rained.", answers=())
    alike = paragraph("Bronze statues of a heron adorn the harbour at Wells, which children adore.", None, "who?", "4")
    others = [paragraph(f"Otters swim in lake {number}.", None, "who?", f"o{number}", "b") for number in range(10)]
    options = UnanswerableOptions(share=0.99 if replace else 12 / 13, kinds=("paragraph",), replace=replace)
    synthetic = make_unanswerable([source, beside, alike, *others], options, 0)
    assert [one.context for one in synthetic] == [alike.context, *(["It rained."] if replace else [])]


def test_the_id_ends_with_the_kind() -> None:
    examples = fables()
    ids = {example.id for example in examples if example.answers}
    synthetic = make_unanswerable(examples, UnanswerableOptions(share=0.45, kinds=("negation", "paragraph")), 0)
    assert {f"#{one.id.rpartition('#')[2]}" for one in synthetic} <= set(ID_SUFFIXES.values())
    assert all(source_id(one.id) in ids and not one.answers for one in synthetic)


def test_seed_and_epoch_determine_the_questions() -> None:
    examples, options = fables(), UnanswerableOptions(share=0.3, kinds=("negation",))
    first = make_unanswerable(examples, options, 1, epoch=0)
    assert make_unanswerable(examples, options, 1, epoch=0) == first
    assert make_unanswerable(examples, options, 1, epoch=1) != first != make_unanswerable(examples, options, 2)
    once = options.model_copy(update={"per_epoch": False})
    assert make_unanswerable(examples, once, 1, epoch=1) == make_unanswerable(examples, once, 1, epoch=0)


def test_equal_in_every_process() -> None:
    """The order of a set of words differs between processes. Sums over it must not."""
    script = (
        "from tests import tiny\n"
        "from lamina.augment.unanswerable import UnanswerableOptions, make_unanswerable\n"
        "a = 'heron wells morning figs snow'.split()\n"
        "texts = [' '.join((a[i], a[(i + 1) % 5], a[(i + 2) % 5], f'x{i}')) for i in range(5)]\n"
        "examples = [tiny.example(f'Amber stone {n}', f'{n}', question='Why heron wells morning figs snow 9?', id=f'{n}')"
        " for n in range(9)] + [tiny.example(text, None, id=text) for text in texts]\n"
        "synthetic = make_unanswerable(examples, UnanswerableOptions(share=0.9, kinds=('paragraph',)), 0)\n"
        "assert synthetic\n"
        "print([(one.id, one.context) for one in synthetic])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in range(4)
    }
    assert len(outputs) == 1


def test_warnings_if_the_share_is_reached_already_or_cannot_be() -> None:
    with pytest.warns(LaminaWarning, match=r"at least share = 0\.2 of the questions have no answer already"):
        assert make_unanswerable(fables(), UnanswerableOptions(share=0.2), 0) == []
    with pytest.warns(LaminaWarning, match=r"share = 0\.9 needs \d+ synthetic questions but \d+ could be made"):
        make_unanswerable(fables(), UnanswerableOptions(share=0.9, kinds=("negation",)), 0)
    with pytest.raises(ValidationError):
        UnanswerableOptions(kinds=())


def test_real_questions(shared: Path) -> None:
    """Every kind works on the real training set. No other text has the answer."""
    examples = read(shared / "data/squad2-train-31k.json.xz")[::8]
    originals = {example.id: example for example in examples}
    synthetic = make_unanswerable(examples, UnanswerableOptions(share=0.4), 0)
    kinds = Counter(one.id.rpartition("#")[2] for one in synthetic)
    assert set(kinds) == {"swap-entity", "swap-antonym", "change-number", "other-paragraph"}
    assert min(kinds.values()) > 0.1 * len(synthetic)
    for one in synthetic:
        original = originals[source_id(one.id)]
        assert original.answers and not one.answers
        if one.id.endswith("#other-paragraph"):
            assert one.question == original.question and one.context != original.context
            assert not any(letters_and_digits(answer.text) in letters_and_digits(one.context) for answer in original.answers)
        else:
            assert one.context == original.context and one.question != original.question
            assert "  " not in one.question or "  " in original.question
