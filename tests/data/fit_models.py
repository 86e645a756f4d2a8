# SPDX-License-Identifier: Apache-2.0
"""Small models of our own for the tests of fit; needs torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Convolutions(nn.Module):
    """A stem, a residual block with a bottleneck, squeeze and excitation, a pool, a head."""

    def __init__(self, width: int, depth: int, groups: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, 1, 1, groups=groups, bias=False),
                nn.BatchNorm2d(width),
                nn.SiLU(),
                nn.Conv2d(width, width, 1),
            )
            for _ in range(depth)
        )
        self.join = nn.Conv2d(width * 2, width, 1)
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.stem(x))
        first = x
        for block in self.blocks:
            x = x + block(x)
        x = self.join(torch.cat([first, x], 1))
        return self.head(x.mean((2, 3)))


class Attention(nn.Module):
    """Layers of a transformer, as most write them."""

    def __init__(self, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(depth))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, qkv, out, mlp in zip(self.norms, self.qkv, self.out, self.mlp, strict=True):
            batch, length, width = x.shape
            parts = qkv(norm(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
            x = x + out(mixed.transpose(1, 2).reshape(batch, length, width))
            x = x + mlp(x)
        return x


class Odd(nn.Module):
    """One operator that the device has not got."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
        x = self.linear(x).cumprod(-1)
        return x if scale is None else x * scale


def convolutions(width: int = 32, depth: int = 2, groups: int = 1) -> nn.Module:
    return Convolutions(width, depth, groups)


def image(size: tuple[int, int] = (64, 64), batch: int = 1) -> torch.Tensor:
    return torch.zeros(batch, 3, *size)


def attention(width: int = 64, heads: int = 2, depth: int = 2) -> nn.Module:
    return Attention(width, heads, depth)


def tokens() -> torch.Tensor:
    return torch.zeros(1, 40, 64)


def odd() -> nn.Module:
    return Odd()


def as_tensor() -> Any:
    return torch.zeros(8, 64)


def as_tuple() -> Any:
    return torch.zeros(8, 64), torch.zeros(64)


def as_list() -> Any:
    return [torch.zeros(8, 64), torch.zeros(64)]


def as_dict() -> Any:
    return {"x": torch.zeros(8, 64), "scale": torch.zeros(64)}
