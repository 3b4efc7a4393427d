"""The bundled corpus: its form, splits, questions and difficulty."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import cast

import pytest

from lamina.data import squad
from lamina.data.fables import make
from lamina.data.fables.asides import ASIDES
from lamina.data.fables.kinds import KINDS
from lamina.data.fables.names import LEXICONS, Split
from lamina.data.fables.questions import WEIGHTS
from lamina.data.fables.schema import ArticleKind
from lamina.data.squad_format import SquadCorpus, SquadParagraph, SquadQuestion
from lamina.scoring.squad import score_squad2
from tests.data.overlap import overlap_baseline

SPLITS: tuple[Split, ...] = ("train", "dev")
FIRST_TITLES = ["Skirmish of Narrowminster", "Velvet Aruwen Contraption"]
SLOTS = {"s", "p", "o", "v", "town", "person", "year"}


@cache
def corpus(split: Split) -> SquadCorpus:
    return make(split)


def paragraphs(split: Split) -> list[SquadParagraph]:
    return [paragraph for article in corpus(split)["data"] for paragraph in article["paragraphs"]]


def questions(split: Split) -> list[SquadQuestion]:
    return [qa for paragraph in paragraphs(split) for qa in paragraph["qas"]]


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


# ---- form


@pytest.mark.parametrize("split", SPLITS)
def test_equal_seeds_give_equal_corpora_and_others_do_not(split: Split) -> None:
    small = make(split, articles=6)
    assert json.dumps(small) == json.dumps(make(split, articles=6))
    assert small != make(split, articles=6, seed=1)


@pytest.mark.parametrize("split", SPLITS)
def test_first_articles_do_not_depend_on_their_number(split: Split) -> None:
    assert make(split, articles=17)["data"] == corpus(split)["data"][:17]


def test_the_corpus_starts_with_the_same_words_on_every_platform() -> None:
    assert [article["title"] for article in corpus("train")["data"][:2]] == FIRST_TITLES


@pytest.mark.parametrize("split", SPLITS)
def test_the_reader_reads_it_without_problems(split: Split) -> None:
    examples = list(squad.parse_corpus(corpus(split), "fables"))
    assert len(examples) == len(questions(split))


@pytest.mark.parametrize("split", SPLITS)
def test_answers_are_quotes_of_one_to_eight_words(split: Split) -> None:
    for paragraph in paragraphs(split):
        for qa in paragraph["qas"]:
            assert bool(qa["answers"]) is not qa["is_impossible"]
            assert len(qa["answers"]) <= (1 if split == "train" else 3)
            for answer in qa["answers"]:
                start, text = answer["answer_start"], answer["text"]
                assert paragraph["context"][start : start + len(text)] == text
                assert 1 <= len(text.split()) <= 8


@pytest.mark.parametrize(("split", "least", "most"), [("train", 2900, 3300), ("dev", 450, 550)])
def test_size_and_the_unanswerable_third(split: Split, least: int, most: int) -> None:
    asked = questions(split)
    assert least <= len(asked) <= most
    assert len({qa["id"] for qa in asked}) == len(asked)
    assert sum(qa["is_impossible"] for qa in asked) / len(asked) == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize("split", SPLITS)
def test_titles_stay_distinct_in_a_larger_corpus(split: Split) -> None:
    titles = [article["title"] for article in make(split, articles=300)["data"]]
    assert len(set(titles)) == 300


@pytest.mark.parametrize("split", SPLITS)
def test_most_paragraphs_are_short_and_some_need_several_windows(split: Split) -> None:
    lengths = [len(paragraph["context"].split()) for paragraph in paragraphs(split)]
    assert min(lengths) >= 60 and max(lengths) <= 400
    assert 70 <= sum(lengths) / len(lengths) <= 90
    assert 0.01 <= sum(length > 300 for length in lengths) / len(lengths) <= 0.08


@pytest.mark.parametrize("split", SPLITS)
def test_text_is_clean(split: Split) -> None:
    texts = [paragraph["context"] for paragraph in paragraphs(split)] + [qa["question"] for qa in questions(split)]
    for text in texts:
        assert not re.search(r"[{}]|  | [.,?]|\.\.|\bthe the\b|\ba an?\b|\ba (?!uni|one)[aeiou]|\ban [^aeiouh]", text), text
        assert text[0].isupper()
    assert all(not re.search(r"[.] [a-z0-9]", text) for text in texts[: len(paragraphs(split))])
    assert all(qa["question"].endswith("?") for qa in questions(split))


def test_bad_arguments_raise() -> None:
    with pytest.raises(ValueError, match="test"):
        make("test")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="-1"):
        make("train", articles=-1)


# ---- tables


def templates(kind: ArticleKind, split: Split) -> Iterator[str]:
    for relation in kind.relations:
        yield from relation.plans(split)
        yield from relation.questions(split)
    yield from (
        (kind.intros + kind.links + kind.asides) if split == "train" else (kind.intros_dev + kind.links_dev + kind.asides_dev)
    )


def test_many_kinds_with_many_relations_and_wordings() -> None:
    assert len(KINDS) >= 10
    for kind in KINDS:
        assert len(kind.relations) >= 8
        for relation in kind.relations:
            assert len(relation.say) >= 4 and len(relation.say_dev) >= 2, relation.name
            assert len(relation.ask) >= 4 and len(relation.ask_dev) >= 3, relation.name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_tables_are_consistent(kind: ArticleKind) -> None:
    names = [relation.name for relation in kind.relations]
    assert len(set(names)) == len(names)
    for relation in kind.relations:
        if relation.opposite is not None:
            assert kind.relation(relation.opposite).opposite == relation.name
            assert kind.relation(relation.opposite).contrast == relation.contrast
        assert {relation.detail_of, *relation.implied_by} <= {None, *names}
        for plan in relation.say + relation.say_dev:
            slots = re.findall(r"\{(\w+)\}", plan)
            assert slots.count("v") == 1 and set(slots) & {"s", "p", "o"}, plan
            assert set(slots) <= SLOTS | set(names), plan
            assert plan.endswith("."), plan
        for ask in relation.ask + relation.ask_dev:
            assert ask.count("{n}") == 1 and ask.endswith("?"), ask


def test_no_template_is_in_both_splits() -> None:
    train, dev = ({text for kind in KINDS for text in templates(kind, split)} for split in SPLITS)
    assert sorted(train & dev) == []
    assert not set(ASIDES["train"]) & set(ASIDES["dev"])


def test_no_question_form_is_used_by_two_relations_of_a_kind() -> None:
    for kind in KINDS:
        forms = [form for relation in kind.relations for form in relation.ask + relation.ask_dev]
        assert [form for form, count in Counter(forms).items() if count > 1] == []


def name_words(split: Split) -> set[str]:
    """Return every word that names of a split can contain."""
    lexicon = LEXICONS[split]
    joined = (
        (lexicon.surname_heads, lexicon.surname_tails),
        (lexicon.town_heads, lexicon.town_tails),
        (lexicon.river_heads, lexicon.river_tails),
    )
    lists = (lexicon.men, lexicon.women, lexicon.colours, lexicon.emblems, lexicon.crafts, lexicon.subjects)
    return {head + tail for heads, tails in joined for head in heads for tail in tails} | set(chain(*lists))


def test_no_name_is_in_both_splits() -> None:
    assert not name_words("train") & name_words("dev")
    for split, other in (("train", "dev"), ("dev", "train")):
        text = " ".join(paragraph["context"] for paragraph in paragraphs(cast(Split, split)))
        capitalised = set(re.findall(r"(?<![.?] )\b[A-Z][a-z]+", text))
        assert not capitalised & name_words(cast(Split, other))


# ---- questions


@pytest.mark.parametrize("split", SPLITS)
def test_every_kind_of_article_and_of_question_occurs(split: Split) -> None:
    kinds = Counter(qa["kind"] for qa in questions(split) if qa["is_impossible"])
    assert set(kinds) == set(WEIGHTS)
    assert min(kinds.values()) >= 0.04 * sum(kinds.values())
    answered = {qa["kind"] for qa in questions(split) if not qa["is_impossible"]}
    for kind in KINDS:
        assert answered & {relation.name for relation in kind.relations}


def test_some_negative_questions_have_answers() -> None:
    negative = [qa for qa in questions("train") if re.search(r"\b(not|never|no|refuse)\b", qa["question"])]
    answered = sum(not qa["is_impossible"] for qa in negative) / len(negative)
    assert 0.4 < answered < 0.85


def test_matching_words_is_not_enough() -> None:
    golds = {qa["id"]: [answer["text"] for answer in qa["answers"]] for qa in questions("dev")}
    predictions = overlap_baseline(corpus("dev"))
    assert score_squad2(golds, predictions)["f1"] < 45


def test_the_question_alone_does_not_reveal_whether_it_is_answerable() -> None:
    """Naive Bayes over the words of train questions is hardly better than always answering."""
    counts = {flag: Counter[str]() for flag in (False, True)}
    sizes = Counter(qa["is_impossible"] for qa in questions("train"))
    for qa in questions("train"):
        counts[qa["is_impossible"]].update(set(words(qa["question"])))
    known = {word for word in counts[False] | counts[True] if counts[False][word] + counts[True][word] >= 3}

    def score(question: str, flag: bool) -> float:
        found = sorted(set(words(question)) & known)
        return math.log(sizes[flag]) + sum(math.log((counts[flag][word] + 1) / (sizes[flag] + 2)) for word in found)

    hits = [(score(qa["question"], True) > score(qa["question"], False)) is qa["is_impossible"] for qa in questions("dev")]
    assert sum(hits) / len(hits) < 0.72
