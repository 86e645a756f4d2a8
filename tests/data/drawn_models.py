# SPDX-License-Identifier: Apache-2.0
"""Models that are put together from a list of blocks, as a test draws them; needs torch.

A block is a name and numbers. The numbers mean what the block makes of them, so that every list is a model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

_ACTIVATIONS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    functional.gelu,
    functional.silu,
    torch.sigmoid,
    torch.tanh,
    functional.relu,
    lambda x: functional.relu(x, inplace=True),
    lambda x: functional.leaky_relu(x, 0.1),
    functional.hardswish,
)


class Drawn(nn.Module):
    """Runs its blocks one after the other; the first dimension of what they pass on is the batch."""

    def __init__(self, width: int, blocks: list[list[Any]]) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        blocks_by_name = {block.__name__: block for block in Block.__subclasses__()}
        for name, first, second in blocks:
            layer = blocks_by_name[name](width, first, second)
            width = layer.width
            self.layers.append(layer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Block(nn.Module):
    """``width``: channels of an image, or the last dimension of rows."""

    def __init__(self, width: int, first: int, second: int) -> None:
        super().__init__()
        self.width, self.first, self.second = width, first, second
        self.build()

    def build(self) -> None:
        """Make its layers; it may change the width."""

    def act(self, x: torch.Tensor) -> torch.Tensor:
        return _ACTIVATIONS[self.second % len(_ACTIVATIONS)](x)


class Convolution(Block):
    def build(self) -> None:
        made = (16, 24, 32, 64, 96)[self.first % 5]
        kernel, stride = ((1, 1), (3, 1), (3, 2), (5, 1), (2, 2))[self.second % 5]
        groups = next(n for n in (self.second % 9, 2, 1) if n and self.width % n == 0 and made % n == 0)
        self.layer = nn.Conv2d(self.width, made, kernel, stride, kernel // 2, groups=groups, bias=self.first % 2 == 0)
        self.norm = nn.BatchNorm2d(made) if self.first % 3 else nn.Identity()
        self.width = made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(self.layer(x)))


class Depthwise(Block):
    def build(self) -> None:
        self.layer = nn.Conv2d(self.width, self.width, 3, 1 + self.first % 2, 1, groups=self.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.layer(x))


class Residual(Block):
    def build(self) -> None:
        self.one = nn.Conv2d(self.width, self.width, 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(self.width)
        self.two = nn.Conv2d(self.width, self.width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.two(self.act(self.norm(self.one(x))))
        return made.add_(x) if self.first % 2 else x + made


class Pool(Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.first % 3 == 0:
            return functional.max_pool2d(x, 3, 2, 1)
        if self.first % 3 == 1:
            return functional.max_pool2d(x, 3, 1, 1)
        return functional.avg_pool2d(x, 3, 2, 1)


class Join(Block):
    def build(self) -> None:
        made = (16, 32, 64)[self.first % 3]
        self.layer = nn.Conv2d(self.width, made, 1)
        self.width += made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.layer(x), x] if self.second % 2 else [x, self.layer(x)], 1)


class Halves(Block):
    """Split along the width, and put together again by a product or a sum."""

    def build(self) -> None:
        self.half = self.width // 2
        self.width = self.half

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dim = 1 if x.dim() == 4 else -1
        one, two = x.split([self.half, x.shape[dim] - self.half], dim)
        two = two.narrow(dim, 0, self.half)
        return one * torch.sigmoid(two) if self.first % 2 else self.act(one) + two


class Gate(Block):
    def build(self) -> None:
        self.down, self.up = nn.Conv2d(self.width, 8, 1), nn.Conv2d(8, self.width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.up(functional.relu(self.down(functional.adaptive_avg_pool2d(x, 1)))))


class Upsample(Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.interpolate(x, scale_factor=2, mode="nearest")


class Transposed(Block):
    """Twice the size by a convolution."""

    def build(self) -> None:
        made = (16, 32, 48)[self.first % 3]
        kernel, padding = ((2, 0), (4, 1))[self.second % 2]
        self.layer = nn.ConvTranspose2d(self.width, made, kernel, 2, padding, bias=self.first % 2 == 0)
        self.norm = nn.BatchNorm2d(made) if self.first % 3 else nn.Identity()
        self.width = made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(self.layer(x)))


class Shuffled(Block):
    """Channels of two groups are mixed."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, width, *size = x.shape
        if width % 2:
            return x
        return x.view(batch, 2, width // 2, *size).transpose(1, 2).reshape(batch, width, *size)


class Spread(Block):
    """A dilated convolution, square or along one side."""

    def build(self) -> None:
        kernel, padding = ((3, 2), ((1, 3), (0, 2)))[self.first % 2]
        self.layer = nn.Conv2d(self.width, self.width, kernel, 1, padding, dilation=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.layer(x))


class Signal(Block):
    """Rows as a signal: their width are its channels."""

    def build(self) -> None:
        made = (32, 48)[self.first % 2]
        groups = self.width if self.second % 3 == 0 else 1
        made = self.width if groups > 1 else made
        self.layer = nn.Conv1d(self.width, made, 3, 1, 1, groups=groups)
        self.norm = nn.BatchNorm1d(made) if self.first % 3 else nn.Identity()
        self.width = made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(self.layer(x.transpose(1, 2)))).transpose(1, 2)


