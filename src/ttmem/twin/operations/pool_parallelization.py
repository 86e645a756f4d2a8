# SPDX-License-Identifier: Apache-2.0
"""The distribution of a pooling over the cores, and the L1 that each way takes."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT16, DataType
from ttmem.twin.operations.conv_config import BLOCK, HEIGHT, WIDTH
from ttmem.twin.operations.conv_parallelization import ChipGrid, count_cores, fill_rows, find_common_divisor
from ttmem.twin.operations.halo import Dealing, choose_stick_dtype
from ttmem.twin.operations.result_shards import bound_cores
from ttmem.twin.operations.sliding_window import Window, count_halo_sticks
from ttmem.twin.tensor_spec import ROW_MAJOR, TILE, CoreRange, Layout, Shard, make_core_grid

_TILE, _FACE = 32, 16
STICK_UNIT = 8


@dataclass(frozen=True)
class Pooling:
    """The window, types and options of a pooling."""

    window: Window
    channels: int
    is_average: bool
    divides_by_pixels: bool
    """The divisor is the number of pixels in the window, not a number that the caller gives."""
    goes_beyond: bool
    """Windows may reach beyond the padding (ceil mode)."""
    counts_padding: bool
    dtype: DataType
    """The type of the input."""
    is_tiled: bool = False
    """The input is tiled."""
    out_dtype: DataType = BFLOAT16
    out_layout: Layout = ROW_MAJOR
    excess: int = 0
    """Columns that the library's estimate adds to a slice beyond what its windows need."""

    @property
    def stick_unit(self) -> int:
        """Return the unit that channels of a stick are rounded up to."""
        return _TILE if self.is_tiled else STICK_UNIT

    @property
    def out_rows(self) -> int:
        """Return the unit that outputs of a core are rounded up to."""
        return _TILE if self.out_layout is TILE else 1

    @property
    def width_unit(self) -> int:
        """Return the unit in which channels are distributed."""
        return _TILE if self.is_tiled or self.out_layout is TILE else _FACE

    @property
    def has_uneven_windows(self) -> bool:
        """Return whether windows of an average hold different numbers of pixels."""
        window = self.window
        return self.divides_by_pixels and (any(window.ceiling) or (any(window.padding) and not self.counts_padding))


