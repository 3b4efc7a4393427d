"""Download files of datasets on the hub. They stay in the hub's cache, which is used when the hub cannot be reached."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from lamina.data.split_files import data_files, files_of_split, has_data_ending, shard_pattern
from lamina.data.table_formats import FORMATS
from lamina.data.tabular import listed
from lamina.errors import LaminaError, first_line


def fetch_split(name: str, repo: str, config: str, split: str, looked_at: str) -> Path:
    """Return the file of a split after its download; for several shards, their pattern.

    Args:
        name: The name of the data, for messages.
        repo: The dataset, as owner/name.
        config: A folder of the dataset, or "".
        split: The split, such as "train".
        looked_at: Where the name was searched before the hub, for messages.
    """
    files = files_of_split(name, split, _hub_files(name, repo, looked_at), repo, config)
    return shard_pattern([fetch_file(name, repo, file) for file in files])


def fetch_file(name: str, repo: str, file: str) -> Path:
    """Return the path of a file of a dataset after its download."""
    from huggingface_hub import hf_hub_download

    if not has_data_ending(PurePosixPath(file).name):
        endings = listed(FORMATS, "and")
        raise LaminaError(f"{name}: unknown ending. Fix: name one of the {endings} files (alone, or with .gz or .xz after it)")
    try:
        return Path(hf_hub_download(repo, file, repo_type="dataset"))
    except _hub_errors() as error:
        raise LaminaError(f"{name}: {_hub_complaint(error, repo, file)}") from None


def _hub_files(name: str, repo: str, looked_at: str) -> Sequence[str]:
    """Return the files of a dataset; if the hub cannot be reached, those in its cache."""
    from huggingface_hub import HfApi

    try:
        return HfApi().list_repo_files(repo, repo_type="dataset")
    except _hub_errors() as error:
        cached = _cached_files(repo)
        if not cached:
            raise LaminaError(f"{name}: {looked_at}; {_hub_complaint(error, repo)}") from None
        return cached


def _cached_files(repo: str) -> list[str]:
    from huggingface_hub import snapshot_download

    try:
        return data_files(Path(snapshot_download(repo, repo_type="dataset", local_files_only=True)))
    except _hub_errors():
        return []


def _hub_errors() -> tuple[type[Exception], ...]:
    """Return all errors that a request may raise. The HTTP library differs by version; the hub's own errors build on its."""
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError

    return (*HfHubHTTPError.__bases__, EntryNotFoundError, OSError, ValueError)


def _hub_complaint(error: Exception, repo: str, file: str = "") -> str:
    """Return one line on why the request failed, with its fix."""
    from huggingface_hub import constants, errors

    if isinstance(error, errors.RepositoryNotFoundError):
        return f"the hub has no dataset {repo} for you. Fix: if it is private or gated, log in with `hf auth login`"
    if isinstance(error, errors.RemoteEntryNotFoundError):
        return f"the hub's dataset {repo} has no file {file}. Fix: see its files on the page of the dataset"
    if isinstance(error, errors.HFValidationError):
        return f"{repo!r} cannot be the name of a dataset on the hub. Fix: write owner/name"
    if constants.HF_HUB_OFFLINE:
        return f"the hub is switched off (HF_HUB_OFFLINE) and its cache does not hold {file or repo}. Fix: unset HF_HUB_OFFLINE"
    if isinstance(error, errors.HfHubHTTPError):
        return f"the hub refused {repo}: {first_line(error)}. Fix: try again later, or log in with `hf auth login`"
    return (
        f"the hub cannot be reached and its cache does not hold {file or repo} ({type(error).__name__}). "
        "Fix: check the network, or name a local file"
    )
