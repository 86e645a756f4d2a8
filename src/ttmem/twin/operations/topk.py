# SPDX-License-Identifier: Apache-2.0
"""`topk`: the greatest elements of rows, found by one core, by many, or on Blackhole with large indices."""

from dataclasses import dataclass, replace
from functools import partial
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT8_B, BFLOAT16, BLACKHOLE, DATA_TYPES, FLOAT32, UINT32, DataType, Memory
from ttmem.hardware.boards import Grid
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import copy_between, dtype_name
from ttmem.twin.operations.pad import pad
from ttmem.twin.operations.permute import transpose
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, TensorHandle, dimension
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.reductions import ResultPlacement, fill_tile_padding, read_placement
from ttmem.twin.operations.slice_ import slice_
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import ROW_MAJOR, TensorSpec

_UINT16 = DATA_TYPES.find("uint16")
_TILE = 32
_SHORTEST_ROW = 64
"""Rows are padded to this."""
_MOST_SHORT_INDICES = 65536
"""The most elements with indices of two bytes."""
_MANY_CORES_WIDTH, _MANY_CORES_MOST = 1024, 64
"""The width from which many cores search together, and the most elements that they search for."""
_SURELY_MANY_CORES_WIDTH, _FEW_ROWS = 8192, 2
"""Cores share shorter rows only if there are at most two rows of tiles."""
_MOST_GATHERED = 4
"""The joining core gets at most this many times the tiles that one core searches."""
_LARGE_UNIT, _LARGE_MOST, _LARGE_WIDEST = 16, 2048, 1 << 19
"""Large indices: the unit of k, its maximum, and the longest row."""
_LARGE_FROM = 4096
"""The row length from which a small k uses large indices too, except powers of two from 8192 on."""
_LARGE_BLOCK_TILES = 8
_LARGE_STICKS, _LARGE_SLOTS = 1024, 4096


def topk(call: Call, plan: PlanBuilder) -> Plan:
    """Move the dimension to the end, search the rows, and slice off surplus elements."""
    source, rank = call.inputs[0], len(call.inputs[0].shape)
    wanted = int(call.arguments["k"])
    if not source.is_tiled or not 0 < rank <= 4:
        return plan.unknown("topk of row-major tensors, or of more than four dimensions")
    axis = dimension(call.arguments["dim"], rank)
    if not 0 < wanted <= source.shape[axis]:
        raise BadInputError(f"K cannot be larger than the dimension size! K={wanted}")
    place = read_placement(call)
    memory = place.memory
    first = TensorHandle(-1, source)
    if axis < rank - 1:
        first = plan.apply(transpose, first, source.memory, source.shard, dim1=axis, dim2=-1)
    if _needs_large_indices(call, plan, first.spec, wanted, is_last=axis == rank - 1):
        made, searched = _search_large_indices(plan, first, wanted, memory), 0
    else:
        made, searched = _search(plan, first, wanted, place, is_turned=axis < rank - 1)
    if axis < rank - 1:
        back = partial(plan.apply, transpose, memory=source.memory, shard=source.shard, dim1=axis, dim2=-1)
        made = [plan.replace_tensor(one, back(one)) for one in made]
    plan.free(searched, first.slot)
    return plan.finish_all([(one.slot, one.spec) for one in made])


