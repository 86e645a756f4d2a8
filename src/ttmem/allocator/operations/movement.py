# SPDX-License-Identifier: Apache-2.0
"""Concat, slice, pad, copies between memories and between layouts."""

from dataclasses import replace
from math import gcd, prod

from ttmem.allocator.operations import draws
from ttmem.allocator.operations.draws import EXAMPLE_TENSOR
from ttmem.allocator.operations.elementwise import (
    cast,
    double_buffered_rows,
    double_buffered_tiles,
    result_like,
)
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.allocator.programs import CIRCULAR, DATAFLOW
from ttmem.hardware import BFLOAT16
from ttmem.tensors import TILE, InvalidSpecError, TensorSpec, paging_of, round_up

_ROWS_AHEAD, _READ_BYTES = 16, 2048


def pad(call: Call, plan: PlanWriter) -> Plan:
    """Padding at the ends; what hides in the last tiles is overwritten in place first."""
    source = call.inputs[0]
    padding = [(int(before), int(after)) for before, after in call.arguments["padding"]]
    padding = [(0, 0)] * (len(source.shape) - len(padding)) + padding
    shape = tuple(size + b + a for size, (b, a) in zip(source.shape, padding, strict=True))
    result = replace(result_like(source, call.memory), shape=shape)
    if shape == source.shape:
        return plan.finish(-1, source)
    if any(outer != (0, 0) for outer in padding[: len(padding) - 3]) and len(shape) > 4:
        return plan.give_up("pad of outer dimensions among more than four goes in stages")
    if source.shard is not None:
        return plan.give_up("padding of shards")
    if source.layout is not TILE:
        return _pad_rows(plan, result, is_shifted=padding[-1][0] > 0)
    if any(before for before, _ in padding):
        raise InvalidSpecError("ttnn.pad: on device tile padding does not support front padding")
    filled_slot = fill_padding(plan, source)
    if paging_of(result).padded_shape == paging_of(source).padded_shape:
        # Room enough in the tiles that are there: the (filled) input under a new shape, whatever memory was asked for.
        return plan.finish(filled_slot, replace(source, shape=shape))
    if not source.dtype.is_block_float:
        slot = _pad(plan, source, result)
        plan.free(filled_slot)
        return plan.finish(slot, result)
    plain = cast(plan, source, replace(source, dtype=BFLOAT16))
    wide_spec = replace(result, dtype=BFLOAT16)
    wide = _pad(plan, replace(source, dtype=BFLOAT16), wide_spec)
    slot = cast(plan, wide_spec, result)
    plan.free(wide, plain, filled_slot)
    return plan.finish(slot, result)


def _pad_rows(plan: PlanWriter, result: TensorSpec, *, is_shifted: bool) -> Plan:
    """Rows of the result are put together one by one, and sixteen times as many wait as are read together: as many as
    half of L1 can hold. One more row is the padding; another shifts what is not aligned.
    """
    row, quantum = paging_of(result).page_bytes, plan.memory_map.quantum_bytes
    stick = round_up(row, plan.memory_map.architecture.l1_alignment_bytes)
    half = plan.memory_map.architecture.l1_bytes_per_core // 2 - plan.memory_map.l1_base_address
    half %= 1 << 32  # the library takes the difference without a sign, so a base above the middle bounds nothing
    rows = max(min(_ROWS_AHEAD * -(-_READ_BYTES // stick), half // stick), 1)
    shifts = is_shifted or stick % quantum != 0
    return plan.one_program(result, [rows * stick, *[round_up(row, quantum)] * (2 if shifts else 1)])


def _pad(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> int:
    slot = plan.allocate(result)
    plan.launch([*double_buffered_tiles(source), source.dtype.tile_bytes(source.tile)])
    return slot


def has_tile_padding(spec: TensorSpec) -> bool:
    height, width = (1, 1, *spec.shape)[-2:]
    return bool(height % spec.tile.height or width % spec.tile.width)


def fill_padding(plan: PlanWriter, spec: TensorSpec) -> int:
    """Write a value into the unused part of the last tiles, if any: in place, or for block floats through bfloat16.

    Returns the slot of the filled tensor, -1 when it is the input itself.
    """
    if not has_tile_padding(spec):
        return -1
    plain = replace(spec, dtype=BFLOAT16) if spec.dtype.is_block_float else spec
    copy = cast(plan, spec, plain) if plain is not spec else 0
    fill_in_place(plan, plain)
    if plain is spec:
        return -1
    slot = cast(plan, plain, spec)
    plan.free(copy)
    return slot


def fill_in_place(plan: PlanWriter, spec: TensorSpec) -> None:
    height, width = (1, 1, *spec.shape)[-2:]
    tile = spec.dtype.tile_bytes(spec.tile)
    masks = [tile] * (bool(height % spec.tile.height) + bool(width % spec.tile.width))
    plan.launch([2 * tile, *masks, 2 * tile])


def copy_between(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> int:
    """The same pages in a new buffer."""
    slot = plan.allocate(result)
    launch_copy(plan, source, result)
    return slot


def launch_copy(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> None:
    """Rows that go to another place pass through one that is not aligned; within one another kernel copies."""
    stays = (source.memory, source.shard) == (result.memory, result.shard)
    if source.layout is TILE:
        buffers = double_buffered_tiles(*([source] if source.dtype is result.dtype else [source, result]))
    elif stays:
        buffers = double_buffered_rows(plan, result, result)
    elif part := _part_of_few_rows(plan, source, result):
        buffers = [2 * part]
    else:
        buffers = [*double_buffered_rows(plan, result, result), paging_of(source).page_bytes]
    plan.launch(buffers, CIRCULAR if stays and source.dtype is result.dtype else DATAFLOW)


def _part_of_few_rows(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> int:
    """Fewer rows than there are cores are dealt out in parts, the longest that pages of both sides are made of;
    0 where such would not be aligned, or is a whole row."""
    part = gcd(paging_of(source).page_bytes, paging_of(result).page_bytes)
    alignment = max(plan.memory_map.page_alignment_bytes(spec.memory) for spec in (source, result))
    row_bytes = source.shape[-1] * (source.dtype.element_bytes or 0)
    is_dealt = prod(source.shape[:-1]) < plan.memory_map.grid.cores and part % alignment == 0 and part < row_bytes
    return part if is_dealt else 0


def _draw_pad(record: OperationRecord, choose: Choose) -> list[Step]:
    source = draws.tensor(choose, most=4)
    front = (0, 1, 3) if source["layout"] == "row_major" else (0,)
    padding = [[choose.one_of(front), choose.one_of((0, 0, 1, 2))] for _ in source["shape"][:-2]]
    padding += [[choose.one_of(front), choose.one_of((0, 1, 10, 32))] for _ in range(2)]
    pairs = [{"tuple": pair} for pair in padding]
    return write_call(record.name, [source], pairs, 0.0, memory=draws.wish(choose))


RECORDS = (
    record_of(
        write_call("pad", [EXAMPLE_TENSOR], [{"tuple": [0, size]} for size in (0, 0, 32, 32)], 0.0),
        pad,
        _draw_pad,
        *(Argument("padding", 0), Argument("value", 1)),
    ),
)
