"""Plan a study: which runs there are, what each needs, where each is, and in which order they run.

Planning reads recipes only: no data, no weights. A run's folder has a fingerprint in its name: of the whole recipe with its
seed, of the files it reads and of the run it starts from. So a finished run is never trained again, two variants with equal
settings share a run, and a run with other settings has another folder.

Runs that can use the same store of hidden states follow each other, and all runs of a seed come before the next seed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lamina.config.bundled import pretraining_folder, recipe_path
from lamina.config.paper_rows import PaperRow, encoder_settings
from lamina.config.parse import parse_recipe, read_values
from lamina.config.recipe import Recipe
from lamina.errors import LaminaError
from lamina.experiments.studies.study_file import (
    SizeName,
    Study,
    StudySize,
    Variant,
    expanded_variants,
    paper_row,
)

Stamp = Callable[[str], str]  # the name of a dataset or file -> a text that changes with its content
JobKind = Literal["step", "train", "ensemble"]

SHORT = 10  # digits of a fingerprint in the name of a folder


@dataclass(frozen=True)
class Job:
    """One unit of work: a command, a training or an ensemble. `key` is the name of its folder or file."""

    key: str
    kind: JobKind
    path: Path
    needs: tuple[str, ...] = ()
    """Keys of the jobs whose results it reads."""
    store: str = ""
    """Jobs with an equal text can use the same store."""
    seed: int | None = None
    recipe: Recipe | None = None
    command: tuple[str, ...] = ()
    members: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Result:
    """A variant of one seed, and the folder with its scores once `job` has finished."""

    variant: str
    seed: int
    job: str
    path: Path


@dataclass(frozen=True)
class Plan:
    """The jobs of a study in the order of their work, and where the results of its variants are."""

    study: Study
    size: SizeName
    out: Path
    variants: Mapping[str, Variant]
    jobs: tuple[Job, ...]
    results: tuple[Result, ...]
    settings: tuple[str, ...] = ()
    """Settings of all runs beside those of the study."""

    def results_of(self, variant: str) -> list[Result]:
        """Return the results of a variant, one for each seed."""
        return [one for one in self.results if one.variant == variant]


def no_stamp(name: str) -> str:
    """Return the same text for every file."""
    return ""


def plan_study(
    study: Study,
    size: SizeName,
    out: Path,
    *,
    seeds: Sequence[int] | None = None,
    only: Sequence[str] = (),
    settings: Sequence[str] = (),
    encoders: Mapping[str, str] | None = None,
    stamp: Stamp = no_stamp,
    name: str = "study",
) -> Plan:
    """Return the plan of a study at one size.

    Args:
        study: The study.
        size: One of the sizes of the study.
        out: The folder of the study.
        seeds: Seeds instead of those of the size.
        only: Names of variants; without them, all of the size. What these need is planned too, but is no result.
        settings: More settings of all runs that do not start from another variant's run.
        encoders: Encoders instead of those of the study, by name.
        stamp: Returns a text that changes with the content of a dataset or file.
        name: The name of the study in errors.

    Raises:
        LaminaError: The study has no such size or variant, or a variant has a mistake.
    """
    if size not in study.sizes:
        raise LaminaError(f"{name}: has no size {size!r}. Fix: choose one of {', '.join(study.sizes) or 'none, add [sizes]'}")
    variants = _chosen(study, study.sizes[size], only, name)
    maker = _Maker(study, size, out, settings, {**study.encoders, **_known(study, encoders or {}, name)}, stamp, name)
    for seed in tuple(study.sizes[size].seeds) if seeds is None else seeds:
        for variant in variants:
            maker.add(variant, seed)
    return Plan(study, size, out, variants, tuple(_ordered(maker.jobs)), tuple(maker.results), tuple(settings))


def _known(study: Study, encoders: Mapping[str, str], name: str) -> Mapping[str, str]:
    for one in encoders:
        if one not in study.encoders:
            known = ", ".join(study.encoders) or "none"
            raise LaminaError(f"{name}: has no encoder {one!r}. Fix: choose one of its encoders: {known}")
    return encoders


def _chosen(study: Study, size: StudySize, only: Sequence[str], name: str) -> dict[str, Variant]:
    """Return the variants to show, in the order of the study."""
    every = expanded_variants(study)
    wanted = set(_with_expanded(study, size.only)) if size.only is not None else set(every)
    if only:
        asked = set(_with_expanded(study, only))
        if unknown := sorted(asked - wanted):
            raise LaminaError(f"{name}: has no variant {unknown[0]!r} at this size. Fix: choose one of {', '.join(every)}")
        wanted = asked
    return {one: variant for one, variant in every.items() if one in wanted}


def _with_expanded(study: Study, names: Sequence[str]) -> list[str]:
    """Return the names; a variant with fractions or checkpoints stands for all of them."""
    every = list(expanded_variants(study))
    found = []
    for name in names:
        one = study.variants.get(name)
        parted = one is not None and (one.fractions or one.checkpoints)
        found += [other for other in every if other.startswith(f"{name}, ")] if parted else [name]
    return found


@dataclass
class _Maker:
    """Makes the jobs of variants and, first, of those that they need."""

    study: Study
    size: SizeName
    out: Path
    settings: Sequence[str]
    encoders: Mapping[str, str]
    stamp: Stamp
    name: str
    jobs: dict[str, Job] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    _files: dict[str, dict[str, Any]] = field(default_factory=dict)
    _recipes: dict[str, Recipe] = field(default_factory=dict)
    _every: dict[str, Variant] = field(default_factory=dict)
    _made: dict[tuple[str, int], Result] = field(default_factory=dict)
    _stamps: dict[str, str] = field(default_factory=dict)
    _keys: dict[tuple[int, str], str] = field(default_factory=dict)  # of trainings, by seed and fingerprint

    def __post_init__(self) -> None:
        self._every = expanded_variants(self.study)

    def add(self, variant: str, seed: int) -> None:
        """Plan a variant with one seed, and list it among the results. A seed beyond `most_seeds` is left out."""
        most, seeds = self._every[variant].most_seeds, self.study.sizes[self.size].seeds
        if most is not None and seed in seeds and seeds.index(seed) >= most:
            return
        self.results.append(self._result(variant, seed))

    def _result(self, variant: str, seed: int, below: tuple[str, ...] = ()) -> Result:
        if variant in below:
            raise LaminaError(f"{self.name}: variant {variant!r} needs itself. Fix: name another encoder or other members")
        if (variant, seed) not in self._made:
            one = self._every[variant]
            row = paper_row(one.row, one.reading, f"{self.name}, {variant}") if one.row else None
            members = one.ensemble or self._variants_of(row.ensemble if row else (), variant)
            below = (*below, variant)
            made = self._ensemble(variant, members, seed, below) if members else self._training(variant, one, row, seed, below)
            self._made[variant, seed] = made
        return self._made[variant, seed]

    def _variants_of(self, keys: Sequence[object], variant: str) -> tuple[str, ...]:
        """Return the variants that reproduce some rows of a paper."""
        found = []
        for key in keys:
            named = next((name for name, one in self._every.items() if str(key) in (one.row, *one.rows)), None)
            if named is None:
                raise LaminaError(f"{self.name}, {variant}: no variant has the row {key}. Fix: add one, or name the variant")
            found.append(named)
        return tuple(found)

    def _ensemble(self, variant: str, members: tuple[str, ...], seed: int, below: tuple[str, ...]) -> Result:
        parts = [self._result(member, seed, below) for member in members]
        paths = tuple(part.path for part in parts)
        mark = _digest([str(path.relative_to(self.out)) for path in paths])
        key = f"{slug(variant)}-seed{seed}-{mark}"
        path = self.out / "ensembles" / key
        self.jobs.setdefault(key, Job(key, "ensemble", path, tuple(dict.fromkeys(part.job for part in parts)), members=paths))
        return Result(variant, seed, key, path)

    def _training(self, variant: str, one: Variant, row: PaperRow | None, seed: int, below: tuple[str, ...]) -> Result:
        settings = self._settings(one, row)
        needs = []
        parent = one.encoder or next(iter(self._variants_of([row.encoder] if row and row.encoder else [], variant)), "")
        if parent:
            start = self._result(parent, seed, below)
            settings += [f"encoder.model={start.path}", "encoder.pretrained=true"]
            needs.append(start.job)
        settings += [one for one in self.settings if not parent or not one.startswith("encoder.")]
        if row is not None and row.pretrain and not any("encoder.model={" in setting for setting in settings):
            settings, step = self._pretrained(row.pretrain, settings)
            needs.append(step)
        settings, steps = self._filled(settings, variant)
        recipe = self._recipe(one.recipe or (row.recipe if row else "") or self.study.recipe, settings, variant)
        recipe = recipe.model_copy(update={"train": recipe.train.model_copy(update={"seed": seed})})
        checkpoint = one.checkpoint or (row.checkpoint if row and not one.recipe else "")
        return self._place(variant, recipe, seed, (*needs, *steps), checkpoint)

    def _place(self, variant: str, recipe: Recipe, seed: int, needs: tuple[str, ...], checkpoint: str) -> Result:
        values = recipe.model_dump(mode="json")
        stamps = [self._stamped(name) for name in _data_names(values)]
        if weights := self._stamped(values["encoder"]["model"]):
            stamps.append(weights)
        mark = _digest([json.dumps(values, sort_keys=True).replace(f"{self.out}/", ""), stamps])
        key = self._keys.setdefault((seed, mark), f"{slug(variant)}-seed{seed}-{mark}")
        path = self.out / "runs" / key
        if key not in self.jobs:
            self.jobs[key] = Job(key, "train", path, needs, store_key(values), seed, recipe)
        return Result(variant, seed, key, path / "checkpoints" / checkpoint if checkpoint else path)

    def _settings(self, one: Variant, row: PaperRow | None) -> list[str]:
        """Return the settings of a variant: those of its row, of the study, of the size, and its own."""
        size = self.study.sizes[self.size]
        found = list(row.settings) if row is not None and not one.recipe else []
        if size.hub and not one.encoder:
            found += self._hub(found, one, row)
        for settings in (self.study.set, size.set, one.set, one.sets.get(self.size, ())):
            found += self._expanded(settings)
        return found

    def _hub(self, settings: list[str], one: Variant, row: PaperRow | None) -> list[str]:
        """Return the settings that load the trained weights of the encoder that a recipe names by its preset."""
        named = [setting.partition("=")[2] for setting in settings if setting.startswith("encoder.model=")]
        values = self._values(one.recipe or (row.recipe if row else "") or self.study.recipe)
        preset = named[-1] if named else values.get("encoder", {}).get("model", "")
        return list(encoder_settings().get(preset, ()))

    def _expanded(self, settings: Sequence[str]) -> list[str]:
        found: list[str] = []
        for setting in settings:
            if not setting.startswith("@"):
                found.append(setting)
            elif setting[1:] in self.study.groups:
                found += self._expanded(self.study.groups[setting[1:]])
            else:
                known = ", ".join(self.study.groups) or "none"
                raise LaminaError(f"{self.name}: there is no group {setting[1:]!r}. Fix: choose one of [groups]: {known}")
        return found

    def _filled(self, settings: Sequence[str], variant: str) -> tuple[list[str], list[str]]:
        """Return the settings with encoders and files instead of {NAME}, and the keys of the steps that write the files."""
        found, steps = [], []
        for setting in settings:
            name, equals, value = setting.partition("=")
            for word in re.findall(r"\{([\w-]+)\}", value):
                if word == "out":  # of a step
                    continue
                if word in self.study.steps:
                    job = self._step(word)
                    steps.append(job.key)
                    value = value.replace(f"{{{word}}}", str(job.path))
                elif word in self.encoders:
                    value = value.replace(f"{{{word}}}", self.encoders[word])
                else:
                    known = ", ".join([*self.encoders, *self.study.steps]) or "none"
                    raise LaminaError(f"{self.name}, {variant}: there is no {{{word}}}. Fix: use one of {known}")
            found.append(f"{name}{equals}{value}")
        return found, steps

    def _step(self, name: str) -> Job:
        """Return the job of a step, which is planned with the steps that its command reads."""
        step = self.study.steps[name]
        command, needs = self._filled([f"={word}" for word in step.command], f"steps.{name}")
        words = [word[1:] for word in command]
        mark = _digest([[word.replace(f"{self.out}/", "") for word in words], [self._stamped(word) for word in words]])
        key = f"{slug(name)}-{mark}"
        job = Job(key, "step", self.out / "steps" / f"{key}{step.ending}", tuple(needs), command=tuple(words))
        return self.jobs.setdefault(key, job)

    def _pretrained(self, recipe: str, settings: Sequence[str]) -> tuple[list[str], str]:
        """Return the settings that start from a pretrained encoder, and the key of the step that pretrains it."""
        model = [setting for setting in settings if setting.startswith("encoder.model=")][-1:]
        command = ("pretrain", str(recipe_path(recipe, pretraining_folder())), *(f"--set={setting}" for setting in model))
        mark = _digest([recipe, model])
        key = f"{slug(recipe)}-{mark}"
        job = self.jobs.setdefault(key, Job(key, "step", self.out / "steps" / key, command=command))
        return [*settings, f"encoder.model={job.path}"], key

    def _values(self, recipe: str) -> dict[str, Any]:
        if not recipe:
            raise LaminaError(f"{self.name}: a variant has neither a row nor a recipe. Fix: set recipe at the top of the file")
        if recipe not in self._files:
            self._files[recipe] = read_values(recipe_path(recipe))
        return self._files[recipe]

    def _recipe(self, recipe: str, settings: Sequence[str], variant: str) -> Recipe:
        known = json.dumps([recipe, *settings])
        if known not in self._recipes:
            where = f"{self.name}, {variant}"
            self._recipes[known] = parse_recipe(dict(self._values(recipe)), settings, name=where, origin=f"{where}: ")
        return self._recipes[known]

    def _stamped(self, name: str) -> str:
        if name not in self._stamps:
            inside = name.startswith(str(self.out))  # its name has a fingerprint
            self._stamps[name] = "" if inside else self.stamp(name)
        return self._stamps[name]


def slug(name: str) -> str:
    """Return a name as a part of a file name.

    >>> slug("C64 unshared, e=0.3")
    'C64-unshared-e-0.3'
    """
    return re.sub(r"[^\w.+-]+", "-", name).strip("-.") or "variant"


def store_key(values: Mapping[str, Any]) -> str:
    """Return a text that is equal for runs that can use the same store of hidden states."""
    tasks = {name: task["data"] for name, task in values["tasks"].items()}
    parts = [values[part] for part in ("encoder", "window", "tune", "cache")]
    return _digest([*parts, tasks, values["train"]["seed"]])


def _data_names(values: Mapping[str, Any]) -> list[str]:
    """Return the names of all datasets that a recipe reads."""
    found: list[str] = []
    for task in values["tasks"].values():
        data = task["data"]
        sets = data["train"] if isinstance(data["train"], list) else [data["train"]]
        found += [one["name"] if isinstance(one, dict) else one for one in sets]
        found += [data[split] for split in ("dev", "held_out") if data.get(split)]
    return list(dict.fromkeys(found))


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:SHORT]


def _ordered(jobs: Mapping[str, Job]) -> list[Job]:
    """Return the jobs in an order in which each follows what it needs, and jobs of one store and seed follow each other."""
    done: dict[str, Job] = {}
    groups: dict[tuple[int | None, str], list[Job]] = {}
    for job in jobs.values():
        groups.setdefault((job.seed, job.store), []).append(job)

    def add(job: Job) -> None:
        if job.key in done:
            return
        for needed in job.needs:
            add(jobs[needed])
        done[job.key] = job
        if job.kind == "train":
            for other in groups[job.seed, job.store]:
                if other.key not in done and all(needed in done for needed in other.needs):
                    done[other.key] = other

    for job in jobs.values():
        add(job)
    return list(done.values())
