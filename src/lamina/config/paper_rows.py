"""Read which recipe trains each row of the five papers: `recipes/papers.csv` and `recipes/papers.toml`.

The CSV holds the numbers that the papers print. The TOML maps each row with a trained model to a recipe and its settings. It
lists all other rows with the reason why no recipe builds them.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from lamina.config.bundled import paper_map_path, paper_numbers_path
from lamina.errors import LaminaError


class RowKey(NamedTuple):
    """The place of a row: the number of the paper, the table, figure or section, and the name of the row."""

    paper: str
    where: str
    row: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class PaperNumber:
    """A number that a paper reports. `note` says what is unclear about it."""

    metric: str
    value: float
    unit: str
    data: str
    note: str


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A row of a paper with a trained model, and how to train it.

    `settings` change the recipe. They name the paper's encoder by the preset of its shape; `encoder_settings` has its weights.
    """

    key: RowKey
    recipe: str = ""
    """Name of the recipe; empty for an ensemble."""
    settings: tuple[str, ...] = ()
    checkpoint: str = ""
    """Name of the checkpoint of the run, such as "0.3"; empty for the run itself."""
    encoder: RowKey | None = None
    """Row whose trained model is the encoder (`encoder.model`)."""
    pretrain: str = ""
    """Recipe of `lamina pretrain` whose encoder the row starts from."""
    ensemble: tuple[RowKey, ...] = ()
    """Rows whose predictions `lamina ensemble` combines."""
    note: str = ""
    numbers: tuple[PaperNumber, ...] = ()
    """Numbers of the paper; empty if they are lost."""


def _listed(value: object) -> object:
    return [value] if isinstance(value, dict) else value


class Reading(BaseModel):
    """One way to build a row, as papers.toml has it; the file describes the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    recipe: str = ""
    settings: tuple[str, ...] = Field(default=(), alias="set")
    checkpoint: str = ""
    encoder: str = ""
    pretrain: str = ""
    ensemble: tuple[str, ...] = ()
    same: str = ""
    note: str = ""


Readings = Annotated[tuple[Reading, ...], BeforeValidator(_listed)]
Entry = TypeVar("Entry")


class PaperMap(BaseModel):
    """The tables of papers.toml. Rows are nested: paper, place, name of the row."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    encoders: dict[str, tuple[str, ...]] = {}
    settings: dict[str, tuple[str, ...]] = {}
    rows: dict[str, dict[str, dict[str, Readings]]] = {}
    missing: dict[str, dict[str, dict[str, str]]] = {}
    not_trained: dict[str, dict[str, dict[str, str]]] = {}


def paper_numbers() -> dict[RowKey, tuple[PaperNumber, ...]]:
    """Return the numbers of the papers by their row, in the order of the file."""
    found: dict[RowKey, tuple[PaperNumber, ...]] = {}
    with paper_numbers_path().open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            key = RowKey(line["paper"], line["where"], line["row"])
            number = PaperNumber(line["metric"], float(line["value"]), line["unit"], line["data"], line["note"])
            found[key] = (*found.get(key, ()), number)
    return found


def paper_rows() -> list[PaperRow]:
    """Return all rows with a recipe. A row that has two readings is there twice.

    Raises:
        LaminaError: The map has an unknown field, or names a row or a group of settings that it does not have.
    """
    papers = _map()
    numbers = paper_numbers()
    entries = dict(_leaves(papers.rows))
    return [
        _row(key, _followed(key, reading, entries), papers.settings, numbers.get(key, ()))
        for key, readings in entries.items()
        for reading in readings
    ]


def rows_not_trained() -> dict[RowKey, str]:
    """Return the rows that report no trained model of their own, with the reason."""
    return dict(_leaves(_map().not_trained))


def rows_missing() -> dict[RowKey, str]:
    """Return the rows that no recipe builds yet, with the reason."""
    return dict(_leaves(_map().missing))


def encoder_settings() -> dict[str, tuple[str, ...]]:
    """Return, for each preset of the papers' encoders, the settings that load its trained weights from the hub."""
    return _map().encoders


def _map() -> PaperMap:
    path = paper_map_path()
    try:
        return PaperMap.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        problem = error.errors()[0]
        place = "/".join(str(part) for part in problem["loc"])
        raise LaminaError(
            f"{path.name}, {place}: {problem['msg']}. Fix: write it as the first lines of the file describe"
        ) from None


def _leaves(papers: Mapping[str, Mapping[str, Mapping[str, Entry]]]) -> Iterator[tuple[RowKey, Entry]]:
    """Yield the entries of a table of papers, each with its row."""
    for paper, places in papers.items():
        for where, rows in places.items():
            for row, entry in rows.items():
                yield RowKey(paper, where, row), entry


def _key(text: str) -> RowKey:
    """Return the row that a text names. Only the name of the row may have more slashes.

    >>> _key("001/Table 1/BERT 3/10e")
    RowKey(paper='001', where='Table 1', row='BERT 3/10e')
    """
    paper, where, row = text.split("/", 2)
    return RowKey(paper, where, row)


def _followed(key: RowKey, reading: Reading, entries: Mapping[RowKey, tuple[Reading, ...]]) -> Reading:
    """Return a reading; `same` takes the first reading of another row, with the note of this one if it has one."""
    if not reading.same:
        return reading
    other = _key(reading.same)
    if other not in entries or entries[other][0].same:
        raise _problem(key, f"{other} has no recipe of its own", "name a row of [rows] that does")
    found = entries[other][0]
    return found.model_copy(update={"note": reading.note or found.note})


def _row(key: RowKey, reading: Reading, groups: Mapping[str, tuple[str, ...]], numbers: tuple[PaperNumber, ...]) -> PaperRow:
    settings: list[str] = []
    for setting in reading.settings:
        if setting.startswith("@") and setting[1:] not in groups:
            raise _problem(key, f"no such group of settings: {setting[1:]}", f"choose one of {', '.join(groups)}")
        settings += groups[setting[1:]] if setting.startswith("@") else [setting]
    return PaperRow(
        key,
        recipe=reading.recipe,
        settings=tuple(settings),
        checkpoint=reading.checkpoint,
        encoder=_key(reading.encoder) if reading.encoder else None,
        pretrain=reading.pretrain,
        ensemble=tuple(map(_key, reading.ensemble)),
        note=reading.note,
        numbers=numbers,
    )


def _problem(key: RowKey, what: str, fix: str) -> LaminaError:
    return LaminaError(f"{paper_map_path().name}, {key}: {what}. Fix: {fix}")