@dataclass(frozen=True)
class PoolingScheme:
    """A pooling distributed over cores."""

    kind: str
    pooling: Pooling
    chip: ChipGrid
    cores_high: int
    cores_across: int
    given: Shard | None = None
    """The input's shards, if it is sharded."""

    @property
    def ranges(self) -> tuple[CoreRange, ...]:
        if self.given is not None:
            return self.given.ranges
        if self.kind == BLOCK:
            return make_core_grid(self.cores_across, self.cores_high)
        return fill_rows(self.cores_high * self.cores_across, self.chip.grid)

    @property
    def channels_per_core(self) -> int:
        if self.given is not None:
            return self.given.width
        return round_up(self.pooling.channels, self.cores_across * self.pooling.stick_unit) // self.cores_across

    @property
    def outputs_per_core(self) -> int:
        return round_up(self.pooling.window.outputs, self.cores_high * self.pooling.out_rows) // self.cores_high

    @property
    def sticks_per_core(self) -> int:
        if self.given is not None:
            return self.given.height
        window, unit = self.pooling.window, _TILE if self.pooling.is_tiled else 1
        return round_up(window.batch * window.height * window.width, self.cores_high * unit) // self.cores_high

    @property
    def dealing(self) -> Dealing:
        return Dealing(
            *(self.pooling.window, self.kind, self.ranges, self.cores_high, self.pooling.channels),
            *(self.channels_per_core, self.sticks_per_core, self.outputs_per_core),
        )

    def compute_out_width(self, unit: int = _FACE) -> int:
        """Return the result's channels per core."""
        return round_up(self.pooling.channels, self.cores_across * unit) // self.cores_across

    @property
    def out_shard(self) -> Shard:
        """Return the result's shards; a last tile of less than a face is padded to a whole tile, unless it is alone."""
        channels = ceil_div(self.pooling.channels, self.cores_across)
        is_padded = self.pooling.out_layout is TILE or 0 < channels % _TILE < _FACE < channels
        width = self.compute_out_width(_TILE if is_padded else _FACE)
        return Shard(self.kind, self.outputs_per_core, width, self.ranges)

    @cached_property
    def static_bytes(self) -> list[int]:
        """Return the static buffers: the divisors, the initial value, two double-buffered streams of windows, and a
        row of sticks before they become tiles."""
        made, dtype = self.pooling, choose_stick_dtype(self.pooling.dtype)
        pixels = made.window.kernel[0] * made.window.kernel[1]
        rest = made.channels // self.cores_across % _TILE
        is_large = pixels > (_TILE // 2 if 0 < rest <= _FACE else _TILE)
        all_tiles = ceil_div(made.channels, self.cores_across * _TILE)
        tiles = min(all_tiles, 4 if made.is_average and is_large else 8)
        rows = pixels if pixels <= _FACE else _TILE
        windows = round_up(tiles * _TILE * rows, _TILE * _TILE) * dtype.mantissa_bits // 8
        numbers = [2 * dtype.tile_bytes()] * (2 if made.has_uneven_windows else 1)
        rows_of_tiles = [all_tiles * dtype.tile_bytes()] if made.out_layout is TILE else []
        return [*numbers, dtype.tile_bytes(), 2 * windows, 2 * windows, *rows_of_tiles]

    def count_bytes_with_result(self, outputs_per_core: int, width: int) -> int:
        """Return the program's bytes per core, static buffers and result, by the library's estimate."""
        element = choose_stick_dtype(self.pooling.dtype).mantissa_bits // 8
        if self.pooling.out_layout is TILE:
            result = outputs_per_core * width // _TILE**2 * self.pooling.out_dtype.tile_bytes()
        else:
            result = min(_FACE, width) * element * outputs_per_core * (width // _FACE)
        return sum(self.static_bytes) + round_up(result, self.chip.architecture.dram_alignment_bytes)

    @property
    def slice_bytes(self) -> int:
        """Return the bytes that decide whether a slice fits: with the halo while gathering it or while pooling."""
        window, element = self.pooling.window, choose_stick_dtype(self.pooling.dtype).mantissa_bits // 8
        width, sticks = self.channels_per_core, self.dealing.sticks_per_core
        # The halo's own windows: in ceil mode they are computed as if the slice were an image.
        top, bottom, left, right = window.padding
        alone = replace(window, padding=(top, bottom, left, right + self.pooling.excess), ceiling=(0, 0))
        alone = replace(alone, ceiling=compute_ceiling(alone) if self.pooling.goes_beyond else (0, 0))
        alone_per_core = round_up(alone.outputs, self.cores_high * self.pooling.out_rows) // self.cores_high
        halo = count_halo_sticks(alone, self.cores_high, alone_per_core) * width * element
        aligned = round_up(width * element, self.chip.architecture.l1_alignment_bytes)
        outputs = window.output_height * window.output_width // self.cores_high
        outputs = round_up(outputs, self.pooling.out_rows)
        reckoned = replace(self, pooling=replace(self.pooling, dtype=self.pooling.out_dtype))
        pooled = halo + reckoned.count_bytes_with_result(outputs, width) + outputs * width * element
        blocks = 4 * ceil_div(width, _TILE) * _TILE * _TILE * element if self.pooling.is_tiled else 0
        return max(sticks * width * element + halo + 2 * aligned + blocks, pooled)


@lru_cache(maxsize=4096)
def choose_pooling_scheme(kind: str, made: Pooling, chip: ChipGrid, unit: int = _TILE) -> PoolingScheme:
    """Choose the cores; ``unit``: of channels that rows and columns of cores share."""
    outputs, grid = ceil_div(made.window.outputs, made.out_rows), chip.grid
    pieces = ceil_div(made.channels, made.width_unit)
    if kind == HEIGHT:
        return PoolingScheme(kind, made, chip, count_cores(outputs, grid.cores), 1)
    if kind == WIDTH:
        return PoolingScheme(kind, made, chip, 1, find_common_divisor(pieces, pieces, grid.cores))
    across = find_common_divisor(pieces, ceil_div(made.channels, unit), grid.columns)
    return PoolingScheme(kind, made, chip, count_cores(outputs, grid.rows), across)


def read_pooling_scheme(made: Pooling, chip: ChipGrid, shard: Shard) -> PoolingScheme:
    """Return the scheme of a sharded input, which stays on its cores."""
    box = bound_cores(shard)
    high, across = {HEIGHT: (shard.cores, 1), WIDTH: (1, shard.cores)}.get(shard.kind, (box.rows, box.columns))
    return PoolingScheme(shard.kind, made, chip, high, across, shard)


@lru_cache(maxsize=4096)
def choose_pooling_kind(made: Pooling, chip: ChipGrid) -> str:
    """Return the kind that takes the least L1; height and then width win a tie."""

    def count_bytes(kind: str) -> int:
        scheme = choose_pooling_scheme(kind, made, chip)
        outputs = made.window.outputs if kind == WIDTH else round_up(scheme.outputs_per_core, _TILE)
        return scheme.count_bytes_with_result(outputs, scheme.compute_out_width())

    return min((HEIGHT, WIDTH, BLOCK), key=count_bytes)


def compute_ceiling(window: Window) -> tuple[int, int]:
    """Return the padding that lets windows reach the end of the image; none begins in the padding."""

    def compute_end_padding(size: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> int:
        reach = dilation * (kernel - 1) + 1
        outputs = ceil_div(size + before + after - reach, stride) + 1
        if (outputs - 1) * stride >= size + before:
            outputs -= 1
        return max(stride * (outputs - 1) + reach - size - before - after, 0)

    top, bottom, left, right = window.padding
    return (
        compute_end_padding(window.height, window.kernel[0], window.stride[0], window.dilation[0], top, bottom),
        compute_end_padding(window.width, window.kernel[1], window.stride[1], window.dilation[1], left, right),
    )


@lru_cache(maxsize=1024)
def count_divisors(made: Pooling, cores: int, outputs_per_core: int) -> int:
    """Return the most runs of windows with equal numbers of pixels among the outputs of one core."""
    import numpy as np

    window = made.window

    def measure_windows(size: int, outputs: int, kernel: int, stride: int, before: int, after: int) -> Any:
        start = np.arange(outputs) * stride - before
        end = np.minimum(start + kernel, size + after)
        if made.counts_padding:
            return end - start
        return np.maximum(np.minimum(end, size) - np.maximum(start, 0), 0)

    top, bottom, left, right = window.padding
    high = measure_windows(window.height, window.output_height, window.kernel[0], window.stride[0], top, bottom)
    wide = measure_windows(window.width, window.output_width, window.kernel[1], window.stride[1], left, right)
    image = np.outer(high, wide).ravel()
    most = done = first = 0
    for _ in range(cores):
        areas = image[(first + np.arange(outputs_per_core)) % image.size]
        most = max(most, 1 + int(np.count_nonzero(areas[1:] != areas[:-1])))
        done += outputs_per_core
        first = done
        if done // image.size == window.batch:  # the library restarts, but keeps the overshoot
            done, first = done - image.size * window.batch, 0
    return most
