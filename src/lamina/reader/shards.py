"""Answer a folder of shards: a parquet file of answers for each file of questions, by any number of workers.

Each file of answers is written atomically, and its metadata name the shard, the model and the settings. So a run that was
stopped continues where it was, and answers of two models never mix.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from lamina.data.sources import load_examples
from lamina.data.split_files import data_files, without_ending
from lamina.data.tabular import files_of
from lamina.errors import LaminaError
from lamina.reader.distributed import Answerer, Columns, arrow_table
from lamina.utils.checksums import crc32_of
from lamina.utils.extras import needs
from lamina.utils.files import is_folder, make_folder, remove_drafts, replacing, same_file
from lamina.utils.locks import alone
from lamina.utils.progress import Progress, Silent
from lamina.utils.shipped import model_folder
from lamina.utils.spreading import Lost, Workers

_METADATA: Final = b"lamina"  # the key of what a file of answers says about itself
_MODEL_FILES: Final = ("*.json", "*.safetensors", "*.bin", "*.onnx")  # what decides the answers of a model


@dataclass(frozen=True)
class Shard:
    """A file of questions, and the file for its answers."""

    source: Path
    out: Path


@dataclass(frozen=True)
class ShardCounts:
    """What a file of answers holds."""

    questions: int
    answered: int


@dataclass(frozen=True)
class Summary:
    """The counts of all shards that were answered, now or before, and the reasons of those that failed."""

    shards: int
    kept: int  # finished before
    questions: int
    answered: int
    failed: dict[str, str]


@dataclass(frozen=True)
class _Work:
    """Answers shards, in any process."""

    answerer: Answerer
    duplicate_ids: Literal["error", "rename"]
    model: str  # fingerprint

    def __call__(self, shard: Shard) -> ShardCounts | Lost:
        """Write the answers of a shard. A mistake in its file is the result, so that the other shards go on."""
        try:
            examples = []
            if shard.source.stat().st_size:  # engines write empty files for empty partitions
                examples = load_examples(str(shard.source), duplicate_ids=self.duplicate_ids, answers="ignore")
            answers = self.answerer.answers(examples)
            counts = ShardCounts(len(answers["id"]), sum(map(bool, answers["answer"])))
            about = {"model": self.model, "source": shard.source.name, **_stamp(shard.source), **asdict(counts)}
            _write(shard.out, answers, about)
        except LaminaError as error:
            return Lost(str(error))
        return counts


def answer_shards(
    data: str,
    out: Path,
    answerer: Answerer,
    workers: Workers,
    *,
    duplicate_ids: Literal["error", "rename"] = "error",
    progress: Progress | None = None,
) -> Summary:
    """Answer all shards of a folder or pattern into the folder `out`. Shards that were answered before are skipped.

    Args:
        data: A folder, whose data files are the shards, or a pattern such as ``my/part-*.parquet``.
        out: The folder for the answers; ``part-3.jsonl`` becomes ``part-3.parquet``.
        answerer: The model and its settings.
        workers: What computes.
        duplicate_ids: What to do with ids that occur twice in a shard.
        progress: Where progress goes; nowhere if None.

    Raises:
        LaminaError: There are no shards, two of them have one name, or `out` holds answers of another model.
    """
    progress = progress or Silent()
    with needs("predicting a folder", "pyarrow", extra="parquet"):
        import pyarrow.parquet  # noqa: F401 - before anything is computed
    shards = find_shards(data, out)
    answerer = answerer.decided()  # a worker that tests the speed itself could choose another number format
    work = _Work(answerer, duplicate_ids, fingerprint(answerer))
    with alone(out):
        remove_drafts(out)
        found: dict[Shard, ShardCounts | Lost] = {}
        for shard in shards:
            if counts := _finished(shard, work.model):
                found[shard] = counts
        kept = len(found)
        progress.start("answering shards", len(shards), kept)
        for shard, result in workers.spread(work, [shard for shard in shards if shard not in found]):
            found[shard] = result
            if isinstance(result, Lost):
                progress.say(f"{shard.source}: not answered: {result.reason}")
            progress.advance(1)
    done = [one for one in found.values() if isinstance(one, ShardCounts)]
    failed = {str(shard.source): one.reason for shard, one in found.items() if isinstance(one, Lost)}
    return Summary(len(shards), kept, sum(one.questions for one in done), sum(one.answered for one in done), failed)


def find_shards(data: str, out: Path) -> list[Shard]:
    """Return the shards of a folder or a pattern, in the order of their names."""
    place = Path(data).expanduser()
    if is_folder(place):
        files = [place / name for name in data_files(place, deep=False)]
    else:
        files = [file for file in files_of(place) if file.is_file()]
    if not files:
        raise LaminaError(f"{data}: no data files. Fix: name a folder of JSONL or parquet files, or a pattern of their names")
    if is_folder(out) and same_file(files[0].parent, out):
        raise LaminaError(f"{out}: is the folder of the questions. Fix: name another folder with --out")
    names: dict[str, Path] = {}
    for file in files:
        name = f"{without_ending(file.name)}.parquet"
        if name in names:
            raise LaminaError(f"{file}: its answers would replace those of {names[name].name}. Fix: rename one of the two")
        names[name] = file
    return [Shard(file.absolute(), out.resolve() / name) for name, file in names.items()]


def fingerprint(answerer: Answerer) -> str:
    """Return a text that changes with the files of the model and with the settings that change answers."""
    folder = model_folder(answerer.model)
    files = sorted({file for pattern in _MODEL_FILES for file in folder.glob(pattern)}) if is_folder(folder) else []
    stamps = {file.name: crc32_of(file) for file in files} or str(answerer.model)
    settings = {name: getattr(answerer, name) for name in ("threshold", "backend", "precision", "device")}
    return json.dumps({"files": stamps, **settings}, sort_keys=True)


def read_about(file: Path) -> dict[str, Any] | None:
    """Return what a file of answers says about itself; None if it is no such file."""
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        metadata = parquet.read_schema(file).metadata or {}
        about: dict[str, Any] = json.loads(metadata[_METADATA])
    except (OSError, pyarrow.ArrowException, KeyError, ValueError):
        return None
    return about


def _finished(shard: Shard, model: str) -> ShardCounts | None:
    """Return the counts of a shard that was answered before. A shard that has changed since then is answered again."""
    if not shard.out.exists():
        return None
    about = read_about(shard.out)
    if about is None:
        raise LaminaError(f"{shard.out}: exists and holds no answers of Lamina. Fix: name another folder with --out")
    if about["model"] != model:
        raise LaminaError(f"{shard.out}: holds answers of another model or of other settings. Fix: use another --out")
    if any(about[name] != value for name, value in _stamp(shard.source).items()):
        return None
    return ShardCounts(about["questions"], about["answered"])


def _stamp(file: Path) -> dict[str, object]:
    return {"bytes": file.stat().st_size, "checksum": crc32_of(file)}


def _write(file: Path, answers: Columns, about: dict[str, Any]) -> None:
    import pyarrow.parquet as parquet

    table = arrow_table(answers).replace_schema_metadata({_METADATA: json.dumps(about)})
    make_folder(file.parent)
    with replacing(file) as draft:
        parquet.write_table(table, draft)
