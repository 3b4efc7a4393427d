"""Reading config.json into EncoderConfig, and the tables of names."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lamina.encoder.blocks import Encoder
from lamina.encoder.families import WEIGHTS, checkpoint_name, match, parse
from lamina.encoder.presets import PRESETS
from lamina.errors import LaminaError

BERT: dict[str, Any] = {
    "model_type": "bert",
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "vocab_size": 50,
    "max_position_embeddings": 20,
}


def test_an_old_config_with_sizes_only() -> None:
    config = parse(BERT, where="config.json")
    assert (config.family, config.types, config.eps, config.activation, config.dropout) == (
        "bert",
        2,
        1e-12,
        "gelu",
        0.1,
    )


def test_the_checkpoints_attention_dropout_is_ignored() -> None:
    assert parse(BERT | {"attention_probs_dropout_prob": 0.1}, where="config.json").attention_dropout == 0.0


def test_roberta_starts_its_positions_after_the_padding() -> None:
    for model_type in ("roberta", "xlm-roberta"):
        config = parse(BERT | {"model_type": model_type, "pad_token_id": 1}, where="config.json")
        assert (config.family, config.position_offset, config.max_length) == ("roberta", 2, 18)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model_type": "gpt2"},
            r"cannot load model_type 'gpt2'.* Fix: choose a model of type bert, electra, albert, roberta, xlm-roberta, dis",
        ),
        ({"model_type": None}, "model_type None"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_key' is not supported"),
        ({"hidden_act": "silu"}, "hidden_act = 'silu' is not supported, only 'gelu', 'gelu_new'"),
        ({"is_decoder": True}, "is_decoder = True"),
        ({"model_type": "albert", "num_hidden_groups": 2}, "num_hidden_groups = 2"),
        ({"model_type": "albert", "inner_group_num": 2}, "inner_group_num = 2"),
        ({"num_attention_heads": 5}, "a hidden size of 24 is not a multiple of 5 heads"),
        ({"hidden_size": "wide"}, "invalid literal"),
    ],
)
def test_unsupported_configs_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(LaminaError, match=f"^folder/config.json: .*{message}"):
        parse(BERT | change, where="folder/config.json")


def test_a_missing_field_is_named() -> None:
    broken = {name: value for name, value in BERT.items() if name != "vocab_size"}
    with pytest.raises(LaminaError, match=r"config.json: 'vocab_size' is missing"):
        parse(broken, where="config.json")


@pytest.mark.parametrize("preset", PRESETS)
def test_the_table_names_every_weight_once(preset: str) -> None:
    config = PRESETS[preset]
    with torch.device("meta"):
        ours = list(Encoder(config).state_dict())
    names = {checkpoint_name(config.family, name) for name in ours}
    assert len(names) == len(ours)


def test_the_tables_read_both_ways() -> None:
    for table in WEIGHTS.values():
        assert len(set(table.values())) == len(table)


def test_prefixes_old_spellings_and_other_names() -> None:
    expected = {"embeddings.norm.weight": "embeddings.LayerNorm.weight", "pooler.bias": "pooler.dense.bias"}
    names = ["bert.embeddings.LayerNorm.gamma", "bert.embeddings.position_ids", "cls.predictions.bias"]
    fit = match(expected, names, prefix="bert.")
    assert fit.found == {"embeddings.norm.weight": "bert.embeddings.LayerNorm.gamma"}
    assert fit.missing == {"pooler.bias": "pooler.dense.bias"}
    assert fit.other == ("bert.embeddings.position_ids", "cls.predictions.bias")
