"""Names of weights and of config.json fields in the checkpoints of each family.

`WEIGHTS` is the only table of names. Loading a checkpoint reads it from left to right, writing one from right to left.
The rest of the module handles what checkpoints add to the names: a prefix, old spellings, heads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lamina.encoder.blocks import Activation, EncoderConfig, Family
from lamina.errors import LaminaError
from lamina.utils.files import shortened

# Our name of each module -> its name in a checkpoint; {i} is the number of the block, from 0.
BERT = {
    "embeddings.word": "embeddings.word_embeddings",
    "embeddings.position": "embeddings.position_embeddings",
    "embeddings.segment": "embeddings.token_type_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
    "blocks.{i}.attention.query": "encoder.layer.{i}.attention.self.query",
    "blocks.{i}.attention.key": "encoder.layer.{i}.attention.self.key",
    "blocks.{i}.attention.value": "encoder.layer.{i}.attention.self.value",
    "blocks.{i}.attention.output": "encoder.layer.{i}.attention.output.dense",
    "blocks.{i}.attention_norm": "encoder.layer.{i}.attention.output.LayerNorm",
    "blocks.{i}.up": "encoder.layer.{i}.intermediate.dense",
    "blocks.{i}.down": "encoder.layer.{i}.output.dense",
    "blocks.{i}.output_norm": "encoder.layer.{i}.output.LayerNorm",
    "pooler": "pooler.dense",
}
ALBERT = {
    "embeddings.word": "embeddings.word_embeddings",
    "embeddings.position": "embeddings.position_embeddings",
    "embeddings.segment": "embeddings.token_type_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
    "embeddings.projection": "encoder.embedding_hidden_mapping_in",
    "blocks.{i}.attention.query": "encoder.albert_layer_groups.{i}.albert_layers.0.attention.query",
    "blocks.{i}.attention.key": "encoder.albert_layer_groups.{i}.albert_layers.0.attention.key",
    "blocks.{i}.attention.value": "encoder.albert_layer_groups.{i}.albert_layers.0.attention.value",
    "blocks.{i}.attention.output": "encoder.albert_layer_groups.{i}.albert_layers.0.attention.dense",
    "blocks.{i}.attention_norm": "encoder.albert_layer_groups.{i}.albert_layers.0.attention.LayerNorm",
    "blocks.{i}.up": "encoder.albert_layer_groups.{i}.albert_layers.0.ffn",
    "blocks.{i}.down": "encoder.albert_layer_groups.{i}.albert_layers.0.ffn_output",
    "blocks.{i}.output_norm": "encoder.albert_layer_groups.{i}.albert_layers.0.full_layer_layer_norm",
    "pooler": "pooler",
}
DISTILBERT = {
    "embeddings.word": "embeddings.word_embeddings",
    "embeddings.position": "embeddings.position_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
    "blocks.{i}.attention.query": "transformer.layer.{i}.attention.q_lin",
    "blocks.{i}.attention.key": "transformer.layer.{i}.attention.k_lin",
    "blocks.{i}.attention.value": "transformer.layer.{i}.attention.v_lin",
    "blocks.{i}.attention.output": "transformer.layer.{i}.attention.out_lin",
    "blocks.{i}.attention_norm": "transformer.layer.{i}.sa_layer_norm",
    "blocks.{i}.up": "transformer.layer.{i}.ffn.lin1",
    "blocks.{i}.down": "transformer.layer.{i}.ffn.lin2",
    "blocks.{i}.output_norm": "transformer.layer.{i}.output_layer_norm",
}
WEIGHTS: dict[Family, dict[str, str]] = {
    "bert": BERT,
    "electra": BERT | {"embeddings.projection": "embeddings_project"},
    "albert": ALBERT,
    "roberta": BERT,
    "distilbert": DISTILBERT,
}

BLOCK = re.compile(r"blocks\.(\d+)\.")

MODEL_TYPES: dict[str, Family] = {
    "bert": "bert",
    "electra": "electra",
    "albert": "albert",
    "roberta": "roberta",
    "xlm-roberta": "roberta",
    "distilbert": "distilbert",
}
POOLED: frozenset[Family] = frozenset({"bert", "albert", "roberta"})  # families whose checkpoints may have a pooler
ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_new": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "relu": "relu",
}


def checkpoint_name(family: Family, name: str) -> str:
    """Return the family's name for a weight of ours, without the prefix of the model.

    >>> checkpoint_name("distilbert", "blocks.3.up.weight")
    'transformer.layer.3.ffn.lin1.weight'
    """
    module, _, kind = name.rpartition(".")
    block = BLOCK.match(module)
    if block is None:
        return f"{WEIGHTS[family][module]}.{kind}"
    theirs = WEIGHTS[family][f"blocks.{{i}}.{module[block.end() :]}"]
    return f"{theirs.format(i=block[1])}.{kind}"


def run_name(name: str) -> str:
    """Return the name of an encoder's weight in the model file of a run."""
    return f"encoder.{name}"


