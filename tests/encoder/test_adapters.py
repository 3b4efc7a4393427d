"""Adapters and LoRA equal the plain maths, and leave other layers unchanged."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from lamina.encoder.adapters import Adapter, AdapterOptions, LoraOptions, LowRank, has_adapters, merge_lora, slots_of
from lamina.encoder.blocks import Encoder, EncoderConfig
from lamina.encoder.presets import PRESETS
from lamina.errors import LaminaError

TINY = replace(PRESETS["tiny"], layers=3, hidden=16, embedding=16, intermediate=32, vocab=50, positions=20, dropout=0.0)
ALBERT = replace(TINY, family="albert", shared=True)


def encoder(config: EncoderConfig = TINY) -> Encoder:
    torch.manual_seed(0)
    return Encoder(config).eval()


def states(module: Encoder, keep: tuple[int, ...] = (1, 2, 3)) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 50, (2, 7), generator=generator)
    mask = torch.ones(2, 7, dtype=torch.bool)
    mask[1, 5:] = False
    with torch.no_grad():
        return list(module(module.embed(ids, torch.zeros_like(ids)), mask, keep=keep).states)


def shaken(module: nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)))


def test_an_adapter_equals_its_formula() -> None:
    adapter = Adapter(16, 4, 1e-3)
    shaken(adapter)
    x = torch.randn(2, 5, 16)
    down, up = adapter.down, adapter.up
    inner = x @ down.weight.T + down.bias
    wanted = x + (inner * 0.5 * (1 + torch.erf(inner / 2**0.5))) @ up.weight.T + up.bias
    torch.testing.assert_close(adapter(x), wanted)


def test_adapters_follow_attention_and_feed_forward_before_the_residual_sum() -> None:
    """Compare with the block written out by hand."""
    made = encoder()
    AdapterOptions(size=4, layers=(1,)).insert(made)
    slots = slots_of(made, 1)
    shaken(slots)
    block = made.layers[0]
    ids = torch.arange(6)[None]
    x = made.embed(ids, torch.zeros_like(ids))
    middle = block.attention_norm(x + slots.attention(block.attention(x, None, nn.ModuleDict())))
    inner = block.down(block.activation(block.up(middle)))
    wanted = block.output_norm(middle + slots.feed_forward(inner))
    found = made(x, torch.ones(1, 6, dtype=torch.bool), keep=(1,)).layer(1)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("options", [AdapterOptions(size=4, init=1e-6), LoraOptions(rank=2)], ids=["adapters", "lora"])
@pytest.mark.parametrize("config", [TINY, ALBERT], ids=["bert", "albert"])
def test_adapters_start_as_the_identity_and_differ_between_layers(
    options: AdapterOptions | LoraOptions, config: EncoderConfig
) -> None:
    plain, made = encoder(config), encoder(config)
    options.insert(made)
    for before, after in zip(states(plain), states(made), strict=True):
        torch.testing.assert_close(after, before, atol=1e-4, rtol=0)
    shaken(slots_of(made, 2))
    assert torch.allclose(states(made)[0], states(plain)[0], atol=1e-4), "layer 1 does not depend on the adapter of layer 2"
    assert not torch.allclose(states(made)[1], states(plain)[1], atol=1e-2)


def test_lora_equals_an_update_of_the_weight() -> None:
    """Updates beside the projection and merged into it give the same states."""
    made = encoder()
    LoraOptions(rank=3, alpha=6, targets=("query", "key", "value", "output"), layers=2).insert(made)
    shaken(made.adapters)
    wanted = states(made)
    update = slots_of(made, 3).updates["query"]
    assert isinstance(update, LowRank)
    torch.testing.assert_close(update.product(), 2.0 * update.b @ update.a)
    merge_lora(made)
    assert not any(True for _ in made.adapters.parameters())
    for found, expected in zip(states(made), wanted, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_lora_of_a_shared_block_cannot_be_merged() -> None:
    made = encoder(ALBERT)
    LoraOptions(rank=2).insert(made)
    with pytest.raises(LaminaError, match="share one block"):
        merge_lora(made)


def test_only_adapters_count_as_adapters() -> None:
    made = encoder()
    LoraOptions().insert(made)
    assert not has_adapters(made)
    AdapterOptions(layers=1, after=("feed_forward",)).insert(made)
    assert has_adapters(made)
    assert isinstance(slots_of(made, 3).attention, nn.Identity)
    assert isinstance(slots_of(made, 2).feed_forward, nn.Identity)


@pytest.mark.parametrize("layers", [0, 4, (0,), (2, 4)])
def test_unknown_layers_are_refused(layers: int | tuple[int, ...]) -> None:
    with pytest.raises(LaminaError, match="layers 1 to 3"):
        AdapterOptions(layers=layers).insert(encoder())
