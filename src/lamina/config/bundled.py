"""The recipes that come with Lamina: beside the package when installed, at the top of a checkout otherwise."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from lamina.errors import LaminaError

_PACKAGE = Path(__file__).parents[1]


def recipes_folder() -> Path:
    """The recipes of `lamina train`."""
    return _folder(_PACKAGE / "recipes", "recipes")


def pretraining_folder() -> Path:
    """The recipes of `lamina pretrain`."""
    return _folder(_PACKAGE / "pretraining" / "recipes", "pretraining")


def spaces_folder() -> Path:
    """The spaces of `lamina tune`."""
    return _folder(_PACKAGE / "spaces", "spaces")


def recipe_names(folder: Path | None = None) -> list[str]:
    folder = folder or recipes_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.toml"))


def recipe_path(name: str, folder: Path | None = None, *, kind: str = "recipe") -> Path:
    """The file of a recipe that was named by its path or by its name here."""
    path = Path(name)
    if path.is_file():
        return path
    folder = folder or recipes_folder()
    names = recipe_names(folder)
    if name in names:
        return folder / f"{name}.toml"
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
    raise LaminaError(f"{name}: no such {kind} file or name; {hint}")


def space_names() -> list[str]:
    return recipe_names(spaces_folder())


def space_path(name: str) -> Path:
    """The file of a space of `lamina tune` that was named by its path or by its name here."""
    return recipe_path(name, spaces_folder(), kind="space")


def _folder(installed: Path, name: str) -> Path:
    return installed if installed.is_dir() else _PACKAGE.parents[1] / name