@dataclass(frozen=True)
class Match:
    """How the names in a file match those of an encoder."""

    found: dict[str, str]  # our name -> the file's
    missing: dict[str, str]  # our name -> the name that the file should have
    other: tuple[str, ...]  # other names in the file: heads such as qa_outputs.weight, stray position_ids


def match(expected: Mapping[str, str], names: Iterable[str], *, prefix: str) -> Match:
    """Return which expected names (ours -> theirs) a file has, with the model's prefix or without, in new or old spelling."""
    spelled = {plain_name(name, prefix): name for name in names}
    found = {ours: spelled.pop(theirs) for ours, theirs in expected.items() if theirs in spelled}
    missing = {ours: theirs for ours, theirs in expected.items() if ours not in found}
    return Match(found, missing, tuple(spelled.values()))


def plain_name(name: str, prefix: str) -> str:
    """Return a checkpoint's name without the model's prefix and in the current spelling; old norms have gamma and beta.

    >>> plain_name("bert.embeddings.LayerNorm.gamma", "bert.")
    'embeddings.LayerNorm.weight'
    """
    name = name.removeprefix(prefix)
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def parse(values: Mapping[str, Any], *, where: str) -> EncoderConfig:
    """Return the EncoderConfig of a config.json. `where` starts the message of an error.

    ``pooler`` is True if the family can have one; only the weights show whether this checkpoint does.
    """
    model_type = values.get("model_type") if isinstance(values, Mapping) else None
    if not isinstance(model_type, str) or model_type not in MODEL_TYPES:
        known, shown = ", ".join(MODEL_TYPES), shortened(repr(model_type))
        raise LaminaError(f"{where}: Lamina cannot load model_type {shown}. Fix: choose a model of type {known}")
    family = MODEL_TYPES[model_type]
    refuse_unsupported(values, where=where)
    try:
        config = parse_distilbert(values) if family == "distilbert" else parse_bert(family, values)
        return EncoderConfig.from_json(config.to_json())
    except KeyError as error:
        raise LaminaError(f"{where}: {error.args[0]!r} is missing. Fix: download the model again, or add the field") from None
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise LaminaError(f"{where}: a field has an unusable value: {error}. Fix: download the model again") from None


def refuse_unsupported(values: Mapping[str, Any], *, where: str) -> None:
    """Raise LaminaError for settings whose results would differ from those of the checkpoint's own code."""
    supported = {
        "position_embedding_type": {"absolute"},
        "hidden_act": ACTIVATIONS.keys(),
        "activation": ACTIVATIONS.keys(),  # DistilBERT's name for it
        "is_decoder": {False},
        "num_hidden_groups": {1},
        "inner_group_num": {1},
    }
    for field, allowed in supported.items():
        if field in values and not any(values[field] == choice for choice in allowed):
            choices = ", ".join(map(repr, allowed))
            what = f"{field} = {values[field]!r} is not supported, only {choices}"
            raise LaminaError(f"{where}: {what}. Fix: choose another model")


