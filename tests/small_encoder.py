"""A small checkpoint of BERT's family with random weights and MiniLM's vocabulary: what a user's folder looks like."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
import transformers

from lamina.encoder.load import minilm_folder


def write_small_encoder(folder: Path) -> Path:
    """Write a checkpoint with three layers of width 64 and return its folder."""
    torch.manual_seed(0)
    shape = {"num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128}
    transformers.BertModel(transformers.BertConfig(**shape)).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(minilm_folder() / name, folder / name)
    return folder
