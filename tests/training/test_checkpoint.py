from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from lamina.errors import LaminaError
from lamina.model.weights import copy_weights, load_weights, trained_weights
from lamina.training.checkpoint import Costs, State, load_checkpoint, save_checkpoint


class Small(nn.Module):
    """A module with trained, frozen and shared weights and a counter."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.trained = nn.Linear(width, width)
        self.alias = self.trained
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.register_buffer("seen", torch.zeros(()))


def stepped(model: Small) -> torch.optim.AdamW:
    """Return an optimiser after a step."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1, fused=True)
    for _ in range(3):
        optimizer.zero_grad()
        model.trained(torch.randn(4, 3)).square().sum().backward()
        optimizer.step()
    return optimizer


def test_stored_weights_are_the_trained_ones_and_buffers() -> None:
    assert set(trained_weights(Small())) == {"trained.weight", "trained.bias", "seen"}


def test_copied_weights_do_not_change_with_the_model() -> None:
    model = Small()
    copy = copy_weights(model)
    before = model.trained.weight.detach().clone()
    with torch.no_grad():
        model.trained.weight.add_(1)
    assert torch.equal(copy["trained.weight"], before)
    load_weights(model, copy)
    assert torch.equal(model.trained.weight, before)


@pytest.mark.parametrize("change", ["more", "fewer"])
def test_weights_of_another_model_raise(change: str) -> None:
    weights = copy_weights(Small())
    if change == "more":
        weights["head.weight"] = torch.zeros(1)
    else:
        del weights["trained.bias"]
    with pytest.raises(
        LaminaError, match=r"(head\.weight|trained\.bias): only one of the stored weights and the model has this name"
    ):
        load_weights(Small(), weights)


def test_checkpoint_restores_everything(tmp_path: Path) -> None:
    model = Small()
    optimizer = stepped(model)
    state = State(7, 81.5, 4, copy_weights(model), 2, True, 1234, Costs(1.5, 0.5, 100, 120))
    save_checkpoint(tmp_path / "checkpoint.pt", model, optimizer, state)

    other = Small()
    other_optimizer = stepped(other)
    found = load_checkpoint(tmp_path / "checkpoint.pt", other, other_optimizer)
    assert {**vars(found), "best": None} == {**vars(state), "best": None}
    assert all(torch.equal(found.best[name], value) for name, value in state.best.items())
    x = torch.randn(4, 3)
    for one, one_optimizer in ((model, optimizer), (other, other_optimizer)):
        one_optimizer.zero_grad()
        one.trained(x).square().sum().backward()
        one_optimizer.step()
    assert torch.equal(model.trained.weight, other.trained.weight), "the state of the optimiser is restored"
    assert list(tmp_path.iterdir()) == [tmp_path / "checkpoint.pt"]


@pytest.mark.parametrize("content", [b"", b"rubbish", None])
def test_damaged_checkpoint_raises(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "checkpoint.pt"
    model = Small()
    optimizer = stepped(model)
    save_checkpoint(path, model, optimizer, State())
    path.write_bytes(path.read_bytes()[:-40] if content is None else content)
    with pytest.raises(LaminaError, match=r"checkpoint\.pt: the checkpoint cannot be read"):
        load_checkpoint(path, model, optimizer)


def test_flipped_bit_in_a_checkpoint_raises(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    model = Small()
    optimizer = stepped(model)
    save_checkpoint(path, model, optimizer, State())
    content = bytearray(path.read_bytes())
    weight = content.index(model.trained.weight.detach().numpy().tobytes())
    content[weight + 3] ^= 0x40  # the exponent of one weight
    path.write_bytes(content)
    with pytest.raises(LaminaError, match=r"checkpoint\.pt: the checkpoint cannot be read \(.* differs from its checksum\)"):
        load_checkpoint(path, model, optimizer)
