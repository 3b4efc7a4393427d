"""Write one article: two paragraphs about an entity, with sentences about other entities of the same kind."""

from __future__ import annotations

from typing import Final

from lamina.data.fables.asides import ASIDES
from lamina.data.fables.engine import LEAST_WORDS, MOST_WORDS, FableEntity, Paragraph
from lamina.data.fables.schema import ArticleKind, Relation
from lamina.data.fables.values import FreshValues

_LONGEST_SENTENCE: Final = 32


def entity(kind: ArticleKind, source: FreshValues, *, near: FableEntity | None = None) -> FableEntity:
    """Return a new entity of a kind, dated within 25 years of `near`."""
    low, high = (near.base - 25, near.base + 25) if near else (1100, 1650)
    return FableEntity(kind, kind.naming(source), base=source.rng.randint(low, high))


def paragraph(main: FableEntity, source: FreshValues, *, opening: bool, long: bool) -> Paragraph:
    """Return a paragraph about `main`, of mostly 62 to 90 words, or of more than 300 if `long`."""
    rng = source.rng
    target = rng.randint(312, 365) if long else rng.randint(62, 70)
    text = Paragraph(source)
    if opening:
        text.write(source.fresh_of(_of(main.kind.intros, main.kind.intros_dev, source)), main)
    relations = _chosen(main, source, 6 if long else 3)
    turn = max(1, rng.randint(len(relations) // 2, len(relations)))
    _state(text, main, relations[:turn])
    if long or rng.random() < 0.8:
        _turn_to_another(text, main, source, rng.choice((1, 1, 2)))
    _state(text, main, relations[turn:])
    if long:
        while text.words() < target - 60:
            _turn_to_another(text, main, source, rng.randint(3, 5))
    elif text.words() < target - 30:
        _turn_to_another(text, main, source, rng.choice((1, 2)))
    _pad(text, main, target)
    return text


def _chosen(who: FableEntity, source: FreshValues, size: int) -> list[Relation]:
    """Return some relations that are not stated yet, in the order of the table, which reads best."""
    open_relations = who.open_relations()
    drawn = source.rng.sample(range(len(open_relations)), min(size, len(open_relations)))
    return [open_relations[index] for index in sorted(drawn)]


def _state(text: Paragraph, who: FableEntity, relations: list[Relation]) -> None:
    for relation in relations:
        if relation.name not in who.stated and text.words() < MOST_WORDS - _LONGEST_SENTENCE:
            text.state(who, relation)


def _turn_to_another(text: Paragraph, main: FableEntity, source: FreshValues, size: int) -> None:
    """Add another entity, with relations that the paragraph states of `main` and with others."""
    if text.words() > MOST_WORDS - 2 * _LONGEST_SENTENCE:
        return
    other = entity(main.kind, source, near=main)
    link = source.fresh_of(_of(main.kind.links, main.kind.links_dev, source))
    text.write(link, main, other=other)
    _state(text, other, _chosen(other, source, size))


def _pad(text: Paragraph, main: FableEntity, target: int) -> None:
    """Add asides until the paragraph is long enough. They state no fact that a question asks for."""
    source = text.source
    asides = [*_of(main.kind.asides, main.kind.asides_dev, source), *ASIDES[source.split]]
    while text.words() < max(target, LEAST_WORDS) and text.words() < MOST_WORDS - _LONGEST_SENTENCE:
        text.write(source.fresh_of(asides), main)


def _of(train: tuple[str, ...], dev: tuple[str, ...], source: FreshValues) -> tuple[str, ...]:
    return train if source.split == "train" else dev
