"""Choose the files of a split in a folder or a repository, by their names.

A split is one file (`train.json`, `data/train-v1.csv`) or the shards of one: `train-00000-of-00002.parquet`, … or
`train/0000.parquet`, ….
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from lamina.data.table_formats import ENDINGS, FORMATS
from lamina.data.tabular import listed
from lamina.errors import LaminaError

_SHARD: Final = re.compile(r"-\d{5}-of-(?P<count>\d{5})(?:-[0-9a-f]{8,})?$")  # some hub files end in a checksum
_NUMBER: Final = re.compile(r"-\d{5}-of-")
_SHOWN: Final = 8


def has_data_ending(name: str) -> bool:
    """Return whether a file may hold data, by its ending."""
    return name.lower().endswith(ENDINGS) and not name.startswith(".")


def without_ending(name: str) -> str:
    """Return a name without the ending of its format and of .gz or .xz.

    >>> without_ending("a-v1.1.json.xz")
    'a-v1.1'
    """
    ending = next((ending for ending in reversed(ENDINGS) if name.lower().endswith(ending)), "")
    return name[: len(name) - len(ending)]


def data_files(folder: Path, *, deep: bool = True) -> list[str]:
    """Return the data files of a folder, sorted, as names in it; none if the folder cannot be read."""
    try:
        found = folder.rglob("*") if deep else folder.iterdir()
        return sorted(path.relative_to(folder).as_posix() for path in found if has_data_ending(path.name) and path.is_file())
    except OSError:
        return []


def files_of_split(name: str, split: str, files: Sequence[str], owner: str, config: str = "") -> list[str]:
    """Return the only file of a split, or all of its shards in their order.

    A file fits if its name is the split's, or else if the split is a word of its name or its folders. With a config, only
    files in a folder of that name fit.

    Args:
        name: The name of the data, for messages.
        split: The split, such as "train".
        files: All files, as names relative to their folder or repository.
        owner: The folder or repository, for messages.
        config: The config, or "".

    Raises:
        LaminaError: If no file fits, if several files fit that are not shards of one, or if a shard is missing.
    """
    data = [file for file in files if has_data_ending(PurePosixPath(file).name)]
    if not data:
        raise LaminaError(f"{name}: {owner} holds no {listed(FORMATS, 'or')} files. Fix: name other data")
    inside = [file for file in data if not config or f"/{config.lower()}/" in f"/{file.lower()}"]
    stems: dict[str, list[str]] = {}  # a file, or the shards of one
    numbered = _numbered(inside)
    for file in sorted(inside):
        folder, ending = str(PurePosixPath(file).parent), _ending(file)
        stem = f"{folder}/#" if (folder, ending) in numbered else _SHARD.sub("", without_ending(file))
        stems.setdefault(stem.lower() + ending, []).append(file)
    words = {stem: re.split(r"[/._-]", without_ending(stem)) for stem in stems}
    whole = [stem for stem in stems if PurePosixPath(without_ending(stem)).name == split.lower()]
    fitting = whole or [stem for stem in stems if split.lower() in words[stem]]
    if len(fitting) == 1:
        return _all_shards(name, stems[fitting[0]])
    shown = [stems[stem][0] for stem in fitting] or inside or data
    which = ", ".join(shown[:_SHOWN])
    if fitting:
        fix = f"name one, as in {_file_name(owner, shown[0])}{_config_hint(owner, shown)}"
        raise LaminaError(f"{name}: several files fit: {which}. Fix: {fix}")
    where = f"the config {config!r} of {owner}" if config else owner
    fix = f"name one, as in {_file_name(owner, shown[0])}; it has {which}"
    raise LaminaError(f"{name}: no file of {where} is named after {split!r}. Fix: {fix}")


def _numbered(files: Sequence[str]) -> set[tuple[str, str]]:
    """Return the folders, each with an ending, in which all files of that ending have numbers of one length as names."""
    names: dict[tuple[str, str], list[str]] = {}
    for file in files:
        path = PurePosixPath(without_ending(file))
        names.setdefault((str(path.parent), _ending(file)), []).append(path.name)
    return {
        place
        for place, found in names.items()
        if place[0] != "." and all(name.isdecimal() and len(name) == len(found[0]) for name in found)
    }


def shard_pattern(paths: Sequence[Path]) -> Path:
    """Return the path that names all of these files to `files_of`: a file itself, or the pattern of shards."""
    first = paths[0]
    if len(paths) == 1:
        return first
    stem = without_ending(first.name)
    base = "?" * len(stem) if stem.isdecimal() else _NUMBER.sub("-?????-of-", stem)
    if checksum := re.search(r"-[0-9a-f]{8,}$", base):
        base = base[: checksum.start()] + "-" + "?" * (len(checksum.group()) - 1)
    return first.with_name(base + first.name[len(stem) :])


def _ending(file: str) -> str:
    return file[len(without_ending(file)) :].lower()


def _all_shards(name: str, files: list[str]) -> list[str]:
    shard = _SHARD.search(without_ending(files[0]))
    if shard and len(files) != int(shard["count"]):
        raise LaminaError(
            f"{name}: found {len(files)} of {int(shard['count'])} shards ({', '.join(files[:_SHOWN])}). Fix: get all shards"
        )
    return files


def _file_name(owner: str, file: str) -> str:
    """Return the name of a file for locate_data: in a repository of the hub or in a folder."""
    return str(Path(owner, file)) if Path(owner).is_dir() else f"hub:{owner}/{file}"


def _config_hint(owner: str, files: Sequence[str]) -> str:
    folders = {PurePosixPath(file).parent.name for file in files}
    are_configs = len(folders) == len(files) and "" not in folders
    return f", or a config, as in {owner}/{min(folders)}:SPLIT" if are_configs else ""
