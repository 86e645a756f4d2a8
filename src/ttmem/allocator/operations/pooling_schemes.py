# SPDX-License-Identifier: Apache-2.0
"""How a pooling is dealt over the cores, and what each way takes of L1."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from ttmem.allocator.operations.convolution_config import BLOCK, HEIGHT, WIDTH
from ttmem.allocator.operations.convolution_schemes import Chip, common_divisor, cores_for, divided, row_by_row
from ttmem.allocator.operations.halos import Dealing, stick_dtype
from ttmem.allocator.operations.sliding_window import Window, halo_sticks
from ttmem.hardware import DataType
from ttmem.tensors import CoreRange, Shard, grid_of, round_up

_TILE, _FACE = 32, 16
STICK_UNIT = 8


@dataclass(frozen=True)
class Pooling:
    """What is to be pooled."""

    window: Window
    channels: int
    is_average: bool
    divides_by_pixels: bool
    """Whether an average is over the pixels that a window holds, not over a number that the caller gave."""
    goes_beyond: bool
    """Whether windows may reach beyond the padding (ceil mode)."""
    counts_padding: bool
    dtype: DataType
    """Of the input."""

    @property
    def has_uneven_windows(self) -> bool:
        """Whether windows of an average hold different numbers of pixels."""
        window = self.window
        return self.divides_by_pixels and (any(window.ceiling) or (any(window.padding) and not self.counts_padding))


@dataclass(frozen=True)
class PoolingScheme:
    """A pooling dealt over cores."""

    kind: str
    pooling: Pooling
    chip: Chip
    cores_high: int
    cores_across: int

    @property
    def ranges(self) -> tuple[CoreRange, ...]:
        if self.kind == BLOCK:
            return grid_of(self.cores_across, self.cores_high)
        return row_by_row(self.cores_high * self.cores_across, self.chip.grid)

    @property
    def channels_per_core(self) -> int:
        return round_up(self.pooling.channels, self.cores_across * STICK_UNIT) // self.cores_across

    @property
    def outputs_per_core(self) -> int:
        return divided(self.pooling.window.outputs, self.cores_high)

    @property
    def dealing(self) -> Dealing:
        window = self.pooling.window
        sticks = divided(window.batch * window.height * window.width, self.cores_high)
        return Dealing(
            *(window, self.kind, self.ranges, self.cores_high, self.pooling.channels),
            *(self.channels_per_core, sticks, self.outputs_per_core),
        )

    def out_width(self, unit: int = _FACE) -> int:
        """Channels per core of the result."""
        return round_up(self.pooling.channels, self.cores_across * unit) // self.cores_across

    @property
    def out_shard(self) -> Shard:
        """A last tile of less than a face is padded to a whole one, unless it is the only one."""
        channels = divided(self.pooling.channels, self.cores_across)
        is_padded = 0 < channels % _TILE < _FACE < channels
        width = self.out_width(_TILE if is_padded else _FACE)
        return Shard(self.kind, self.outputs_per_core, width, self.ranges)

    @cached_property
    def static_bytes(self) -> list[int]:
        """The number to multiply with, what windows begin with, and two streams of windows, each double."""
        made, dtype = self.pooling, stick_dtype(self.pooling.dtype)
        pixels = made.window.kernel[0] * made.window.kernel[1]
        rest = made.channels // self.cores_across % _TILE
        is_large = pixels > (_TILE // 2 if 0 < rest <= _FACE else _TILE)
        tiles = min(divided(made.channels, self.cores_across * _TILE), 4 if made.is_average and is_large else 8)
        rows = pixels if pixels <= _FACE else _TILE
        windows = round_up(tiles * _TILE * rows, _TILE * _TILE) * dtype.mantissa_bits // 8
        numbers = [2 * dtype.tile_bytes()] * (2 if made.has_uneven_windows else 1)
        return [*numbers, dtype.tile_bytes(), 2 * windows, 2 * windows]

    def bytes_with_result(self, outputs_per_core: int, width: int) -> int:
        """What the program takes of a core, static buffers and result, as the library reckons."""
        element = stick_dtype(self.pooling.dtype).mantissa_bits // 8
        result = min(_FACE, width) * element * outputs_per_core * (width // _FACE)
        return sum(self.static_bytes) + round_up(result, self.chip.architecture.dram_alignment_bytes)

    @property
    def slice_bytes(self) -> int:
        """The same with the halo, or when that is gathered: by this slices are judged."""
        window, element = self.pooling.window, stick_dtype(self.pooling.dtype).mantissa_bits // 8
        width, sticks = self.channels_per_core, self.dealing.sticks_per_core
        # The halo's own windows: in ceil mode they are reckoned as if the slice were an image.
        alone = replace(window, ceiling=ceiling_of(window) if self.pooling.goes_beyond else (0, 0))
        halo = halo_sticks(alone, self.cores_high, divided(alone.outputs, self.cores_high)) * width * element
        aligned = round_up(width * element, self.chip.architecture.l1_alignment_bytes)
        outputs = window.output_height * window.output_width // self.cores_high
        pooled = halo + self.bytes_with_result(outputs, width) + outputs * width * element
        return max(sticks * width * element + halo + 2 * aligned, pooled)


@lru_cache(maxsize=4096)
def pooling_scheme_of(kind: str, made: Pooling, chip: Chip, unit: int = _TILE) -> PoolingScheme:
    """``unit``: of channels when rows and columns of cores share them."""
    outputs, faces, grid = made.window.outputs, divided(made.channels, _FACE), chip.grid
    if kind == HEIGHT:
        return PoolingScheme(kind, made, chip, cores_for(outputs, grid.cores), 1)
    if kind == WIDTH:
        return PoolingScheme(kind, made, chip, 1, common_divisor(faces, faces, grid.cores))
    across = common_divisor(faces, divided(made.channels, unit), grid.columns)
    return PoolingScheme(kind, made, chip, cores_for(outputs, grid.rows), across)


@lru_cache(maxsize=4096)
def preferred_pooling_kind(made: Pooling, chip: Chip) -> str:
    """What takes least of L1; on a tie by height, then by width."""

    def needed(kind: str) -> int:
        scheme = pooling_scheme_of(kind, made, chip)
        outputs = scheme.outputs_per_core if kind == WIDTH else round_up(scheme.outputs_per_core, _TILE)
        return scheme.bytes_with_result(outputs, scheme.out_width())

    return min((HEIGHT, WIDTH, BLOCK), key=needed)


def ceiling_of(window: Window) -> tuple[int, int]:
    """What is added so that windows reach the end of the image; none begins in the padding."""

    def along(size: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> int:
        reach = dilation * (kernel - 1) + 1
        outputs = divided(size + before + after - reach, stride) + 1
        if (outputs - 1) * stride >= size + before:
            outputs -= 1
        return max(stride * (outputs - 1) + reach - size - before - after, 0)

    top, bottom, left, right = window.padding
    return (
        along(window.height, window.kernel[0], window.stride[0], window.dilation[0], top, bottom),
        along(window.width, window.kernel[1], window.stride[1], window.dilation[1], left, right),
    )


@lru_cache(maxsize=1024)
def most_divisors(made: Pooling, cores: int, outputs_per_core: int) -> int:
    """How often the number of pixels in a window changes among the outputs of one core, at most, counting the first."""
    import numpy as np

    window = made.window

    def lengths(size: int, outputs: int, kernel: int, stride: int, before: int, after: int) -> Any:
        start = np.arange(outputs) * stride - before
        end = np.minimum(start + kernel, size + after)
        if made.counts_padding:
            return end - start
        return np.maximum(np.minimum(end, size) - np.maximum(start, 0), 0)

    top, bottom, left, right = window.padding
    high = lengths(window.height, window.output_height, window.kernel[0], window.stride[0], top, bottom)
    wide = lengths(window.width, window.output_width, window.kernel[1], window.stride[1], left, right)
    image = np.outer(high, wide).ravel()
    most = done = first = 0
    for _ in range(cores):
        areas = image[(first + np.arange(outputs_per_core)) % image.size]
        most = max(most, 1 + int(np.count_nonzero(areas[1:] != areas[:-1])))
        done += outputs_per_core
        first = done
        if done // image.size == window.batch:  # the library begins anew, but counts on from what was too much
            done, first = done - image.size * window.batch, 0
    return most
