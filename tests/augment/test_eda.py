"""Tests of EDA: noise in contexts never changes answers."""

from __future__ import annotations

import random
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lamina.augment.eda import EdaOptions, augment, augment_all, share_of
from lamina.data.examples import Answer, Example
from lamina.data.squad import read
from lamina.errors import LaminaError

STRONG = EdaOptions()
EVERYTHING = EdaOptions(
    alpha=0.3, operations=("swap", "delete", "duplicate", "synonyms", "insert", "punctuation"), synonyms="words.txt"
)
WORDS = {"mill": ("works",), "river": ("stream", "brook"), "학교": ("학원", "배움터")}
LETTERS = "abcdefg AB12.,!?'()-가나다은는를의  \n\t\u00a0é"


def example_of(context: str, *spans: tuple[int, int], id: str = "q") -> Example:
    answers = tuple(Answer(context[low:high], low) for low, high in spans)
    return Example(id, "What?", context, answers, id, "article")


def random_example(draw: random.Random, number: int) -> Example:
    """Return a context of Korean and English words, sentences and odd spaces, with up to three answers anywhere."""
    context = "".join(draw.choice(LETTERS) for _ in range(draw.randint(0, 120)))
    spans = []
    for _ in range(draw.randint(0, 3) if context else 0):
        low = draw.randrange(len(context))
        spans.append((low, draw.randint(low + 1, min(len(context), low + 12))))
    return example_of(context, *spans, id=str(number))


def words_of(example: Example) -> set[str]:
    """Return for each answer the words that overlap it, as one text."""
    found = set()
    for answer in example.answers:
        low, high = answer.start, answer.start + len(answer.text)
        before, after = example.context[:low], example.context[high:]
        left = "" if not before or before[-1].isspace() else before.split()[-1]
        right = "" if not after or after[0].isspace() else after.split()[0]
        found.add(left + answer.text + right)
    return found


def check(example: Example, options: EdaOptions = EVERYTHING, seed: int = 0) -> Example:
    other = augment(example, options, seed=seed, synonyms=WORDS)
    assert [answer.text for answer in other.answers] == [answer.text for answer in example.answers]
    for answer in other.answers:
        assert other.context[answer.start : answer.start + len(answer.text)] == answer.text
    assert words_of(other) == words_of(example), "words attached to an answer stay with it"
    assert (other.id, other.question, other.group) == (example.id, example.question, example.group)
    return other


def test_ten_thousand_random_contexts_keep_their_answers() -> None:
    draw = random.Random(0)
    changed = 0
    for number in range(10_000):
        example = random_example(draw, number)
        other = check(example, seed=number)
        changed += other.context != example.context
        assert augment(example, EdaOptions(alpha=0), seed=number) is example
    assert changed > 7_000


@given(st.text(alphabet=LETTERS, max_size=80), st.data())
def test_answers_stay_at_any_position(context: str, data: st.DataObject) -> None:
    low = data.draw(st.integers(0, max(0, len(context) - 1)))
    high = data.draw(st.integers(low, len(context)))
    check(example_of(context, *([(low, high)] if high > low else [])))


@given(st.text(alphabet=LETTERS, max_size=80), st.integers(0, 99))
def test_only_deletion_loses_words(context: str, seed: int) -> None:
    example, whole = example_of(context), Counter(context.split())
    swapped = augment(example, EdaOptions(alpha=0.5, operations=("swap",)), seed=seed)
    assert Counter(swapped.context.split()) == whole
    assert [len(gap) for gap in split_words(swapped.context)] == [len(gap) for gap in split_words(context)]
    more = augment(example, EdaOptions(alpha=0.5, operations=("swap", "duplicate")), seed=seed)
    assert whole <= Counter(more.context.split()) and set(more.context.split()) == set(whole)
    fewer = augment(example, EdaOptions(alpha=0.5, operations=("delete",)), seed=seed)
    assert Counter(fewer.context.split()) <= whole
    assert bool(fewer.context.split()) == bool(whole)


def split_words(text: str) -> list[str]:
    """Return the white space between words."""
    rest, gaps = text, []
    for word in text.split():
        before, _, rest = rest.partition(word)
        gaps.append(before)
    return [*gaps, rest]


TALE = (
    "The old mill turned by the river for ages. It was built by Ada Thorn of Wells in 1890, they say. Nobody lives there now."
)


