"""The encoder alone: which layers it computes and returns, sharing, initialisation, dropout."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lamina.encoder.blocks import Dropout, Encoder, EncoderConfig

CONFIG = EncoderConfig(
    family="bert",
    layers=4,
    hidden=24,
    heads=3,
    intermediate=40,
    vocab=50,
    positions=20,
    types=2,
    embedding=24,
)
ALBERT = replace(CONFIG, family="albert", embedding=16, shared=True)


def rows(encoder: Encoder, padded: bool = True) -> tuple[Tensor, Tensor]:
    """Return the states of layer 0 and a mask."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, encoder.config.vocab, (3, 7), generator=generator)
    mask = torch.arange(7) < torch.tensor([[7], [5], [2]]) if padded else torch.ones(3, 7, dtype=torch.bool)
    return encoder.embed(ids, ids % 2), mask


@pytest.fixture(params=[CONFIG, ALBERT], ids=["bert", "albert"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    torch.manual_seed(0)
    return Encoder(request.param).eval()


def test_the_last_layer_is_kept_unless_others_are_named(encoder: Encoder) -> None:
    x, mask = rows(encoder)
    stack = encoder(x, mask)
    assert stack.layers == (4,)
    assert stack.depth == 4
    assert stack.pooled is None
    assert stack.states[0].shape == (3, 7, 24)
    some = encoder(x, mask, keep=[3, 0, 1])
    assert some.layers == (0, 1, 3)
    assert some.layer(0) is x


def test_a_pass_from_a_higher_layer_equals_the_full_pass(encoder: Encoder) -> None:
    x, mask = rows(encoder)
    full = encoder(x, mask, keep=range(5), pool=True)
    for start in range(5):
        upper = encoder(full.layer(start), mask, start=start, keep=range(start, 5), pool=True)
        assert upper.layers == tuple(range(start, 5))
        for layer in upper.layers:
            assert torch.equal(upper.layer(layer), full.layer(layer))
        assert torch.equal(upper.pooled, full.pooled)


def test_layers_outside_the_pass_are_refused(encoder: Encoder) -> None:
    x, mask = rows(encoder)
    with pytest.raises(ValueError, match=r"layers \[1\] are not computed; a pass from layer 2 has layers 2 to 4"):
        encoder(x, mask, start=2, keep=[1, 3])
    with pytest.raises(ValueError, match=r"layers \[5\]"):
        encoder(x, mask, keep=[5])


def test_blocks_above_the_highest_kept_layer_are_not_computed(encoder: Encoder) -> None:
    x, mask = rows(encoder)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    for block in encoder.blocks:
        block.register_forward_hook(count)
    encoder(x, mask, keep=[0, 2])
    assert calls == 2
    encoder(x, mask, keep=[2], pool=True)
    assert calls == 2 + 4
    encoder(x, mask, start=3, keep=[4])
    assert calls == 2 + 4 + 1


def test_padding_changes_nothing(encoder: Encoder) -> None:
    x, mask = rows(encoder)
    padded = encoder(x, mask).states[0]
    for row, length in enumerate((7, 5, 2)):
        alone = encoder(x[row : row + 1, :length], mask[row : row + 1, :length]).states[0]
        torch.testing.assert_close(alone[0], padded[row, :length], atol=1e-6, rtol=0)


def test_a_full_mask_equals_no_mask(encoder: Encoder) -> None:
    x, full = rows(encoder, padded=False)
    states = encoder.layers[0](x, None)
    torch.testing.assert_close(encoder.layers[0](x, full[:, None, None, :]), states, atol=1e-6, rtol=0)


def test_pooling_without_a_pooler_is_refused() -> None:
    encoder = Encoder(replace(CONFIG, pooler=False))
    with pytest.raises(ValueError, match="no pooler"):
        encoder(*rows(encoder), pool=True)


def test_rows_longer_than_the_position_table_are_refused() -> None:
    encoder = Encoder(replace(CONFIG, family="roberta", position_offset=2))
    longest = torch.zeros(1, 18, dtype=torch.long)
    assert encoder.embed(longest, longest).shape == (1, 18, 24)
    longer = torch.zeros(1, 19, dtype=torch.long)
    with pytest.raises(ValueError, match="19 tokens, but the encoder's position table ends at 18"):
        encoder.embed(longer, longer)


def test_albert_has_one_block_for_all_layers() -> None:
    encoder = Encoder(ALBERT)
    assert len(encoder.layers) == 4
    assert len({id(block) for block in encoder.layers}) == 1
    assert not any(name.startswith("blocks.1.") for name in encoder.state_dict())
    assert len(list(encoder.parameters())) == len(encoder.state_dict())


def test_initial_weights() -> None:
    torch.manual_seed(0)
    encoder = Encoder(replace(CONFIG, hidden=96, embedding=96, intermediate=384, vocab=2000))
    for name, weight in encoder.named_parameters():
        if "norm" in name:
            assert torch.equal(weight, torch.full_like(weight, float(name.endswith("weight"))))
        elif name.endswith("bias"):
            assert not weight.any()
        elif weight.numel() > 5000:
            assert weight.std().item() == pytest.approx(0.02, rel=0.05), name
            assert abs(weight.mean().item()) < 1e-3, name


def test_building_on_the_meta_device() -> None:
    with torch.device("meta"):
        encoder = Encoder(CONFIG)
    assert all(weight.is_meta for weight in encoder.state_dict().values())
    assert {name: weight.shape for name, weight in encoder.state_dict().items()} == {
        name: weight.shape for name, weight in Encoder(CONFIG).state_dict().items()
    }


def test_the_config_survives_json() -> None:
    assert EncoderConfig.from_json(json.loads(json.dumps(ALBERT.to_json()))) == ALBERT


def test_gradients_reach_every_weight(encoder: Encoder) -> None:
    encoder.train()
    stack = encoder(*rows(encoder), pool=True)
    (stack.states[0].square().sum() + stack.pooled.square().sum()).backward()
    for name, weight in encoder.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        assert "key.bias" in name or weight.grad.any(), name  # the softmax cancels the key's bias


def test_training_drops_values_and_evaluation_does_not() -> None:
    torch.manual_seed(0)
    encoder = Encoder(CONFIG)
    x, mask = rows(encoder.eval())
    assert torch.equal(encoder(x, mask).states[0], encoder(x, mask).states[0])
    encoder.train()
    assert not torch.equal(encoder(x, mask).states[0], encoder(x, mask).states[0])


def test_attention_dropout() -> None:
    torch.manual_seed(0)
    encoder = Encoder(replace(CONFIG, dropout=0.0, attention_dropout=0.5))
    x, mask = rows(encoder)
    assert not torch.equal(encoder(x, mask).states[0], encoder(x, mask).states[0])
    encoder.eval()
    assert torch.equal(encoder(x, mask).states[0], encoder(x, mask).states[0])


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_drops_its_share_and_keeps_the_mean(p: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(301, 667, requires_grad=True)  # not a multiple of four
    y = Dropout(p)(x)
    y.sum().backward()
    assert (y == 0).float().mean().item() == pytest.approx(p, abs=0.005)
    assert y.mean().item() == pytest.approx(1.0, abs=0.02)
    torch.testing.assert_close(y.max().item(), 1 / (1 - p))
    torch.testing.assert_close(x.grad, y.detach(), atol=0, rtol=0)  # y = x * keep with x = 1: the same mask
    for lane in range(4):  # each quarter of a 64-bit draw drops its share
        assert (y.flatten()[lane::4] == 0).float().mean().item() == pytest.approx(p, abs=0.01)


def test_dropout_follows_the_seed_and_is_the_identity_elsewhere() -> None:
    x = torch.randn(5, 5)
    dropout = Dropout(0.5)
    torch.manual_seed(3)
    first = dropout(x)
    torch.manual_seed(3)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(dropout(x), first)
    assert dropout.eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert Dropout(0.5)(x.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("train", [False, True])
def test_attention_is_float32_under_autocast(encoder: Encoder, train: bool) -> None:
    attention = encoder.train(train).layers[0].attention
    heads = [torch.randn(2, attention.heads, 5, 4).bfloat16().requires_grad_() for _ in range(3)]
    with torch.autocast("cpu", torch.bfloat16):
        mixed = attention.mix(heads[0], heads[1], heads[2], None)
    exact = torch.softmax(heads[0].float() @ heads[1].float().transpose(-1, -2) / 2, -1) @ heads[2].float()
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, exact)
    mixed.sum().backward()
    assert all(part.grad is not None and part.grad.dtype == torch.bfloat16 for part in heads)
