"""Logistic and ridge regression on frozen vectors, against closed forms and optimality conditions."""

from __future__ import annotations

import torch

from lamina.fitting.linear import fit_linear, solve


def test_ridge_equals_the_closed_form() -> None:
    torch.manual_seed(0)
    vectors = torch.randn(40, 5, dtype=torch.float64) + 3
    scores = torch.rand(40, dtype=torch.float64)
    penalty = 0.7
    found = solve(vectors, scores, "scores", 1, penalty)
    centred = vectors - vectors.mean(0)
    scaled = centred / centred.norm(dim=1).mean()
    # sum (Xw + b - y)^2 + penalty / 2 |w|^2, so the normal equations have penalty / 2
    wanted = torch.linalg.solve(scaled.T @ scaled + penalty / 2 * torch.eye(5), scaled.T @ (scores - scores.mean()))
    predicted = scaled @ wanted + scores.mean()
    torch.testing.assert_close(found(vectors.float())[:, 0].double(), predicted, atol=1e-4, rtol=1e-4)


def test_gradient_of_logistic_regression_is_zero() -> None:
    torch.manual_seed(0)
    vectors, labels = torch.randn(60, 4, dtype=torch.float64), torch.randint(0, 3, (60,))
    found = solve(vectors, labels.double(), "classes", 3, 1.0)
    centred = vectors - vectors.mean(0)
    length = centred.norm(dim=1).mean()
    errors = torch.softmax(found(vectors.float()).double(), -1) - torch.nn.functional.one_hot(labels, 3)  # [N, C]
    gradient = errors.T @ (centred / length) + found.weight.double() * length
    assert gradient.abs().max() < 1e-3
    assert errors.sum(0).abs().max() < 1e-3  # that of the bias


def test_separable_classes_are_found_and_noise_gets_a_large_penalty() -> None:
    torch.manual_seed(0)
    labels = torch.arange(80).remainder(2).double()
    vectors = torch.randn(80, 16)
    vectors[:, 3] += 6 * labels.float()
    found = fit_linear(vectors, labels, "classes", 2)
    assert (found(vectors).argmax(1) == labels).float().mean() > 0.97
    noise = fit_linear(torch.randn(80, 16), labels, "classes", 2)
    assert noise.weight.norm() < found.weight.norm()


def test_cosines_with_the_opposite_meaning_get_a_negative_scale() -> None:
    cosines = torch.linspace(-1, 1, 40)[:, None]
    found = fit_linear(cosines, (cosines[:, 0] < 0).double(), "similar")
    assert found.weight.item() < 0
