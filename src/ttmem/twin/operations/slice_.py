# SPDX-License-Identifier: Apache-2.0
"""Slice: a part of a tensor, tiled or row-major, interleaved or sharded."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT8_B, L1
from ttmem.twin.operations import result_shards
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import (
    OWN_KERNELS,
    describe_not_in_l1,
    double_buffered_tiles,
    has_padded_shard_rows,
    result_spec,
)
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.plan import Call, NoRuleError, Plan, PlanBuilder, TensorHandle
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.to_layout import change_layout, tilize, to_layout, untilize
from ttmem.twin.placement import compute_paging
from ttmem.twin.tensor_spec import TILE, InvalidSpecError, NdShard, Shard, TensorSpec

_MOST_READ_BYTES = 4096
"""The most bytes of short rows that are read together."""
_CHUNK_BYTES = 8192
"""The part size in bytes for rows that do not fit L1 twice."""
_BOUNDS = (("begins", "starts", "slice_start"), ("ends", "slice_end"), ("steps", "slice_step"))
"""The argument names of the overloads; the first is that of positional arguments."""


def _find_bounds(call: Call, names: tuple[str, ...]) -> Any:
    return next((call.arguments[name] for name in names if call.arguments.get(name) is not None), None)


def slice_(call: Call, plan: PlanBuilder) -> Plan:
    """Slice a tensor; the full range is the tensor itself, moved to the result's memory."""
    source, rank = call.inputs[0], len(call.inputs[0].shape)
    if not rank:
        return plan.finish(-1, source)
    begins, ends, steps = ([int(number) for number in _find_bounds(call, names) or [1] * rank] for names in _BOUNDS)
    if not len(begins) == len(ends) == len(steps) == rank:
        raise BadInputError(f"begins, ends and steps of a slice need {rank} numbers each")
    begins = [b + size if b < 0 else b for b, size in zip(begins, source.shape, strict=True)]
    ends = [e + size if e < 0 else e for e, size in zip(ends, source.shape, strict=True)]
    for size, begin, end, step in zip(source.shape, begins, ends, steps, strict=True):
        if 0 <= begin == end <= size and step > 0:
            return plan.unknown("empty slices")
        if not (0 <= begin < end <= size and step > 0):
            raise BadInputError(f"slice {begin}:{end}:{step} of a dimension of {size}")
    if set(steps) == {1} and not any(begins) and tuple(ends) == source.shape:
        return to_memory_config(call, plan)
    like = choose_slice_spec(call, begins, ends, steps)
    if like is None or isinstance(like.shard, NdShard):
        return plan.unknown(OWN_KERNELS)
    made = slice_tensor(plan, TensorHandle(-1, source), begins, ends, steps, like)
    return plan.finish(made.slot, made.spec)


def slice_tensor(
    plan: PlanBuilder,
    held: TensorHandle,
    begins: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int],
    like: TensorSpec,
) -> TensorHandle:
    """Slice a tensor; unaligned row-major shards, and those with partial tiles, are sliced in pages of L1."""
    source = held.spec
    if source.shard is None and like.shard is None:
        return TensorHandle(*cut(plan, source, begins, ends, steps, like))
    if source.is_tiled:
        if not is_tile_aligned(source, begins, steps) and (like.shard is not None or len(begins) < 2):
            raise NoRuleError("slices of sharded tiles that do not start at a tile")
        return TensorHandle(*cut(plan, source, begins, ends, steps, like))
    pages = replace(source, memory=L1, shard=None)
    leaves = _leaves_its_shards(plan, source, begins, steps, like)
    if not leaves and not _has_unaligned_result(plan, source, like):
        if has_padded_shard_rows(replace(like, shape=compute_slice_shape(begins, ends, steps))):
            raise NoRuleError("rows of a slice that are padded in their shards")
        return TensorHandle(*cut(plan, source, begins, ends, steps, like))
    rows = plan.apply(to_memory_config, held, L1) if leaves else held
    part = TensorHandle(*cut(plan, rows.spec, begins, ends, steps, pages))
    last = plan.apply(to_memory_config, part, like.memory, like.shard)
    plan.free(*{part.slot, rows.slot} - {last.slot, held.slot})
    return last


def _leaves_its_shards(
    plan: PlanBuilder, source: TensorSpec, begins: Sequence[int], steps: Sequence[int], like: TensorSpec
) -> bool:
    shard = source.shard
    if not isinstance(shard, Shard):
        return False
    if shard.kind != "height":
        return source.shape[-1] % 32 != 0 or begins[-1] != 0 or not _is_aligned(plan, source)
    stays = isinstance(like.shard, Shard) and like.shard.kind == "height" and set(steps) == {1}
    return not stays and any(size % 32 for size in source.shape[-2:])


def _has_unaligned_result(plan: PlanBuilder, source: TensorSpec, like: TensorSpec) -> bool:
    shard = like.shard
    if not isinstance(shard, Shard) or shard.kind == "height":
        return False
    return source.shape[-1] % 32 != 0 or not _is_aligned(plan, like)


def _is_aligned(plan: PlanBuilder, spec: TensorSpec) -> bool:
    width = spec.shard.width if spec.shard is not None else spec.shape[-1]
    return width * spec.element_bytes % plan.memory_map.page_alignment_bytes(spec.memory) == 0


def is_tile_aligned(source: TensorSpec, begins: Sequence[int], steps: Sequence[int]) -> bool:
    if not source.is_tiled or len(begins) < 2 or set(steps) != {1}:
        return False
    return begins[-1] % source.tile.width == 0 and begins[-2] % source.tile.height == 0


