"""Write a trained model in the format of `transformers`."""

from __future__ import annotations

import copy
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from lamina.encoder.adapters import has_adapters, merge_lora
from lamina.encoder.blocks import Encoder, EncoderConfig
from lamina.encoder.families import checkpoint_name, unparse
from lamina.encoder.tokenizer_config import tokenizer_config
from lamina.errors import LaminaError
from lamina.heads import SpanHead
from lamina.mixers import LastLayer
from lamina.model import Model, Task
from lamina.runs.exported_settings import FIELD, ExportedSettings
from lamina.runs.load import Trained, as_torch
from lamina.runtime.ready import ReadyModel
from lamina.utils.checksums import crc32_of
from lamina.utils.files import replacing, write_atomically, write_json
from lamina.utils.new_folders import new_folder


def export(model: ReadyModel, out: Path) -> None:
    """Write a folder that ``AutoModelForQuestionAnswering`` and ``AutoTokenizer`` load. LoRA is merged into the weights.

    The table `lamina` in its config.json holds the decision, so that `lamina.load` of the folder answers as the run does.
    """
    trained = as_torch(model)
    head = exportable_head(trained.model)
    encoder = merged(trained.model.encoder)
    config = encoder.config
    weights = {
        f"{config.family}.{checkpoint_name(config.family, name)}": weight
        for name, weight in encoder.state_dict().items()
        if not name.startswith("pooler.")  # the question-answering models have none
    }
    weights |= {f"qa_outputs.{name}": weight for name, weight in head.state_dict().items()}
    with new_folder(out, "export into a new folder") as draft:
        _write(draft, trained, weights, config)


def _write(out: Path, trained: Trained, weights: dict[str, Tensor], config: EncoderConfig) -> None:
    """Write the files of a checkpoint; config.json comes last."""
    with replacing(out / "model.safetensors") as temporary:
        save_file({name: w.detach().cpu().contiguous() for name, w in weights.items()}, temporary, metadata={"format": "pt"})
    settings = ExportedSettings(
        weights=crc32_of(out / "model.safetensors"),
        decision=trained.span_decision,
        window=trained.recipe.window,
        answer=trained.recipe.answer,
        language=trained.language,
    )
    write_json(out / "config.json", unparse(config) | {FIELD: settings.model_dump(mode="json")})
    write_atomically(out / "tokenizer.json", trained.tokenizer.definition.encode())
    write_json(out / "tokenizer_config.json", tokenizer_config(trained.tokenizer, config.max_length, types=config.types > 1))


def merged(encoder: Encoder) -> Encoder:
    """Return the encoder with LoRA merged into its weights. It is a copy if there is something to merge."""
    if not encoder.adapters:
        return encoder
    encoder = copy.deepcopy(encoder)
    merge_lora(encoder)
    return encoder


def exportable_head(model: Model) -> SpanHead:
    """Return the span head of a model, or raise LaminaError if transformers has no class for the model."""
    if has_adapters(model.encoder):
        raise LaminaError(
            "model: has adapters inside its layers, which transformers has no class for. "
            "Fix: train with LoRA instead, which export can merge"
        )
    if len(model.tasks) != 1:
        raise LaminaError(
            f"model: has the tasks {', '.join(model.tasks)}, but transformers has no class for several tasks. "
            "Fix: export a run with one span task"
        )
    (task,) = model.tasks.values()
    assert isinstance(task, Task)
    if not isinstance(task.mixer, LastLayer):
        raise LaminaError(
            f"model: mixes its layers ({type(task.mixer).__name__}), which transformers has no class for. "
            'Fix: export a run with mixer.type = "last"'
        )
    if not isinstance(task.head, SpanHead):
        raise LaminaError(
            f"model: its head ({type(task.head).__name__}) is not a plain span head, so it cannot be exported. "
            'Fix: export a run with head.type = "span"'
        )
    return task.head
