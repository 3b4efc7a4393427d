"""The manifest of an exported model, onnx.json: its graphs, where their weights are, and what a recipe does not store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from lamina.errors import LaminaError
from lamina.utils.checksums import crc32_of, crc32_of_json
from lamina.utils.files import read_json, write_json
from lamina.utils.run_folder import Run

MANIFEST: Final = "onnx.json"
FORMAT: Final = 1
Precision = Literal["float32", "int8"]
Purpose = Literal["outputs", "vectors"]  # the outputs of the head, or the vectors of texts that `embed` returns


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Initializer(_Part):
    """A tensor of a graph that is made from tensors of model.safetensors: joined along the rows, then transposed.

    `form` is "float32" for the weights, "int8" for the whole numbers of packed rows, and "scales" for their scales. A linear
    map in 8 bits has some inputs in float32 (`runs.onnx_int8`). Their rows of the transposed weight are the `rows` of one
    tensor, and `zeros` in the other.
    """

    tensors: tuple[str, ...]
    form: Literal["float32", "int8", "scales"] = "float32"
    transposed: bool = False
    rows: tuple[int, ...] = ()  # of the transposed tensor; all if empty
    zeros: tuple[int, ...] = ()  # rows of the transposed tensor that are set to 0


class Graph(_Part):
    """A graph in the format of ONNX. `initializers` are read from model.safetensors; the file holds all others."""

    file: str
    checksum: str
    initializers: dict[str, Initializer] = {}


class ExportedTask(_Part):
    """A task: what its head is, and its graphs by number format and purpose."""

    head: dict[str, Any]  # `kind` and `sides`, as in `settings.HeadView`
    graphs: dict[Precision, dict[Purpose, Graph]]


class Manifest(_Part):
    """The content of onnx.json."""

    format: int
    shape: str  # of the encoder, as text
    weights: str | None = None  # checksum of model.safetensors, which the graphs read; None: each graph holds its weights
    tasks: dict[str, ExportedTask]
    checksum: str | None = None  # of all other fields as the file has them; exports of older versions have none

    @property
    def precisions(self) -> list[Precision]:
        """The number formats that every task has a graph for."""
        return [one for one in ("float32", "int8") if all(one in task.graphs for task in self.tasks.values())]


def has_manifest(folder: Path) -> bool:
    """Return whether a folder holds an exported model."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder.

    Raises:
        LaminaError: The file is missing or damaged, or the graphs were made for other weights.
    """
    file = folder / MANIFEST
    content = read_json(file)
    try:
        manifest = Manifest.model_validate(content)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        raise LaminaError(f"{file}: {place}: {problem['msg']}. Fix: copy or export the model again") from None
    if manifest.format != FORMAT:
        raise LaminaError(
            f"{file}: format {manifest.format}, this version of Lamina reads format {FORMAT}. Fix: export the model again"
        )
    if manifest.checksum is not None and manifest.checksum != _checksum(content):
        raise LaminaError(f"{file}: differs from its checksum. Fix: copy or export the model again")
    if manifest.weights is not None and crc32_of(Run(folder).model) != manifest.weights:
        raise LaminaError(f"{file}: the graphs were made for other weights than model.safetensors. Fix: export the model again")
    return manifest


def write_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    """Write the manifest of a folder, with its checksum. `content` has the fields of `Manifest`, and may have more."""
    write_json(folder / MANIFEST, {**content, "checksum": _checksum(content)})


def _checksum(content: Mapping[str, Any]) -> str:
    return crc32_of_json({name: value for name, value in content.items() if name != "checksum"})
