from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from lamina.data.batches import Batch
from lamina.errors import LaminaError
from lamina.heads import ClassOutputs, PairOutputs, ScoreOutputs, SpanOutputs
from lamina.model import Model
from lamina.objectives import Remembers, SmartOptions
from lamina.objectives.divergence import divergence, symmetric_kl
from lamina.objectives.smart import Smart, detached, without_dropout
from tests.objectives.small import EACH_HEAD, batch_of, model_of


def loss_of(term: Smart, model: Model, batch: Batch) -> Tensor:
    return term(model, batch, model(batch), term.counts(batch))


# ---- divergence


def test_symmetric_kl_equals_a_loop() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(5, 4), torch.randn(5, 4)
    found = symmetric_kl(a, b)
    for row in range(5):
        p, q = a[row].softmax(0).tolist(), b[row].softmax(0).tolist()
        wanted = sum(x * math.log(x / y) + y * math.log(y / x) for x, y in zip(p, q, strict=True))
        assert found[row].item() == pytest.approx(wanted, abs=1e-5)
    assert not symmetric_kl(a, a).any()


def test_only_allowed_positions_count() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(3, 6), torch.randn(3, 6)
    allowed = torch.tensor([[True, False, True, True, False, False]] * 3)
    cut = symmetric_kl(a[:, allowed[0]], b[:, allowed[0]])
    torch.testing.assert_close(symmetric_kl(a, b, allowed), cut)
    spans = divergence(SpanOutputs(a, a, allowed), SpanOutputs(b, a, allowed))
    torch.testing.assert_close(spans, cut / 2)


def test_symmetric_kl_is_exact_for_close_outputs() -> None:
    """To second order it equals the variance of the difference under p."""
    torch.manual_seed(0)
    a, apart = torch.randn(1, 5), torch.randn(1, 5)
    p = a.softmax(-1)
    variance = (p * apart**2).sum() - (p * apart).sum() ** 2
    assert symmetric_kl(a, a + 1e-4 * apart).item() == pytest.approx(1e-8 * variance.item(), rel=0.05)


def test_scores_and_cosines_have_the_squared_difference() -> None:
    a, b = torch.tensor([0.1, 0.9]), torch.tensor([0.4, 0.7])
    wanted = torch.tensor([0.09, 0.04])
    torch.testing.assert_close(divergence(ScoreOutputs(a), ScoreOutputs(b)), wanted)
    torch.testing.assert_close(divergence(PairOutputs(a, a, a, a), PairOutputs(b, b, b, b)), wanted)
    with pytest.raises(TypeError, match="cannot be compared"):
        divergence(ScoreOutputs(a), ClassOutputs(b[None]))


# ---- the noise


@EACH_HEAD
def test_the_noise_changes_more_than_random_noise(name: str) -> None:
    model, batch = model_of(name).eval(), batch_of(name)
    term = Smart(
        SmartOptions(step=1e-2, noise=1e-3), "main"
    )  # 1e-5 may not change a cosine after rounding, so it may give no gradient
    with torch.no_grad():
        x = model.encoder.embed(batch.ids, batch.type_ids)
        clean = model(batch, x=x)
    found = term.worst_noise(model, batch, x, clean)
    with torch.no_grad():
        worst = divergence(model(batch, x=x + found), clean)
        by_chance = []
        for _ in range(20):
            noise = torch.randn_like(x) * batch.mask[..., None]
            noise *= found.norm(dim=(1, 2), keepdim=True) / noise.norm(dim=(1, 2), keepdim=True)
            by_chance.append(divergence(model(batch, x=x + noise), clean))
    assert worst.mean() > 3 * torch.stack(by_chance).mean()
    assert (worst >= torch.stack(by_chance).mean(0)).all()


def test_more_steps_increase_the_divergence_within_the_radius() -> None:
    model, batch = model_of().eval(), batch_of("classification")
    with torch.no_grad():
        x = model.encoder.embed(batch.ids, batch.type_ids)
        clean = model(batch, x=x)

    def reached(**options: Any) -> tuple[float, float]:
        torch.manual_seed(0)
        noise = Smart(SmartOptions(**options), "main").worst_noise(model, batch, x, clean)
        with torch.no_grad():
            return noise.abs().max().item(), divergence(model(batch, x=x + noise), clean).sum().item()

    size, once = reached(step=1e-2)
    assert size == pytest.approx(1e-2, rel=0.01)
    assert reached(step=1e-2, steps=3)[1] > 2 * once
    held, less = reached(step=1e-2, steps=3, radius=1e-3)
    assert held == pytest.approx(1e-3)
    assert 0 < less < once


@EACH_HEAD
def test_no_gradient_of_the_noise_leaks(name: str) -> None:
    """The gradient of the parameters is that of the loss with constant noise."""
    model, batch = model_of(name), batch_of(name)
    term = Smart(SmartOptions(step=0.1, bregman=0), "main")
    outputs = model(batch)
    torch.manual_seed(3)
    term(model, batch, outputs, term.counts(batch)).backward()
    found = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    model.eval()
    with torch.no_grad():
        x = model.encoder.embed(batch.ids, batch.type_ids)
        clean = model(batch, x=x)
    torch.manual_seed(3)
    noise = term.worst_noise(model, batch, x, clean)
    assert all(p.grad is None for p in model.parameters())
    assert not noise.requires_grad
    embedded = model.encoder.embed(batch.ids, batch.type_ids)
    items = len(batch.ids) // batch.sides
    wanted = divergence(model(batch, x=embedded), model(batch, x=embedded + noise)).sum() / items
    wanted.backward()
    assert len(found) > 20
    for key, parameter in model.named_parameters():
        if key in found:
            assert parameter.grad is not None
            torch.testing.assert_close(found[key], parameter.grad, atol=1e-6, rtol=1e-3)


