# SPDX-License-Identifier: Apache-2.0
"""Steps shared by all sliding windows: distribute sticks over cores, gather the halo around them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT16, DATA_TYPES, DRAM, FLOAT32, L1, L1_SMALL, DataType
from ttmem.twin.operations.plan import PlanBuilder
from ttmem.twin.operations.sliding_window import Window, compute_halo_tables, count_halo_sticks
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import ROW_MAJOR, CoreRange, Shard, TensorSpec

_TILE = 32
_STICKS_AT_ONCE = 4
_OTHER_WALK = (
    "Sliding-window shard grid core {} is {}-{} but the origin-anchored row walk addresses it as {}-{}. Only an "
    "origin-anchored, row-filled grid is supported; any other grid hangs max_pool2d/avg_pool2d or silently returns "
    "wrong conv2d results (#60513)."
)
"""The library's message for shards on other cores."""


@dataclass(frozen=True, slots=True)
class Dealing:
    """The distribution of an image's sticks over cores, and the outputs per core."""

    window: Window
    kind: str
    """The kind of the shards: height, width or block."""
    ranges: tuple[CoreRange, ...]
    cores_high: int
    """Cores along batch, height and width; the others share the channels."""
    channels: int
    channels_per_core: int
    sticks_per_core: int
    outputs_per_core: int

    @property
    def cores(self) -> int:
        return sum(one.cores for one in self.ranges)

    @property
    def sticks(self) -> int:
        return self.window.batch * self.window.height * self.window.width

    def make_shard(self, height: int) -> Shard:
        return Shard(self.kind, height, self.channels_per_core, self.ranges)


def choose_stick_dtype(dtype: DataType) -> DataType:
    """Return the type of gathered sticks: block floats become bfloat16."""
    return FLOAT32 if dtype is FLOAT32 else BFLOAT16


def deal(plan: PlanBuilder, dealing: Dealing, source: TensorSpec, *, is_padded: bool = True) -> tuple[int, TensorSpec]:
    """Distribute an interleaved tensor to shards; sticks pass through a scratchpad, a few at a time."""
    height, width = dealing.sticks_per_core, dealing.channels_per_core
    rows = round_up(dealing.sticks, height) if is_padded else dealing.sticks
    shape = (1, 1, rows, round_up(dealing.channels, width))
    dealt = TensorSpec(shape, source.dtype, source.layout, L1, dealing.make_shard(height))
    slot = plan.allocate(dealt)
    alignment = plan.memory_map.architecture.dram_alignment_bytes
    if source.is_tiled:
        tile = source.tile_bytes
        if plan.l1_space() <= _STICKS_AT_ONCE * round_up(tile + alignment, alignment):
            plan.estimate("tiles written to shards with only a few KiB of L1 left")
            plan.launch([])
    else:
        element = source.dtype.mantissa_bits // 8
        scratch = _STICKS_AT_ONCE * round_up(width * element + alignment, alignment)
        sticks, row = 2 * round_up(width * element, alignment // 2), dealing.channels * element
        if plan.l1_space() >= scratch + 4 * (sticks + row):
            plan.launch([scratch])
        else:
            plan.estimate("row-major pages written to shards with only a few KiB of L1 left")
            plan.launch([sticks // 2])
    return slot, dealt


def cut_out(plan: PlanBuilder, dealing: Dealing, dtype: DataType) -> tuple[int, TensorSpec]:
    """Cut a part of an image in DRAM into shards of sticks."""
    width = dealing.channels_per_core
    shape = (1, 1, dealing.sticks, round_up(dealing.channels, width))
    dealt = TensorSpec(shape, dtype, ROW_MAJOR, L1, dealing.make_shard(dealing.sticks_per_core))
    slot = plan.allocate(dealt)
    element, across = dtype.mantissa_bits // 8, dealing.cores // dealing.cores_high
    row, page = width * element, dealing.channels * element
    alignment = plan.memory_map.page_alignment_bytes(DRAM)
    padded = [row] if row > page // across else []
    misaligned = [2 * round_up(page + alignment, alignment)] if row % alignment else []
    plan.launch([*padded, *misaligned], CIRCULAR)
    return slot, dealt


def gather(
    plan: PlanBuilder,
    dealing: Dealing,
    slot: int,
    dealt: TensorSpec,
    *,
    frees_input: bool = True,
    moves: bool = True,
    kernel: Hashable = None,
) -> tuple[int, TensorSpec]:
    """Gather the sticks that each core's windows touch; the result is moved up to the address of the input.

    ``kernel``: the kernel variant, which is part of the program's cache key.
    """
    window, tiled, width = dealing.window, dealt.is_tiled, dealing.channels_per_core
    height = count_halo_sticks(window, dealing.cores_high, dealing.outputs_per_core)
    dtype, channels = choose_stick_dtype(dealt.dtype), round_up(dealt.shape[-1], width)
    halo = TensorSpec((1, 1, height * dealing.cores_high, channels), dtype, ROW_MAJOR, L1, dealing.make_shard(height))
    gathered = plan.allocate(halo)
    assert isinstance(dealt.shard, Shard)
    _check_walk(plan, dealt.shard)
    columns = max(one.end_x + 1 for one in dealing.ranges) if dealing.kind == "height" else 1
    tables = compute_halo_tables(
        window, dealing.cores_high, dealing.outputs_per_core, dealt.shard.height, tiled, columns
    )
    keep_tables(plan, dealing, ("halo", window, dealt, dealing.outputs_per_core, kernel), tables.widths)
    alignment = plan.memory_map.architecture.l1_alignment_bytes
    stick = round_up(width * dtype.mantissa_bits // 8, alignment)
    block = 2 * ceil_div(width, _TILE) * dtype.tile_bytes()
    plan.launch([stick, stick, *([block, block] if tiled else [])], CIRCULAR)
    if not moves:
        return gathered, halo
    plan.free(*([slot] if frees_input else []), gathered)
    return plan.allocate(halo), halo


def _check_walk(plan: PlanBuilder, shard: Shard) -> None:
    """Refuse cores that do not follow each other row by row from the chip's first core, as the kernels expect."""
    columns = max(one.end_x for one in shard.ranges) + 1
    for number, (x, y) in enumerate(list_cores(shard)):
        if (x, y) != (number % columns, number // columns):
            plan.refuse(_OTHER_WALK.format(number, x, y, number % columns, number // columns))


def list_cores(shard: Shard) -> list[tuple[int, int]]:
    """Return column and row of each core in the order of its shards, one rectangle after the other."""
    return [core for cores in shard.ranges for core in cores.walk(by_column=shard.by_column)]


def keep_tables(plan: PlanBuilder, dealing: Dealing, key: tuple[Hashable, ...], widths: Sequence[int]) -> None:
    """Allocate small tables, one per core, that stay allocated as long as the cached program."""
    for number, width in enumerate(widths):
        shard = replace(dealing.make_shard(1), kind="height", width=width)
        spec = TensorSpec((dealing.cores, width), DATA_TYPES.find("uint16"), ROW_MAJOR, L1_SMALL, shard)
        plan.allocate(spec, cache_key=(*key, number))
