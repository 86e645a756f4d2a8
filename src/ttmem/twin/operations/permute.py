# SPDX-License-Identifier: Apache-2.0
"""Transpose and permute: the library's choice of kernels and their buffers."""

from collections.abc import Callable
from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT8_B, BFLOAT16, L1, DataType
from ttmem.hardware.data_types import FACE_WIDTH
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import (
    cast,
    clone,
    compute_aligned_page_bytes,
    double_buffered_rows,
    double_buffered_tiles,
    measure_l1_space_with_reserved_top,
    result_spec,
)
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, TensorHandle, dimension
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.result_shards import (
    CHANNELS_AND_BATCH,
    HEIGHT_AND_CHANNELS,
    TRANSPOSES,
    WIDTH_AND_HEIGHT,
    NativeKernels,
    choose_permute_shard,
    choose_transpose_result,
    find_native_kernels,
    pad_result_spec,
)
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import InvalidSpecError, Shard, TensorSpec

Order = tuple[int, ...]
_Move = Callable[[PlanBuilder, TensorHandle, Order, TensorSpec | None], TensorHandle]
_BOTH_PAIRS = (1, 0, 3, 2)
_CHAINS: dict[Order, tuple[Order, ...]] = {
    (0, 2, 3, 1): (HEIGHT_AND_CHANNELS, WIDTH_AND_HEIGHT),
    (0, 3, 1, 2): (WIDTH_AND_HEIGHT, HEIGHT_AND_CHANNELS),
    (0, 3, 2, 1): (WIDTH_AND_HEIGHT, HEIGHT_AND_CHANNELS, WIDTH_AND_HEIGHT),
}
_MOST_TILES_DOWN = 8


def transpose(call: Call, plan: PlanBuilder) -> Plan:
    rank = len(call.inputs[0].shape)
    first, second = (dimension(call.arguments[name], rank) for name in ("dim1", "dim2"))
    order = list(range(rank))
    order[first], order[second] = order[second], order[first]
    return _move_axes(call, plan, tuple(order), _transpose)


def permute(call: Call, plan: PlanBuilder) -> Plan:
    rank = len(call.inputs[0].shape)
    order = tuple(dimension(d, rank) for d in call.arguments["dims"])
    if sorted(order) != list(range(rank)):
        raise BadInputError(f"permutation {list(order)} does not fit a tensor of rank {rank}")
    if is_view(call.inputs[0], order):
        return to_memory_config(call, plan)
    return _move_axes(call, plan, order, _permute)


def _move_axes(call: Call, plan: PlanBuilder, order: Order, turn: _Move) -> Plan:
    """Permute in at least four dimensions, as the library does."""
    source = call.inputs[0]
    lead = max(4 - len(source.shape), 0)
    held = TensorHandle(-1, replace(source, shape=(1,) * lead + source.shape))
    like = None if call.memory is None else result_spec(call, source)
    made = turn(plan, held, (*range(lead), *(d + lead for d in order)), like)
    return plan.finish(made.slot, replace(made.spec, shape=tuple(source.shape[d] for d in order)))


def _transpose(plan: PlanBuilder, held: TensorHandle, order: Order, like: TensorSpec | None) -> TensorHandle:
    """Transpose into the memory and shards of ``like``."""
    if _has_unaligned_row_shards(held.spec):
        return _move_through_pages(plan, held, order, like, _transpose)
    if len(order) > 4 and is_view(held.spec, order):
        return held if like is None else plan.apply(to_memory_config, held, like.memory, like.shard)
    if len(order) > 4:
        return _permute(plan, held, order, like)
    through_bfloat16 = held.spec.dtype is BFLOAT8_B and order not in (WIDTH_AND_HEIGHT, CHANNELS_AND_BATCH)
    plain = _cast(plan, held, BFLOAT16) if through_bfloat16 else held
    if not _is_no_op(plain.spec, order):
        made = (_transpose_directly if order in TRANSPOSES else _permute)(plan, plain, order, like)
    elif like is None or (like.memory, like.shard) == (plain.spec.memory, plain.spec.shard):
        made = plain
    else:
        made = plan.apply(clone, plain, like.memory, like.shard)
    last = _cast(plan, made, BFLOAT8_B) if through_bfloat16 else made
    _free_all(plan, held, last, plain, made)
    return last


