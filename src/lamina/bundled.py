"""The recipes and spaces that come with Lamina: in the package when installed, at the top of a checkout otherwise."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from lamina.errors import LaminaError

_PACKAGE = Path(__file__).parent


def recipes_folder() -> Path:
    return _folder("recipes")


def recipe_names() -> list[str]:
    return _names(recipes_folder())


def recipe_path(name: str) -> Path:
    """The file of a recipe that was named by its path or by its name here."""
    return _path(name, recipes_folder(), "recipe")


def space_names() -> list[str]:
    return _names(_folder("spaces"))


def space_path(name: str) -> Path:
    """The file of a space of `lamina tune` that was named by its path or by its name here."""
    return _path(name, _folder("spaces"), "space")


def _folder(name: str) -> Path:
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parents[1] / name


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.toml"))


def _path(name: str, folder: Path, kind: str) -> Path:
    path = Path(name)
    if path.is_file():
        return path
    names = _names(folder)
    if name in names:
        return folder / f"{name}.toml"
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
    raise LaminaError(f"{name}: no such {kind} file or name; {hint}")
