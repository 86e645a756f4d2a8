# SPDX-License-Identifier: Apache-2.0
"""Roll: pages are cut in two and joined the other way round, whole shards by a kernel of their own."""

from collections import Counter
from dataclasses import replace
from math import prod
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.hardware import DRAM
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, record_of, write_call
from ttmem.twin.operations.concat import join
from ttmem.twin.operations.elementwise import aligned_page, has_longer_rows, has_whole_shards, wanted_like
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.plan import Call, NoRuleError, Plan, PlanWriter, dimension
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.reshape import reshaped
from ttmem.twin.operations.slice_ import cut
from ttmem.twin.operations.tensor_handle import Held, applied, replaced
from ttmem.twin.operations.tilize_untilize import tilize_by_name, untilize_by_name
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import InvalidSpecError, Shard, TensorSpec

_MOST_ARGUMENTS = 256
"""Of a kernel, which is told every piece that it moves."""
Turns = list[tuple[int, int]]
"""A dimension, and how far it is rolled: less than its size, and not at all is left out."""


def roll(call: Call, plan: PlanWriter) -> Plan:
    """Along dimensions; without any that are named over all elements, which lie in one row meanwhile."""
    source, wanted = call.inputs[0], wanted_like(call, call.inputs[0])
    shifts, dims = call.arguments["shifts"], call.arguments["dim"]
    if dims is not None:
        rolled = _rolled(plan, source, _turns(source, shifts, dims), wanted)
        return plan.finish(rolled.slot, rolled.spec)
    if source.shard is not None:
        raise InvalidSpecError("ttnn::roll without dims does not support sharded inputs. Convert to interleaved first.")
    if wanted.shard is not None:
        return plan.give_up("a roll over all elements into shards")
    row = replace(source, shape=(1, source.elements))
    flat = Held(reshaped(plan, source, row) or -1, row)
    rolled = _rolled(plan, row, _turns(row, shifts, 1), wanted)
    rolled = Held(flat.slot, row) if rolled.slot < 0 else replaced(plan, flat, rolled)
    result = replace(rolled.spec, shape=source.shape)
    back = Held(reshaped(plan, rolled.spec, result) or rolled.slot, result)
    replaced(plan, rolled, back)
    return plan.finish(back.slot, result)


def _turns(source: TensorSpec, shifts: Any, dims: Any) -> Turns:
    numbers, axes = ([one] if isinstance(one, int) else [*one] for one in (shifts, dims))
    if len(numbers) != len(axes):
        raise BadInputError(f"Roll expects shifts {len(numbers)} and dims {len(axes)} to have the same length")
    places = [dimension(axis, len(source.shape)) for axis in axes]
    turns = [(axis, int(number) % source.shape[axis]) for axis, number in zip(places, numbers, strict=True)]
    return [turn for turn in turns if turn[1]]


def _rolled(plan: PlanWriter, source: TensorSpec, turns: Turns, wanted: TensorSpec) -> Held:
    """In shards where these are whole, else in DRAM; at the end it goes where it is wanted."""
    first, pages = Held(-1, source), Held(-1, source)
    if source.shard is None or not turns:
        held = _rolled_pages(plan, first, turns)
    elif not isinstance(source.shard, Shard):
        raise NoRuleError("a roll of shards of many dimensions")
    elif not _is_rolled_in_place(source):
        pages = applied(plan, to_memory_config, first, DRAM)
        held = _rolled_pages(plan, pages, turns)
    else:
        held = _rolled_shards(plan, first, turns)
    last = replaced(plan, held, applied(plan, to_memory_config, held, wanted.memory, wanted.shard))
    plan.free(pages.slot)
    return last


def _is_rolled_in_place(source: TensorSpec) -> bool:
    """No shard is cut short, and no tile."""
    assert isinstance(source.shard, Shard)
    is_padded = source.is_tiled and source.padded != source.shape
    return has_whole_shards(source) and not has_longer_rows(source) and not is_padded


def _rolled_shards(plan: PlanWriter, held: Held, turns: Turns) -> Held:
    """Whole tiles change their places; within tiles rows do."""
    source, rank = held.spec, len(held.spec.shape)
    if source.is_tiled and any(shift % 32 for axis, shift in turns if axis >= rank - 2):
        rows = applied(plan, untilize_by_name, held, source.memory, source.shard)
        rolled = _rolled_shards(plan, rows, turns)
        tiles = applied(plan, tilize_by_name, rolled, source.memory, source.shard, dtype=source.dtype.name)
        plan.free(rolled.slot, rows.slot)
        return tiles
    keep = held.slot
    for axis, shift in turns:
        held = replaced(plan, held, Held(_roll_shards(plan, held.spec, axis, shift), held.spec), keep=keep)
    return held


def _roll_shards(plan: PlanWriter, spec: TensorSpec, axis: int, shift: int) -> int:
    """Two rows wait on their way between cores; out of DRAM come whole shards, of rows two to make a third from."""
    shard, is_tiled = spec.shard, spec.is_tiled
    assert isinstance(shard, Shard)
    slot = plan.allocate(spec)
    if len(shard.ranges) > 1:
        plan.refuse("Native sharded roll requires a single contiguous rectangular CoreRange")
    row = shard.width // 32 * spec.tile_bytes if is_tiled else aligned_page(plan, spec)
    whole = (shard.height // 32 if is_tiled else shard.height) * row
    pieces = _pieces(spec, shard, axis, shift)
    each, besides = (9, 1) if not spec.memory.in_dram else (7, 3 if is_tiled else 8)
    if besides + each * pieces > _MOST_ARGUMENTS:
        plan.refuse(f"Native sharded roll: too many copy segments per core ({pieces}). Reduce grid/shape.")
    if not spec.memory.in_dram:
        plan.launch([2 * (row + 2 * plan.memory_map.architecture.l1_alignment_bytes)], CIRCULAR)
    else:
        plan.launch([whole] if is_tiled else [whole] * 3, CIRCULAR)
    return slot


def _pieces(spec: TensorSpec, shard: Shard, axis: int, shift: int) -> int:
    """Runs of rows (of tiles) that a shard is put together from, at most; along a row they are never many."""
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


def _rolled_pages(plan: PlanWriter, held: Held, turns: Turns) -> Held:
    """For each dimension the tail is put before the head, in DRAM."""
    keep = held.slot
    for axis, shift in turns:
        size = held.spec.shape[axis]
        held = replaced(plan, held, _tail_first(plan, held.spec, axis, size - shift), keep=keep)
    return held


def _tail_first(plan: PlanWriter, spec: TensorSpec, axis: int, at: int) -> Held:
    steps = [1] * len(spec.shape)
    start, middle, end = [0] * len(spec.shape), list(spec.shape), list(spec.shape)
    middle[axis] = at
    begin = list(start)
    begin[axis] = at
    tail_slot, tail = cut(plan, spec, begin, end, steps, spec)
    head_slot, head = cut(plan, spec, start, middle, steps, spec)
    slot, whole = join(plan, [tail, head], axis, replace(head, memory=DRAM, shape=spec.shape))
    plan.free(tail_slot, head_slot)
    return Held(slot, whole)


RECORDS = (
    record_of(
        write_call("roll", [EXAMPLE_TENSOR], [1], [2]),
        roll,
        *(Argument("shifts", 0), Argument("dim", 1, None)),
        takes_shards=True,
    ),
)