def _permute(plan: PlanBuilder, held: TensorHandle, order: Order, like: TensorSpec | None) -> TensorHandle:
    """Permute; shards are transposed one pair of dimensions at a time, if three transposes are enough."""
    source, alignment = held.spec, plan.memory_map.architecture.l1_alignment_bytes
    cut = like.shard if like is not None and not source.is_tiled else None
    if cut is not None and cut.width * source.element_bytes % alignment:
        raise InvalidSpecError(f"Shard page size must be aligned to {alignment}B for L1 Tensor")
    if _has_unaligned_row_shards(source):
        return _move_through_pages(plan, held, order, like, _permute)
    chain = _CHAINS.get(order, ()) if source.shard is not None else ()
    if order in TRANSPOSES or chain:
        made = [held]
        for step in chain or (order,):
            made.append(_transpose(plan, made[-1], step, like if len(made) == max(len(chain), 1) else None))
        _free_all(plan, held, made[-1], *made)
        return made[-1]
    through_bfloat16 = source.dtype is BFLOAT8_B and source.shard is None and len(order) == 4 and order != _BOTH_PAIRS
    plain = _cast(plan, held, BFLOAT16) if through_bfloat16 else held
    result = _build_result_spec(plain.spec, order, like)
    if like is None and source.shard is not None:
        result = replace(result, shard=choose_permute_shard(source, result.shape, plan.memory_map.grid))
    moved = TensorHandle(move(plan, plain.spec, order, result), result)
    last = _cast(plan, moved, BFLOAT8_B) if through_bfloat16 else moved
    _free_all(plan, held, last, plain, moved)
    return last


def _transpose_directly(plan: PlanBuilder, held: TensorHandle, order: Order, like: TensorSpec | None) -> TensorHandle:
    source, grid = held.spec, plan.memory_map.grid
    result = _build_result_spec(source, order, like)
    of_its_own = like is None and source.shard is not None
    if source.shard is None or (not source.is_tiled and order == WIDTH_AND_HEIGHT and _is_large(plan, source)):
        result = choose_transpose_result(source, order, grid, by_permute=True) if of_its_own else result
        return TensorHandle(move(plan, source, order, result), result)
    result = pad_result_spec(source, order, choose_transpose_result(source, order, grid) if of_its_own else result)
    slot = plan.allocate(result)
    native = find_native_kernels(source, result)
    if not source.is_tiled:
        _launch_rows(plan, source, result, order, native)
    else:
        is_native = native.width_and_height and order == WIDTH_AND_HEIGHT
        plan.launch([] if is_native else _compute_tile_buffers(plan, source, order, result))
    return TensorHandle(slot, result)


def _build_result_spec(source: TensorSpec, order: Order, like: TensorSpec | None) -> TensorSpec:
    shape, like = tuple(source.shape[d] for d in order), like or source
    alignment = source.alignment if source.is_tiled else (1, 1)
    return replace(source, shape=shape, memory=like.memory, shard=like.shard, alignment=alignment)


def _launch_rows(
    plan: PlanBuilder, source: TensorSpec, result: TensorSpec, order: Order, native: NativeKernels
) -> None:
    """Launch a row-major transpose of shards: width and height are swapped as tiles, other pairs as rows."""
    element = source.element_bytes
    if order == CHANNELS_AND_BATCH:
        plan.launch([2 * source.padded[-1] * element])
    elif order == HEIGHT_AND_CHANNELS:
        stick = max(
            compute_aligned_page_bytes(plan, source),
            compute_aligned_page_bytes(plan, result),
            source.shape[-1] * element,
        )
        sticks = ceil_div(prod(source.shape[:-1]), plan.memory_map.grid.cores)
        plan.launch([] if native.height_and_channels else [sticks * stick])
    else:
        tile = source.tile_bytes
        down, across = (ceil_div(size, 32) for size in source.shape[-2:])
        long = down if down > _MOST_TILES_DOWN else 0
        if native.width_and_height:
            plan.launch([number * tile for number in (2 * across, down * across, long, 2 * long) if number], CIRCULAR)
        else:
            plan.launch([number * tile for number in (2 * across, 2 * down, down * across, long) if number])


def _is_large(plan: PlanBuilder, source: TensorSpec) -> bool:
    """Return whether L1 has no room for transposing a row-major matrix, by the library's estimate."""
    height, width = (round_up(size, 32) for size in source.shape[-2:])
    needed = (2 * width + 2 * height + height * width) * source.element_bytes
    return needed > measure_l1_space_with_reserved_top(plan)


def _has_unaligned_row_shards(source: TensorSpec) -> bool:
    """Return whether block or width shards hold rows that are not whole tiles, which are read from pages."""
    shard = source.shard
    is_cut_across = isinstance(shard, Shard) and shard.kind != "height" and not source.is_tiled
    return is_cut_across and any(size % 32 for size in source.shape[-2:])


