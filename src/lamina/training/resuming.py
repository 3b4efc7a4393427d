"""Check that a run that has begun continues with the same recipe, texts and weights."""

from __future__ import annotations

import warnings

from lamina.config.differences import changed
from lamina.config.parse import parse_recipe
from lamina.config.recipe import Recipe
from lamina.errors import LaminaError, LaminaWarning
from lamina.utils.files import is_file
from lamina.utils.run_folder import Run, RunInfo


def check_recipe(run: Run, recipe: Recipe) -> None:
    """Raise LaminaError if a run that has begun would continue with another recipe."""
    if not is_file(run.recipe):
        return
    written = recipe.model_dump(mode="json")
    old = parse_recipe(run.read_recipe(), name=str(run.recipe)).model_dump(mode="json")
    if old != written:
        different = changed(old, written)
        what = f"the recipe has changed since this run began ({different})"
        raise LaminaError(f"{run.path}: {what}. Fix: use another folder, or delete this one")


def check_unchanged(run: Run, old: RunInfo, new: RunInfo) -> None:
    """Raise LaminaError if the texts or weights changed since the run began. Warn if the machine or the versions changed."""
    for what, then, now in (
        ("augment.eda.synonyms", old.get("synonyms", []), new["synonyms"]),
        ("the training texts", old.get("windows"), new["windows"]),
        ("the encoder's weights", old.get("encoder", {}).get("sha256"), new["encoder"]["sha256"]),
        ("the weights of head.start", old.get("heads", {}), new["heads"]),
        ("the weights of terms.teacher.runs", old.get("teachers", {}), new["teachers"]),
    ):
        if then != now:
            raise LaminaError(f"{run.path}: {what} changed since this run began. Fix: use another folder, or delete this one")
    machine: list[tuple[str, object, object]] = [
        ("threads", old.get("threads"), new["threads"]),
        ("device", old.get("device"), new["device"]),
        ("versions", old.get("versions"), new["versions"]),
    ]
    count, count_now = old.get("processes", 1), new.get("processes", 1)
    if count != count_now:
        what = f"processes changed from {count} to {count_now}, so their micro-batches may have other dropout"
        warnings.warn(f"{run.path}: {what}", LaminaWarning, stacklevel=3)
    for key, before, after in machine:
        if before != after:
            message = f"{run.path}: {key} changed from {before} to {after}, so the weights may differ in their last bits"
            warnings.warn(message, LaminaWarning, stacklevel=3)
