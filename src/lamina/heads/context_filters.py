"""Filters computed from a text, and their convolution over a text: the maths of the head "cacnn", whose module explains it."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lamina.mixers.convolution import Convolution

NEIGHBOURS = 3, 4  # before and after a token: the maximum over 8 of the simplified form

Pool = Literal["max", "sum"]


def only(x: Tensor, tokens: Tensor) -> Tensor:
    """Return the vectors [B, T, D] with zeros for all but some tokens [B, T]."""
    return x.masked_fill(~tokens.unsqueeze(-1), 0)


def along(convolution: nn.Module, x: Tensor) -> Tensor:
    """Return vectors convolved along the tokens, [B, T, D] -> [B, T, C]; an even width reaches one token further ahead."""
    maps: Tensor = convolution(x.transpose(1, 2))  # [B, C, T], or T + 1 for an even width
    return maps[..., maps.shape[-1] - x.shape[1] :].transpose(1, 2)


def convolve_each(x: Tensor, filters: Tensor) -> Tensor:
    """Return each row convolved with its own filters: [B, T, D] and [B, N, w, D] -> [B, T, N]."""
    rows, length, _ = x.shape
    _, count, width, _ = filters.shape
    products = torch.bmm(x, filters.flatten(1, 2).transpose(1, 2)).view(rows, length, count, width)
    before = (width - 1) // 2
    products = F.pad(products, (0, 0, 0, 0, before, width - 1 - before))  # [B, T + w - 1, N, w]
    return torch.stack([products[:, k : k + length, :, k] for k in range(width)]).sum(0)


def pooled(maps: Tensor, tokens: Tensor, how: Pool) -> Tensor:
    """Return the maximum or sum over some tokens: [B, T, M] and [B, T] -> [B, M]. Each row needs one token or more."""
    if how == "sum":
        return only(maps, tokens).sum(1)
    return maps.masked_fill(~tokens.unsqueeze(-1), torch.finfo(maps.dtype).min).amax(1)


def window_maxima(maps: Tensor, lengths: Tensor, windows: int) -> Tensor:
    """Return the maxima over `windows` half-overlapping windows of each row's tokens.

    [B, T, C] and [B] -> [B, windows, C]. Each value is first replaced by the maximum of its 8 neighbours, which extends each
    window by the neighbours. If a text has fewer tokens than windows, some tokens are in more windows.
    """
    rows, longest, _ = maps.shape
    n, half = lengths[:, None], torch.arange(windows + 1, device=maps.device)
    first = (half * n // (windows + 1) - NEIGHBOURS[0]).clamp(min=0)  # [B, windows + 1]
    last = torch.minimum(((half + 1) * n + windows) // (windows + 1) + NEIGHBOURS[1], n) - 1  # rounded up before
    most = cast(int, (last - first).max() + 1)  # a tensor to the tracer: int() would fix its value
    step = torch.arange(most, device=maps.device)
    token = torch.minimum(first[..., None] + step, last[..., None])  # [B, windows + 1, S]; the last token fills the rest
    place = (token + longest * torch.arange(rows, device=maps.device)[:, None, None]).flatten()
    halves = maps.flatten(0, 1).index_select(0, place).view(*token.shape, -1).amax(2)  # [B, windows + 1, C]
    return torch.maximum(halves[:, :-1], halves[:, 1:])


class ContextFilters(nn.Module):
    """Filters from a context vector: [B, T, D] and the tokens to read [B, T] -> [B, N, w, D]."""

    def __init__(
        self,
        dim: int,
        filters: int,
        width: int,
        *,
        first: Sequence[tuple[int, int]],  # width and number of maps of each first convolution
        context_width: int,
        pool: Pool,
        tile: bool = False,
    ) -> None:
        super().__init__()
        self.shape = filters, width, dim
        self.pool: Pool = pool
        context = sum(maps for _, maps in first)  # M
        pieces = ceil(width * dim / context)
        self.repeats = pieces if tile else 1
        self.views = nn.ModuleList(Convolution(dim, maps, kernel) for kernel, maps in first)
        self.generator = Convolution(1, filters * pieces // self.repeats, context_width)
        if not self.generator.weight.is_meta:
            nn.init.normal_(self.generator.weight, std=(context_width * width * dim) ** -0.5)

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        filters, width, dim = self.shape
        maps = torch.cat([along(view, x) for view in self.views], -1)  # [B, T, M]
        context = pooled(maps, tokens, self.pool).unsqueeze(1)  # [B, 1, M]
        numbers: Tensor = self.generator(context).reshape(x.shape[0], filters, -1)
        numbers = numbers.repeat(1, 1, self.repeats)[..., : width * dim]  # [B, N, w * D]
        return numbers.reshape(x.shape[0], filters, width, dim)


class PooledFilters(nn.Module):
    """Filters from the maxima of the text: [B, T, D] and [B, T] -> [B, N, w, D]. The tokens to read come first in a row."""

    def __init__(self, dim: int, filters: int, width: int, *, first_width: int = 5) -> None:
        super().__init__()
        self.shape = filters, width, dim
        self.convolution = Convolution(dim, filters * dim, first_width)

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        filters, width, dim = self.shape
        maps = F.relu(along(self.convolution, x))  # [B, T, N * D]
        maxima = window_maxima(maps, tokens.sum(1), width)  # [B, w, N * D]
        return maxima.view(x.shape[0], width, filters, dim).transpose(1, 2)
