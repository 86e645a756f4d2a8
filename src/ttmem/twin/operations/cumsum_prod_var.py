# SPDX-License-Identifier: Apache-2.0
"""Cumulative sums and products, products along dimensions, variance and standard deviation."""

from dataclasses import replace
from math import prod as product_of

from ttmem.base.arithmetic import ceil_div
from ttmem.hardware import BFLOAT8_B, BFLOAT16, DATA_TYPES, FLOAT32
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import clone, dtype_name, memory_layout_name, typecast
from ttmem.twin.operations.permute import permute
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, TensorHandle, dimension, resolve_axes
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.reductions import (
    ResultPlacement,
    check_cores,
    fill_tile_padding,
    read_placement,
    reshape_handle,
)
from ttmem.twin.placement import compute_paging
from ttmem.twin.tensor_spec import TensorSpec

_FLOATS = (BFLOAT16, FLOAT32, BFLOAT8_B)
_NOT_COMPARED = ("bfloat4_b", "uint8")
_TYPES, _TYPES_OF_ALL = "BFLOAT16, FLOAT32 or BFLOAT8_B", "BFLOAT16, FLOAT32, BFLOAT8_B or BFLOAT4_B"


def accumulate(call: Call, plan: PlanBuilder) -> Plan:
    """Plan cumsum or cumprod; all but sums of bfloat16 move the dimension outside the tiles and back."""
    source = call.inputs[0]
    if not source.is_tiled or source.dtype.name in _NOT_COMPARED:
        return plan.unknown(f"{call.name} of row-major tensors, of bfloat4_b or of uint8")
    rank = len(source.shape)
    if not rank:
        return clone(call, plan)
    axis = dimension(call.arguments["dim"], rank)
    held = TensorHandle(-1, source)
    wanted = call.arguments["dtype"]
    if wanted is not None and DATA_TYPES.find(str(wanted)) is not source.dtype:
        held = plan.apply(typecast, held, dtype=wanted)
    is_sum = call.name == "cumsum"
    if is_sum and held.spec.dtype is BFLOAT16 and axis >= rank - 2:
        done = _accumulate(plan, held, _result_spec(call, held.spec), axis)
        return plan.finish(plan.replace_tensor(held, done).slot, done.spec)
    shape, lead = held.spec.shape, max(4 - rank, 0)
    order = list(range(rank + lead))
    if rank - axis < 4:
        order[0], order[axis + lead] = order[axis + lead], order[0]
        held = change_shape(held, (1,) * lead + shape)
        held = plan.advance(permute, held, held.spec.memory, held.spec.shard, dims=order)
    # Totals of floats have four bytes; sums of float32 keep a second copy.
    inner = (FLOAT32 if held.spec.dtype.is_float else held.spec.dtype).tile_bytes()
    totals = [inner, inner] if is_sum and held.spec.dtype is FLOAT32 else [inner]
    result = _result_spec(call, held.spec)
    held = plan.replace_tensor(held, _accumulate(plan, held, result, 0 if rank - axis < 4 else axis, *totals))
    held = plan.advance(permute, held, held.spec.memory, held.spec.shard, dims=order)
    return plan.finish(held.slot, replace(held.spec, shape=shape))


def _result_spec(call: Call, spec: TensorSpec) -> TensorSpec:
    return spec if call.memory is None else replace(spec, memory=call.memory, shard=call.shard)


def change_shape(held: TensorHandle, shape: tuple[int, ...]) -> TensorHandle:
    """Return the tensor with another shape."""
    return TensorHandle(held.slot, replace(held.spec, shape=shape))


def _accumulate(plan: PlanBuilder, held: TensorHandle, result: TensorSpec, axis: int, *more: int) -> TensorHandle:
    """Add the program; a core has lines of tiles along the dimension."""
    slot = plan.allocate(result)
    if held.spec.shard is not None:
        plan.refuse("ttnn accumulation operations (cumprod, cumsum) do not support sharded input tensors.")
    *outer, high, wide = (1, *result.shape) if len(result.shape) < 2 else result.shape
    lines = [*outer, ceil_div(high, 32), ceil_div(wide, 32)]
    lines[axis - len(result.shape)] = 1
    check_cores(plan, result, "Accumulation", "output", product_of(lines))
    plan.launch([4 * held.spec.tile_bytes, 4 * result.tile_bytes, *more])
    return TensorHandle(slot, result)


