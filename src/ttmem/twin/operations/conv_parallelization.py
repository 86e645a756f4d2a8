# SPDX-License-Identifier: Apache-2.0
"""The distribution of a convolution over cores: three schemes, their L1 use, and the library's choice."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BLACKHOLE, FLOAT32, Architecture, DataType, MemoryMap
from ttmem.hardware.boards import Grid
from ttmem.twin.operations.conv_config import (
    BLOCK,
    HEIGHT,
    NO_CHOICES,
    WIDTH,
    Choices,
    Gathering,
    is_faster_with_two_readers,
)
from ttmem.twin.operations.halo import Dealing, choose_stick_dtype
from ttmem.twin.operations.sliding_window import Window, count_halo_sticks
from ttmem.twin.tensor_spec import CoreRange, InvalidSpecError, Shard, make_core_grid

_TILE = 32
_STICK_UNIT = 8
"""Channels of a stick are multiples of this: 16 bytes of bfloat16, the smallest transfer."""
_SCRATCH_BYTES = 64
_BURST_ALIGNMENTS = 256


def count_cores(pieces: int, most: int, at_once: int = 1) -> int:
    """Return the most cores, up to ``most``, that equal shares of pieces (``at_once`` per step) all keep busy."""
    cores = most
    while cores > 1 and (padded := round_up(pieces, cores * at_once)) - pieces >= padded // cores:
        cores -= 1
    return cores


def find_common_divisor(first: int, second: int, most: int) -> int:
    """Return the largest divisor of both up to ``most``."""
    return next(cores for cores in range(most, 0, -1) if first % cores == 0 == second % cores)


def fill_rows(cores: int, grid: Grid) -> tuple[CoreRange, ...]:
    """Return ``cores`` cores from the top left, row by row."""
    rows, rest = divmod(cores, grid.columns)
    ranges = make_core_grid(grid.columns, rows) if rows else ()
    return (*ranges, CoreRange(0, rows, rest - 1, rows)) if rest else ranges


@dataclass(frozen=True, slots=True)
class ChipGrid:
    """The facts of a chip that schemes depend on."""

    grid: Grid
    architecture: Architecture

    @classmethod
    def read(cls, memory_map: MemoryMap) -> "ChipGrid":
        return cls(memory_map.grid, memory_map.architecture)


@dataclass(frozen=True)
class Convolution:
    """The sizes and options of a convolution."""

    window: Window
    in_channels: int
    out_channels: int
    has_bias: bool
    dtype: DataType
    """The input's type."""
    weight_dtype: DataType
    out_dtype: DataType
    is_tiled: bool = False
    """Whether the input is tiled."""
    is_matmul: bool = False
    """Whether it is a kernel of one pixel with stride 1, without a window."""
    is_row_depthwise: bool = False
    """Whether channels are convolved separately along one row: its own kernel, without a matmul."""
    choices: Choices = NO_CHOICES

    @property
    def sums_in_float32(self) -> bool:
        chosen = self.choices.sums_in_float32
        return self.dtype is FLOAT32 and self.weight_dtype is FLOAT32 if chosen is None else chosen

    @property
    def kernel(self) -> Hashable:
        """The precision of the kernels, which selects the program."""
        return self.sums_in_float32, self.choices.kernel

    @property
    def stick_dtype(self) -> DataType:
        """The type of the input's sticks: block floats become bfloat16."""
        return choose_stick_dtype(self.dtype)

    @property
    def stick_bytes(self) -> int:
        """Bytes per channel."""
        return self.stick_dtype.mantissa_bits // 8


