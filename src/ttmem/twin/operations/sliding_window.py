# SPDX-License-Identifier: Apache-2.0
"""Windows that slide over an image distributed over cores, and the neighbours' rows that each core needs (the halo).

An image is a list of *sticks*, one per pixel with all its channels. Each core computes a stretch of the output and gets
the stretch of the padded input that its windows touch. Small tables list the transfers; they stay in L1_SMALL as long
as the program is cached, and only their widths are computed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem.base.arithmetic import ceil_div
from ttmem.base.errors import BadInputError

if TYPE_CHECKING:
    import numpy as np

    IntArray = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

Pair = tuple[int, int]

_UNTILIZED_STICKS = 32
"""Tiles are untilized into sticks in blocks of this height, and no transfer crosses a block."""


def read_pair(given: Mapping[str, Any], name: str) -> Pair:
    """Read an argument for height and width."""
    value = given[name]
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise BadInputError(f"'{name}' must be two numbers, not {value!r}")
    return int(value[0]), int(value[1])


def read_padding(padding: Any) -> tuple[int, int, int, int]:
    """Return top, bottom, left, right; two numbers are for height and width."""
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
    """Transposed: the distance of the pixels on the padded image, with zeros between them."""
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
        """Return the distance from a window's first padded stick to its last."""
        return self.dilation[0] * (self.kernel[0] - 1) * self.padded_width + self.dilation[1] * (self.kernel[1] - 1)

    def find_first_sticks(self, outputs: IntArray) -> IntArray:
        """Return the stick of the padded images where the window of each output begins."""
        row, column = outputs // self.output_width, outputs % self.output_width
        image, row = row // self.output_height, row % self.output_height
        if self.enlarged is not None:
            row = _find_pixels_above(self.enlarged[0], self.output_height)[row]
            column = _find_pixels_above(self.enlarged[1], self.output_width)[column]
        else:
            row, column = row * self.stride[0], column * self.stride[1]
        return (image * self.padded_height + row) * self.padded_width + column


@lru_cache(maxsize=256)
def _find_pixels_above(scale: int, outputs: int) -> IntArray:
    """Return the padded pixel before each output along one dimension, rounded like the library's float32 sums."""
    import numpy as np

    step = np.float32(1) / np.float32(scale)
    places = np.full(outputs, step, np.float32)
    places[0] = np.float32(0.5) * step + np.float32(0.5)
    return np.add.accumulate(places, dtype=np.float32).astype(np.int64)


class Shares(NamedTuple):
    """Outputs and sticks of each core, as columns, with inclusive ends; an end before its start means none."""

    first_output: IntArray
    last_output: IntArray
    first_stick: IntArray
    last_stick: IntArray


@lru_cache(maxsize=4096)
def compute_shares(window: Window, cores: int, outputs_per_core: int) -> Shares:
    """Return the shares of the cores in order. Cores past the last output get its window too."""
    import numpy as np

    first = np.minimum(np.arange(cores) * outputs_per_core, window.outputs)
    last = np.minimum(first + outputs_per_core, window.outputs) - 1
    if window.enlarged is not None:
        return _compute_enlarged_shares(window, first, last)
    begin = window.find_first_sticks(np.minimum(first, window.outputs - 1))
    last_begin = window.find_first_sticks(last)
    end = last_begin + window.reach
    is_late = (begin == 0) & (first != 0)
    begin = np.where(is_late, last_begin + 1, begin)
    return Shares(first, last, begin, np.where(is_late, begin - 1, end))


