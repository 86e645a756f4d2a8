# SPDX-License-Identifier: Apache-2.0
"""Transpose and permute: which kernel the library picks, and what it needs."""

from dataclasses import replace

from ttmem._errors import BadInputError
from ttmem.allocator.operations import draws
from ttmem.allocator.operations.draws import EXAMPLE_TENSOR
from ttmem.allocator.operations.elementwise import (
    OWN_KERNELS,
    cast,
    clone,
    double_buffered_rows,
    double_buffered_tiles,
    read_by_pages,
    result_like,
)
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter, dimension
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.sharding import to_memory_config
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.hardware import BFLOAT8_B, BFLOAT16
from ttmem.hardware.data_types import FACE_WIDTH
from ttmem.tensors import TILE, TensorSpec, paging_of

_TRANSPOSES = ((0, 1, 3, 2), (0, 2, 1, 3), (1, 0, 2, 3))


def transpose(call: Call, plan: PlanWriter) -> Plan:
    source = call.inputs[0]
    rank = len(source.shape)
    first, second = (dimension(call.arguments[name], rank) for name in ("dim1", "dim2"))
    order = list(range(rank))
    order[first], order[second] = order[second], order[first]
    if rank <= 4 and _swaps_ones(call.inputs[0], tuple(order)):
        return _unchanged(call, plan)
    if rank > 4 and call.inputs[0].shard is not None:
        return plan.give_up(OWN_KERNELS)
    return _permute(call, plan, tuple(order), nothing_moves=rank > 4 and is_view(call.inputs[0], tuple(order)))


def permute(call: Call, plan: PlanWriter) -> Plan:
    rank = len(call.inputs[0].shape)
    order = tuple(dimension(d, rank) for d in call.arguments["dims"])
    if sorted(order) != list(range(rank)):
        raise BadInputError(f"permutation {list(order)} does not fit a tensor of rank {rank}")
    return _permute(call, plan, order, nothing_moves=is_view(call.inputs[0], order))


def _swaps_ones(source: TensorSpec, order: tuple[int, ...]) -> bool:
    """A transpose of two stored sizes of 1 (tiles never store 1 in the last two dimensions) changes nothing."""
    padded = paging_of(source).padded_shape
    padded = (1,) * (len(order) - len(padded)) + padded
    return all(i == d or padded[i] == 1 for i, d in enumerate(order))


def _unchanged(call: Call, plan: PlanWriter) -> Plan:
    source = call.inputs[0]
    if source.shard is not None or call.shard is not None:
        return plan.finish(-1, source) if call.memory is None else plan.give_up(OWN_KERNELS)
    return plan.finish(-1, source) if call.memory in (None, source.memory) else clone(call, plan)


def _permute(call: Call, plan: PlanWriter, order: tuple[int, ...], *, nothing_moves: bool) -> Plan:
    source = call.inputs[0]
    if nothing_moves:
        return to_memory_config(call, plan)
    shape = tuple(source.shape[d] for d in order)
    lead = 4 - len(source.shape)
    if lead > 0:  # the library works on four dimensions
        source = replace(source, shape=(1,) * lead + source.shape)
        order = (*range(lead), *(d + lead for d in order))
    if order in _TRANSPOSES and _swaps_ones(source, order):  # these go through transpose
        return _unchanged(replace(call, inputs=(source,)), plan).with_shape(shape)
    by_pages = read_by_pages(replace(call, inputs=(source,)))
    if by_pages is None or (source.shard is not None and (order not in _TRANSPOSES or source.dtype is BFLOAT8_B)):
        return plan.give_up(OWN_KERNELS)
    (source,) = by_pages.inputs
    result = replace(result_like(source, call.memory), shape=tuple(source.shape[d] for d in order))
    through_bfloat16 = (
        source.dtype is BFLOAT8_B and len(order) == 4 and order not in ((0, 1, 3, 2), (1, 0, 2, 3), (1, 0, 3, 2))
    )
    if not through_bfloat16:
        slot = move(plan, source, order, result)
        return plan.finish(slot, replace(result, shape=shape))
    # The typecast back goes where the permuted tensor is; both temporaries live until the end.
    plain = replace(source, dtype=BFLOAT16)
    copy = cast(plan, source, plain)
    moved_spec = replace(result, dtype=BFLOAT16)
    moved = move(plan, plain, order, moved_spec)
    slot = cast(plan, moved_spec, result)
    plan.free(moved, copy)
    return plan.finish(slot, replace(result, shape=shape))


def swap_last_two(plan: PlanWriter, source: TensorSpec, like: TensorSpec) -> tuple[int, TensorSpec]:
    """An interleaved tensor transposed into the memory of ``like``; slot 0: it is the tensor itself."""
    rank = len(source.shape)
    shape = (*source.shape[:-2], source.shape[-1], source.shape[-2])
    if rank <= 4 and _swaps_ones(source, (*range(rank - 2), rank - 1, rank - 2)) and like.memory is source.memory:
        return 0, replace(source, shape=shape)
    lead = (1,) * (4 - rank)
    wide = replace(source, shape=lead + source.shape)
    order = (*range(len(wide.shape) - 2), len(wide.shape) - 1, len(wide.shape) - 2)
    result = replace(like, shape=shape)
    return move(plan, wide, order, replace(result, shape=lead + shape)), result


def is_view(source: TensorSpec, order: tuple[int, ...]) -> bool:
    """Nothing moves: the order is the identity, or only dimensions of size 1 change places above the stored ones."""
    rank = len(order)
    if rank <= 1 or order == tuple(range(rank)):
        return True
    kept = 2 if source.layout is TILE else 1
    if order[rank - kept :] != tuple(range(rank - kept, rank)):
        return False
    return all(i == d or source.shape[i] == source.shape[d] == 1 for i, d in enumerate(order))


def move(plan: PlanWriter, source: TensorSpec, order: tuple[int, ...], result: TensorSpec) -> int:
    """One permutation kernel with its output."""
    slot = plan.allocate(result)
    if source.layout is TILE:
        plan.launch(_tiled(plan, source, order, result))
    elif order[-1] == len(order) - 1:
        plan.launch(double_buffered_rows(plan, source, source))
    else:
        plan.launch([2 * 32 * 32 * (source.dtype.element_bytes or 0)] * 3)
    return slot


def _tiled(plan: PlanWriter, source: TensorSpec, order: tuple[int, ...], result: TensorSpec) -> list[int]:
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


def _draw_transpose(record: OperationRecord, choose: Choose) -> list[Step]:
    source, memory = draws.out_of_shards(choose, draws.tensor(choose, integers=True))
    rank = len(source["shape"])
    first, second = draws.shuffled(choose, list(range(rank)))[:2]
    return write_call(record.name, [source], first, second - rank, memory=memory)


def _draw_permute(record: OperationRecord, choose: Choose) -> list[Step]:
    source, memory = draws.out_of_shards(choose, draws.tensor(choose, integers=True))
    dims = draws.shuffled(choose, list(range(len(source["shape"]))))
    return write_call(record.name, [source], dims, memory=memory)


RECORDS = (
    record_of(
        write_call("transpose", [EXAMPLE_TENSOR], -2, -1),
        transpose,
        _draw_transpose,
        Argument("dim1", 0),
        Argument("dim2", 1),
    ),
    record_of(write_call("permute", [EXAMPLE_TENSOR], [0, 2, 1, 3]), permute, _draw_permute, Argument("dims", 0)),
)
