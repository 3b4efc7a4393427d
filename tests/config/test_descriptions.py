"""Every field of a recipe, a pretraining recipe and a search space has a short description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lamina.config.recipe import Recipe
from lamina.experiments.tuning.space import Space
from lamina.pretraining.pretrain_recipe import PretrainRecipe
from lamina.utils.options import described

LONGEST = 25  # words


def fields_of(model: type[BaseModel], place: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every field below a model with its place; a table of several types has the type in its place."""
    for name, field in described(model).items():
        yield f"{place}{name}", field
        tables = list(models_in(field.annotation))
        for table in tables:
            kind = f".{table.model_fields['type'].default}" if field.discriminator and "type" in table.model_fields else ""
            yield from fields_of(table, f"{place}{name}{kind}.")


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the models inside a type such as `dict[str, A]`, `tuple[A, ...]` or `A | B | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


@pytest.mark.parametrize("model", [Recipe, PretrainRecipe, Space])
def test_each_field_has_a_short_description(model: type[BaseModel]) -> None:
    fields = dict(fields_of(model))
    assert [place for place, field in fields.items() if not field.description] == []
    long = {place: field.description for place, field in fields.items() if len((field.description or "").split()) > LONGEST}
    assert long == {}
    assert [place for place, field in fields.items() if not (field.description or "").endswith(".")] == []


def test_fields_of_all_tables_are_found() -> None:
    places = dict(fields_of(Recipe))
    for place in (
        "tasks.data.columns.first",
        "tasks.mixer.learned.init",
        "tasks.head.cosine.pooling",
        "tasks.objective.span.focal",
        "tasks.terms.distil.teacher",
        "tasks.augment.eda.alpha",
        "tune.lora.rank",
        "train.rates.head",
        "cache.max_gb",
        "answer.across",
    ):
        assert place in places
    assert {"shape.hidden", "nsp.pairs.columns", "mask.share", "train.head_lr"} <= dict(fields_of(PretrainRecipe)).keys()
    assert {"search.method", "space.low"} <= dict(fields_of(Space)).keys()