class Recurrent(Block):
    """A few steps of a recurrent layer."""

    def build(self) -> None:
        kind = (nn.LSTM, nn.GRU, nn.RNN)[self.first % 3]
        made = (32, 40)[self.second % 2]
        self.layer = kind(self.width, made, batch_first=True)
        self.width = made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.layer(x[:, :3])[0]
        return made


class Normed(Block):
    """Norms that are not the usual ones."""

    def build(self) -> None:
        self.norm = (nn.RMSNorm, nn.BatchNorm1d)[self.first % 2](self.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        folded = x.reshape(-1, self.width)
        made: torch.Tensor = self.norm(folded).view(x.shape)
        return functional.normalize(made, dim=-1) if self.second % 3 == 0 else made


class Unbound(Block):
    """Attention whose parts are taken one by one; heads of any size, a mask or none."""

    def build(self) -> None:
        self.heads = next(n for n in (1 + self.first % 4, 2, 1) if self.width % n == 0)
        self.parts = nn.Linear(self.width, 3 * self.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.parts(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mask = torch.ones(length, length).tril().bool() if self.second % 3 == 1 else None
        how = {"attn_mask": mask, "is_causal": self.second % 3 == 2}
        mixed = functional.scaled_dot_product_attention(query, key, value, **how)  # type: ignore[arg-type]
        return mixed.transpose(1, 2).reshape(batch, length, width)


class Chain(Block):
    """Elementwise, some of it in place."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.act(x * 0.5)
        if self.first % 2:
            made += x
        if self.first % 3 == 0:
            made = made.mul_(2.0)
        return made - x if self.first % 4 < 2 else torch.maximum(made, x)


class Rows(Block):
    """An image as rows of its channels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(2).transpose(1, 2)


class Mean(Block):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3)).unsqueeze(1)


class Linear(Block):
    def build(self) -> None:
        made = (32, 48, 64, 128)[self.first % 4]
        self.layer = nn.Linear(self.width, made, bias=self.second % 2 == 0)
        self.width = made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.layer(x))


class Perceptron(Block):
    def build(self) -> None:
        self.norm = nn.LayerNorm(self.width)
        self.up, self.down = nn.Linear(self.width, 2 * self.width), nn.Linear(2 * self.width, self.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.act(self.up(self.norm(x))))


class Attention(Block):
    def build(self) -> None:
        self.heads = next(n for n in (self.first % 5, 2, 1) if n and self.width % n == 0)
        self.parts, self.out = nn.Linear(self.width, 3 * self.width), nn.Linear(self.width, self.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        size = width // self.heads
        if self.second % 2:
            parts = self.parts(x).view(batch, length, 3, self.heads, size).permute(2, 0, 3, 1, 4)
        else:
            parts = [one.view(batch, length, self.heads, size).transpose(1, 2) for one in self.parts(x).chunk(3, -1)]
        if self.second % 3:
            mixed = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        else:
            mixed = torch.softmax(parts[0] @ parts[1].transpose(-1, -2) / size**0.5, -1) @ parts[2]
        return x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Turn(Block):
    """Rows and columns change places for a moment, or rows are folded and unfolded."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        if self.first % 3 == 0:
            return self.act(x.transpose(1, 2)).transpose(1, 2)
        if self.first % 3 == 1:
            return self.act(x.reshape(batch * length, width)).view(batch, length, width)
        return self.act(x.unsqueeze(1).permute(0, 2, 1, 3).contiguous()).squeeze(2)


class Doubled(Block):
    """Concatenated along the rows or the width."""

    def build(self) -> None:
        self.dim = 1 + self.first % 2
        self.width *= self.dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.act(x)], self.dim)


def drawn(size: tuple[int, int], blocks: list[list[Any]], is_image: bool) -> nn.Module:
    return Drawn(3 if is_image else size[1], blocks)


def image(size: tuple[int, int], batch: int) -> torch.Tensor:
    return torch.zeros(batch, 3, *size)


def rows(size: tuple[int, int], batch: int) -> torch.Tensor:
    return torch.zeros(batch, *size)
