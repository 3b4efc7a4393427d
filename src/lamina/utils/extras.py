"""Parts of Lamina that need packages which the smallest installation does not have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from typing import Final

from lamina.errors import LaminaError

TORCH: Final = "torch"
OPENVINO: Final = ("openvino", "onnx")


def missing(what: str, package: str, extra: str) -> LaminaError:
    """Return the error for something that needs a package which is not installed."""
    return LaminaError(f"{what}: needs {package}, which is not installed. Fix: pip install 'lamina-qa[{extra}]'")


def missing_torch(what: str) -> LaminaError:
    """Return the error for something that needs torch, in an installation without it."""
    return missing(what, TORCH, "train")


def installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def is_of(error: ModuleNotFoundError, package: str) -> bool:
    """Return whether an import failed because a package is not installed."""
    return (error.name or "").partition(".")[0] == package


@contextmanager
def needs(what: str, *packages: str, extra: str) -> Iterator[None]:
    """Turn the failed import of one of the packages into an error that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        for package in packages:
            if is_of(error, package):
                raise missing(what, package, extra) from None
        raise


def needs_torch(what: str) -> AbstractContextManager[None]:
    """Turn a missing torch into an error that names the extra to install."""
    return needs(what, TORCH, extra="train")
