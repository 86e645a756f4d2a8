# SPDX-License-Identifier: Apache-2.0
"""Reductions over any dimensions, and the memory or shards that their results go to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import lcm, prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT8_B, BFLOAT16, FLOAT32, INT32, L1, UINT32, DataType, Memory
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import (
    clone,
    dtype_name,
    fill_in_place,
    fill_padding,
    has_tile_padding,
    one_to_one,
    typecast,
)
from ttmem.twin.operations.permute import transpose
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, TensorHandle, resolve_axes
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.reshape import reshape
from ttmem.twin.operations.slice_ import slice_
from ttmem.twin.placement import compute_paging
from ttmem.twin.tensor_spec import ROW_MAJOR, TILE, CoreRange, Layout, NdShard, Shard, TensorSpec


@dataclass(frozen=True, slots=True)
class ResultPlacement:
    """The memory and shards of a result: the caller's, or the input's."""

    memory: Memory
    shard: Shard | NdShard | None = None

    def place_result(self, result: TensorSpec) -> TensorSpec:
        """Return the result's spec there; of requested shards only the cores matter, which share its tiles evenly."""
        plain = replace(result, memory=self.memory, shard=None)
        return plain if not isinstance(self.shard, Shard) else replace(plain, shard=_share_tiles(plain, self.shard))


def read_placement(call: Call) -> ResultPlacement:
    """Return the result's placement: the caller's, or that of the input."""
    source = call.inputs[0]
    return (
        ResultPlacement(source.memory, source.shard)
        if call.memory is None
        else ResultPlacement(call.memory, call.shard)
    )


def _share_tiles(spec: TensorSpec, shard: Shard) -> Shard:
    paging, grid = compute_paging(spec), shard.ranges[0]
    high, wide = paging.physical_height, paging.physical_width
    down = across = 1
    if shard.kind == "block":
        down, across = (grid.columns, grid.rows) if shard.by_column else (grid.rows, grid.columns)
    elif shard.kind == "height":
        down = shard.cores
    else:
        across = shard.cores
    part_high, part_wide = round_up(ceil_div(high, down), 32), round_up(ceil_div(wide, across), 32)
    # The library treats one shard of the whole height as a width shard.
    kind = "width" if shard.kind == "height" and part_high == high else shard.kind
    return replace(shard, kind=kind, height=part_high, width=part_wide)


def check_cores(plan: PlanBuilder, spec: TensorSpec, name: str, label: str, units: int) -> None:
    """Refuse shards on cores without work, which some programs number column by column."""
    if spec.shard is None:
        return
    rows, cores = plan.memory_map.grid.rows, min(units, plan.memory_map.grid.cores)
    if all(one.end_x * rows + one.end_y < cores for one in spec.shard.ranges):
        return
    full, rest = divmod(cores, rows)
    used = [CoreRange(0, 0, full - 1, rows - 1)] * bool(full) + [CoreRange(full, 0, full, rest - 1)] * bool(rest)
    plan.refuse(
        f"{name} {label} shard grid {_format_ranges(spec.shard.ranges)} must be contained in program core grid "
        f"{_format_ranges(used)}"
    )


def _format_ranges(ranges: Sequence[CoreRange]) -> str:
    return "{" + ", ".join(map(str, ranges)) + "}"


def reshape_handle(plan: PlanBuilder, held: TensorHandle, shape: tuple[int, ...]) -> TensorHandle:
    """Reshape a tensor to its last shape."""
    return plan.apply(reshape, held, shape=shape)


def fill_tile_padding(plan: PlanBuilder, source: TensorSpec) -> TensorHandle:
    """Fill the tile padding of the input, interleaved or sharded, as `fill_padding` does."""
    if source.shard is None or not has_tile_padding(source):
        return TensorHandle(fill_padding(plan, source), source)
    first = TensorHandle(-1, source)
    plain = plan.apply(typecast, first, dtype=BFLOAT16.name) if source.dtype.is_block_float else first
    if source.memory is L1 and (slices := prod(source.shape[:-2])) > 1:
        plan.refuse(f"FillPadL1ShardedProgramFactory: N_slices > 1 not yet supported (got {slices})")
    fill_in_place(plan, plain.spec)
    if plain is first:
        return first
    return plan.advance(typecast, plain, dtype=source.dtype.name)


