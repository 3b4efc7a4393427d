"""Read a study from a TOML file: a base recipe, named variants with only what differs, and sizes.

    title = "Parameter efficiency"
    recipe = "parameter-efficiency/L12"
    baseline = "L12"

    [sizes.smoke]
    set = ["encoder.model=tiny", "encoder.pretrained=false", "data.train=fables/train", "data.dev=fables/dev"]

    [variants]
    L12 = { row = "003/Table 1/L12" }
    "6 layers" = { set = ["tune.layers=6"] }

A variant with a `row` has the recipe and the settings of that row in recipes/papers.toml. `{NAME}` in a setting stands for the
encoder of that name (`[encoders]`) or for the file that a step writes (`[steps]`). "@name" stands for a list of `[groups]`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError, model_validator

from lamina.config.paper_rows import PaperRow, paper_rows
from lamina.errors import LaminaError
from lamina.utils.files import read_text
from lamina.utils.options import Options

SizeName = Literal["paper", "desk", "smoke"]
SIZES: Final[tuple[SizeName, ...]] = ("paper", "desk", "smoke")


class StudySize(Options):
    """What a size of the study changes in all of its runs."""

    set: tuple[str, ...] = ()
    """Settings of all runs of this size."""
    seeds: tuple[int, ...] = (0,)
    """Seeds to train each variant with."""
    only: tuple[str, ...] | None = None
    """The variants of this size; without it, all."""
    hub: bool = False
    """Load the trained weights of the paper's encoders, which recipes name by the preset of their shape."""
    time_examples: int = Field(default=300, ge=0)
    """Measure the time of inference on so many examples of the dev set; 0 measures none."""
    time_repeats: int = Field(default=3, ge=1)
    """Number of measurements of the time of inference."""
    differs: str = ""
    """How this size differs from the paper, in plain words."""


class Step(Options):
    """A command whose result several runs use, such as a file of questions with several contexts."""

    command: tuple[str, ...]
    """Words of a `lamina` command without `lamina` and `--out`."""
    ending: str = ""
    """Ending of the file that it writes, such as `.jsonl`; empty for a folder."""
    sizes: tuple[SizeName, ...] = SIZES
    """Sizes that need it."""


class Variant(Options):
    """A row of the study: what differs from the base recipe."""

    row: str = ""
    """Row of a paper, as `003/Table 1/L12`: its recipe and settings, and its numbers in the report."""
    rows: tuple[str, ...] = ()
    """More rows of the paper that this model reproduces."""
    reading: int = Field(default=0, ge=0)
    """Which reading of the row to train, if papers.toml has several."""
    recipe: str = ""
    """Recipe of this variant; without it, that of `row`, else that of the study."""
    set: tuple[str, ...] = ()
    """Settings of this variant, after those of the study and of the size."""
    sets: dict[SizeName, tuple[str, ...]] = Field(default_factory=dict)
    """More settings by size."""
    encoder: str = ""
    """Variant whose run is the encoder, with the same seed."""
    checkpoint: str = ""
    """Checkpoint of the run that is this variant, such as `0.3`."""
    ensemble: tuple[str, ...] = ()
    """Variants to combine instead of training."""
    baseline: str = ""
    """Variant to compare with; without it, that of the study."""
    baselines: dict[SizeName, str] = Field(default_factory=dict)
    """Variants to compare with by size, instead of `baseline`."""
    most_seeds: int | None = Field(default=None, ge=1)
    """Train with at most this many of the seeds."""
    fractions: tuple[float, ...] = ()
    """Shares of the training data: each makes a variant of its own, and `{percent}` in `row` its share."""
    checkpoints: tuple[str, ...] = ()
    """Checkpoints of the run: each makes a variant of its own, and `{checkpoint}` in `row` its name."""


