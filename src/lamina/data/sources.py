"""Names of data -> examples or sentences. A name is looked up as bundled, as a path, in ``$LAMINA_DATA``, then on the hub.
What is in a file of questions, SQuAD's shape or several contexts a question, shows in the file itself.

``fables/dev``                     bundled: written on the spot by `lamina.data.fables`
``fables/sentiment/dev``           likewise, labelled sentences
``my/questions.csv``               a path
``squad2-dev-cs224n``              a file in ``$LAMINA_DATA``, with or without its ending
``owner/name:dev``                 the data set on the hub, the file of that split
``hub:owner/name/v2/dev.json``     the data set on the hub, that file

On the hub only files of `FORMATS` are read (plain, .gz, .xz), not parquet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, Literal

from lamina.data import multi_context, sentences, squad
from lamina.data.examples import Example, Sentence
from lamina.data.question_records import QUESTION_FORMATS
from lamina.data.sentences import USUAL_READING, SentenceReading
from lamina.data.tabular import PACKINGS, TABLE_FORMATS
from lamina.errors import LaminaError
from lamina.utils.files import check_apart, holds, same_file

if TYPE_CHECKING:
    from lamina.data.fables.sentences import SentenceTask

FORMATS: Final = tuple(dict.fromkeys((*QUESTION_FORMATS, *TABLE_FORMATS)))  # .json, .jsonl, .csv, .tsv
ENDINGS: Final = tuple(name + packing for name in FORMATS for packing in PACKINGS)

_NOT_QUESTIONS: Final = "{}: holds labelled sentences, which the heads of sentences read, not questions to contexts"
_REPO: Final = r"(?P<repo>\w[\w.-]*/\w[\w.-]*)"
_HUB_SPLIT: Final = re.compile(rf"(?:hub:)?{_REPO}:(?P<split>[\w.-]+)")
_HUB_FILE: Final = re.compile(rf"hub:{_REPO}/(?P<file>[^:]+)")


@dataclass(frozen=True, slots=True)
class Bundled:
    """Data that the project writes itself; there is no file of it."""

    split: Literal["train", "dev"]
    task: SentenceTask | None = None  # what its sentences are labelled for; None where it is a corpus of questions


_SPLITS: Final[tuple[Literal["train", "dev"], ...]] = ("train", "dev")
_TASKS: Final[tuple[SentenceTask, ...]] = ("sentiment", "paraphrase", "similarity")
BUNDLED: Final[Mapping[str, Bundled]] = {f"fables/{split}": Bundled(split) for split in _SPLITS} | {
    f"fables/{task}/{split}": Bundled(split, task) for task in _TASKS for split in _SPLITS
}


@dataclass(frozen=True, slots=True)
class AvailableData:
    """A name that can be loaded without the hub: what it is, its size in bytes and its path, where it is a file."""

    name: str
    format: str
    size: int | None = None
    path: Path | None = None


def check_writes(name: str, outs: Sequence[Path]) -> None:
    """What is made from the data of that name goes neither over it nor twice into one file."""
    place = locate_data(name)
    for number, out in enumerate(outs):
        if isinstance(place, Path):
            check_apart(place, out)
        if any(same_file(out, other) for other in outs[:number]):
            raise LaminaError(f"{out}: is named twice: one would be written over the other")


def load_examples(
    name: str, *, duplicate_ids: squad.DuplicateIds = "error", answers: squad.AnswerChecking = "check"
) -> list[Example]:
    """The examples of the data of that name."""
    place = locate_data(name)
    if isinstance(place, Bundled):
        from lamina.data import fables

        if place.task is not None:
            raise LaminaError(_NOT_QUESTIONS.format(name))
        return squad.parse_corpus(fables.make(place.split), name, duplicate_ids=duplicate_ids, answers=answers)
    try:
        return squad.read(place, duplicate_ids=duplicate_ids, answers=answers)
    except LaminaError:
        if multi_context.holds_contexts(place):
            return multi_context.read_multi_context(place, duplicate_ids=duplicate_ids, answers=answers)
        if sentences.holds_sentences(place):
            raise LaminaError(_NOT_QUESTIONS.format(name)) from None
        raise


def load_sentences(name: str, how: SentenceReading = USUAL_READING) -> list[Sentence]:
    """The sentences of the data of that name."""
    place = locate_data(name)
    if isinstance(place, Bundled):
        from lamina.data.fables.sentences import make_sentences

        if place.task is None:
            raise LaminaError(f"{name}: holds questions to contexts, which the span heads read, not the heads of sentences")
        return make_sentences(place.task, place.split)
    return sentences.read_sentences(place, how)


def locate_data(name: str) -> Path | Bundled:
    """Where the data of that name is. From the hub it is fetched, once; the hub's cache keeps it."""
    if name in BUNDLED:
        return BUNDLED[name]
    for place in _local_places(name):
        if holds(place.is_file):
            return place
    if match := _HUB_SPLIT.fullmatch(name):
        repo = match["repo"]
        return _fetch(name, repo, _file_of_split(name, repo, match["split"], _hub_files(name, repo)))
    if match := _HUB_FILE.fullmatch(name):
        return _fetch(name, match["repo"], match["file"])
    raise LaminaError(_not_found(name))


