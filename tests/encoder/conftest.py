"""Small random checkpoints, written by transformers, that the tests of the encoder share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

SIZES = {
    "vocab_size": 67,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 50,
    "attn_implementation": "eager",
}
DISTILBERT_SIZES = {
    "vocab_size": 67,
    "dim": 24,
    "n_layers": 3,
    "n_heads": 4,
    "hidden_dim": 40,
    "max_position_embeddings": 50,
    "attn_implementation": "eager",
}


def configs() -> dict[str, Any]:
    """Return a small configuration of every family and of every variation within the families."""
    return {
        "bert": transformers.BertConfig(**SIZES),
        "bert, relu, one head, one type": transformers.BertConfig(
            **SIZES | {"num_attention_heads": 1}, hidden_act="relu", type_vocab_size=1, layer_norm_eps=1e-3
        ),
        "electra, factorised": transformers.ElectraConfig(**SIZES, embedding_size=16),
        "electra, equal widths": transformers.ElectraConfig(**SIZES, embedding_size=24),
        "albert": transformers.AlbertConfig(**SIZES, embedding_size=16, hidden_act="gelu_new"),
        "albert, equal widths": transformers.AlbertConfig(**SIZES, embedding_size=24, hidden_act="gelu"),
        "roberta": transformers.RobertaConfig(**SIZES, pad_token_id=1, type_vocab_size=1),
        "xlm-roberta": transformers.XLMRobertaConfig(**SIZES, pad_token_id=1, type_vocab_size=1),
        "distilbert": transformers.DistilBertConfig(**DISTILBERT_SIZES),
        "distilbert, sinusoidal": transformers.DistilBertConfig(**DISTILBERT_SIZES, sinusoidal_pos_embds=True),
    }


def randomise(model: torch.nn.Module, seed: int = 0) -> None:
    """Set random weights. Initial biases of 0 and norms of 1 would hide swapped weights."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0
            parameter.copy_(centre + 0.2 * torch.randn(parameter.shape, generator=generator))


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache(session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a cache folder for the tests, so that the user's is unchanged and the default encoder is hashed once."""
    monkeypatch.setenv("LAMINA_CACHE", str(session_cache))
    return session_cache


@pytest.fixture
def theirs() -> Callable[[str], Any]:
    """Return a function that makes transformers' model of one of the small configurations, in eval mode."""

    def make(name: str, kind: Any = transformers.AutoModel) -> Any:
        model = kind.from_config(configs()[name]).eval()
        randomise(model)
        return model

    return make


@pytest.fixture
def bert(tmp_path: Path, theirs: Callable[[str], Any]) -> Path:
    """Return the folder of a small BERT, without a tokenizer."""
    folder = tmp_path / "bert"
    theirs("bert").save_pretrained(folder)
    return folder