class Study(Options):
    """A study, as its file has it."""

    title: str
    """Title of the report."""
    question: str = ""
    """What the study asks, in one sentence."""
    paper: str = ""
    """Number of the paper, such as `003`."""
    recipe: str = ""
    """Base recipe: a name or a path; not needed if every variant has a row or a recipe."""
    baseline: str
    """Variant that the others are compared with."""
    set: tuple[str, ...] = ()
    """Settings of all runs."""
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Lists of settings by name."""
    encoders: dict[str, str] = Field(default_factory=dict)
    """Encoders by the names that settings use; `--encoder NAME=PATH` changes them."""
    steps: dict[str, Step] = Field(default_factory=dict)
    """Commands whose results the runs use."""
    sizes: dict[SizeName, StudySize] = Field(default_factory=dict)
    """Sizes of the study."""
    variants: dict[str, Variant]
    """Rows of the study by name, in the order of the tables."""

    @model_validator(mode="after")
    def _names_exist(self) -> Study:
        names = set(self.variants)
        for where, name in [("baseline", self.baseline), *_named_variants(self)]:
            if name not in names:
                raise ValueError(f"{where} names {name!r}, which is no variant. Fix: name one of {', '.join(self.variants)}")
        return self


def _named_variants(study: Study) -> list[tuple[str, str]]:
    """Return the names of variants that a study uses, with the place of each."""
    found = []
    for name, one in study.variants.items():
        used = [*((f"{name}.encoder", one.encoder),), *((f"{name}.ensemble", member) for member in one.ensemble)]
        used += [(f"{name}.baseline", value) for value in (one.baseline, *one.baselines.values())]
        found += [(f"variants.{where}", value) for where, value in used if value and value not in expanded_names(study)]
    for size, options in study.sizes.items():
        known = {*study.variants, *expanded_names(study)}
        found += [(f"sizes.{size}.only", value) for value in options.only or () if value not in known]
    return found


def expanded_names(study: Study) -> list[str]:
    """Return the names of all variants, with those of fractions and checkpoints."""
    return list(expanded_variants(study))


def expanded_variants(study: Study) -> dict[str, Variant]:
    """Return all variants by name. Fractions and checkpoints of a variant follow it."""
    found: dict[str, Variant] = {}
    for name, one in study.variants.items():
        plain = one.model_copy(update={"fractions": (), "checkpoints": ()})
        if not one.fractions and not one.checkpoints:
            found[name] = plain
            continue
        for share in one.fractions:
            percent = f"{100 * share:g}"
            row = one.row.replace("{percent}", percent)
            settings = (*one.set, f"data.fraction={share:g}")
            found[f"{name}, {percent}%"] = plain.model_copy(update={"row": row, "set": settings})
        for checkpoint in one.checkpoints:
            row = one.row.replace("{checkpoint}", checkpoint)
            found[f"{name}, {checkpoint} epochs"] = plain.model_copy(update={"row": row, "checkpoint": checkpoint})
    return found


def read_study(path: Path) -> Study:
    """Return the study in a TOML file. A mistake raises LaminaError with one line."""
    try:
        values = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise LaminaError(f"{path}: not valid TOML ({error}). Fix: correct the file") from None
    try:
        return Study.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"]) or "study"
        what = problem["msg"].removeprefix("Value error, ")
        fix = "" if " Fix: " in what else ". Fix: see docs/studies.md for the fields of a study"
        raise LaminaError(f"{path}, {where}: {what}{fix}") from None


@cache
def rows_by_name() -> Mapping[str, tuple[PaperRow, ...]]:
    """Return the readings of each row of the papers by its name."""
    found: dict[str, tuple[PaperRow, ...]] = {}
    for row in paper_rows():
        found[str(row.key)] = (*found.get(str(row.key), ()), row)
    return found


def paper_row(name: str, reading: int, where: str) -> PaperRow:
    """Return one reading of a row of a paper; `where` starts the message of an error."""
    readings = rows_by_name().get(name, ())
    if not readings:
        raise LaminaError(f"{where}: {name!r} is no row with a recipe in papers.toml. Fix: write it as 003/Table 1/L12")
    if reading >= len(readings):
        raise LaminaError(f"{where}: {name} has {len(readings)} readings, not {reading + 1}. Fix: lower reading")
    return readings[reading]