def _move_through_pages(
    plan: PlanBuilder, held: TensorHandle, order: Order, like: TensorSpec | None, turn: _Move
) -> TensorHandle:
    pages = plan.apply(to_memory_config, held, L1)
    made = turn(plan, pages, order, like)
    _free_all(plan, held, made, pages)
    return made


def _cast(plan: PlanBuilder, held: TensorHandle, dtype: DataType) -> TensorHandle:
    spec = replace(held.spec, dtype=dtype)
    return TensorHandle(cast(plan, held.spec, spec), spec)


def _free_all(plan: PlanBuilder, first: TensorHandle, last: TensorHandle, *between: TensorHandle) -> None:
    """Free the tensors between first and last, each once."""
    plan.free(*{held.slot for held in between} - {first.slot, last.slot})


def _is_no_op(source: TensorSpec, order: Order) -> bool:
    """Return whether only stored sizes of 1 are swapped (tiles never store 1 in the last two dimensions)."""
    padded = source.padded
    padded = (1,) * (len(order) - len(padded)) + padded
    return all(i == d or padded[i] == 1 for i, d in enumerate(order))


def swap_last_two(plan: PlanBuilder, source: TensorSpec, like: TensorSpec) -> tuple[int, TensorSpec]:
    """Transpose an interleaved tensor into the memory of ``like``; slot 0: the result is the tensor itself."""
    rank = len(source.shape)
    shape = (*source.shape[:-2], source.shape[-1], source.shape[-2])
    if rank <= 4 and _is_no_op(source, (*range(rank - 2), rank - 1, rank - 2)) and like.memory is source.memory:
        return 0, replace(source, shape=shape)
    lead = (1,) * (4 - rank)
    wide = replace(source, shape=lead + source.shape)
    order = (*range(len(wide.shape) - 2), len(wide.shape) - 1, len(wide.shape) - 2)
    result = replace(like, shape=shape)
    return move(plan, wide, order, replace(result, shape=lead + shape)), result


def is_view(source: TensorSpec, order: Order) -> bool:
    """Return whether nothing moves: the order is the identity, or only outer dimensions of size 1 are swapped, which
    the library notices only from rank 4 on.
    """
    rank = len(order)
    if rank < 4 or order == tuple(range(rank)):
        return order == tuple(range(rank))
    kept = 2 if source.is_tiled else 1
    if order[rank - kept :] != tuple(range(rank - kept, rank)):
        return False
    return all(i == d or source.shape[i] == source.shape[d] == 1 for i, d in enumerate(order))


def move(plan: PlanBuilder, source: TensorSpec, order: Order, result: TensorSpec) -> int:
    """Allocate the result and launch one permutation kernel."""
    slot, pages = plan.allocate(result), replace(source, shard=None)
    if source.is_tiled:
        plan.launch(_compute_tile_buffers(plan, source, order, result))
    elif order[-1] == len(order) - 1:
        plan.launch(double_buffered_rows(plan, pages, pages))
    else:
        plan.launch([2 * 32 * 32 * source.element_bytes] * 3)
    return slot


def _compute_tile_buffers(plan: PlanBuilder, source: TensorSpec, order: Order, result: TensorSpec) -> list[int]:
    rank = len(order)
    last, second_last = rank - 1, rank - 2
    streams = double_buffered_tiles(source)
    element = source.dtype.mantissa_bits // 8
    face_row = FACE_WIDTH * element
    height = result.shape[-2]
    if order == (0, 2, 1, 3):
        # Tiles are rebuilt row by row; when C is no multiple of 32 a quarter tile holds the padding.
        return streams + ([streams[0] // 8] if source.shape[1] % 32 else [])
    if order[-2:] in ((second_last, last), (last, second_last)):
        return streams + (double_buffered_tiles(result) if order[-1] == second_last else [])
    if order[-1] in (last, second_last):
        padding = [face_row] if height % 32 else []
        swapped = double_buffered_tiles(result) if order[-1] == second_last else []
        return streams + padding + swapped
    # Both tile dimensions move: blocks are tilized, transposed and written face row by face row.
    misaligned = max(plan.memory_map.page_alignment_bytes(source.memory) - face_row, 0)
    block = 2 * (result.dtype.tile_bytes(result.tile) + misaligned)
    return [block] * 3 + ([face_row] if height % 32 else [])


RECORDS = (
    build_record(
        format_call("transpose", [EXAMPLE_TENSOR], -2, -1),
        transpose,
        Argument("dim1", 0),
        Argument("dim2", 1),
    ),
    build_record(
        format_call("permute", [EXAMPLE_TENSOR], [0, 2, 1, 3]),
        permute,
        Argument("dims", 0),
    ),
)
