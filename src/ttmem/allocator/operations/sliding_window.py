# SPDX-License-Identifier: Apache-2.0
"""Windows that slide over an image dealt over cores: how much of its neighbours' rows each core needs (the halo).

An image is a list of *sticks*, one per pixel with all its channels. Each core makes a stretch of the output and gets
the stretch of the padded input that its windows touch. What it has to fetch from where is written into small tables;
these stay in L1_SMALL for as long as the program is cached, and here only their widths are worked out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ttmem._errors import BadInputError

Pair = tuple[int, int]

_UNTILIZED_STICKS = 32
"""Tiles are turned into sticks in blocks of this height, and no transfer crosses a block."""


def pair(given: Mapping[str, Any], name: str) -> Pair:
    """An argument for height and width."""
    value = given[name]
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise BadInputError(f"'{name}' must be two numbers, not {value!r}")
    return int(value[0]), int(value[1])


def four_sides(padding: Any) -> tuple[int, int, int, int]:
    """Top, bottom, left, right; two numbers are for height and width."""
    if not isinstance(padding, (list, tuple)) or len(padding) not in (2, 4):
        raise BadInputError(f"'padding' must be two or four numbers, not {padding!r}")
    top, *middle, right = map(int, padding)
    bottom, left = middle or (top, right)
    return top, bottom, left, right


@dataclass(frozen=True, slots=True)
class Window:
    """A window of ``kernel`` pixels that moves over a padded image, in (height, width) pairs."""

    batch: int
    height: int
    width: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Top, bottom, left, right."""
    dilation: Pair = (1, 1)
    ceiling: Pair = (0, 0)
    """Rows and columns added at the end so that the last window fits."""
    spread: Pair | None = None
    """Transposed: how far apart the pixels lie on the padded image, zeros between them."""
    output_padding: Pair = (0, 0)
    """Transposed: more padding at the end."""
    enlarged: Pair | None = None
    """Bilinear: outputs per pixel. Neighbours then share windows, and those of a row begin where the row above did."""

    @property
    def padded_height(self) -> int:
        height = self.height if self.spread is None else (self.height - 1) * self.spread[0] + 1
        return height + self.padding[0] + self.padding[1] + self.ceiling[0] + self.output_padding[0]

    @property
    def padded_width(self) -> int:
        width = self.width if self.spread is None else (self.width - 1) * self.spread[1] + 1
        return width + self.padding[2] + self.padding[3] + self.ceiling[1] + self.output_padding[1]

    @property
    def output_height(self) -> int:
        if self.enlarged is not None:
            return self.height * self.enlarged[0]
        return (self.padded_height - self.dilation[0] * (self.kernel[0] - 1) - 1) // self.stride[0] + 1

    @property
    def output_width(self) -> int:
        if self.enlarged is not None:
            return self.width * self.enlarged[1]
        return (self.padded_width - self.dilation[1] * (self.kernel[1] - 1) - 1) // self.stride[1] + 1

    @property
    def outputs(self) -> int:
        return self.batch * self.output_height * self.output_width

    @property
    def reach(self) -> int:
        """From the first padded stick of a window to its last."""
        return self.dilation[0] * (self.kernel[0] - 1) * self.padded_width + self.dilation[1] * (self.kernel[1] - 1)

    def first_stick(self, output: int) -> int:
        """Where in the padded images the window of this output begins."""
        row, column = divmod(output, self.output_width)
        image, row = divmod(row, self.output_height)
        if self.enlarged is not None:
            down, across = self.enlarged
            top, left = _pixels_above(down, self.output_height)[row], _pixels_above(across, self.output_width)[column]
            return (image * self.padded_height + top) * self.padded_width + left
        return (image * self.padded_height + row * self.stride[0]) * self.padded_width + column * self.stride[1]


@lru_cache(maxsize=256)
def _pixels_above(scale: int, outputs: int) -> tuple[int, ...]:
    """The padded pixel before each output along one dimension, rounded as the library does: sums of float32."""
    import numpy as np

    step = np.float32(1) / np.float32(scale)
    places = np.full(outputs, step, np.float32)
    places[0] = np.float32(0.5) * step + np.float32(0.5)
    return tuple(int(place) for place in np.add.accumulate(places, dtype=np.float32))


@dataclass(frozen=True, slots=True)
class Share:
    """What one core makes and needs; both ends are included, an end before its start means nothing."""

    first_output: int
    last_output: int
    first_stick: int
    last_stick: int

    @property
    def sticks(self) -> int:
        return self.last_stick - self.first_stick + 1


@lru_cache(maxsize=4096)
def shares(window: Window, cores: int, outputs_per_core: int) -> tuple[Share, ...]:
    """The cores in order. Those past the last output are given its window all the same."""
    dealt, first = [], 0
    for _ in range(cores):
        last = min(first + outputs_per_core, window.outputs) - 1
        if window.enlarged is not None:
            dealt.append(_enlarged_share(window, first, last))
            first = last + 1
            continue
        begin = window.first_stick(min(first, window.outputs - 1))
        end = window.first_stick(last) + window.reach
        if begin == 0 and first:
            begin = window.first_stick(last) + 1
            end = begin - 1
        dealt.append(Share(first, last, begin, end))
        first = last + 1
    return tuple(dealt)