def available() -> list[AvailableData]:
    """What is there without asking the hub: the bundled names and the files of ``$LAMINA_DATA``."""
    folder = _data_folder()
    files = _data_files(folder, deep=True) if folder else ()
    return [AvailableData(name, "generated") for name in BUNDLED] + [
        AvailableData(file.relative_to(folder).as_posix(), _format(file), file.stat().st_size, file) for file in files if folder
    ]


def _format(path: Path) -> str:
    """What the ending says, whatever the packing."""
    return next(part for part in reversed(path.name.lower().split(".")) if f".{part}" in ENDINGS)


# This machine


def _data_folder() -> Path | None:
    folder = os.environ.get("LAMINA_DATA", "").strip()
    return Path(folder).expanduser() if folder else None


def _local_places(name: str) -> Iterator[Path]:
    yield Path(name).expanduser()
    if folder := _data_folder():
        for ending in ("", *ENDINGS):
            yield folder / f"{name}{ending}"


def _data_files(folder: Path, *, deep: bool) -> list[Path]:
    """The files whose ending says that they may be data, sorted; none where the folder cannot be read."""
    try:
        found = folder.rglob("*") if deep else folder.iterdir()
        return sorted(path for path in found if _has_data_ending(path.name) and path.is_file())
    except OSError:
        return []


def _has_data_ending(name: str) -> bool:
    return name.lower().endswith(ENDINGS) and not name.startswith(".")


def _listed(word: str) -> str:
    """The endings as a message lists them."""
    return f"{', '.join(FORMATS[:-1])} {word} {FORMATS[-1]}"


def _without_ending(name: str) -> str:
    ending = next((ending for ending in reversed(ENDINGS) if name.lower().endswith(ending)), "")
    return name.removesuffix(name[len(name) - len(ending) :]) if ending else name


# What to say when nothing is found


def _not_found(name: str) -> str:
    if name.startswith("hub:"):
        return f"{name}: not a name on the hub: write hub:owner/name/path/of/file.json or owner/name:split"
    path = Path(name).expanduser()
    if holds(path.is_dir):
        inside = ", ".join(file.name for file in _data_files(path, deep=False)[:5])
        return f"{name}: is a folder: name a file in it{f': {inside}' if inside else ' (it holds no data files)'}"
    close = get_close_matches(name, _known_names(path), n=3)
    hint = f": did you mean {' or '.join(map(repr, close))}?" if close else ""
    return f"{name}: no such data: {_looked_at(name)}{hint}"


def _looked_at(name: str) -> str:
    folder = _data_folder()
    if folder is None:
        return f"no bundled name, no file {Path(name).expanduser()}, and $LAMINA_DATA is not set"
    state = "" if holds(folder.is_dir) else ", which is no folder"
    return f"no bundled name, no file {Path(name).expanduser()}, and not in $LAMINA_DATA ({folder}{state})"


