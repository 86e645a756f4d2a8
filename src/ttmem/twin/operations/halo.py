# SPDX-License-Identifier: Apache-2.0
"""Steps that everything with a sliding window shares: sticks dealt out over cores, the halo gathered around them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT16, DATA_TYPES, DRAM, FLOAT32, L1, L1_SMALL, DataType
from ttmem.twin.operations.plan import PlanBuilder
from ttmem.twin.operations.sliding_window import Window, halo_sticks, halo_tables
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import ROW_MAJOR, CoreRange, Shard, TensorSpec

_TILE = 32
_STICKS_AT_ONCE = 4
_OTHER_WALK = (
    "Sliding-window shard grid core {} is {}-{} but the origin-anchored row walk addresses it as {}-{}. Only an "
    "origin-anchored, row-filled grid is supported; any other grid hangs max_pool2d/avg_pool2d or silently returns "
    "wrong conv2d results (#60513)."
)
"""What the library says of shards that lie elsewhere."""


@dataclass(frozen=True, slots=True)
class Dealing:
    """How an image's sticks lie on cores, and what these make of them."""

    window: Window
    kind: str
    """Of the shards."""
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

    def shard(self, height: int) -> Shard:
        return Shard(self.kind, height, self.channels_per_core, self.ranges)


def stick_dtype(dtype: DataType) -> DataType:
    """Of sticks that are gathered: block floats become bfloat16."""
    return FLOAT32 if dtype is FLOAT32 else BFLOAT16


def deal(plan: PlanBuilder, dealing: Dealing, source: TensorSpec, *, is_padded: bool = True) -> tuple[int, TensorSpec]:
    """An interleaved tensor becomes shards; sticks go through a scratchpad, a few at a time."""
    height, width = dealing.sticks_per_core, dealing.channels_per_core
    rows = round_up(dealing.sticks, height) if is_padded else dealing.sticks
    shape = (1, 1, rows, round_up(dealing.channels, width))
    dealt = TensorSpec(shape, source.dtype, source.layout, L1, dealing.shard(height))
    slot = plan.allocate(dealt)
    alignment = plan.memory_map.architecture.dram_alignment_bytes
    if source.is_tiled:
        tile = source.tile_bytes
        if plan.l1_space() <= _STICKS_AT_ONCE * round_up(tile + alignment, alignment):
            plan.estimate("how tiles become shards in the last few KiB of L1")
            plan.launch([])
    else:
        element = source.dtype.mantissa_bits // 8
        scratch = _STICKS_AT_ONCE * round_up(width * element + alignment, alignment)
        sticks, row = 2 * round_up(width * element, alignment // 2), dealing.channels * element
        if plan.l1_space() >= scratch + 4 * (sticks + row):
            plan.launch([scratch])
        else:
            plan.estimate("how rows become shards in the last few KiB of L1")
            plan.launch([sticks // 2])
    return slot, dealt


def cut_out(plan: PlanBuilder, dealing: Dealing, dtype: DataType) -> tuple[int, TensorSpec]:
    """A part of an image in DRAM becomes shards of sticks."""
    width = dealing.channels_per_core
    shape = (1, 1, dealing.sticks, round_up(dealing.channels, width))
    dealt = TensorSpec(shape, dtype, ROW_MAJOR, L1, dealing.shard(dealing.sticks_per_core))
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
    """Every core gets the sticks that its windows touch; the result is moved up to where the input was.

    ``kernel``: how its kernels reckon; those of another one are another program.
    """
    window, tiled, width = dealing.window, dealt.is_tiled, dealing.channels_per_core
    height = halo_sticks(window, dealing.cores_high, dealing.outputs_per_core)
    dtype, channels = stick_dtype(dealt.dtype), round_up(dealt.shape[-1], width)
    halo = TensorSpec((1, 1, height * dealing.cores_high, channels), dtype, ROW_MAJOR, L1, dealing.shard(height))
    gathered = plan.allocate(halo)
    assert isinstance(dealt.shard, Shard)
    _check_walk(plan, dealt.shard)
    columns = max(one.end_x + 1 for one in dealing.ranges) if dealing.kind == "height" else 1
    tables = halo_tables(window, dealing.cores_high, dealing.outputs_per_core, dealt.shard.height, tiled, columns)
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
    """The kernels count the cores row by row from the first one of the chip."""
    columns = max(one.end_x for one in shard.ranges) + 1
    for number, (x, y) in enumerate(cores_in_order(shard)):
        if (x, y) != (number % columns, number // columns):
            plan.refuse(_OTHER_WALK.format(number, x, y, number % columns, number // columns))


def cores_in_order(shard: Shard) -> list[tuple[int, int]]:
    """Columns and rows of the cores as shards are dealt to them, one rectangle after the other."""
    found: list[tuple[int, int]] = []
    for one in shard.ranges:
        columns, rows = range(one.start_x, one.end_x + 1), range(one.start_y, one.end_y + 1)
        by_column = [(x, y) for x in columns for y in rows]
        found += by_column if shard.by_column else sorted(by_column, key=lambda core: core[::-1])
    return found


def keep_tables(plan: PlanBuilder, dealing: Dealing, key: tuple[Hashable, ...], widths: Sequence[int]) -> None:
    """Small tables, one per core, that live as long as the cached program."""
    for number, width in enumerate(widths):
        shard = replace(dealing.shard(1), kind="height", width=width)
        spec = TensorSpec((dealing.cores, width), DATA_TYPES.find("uint16"), ROW_MAJOR, L1_SMALL, shard)
        plan.allocate(spec, cache_key=(*key, number))
