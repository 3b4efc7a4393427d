"""Find the recipes that come with Lamina.

An installed package contains them; in a checkout they are in `recipes/`. The folder holds the recipes of `lamina train`. Three
folders in it hold other files: `pretraining/` the recipes of `lamina pretrain`, `spaces/` the spaces of `lamina tune`, and
`studies/` the studies of `lamina study`.
`papers.csv` and `papers.toml` are no recipes; `paper_rows` reads them.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from lamina.errors import LaminaError
from lamina.utils.files import is_file, shortened

_PACKAGE = Path(__file__).parents[1]


def recipes_folder() -> Path:
    """Return the folder of the recipes of `lamina train`."""
    installed = _PACKAGE / "recipes"
    return installed if installed.is_dir() else _PACKAGE.parents[1] / "recipes"


def pretraining_folder() -> Path:
    """Return the folder of the recipes of `lamina pretrain`."""
    return recipes_folder() / "pretraining"


def spaces_folder() -> Path:
    """Return the folder of the spaces of `lamina tune`."""
    return recipes_folder() / "spaces"


def studies_folder() -> Path:
    """Return the folder of the studies of `lamina study`."""
    return recipes_folder() / "studies"


def paper_map_path() -> Path:
    """Return the file that maps rows of papers to recipes."""
    return recipes_folder() / "papers.toml"


def paper_numbers_path() -> Path:
    """Return the file of the numbers that the papers report."""
    return recipes_folder() / "papers.csv"


def recipe_names(folder: Path | None = None) -> list[str]:
    """Return the names in a folder, sorted; without a folder, those of `lamina train`."""
    others = [pretraining_folder(), spaces_folder(), studies_folder(), paper_map_path()] if folder is None else []
    folder = folder or recipes_folder()
    paths = [path for path in folder.rglob("*.toml") if not any(path.is_relative_to(other) for other in others)]
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in paths)


def recipe_path(name: str, folder: Path | None = None, *, kind: str = "recipe") -> Path:
    """Return the file of a recipe, given its path or its name in the folder.

    `kind` names what is searched for, such as "space", in the error.
    """
    path = Path(name)
    if is_file(path):
        return path
    names = recipe_names(folder)
    if name in names:
        return (folder or recipes_folder()) / f"{name}.toml"
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(names)}"
    raise LaminaError(f"{shortened(name)}: no such {kind} file or name. Fix: {hint}")


def space_path(name: str) -> Path:
    """Return the file of a space of `lamina tune`, given its path or its name."""
    return recipe_path(name, spaces_folder(), kind="space")


def study_path(name: str) -> Path:
    """Return the file of a study of `lamina study`, given its path or its name."""
    return recipe_path(name, studies_folder(), kind="study")


def recipe_descriptions() -> dict[str, str]:
    """Return the description of each recipe of `lamina train` by its name: the first comment line of its file."""
    folder = recipes_folder()
    return {name: first_comment(folder / f"{name}.toml") for name in recipe_names()}


def first_comment(path: Path) -> str:
    """Return the first line of a TOML file without its comment sign; empty if the line is no comment."""
    with path.open(encoding="utf-8") as file:
        line = file.readline().strip()
    return line.removeprefix("#").strip() if line.startswith("#") else ""
