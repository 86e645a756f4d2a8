# SPDX-License-Identifier: Apache-2.0
"""Reductions over any dimensions."""

from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT8_B, BFLOAT16, FLOAT32, INT32, UINT32, DataType
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import clone, dtype_name, fill_padding
from ttmem.twin.operations.permute import transpose
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, TensorHandle, apply, replace_handle, resolve_axes
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.reduced_shards import (
    Place,
    check_reduced_type,
    filled,
    in_shape,
    is_negated,
    is_reduced_in_place,
    place_of,
    reduce_columns_to_minimum,
)
from ttmem.twin.operations.slice_ import slice_
from ttmem.twin.tensor_spec import ROW_MAJOR, TILE, Layout, TensorSpec

_WORTH_BATCHING = 4
"""From so many tiles of work on, a reduction reads eight tiles ahead instead of two."""

_TALL = 20
"""From so many rows of tiles on, a reduction of the height may be cut in slices."""


def accumulator(dtype: DataType) -> DataType:
    """What sums are kept in."""
    return FLOAT32 if dtype is FLOAT32 else BFLOAT16


def reduce(call: Call, plan: PlanBuilder) -> Plan:
    """Sum, mean, max or min along any dimensions.

    Outer dimensions of sums of two bytes or less have a kernel of their own. All others are brought into the last but
    one place, one after the other, and back.
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
    place = place_of(call)
    held = first = filled(plan, source)
    carries = call.name in ("sum", "mean") and source.dtype is BFLOAT16 and 1 < len(axes) < rank
    outer = [axis for axis in axes if axis < rank - 2]
    if outer and call.name == "sum" and source.dtype in (BFLOAT16, BFLOAT8_B):
        held = _outer_sums(plan, held, outer, place, carries=carries, is_last=len(outer) == len(axes))
        plan.free(first.slot)
        first, axes = held, [axis for axis in axes if axis >= rank - 2]
    if axes == [rank - 2, rank - 1]:
        held = _both(plan, held, place, source.dtype, call.name)
    else:
        for axis in reversed(axes):
            dtype = FLOAT32 if carries and axis != axes[0] else BFLOAT16 if carries else source.dtype
            held = _one_axis(plan, held, axis, place, dtype, call.name, first.slot)
    if not call.arguments["keepdim"]:
        shape = tuple(size for i, size in enumerate(source.shape) if i not in resolve_axes(call.arguments["dim"], rank))
        held = replace_handle(plan, held, in_shape(plan, held, shape), keep=first.slot)
    if first.slot != held.slot:
        plan.free(first.slot)
    return plan.finish(held.slot, held.spec)


def _reduce_row(call: Call, plan: PlanBuilder) -> Plan:
    """A single dimension is a row; a single number is copied."""
    source = call.inputs[0]
    if not source.shape:
        filled = TensorHandle(fill_padding(plan, source), source)
        copied = apply(plan, clone, filled, call.memory)
        plan.free(filled.slot)
        return plan.finish(copied.slot, source if call.memory is None else copied.spec)
    row = replace(call, inputs=(replace(source, shape=(1, *source.shape)),), arguments={"dim": 1, "keepdim": True})
    return reduce(row, plan).reshape_result((1,) if call.arguments["keepdim"] else ())


def _outer_sums(
    plan: PlanBuilder, held: TensorHandle, axes: list[int], place: Place, *, carries: bool, is_last: bool
) -> TensorHandle:
    """The kernel for outer dimensions: its result has whole tiles, which are cut to size at the end."""
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
    return replace_handle(
        plan, held, apply(plan, slice_, held, None, begins=[0] * len(ends), ends=ends, steps=None), keep=0
    )


def _both(plan: PlanBuilder, held: TensorHandle, place: Place, dtype: DataType, name: str) -> TensorHandle:
    """The last two dimensions: the width, then the height; a single tile in one go."""
    source = held.spec
    is_tile = prod(source.shape[:-2]) == 1 and max(source.shape[-2:]) <= 32
    if is_tile and source.dtype in (BFLOAT16, BFLOAT8_B, UINT32) and (name, source.dtype) != ("min", BFLOAT16):
        result = place.holds(replace(source, shape=(*source.shape[:-2], 1, 1)))
        slot = plan.allocate(result)
        tile = source.tile_bytes
        plan.launch([2 * tile, accumulator(source.dtype).tile_bytes(), 2 * tile, *_negatives(source, name)])
        return TensorHandle(slot, result)
    rank = len(source.shape)
    middle = FLOAT32 if name == "sum" and dtype is BFLOAT16 else dtype
    rows = _along(plan, held, rank - 1, place, middle, name)
    both = _along(plan, rows, rank - 2, place, dtype, name)
    plan.free(rows.slot)
    return both


def _one_axis(
    plan: PlanBuilder, held: TensorHandle, axis: int, place: Place, dtype: DataType, name: str, keep: int
) -> TensorHandle:
    """An outer dimension changes places with the height, is reduced, and goes back."""
    rank = len(held.spec.shape)
    if axis == rank - 1:
        return replace_handle(plan, held, _along(plan, held, axis, place, dtype, name), keep=keep)
    if axis == rank - 2:
        return replace_handle(plan, held, down(plan, held, place, dtype, name), keep=keep)
    turned = apply(plan, transpose, held, place.memory, place.shard, dim1=axis, dim2=rank - 2)
    turned = replace_handle(plan, held, turned, keep=keep)
    reduced = down(plan, turned, place, dtype, name)
    reduced = replace_handle(plan, turned, reduced, keep=keep)
    return replace_handle(
        plan, reduced, apply(plan, transpose, reduced, place.memory, place.shard, dim1=axis, dim2=rank - 2), keep=keep
    )


def down(
    plan: PlanBuilder, held: TensorHandle, place: Place, dtype: DataType, name: str, *, layout: Layout = TILE
) -> TensorHandle:
    """The height. Where it is tall and few cores have work, it is cut in slices, whose results are reduced again.

    ``layout``: of what comes out of slices.
    """
    source = held.spec
    *outer, height, width = source.shape
    columns, tall = prod(outer) * ceil_div(width, 32), ceil_div(height, 32)
    slices = min(plan.memory_map.grid.cores // columns, tall) if tall >= _TALL else 1
    adds = name in ("sum", "mean")
    is_sliced = source.dtype in ((BFLOAT16, FLOAT32, BFLOAT8_B) if adds else (BFLOAT16, FLOAT32))
    is_sliced = is_sliced and source.shard is None and place.shard is None
    if slices < 2 or not is_sliced:
        return _along(plan, held, len(source.shape) - 2, place, dtype, name)
    partial = FLOAT32 if adds else source.dtype
    rows = TensorSpec((*outer, slices, width), partial, ROW_MAJOR, place.memory)
    middle = plan.allocate(rows)
    tile, inner = source.tile_bytes, partial.tile_bytes()
    ahead = 2 if source.dtype is FLOAT32 else 8
    plan.launch([ahead * tile, accumulator(source.dtype).tile_bytes(), 2 * inner])
    result = TensorSpec((*outer, 1, width), dtype, layout, place.memory)
    slot = plan.allocate(result)
    partials = max(2, ceil_div(slices, 32)) * inner
    plan.launch([2 * inner, inner, dtype.tile_bytes(), partials, inner, 2 * dtype.tile_bytes()])
    plan.free(middle)
    return TensorHandle(slot, result)


def _along(plan: PlanBuilder, held: TensorHandle, axis: int, place: Place, dtype: DataType, name: str) -> TensorHandle:
    """One of the last two dimensions."""
    source = held.spec
    rank = len(source.shape)
    if axis == rank - 2 and is_negated(source, name):
        return reduce_columns_to_minimum(
            plan, held, place, lambda negative: _along(plan, negative, axis, place, dtype, "max")
        )
    shape = (*source.shape[:axis], 1, *source.shape[axis + 1 :])
    result = place.holds(replace(source, shape=shape, dtype=dtype))
    slot = plan.allocate(result)
    check_reduced_type(plan, source)
    # Work of the least busy core: rows of tiles for the width, columns of tiles for the height.
    outer, cores = prod(source.shape[:-2]), plan.memory_map.grid.cores
    height, width = (ceil_div(size, 32) for size in source.shape[-2:])
    work = max(outer * height // cores, 1) * width if axis == rank - 1 else outer * width // cores
    negatives = _negatives(source, name)
    if negatives:
        work = outer * height // cores
    if is_reduced_in_place(source, result, "height" if axis == rank - 1 else "width"):
        plan.launch([2 * source.tile_bytes, accumulator(source.dtype).tile_bytes(), *negatives])
        return TensorHandle(slot, result)
    ahead = (8 if work >= _WORTH_BATCHING else 2) * source.tile_bytes
    plan.launch([ahead, accumulator(source.dtype).tile_bytes(), 2 * dtype.tile_bytes(), *negatives])
    return TensorHandle(slot, result)


def _negatives(source: TensorSpec, name: str) -> list[int]:
    """The least of some types is the greatest of their negatives, which need a tile on the way in and out."""
    return [source.tile_bytes] * 2 if is_negated(source, name) else []


RECORDS = (
    *(
        build_record(
            format_call(name, [EXAMPLE_TENSOR], dim=-1, keepdim=True),
            reduce,
            *(Argument("dim", default=None), Argument("keepdim", default=False)),
            family="reduce",
            verified_low_rank_and_rare_types=True,
            verified_with_shards=True,
        )
        for name in ("sum", "mean", "max", "min")
    ),
)