def is_reduced_in_place(source: TensorSpec, result: TensorSpec, kind: str) -> bool:
    """Return whether each core reduces its own shard: full height shards by rows, width shards by columns."""
    one, two = source.shard, result.shard
    if not isinstance(one, Shard) or not isinstance(two, Shard) or not source.memory is result.memory is L1:
        return False
    if one.kind != kind or two.kind != kind:
        return False
    return kind == "width" or (
        one.ranges == two.ranges and one.height * one.cores == compute_paging(source).physical_height
    )


_TILES_AT_ONCE = 4


_REDUCED_TYPES = (BFLOAT16, FLOAT32, BFLOAT8_B, UINT32, INT32)
_UNREDUCED_TYPES = (
    "Only FLOAT32, BFLOAT16, BFLOAT8_B, and UINT32 are supported for generic reduction "
    "(INT32 is supported for MAX/MIN/SUM) - got {}."
)


def check_reduced_type(plan: PlanBuilder, source: TensorSpec) -> None:
    if source.dtype not in _REDUCED_TYPES:
        plan.refuse(_UNREDUCED_TYPES.format(dtype_name(source.dtype)))


def is_negated(source: TensorSpec, name: str) -> bool:
    return name == "min" and source.dtype not in (BFLOAT16, FLOAT32, INT32)


def reduce_columns_to_minimum(
    plan: PlanBuilder, held: TensorHandle, place: ResultPlacement, greatest: Callable[[TensorHandle], TensorHandle]
) -> TensorHandle:
    """Reduce columns to their minimum as the negated maximum of their negatives.

    L1 holds the negatives of a core's columns twice if there is room; otherwise two more operations negate the input
    and the result of ``greatest``.
    """
    source = held.spec
    shard = source.shard if source.memory is L1 and isinstance(source.shard, Shard) else None
    tile, tall = source.tile_bytes, source.tiles_down
    together = shard.width // 32 if shard and shard.kind == "width" else _count_columns_per_batch(plan, source)
    if 2 * tall * together * tile > plan.l1_space():
        return _negate_input_and_result(plan, held, greatest)
    result = place.place_result(replace(source, shape=(*source.shape[:-2], 1, source.shape[-1])))
    slot = plan.allocate(result)
    check_reduced_type(plan, source)
    in_place = is_reduced_in_place(source, result, "width")
    if not in_place:
        together = _count_columns_per_batch(plan, source)
    streams = [2 * tile] if in_place else [_TILES_AT_ONCE * tile] * 2
    kept = tall * together * tile

    def choose_sizes() -> list[list[int]]:
        if 2 * kept > (left := plan.l1_space()):
            plan.refuse(
                f"Negate H reduce: cb_acc + cb_ineg ({2 * kept} B for {tall * together} tiles) would not fit in "
                f"available L1 ({left} B). Caller must use h_reduce_negate_fits_in_l1 to choose the external-negate "
                "fallback."
            )
        return [[*streams, BFLOAT16.tile_bytes(), kept, kept]]

    plan.launch_kept(("least of columns", _reshape_to_rank_4(source), _reshape_to_rank_4(result)), choose_sizes)
    return TensorHandle(slot, result)


def _count_columns_per_batch(plan: PlanBuilder, source: TensorSpec) -> int:
    """Return the smallest number of tile columns that divides the share of every core."""
    each, more = divmod(prod(source.shape[:-2]) * source.tiles_across, plan.memory_map.grid.cores)
    return lcm(each or 1, each + 1) if more and each else max(each, 1)


