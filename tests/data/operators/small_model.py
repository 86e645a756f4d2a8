# SPDX-License-Identifier: Apache-2.0
"""A net small enough to count its operators by hand; needs torch."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(self.conv(x)))


class Small(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.block = Block(channels)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(channels, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = self.block(x).mean((2, 3))
        return torch.softmax(self.head(self.drop(pooled)), -1).clamp(min=0.1)


class Picky(nn.Module):
    """Takes one size only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(1, 3, 8 * 8)


class Attention(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x)


def load_model(channels: int = 32) -> nn.Module:
    return Small(channels)


def get_inputs(size: tuple[int, int] = (16, 24), batch: int = 1) -> torch.Tensor:
    return torch.zeros(batch, 3, *size)


def picky() -> nn.Module:
    return Picky()


def attention() -> nn.Module:
    return Attention()


def heads() -> tuple[torch.Tensor]:
    return (torch.zeros(1, 4, 64, 32),)


def crashing() -> nn.Module:
    import os

    os._exit(11)
