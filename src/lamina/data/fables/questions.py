"""Paragraphs -> questions. The recorded facts decide whether a question is answerable."""

from __future__ import annotations

import random
from typing import Final

from lamina.data.fables.engine import FableEntity, Paragraph, StatedFact
from lamina.data.fables.schema import Relation
from lamina.data.squad_format import SquadAnswer, SquadQuestion

WEIGHTS: Final = {"swapped-entity": 9, "antonym": 8, "negation": 11, "other-relation": 54, "missing-detail": 42}


def unanswerable_kind(text: Paragraph, entity: FableEntity, relation: Relation) -> str | None:
    """Return why the paragraph does not answer a question, or None if it does or might seem to."""
    if text.states(entity, relation.name) or any(text.states(entity, near) for near in relation.implied_by):
        return None
    if relation.opposite is not None and text.states(entity, relation.opposite):
        return relation.contrast
    if relation.detail_of is not None and text.states(entity, relation.detail_of):
        return "missing-detail"
    if any(fact.relation.name == relation.name for fact in text.facts):
        return "swapped-entity"
    return "other-relation"


def draw(text: Paragraph, *, answerable: int, unanswerable: int, prefix: str) -> list[SquadQuestion]:
    """Return so many answerable and unanswerable questions, in random order, with ids that start with the prefix."""
    rng = text.source.rng
    facts = _weighted_sample(rng, text.facts, [_interest(fact.relation) for fact in text.facts], answerable)
    asked = [_answerable(text, fact) for fact in facts]
    for entity, relation, kind in _unanswerable_choices(text, unanswerable):
        asked.append((_wording(text, entity, relation), [], kind))
    rng.shuffle(asked)
    return [
        {
            "id": f"{prefix}-{number}",
            "question": question,
            "answers": answers,
            "is_impossible": not answers,
            "kind": kind,
        }
        for number, (question, answers, kind) in enumerate(asked)
    ]


def _answerable(text: Paragraph, fact: StatedFact) -> tuple[str, list[SquadAnswer], str]:
    """Return a question, its answers and its kind."""
    answers: list[SquadAnswer] = [{"text": fact.text, "answer_start": fact.start}]
    if text.split == "dev":
        answers += [{"text": form, "answer_start": fact.start + fact.text.index(form)} for form in fact.alternatives]
    question = _wording(text, fact.entity, fact.relation)
    return question, answers, fact.relation.name


def _wording(text: Paragraph, entity: FableEntity, relation: Relation) -> str:
    form = text.source.rng.choice(relation.questions(text.split))
    question = form.replace("{n}", entity.naming.name)
    return question[0].upper() + question[1:]


def _unanswerable_choices(text: Paragraph, size: int) -> list[tuple[FableEntity, Relation, str]]:
    """Return random unanswerable questions. The kind is drawn first, so rare kinds are not underrepresented."""
    rng = text.source.rng
    pools: dict[str, list[tuple[FableEntity, Relation, str]]] = {}
    for entity in text.entities:
        for relation in entity.kind.relations:
            kind = unanswerable_kind(text, entity, relation)
            if kind is not None:
                pools.setdefault(kind, []).append((entity, relation, kind))
    chosen: list[tuple[FableEntity, Relation, str]] = []
    while len(chosen) < size and pools:
        kinds = [kind for kind in WEIGHTS if kind in pools]
        kind = rng.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
        chosen.append(pools[kind].pop(rng.randrange(len(pools[kind]))))
        if not pools[kind]:
            del pools[kind]
    return chosen


def _interest(relation: Relation) -> float:
    """Return the weight of a relation among answerable questions.

    Relations with many unanswerable questions get as many answerable ones, so the wording does not reveal the label.
    """
    return 4.0 if relation.detail_of else 2.0 if relation.opposite else 1.0


def _weighted_sample(rng: random.Random, facts: list[StatedFact], weights: list[float], size: int) -> list[StatedFact]:
    pool, chances = list(facts), list(weights)
    chosen: list[StatedFact] = []
    while pool and len(chosen) < size:
        index = rng.choices(range(len(pool)), chances)[0]
        chosen.append(pool.pop(index))
        chances.pop(index)
    return chosen
