"""Linear maps that use the faster of torch's two libraries for products of float32 matrices on a CPU.

Torch multiplies float32 matrices with MKL. On AMD processors with AVX-512, MKL computes with AVX2, which is half as fast.
There, large products go to oneDNN, which torch uses for bfloat16 anyway. The choice depends on the processor and the
shapes only, so the same batch gives the same bits on the same machine.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lamina.utils.processor import mkl_lacks_avx512

LARGE = 1 << 16  # elements of a weight; products with smaller ones stay as they are
ROWS = 64  # of the other factor


class Linear(nn.Linear):
    """A linear map, with the weights and the names of `nn.Linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``x @ weight.T + bias``, as `F.linear` does but for rounding."""
    if not _suits(x, weight):
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled():
        return cast(Tensor, cast(Any, _Linear).apply(x, weight, bias))
    return _product(x, weight, bias)


@cache
def onednn_is_faster() -> bool:
    """Return whether oneDNN multiplies float32 matrices faster than MKL on this machine."""
    built = bool(torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available())
    return built and mkl_lacks_avx512() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def _suits(x: Tensor, weight: Tensor) -> bool:
    return (
        not torch.compiler.is_compiling()
        and onednn_is_faster()
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and weight.numel() >= LARGE
        and x.numel() >= ROWS * x.shape[-1]
        and bool(torch.backends.mkldnn.enabled)
        and not torch.is_autocast_enabled("cpu")
        and torch._C._get_tracing_state() is None
    )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x @ weight.T + bias`` by oneDNN. The operation is the one that `torch.compile` uses."""
    return cast(Tensor, torch.ops.mkldnn._linear_pointwise(x.contiguous(), weight.contiguous(), bias, "none", [], ""))


class _Linear(torch.autograd.Function):
    """The product with its gradients. For each gradient the factors are transposed, which is cheap beside the product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        rows = grad.flatten(0, -2)  # [M, N]
        of_x = _product(grad, weight.t()) if ctx.needs_input_grad[0] else None
        of_weight = _product(rows.t(), x.flatten(0, -2).t()) if ctx.needs_input_grad[1] else None
        return of_x, of_weight, rows.sum(0) if ctx.needs_input_grad[2] else None
