"""Weights in 8 bits: each row of a matrix becomes whole numbers from -127 to 127 and one scale.

A packed file has about a quarter of the size. `pack` rounds the weights, `unpack` returns them in float32.

- A row w of a matrix becomes its scale s = max |w| / 127 and q = round(w / s). Its weights are then s q.
- Rows are those of the first axis: the outputs of a linear map, the tokens of an embedding, the filters of a convolution.
- Small tensors, such as biases, norms and the rows of a span head, stay in float32.
- Scales with the least squared error of their row were tried and dropped: the outputs were no nearer (docs/log.md).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from lamina.errors import LaminaError

SCALE = ":scale"  # after the name of a packed tensor, the name of its scales
SMALL = 4096  # tensors with fewer numbers stay in float32
MOST = 127
_LEAST = 1e-30  # a row without a greater weight becomes 0, since its scale would not be a normal float32


def pack(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a packed file: int8 rows with their scales, and small tensors in float32.

    Args:
        weights: Tensors by name, of any float type. Tensors of other types stay as they are.

    Raises:
        LaminaError: A weight is not finite.
    """
    packed = {}
    for name, weight in weights.items():
        weight = weight.detach().cpu()
        if not weight.is_floating_point():
            packed[name] = weight.contiguous()
        elif weight.ndim < 2 or weight.numel() < SMALL:
            packed[name] = weight.float().contiguous()
        elif not torch.isfinite(weight).all():
            raise LaminaError(f"{name}: a weight is not finite, so it has no 8 bits. Fix: train the model again")
        else:
            packed[name], packed[name + SCALE] = quantise(weight.float())
    return packed


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return a matrix as int8, in its own shape, and the scale of each row.

    Args:
        weight: [N, ...] in float32, finite.

    Returns:
        [N, ...] whole numbers from -127 to 127, and [N] scales in float32.
    """
    rows = weight.flatten(1)  # [N, D]
    top = rows.abs().amax(1)  # [N]
    scale = torch.where(top < _LEAST, 0.0, top / MOST)
    whole = (rows / scale.where(scale > 0, torch.inf).unsqueeze(1)).round_()  # w / inf = 0
    return whole.to(torch.int8).view(weight.shape), scale


def unpack(packed: Tensor, scale: Tensor) -> Tensor:
    """Return the weights of int8 rows [N, ...] and their scales [N], in float32."""
    return packed.to(torch.float32).mul_(scale.view(-1, *[1] * (packed.ndim - 1)))
