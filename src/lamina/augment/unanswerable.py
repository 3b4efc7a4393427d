"""Make synthetic unanswerable questions from answerable ones by rules, without a model or a network.

A training set often has a smaller share of unanswerable questions than the texts in use. Five kinds of questions look as if
the text might answer them:

- ``entity``: a name, or a month or day, becomes another of the same kind from the same text (#swap-entity)
- ``antonym``: a word becomes its opposite (#swap-antonym)
- ``number``: a number, year or ordinal becomes another (#change-number)
- ``paragraph``: the question gets another text, which shares words with it but has no answer (#other-paragraph)
- ``negation``: was -> wasn't (#negate); a model soon learns to look for it, so it is not a default

After Rajpurkar et al. 2018, whose writers did this by hand, and Gautam et al. 2023 (entities and antonyms). The words and
rules are for English. In other languages, mostly ``paragraph`` finds questions. It is the only kind for Korean, Japanese and
Chinese questions: a particle would stay at a replaced name, and words in Latin letters are titles.

Rules that keep the original answer from being right by chance:

- The replaced text must not be a part of the answer. The text must have it, else it answers the question without it.
- A new name must not occur in a sentence with the answer or next to one: the items of a list share a statement. It must not
  occur in sentences that share many words with the question. It must not be another form of the old name, nor share a word
  with the question or the title of the article.
- An opposite must not occur in the text, in any form. A changed number must not occur in the text either.
- A bound ("after 1990") may hold for another number too, so numbers after such words do not change. A comparison ("thicker
  than") is about both sides, so its words do not change.
- Another text must lack the answer in any spelling, half of the answer's words, and some words of the question. It must not
  be a variant of the same text. The question must have enough content words, and a name or a number.
- A question may have several contexts. A synthetic question skips those that contain its new words, or a part of its new
  name.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pydantic import Field

from lamina.augment.entities import known_names
from lamina.augment.similar_texts import TextIndex, other_paragraph
from lamina.augment.swaps import change_number, negate, swap_antonym, swap_entity
from lamina.augment.synthetic import SyntheticKind, is_east_asian, source_id, stems, words_of
from lamina.data.examples import Example
from lamina.data.splits import questions_of
from lamina.errors import LaminaWarning
from lamina.utils.options import Options


class UnanswerableOptions(Options):
    """Options of synthetic questions, which are added until the unanswerable questions are `share` of all.

    A question with several contexts counts once; it is unanswerable if no context has an answer. A synthetic question is also
    paired with the other contexts of its source, unless its text is unchanged. A held-out split without an unanswerable
    question gets synthetic ones too.
    """

    share: float = Field(default=0.4, gt=0, lt=1)
    """Share of unanswerable questions to reach, between 0 and 1, including those of the data."""
    kinds: tuple[SyntheticKind, ...] = Field(default=("entity", "antonym", "number", "paragraph"), min_length=1)
    """Kinds of change that make a question unanswerable."""
    per_epoch: bool = True
    """Write new questions in every epoch instead of reusing those of the first."""
    replace: bool = False
    """Replace the source questions instead of adding to them, so the number of questions stays."""


def with_unanswerable(
    examples: Sequence[Example], options: UnanswerableOptions, seed: int, *, epoch: int = 0, index: CorpusIndex | None = None
) -> list[Example]:
    """Return the examples of one epoch: the given and the synthetic ones. With `replace`, the latter replace their sources."""
    synthetic = make_unanswerable(examples, options, seed, epoch=epoch, index=index)
    if not options.replace:
        return [*examples, *synthetic]
    instead = {source_id(one.id): one for one in synthetic}
    replaced = {example.group for example in examples if example.id in instead}  # with all of their contexts
    return [instead.get(e.id, e) for e in examples if e.id in instead or e.group not in replaced]


def with_some_unanswerable(examples: Sequence[Example], options: UnanswerableOptions, seed: int) -> list[Example]:
    """Return the examples, with synthetic ones added if all questions are answerable. Fewer than the share is no warning."""
    if not all(any(one.answers for one in contexts) for contexts in questions_of(examples).values()):
        return list(examples)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LaminaWarning)
        return with_unanswerable(examples, options.model_copy(update={"replace": False}), seed)


def make_unanswerable(
    examples: Sequence[Example], options: UnanswerableOptions, seed: int, *, epoch: int = 0, index: CorpusIndex | None = None
) -> list[Example]:
    """Return only the synthetic questions, as many as the share needs, or fewer with a warning.

    Equal seeds and epochs give equal questions. The kinds alternate. A question is used at most once per kind, and with
    `replace` once. `index` is `CorpusIndex.build(examples)`; pass it to build it once for all epochs.
    """
    wanted = _how_many(examples, options)
    if wanted <= 0:
        message = (
            f"augment.unanswerable: at least share = {options.share} of the questions have no answer already. None was added. "
            "Fix: set a larger share, or leave augment.unanswerable out"
        )
        warnings.warn(message, LaminaWarning, stacklevel=2)
        return []
    draw = random.Random(f"unanswerable/{seed}/{epoch if options.per_epoch else 0}")
    makers = _makers(index or CorpusIndex.build(examples))
    contexts = questions_of(examples)
    sources = [example for example in examples if example.answers]
    draw.shuffle(sources)
    synthetic: list[Example] = []
    counts: Counter[SyntheticKind] = Counter(dict.fromkeys(options.kinds, 0))
    tried: defaultdict[str, set[SyntheticKind]] = defaultdict(set)  # by context
    used: defaultdict[str, set[SyntheticKind]] = defaultdict(set)  # by question
    replaced: set[str] = set()
    for _ in range(1 if options.replace else len(options.kinds)):
        for source in sources:
            if counts.total() == wanted:
                return synthetic
            if options.replace and source.group in replaced:
                continue
            kinds = set(options.kinds) - tried[source.id] - used[source.group]
            for kind in sorted(kinds, key=lambda kind: (counts[kind], kind)):
                tried[source.id].add(kind)
                if (one := makers[kind](source, draw)) is not None:
                    synthetic.append(one)
                    if options.replace or one.question != source.question:  # else these examples exist already
                        synthetic += _to_other_contexts(one, source, contexts[source.group])
                    used[source.group].add(kind)
                    replaced.add(source.group)
                    counts[kind] += 1
                    break
    if (fewer := counts.total()) < wanted:
        message = (
            f"augment.unanswerable: share = {options.share} needs {wanted} synthetic questions but {fewer} could be made. "
            "Fix: set a smaller share, or more kinds"
        )
        warnings.warn(message, LaminaWarning, stacklevel=2)
    return synthetic


def _to_other_contexts(synthetic: Example, source: Example, contexts: Sequence[Example]) -> list[Example]:
    """Return the synthetic question with the other contexts of its source.

    Contexts that have an answer to the source, the new words of the question or a part of a new name are left out: they may
    answer it.
    """
    suffix = synthetic.id.removeprefix(source.id)
    words = words_of(synthetic.question) - words_of(source.question)
    beginnings = set(stems(synthetic.question)) - set(stems(source.question))
    return [
        replace(other, id=other.id + suffix, group=synthetic.group, question=synthetic.question)
        for other in contexts
        if other is not source
        and not other.answers
        and not (words and words <= words_of(other.context))
        and beginnings.isdisjoint(stems(other.context))
    ]


def _how_many(examples: Sequence[Example], options: UnanswerableOptions) -> int:
    questions = {example.group for example in examples}
    unanswerable = len(questions) - len({example.group for example in examples if example.answers})
    missing = options.share * len(questions) - unanswerable
    return round(missing if options.replace else missing / (1 - options.share))


QuestionMaker = Callable[[Example, random.Random], Example | None]


@dataclass(frozen=True)
class CorpusIndex:
    """The names and the texts of all examples, which the rules choose from."""

    names: frozenset[str]  # in lower case
    texts: TextIndex

    @classmethod
    def build(cls, examples: Sequence[Example]) -> CorpusIndex:
        """Index the contexts of the examples."""
        return cls(known_names(dict.fromkeys(example.context for example in examples)), TextIndex(examples))


def _makers(index: CorpusIndex) -> dict[SyntheticKind, QuestionMaker]:
    return {
        "entity": _for_english(lambda example, draw: swap_entity(example, draw, index.names)),
        "antonym": _for_english(swap_antonym),
        "number": _for_english(change_number),
        "paragraph": lambda example, _: other_paragraph(example, index.texts, index.names),
        "negation": _for_english(negate),
    }


def _for_english(maker: QuestionMaker) -> QuestionMaker:
    """Return the maker without the questions that its rules do not fit."""
    return lambda example, draw: None if is_east_asian(example.question) else maker(example, draw)
