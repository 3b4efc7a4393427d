"""The presets have the sizes of the published models."""

from __future__ import annotations

import pytest
import torch

from lamina.encoder.load import EncoderOptions, build, find
from lamina.encoder.presets import PRESETS

PARAMETERS = {  # parameters of transformers' AutoModel for the same configuration
    "bert-base-cased": 108_310_272,
    "bert-base-uncased": 109_482_240,
    "bert-large-uncased": 335_141_888,
    "bert-base-multilingual-cased": 177_853_440,
    "albert-base-v2": 11_683_584,
    "albert-kor-base": 13_186_816,
    "electra-small": 13_483_008,
    "koelectra-base-v2": 110_180_352,
    "koelectra-small-v3": 14_056_192,
    "ms-marco-MiniLM-L12-v2": 33_360_000,
    "multilingual-e5-small": 117_653_760,
    "tiny": 2_057_536,
}


@pytest.mark.parametrize("name", PRESETS)
def test_parameters(name: str) -> None:
    source = find(EncoderOptions(model=name), counting=True)
    with torch.device("meta"):
        encoder = build(source)
    assert sum(weight.numel() for weight in encoder.parameters()) == PARAMETERS[name]