def parse_bert(family: Family, values: Mapping[str, Any]) -> EncoderConfig:
    """Return the config of BERT, ELECTRA, ALBERT or RoBERTa. Old files omit fields with default values."""
    hidden = int(values["hidden_size"])
    pad_id = padding(values, default=1 if family == "roberta" else 0)
    return EncoderConfig(
        family=family,
        layers=int(values["num_hidden_layers"]),
        hidden=hidden,
        heads=int(values["num_attention_heads"]),
        intermediate=int(values["intermediate_size"]),
        vocab=int(values["vocab_size"]),
        positions=int(values["max_position_embeddings"]),
        types=int(values.get("type_vocab_size", 2)),
        embedding=int(values.get("embedding_size", 128)) if family in ("electra", "albert") else hidden,
        eps=float(values.get("layer_norm_eps", 1e-12)),
        activation=ACTIVATIONS[values.get("hidden_act", "gelu_new" if family == "albert" else "gelu")],
        pad_id=pad_id,
        position_offset=pad_id + 1 if family == "roberta" else 0,
        dropout=float(values.get("hidden_dropout_prob", 0.0 if family == "albert" else 0.1)),
        shared=family == "albert",
        pooler=family in POOLED,
    )


def parse_distilbert(values: Mapping[str, Any]) -> EncoderConfig:
    """Return the config of DistilBERT, whose fields have other names."""
    return EncoderConfig(
        family="distilbert",
        layers=int(values["n_layers"]),
        hidden=int(values["dim"]),
        heads=int(values["n_heads"]),
        intermediate=int(values["hidden_dim"]),
        vocab=int(values["vocab_size"]),
        positions=int(values["max_position_embeddings"]),
        types=0,
        embedding=int(values["dim"]),
        eps=1e-12,  # fixed in the family's own code
        activation=ACTIVATIONS[values.get("activation", "gelu")],
        pad_id=padding(values, default=0),
        dropout=float(values.get("dropout", 0.1)),
        pooler=False,
    )


def unparse(config: EncoderConfig, head: str = "ForQuestionAnswering") -> dict[str, Any]:
    """Return the config.json of the family's model with that head; `parse` reads it back."""
    names = {"bert": "Bert", "electra": "Electra", "albert": "Albert", "roberta": "Roberta", "distilbert": "DistilBert"}
    shared: dict[str, Any] = {
        "architectures": [f"{names[config.family]}{head}"],
        "model_type": config.family,
        "vocab_size": config.vocab,
        "max_position_embeddings": config.positions,
        "pad_token_id": config.pad_id,
        "initializer_range": 0.02,
    }
    if config.family == "distilbert":
        return shared | {
            "n_layers": config.layers,
            "dim": config.hidden,
            "n_heads": config.heads,
            "hidden_dim": config.intermediate,
            "activation": config.activation,
            "dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
            "qa_dropout": config.dropout,
            "sinusoidal_pos_embds": False,
        }
    embedding = {"embedding_size": config.embedding} if config.family in ("electra", "albert") else {}
    groups = {"num_hidden_groups": 1, "inner_group_num": 1} if config.shared else {}
    return shared | {
        "num_hidden_layers": config.layers,
        "hidden_size": config.hidden,
        "num_attention_heads": config.heads,
        "intermediate_size": config.intermediate,
        "type_vocab_size": config.types,
        "layer_norm_eps": config.eps,
        "hidden_act": config.activation,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        **embedding,
        **groups,
    }


def padding(values: Mapping[str, Any], *, default: int) -> int:
    """Return the id of the padding token; files write null for the default."""
    pad_id = values.get("pad_token_id")
    return default if pad_id is None else int(pad_id)
