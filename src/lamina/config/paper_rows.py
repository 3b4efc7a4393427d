"""Read which recipe trains each row of the five papers: `recipes/papers.csv` and `recipes/papers.toml`.

The CSV holds the numbers that the papers print. The TOML maps each row with a trained model to a recipe and its settings. It
lists all other rows with the reason why no recipe builds them.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

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


FIELDS = ("recipe", "set", "checkpoint", "encoder", "pretrain", "ensemble", "same", "note")


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
    values = _map()
    numbers = paper_numbers()
    entries = {key: entry if isinstance(entry, list) else [entry] for key, entry in _leaves(values["rows"])}
    return [
        _row(key, _followed(key, reading, entries), values["settings"], numbers.get(key, ()))
        for key, readings in entries.items()
        for reading in readings
    ]


def rows_not_trained() -> dict[RowKey, str]:
    """Return the rows that report no trained model of their own, with the reason."""
    return dict(_leaves(_map()["not_trained"]))


def rows_missing() -> dict[RowKey, str]:
    """Return the rows that no recipe builds yet, with the reason."""
    return dict(_leaves(_map()["missing"]))


def encoder_settings() -> dict[str, tuple[str, ...]]:
    """Return, for each preset of the papers' encoders, the settings that load its trained weights from the hub."""
    return {preset: tuple(settings) for preset, settings in _map()["encoders"].items()}


def _map() -> dict[str, Any]:
    return tomllib.loads(paper_map_path().read_text(encoding="utf-8"))


def _leaves(papers: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Iterator[tuple[RowKey, Any]]:
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


def _followed(key: RowKey, reading: dict[str, Any], entries: Mapping[RowKey, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return a reading; `same` takes the first reading of another row, and keeps its own note if it has one."""
    if unknown := reading.keys() - set(FIELDS):
        raise _problem(key, f"no such field: {min(unknown)}", f"choose one of {', '.join(FIELDS)}")
    if "same" not in reading:
        return reading
    other = _key(reading["same"])
    if other not in entries or "same" in entries[other][0]:
        raise _problem(key, f"{other} has no recipe of its own", "name a row of [rows] that does")
    return entries[other][0] | {name: value for name, value in reading.items() if name != "same"}


def _row(key: RowKey, reading: dict[str, Any], groups: Mapping[str, list[str]], numbers: tuple[PaperNumber, ...]) -> PaperRow:
    settings: list[str] = []
    for setting in reading.get("set", ()):
        if setting.startswith("@") and setting[1:] not in groups:
            raise _problem(key, f"no such group of settings: {setting[1:]}", f"choose one of {', '.join(groups)}")
        settings += groups[setting[1:]] if setting.startswith("@") else [setting]
    return PaperRow(
        key,
        recipe=reading.get("recipe", ""),
        settings=tuple(settings),
        checkpoint=reading.get("checkpoint", ""),
        encoder=_key(reading["encoder"]) if "encoder" in reading else None,
        pretrain=reading.get("pretrain", ""),
        ensemble=tuple(_key(text) for text in reading.get("ensemble", ())),
        note=reading.get("note", ""),
        numbers=numbers,
    )


def _problem(key: RowKey, what: str, fix: str) -> LaminaError:
    return LaminaError(f"{paper_map_path().name}, {key}: {what}. Fix: {fix}")
