"""The folder of a pretraining run: a checkpoint in the format of transformers, and its record.

The encoder of any recipe can be this folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import (
    Any,
    Literal,
    Required,  # pydantic checks only this one in Python 3.11
)

from pydantic import with_config
from safetensors.torch import save_file
from typing_extensions import TypedDict

from lamina.data.tokenizer import Tokenizer
from lamina.encoder.families import checkpoint_name, unparse
from lamina.encoder.tokenizer_config import tokenizer_config
from lamina.errors import LaminaError
from lamina.pretraining.model import PretrainedModel, head_weights
from lamina.utils.files import replacing, write_atomically, write_json
from lamina.utils.locks import foreign
from lamina.utils.options import STORED, stored
from lamina.utils.run_folder import Amount, Count, TrainingFolder, read_object

FORMAT = 1
HeadOrigin = Literal["loaded", "near identity", "random"]


class Origin(TypedDict):
    """Where the first weights come from, as pretraining.json records it."""

    encoder: str | None
    sha256: str | None
    head: HeadOrigin


@with_config(STORED)
class PretrainingInfo(TypedDict, total=False):
    """The content of pretraining.json. Fields that are known only after training has begun or ended are missing before."""

    format: int
    recipe: Required[dict[str, Any]]
    finished: bool
    versions: dict[str, str]
    origin: Origin
    rows: list[str | None]  # fingerprints of the sequences, to train on and held out
    tokens: list[Count]  # of the same
    device: str
    threads: Count
    steps: Count
    scores: dict[str, dict[str, float]]
    costs: dict[str, Amount]


class PretrainingFolder(TrainingFolder):
    """The paths of a pretraining folder.

    - ``pretraining.json``: format, recipe, versions, origin of the weights, held-out scores, costs
    - ``config.json``, ``model.safetensors``, ``tokenizer.json``, ``tokenizer_config.json``: the encoder and its heads
    - ``metrics.jsonl``: one line per step and per evaluation; it has no times, so equal runs have equal files
    - ``curve.png``: the losses, if matplotlib is installed
    - ``checkpoint.pt``: the state that `--resume` needs; deleted at the end

    With ``objective = "spans"``, the other files are those of a run (`utils.run_folder.Run`) instead of a checkpoint.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.info = path / "pretraining.json"
        self.config = path / "config.json"
        self.model = path / "model.safetensors"
        self.tokenizer = path / "tokenizer.json"
        self.tokenizer_config = path / "tokenizer_config.json"
        self.metrics = path / "metrics.jsonl"
        self.curve = path / "curve.png"
        self.checkpoint = path / "checkpoint.pt"

    def begin(self, recipe: Mapping[str, object]) -> None:
        """Write the record of a new pretraining; one that has begun keeps its record."""
        if not self.exists:
            write_json(self.info, {"format": FORMAT, "recipe": recipe, "finished": False})

    def read_info(self) -> PretrainingInfo:
        """Return the content of pretraining.json."""
        return stored(PretrainingInfo, read_object(self.info), str(self.info), "copy the folder again, or pretrain again")

    def check_new(self) -> None:
        if foreign(self.path):
            raise LaminaError(f"{self.path}: already exists and is not a pretraining folder. Fix: use another --out")


def write_transformers_checkpoint(folder: PretrainingFolder, model: PretrainedModel, tokenizer: Tokenizer) -> None:
    """Write the files that `AutoModelForMaskedLM` and `AutoTokenizer` load.

    The decoder is tied: its weights are the embeddings, so they are not written twice.
    """
    config = model.encoder.config
    weights = {
        f"{config.family}.{checkpoint_name(config.family, name)}": weight for name, weight in model.encoder.state_dict().items()
    }
    weights |= head_weights(model)
    head = "ForMaskedLM" if model.next_sentence is None else "ForPreTraining"
    write_atomically(folder.tokenizer, tokenizer.definition.encode())
    write_json(folder.tokenizer_config, tokenizer_config(tokenizer, config.max_length, types=config.types > 1))
    write_json(folder.config, unparse(config, head) | {"tie_word_embeddings": True})
    with replacing(folder.model) as draft:
        save_file({name: w.detach().cpu().contiguous() for name, w in weights.items()}, draft, metadata={"format": "pt"})