def choose_slice_spec(
    call: Call, begins: Sequence[int], ends: Sequence[int], steps: Sequence[int]
) -> TensorSpec | None:
    """Return the spec of a slice: by default in smaller shards on the input's cores. None if it is not verified."""
    source = call.inputs[0]
    if call.memory is not None or source.shard is None:
        return result_spec(call, source)
    shape = compute_slice_shape(begins, ends, steps)
    if not isinstance(source.shard, Shard) or len(shape) < 2:
        return None
    shard = result_shards.choose_slice_shard(source, shape, in_tiles=is_tile_aligned(source, begins, steps))
    return None if shard is None else replace(source, shard=shard)


def compute_slice_shape(begins: Sequence[int], ends: Sequence[int], steps: Sequence[int]) -> tuple[int, ...]:
    return tuple(ceil_div(e - b, s) for b, e, s in zip(begins, ends, steps, strict=True))


def cut(
    plan: PlanBuilder,
    source: TensorSpec,
    begins: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int],
    like: TensorSpec,
) -> tuple[int, TensorSpec]:
    """Slice a tensor into the memory of ``like``.

    A slice that starts on a tile boundary copies tiles, interleaved or sharded. Any other slice is cut from rows,
    untilized into the result's memory; block floats become bfloat16.
    """
    rank = len(source.shape)
    shape = compute_slice_shape(begins, ends, steps)
    if not source.is_tiled:
        result = replace(like, shape=shape)
        return _cut_rows(plan, source, begins, steps, result), result
    strided = set(steps) != {1}
    if is_tile_aligned(source, begins, steps):
        result = replace(like, shape=shape)
        slot = plan.allocate(result)
        plan.launch([*double_buffered_tiles(source), 4 * rank])
        return slot, result
    if strided and source.dtype is BFLOAT8_B:
        raise InvalidSpecError("Strided slice is not supported for BFLOAT8 tensors")
    all_rows = change_layout(replace(like, shape=source.shape), tiled=False)
    if source.shard is None:
        rows = untilize(plan, source, all_rows)
    else:
        rows = plan.apply(to_layout, TensorHandle(-1, source), like.memory, layout="row_major").slot
    some_rows = replace(all_rows, shape=shape)
    some = _cut_rows(plan, all_rows, begins, steps, some_rows)
    result = replace(some_rows, layout=TILE)
    slot = tilize(plan, some_rows, result)
    plan.free(some, rows)
    return slot, result


def _cut_rows(
    plan: PlanBuilder, source: TensorSpec, begins: Sequence[int], steps: Sequence[int], result: TensorSpec
) -> int:
    slot = plan.allocate(result)
    alignments = [plan.memory_map.page_alignment_bytes(spec.memory) for spec in (source, result)]
    alignment, plain = max(alignments), set(steps) == {1}
    begin_bytes = begins[-1] * source.element_bytes
    if plain and begin_bytes % plan.memory_map.architecture.l1_alignment_bytes == 0 and _is_by_height(source, result):
        for buffer, parameter, spec in (("sharded_in", "input", source), ("sharded_out", "output", result)):
            if why := describe_not_in_l1(buffer, parameter, spec):
                plan.refuse(why)
        plan.launch([])
        return slot
    if not plain:
        row = source.padded[-1] * source.element_bytes
        plan.launch([2 * round_up(row, alignment)])
        return slot
    key = "slice", source, result, tuple(begins)
    rows = replace(result, shard=None)
    plan.launch_kept(key, lambda: [compute_row_buffers(plan, source, begins, rows, alignments)])
    return slot


def _is_by_height(*specs: TensorSpec) -> bool:
    return all(isinstance(spec.shard, Shard) and spec.shard.kind == "height" for spec in specs)


def compute_row_buffers(
    plan: PlanBuilder, source: TensorSpec, begins: Sequence[int], result: TensorSpec, alignments: Sequence[int]
) -> list[int]:
    """Return the buffers for many rows at once, or for pieces of a row if L1 has no room for two rows."""
    alignment = max(alignments)
    row = compute_paging(result).page_bytes
    is_shifted = begins[-1] * source.element_bytes % alignments[0] != 0
    unit = alignment * (2 if is_shifted else 1)
    stick, space = round_up(row, unit), plan.l1_space()
    indices = 4 * len(result.shape)
    if not is_shifted and 2 * stick > space and stick > unit:
        chunk = min(_CHUNK_BYTES, space // 8) // unit * unit
        if not chunk:
            plan.refuse(f"ttnn::slice: L1 budget {space} B too small for sub-row chunking (alignment {unit} B)")
        return [4 * chunk, indices]
    if 2 * stick > space:
        shift = begins[-1] * source.element_bytes % alignments[0]
        plan.refuse(
            f"ttnn::slice: required DFB size {2 * stick} B exceeds per-core L1 budget {space} B "
            f"(row_bytes={row}, misalignment={shift}); consider slicing along a non-width dim"
        )
    rows_per_core = round_up(ceil_div(prod(result.shape[:-1]), plan.memory_map.grid.cores), 32)
    at_once = _MOST_READ_BYTES // round_up(row, alignment)
    together = max((j for j in range(1, min(at_once, rows_per_core) + 1) if rows_per_core % j == 0), default=1)
    return [2 * together * stick, indices]


RECORDS = (
    build_record(
        format_call("slice", [EXAMPLE_TENSOR], [0, 0, 32, 0], [1, 1, 64, 64]),
        slice_,
        *(Argument(names[0], place, None) for place, names in enumerate(_BOUNDS)),
        *(Argument(name, default=None) for names in _BOUNDS for name in names[1:]),
        verified_low_rank_and_rare_types=True,
    ),
)
