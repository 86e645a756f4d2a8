# SPDX-License-Identifier: Apache-2.0
"""Models for the extraction benchmark that no configuration of transformers gives; needs torch."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn


class _Conv(nn.Module):
    def __init__(self, channels_in: int, channels_out: int, kernel: int = 1, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(channels_out)
        self.act = nn.SiLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(self.conv(x)))


class _Stage(nn.Module):
    """Splits, refines one half step by step and keeps every step: the concatenation is the memory peak of such nets."""

    def __init__(self, channels_in: int, channels_out: int, depth: int, *, shortcut: bool) -> None:
        super().__init__()
        self.half = channels_out // 2
        self.enter = _Conv(channels_in, channels_out)
        self.steps = nn.ModuleList(
            nn.Sequential(_Conv(self.half, self.half, 3), _Conv(self.half, self.half, 3)) for _ in range(depth)
        )
        self.leave = _Conv((2 + depth) * self.half, channels_out)
        self.shortcut = shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.enter(x).split((self.half, self.half), 1))
        for step in self.steps:
            found = step(parts[-1])
            parts.append(parts[-1] + found if self.shortcut else found)
        return self.leave(torch.cat(parts, 1))


class _Pyramid(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enter = _Conv(channels, channels // 2)
        self.leave = _Conv(channels * 2, channels)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = [self.enter(x)]
        for _ in range(3):
            pooled.append(self.pool(pooled[-1]))
        return self.leave(torch.cat(pooled, 1))


class YoloLike(nn.Module):
    """A one-stage detector in the manner of the YOLO family: backbone, top-down and bottom-up paths, three heads."""

    def __init__(self, base: int = 96, classes: int = 80) -> None:
        super().__init__()
        c1, c2, c3, c4, c5 = base, base * 2, base * 4, base * 6, base * 6
        self.stem = _Conv(3, c1, 3, 2)
        self.down2, self.stage2 = _Conv(c1, c2, 3, 2), _Stage(c2, c2, 3, shortcut=True)
        self.down3, self.stage3 = _Conv(c2, c3, 3, 2), _Stage(c3, c3, 6, shortcut=True)
        self.down4, self.stage4 = _Conv(c3, c4, 3, 2), _Stage(c4, c4, 6, shortcut=True)
        self.down5, self.stage5 = _Conv(c4, c5, 3, 2), _Stage(c5, c5, 3, shortcut=True)
        self.pyramid = _Pyramid(c5)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.top4, self.top3 = _Stage(c5 + c4, c4, 3, shortcut=False), _Stage(c4 + c3, c3, 3, shortcut=False)
        self.low3, self.low4 = _Conv(c3, c3, 3, 2), _Conv(c4, c4, 3, 2)
        self.mid4, self.mid5 = _Stage(c3 + c4, c4, 3, shortcut=False), _Stage(c4 + c5, c5, 3, shortcut=False)
        self.heads = nn.ModuleList(
            nn.Sequential(_Conv(channels, c3, 3), _Conv(c3, c3, 3), nn.Conv2d(c3, 64 + classes, 1))
            for channels in (c3, c4, c5)
        )
        self.classes = classes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        p3 = self.stage3(self.down3(self.stage2(self.down2(self.stem(x)))))
        p4 = self.stage4(self.down4(p3))
        p5 = self.pyramid(self.stage5(self.down5(p4)))
        n4 = self.top4(torch.cat((self.up(p5), p4), 1))
        n3 = self.top3(torch.cat((self.up(n4), p3), 1))
        n4 = self.mid4(torch.cat((self.low3(n3), n4), 1))
        n5 = self.mid5(torch.cat((self.low4(n4), p5), 1))
        found = [head(level).flatten(2) for head, level in zip(self.heads, (n3, n4, n5), strict=True)]
        boxes, scores = torch.cat(found, 2).split((64, self.classes), 1)
        spread = boxes.view(boxes.shape[0], 4, 16, -1).transpose(1, 2).softmax(1)
        return torch.cat((spread.mean(1), scores.sigmoid()), 1)


class UNet(nn.Module):
    """The classic: four times down, four times up with transposed convolutions."""

    def __init__(self, base: int = 64) -> None:
        super().__init__()
        sizes = [base * 2**level for level in range(5)]
        self.down = nn.ModuleList(self._pair(a, b) for a, b in zip([3, *sizes], sizes, strict=False))
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in itertools.pairwise(sizes))
        self.join = nn.ModuleList(self._pair(2 * a, a) for a in sizes[:-1])
        self.head = nn.Conv2d(base, 1, 1)

    @staticmethod
    def _pair(channels_in: int, channels_out: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(channels_in, channels_out, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels_out, channels_out, 3, padding=1),
            nn.ReLU(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for step in self.down[:-1]:
            kept.append(step(x))
            x = self.pool(kept[-1])
        x = self.down[-1](x)
        for up, join, skip in zip(reversed(self.up), reversed(self.join), reversed(kept), strict=True):
            x = join(torch.cat((skip, up(x)), 1))
        return torch.sigmoid(self.head(x))


def yolo_like() -> nn.Module:
    return YoloLike()


def unet() -> nn.Module:
    return UNet()


def torchvision_model(name: str) -> Any:
    import torchvision

    options = {"weights_backbone": None} if name.startswith("deeplab") else {}
    return torchvision.models.get_model(name, weights=None, **options)


def timm_model(name: str) -> Any:
    import timm

    return timm.create_model(name, pretrained=False)


def timm_sized(name: str, size: tuple[int, int] = (224, 224)) -> Any:
    import timm

    return timm.create_model(name, pretrained=False, img_size=size)
