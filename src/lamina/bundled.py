"""The recipes that come with Lamina: beside the package when installed, at the top of a checkout otherwise."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from lamina.errors import LaminaError

_PACKAGE = Path(__file__).parent


def recipes_folder() -> Path:
    """The recipes of `lamina train`."""
    installed = _PACKAGE / "recipes"
    return installed if installed.is_dir() else _PACKAGE.parents[1] / "recipes"


def pretraining_folder() -> Path:
    """The recipes of `lamina pretrain`."""
    installed = _PACKAGE / "pretraining" / "recipes"
    return installed if installed.is_dir() else _PACKAGE.parents[1] / "pretraining"


def recipe_names(folder: Path | None = None) -> list[str]:
    folder = folder or recipes_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.toml"))


def recipe_path(name: str, folder: Path | None = None) -> Path:
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
    raise LaminaError(f"{name}: no such recipe file or name; {hint}")
