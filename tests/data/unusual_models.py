# SPDX-License-Identifier: Apache-2.0
"""Models that do what tutorials do not: values that decide, odd containers, layers that torch fuses; needs torch."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional


@dataclass
class Answer:
    """What a model returns that is no tuple."""

    rows: torch.Tensor
    more: list[dict[str, torch.Tensor]]


class Contained(nn.Module):
    """Takes a dict's kin by keyword and answers with a dataclass."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, *, first: torch.Tensor, others: Any) -> Answer:
        made = self.layer(first) + self.layer(others["second"][0])
        return Answer(made, [{"doubled": made * 2}])


def contained() -> nn.Module:
    return Contained()


def containers() -> UserDict[str, Any]:
    return UserDict(first=torch.zeros(2, 33, 64), others=UserDict(second=[torch.zeros(2, 33, 64)]))


class Deciding(nn.Module):
    """Reads a number from a tensor, and selects rows by a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.layer(x[x[:, 0] > 0])
        return made * 2 if made.sum().item() > 0 else -made


def deciding() -> nn.Module:
    return Deciding()


def rows() -> torch.Tensor:
    return torch.zeros(96, 64)


class Translator(nn.Module):
    """Encoder and decoder with tied embeddings; heads of 24, which no tile divides."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(200, 96)
        self.layers = nn.Transformer(96, 4, 1, 1, 128, batch_first=True)
        self.out = nn.Linear(96, 200, bias=False)
        self.out.weight = self.words.weight

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        made: torch.Tensor = self.out(self.layers(self.words(source), self.words(target), tgt_mask=mask))
        return made


def translator() -> nn.Module:
    return Translator()


def words() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(2, 30, dtype=torch.long), torch.zeros(2, 20, dtype=torch.long)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(100, 48)
        self.layer = nn.LSTM(48, 64, 2, batch_first=True, bidirectional=True)

    def forward(self, ids: torch.Tensor) -> Any:
        return self.layer(self.words(ids))


def recurrent() -> nn.Module:
    return Recurrent()


def tokens() -> torch.Tensor:
    return torch.zeros(2, 5, dtype=torch.long)


class Spectral(nn.Module):
    """Complex numbers in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(33, 64, dtype=torch.complex64))
        self.layer = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.layer(torch.fft.irfft(torch.fft.rfft(x, dim=1) * self.scale, n=64, dim=1))
        return made


def spectral() -> nn.Module:
    return Spectral()


def signal() -> torch.Tensor:
    return torch.zeros(2, 64, 64)


class Best(nn.Module):
    """The two best of eight, by their places."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> Any:
        values, places = functional.softmax(self.gate(x), -1).topk(2, -1)
        return values, places.unsqueeze(-1)


def best() -> nn.Module:
    return Best()


class Raising(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("trouble of my own")


def raising() -> nn.Module:
    return Raising()


def number() -> int:
    return 3


class Pooled(nn.Module):
    """Torch sets strides of its own behind the average of what was transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(96, 64), nn.Linear(64, 10)
        self.pool = nn.AdaptiveAvgPool1d(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.pool(self.first(x).transpose(1, 2)).flatten(1))


def pooled() -> nn.Module:
    return Pooled()


def sequences() -> torch.Tensor:
    return torch.zeros(2, 32, 96)


class Written(nn.Module):
    """Fills parts of a tensor, which torch does by views of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(96, 64), nn.Linear(64, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole = torch.zeros(2, 40, 64)
        whole[:, 4:36] = self.first(x)
        whole[:, 38] = 1.0
        whole.view(-1).mul_(2.0)
        return self.last(whole)


def written() -> nn.Module:
    return Written()


class Picked(nn.Module):
    """Indices along any dimension, mirrored borders, windows, norms of two dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm([32, 96])
        self.register_buffer("order", torch.arange(95, -1, -1))

    def forward(self, x: torch.Tensor) -> Any:
        picked = x.index_select(2, self.order) + x.flip(1)
        bordered = functional.pad(x.unsqueeze(1), (1, 1, 2, 2), mode="reflect")
        corner = x[torch.arange(2), torch.tensor([3, 5])]
        return self.norm(picked), bordered, corner, x.unfold(1, 8, 4), functional.pad(x, (0, 0, 1, -1))


def picked() -> nn.Module:
    return Picked()


class Volume(nn.Module):
    """Convolutions over one dimension, transposed, and over three."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.ConvTranspose1d(32, 48, 4, stride=2, padding=1)
        self.deep = nn.Conv3d(3, 48, 3, padding=1)

    def forward(self, x: torch.Tensor) -> Any:
        return self.wide(x), self.deep(x.reshape(2, 3, 4, 8, 32))


def volume() -> nn.Module:
    return Volume()


class Unheard(nn.Module):
    """An operator that no device has, with weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.deep = nn.ConvTranspose3d(3, 64, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.deep(x.reshape(2, 3, 4, 8, 32))


def unheard() -> nn.Module:
    return Unheard()


def scripted() -> nn.Module:
    return torch.jit.script(nn.Linear(96, 8))


def lazy() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(8))
