"""Write the graphs of a trained model into its folder, with the manifest that `runtime` reads.

Graphs either hold their weights, for other engines, or read them from the model.safetensors of the folder: then one file of
weights serves torch and the runtime. For a task "main" they are model.onnx (float32) and model_quantized.onnx (int8), names
that transformers.js knows. `vectors` in the name marks the graphs that `Reader.embed` uses.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lamina.config.recipe import TaskOptions
from lamina.data.sources import load_examples, load_sentences
from lamina.data.windows import Windows
from lamina.encoder.adapters import merge_lora
from lamina.encoder.files import tensor_names
from lamina.errors import LaminaError
from lamina.model import Model
from lamina.runs.load import Trained
from lamina.runs.onnx_int8 import calibrate, made_in_8_bits, quantise
from lamina.runs.onnx_link import Array, LinkedGraph, link
from lamina.runs.onnx_trace import trace
from lamina.runtime.manifest import FORMAT, ExportedTask, Graph, Manifest, Precision, Purpose, write_manifest
from lamina.tasks.registry import kind_of
from lamina.tasks.sentences import SENTENCES
from lamina.utils.checksums import crc32_of
from lamina.utils.files import write_atomically
from lamina.utils.run_folder import Run

AUTO = "auto"  # calibrate on the data that the recipe names, else on the bundled corpus
_QUESTIONS, _SENTENCES, _PAIRS = "fables/dev", "fables/sentiment/dev", "fables/paraphrase/dev"


@dataclass(frozen=True)
class GraphOptions:
    """Which graphs to write. `windows` are those to calibrate int8 on, by task; without them there is no int8."""

    inside: bool = True  # graphs hold their weights; else they read model.safetensors
    windows: Mapping[str, Windows] = field(default_factory=dict)


def write_graphs(trained: Trained, folder: Path, options: GraphOptions) -> Manifest:
    """Write the graphs of all tasks and their manifest; return the manifest.

    Args:
        trained: The model. LoRA is merged if the graphs hold their weights, except in ALBERT.
        folder: A folder that holds the other files of the model.
        options: Which graphs to write.

    Raises:
        LaminaError: The graphs should read model.safetensors, but it does not hold all weights.
    """
    model = _merged(trained.model) if options.inside else trained.model
    stored = None if options.inside else set(tensor_names((Run(folder).model,)))
    tasks = {}
    for name, task in trained.recipe.tasks.items():
        sides: int = getattr(task.head, "sides", 1)
        head = {"kind": task.head.kind, "sides": sides}
        graphs: dict[Precision, dict[Purpose, Graph]] = {}
        purposes: tuple[Purpose, ...] = ("outputs", "vectors") if kind_of(task) is SENTENCES else ("outputs",)
        for purpose in purposes:
            linked, weights = link(trace(model, name, purpose, sides=sides))
            _check_stored(linked, stored, folder)
            file = f"{'model' if name == 'main' else name}{'' if purpose == 'outputs' else '_vectors'}"
            graphs.setdefault("float32", {})[purpose] = _write(folder / f"{file}.onnx", linked, weights, options.inside)
            if name in options.windows:
                small = quantise(linked, calibrate(linked, weights, options.windows[name]))
                written = _write(folder / f"{file}_quantized.onnx", small, weights, options.inside)
                graphs.setdefault("int8", {})[purpose] = written
        tasks[name] = ExportedTask(head=head, graphs=graphs)
    checksum = None if options.inside else crc32_of(Run(folder).model)
    manifest = Manifest(format=FORMAT, shape=trained.shape, weights=checksum, tasks=tasks)
    write_manifest(folder, manifest.model_dump(mode="json", exclude_defaults=True))
    return manifest


def calibration_windows(trained: Trained, data: str = AUTO) -> dict[str, Windows]:
    """Return the windows to calibrate on, by task.

    Args:
        trained: The model whose tasks read the data.
        data: A file or the name of a dataset. "auto" is the training data of the recipe, or the bundled corpus if that
            cannot be read.
    """
    return {name: _windows(trained, task, data) for name, task in trained.recipe.tasks.items()}


def _windows(trained: Trained, task: TaskOptions, data: str) -> Windows:
    kind = kind_of(task)
    if data != AUTO:
        return kind.windows(kind.read(task, data, labelled=False), trained.tokenizer, task, trained.recipe.window)
    try:
        examples = kind.read(task, task.data.sets[0].name, labelled=False)
    except LaminaError:
        examples = _bundled(task)
    return kind.windows(kind.unlabelled(examples[:5000]), trained.tokenizer, task, trained.recipe.window)


def _bundled(task: TaskOptions) -> Any:
    """Return examples of the bundled corpus; its texts are read, and its labels are not."""
    if kind_of(task) is SENTENCES:
        return load_sentences(_PAIRS if task.data.pairs or getattr(task.head, "sides", 1) == 2 else _SENTENCES)
    return load_examples(_QUESTIONS)


def _write(file: Path, graph: LinkedGraph, weights: Mapping[str, Array], inside: bool) -> Graph:
    """Write a graph, with its weights if `inside`; return its entry in the manifest."""
    import onnx

    content = graph.model
    if inside:
        content = copy.deepcopy(graph.model)
        for place, one in enumerate(content.graph.initializer):
            if (how := graph.initializers.get(one.name)) is not None:
                content.graph.initializer[place].CopyFrom(onnx.numpy_helper.from_array(made_in_8_bits(how, weights), one.name))
    write_atomically(file, content.SerializeToString())
    return Graph(file=file.name, checksum=crc32_of(file), initializers={} if inside else graph.initializers)


def _check_stored(graph: LinkedGraph, stored: set[str] | None, folder: Path) -> None:
    names = {name for how in graph.initializers.values() for name in how.tensors}
    if stored is not None and (missing := sorted(names - stored)):
        raise LaminaError(
            f"{Run(folder).model}: does not hold {missing[0]}, which a graph needs. Fix: use `lamina export --to onnx`"
        )


def _merged(model: Model) -> Model:
    """Return the model with LoRA merged into its weights, if its layers do not share them. It is a copy if that changes it."""
    if not model.encoder.adapters or model.encoder.config.shared:
        return model
    found = copy.deepcopy(model)
    merge_lora(found.encoder)
    return found