def _known_names(path: Path) -> list[str]:
    """What may have been meant: bundled names, files beside the path, and those of the data folder without ending."""
    beside = [str(path.with_name(file.name)) for file in _data_files(path.parent, deep=False)] if path.name else []
    folder = _data_folder()
    data = [file.relative_to(folder).as_posix() for file in _data_files(folder, deep=True)] if folder else []
    return list(dict.fromkeys([*BUNDLED, *map(_without_ending, data), *beside]))


# The hub


def _hub_files(name: str, repo: str) -> Sequence[str]:
    """The files of a data set on the hub; if it cannot be asked, those that its cache holds."""
    from huggingface_hub import HfApi

    try:
        return HfApi().list_repo_files(repo, repo_type="dataset")
    except _hub_errors() as error:
        cached = _cached_files(repo)
        if not cached:
            raise LaminaError(f"{name}: {_looked_at(name)}; {_hub_complaint(error, repo)}") from None
        return cached


def _cached_files(repo: str) -> list[str]:
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(repo, repo_type="dataset", local_files_only=True))
    except _hub_errors():
        return []
    return [file.relative_to(folder).as_posix() for file in _data_files(folder, deep=True)]


def _fetch(name: str, repo: str, file: str) -> Path:
    from huggingface_hub import hf_hub_download

    if not _has_data_ending(PurePosixPath(file).name):
        raise LaminaError(f"{name}: only {_listed('and')} files can be read (alone, or with .gz or .xz after it)")
    try:
        return Path(hf_hub_download(repo, file, repo_type="dataset"))
    except _hub_errors() as error:
        raise LaminaError(f"{name}: {_hub_complaint(error, repo, file)}") from None


def _file_of_split(name: str, repo: str, split: str, files: Iterable[str]) -> str:
    """The only file that bears the split's name: as its whole name, or else as a word of it or of its folders."""
    data = [file for file in files if _has_data_ending(PurePosixPath(file).name)]
    stems = {file: _without_ending(file).lower() for file in data}
    whole = [file for file in data if PurePosixPath(stems[file]).name == split.lower()]
    words = [file for file in data if split.lower() in re.split(r"[/._-]", stems[file])]
    fitting = whole or words
    if len(fitting) == 1:
        return fitting[0]
    which = ", ".join((fitting or data)[:8])
    if fitting:
        raise LaminaError(f"{name}: several files fit: name one, as in hub:{repo}/{fitting[0]}: {which}")
    if data:
        raise LaminaError(f"{name}: no file of {repo} is named after {split!r}: name one, hub:{repo}/FILE: {which}")
    raise LaminaError(f"{name}: {repo} holds no {_listed('or')} files (parquet is not read)")


def _hub_errors() -> tuple[type[Exception], ...]:
    """All that asking the hub may raise. Its HTTP library differs by version; its own errors build on that one's."""
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError

    return (*HfHubHTTPError.__bases__, EntryNotFoundError, OSError, ValueError)


def _hub_complaint(error: Exception, repo: str, file: str = "") -> str:
    """One line on why the hub did not give what was asked for."""
    from huggingface_hub import constants, errors

    if isinstance(error, errors.RepositoryNotFoundError):
        return f"the hub has no data set {repo} for you: if it is private or gated, log in with `hf auth login`"
    if isinstance(error, errors.RemoteEntryNotFoundError):
        return f"the hub's data set {repo} has no file {file}"
    if isinstance(error, errors.HFValidationError):
        return f"{repo!r} cannot be the name of a data set on the hub"
    if constants.HF_HUB_OFFLINE:
        return f"the hub is switched off (HF_HUB_OFFLINE) and its cache does not hold {file or repo}"
    if isinstance(error, errors.HfHubHTTPError):
        return f"the hub refused {repo}: {str(error).splitlines()[0]}"
    return f"the hub cannot be reached and its cache does not hold {file or repo} ({type(error).__name__})"