@dataclass(frozen=True)
class Scheme:
    """A convolution distributed over cores."""

    kind: str
    convolution: Convolution
    chip: ChipGrid
    cores_high: int
    """Cores along batch, height and width."""
    cores_in: int
    """Cores along the input's channels."""
    cores_out: int
    """Cores along the output's channels."""
    unit: int
    """Channels per core are a multiple of this."""
    given: Shard | None = None
    """The input's shards if they are kept."""

    @property
    def in_cores(self) -> int:
        return self.cores_high * self.cores_in

    @property
    def out_cores(self) -> int:
        return self.cores_high * self.cores_out

    @property
    def channels_per_core(self) -> int:
        return round_up(self.convolution.in_channels, self.cores_in * self.unit) // self.cores_in

    @property
    def outputs_per_core(self) -> int:
        return self.out_tiles_high * _TILE

    @cached_property
    def out_tiles_high(self) -> int:
        return ceil_div(ceil_div(self.convolution.window.outputs, _TILE), self.cores_high)

    @cached_property
    def block_tiles_high(self) -> int:
        """Output tiles per step: the largest divisor up to the choice; width shards divide the whole tiles alone."""
        wanted, all_rows = self.convolution.choices.block_rows, self.out_tiles_high
        if not wanted:
            return all_rows
        divided_rows = self.convolution.window.outputs // _TILE if self.kind == WIDTH else all_rows
        return next(rows for rows in range(wanted, 0, -1) if divided_rows % rows == 0)

    @property
    def is_cut_high(self) -> bool:
        return self.block_tiles_high < self.out_tiles_high

    @cached_property
    def out_tiles_wide(self) -> int:
        return ceil_div(ceil_div(self.convolution.out_channels, _TILE), self.cores_out)

    @cached_property
    def block_tiles_wide(self) -> int:
        """Tiles of the inner dimension per step: one row of the kernel, or all of it for width shards."""
        made, kernel = self.convolution, self.convolution.window.kernel
        if made.is_row_depthwise:
            return ceil_div(self.channels_per_core * self.taps_read_at_once, _TILE)
        if self.kind == WIDTH:
            return prod(kernel) * self.channels_per_core // made.choices.depth_divisor // _TILE
        taps = prod(kernel) if self.kind == BLOCK and made.choices.takes_whole_kernel else kernel[1]
        return ceil_div(taps * self.channels_per_core, _TILE)

    @property
    def blocks_deep(self) -> int:
        """Blocks of the weights along the inner dimension."""
        made = self.convolution
        if self.kind == WIDTH:
            return made.choices.depth_divisor * self.cores_in
        whole = self.kind == BLOCK and made.choices.takes_whole_kernel
        return (1 if whole else made.window.kernel[0]) * self.cores_in

    @property
    def taps_read_at_once(self) -> int:
        """Taps of a depthwise row per read: all of them if sticks are whole tiles and one burst reads them."""
        made = self.convolution
        taps = made.window.kernel[1] if made.window.dilation[1] == 1 and self.channels_per_core % _TILE == 0 else 1
        burst = _BURST_ALIGNMENTS * (64 if self.chip.architecture is BLACKHOLE else 32)
        return taps if taps * self.channels_per_core * made.stick_bytes <= burst else 1

    @cached_property
    def in_sticks(self) -> int:
        """Per core."""
        if self.given is not None:
            return self.given.height
        window = self.convolution.window
        sticks = window.batch * window.height * window.width
        rounded = 1 if self.kind == WIDTH and not self.convolution.is_tiled else _TILE
        return round_up(sticks, self.cores_high * rounded) // self.cores_high

    @cached_property
    def halo_sticks(self) -> int:
        """Per core."""
        return count_halo_sticks(self.convolution.window, self.cores_high, self.outputs_per_core)

    def ranges(self, across: int) -> tuple[CoreRange, ...]:
        """Return the cores, ``across`` of them along the channels."""
        if self.given is not None and across == self.cores_in:
            return self.given.ranges
        if self.kind == BLOCK:
            return make_core_grid(across, self.cores_high)
        return fill_rows(across * self.cores_high, self.chip.grid)

    @property
    def dealing(self) -> Dealing:
        """The distribution of the input."""
        return Dealing(
            *(self.convolution.window, self.kind, self.ranges(self.cores_in), self.cores_high),
            *(self.convolution.in_channels, self.channels_per_core, self.in_sticks, self.outputs_per_core),
        )

    @property
    def out_shard(self) -> Shard:
        return Shard(self.kind, self.outputs_per_core, self.out_tiles_wide * _TILE, self.ranges(self.cores_out))

    @property
    def weight_shape(self) -> tuple[int, int]:
        """The shape of the matrix that the kernels read, padded to whole blocks."""
        kernel = self.convolution.window.kernel
        rows = self.block_tiles_wide * self.blocks_deep
        if self.convolution.is_row_depthwise:
            rows = self.block_tiles_high * kernel[1]
        return rows * _TILE, self.out_tiles_wide * self.cores_out * _TILE

    def static_bytes(self, *, is_estimate: bool = False) -> list[int]:
        """Return the buffers of the convolution. The estimate ignores that a lone core sends nothing."""
        made, choices = self.convolution, self.convolution.choices
        if is_estimate and self.block_tiles_high > self.out_tiles_high and not made.is_row_depthwise:
            blocks = (rows * self.out_tiles_wide for rows in (self.block_tiles_high, self.out_tiles_high))
            raise InvalidSpecError("Conv2d output block size {} exceeds the per-core output size {}".format(*blocks))
        weight, out = made.weight_dtype.tile_bytes(), made.out_dtype.tile_bytes()
        stick = made.stick_dtype.tile_bytes()
        block = self.block_tiles_high * self.block_tiles_wide
        copies = 1 + choices.doubles_input
        is_alone = self.cores_in == self.cores_out == 1 and not is_estimate
        sent = 0 if is_alone or self.kind == HEIGHT else copies * block * out
        if self.kind == HEIGHT:
            gathered = copies * block * stick
        elif self.kind == WIDTH:
            gathered = 2 * self.block_tiles_wide * stick
        else:
            gathered = 0 if made.stick_dtype is made.out_dtype and not is_alone else copies * block * stick
        bias = self.out_tiles_wide * weight if made.has_bias else 0
        sizes = self._weight_tiles * weight, sent, gathered, block * out, bias, self._partial_bytes(is_estimate)
        return [size for size in (*sizes, _SCRATCH_BYTES) if size]

    @property
    def _weight_tiles(self) -> int:
        """Tiles of a weight block; for height shards all blocks of a row of outputs if there are several."""
        made, taps = self.convolution, self.taps_read_at_once
        rows = self.block_tiles_high * taps if made.is_row_depthwise else self.block_tiles_wide
        if self.kind == HEIGHT and self.is_cut_high:
            return self.out_tiles_wide * rows * self._blocks_along(is_estimate=False)
        return self.out_tiles_wide * rows * (1 + made.choices.doubles_weights)

    def _blocks_along(self, *, is_estimate: bool) -> int:
        """Return the number of weight blocks that an output adds, before they are split over columns of cores."""
        made, kernel = self.convolution, self.convolution.window.kernel
        if made.is_row_depthwise:
            return 1 if self.taps_read_at_once > 1 else prod(kernel)
        if self.kind == HEIGHT:
            return kernel[0]
        if not is_estimate:
            return self.blocks_deep
        return round_up(made.in_channels, self.unit) * prod(kernel) // _TILE // self.block_tiles_wide

    def _partial_bytes(self, is_estimate: bool) -> int:
        """Return the bytes of partial sums that are not stored in the result."""
        made, block = self.convolution, self.block_tiles_high * self.out_tiles_wide
        if made.is_row_depthwise:
            is_kept = self.is_cut_high and self.taps_read_at_once == 1
            return self.block_tiles_high * self.block_tiles_wide * made.out_dtype.tile_bytes() if is_kept else 0
        blocks = self._blocks_along(is_estimate=is_estimate) * (self.cores_out if self.kind == BLOCK else 1)
        dtype = made.choices.partial_dtype(made.out_dtype, blocks, has_bias=made.has_bias)
        return block * dtype.tile_bytes() if made.choices.gives_rows or dtype is not made.out_dtype else 0

    @property
    def out_shard_bytes(self) -> int:
        return self.out_tiles_high * self.out_tiles_wide * self.convolution.out_dtype.tile_bytes()

    @property
    def halo_bytes(self) -> int:
        return self.halo_sticks * self.channels_per_core * self.convolution.stick_bytes

    def estimate_bytes(self, window: Window | None = None) -> int:
        """Return the library's estimate of a core's bytes during the convolution, with the halo of this window."""
        halo = self.halo_bytes
        if window is not None:
            outputs = ceil_div(ceil_div(window.outputs, _TILE), self.cores_high) * _TILE
            halo = count_halo_sticks(window, self.cores_high, outputs)
            halo *= self.channels_per_core * self.convolution.stick_bytes
        return sum(self.static_bytes(is_estimate=True)) + self.out_shard_bytes + halo

    @property
    def estimated_peak_bytes(self) -> int:
        """The larger of that estimate and the bytes while the halo is gathered."""
        made = self.convolution
        sticks = self.in_sticks * self.channels_per_core * made.stick_bytes
        if made.dtype.is_block_float:
            sticks //= 2
        return max(sticks + self.halo_bytes, self.estimate_bytes())

    @property
    def _halves_pay(self) -> bool:
        made, window = self.convolution, self.convolution.window
        work = Gathering(
            *(made.stick_dtype, made.out_dtype, made.weight_dtype.tile_bytes()),
            *(self.block_tiles_high, self.block_tiles_wide, self.out_tiles_wide, self.channels_per_core),
            *(window.kernel[1], window.dilation[1] != 1, made.sums_in_float32),
        )
        return is_faster_with_two_readers(work, self.chip.architecture)

    def readers(self) -> tuple[int, ...]:
        """Return the outputs per block of each kernel that gathers windows: one, or two with half each."""
        high = self.block_tiles_high
        if (
            self.kind == WIDTH
            or high == 1
            or self.convolution.is_row_depthwise
            or (self.kind == HEIGHT and not self._halves_pay)
        ):
            return (high * _TILE,)
        return ((high - high // 2) * _TILE, high // 2 * _TILE)


@lru_cache(maxsize=4096)
def choose_scheme(
    kind: str, made: Convolution, chip: ChipGrid, *, is_sliced: bool = False, is_blind: bool = False
) -> Scheme:
    """Return the scheme of a kind.

    ``is_sliced``: the input is sliced from DRAM as sticks, whatever its layout. ``is_blind``: the distribution ignores
    the chosen height of blocks, as slices do.
    """
    sticks = not made.is_matmul and kind != WIDTH and (not made.is_tiled or is_sliced)
    unit = _STICK_UNIT if sticks else _TILE
    grid, at_once = chip.grid, 1 if is_blind else made.choices.block_rows or 1
    high, out = ceil_div(made.window.outputs, _TILE), ceil_div(made.out_channels, _TILE)
    if kind == HEIGHT:
        return Scheme(kind, made, chip, count_cores(high, grid.cores, at_once), 1, 1, unit)
    pieces = ceil_div(made.in_channels, unit)
    if kind == WIDTH:
        return Scheme(kind, made, chip, 1, count_cores(pieces, grid.cores), count_cores(out, grid.cores), unit)
    cores_high = count_cores(high, grid.rows, at_once)
    if made.is_matmul:
        across = find_common_divisor(out, pieces, grid.columns)
        return Scheme(kind, made, chip, cores_high, across, across, unit)
    return Scheme(kind, made, chip, cores_high, count_cores(pieces, grid.columns), count_cores(out, grid.columns), unit)


def read_scheme(made: Convolution, chip: ChipGrid, shard: Shard) -> Scheme | None:
    """Return the scheme of an input that keeps its shards; None if the library reshards it."""
    unit, kind = _TILE, shard.kind
    if not made.is_tiled and not made.is_matmul and kind != WIDTH:
        unit = next((unit for unit in (_TILE, 16, _STICK_UNIT) if shard.width % unit == 0), _TILE)
    if shard.by_column or shard.width % unit or (made.is_matmul and shard.height % _TILE):
        return None
    columns = max(one.end_x for one in shard.ranges) + 1
    rows = max(one.end_y for one in shard.ranges) + 1
    high, cores_in = {HEIGHT: (shard.cores, 1), WIDTH: (1, shard.cores)}.get(kind, (rows, columns))
    if made.is_matmul:
        cores_out = cores_in
    else:
        out = ceil_div(made.out_channels, _TILE)
        most = {HEIGHT: 1, WIDTH: chip.grid.cores}.get(kind, chip.grid.columns)
        cores_out = count_cores(out, most)
    if made.is_matmul and kind == BLOCK and made.in_channels != cores_in * shard.width:
        return None
    scheme = Scheme(kind, made, chip, high, cores_in, cores_out, unit, shard)
    return scheme if scheme.channels_per_core == shard.width and high * cores_in == shard.cores else None


@lru_cache(maxsize=4096)
def choose_kind(made: Convolution, chip: ChipGrid, window: Window | None = None) -> str:
    """Return ``height`` unless ``block`` or ``width`` is estimated to need less L1, with the halo of ``window``."""
    if made.choices.kind:
        return made.choices.kind
    best = choose_scheme(HEIGHT, made, chip)
    if made.is_row_depthwise:
        return best.kind
    block, width = choose_scheme(BLOCK, made, chip), choose_scheme(WIDTH, made, chip)
    if (
        block.estimate_bytes(window) < best.estimate_bytes(window)
        and max(block.in_cores, block.out_cores) >= chip.grid.columns
    ):
        best = block
    if width.estimate_bytes(window) < best.estimate_bytes(window) and not made.is_matmul:
        best = width
    return best.kind