def test_how_many_words_change() -> None:
    example = example_of(TALE, (TALE.index("Ada"), TALE.index("Ada") + len("Ada Thorn")))
    words = len(TALE.split())
    for alpha, count in ((0.01, 1), (0.1, words // 10), (0.3, int(0.3 * words))):
        more = augment(example, EdaOptions(alpha=alpha, operations=("duplicate",)), seed=1)
        assert len(more.context.split()) == words + count
        marked = augment(example, EdaOptions(alpha=alpha, operations=("punctuation",)), seed=1)
        marks = Counter(marked.context.split()) - Counter(TALE.split())
        assert marks.total() == count and set(marks) <= set(".;?:!,")
    lengths = [len(augment(example, EdaOptions(alpha=0.2, operations=("delete",)), seed=s).context.split()) for s in range(200)]
    free = words - 2 - 3  # not the answer, nor the last words of the sentences
    assert words - 0.2 * free == pytest.approx(sum(lengths) / 200, abs=0.5)


def test_words_keep_their_sentence_and_their_side_of_the_answer() -> None:
    low = TALE.index("Ada")
    example = example_of(TALE, (low, low + len("Ada Thorn")))
    parts = [("The", "ages."), ("It", "by"), ("of", "say."), ("Nobody", "now.")]
    wanted = [set(TALE[TALE.index(first) : TALE.index(last) + len(last)].split()) for first, last in parts]
    wanted[1] = {"It", "was", "built", "by"}
    for seed in range(50):
        other = augment(example, EdaOptions(alpha=0.4, operations=("swap", "duplicate")), seed=seed).context
        first, rest = other.split(" ages. ")
        second, last = rest.split(" say. ")
        before, after = second.split(" Ada Thorn ")
        found = [{*first.split(), "ages."}, set(before.split()), {*after.split(), "say."}, set(last.split())]
        assert found == wanted


def test_korean_particles_stay_with_the_answer() -> None:
    context = "이 학교는 1890년에 서울에서 세워졌다. 설립자인 임종석은 그때 아직 젊은 교사였다고 한다."
    low = context.index("임종석")
    example = example_of(context, (low, low + 3), (context.index("서울"), context.index("서울") + 2))
    for seed in range(100):
        other = check(example, seed=seed).context
        assert " 임종석은 " in f" {other} " and " 서울에서 " in f" {other} "
        assert other.split()[-1] == "한다." and "세워졌다." in other.split()


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_nfc_and_nfd_behave_equally(form: Literal["NFC", "NFD"]) -> None:
    context = unicodedata.normalize(form, "그 학교는 서울에 있고 학생은 모두 서른 명이다.")
    answer = unicodedata.normalize(form, "서울")
    example = example_of(context, (context.index(answer), context.index(answer) + len(answer)))
    for seed in range(30):
        other = check(example, seed=seed)
        assert unicodedata.normalize(form, "서울에") in other.context.split()


def test_seed_epoch_and_id_determine_the_result() -> None:
    example = example_of(TALE, (4, 7))
    assert augment(example, STRONG, seed=1, epoch=2) == augment(example, STRONG, seed=1, epoch=2)
    others = {augment(example, STRONG, seed=s, epoch=e).context for s in range(4) for e in range(4)}
    assert len(others) > 12
    renamed = Example("p", "What?", TALE, example.answers, "p", "article")
    assert augment(renamed, STRONG, seed=1).context != augment(example, STRONG, seed=1).context


def test_unanswerable_contexts_are_augmented_except_with_paper_leak() -> None:
    answerable, unanswerable = example_of(TALE, (4, 7)), example_of(TALE)
    assert augment(unanswerable, STRONG, seed=0).context != TALE
    leaking = EdaOptions(paper_leak=True)
    assert augment(unanswerable, leaking, seed=0) is unanswerable
    assert augment(answerable, leaking, seed=0) == augment(answerable, STRONG, seed=0)


def test_the_strength_grows_with_a_ramp() -> None:
    ramp = EdaOptions(alpha=0.09, ramp=True)
    assert [ramp.strength(share_of(epoch, 10)) for epoch in range(10)] == pytest.approx([0.01 * epoch for epoch in range(10)])
    assert (share_of(0, 1), share_of(1, 1.5), share_of(1, 2)) == (0, 1, 1)
    example = example_of(TALE, (4, 7))
    assert augment(example, ramp, seed=0, share=0) is example
    assert augment(example, ramp, seed=0, share=1) == augment(example, EdaOptions(alpha=0.09), seed=0)


def test_mixed_with_the_originals() -> None:
    examples = [example_of(TALE, (4, 7), id=str(number)) for number in range(3)]
    assert augment_all(examples, STRONG, seed=0) == [augment(example, STRONG, seed=0) for example in examples]
    mixed = augment_all(examples, EdaOptions(alpha=0.05, mix=True), seed=0)
    assert mixed[:3] == examples
    assert [example.id for example in mixed[3:]] == ["0#eda", "1#eda", "2#eda"]
    assert all(example.context != TALE for example in mixed[3:])


# Synonyms


def test_words_are_replaced_and_inserted() -> None:
    example = example_of(TALE, (TALE.index("Ada"), TALE.index("Ada") + 3))
    replaced = augment(
        example, EdaOptions(alpha=0.1, operations=("synonyms",), synonyms="words"), seed=0, synonyms=WORDS
    ).context
    assert "works" in replaced.split() and "mill" not in replaced.split() and len(replaced.split()) == len(TALE.split())
    more = augment(example, EdaOptions(alpha=0.1, operations=("insert",), synonyms="words"), seed=0, synonyms=WORDS).context
    new = Counter(more.split()) - Counter(TALE.split())
    assert new.total() == 2 and set(new) <= {"works", "stream", "brook"}


def test_operations_that_need_synonyms() -> None:
    with pytest.raises(ValidationError, match=r'operation "insert" needs synonyms\. Fix: '):
        EdaOptions(operations=("swap", "insert"))
    with pytest.raises(LaminaError, match=r'^synonyms: operation "synonyms" of EDA needs them\. Fix: '):
        augment(example_of(TALE), EVERYTHING, seed=0)


def test_real_korean_contexts_keep_their_answers(shared: Path) -> None:
    examples = read(shared / "data/korquad-v1.0-dev.json.xz")[::20]
    for example in examples:
        other = check(example, STRONG)
        assert other.context != example.context