def _reshape_to_rank_4(spec: TensorSpec) -> TensorSpec:
    """Return the spec with four dimensions, as the library reduces it."""
    *outer, height, width = spec.shape
    lead = [1] * (2 - len(outer)) + outer
    return replace(spec, shape=(prod(lead[:-1]), lead[-1], height, width))


def _negate_input_and_result(
    plan: PlanBuilder, held: TensorHandle, greatest: Callable[[TensorHandle], TensorHandle]
) -> TensorHandle:
    before = _negate(plan, held.spec, held.spec)
    found = greatest(before)
    result = _negate(plan, found.spec, found.spec)
    plan.free(found.slot, before.slot)
    return result


def _negate(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> TensorHandle:
    if not source.dtype.is_float:
        plan.allocate(result)
        plan.refuse(f"Unary: UnaryOpType::NEG does not support integer input dtype {dtype_name(source.dtype)}")
    ((slot, spec),) = one_to_one(plan, source, result).results
    return TensorHandle(slot, spec)


_WORTH_BATCHING = 4
"""The tiles of work from which a reduction reads eight tiles ahead instead of two."""

_TALL = 20
"""The rows of tiles from which a reduction of the height may be cut in slices."""


def choose_accumulator(dtype: DataType) -> DataType:
    """Return the type of the sums."""
    return FLOAT32 if dtype is FLOAT32 else BFLOAT16


def reduce(call: Call, plan: PlanBuilder) -> Plan:
    """Reduce by sum, mean, max or min along any dimensions.

    Sums of at most two bytes over outer dimensions have their own kernel. Other outer dimensions are swapped with the
    height one after the other, and back.
    """
    source = call.inputs[0]
    rank = len(source.shape)
    if not source.is_tiled or source.dtype.name == "uint8":
        return plan.unknown("reductions of row-major tensors, or of bytes")
    if call.name == "mean" and source.dtype in (INT32, UINT32):
        plan.refuse(f"ttnn.mean does not support integer inputs - got {dtype_name(source.dtype)}.")
    if rank < 2:
        return _reduce_row(call, plan)
    axes = resolve_axes(call.arguments["dim"], rank)
    place = read_placement(call)
    held = first = fill_tile_padding(plan, source)
    carries = call.name in ("sum", "mean") and source.dtype is BFLOAT16 and 1 < len(axes) < rank
    outer = [axis for axis in axes if axis < rank - 2]
    if outer and call.name == "sum" and source.dtype in (BFLOAT16, BFLOAT8_B):
        held = _sum_outer(plan, held, outer, place, carries=carries, is_last=len(outer) == len(axes))
        plan.free(first.slot)
        first, axes = held, [axis for axis in axes if axis >= rank - 2]
    if axes == [rank - 2, rank - 1]:
        held = _reduce_both(plan, held, place, source.dtype, call.name)
    else:
        for axis in reversed(axes):
            dtype = FLOAT32 if carries and axis != axes[0] else BFLOAT16 if carries else source.dtype
            held = _reduce_axis(plan, held, axis, place, dtype, call.name, first.slot)
    if not call.arguments["keepdim"]:
        shape = tuple(size for i, size in enumerate(source.shape) if i not in resolve_axes(call.arguments["dim"], rank))
        held = plan.replace_tensor(held, reshape_handle(plan, held, shape), keep=first.slot)
    if first.slot != held.slot:
        plan.free(first.slot)
    return plan.finish(held.slot, held.spec)


def _reduce_row(call: Call, plan: PlanBuilder) -> Plan:
    """Reduce a 1-D tensor as a row; a scalar is copied."""
    source = call.inputs[0]
    if not source.shape:
        whole = TensorHandle(fill_padding(plan, source), source)
        copied = plan.apply(clone, whole, call.memory)
        plan.free(whole.slot)
        return plan.finish(copied.slot, source if call.memory is None else copied.spec)
    row = replace(call, inputs=(replace(source, shape=(1, *source.shape)),), arguments={"dim": 1, "keepdim": True})
    return reduce(row, plan).reshape_result((1,) if call.arguments["keepdim"] else ())


def _sum_outer(
    plan: PlanBuilder, held: TensorHandle, axes: list[int], place: ResultPlacement, *, carries: bool, is_last: bool
) -> TensorHandle:
    """Sum outer dimensions with their own kernel; its result has whole tiles, which are sliced to size."""
    source = held.spec
    shape = [*source.shape[:-2], *(round_up(size, 32) for size in source.shape[-2:])]
    for axis in reversed(axes):
        dtype = FLOAT32 if carries and (axis != axes[0] or not is_last) else BFLOAT16 if carries else source.dtype
        together = next(number for number in range(8, 0, -1) if shape[axis] % number == 0)
        shape[axis] = 1
        result = replace(source, shape=tuple(shape), dtype=dtype, memory=place.memory, shard=place.shard)
        slot = plan.allocate(result)
        tile = held.spec.tile_bytes
        plan.launch([2 * together * tile, BFLOAT16.tile_bytes(), 2 * dtype.tile_bytes()])
        if held.spec is not source:
            plan.free(held.slot)
        held = TensorHandle(slot, result)
    ends = [*shape[:-2], *source.shape[-2:]]
    return plan.replace_tensor(
        held, plan.apply(slice_, held, None, begins=[0] * len(ends), ends=ends, steps=None), keep=0
    )


def _reduce_both(
    plan: PlanBuilder, held: TensorHandle, place: ResultPlacement, dtype: DataType, name: str
) -> TensorHandle:
    """Reduce the last two dimensions: the width, then the height; a single tile at once."""
    source = held.spec
    is_tile = prod(source.shape[:-2]) == 1 and max(source.shape[-2:]) <= 32
    if is_tile and source.dtype in (BFLOAT16, BFLOAT8_B, UINT32) and (name, source.dtype) != ("min", BFLOAT16):
        result = place.place_result(replace(source, shape=(*source.shape[:-2], 1, 1)))
        slot = plan.allocate(result)
        tile = source.tile_bytes
        plan.launch(
            [
                2 * tile,
                choose_accumulator(source.dtype).tile_bytes(),
                2 * tile,
                *_compute_negative_buffers(source, name),
            ]
        )
        return TensorHandle(slot, result)
    rank = len(source.shape)
    middle = FLOAT32 if name == "sum" and dtype is BFLOAT16 else dtype
    rows = _reduce_tile_axis(plan, held, rank - 1, place, middle, name)
    both = _reduce_tile_axis(plan, rows, rank - 2, place, dtype, name)
    plan.free(rows.slot)
    return both


def _reduce_axis(
    plan: PlanBuilder, held: TensorHandle, axis: int, place: ResultPlacement, dtype: DataType, name: str, keep: int
) -> TensorHandle:
    """Reduce one dimension; an outer one is swapped with the height, reduced and swapped back."""
    rank = len(held.spec.shape)
    if axis == rank - 1:
        return plan.replace_tensor(held, _reduce_tile_axis(plan, held, axis, place, dtype, name), keep=keep)
    if axis == rank - 2:
        return plan.replace_tensor(held, reduce_height(plan, held, place, dtype, name), keep=keep)
    turned = plan.apply(transpose, held, place.memory, place.shard, dim1=axis, dim2=rank - 2)
    turned = plan.replace_tensor(held, turned, keep=keep)
    reduced = reduce_height(plan, turned, place, dtype, name)
    reduced = plan.replace_tensor(turned, reduced, keep=keep)
    return plan.replace_tensor(
        reduced, plan.apply(transpose, reduced, place.memory, place.shard, dim1=axis, dim2=rank - 2), keep=keep
    )


def reduce_height(
    plan: PlanBuilder, held: TensorHandle, place: ResultPlacement, dtype: DataType, name: str, *, layout: Layout = TILE
) -> TensorHandle:
    """Reduce the height. A tall tensor with work for few cores is reduced in slices, whose results are reduced again.

    ``layout``: the layout of the slices' result.
    """
    source = held.spec
    *outer, height, width = source.shape
    columns, tall = prod(outer) * ceil_div(width, 32), ceil_div(height, 32)
    slices = min(plan.memory_map.grid.cores // columns, tall) if tall >= _TALL else 1
    adds = name in ("sum", "mean")
    is_sliced = source.dtype in ((BFLOAT16, FLOAT32, BFLOAT8_B) if adds else (BFLOAT16, FLOAT32))
    is_sliced = is_sliced and source.shard is None and place.shard is None
    if slices < 2 or not is_sliced:
        return _reduce_tile_axis(plan, held, len(source.shape) - 2, place, dtype, name)
    partial = FLOAT32 if adds else source.dtype
    rows = TensorSpec((*outer, slices, width), partial, ROW_MAJOR, place.memory)
    middle = plan.allocate(rows)
    tile, inner = source.tile_bytes, partial.tile_bytes()
    ahead = 2 if source.dtype is FLOAT32 else 8
    plan.launch([ahead * tile, choose_accumulator(source.dtype).tile_bytes(), 2 * inner])
    result = TensorSpec((*outer, 1, width), dtype, layout, place.memory)
    slot = plan.allocate(result)
    partials = max(2, ceil_div(slices, 32)) * inner
    plan.launch([2 * inner, inner, dtype.tile_bytes(), partials, inner, 2 * dtype.tile_bytes()])
    plan.free(middle)
    return TensorHandle(slot, result)


def _reduce_tile_axis(
    plan: PlanBuilder, held: TensorHandle, axis: int, place: ResultPlacement, dtype: DataType, name: str
) -> TensorHandle:
    """Reduce one of the last two dimensions."""
    source = held.spec
    rank = len(source.shape)
    if axis == rank - 2 and is_negated(source, name):
        return reduce_columns_to_minimum(
            plan, held, place, lambda negative: _reduce_tile_axis(plan, negative, axis, place, dtype, "max")
        )
    shape = (*source.shape[:axis], 1, *source.shape[axis + 1 :])
    result = place.place_result(replace(source, shape=shape, dtype=dtype))
    slot = plan.allocate(result)
    check_reduced_type(plan, source)
    # Work of the least busy core: rows of tiles for the width, columns of tiles for the height.
    outer, cores = prod(source.shape[:-2]), plan.memory_map.grid.cores
    height, width = source.tiles_down, source.tiles_across
    work = max(outer * height // cores, 1) * width if axis == rank - 1 else outer * width // cores
    negatives = _compute_negative_buffers(source, name)
    if negatives:
        work = outer * height // cores
    if is_reduced_in_place(source, result, "height" if axis == rank - 1 else "width"):
        plan.launch([2 * source.tile_bytes, choose_accumulator(source.dtype).tile_bytes(), *negatives])
        return TensorHandle(slot, result)
    ahead = (8 if work >= _WORTH_BATCHING else 2) * source.tile_bytes
    plan.launch([ahead, choose_accumulator(source.dtype).tile_bytes(), 2 * dtype.tile_bytes(), *negatives])
    return TensorHandle(slot, result)


def _compute_negative_buffers(source: TensorSpec, name: str) -> list[int]:
    """Return the buffers to negate input and output: for some types the minimum is the negated maximum."""
    return [source.tile_bytes] * 2 if is_negated(source, name) else []


RECORDS = (
    *(
        build_record(
            format_call(name, [EXAMPLE_TENSOR], dim=-1, keepdim=True),
            reduce,
            *(Argument("dim", default=None), Argument("keepdim", default=False)),
            family="reduce",
            verified_low_rank_and_rare_types=True,
        )
        for name in ("sum", "mean", "max", "min")
    ),
)
