"""Linear maps by oneDNN: the values and gradients of torch's own, wherever they are used."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from lamina.encoder import linear as module
from lamina.encoder.linear import Linear, linear


@pytest.fixture(autouse=True)
def _everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use oneDNN on this machine too, whatever its processor."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("torch was built without oneDNN")
    monkeypatch.setattr(module, "onednn_is_faster", lambda: True)


@pytest.mark.parametrize("shape", [(70, 256), (5, 40, 256)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_values_and_gradients_are_those_of_torch(shape: tuple[int, ...], has_bias: bool) -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(shape), torch.randn(300, 256) / 16, torch.randn(300) if has_bias else None
    given = [one.requires_grad_() for one in (x, weight, bias) if one is not None]
    ours, theirs = linear(x, weight, bias), F.linear(x, weight, bias)
    assert type(ours.grad_fn).__name__ == "_LinearBackward"
    assert torch.allclose(ours, theirs, atol=1e-4)
    grad = torch.randn(*shape[:-1], 300)
    for a, b in zip(torch.autograd.grad(ours, given, grad), torch.autograd.grad(theirs, given, grad), strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-3)
    with torch.inference_mode():
        assert torch.equal(linear(x, weight, bias), ours)


def test_only_what_is_asked_for_gets_a_gradient() -> None:
    x, weight = torch.randn(70, 256), torch.randn(300, 256, requires_grad=True)
    linear(x, weight, None).sum().backward()
    assert x.grad is None
    assert weight.grad is not None
    frozen = weight.detach()
    linear(x.requires_grad_(), frozen, None).sum().backward()
    assert x.grad is not None
    assert frozen.grad is None


def test_factors_may_be_views() -> None:
    x, weight = torch.randn(256, 70).t(), torch.randn(256, 300).t()
    assert torch.allclose(linear(x, weight, None), x @ weight.t(), atol=1e-3)


@pytest.mark.parametrize("case", ["few rows", "small weight", "double", "autocast"])
def test_other_products_stay_as_they_are(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("oneDNN was used")

    monkeypatch.setattr(module, "_product", refuse)
    x = torch.randn(3 if case == "few rows" else 70, 256)
    weight = torch.randn(20 if case == "small weight" else 300, 256)
    if case == "double":
        x, weight = x.double(), weight.double()
    with torch.autocast("cpu", torch.bfloat16, enabled=case == "autocast"):
        found = linear(x, weight, None)
        assert torch.equal(found, F.linear(x, weight))


def test_a_linear_map_has_the_state_of_torchs() -> None:
    ours, theirs = Linear(256, 300), torch.nn.Linear(256, 300)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(70, 256)
    assert torch.allclose(copy.deepcopy(ours)(x), theirs(x), atol=1e-4)