def _reduce(plan: PlanBuilder, held: TensorHandle, result: TensorSpec, tiles: list[int], *more: int) -> TensorHandle:
    """Add one program: ``tiles`` of its input and of its result, and more buffers."""
    slot = plan.allocate(result)
    sizes = [tiles[0] * held.spec.tile_bytes, tiles[1] * result.tile_bytes]
    plan.launch([*sizes, *more])
    return TensorHandle(slot, result)


def product(call: Call, plan: PlanBuilder) -> Plan:
    """Plan prod over all elements, or along one dimension, which is moved outside the tiles and back."""
    source, rank = call.inputs[0], len(call.inputs[0].shape)
    if not source.is_tiled or rank > 4:
        return plan.unknown("prod of row-major tensors, or of more than four dimensions")
    if not rank:
        return plan.unknown("prod of a single number")
    place = read_placement(call)
    first = fill_tile_padding(plan, source)
    if call.arguments["dim"] is None or rank == 1:
        held = _multiply_all(plan, first, place)
        return plan.finish(held.slot, replace(held.spec, shape=(1,) * rank if call.arguments["keepdim"] else ()))
    axis = dimension(call.arguments["dim"], rank)
    held, kept = _multiply_along(plan, first, axis + 4 - rank, place)
    shape = (*source.shape[:axis], 1, *source.shape[axis + 1 :])
    held = change_shape(held, shape)
    if not call.arguments["keepdim"]:
        held = plan.replace_tensor(held, reshape_handle(plan, held, (*shape[:axis], *shape[axis + 1 :])))
    plan.free(*kept, first.slot)
    return plan.finish(held.slot, held.spec)


def _multiply_all(plan: PlanBuilder, source: TensorHandle, place: ResultPlacement) -> TensorHandle:
    """Multiply all elements: one core writes a row of a tile's elements; the host creates a tensor from the first."""
    wide = FLOAT32 if source.spec.dtype is BFLOAT8_B else source.spec.dtype
    row = replace(source.spec, shape=(1, 1, 1, 32 * 32), dtype=wide, memory=place.memory, shard=place.shard)
    held = _multiply(plan, source, row, _TYPES_OF_ALL)
    one = replace(held.spec, shape=(1, 1))
    slot = plan.allocate(one)
    plan.free(held.slot, source.slot)
    held = TensorHandle(slot, one)
    if wide is not source.spec.dtype:
        held = plan.advance(typecast, held, dtype=source.spec.dtype.name)
    return held


def _multiply(plan: PlanBuilder, held: TensorHandle, result: TensorSpec, types: str = _TYPES) -> TensorHandle:
    """Add the program, which checks the type after everything is prepared."""
    slot = plan.allocate(result)
    if types is _TYPES_OF_ALL and held.spec.shard is not None:
        plan.refuse(f"Memory layout must be INTERLEAVED, got: {memory_layout_name(held.spec)}")
    if held.spec.dtype not in _FLOATS:
        dtype = dtype_name(held.spec.dtype)
        plan.refuse(f"Error - unsupported data type for prod, expected {types} but got {dtype}.")
    if types is _TYPES:
        check_cores(plan, result, "Prod_nc", "output", compute_paging(result).pages)
    plan.launch([2 * held.spec.tile_bytes, 2 * result.tile_bytes])
    return TensorHandle(slot, result)