def _search(
    plan: PlanBuilder, first: TensorHandle, wanted: int, place: ResultPlacement, *, is_turned: bool
) -> tuple[list[TensorHandle], int]:
    """Return values and indices, and the slot of the padded input, which is freed when the operation ends."""
    source, rank = first.spec, len(first.spec.shape)
    width, tiles = source.shape[-1], ceil_div(wanted, _TILE)
    padded = max(round_up(width, _TILE), _SHORTEST_ROW)
    held = first
    if width < _SHORTEST_ROW:
        padding = [(0, 0)] * 3 + [(0, _SHORTEST_ROW - width)]
        four = TensorHandle(first.slot, replace(source, shape=(1,) * (4 - rank) + source.shape))
        held = plan.apply(pad, four, None, padding=padding)
    whole = fill_tile_padding(plan, held.spec)
    if whole.slot > 0:
        held = plan.replace_tensor(held, whole, keep=first.slot)
    indices = UINT32 if padded > _MOST_SHORT_INDICES or source.dtype is FLOAT32 else _UINT16
    made = []
    for dtype in (source.dtype, indices):
        spec = replace(source, shape=(*source.shape[:-1], tiles * _TILE), dtype=dtype, memory=place.memory)
        spec = replace(spec, shard=place.shard)
        made.append(TensorHandle(plan.allocate(spec), spec))
    if place.shard is not None:
        plan.refuse("Sharded implementation not supported yet")
    if source.dtype not in (BFLOAT16, BFLOAT8_B, FLOAT32):
        plan.refuse(f"Input tensor must be BFLOAT16, BFLOAT8_B, or FLOAT32, got: {dtype_name(source.dtype)}")
    sizes = _Sizes(source.tile_bytes, _choose_inner_dtype(source.dtype).tile_bytes(), indices.tile_bytes())
    rows = prod(source.shape[:-2]) * source.tiles_down if rank > 1 else 1
    cores = _choose_cores(padded, rows, tiles, plan.memory_map.grid)
    if cores:
        # With a partial last tile the joining core has room for one more part, except for float32.
        has_room = width % _TILE and source.dtype is not FLOAT32
        joined = (cores + bool(has_room)) * tiles
        sizes.launch_many(plan, padded // _TILE // cores, cores * tiles, joined)
    else:
        sizes.launch_one(plan, tiles)
    if tiles * _TILE != wanted:
        made = [_cut(plan, one, wanted, place.memory, is_turned=is_turned) for one in made]
    return made, held.slot if held.slot != first.slot else 0


def _choose_inner_dtype(dtype: DataType) -> DataType:
    """Return the type for sorting: bfloat16 for block floats."""
    return BFLOAT16 if dtype.is_block_float else dtype


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Bytes of a tile of values, of values while sorting, and of indices."""

    value: int
    inner: int
    index: int

    def launch_one(self, plan: PlanBuilder, tiles: int) -> None:
        """Launch the program where each core has whole rows of tiles."""
        pairs = (2, self.value), (4, self.inner), (2 * tiles, self.inner), (tiles, self.value)
        plan.launch([count * size for count, value in pairs for size in (value, self.index)])

    def launch_many(self, plan: PlanBuilder, searched: int, gathered: int, joined: int) -> None:
        """Launch the program of the searching cores, then that of the joining core."""
        shared = [4 * self.value, 4 * self.index, gathered * self.inner, gathered * self.index]
        parts = [2 * self.inner, 2 * self.index, searched * self.inner, searched * self.index]
        plan.launch([*shared, *parts], CIRCULAR)
        last = [2 * self.value, 2 * self.index, joined * self.inner, joined * self.index]
        plan.launch([*shared, *last], CIRCULAR)


def _choose_cores(width: int, rows_of_tiles: int, tiles: int, grid: Grid) -> int:
    """Return the number of cores that share a row, a power of two that fits a rectangle; 0: a single core."""
    if width < _MANY_CORES_WIDTH or width & (width - 1) or width >= _MOST_SHORT_INDICES:
        return 0
    if tiles * _TILE > _MANY_CORES_MOST or (width < _SURELY_MANY_CORES_WIDTH and rows_of_tiles > _FEW_ROWS):
        return 0
    columns, rows = grid.columns - 1, grid.rows - 2
    cores = 1 << (max(columns * rows, 1).bit_length() - 1)
    while cores > 1:
        fits = any(cores % high == 0 and cores // high <= columns for high in range(1, rows + 1))
        each = width // _TILE // cores
        if fits and each * _TILE >= _SHORTEST_ROW and cores * tiles <= _MOST_GATHERED * each:
            return cores
        cores //= 2
    return 0


def _needs_large_indices(call: Call, plan: PlanBuilder, source: TensorSpec, wanted: int, *, is_last: bool) -> bool:
    is_meant = plan.memory_map.architecture is BLACKHOLE and bool(call.arguments["largest"]) and is_last
    if (
        not is_meant
        or source.shard is not None
        or call.shard is not None
        or source.dtype is not BFLOAT16
        or wanted > _LARGE_MOST
    ):
        return False
    width = source.shape[-1]
    padded = round_up(width, _TILE)
    if wanted <= _MANY_CORES_MOST:
        is_left = padded & (padded - 1) == 0 and _SURELY_MANY_CORES_WIDTH <= padded < _MOST_SHORT_INDICES
        if is_left or padded < _LARGE_FROM:
            return False
    return round_up(wanted, _LARGE_UNIT) <= width <= _LARGE_WIDEST


def _search_large_indices(plan: PlanBuilder, first: TensorHandle, wanted: int, memory: Memory) -> list[TensorHandle]:
    """Find row-major positions of the greatest elements, then the values and indices there, in the input's memory."""
    source, most = first.spec, round_up(wanted, _LARGE_UNIT)
    tiles = min(source.tiles_across, _LARGE_BLOCK_TILES)
    rows = plan.allocate(replace(source, layout=ROW_MAJOR))
    plan.launch([2 * tiles * BFLOAT16.tile_bytes()] * 2, CIRCULAR)
    places = plan.allocate(replace(source, shape=(*source.shape[:-1], most), layout=ROW_MAJOR, dtype=UINT32))
    at_once = next(size for size in (512, 1024, 2048) if most <= size)
    read = 2 * ceil_div(at_once, 1024) * BFLOAT16.tile_bytes()
    plan.launch([read, 2 * at_once * 4, *([most * 4] if at_once > 512 else [])], CIRCULAR)
    is_short = round_up(source.shape[-1], _TILE) <= _MOST_SHORT_INDICES
    made = []
    for dtype in (BFLOAT16, _UINT16 if is_short else UINT32):
        spec = replace(source, shape=(*source.shape[:-1], most), dtype=dtype)
        made.append(TensorHandle(plan.allocate(spec), spec))
    halves = [one.spec.tile_bytes for one in made]
    plan.launch([_LARGE_STICKS, _LARGE_STICKS, _LARGE_SLOTS, _LARGE_SLOTS, *halves], CIRCULAR)
    plan.free(places, rows)
    if most != wanted:
        made = [_cut(plan, one, wanted, memory) for one in made]
    return [_move(plan, one, memory) for one in made]


def _move(plan: PlanBuilder, held: TensorHandle, memory: Memory) -> TensorHandle:
    if held.spec.memory is memory:
        return held
    result = replace(held.spec, memory=memory)
    return plan.replace_tensor(held, TensorHandle(copy_between(plan, held.spec, result), result))


def _cut(
    plan: PlanBuilder, held: TensorHandle, wanted: int, memory: Memory, *, is_turned: bool = False
) -> TensorHandle:
    """Drop surplus elements: an untransposed 4-D result only changes its shape, others are sliced."""
    shape, lead = held.spec.shape, 4 - len(held.spec.shape)
    ends = [*[1] * lead, *shape[:-1], wanted]
    if lead or is_turned:
        four = TensorHandle(held.slot, replace(held.spec, shape=(1,) * lead + shape))
        cut = plan.apply(slice_, four, memory, begins=[0] * 4, ends=ends, steps=None)
        held = plan.replace_tensor(held, cut)
    return TensorHandle(held.slot, replace(held.spec, shape=(*shape[:-1], wanted)))


RECORDS = (
    build_record(
        format_call("topk", [EXAMPLE_TENSOR], k=32, dim=-1),
        topk,
        Argument("k", 0, 32),
        Argument("dim", default=-1),
        *(Argument(name, default=True, samples=(True, False)) for name in ("largest", "sorted")),
    ),
)
