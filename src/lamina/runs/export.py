"""A trained model in the format of `transformers`, so that what Lamina trains is usable everywhere."""

from __future__ import annotations

import copy
from pathlib import Path

from safetensors.torch import save_file

from lamina.encoder.adapters import has_adapters, merge_lora
from lamina.encoder.blocks import Encoder
from lamina.encoder.families import checkpoint_name, unparse
from lamina.encoder.tokenizer_config import tokenizer_config
from lamina.errors import LaminaError
from lamina.heads import SpanHead
from lamina.mixers import LastLayer
from lamina.model import Model, Task
from lamina.runs.load import Trained
from lamina.utils.files import make_folder, replacing, write_atomically, write_json


def export(trained: Trained, out: Path) -> None:
    """Writes a folder that ``AutoModelForQuestionAnswering`` and ``AutoTokenizer`` load. LoRA is merged into the weights."""
    head = exportable_head(trained.model)
    encoder = merged(trained.model.encoder)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise LaminaError(f"{out}: is there already: export into a new folder")
    make_folder(out)
    config = encoder.config
    weights = {
        f"{config.family}.{checkpoint_name(config.family, name)}": weight
        for name, weight in encoder.state_dict().items()
        if not name.startswith("pooler.")  # the question-answering models have none
    }
    weights |= {f"qa_outputs.{name}": weight for name, weight in head.state_dict().items()}
    with replacing(out / "model.safetensors") as temporary:
        save_file({name: w.detach().cpu().contiguous() for name, w in weights.items()}, temporary, metadata={"format": "pt"})
    write_json(out / "config.json", unparse(config))
    write_atomically(out / "tokenizer.json", trained.tokenizer.definition.encode())
    write_json(out / "tokenizer_config.json", tokenizer_config(trained.tokenizer, config.max_length, types=config.types > 1))


def merged(encoder: Encoder) -> Encoder:
    """The encoder with LoRA added to its weights; the one that was given stays as it is."""
    if not encoder.adapters:
        return encoder
    encoder = copy.deepcopy(encoder)
    merge_lora(encoder)
    return encoder


def exportable_head(model: Model) -> SpanHead:
    """The span head of a model that transformers has a class for; others are refused with the reason."""
    if has_adapters(model.encoder):
        raise LaminaError(
            "this model has adapters inside its layers, which transformers has no class for and no weight can take up: "
            "only LoRA can be merged"
        )
    if len(model.tasks) != 1:
        raise LaminaError(f"this model has the tasks {', '.join(model.tasks)}: only one for questions can be exported")
    (task,) = model.tasks.values()
    assert isinstance(task, Task)
    if not isinstance(task.mixer, LastLayer):
        raise LaminaError(
            f"this model mixes its layers ({type(task.mixer).__name__}), which transformers has no class for: "
            "only the last-layer mixer can be exported"
        )
    if not isinstance(task.head, SpanHead):
        raise LaminaError(f"this model's head ({type(task.head).__name__}) is not a plain span head, so it cannot be exported")
    return task.head