def _multiply_along(
    plan: PlanBuilder, source: TensorHandle, axis: int, place: ResultPlacement
) -> tuple[TensorHandle, list[int]]:
    """Multiply along one of four dimensions; return the product and what is freed at the end."""
    shape = source.spec.shape
    held = four = change_shape(source, (1,) * (4 - len(shape)) + shape)
    if axis >= 2:
        held = plan.apply(permute, held, place.memory, place.shard, dims=(axis, 0, 1, 5 - axis))
    kept = [held.slot] if held.slot != four.slot else []
    outer = 1 if axis == 1 else 0
    sizes = list(held.spec.shape)
    sizes[outer] = 1
    done = _multiply(plan, held, replace(held.spec, shape=tuple(sizes), memory=place.memory, shard=place.shard))
    if axis < 2:
        return done, kept
    back = plan.apply(permute, done, place.memory, place.shard, dims=(1, 2, 0, 3))
    if axis == 2:
        return plan.replace_tensor(done, back), kept
    turned = plan.apply(permute, back, place.memory, place.shard, dims=(0, 1, 3, 2))
    plan.replace_tensor(done, back)
    return plan.replace_tensor(back, turned), kept


def spread(call: Call, plan: PlanBuilder) -> Plan:
    """Plan var or std in one pass over rows, columns, or several dimensions, which are moved to the end."""
    source, rank = call.inputs[0], len(call.inputs[0].shape)
    if not source.is_tiled or rank < 2:
        return plan.unknown(f"{call.name} of row-major tensors, or of less than two dimensions")
    axes = resolve_axes(call.arguments["dim"], rank)
    place = read_placement(call)
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(source.shape))
    if not call.arguments["keepdim"]:
        shape = tuple(size for axis, size in enumerate(source.shape) if axis not in axes)
    if product_of(source.shape[axis] for axis in axes) == 1:  # the host knows the result
        known = replace(source, memory=place.memory, shard=place.shard)
        return _finish(plan, TensorHandle(plan.allocate(known), known), shape)
    order = list(range(rank))
    if len(axes) > 1:
        order = [axis for axis in order if axis not in axes] + axes
    elif axes[0] < rank - 2:
        order[axes[0]], order[rank - 2] = order[rank - 2], order[axes[0]]
    first = TensorHandle(-1, source)
    moves = len(axes) > 1 or order != list(range(rank))
    turned = plan.apply(permute, first, place.memory, place.shard, dims=order) if moves else first
    sizes = tuple(1 if axis in axes else size for axis, size in zip(order, turned.spec.shape, strict=True))
    wide = FLOAT32.tile_bytes()
    more = [4 * wide, wide] if len(axes) > 1 else []
    spread_out = place.place_result(replace(turned.spec, shape=sizes))
    if source.dtype not in _FLOATS:
        plan.allocate(spread_out)
        dtype = dtype_name(source.dtype)
        plan.refuse(f"Only FLOAT32, BFLOAT16, and BFLOAT8_B are supported for Std/Var reduction - got {dtype}")
    held = _reduce(plan, turned, spread_out, [8, 2], *more)
    if len(axes) == 1 and turned is not first:
        held = plan.advance(permute, held, place.memory, place.shard, dims=order)
    return _finish(plan, held, shape, turned.slot)


def _finish(plan: PlanBuilder, held: TensorHandle, shape: tuple[int, ...], kept: int = 0) -> Plan:
    """Reshape the result and free ``kept``."""
    if held.spec.shape != shape:
        held = plan.replace_tensor(held, reshape_handle(plan, held, shape))
    if kept != held.slot:
        plan.free(kept)
    return plan.finish(held.slot, held.spec)


_DIMENSIONS = (Argument("dim", default=None), Argument("keepdim", default=False))

RECORDS = (
    *(
        build_record(
            format_call(name, [EXAMPLE_TENSOR], dim=-1),
            accumulate,
            *(Argument("dim", 0), Argument("dtype", default=None)),
            family="accumulation",
            verified_low_rank_and_rare_types=True,
        )
        for name in ("cumsum", "cumprod")
    ),
    build_record(format_call("prod", [EXAMPLE_TENSOR], dim=-1, keepdim=True), product, *_DIMENSIONS),
    *(
        build_record(format_call(name, [EXAMPLE_TENSOR], dim=-1, keepdim=True), spread, *_DIMENSIONS, family="spread")
        for name in ("var", "std")
    ),
)
