# SPDX-License-Identifier: Apache-2.0
"""Pad tiles and rows, interleaved and sharded."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT16, DRAM, L1
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import (
    cast,
    compute_aligned_page_bytes,
    describe_not_in_l1,
    double_buffered_tiles,
    has_padded_shard_rows,
    result_spec,
)
from ttmem.twin.operations.memory_config import interleaved_to_sharded, to_memory_config
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, TensorHandle
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.reductions import fill_tile_padding
from ttmem.twin.placement import compute_paging
from ttmem.twin.tensor_spec import InvalidSpecError, NdShard, Shard, TensorSpec

_ROWS_AHEAD, _READ_BYTES = 16, 2048


def pad(call: Call, plan: PlanBuilder) -> Plan:
    """Pad at the ends; the tile padding of the input is first overwritten in place."""
    source = call.inputs[0]
    padding = [(int(before), int(after)) for before, after in call.arguments["padding"]]
    padding = [(0, 0)] * (len(source.shape) - len(padding)) + padding
    shape = tuple(size + b + a for size, (b, a) in zip(source.shape, padding, strict=True))
    like = result_spec(call, source)
    if shape == source.shape:
        return plan.finish(-1, source)
    if any(outer != (0, 0) for outer in padding[: len(padding) - 3]) and len(shape) > 4:
        return plan.unknown("pad of outer dimensions of a tensor with more than four, done in stages")
    if isinstance(source.shard, NdShard) or isinstance(like.shard, NdShard):
        return plan.unknown("padding of ND shards")
    if not source.is_tiled:
        made = _pad(plan, TensorHandle(-1, source), replace(like, shape=shape), call, is_shifted=padding[-1][0] > 0)
        if len(shape) < 4 and has_padded_shard_rows(made.spec):
            plan.refuse("Attempting to reshape between two shapes with different volumes")
        return plan.finish(made.slot, made.spec)
    if any(before for before, _ in padding):
        raise InvalidSpecError("ttnn.pad: on device tile padding does not support front padding")
    whole = fill_tile_padding(plan, source)
    if _compute_stored_shape(replace(source, shape=shape)) == _compute_stored_shape(source):
        # The existing tiles have room: the (filled) input gets a new shape.
        made = TensorHandle(whole.slot, replace(source, shape=shape))
    else:
        made = _pad_tiles(plan, whole, replace(like, shape=shape), call)
        plan.free(whole.slot)
    if (made.spec.shard is None) == (like.shard is None):  # memories alone do not count
        return plan.finish(made.slot, made.spec)
    moved = plan.apply(to_memory_config, made, call.memory, call.shard)
    plan.free(made.slot)
    return plan.finish(moved.slot, moved.spec)


def _pad_tiles(plan: PlanBuilder, held: TensorHandle, like: TensorSpec, call: Call) -> TensorHandle:
    """Pad tiles; block floats are padded as bfloat16."""
    if not held.spec.dtype.is_block_float:
        return _pad(plan, held, like, call)
    plain_spec = replace(held.spec, dtype=BFLOAT16)
    plain = TensorHandle(cast(plan, held.spec, plain_spec), plain_spec)
    wide = _pad(plan, plain, replace(like, dtype=BFLOAT16), call)
    spec = replace(wide.spec, dtype=like.dtype)
    last = TensorHandle(cast(plan, wide.spec, spec), spec)
    plan.free(wide.slot, plain.slot)
    return last


def _pad(
    plan: PlanBuilder, held: TensorHandle, like: TensorSpec, call: Call, *, is_shifted: bool = False
) -> TensorHandle:
    """Pad to ``like``, the result's spec. Wider height shards are made anew, first for the width alone; other shards
    in DRAM go through pages.
    """
    one, stored = held.spec.shard, _compute_stored_shape(like)
    if isinstance(one, Shard) and one.kind != "height" and held.spec.memory is DRAM:
        return _pad_through_pages(plan, held, like, is_shifted=is_shifted)
    if not (isinstance(one, Shard) and one.kind == "height" and like.shard and held.spec.shape[-1] != stored[-1]):
        return _pad_directly(plan, held, like, is_shifted=is_shifted)
    rows, wanted_rows = prod(held.spec.shape[:-1]), prod(stored[:-1])
    wide = replace(like, memory=L1, shard=_build_height_shard(one, rows, stored[-1]))
    if rows == wanted_rows:
        return _pad_directly(plan, held, wide, is_shifted=is_shifted)
    first = _pad_directly(plan, held, replace(wide, shape=(*held.spec.shape[:-1], stored[-1])), is_shifted=is_shifted)
    if is_shifted:
        plan.refuse("Output size cannot fit input with offset")
    second = replace(wide, shard=_build_height_shard(one, wanted_rows, stored[-1])) if call.memory is None else like
    last = _pad_directly(plan, first, second, is_shifted=False)
    plan.free(first.slot)
    return last


def _pad_through_pages(plan: PlanBuilder, held: TensorHandle, like: TensorSpec, *, is_shifted: bool) -> TensorHandle:
    pages = plan.apply(to_memory_config, held, DRAM)
    padded = _pad_directly(plan, pages, replace(like, shard=None), is_shifted=is_shifted)
    if like.shard is None:
        last = padded
    elif like.memory is L1:
        last = plan.apply(interleaved_to_sharded, padded, L1, like.shard, output_dtype=None)
    else:
        last = plan.apply(to_memory_config, padded, like.memory, like.shard)
    plan.free(pages.slot, padded.slot if padded.slot != last.slot else 0)
    return last


def _pad_directly(plan: PlanBuilder, held: TensorHandle, result: TensorSpec, *, is_shifted: bool) -> TensorHandle:
    """Pad with one program; the library allocates the result before it checks."""
    slot = plan.allocate(result)
    source, alignment = held.spec, plan.memory_map.architecture.l1_alignment_bytes
    tile = source.is_tiled
    if (
        source.shard is not None
        and not tile
        and (page := compute_paging(source).page_bytes) != compute_aligned_page_bytes(plan, source)
    ):
        plan.refuse(
            f"Input row-major shard width {source.shard.width} gives page size {page} bytes, which must be aligned to "
            f"{alignment} bytes"
        )
    if result.shard is not None and (page := result.shard.width * source.element_bytes) % alignment:
        plan.refuse(
            f"Output row-major shard width {result.shard.width} gives page size {page} bytes, which must be aligned to "
            f"{alignment} bytes"
        )
    if tile:
        plan.launch([*double_buffered_tiles(source), source.dtype.tile_bytes(source.tile)])
    elif _stays_in_shards(source, result):
        if why := describe_not_in_l1("out_shard", "output", result):
            plan.refuse(why)
        plan.launch([result.shape[-1] * source.element_bytes])
    else:
        plan.launch(_compute_row_buffers(plan, replace(result, shard=None), is_shifted=is_shifted))
    return TensorHandle(slot, result)


def _stays_in_shards(source: TensorSpec, result: TensorSpec) -> bool:
    """Return whether cores copy rows from L1 shards to shards of their own."""
    one, two = source.shard, result.shard
    if not (isinstance(one, Shard) and isinstance(two, Shard) and source.memory is L1):
        return False
    is_by_height = one.kind == two.kind == "height" and result.shape[-1] == two.width and two.height >= one.height
    is_wider = source.shape[-1] != result.shape[-1]
    return is_by_height and not (is_wider and prod(source.shape[:-1]) != prod(result.shape[:-1]))


def _compute_row_buffers(plan: PlanBuilder, result: TensorSpec, *, is_shifted: bool) -> Sequence[int]:
    """Return the buffers for rows: sixteen times as many rows as are read together, at most half of L1; one row for
    the padding, and another to shift unaligned rows.
    """
    row, quantum = compute_paging(result).page_bytes, plan.memory_map.quantum_bytes
    stick = round_up(row, plan.memory_map.architecture.l1_alignment_bytes)
    half = plan.memory_map.architecture.l1_bytes_per_core // 2 - plan.memory_map.l1_base_address
    half %= 1 << 32  # the library's difference is unsigned, so a base above the middle is no bound
    rows = max(min(_ROWS_AHEAD * ceil_div(_READ_BYTES, stick), half // stick), 1)
    shifts = is_shifted or stick % quantum != 0
    return [rows * stick, *[round_up(row, quantum)] * (2 if shifts else 1)]


def _compute_stored_shape(result: TensorSpec) -> tuple[int, ...]:
    return replace(result, shard=None).padded


def _build_height_shard(like: Shard, rows: int, width: int) -> Shard:
    return Shard("height", ceil_div(rows, like.cores), width, like.ranges)


RECORDS = (
    build_record(
        format_call("pad", [EXAMPLE_TENSOR], [{"tuple": [0, size]} for size in (0, 0, 32, 32)], 0.0),
        pad,
        *(Argument("padding", 0), Argument("value", 1)),
    ),
)
