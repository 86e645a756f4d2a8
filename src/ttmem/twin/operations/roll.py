# SPDX-License-Identifier: Apache-2.0
"""Roll: pages are cut in two and joined in reverse order; whole shards have their own kernel."""

from collections import Counter
from dataclasses import replace
from math import prod
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.hardware import DRAM
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.concat import join
from ttmem.twin.operations.elementwise import (
    compute_aligned_page_bytes,
    has_padded_shard_rows,
    has_whole_shards,
    result_spec,
)
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.plan import Call, NoRuleError, Plan, PlanBuilder, TensorHandle, dimension
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.reshape import reshape_tensor
from ttmem.twin.operations.slice_ import cut
from ttmem.twin.operations.tilize_untilize import tilize_by_name, untilize_by_name
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import InvalidSpecError, Shard, TensorSpec

_MOST_ARGUMENTS = 256
"""The most runtime arguments of a kernel, which lists every piece that it moves."""
Turns = list[tuple[int, int]]
"""Pairs of a dimension and its shift, which is above 0 and less than its size."""


def roll(call: Call, plan: PlanBuilder) -> Plan:
    """Roll along dimensions; without dimensions, roll all elements as one row."""
    source, wanted = call.inputs[0], result_spec(call, call.inputs[0])
    shifts, dims = call.arguments["shifts"], call.arguments["dim"]
    if dims is not None:
        rolled = _roll(plan, source, _read_turns(source, shifts, dims), wanted)
        return plan.finish(rolled.slot, rolled.spec)
    if source.shard is not None:
        raise InvalidSpecError("ttnn::roll without dims does not support sharded inputs. Convert to interleaved first.")
    if wanted.shard is not None:
        return plan.unknown("a roll of all elements into shards")
    row = replace(source, shape=(1, source.elements))
    flat = TensorHandle(reshape_tensor(plan, source, row) or -1, row)
    rolled = _roll(plan, row, _read_turns(row, shifts, 1), wanted)
    rolled = TensorHandle(flat.slot, row) if rolled.slot < 0 else plan.replace_tensor(flat, rolled)
    result = replace(rolled.spec, shape=source.shape)
    back = TensorHandle(reshape_tensor(plan, rolled.spec, result) or rolled.slot, result)
    plan.replace_tensor(rolled, back)
    return plan.finish(back.slot, result)


def _read_turns(source: TensorSpec, shifts: Any, dims: Any) -> Turns:
    numbers, axes = ([one] if isinstance(one, int) else [*one] for one in (shifts, dims))
    if len(numbers) != len(axes):
        raise BadInputError(f"Roll expects shifts {len(numbers)} and dims {len(axes)} to have the same length")
    places = [dimension(axis, len(source.shape)) for axis in axes]
    turns = [(axis, int(number) % source.shape[axis]) for axis, number in zip(places, numbers, strict=True)]
    return [turn for turn in turns if turn[1]]


def _roll(plan: PlanBuilder, source: TensorSpec, turns: Turns, wanted: TensorSpec) -> TensorHandle:
    """Roll in whole shards, else in DRAM; then move the result to its memory."""
    first, pages = TensorHandle(-1, source), TensorHandle(-1, source)
    if source.shard is None or not turns:
        held = _roll_pages(plan, first, turns)
    elif not isinstance(source.shard, Shard):
        raise NoRuleError("a roll of ND shards")
    elif not _is_rolled_in_place(source):
        pages = plan.apply(to_memory_config, first, DRAM)
        held = _roll_pages(plan, pages, turns)
    else:
        held = _roll_sharded_axes(plan, first, turns)
    last = plan.advance(to_memory_config, held, wanted.memory, wanted.shard)
    plan.free(pages.slot)
    return last


def _is_rolled_in_place(source: TensorSpec) -> bool:
    """Return whether shards and tiles are all whole."""
    assert isinstance(source.shard, Shard)
    is_padded = source.is_tiled and source.padded != source.shape
    return has_whole_shards(source) and not has_padded_shard_rows(source) and not is_padded


