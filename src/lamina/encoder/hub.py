"""Download models from the hub, and describe failures without the token."""

from __future__ import annotations

from difflib import get_close_matches
from functools import partial
from pathlib import Path

from lamina.errors import LaminaError
from lamina.utils.files import holds, names_in

SMALL_FILES = ("*.json", "*.txt", "*.model")


def download(
    name: str, *, pretrained: bool, allow_pickle: bool, revision: str | None = None, token: str | bool | None = None
) -> Path:
    """Return the folder of a hub model's files; files that are already here are not downloaded again."""
    from huggingface_hub import snapshot_download

    _check_no_run(name)
    token = stripped(token)
    fetch = partial(snapshot_download, name, ignore_patterns=["*/*"], revision=revision, token=token)
    weights = ["*.safetensors"] if pretrained else []
    try:
        folder = Path(fetch(allow_patterns=[*SMALL_FILES, *weights]))
        if pretrained and allow_pickle and not any(folder.glob("*.safetensors")):
            fetch(allow_patterns=["pytorch_model*.bin"])
    except Exception as error:  # the hub's client raises dozens of types; all mean the same for the user
        what = f"there is no such folder, and the download from the hub failed: {line(error, token)}"
        raise LaminaError(f"{name!r}: {what}. Fix: check the path, or the hub id and the network") from None
    return folder


def _check_no_run(name: str) -> None:
    """Raise LaminaError if a name is that of a run that does not exist, not a hub id: its folder holds runs."""
    place = Path(name)
    inside = names_in(place.parent) if holds(place.parent.is_dir) else []
    runs = [one for one in inside if holds((place.parent / one / "run.json").is_file)]
    if runs or str(place.parent) == "runs":
        close = get_close_matches(place.name, runs, n=1)
        fix = f"did you mean {place.parent / close[0]}?" if close else "check the path, or train a model with `lamina train`"
        raise LaminaError(f"{name}: there is no such run in the folder {place.parent}. Fix: {fix}")


def stripped(token: str | bool | None) -> str | bool | None:
    """Return a token without the space around it, which a file or a copied line may add."""
    return token.strip() if isinstance(token, str) else token


def line(error: Exception, token: str | bool | None = None) -> str:
    """Return the first line of an exception's text, or its type if it has no text. The token in it is replaced.

    >>> line(ValueError("Illegal header value b'Bearer hf_1\\\\n2'"), "hf_1\\n2")
    "Illegal header value b'Bearer [token]'"
    """
    text = str(error).strip() or type(error).__name__
    if isinstance(token, str) and token:
        text = text.replace(token, "[token]").replace(repr(token)[1:-1], "[token]")
    return text.splitlines()[0]