def _compute_enlarged_shares(window: Window, first: IntArray, last: IntArray) -> Shares:
    """Return the shares of a bilinear upsample, where the first window of a core's second row may begin first."""
    import numpy as np

    width = window.output_width
    second_row, last_row = (first // width + 1) * width, last // width * width
    within = np.clip(first, 0, window.outputs - 1)
    begin = window.find_first_sticks(within)
    begin = np.minimum(begin, window.find_first_sticks(np.where(second_row <= last, second_row, within)))
    end = window.find_first_sticks(last)
    end = np.maximum(end, window.find_first_sticks(np.where(last_row - 1 >= first, last_row - 1, last))) + window.reach
    is_idle = first > last
    return Shares(first, last, np.where(is_idle, 1, begin), np.where(is_idle, 0, end))


def count_halo_sticks(window: Window, cores: int, outputs_per_core: int) -> int:
    """Return the height of each core's shard with the halo: the most sticks of any core."""
    dealt = compute_shares(window, cores, outputs_per_core)
    return int((dealt.last_stick - dealt.first_stick).max()) + 1


@lru_cache(maxsize=4096)
def compute_reader_table_width(window: Window, cores: int, outputs_per_core: int, readers: tuple[int, ...]) -> int:
    """Return the numbers per core that list the windows' starts: two per block, two per unbroken row of windows.

    ``readers``: outputs per block of each reader, which take turns; with none there is one block per core.
    """
    import numpy as np

    dealt = compute_shares(window, cores, outputs_per_core)
    widths, first, turn = np.zeros_like(dealt.first_output), dealt.first_output, 0
    while (first <= dealt.last_output).any():
        block = readers[turn % len(readers)] if readers else outputs_per_core
        last = np.minimum(first + block - 1, dealt.last_output)
        widths += np.where(first <= last, 2 + 2 * _count_unbroken_rows(window, first, last), 0)
        first, turn = first + block, turn + 1
    return int(widths.max())


def _count_unbroken_rows(window: Window, first: IntArray, last: IntArray) -> IntArray:
    """Return the stretches of outputs whose windows follow each other at the stride; rows may join."""
    width, height = window.output_width, window.output_height
    turns = last // width - first // width
    images = last // (width * height) - first // (width * height)
    joins = window.stride[0] * window.padded_width == width * window.stride[1]
    image_rows = window.padded_height - (height - 1) * window.stride[0]
    images_join = image_rows * window.padded_width == width * window.stride[1]
    rows: IntArray = 1 + (turns - images) * (not joins) + images * (not images_join)
    return rows


@dataclass(frozen=True, slots=True)
class HaloTables:
    """Numbers (of two bytes) per core in each of the four tables of a halo, in the order of their allocation."""

    paddings: Pair
    transfers: Pair

    @property
    def widths(self) -> tuple[int, ...]:
        """Return the widths of the tables' tensors, which are even."""
        return tuple(width + width % 2 for width in (*self.paddings, *self.transfers))


@lru_cache(maxsize=4096)
def compute_halo_tables(
    window: Window, cores: int, outputs_per_core: int, sticks_per_core: int, tiled: bool, columns: int = 1
) -> HaloTables:
    """Return the tables of both kernels of a core, which share the stretches of padding and the transfers.

    ``columns``: columns of the cores' grid, for height shards.
    """
    import numpy as np

    dealt = compute_shares(window, cores, outputs_per_core)
    receiver, stick, pixel, length = _find_stretches(window, dealt)
    paddings = _count_padding_stretches(dealt, receiver, stick, length)
    half = paddings // 2
    # A stretch on several cores is one transfer per core.
    sender, local, length, whose = _split_stretches(pixel, length, sticks_per_core)
    receiver = receiver[whose]
    if tiled:
        # No transfer crosses a block of tiles; blocks are sent as they become ready, and the kernels take turns.
        block, place, length, whose = _split_stretches(local, length, _UNTILIZED_STICKS)
        sender, receiver = sender[whose], receiver[whose]
        order = np.lexsort((receiver // columns, receiver % columns, block * _UNTILIZED_STICKS + place, sender))
        kernel = block[order] % 2
        sender, receiver = sender[order], receiver[order]
    else:
        # A core's own sticks come first, then those for the others in their order; the kernels take turns.
        order = np.lexsort((receiver, receiver != sender, sender))
        sender, receiver = sender[order], receiver[order]
        kernel = (np.arange(sender.size) - np.searchsorted(sender, np.arange(cores))[sender]) % 2
    widths = [_compute_table_width(sender[kernel == one], receiver[kernel == one], cores) for one in (0, 1)]
    return HaloTables((2 * half + 2, 2 * (paddings - half) + 2), (widths[0], widths[1]))


def _compute_table_width(sender: IntArray, receiver: IntArray, cores: int) -> int:
    """Return the table's width: three numbers per transfer, three per run of transfers to one core, and a count."""
    import numpy as np

    if not sender.size:
        return 1
    begins = np.ones(sender.size, bool)
    begins[1:] = (sender[1:] != sender[:-1]) | (receiver[1:] != receiver[:-1])
    counted = np.bincount(sender, minlength=cores) + np.bincount(sender, begins, minlength=cores).astype(np.int64)
    return 1 + 3 * int(counted.max())


def _split_stretches(start: IntArray, length: IntArray, size: int) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Split stretches at multiples of ``size``; return the multiple, the offset in it, the length and the stretch."""
    import numpy as np

    first, last = start // size, (start + length - 1) // size
    count = last - first + 1
    whose = np.repeat(np.arange(start.size), count)
    number = first[whose] + np.arange(whose.size) - np.repeat(np.cumsum(count) - count, count)
    begin = np.maximum(start[whose], number * size)
    end = np.minimum(start[whose] + length[whose], (number + 1) * size)
    return number, begin - number * size, end - begin, whose


def _find_stretches(window: Window, dealt: Shares) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the unbroken stretches of image in each core's sticks: core, first stick, its pixel and length."""
    import numpy as np

    top, _, left, _ = window.padding
    down, across = window.spread or (1, 1)
    width = window.padded_width
    rows = np.maximum(dealt.last_stick // width - dealt.first_stick // width + 1, 0)
    core = np.repeat(np.arange(rows.size), rows)
    row = (dealt.first_stick // width)[core] + np.arange(core.size) - np.repeat(np.cumsum(rows) - rows, rows)
    image, line = row // window.padded_height, row % window.padded_height - top
    is_image = (line >= 0) & (line < (window.height - 1) * down + 1) & (line % down == 0)
    core, row, image, line = (column[is_image] for column in (core, row, image, line))
    # The pixels of each line between the ends of the core's sticks.
    before, after = dealt.first_stick[core] - row * width - left, dealt.last_stick[core] - row * width - left
    first = np.clip(ceil_div(before, across), 0, window.width)
    end = np.clip(after // across + 1, first, window.width)
    pixel = (image * window.height + line // down) * window.width + first
    stick, length = row * width + left + first * across, end - first
    core, stick, pixel, length = (column[length > 0] for column in (core, stick, pixel, length))
    if across > 1:
        whose = np.repeat(np.arange(core.size), length)
        place = np.arange(whose.size) - np.repeat(np.cumsum(length) - length, length)
        core, stick, pixel, length = core[whose], stick[whose] + place * across, pixel[whose] + place, place * 0 + 1
    joins = np.zeros(core.size, bool)
    joins[1:] = (core[1:] == core[:-1]) & (stick[1:] == stick[:-1] + length[:-1])
    if not joins.any():
        return core, stick, pixel, length
    begins = np.flatnonzero(~joins)
    return core[begins], stick[begins], pixel[begins], np.add.reduceat(length, begins)


def _count_padding_stretches(dealt: Shares, core: IntArray, stick: IntArray, length: IntArray) -> int:
    """Return the most padding stretches of any core: between its stretches of image, before and after them."""
    import numpy as np

    cores = dealt.first_stick.size
    counted = np.bincount(core, minlength=cores)
    has_image = counted > 0
    begins = np.searchsorted(core, np.arange(cores))
    ends = np.searchsorted(core, np.arange(cores), side="right") - 1
    if not core.size:
        return int((dealt.last_stick >= dealt.first_stick).any())
    first, last = stick[np.minimum(begins, core.size - 1)], (stick + length)[np.maximum(ends, 0)]
    around = (first > dealt.first_stick).astype(np.int64) + (last <= dealt.last_stick)
    lone = (dealt.last_stick >= dealt.first_stick).astype(np.int64)
    return int(np.where(has_image, counted - 1 + around, lone).max())