def _roll_sharded_axes(plan: PlanBuilder, held: TensorHandle, turns: Turns) -> TensorHandle:
    """Roll whole tiles; shifts within tiles are done on rows."""
    source, rank = held.spec, len(held.spec.shape)
    if source.is_tiled and any(shift % 32 for axis, shift in turns if axis >= rank - 2):
        rows = plan.apply(untilize_by_name, held, source.memory, source.shard)
        rolled = _roll_sharded_axes(plan, rows, turns)
        tiles = plan.apply(tilize_by_name, rolled, source.memory, source.shard, dtype=source.dtype.name)
        plan.free(rolled.slot, rows.slot)
        return tiles
    keep = held.slot
    for axis, shift in turns:
        held = plan.replace_tensor(held, TensorHandle(_roll_shards(plan, held.spec, axis, shift), held.spec), keep=keep)
    return held


def _roll_shards(plan: PlanBuilder, spec: TensorSpec, axis: int, shift: int) -> int:
    """Roll shards along one axis: two rows in flight between cores; from DRAM whole shards, three if row-major."""
    shard, is_tiled = spec.shard, spec.is_tiled
    assert isinstance(shard, Shard)
    slot = plan.allocate(spec)
    if len(shard.ranges) > 1:
        plan.refuse("Native sharded roll requires a single contiguous rectangular CoreRange")
    row = shard.width // 32 * spec.tile_bytes if is_tiled else compute_aligned_page_bytes(plan, spec)
    whole = (shard.height // 32 if is_tiled else shard.height) * row
    pieces = _count_pieces(spec, shard, axis, shift)
    each, besides = (9, 1) if not spec.memory.in_dram else (7, 3 if is_tiled else 8)
    if besides + each * pieces > _MOST_ARGUMENTS:
        plan.refuse(f"Native sharded roll: too many copy segments per core ({pieces}). Reduce grid/shape.")
    if not spec.memory.in_dram:
        plan.launch([2 * (row + 2 * plan.memory_map.architecture.l1_alignment_bytes)], CIRCULAR)
    else:
        plan.launch([whole] if is_tiled else [whole] * 3, CIRCULAR)
    return slot


def _count_pieces(spec: TensorSpec, shard: Shard, axis: int, shift: int) -> int:
    """Return the most runs of rows (of tiles) that a shard is assembled from; 1 along a row."""
    rank = len(spec.shape)
    if axis == rank - 1:
        return 1
    unit = 32 if spec.is_tiled else 1
    *outer, _ = spec.shape
    outer[-1] //= unit
    high, inner = shard.height // unit, prod(outer[axis + 1 :])
    group, turn = outer[axis] * inner, (shift // unit if axis == rank - 2 else shift) * inner
    rows = prod(outer)
    begins = {*range(0, rows, high), *range(0, rows, group), *range(turn, rows, group)}
    begins |= {row - row % group + (row + turn) % group for row in range(0, rows, high)}
    return max(Counter(row // high for row in begins).values())


def _roll_pages(plan: PlanBuilder, held: TensorHandle, turns: Turns) -> TensorHandle:
    """Put the tail before the head in DRAM, for each dimension."""
    keep = held.slot
    for axis, shift in turns:
        size = held.spec.shape[axis]
        held = plan.replace_tensor(held, _swap_tail(plan, held.spec, axis, size - shift), keep=keep)
    return held


def _swap_tail(plan: PlanBuilder, spec: TensorSpec, axis: int, at: int) -> TensorHandle:
    steps = [1] * len(spec.shape)
    start, middle, end = [0] * len(spec.shape), list(spec.shape), list(spec.shape)
    middle[axis] = at
    begin = list(start)
    begin[axis] = at
    tail_slot, tail = cut(plan, spec, begin, end, steps, spec)
    head_slot, head = cut(plan, spec, start, middle, steps, spec)
    slot, whole = join(plan, [tail, head], axis, replace(head, memory=DRAM, shape=spec.shape))
    plan.free(tail_slot, head_slot)
    return TensorHandle(slot, whole)


RECORDS = (
    build_record(
        format_call("roll", [EXAMPLE_TENSOR], [1], [2]),
        roll,
        *(Argument("shifts", 0), Argument("dim", 1, None)),
    ),
)