def test_the_term_has_no_dropout_and_does_not_change_modes() -> None:
    model, batch = model_of(dropout=0.5), batch_of("classification")
    model.encoder.blocks[0].eval()  # as in a frozen layer
    modes = [part.training for part in model.modules()]
    term = Smart(SmartOptions(step=1e-3), "main")
    outputs = model(batch)
    losses = []
    for _ in range(2):
        torch.manual_seed(0)
        losses.append(term(model, batch, outputs, term.counts(batch)).item())
    assert losses[0] == losses[1] < 1e-3  # a dropout of 0.5 would have a far larger effect than the noise
    assert [part.training for part in model.modules()] == modes
    with pytest.raises(ZeroDivisionError), without_dropout(model):
        raise ZeroDivisionError
    assert [part.training for part in model.modules()] == modes


def test_stored_states_are_refused() -> None:
    model, batch = model_of(), batch_of("classification")
    stored = model.encoder(model.encoder.embed(batch.ids, batch.type_ids), batch.mask, keep=(1,))
    with pytest.raises(LaminaError, match=r'cache\.use = "never"'):
        Smart(SmartOptions(), "main")(model, replace(batch, states=stored), None, {"smart.items": 8.0})  # type: ignore[arg-type]


# ---- the memory


def stepped(model: Model, amount: float) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(amount)


def test_the_mean_of_past_weights() -> None:
    """The mean starts as the weights before the first step. It holds the trained weights that the task reads."""
    model, batch = model_of(), batch_of("classification")
    model.encoder.embeddings.requires_grad_(False)
    term = Smart(SmartOptions(decay=0.9), "main")
    assert isinstance(term, Remembers)
    term.after_step(model)
    assert term.state_dict() == {}
    loss_of(term, model, batch)
    start = {name: value.detach().clone() for name, value in model.named_parameters()}
    expected = dict(start)
    for _ in range(3):
        stepped(model, 0.1)
        term.after_step(model)
        expected = {name: 0.9 * expected[name] + 0.1 * value.detach() for name, value in model.named_parameters()}
    kept = term.state_dict()
    trained = {name for name, value in model.named_parameters() if value.requires_grad}
    assert kept.keys() == {name for name in trained if not name.startswith("tasks.other.")}
    for name, value in kept.items():
        torch.testing.assert_close(value, expected[name])


@EACH_HEAD
def test_proximity_is_the_divergence_from_the_past(name: str) -> None:
    model, batch = model_of(name), batch_of(name)
    term = Smart(SmartOptions(bregman=2.0, decay=0.0, noise=1e-30, step=1e-30), "main")  # almost no noise
    past = detached(model.eval()(batch))
    loss_of(term, model, batch)
    term.after_step(model)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    wanted = 2 * divergence(model(batch), past).mean()
    assert wanted > 1e-6
    assert loss_of(term, model, batch).item() == pytest.approx(wanted.item(), rel=1e-3)


def test_the_gradient_of_proximity_is_zero_at_the_past_weights() -> None:
    model, batch = model_of(), batch_of("classification")
    smooth, both = Smart(SmartOptions(bregman=0), "main"), Smart(SmartOptions(), "main")
    losses = []
    for term in (smooth, both):
        torch.manual_seed(0)
        losses.append(loss_of(term, model, batch).item())
    assert losses[0] == losses[1]
    assert smooth.state_dict() == {}


def trained(model: Model, term: Smart, batch: Batch, steps: range) -> None:
    """Run some steps of plain gradient descent."""
    for step in steps:
        torch.manual_seed(step)
        outputs = model(batch)
        loss = outputs.logits.square().mean() + term(model, batch, outputs, term.counts(batch))
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.sub_(0.05 * parameter.grad)
        term.after_step(model)


def test_resuming_is_exact() -> None:
    batch = batch_of("classification")
    whole, term = model_of(), Smart(SmartOptions(), "main")
    trained(whole, term, batch, range(6))
    first, before = model_of(), Smart(SmartOptions(), "main")
    trained(first, before, batch, range(3))
    second, after = model_of(), Smart(SmartOptions(), "main")
    second.load_state_dict(first.state_dict())
    after.load_state_dict(before.state_dict())
    trained(second, after, batch, range(3, 6))
    assert all(map(torch.equal, whole.state_dict().values(), second.state_dict().values()))
    assert all(map(torch.equal, term.state_dict().values(), after.state_dict().values()))
    forgetful, empty = model_of(), Smart(SmartOptions(), "main")
    forgetful.load_state_dict(first.state_dict())
    trained(forgetful, empty, batch, range(3, 6))
    assert not all(map(torch.equal, whole.state_dict().values(), forgetful.state_dict().values()))


# ---- options


def test_weight_and_items() -> None:
    model, batch = model_of("cosine"), batch_of("cosine")
    losses = []
    for weight in (1.0, 3.0):
        torch.manual_seed(0)
        term = Smart(SmartOptions(weight=weight), "main")
        assert term.counts(batch) == {"smart.items": 8.0}
        losses.append(loss_of(term, model, batch).item())
    assert losses[1] == pytest.approx(3 * losses[0])