def _enlarged_share(window: Window, first: int, last: int) -> Share:
    """The windows of a core do not follow each other: the first of its second row may begin before all others."""
    if first > last:
        return Share(first, last, 1, 0)
    width = window.output_width
    second_row, last_row = (first // width + 1) * width, last // width * width
    begins = [window.first_stick(output) for output in (first, second_row) if output <= last]
    ends = [window.first_stick(output) for output in (last, last_row - 1) if output >= first]
    return Share(first, last, min(begins), max(ends) + window.reach)


def halo_sticks(window: Window, cores: int, outputs_per_core: int) -> int:
    """Height of every core's shard after the halo was gathered: what the neediest one takes."""
    return max(share.sticks for share in shares(window, cores, outputs_per_core))


@lru_cache(maxsize=4096)
def reader_table_width(window: Window, cores: int, outputs_per_core: int, readers: tuple[int, ...]) -> int:
    """Numbers per core that tell the readers where windows begin: two per block and two per unbroken row of windows.

    ``readers``: outputs per block of each reader, which take turns; with none there is one block per core.
    """
    widest = 0
    for share in shares(window, cores, outputs_per_core):
        width, first, turn = 0, share.first_output, 0
        if not readers and first <= share.last_output:
            width = 2 + 2 * _unbroken_rows(window, first, share.last_output)
        while readers and first <= share.last_output:
            last = min(first + readers[turn % len(readers)] - 1, share.last_output)
            width += 2 + 2 * _unbroken_rows(window, first, last)
            first, turn = last + 1, turn + 1
        widest = max(widest, width)
    return widest


def _unbroken_rows(window: Window, first: int, last: int) -> int:
    """Stretches of outputs whose windows follow each other at the stride; rows may join when nothing lies between."""
    width, height = window.output_width, window.output_height
    turns = last // width - first // width
    images = last // (width * height) - first // (width * height)
    joins = window.stride[0] * window.padded_width == width * window.stride[1]
    image_rows = window.padded_height - (height - 1) * window.stride[0]
    images_join = image_rows * window.padded_width == width * window.stride[1]
    return 1 + (0 if joins else turns - images) + (0 if images_join else images)


@dataclass(frozen=True, slots=True)
class HaloTables:
    """Numbers (of two bytes) per core in each of the four tables of a halo, in the order of their allocation."""

    paddings: Pair
    transfers: Pair

    @property
    def widths(self) -> tuple[int, ...]:
        """As tensors have them: even."""
        return tuple(width + width % 2 for width in (*self.paddings, *self.transfers))


@lru_cache(maxsize=4096)
def halo_tables(window: Window, cores: int, outputs_per_core: int, sticks_per_core: int, tiled: bool) -> HaloTables:
    """Two kernels of each core share its work: half the stretches of padding each, every other transfer each."""
    most_paddings = 0
    sent: list[list[tuple[int, int, int]]] = [[] for _ in range(cores)]
    for receiver, share in enumerate(shares(window, cores, outputs_per_core)):
        paddings, stretches = _stretches(window, share)
        most_paddings = max(most_paddings, paddings)
        for start, length in stretches:
            while length:
                sender, local = divmod(start, sticks_per_core)
                here = min(length, sticks_per_core - local)
                sent[sender].append((receiver, local, here))
                start, length = start + here, length - here
    half = most_paddings // 2
    widest = [1, 1]
    for sender, transfers in enumerate(sent):
        # A core's own sticks come first, then those for the others in their order.
        ordered = sorted(transfers, key=lambda one: (one[0] != sender, one[0]))
        for kernel, receivers in enumerate(_in_blocks(ordered) if tiled else _in_turn(ordered)):
            routes = sum(one != other for one, other in zip(receivers, [None, *receivers], strict=False))
            widest[kernel] = max(widest[kernel], 1 + 3 * routes + 3 * len(receivers))
    return HaloTables((2 * half + 2, 2 * (most_paddings - half) + 2), (widest[0], widest[1]))


def _stretches(window: Window, share: Share) -> tuple[int, list[Pair]]:
    """How many stretches of padding a core's sticks have, and the stretches of image: first pixel and length."""
    top, _, left, _ = window.padding
    down, across = window.spread or (1, 1)
    bottom, right = top + (window.height - 1) * down, left + (window.width - 1) * across
    paddings, stretches = 0, list[Pair]()
    padded_until = imaged_until = -1
    stick, width, end = share.first_stick, window.padded_width, share.last_stick + 1
    while stick < end:
        row, column = divmod(stick, width)
        image, row = divmod(row, window.padded_height)
        in_image = top <= row <= bottom and not (row - top) % down
        if in_image and left <= column <= right and not (column - left) % across:
            length = min(right + 1 - column if across == 1 else 1, end - stick)
            if imaged_until == stick:
                start, before = stretches[-1]
                stretches[-1] = start, before + length
            else:
                pixel = (image * window.height + (row - top) // down) * window.width + (column - left) // across
                stretches.append((pixel, length))
            imaged_until = stick + length
        else:
            until = width
            if in_image and column < right:
                until = left if column < left else column + across - (column - left) % across
            length = min(until - column, end - stick)
            paddings += padded_until != stick
            padded_until = stick + length
        stick += length
    return paddings, stretches


def _in_turn(transfers: list[tuple[int, int, int]]) -> tuple[list[int], list[int]]:
    """The receivers of every other transfer."""
    receivers = [receiver for receiver, _, _ in transfers]
    return receivers[::2], receivers[1::2]


def _in_blocks(transfers: list[tuple[int, int, int]]) -> tuple[list[int], list[int]]:
    """The receivers in the order in which blocks become ready; the kernels take turns by block."""
    cut = []
    for receiver, start, length in transfers:
        while length:
            here = min(length, _UNTILIZED_STICKS - start % _UNTILIZED_STICKS)
            cut.append((start, receiver))
            start, length = start + here, length - here
    cut.sort()
    by_kernel: tuple[list[int], list[int]] = ([], [])
    for start, receiver in cut:
        by_kernel[start // _UNTILIZED_STICKS % 2].append(receiver)
    return by_kernel
