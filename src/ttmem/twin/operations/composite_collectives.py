# SPDX-License-Identifier: Apache-2.0
"""Collectives composed of several operations because no single program does them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ttmem.hardware import BFLOAT8_B, BFLOAT16, DRAM, FLOAT32
from ttmem.twin.operations.collective_programs import Line, broadcast, scatter
from ttmem.twin.operations.concat import concat
from ttmem.twin.operations.elementwise import typecast
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.pad import pad
from ttmem.twin.operations.permute import transpose
from ttmem.twin.operations.plan import Call, NoRuleError, PlanBuilder, PlanFunction, TensorHandle
from ttmem.twin.operations.reductions import reduce
from ttmem.twin.operations.reshape import reshape
from ttmem.twin.operations.slice_ import slice_
from ttmem.twin.operations.split import split
from ttmem.twin.operations.to_layout import change_layout, tilize, to_layout, untilize_by_rows
from ttmem.twin.tensor_spec import TILE, InvalidSpecError, TensorSpec

_WHERE_TO = (
    "If input memory config is sharded, then output memory config must be provided. Defaulting the output memory "
    "config to the input sharded memory config will break the op as the input and output shapes are different."
)


def apply_to_all(
    plan: PlanBuilder,
    rule: PlanFunction,
    held: Sequence[TensorHandle],
    like: TensorSpec | None = None,
    **arguments: Any,
) -> list[TensorHandle]:
    """Add the steps of another operation on several tensors; ``like`` gives memory and shard of the result."""
    where, shard = (like.memory, like.shard) if like else (None, None)
    name = str(arguments.pop("name", ""))
    made = rule(Call(name, tuple(one.spec for one in held), arguments, where, shard=shard), plan)
    if not made.results:
        raise NoRuleError(made.note)
    return [TensorHandle(held[-slot - 1].slot if slot < 0 else slot, spec) for slot, spec in made.results]


def gather_by_copies(
    plan: PlanBuilder, source: TensorHandle, result: TensorSpec, lines: Sequence[Line], axis: int, *, says_where: bool
) -> TensorHandle:
    """Concatenate copies of all chips' tensors in DRAM; block floats with padded tiles are bfloat16 in between."""
    held, kind = source, source.spec.dtype
    check_result_memory(held.spec, says_where=says_where)
    if held.spec.shard is not None:
        pages = replace(held.spec, memory=DRAM if result.shard is not None else result.memory, shard=None)
        held = plan.apply(to_memory_config, held, pages.memory, pages.shard)
    casts = kind is BFLOAT8_B and any(size % 32 for size in (1, *held.spec.shape)[-2:])
    if casts:
        cast = plan.apply(typecast, held, dtype=BFLOAT16.name)
        held = plan.replace_tensor(held, cast, keep=source.slot)
    copies = copy_everywhere(plan, held, held.spec, lines)
    (joined,) = apply_to_all(plan, concat, copies, dim=axis)
    if casts:
        joined = plan.advance(typecast, joined, dtype=kind.name)
    if result.shard is not None:
        joined = plan.advance(to_memory_config, joined, result.memory, result.shard)
    plan.free(*(copy.slot for copy in copies), *([held.slot] if held.slot != source.slot else []))
    return joined


def copy_everywhere(
    plan: PlanBuilder, source: TensorHandle, result: TensorSpec, lines: Sequence[Line]
) -> list[TensorHandle]:
    """Copy along one axis after another: all copies of the first are copied along the second."""
    held = [source]
    for line in lines:
        made = []
        for one in held:
            made += broadcast(plan, one.spec, result, line)
            if one.slot != source.slot:
                plan.free(one.slot)
        held = made
    return held


def check_result_memory(source: TensorSpec, *, says_where: bool) -> None:
    """Check that a sharded source has an explicit result memory."""
    if source.shard is not None and not says_where:
        raise InvalidSpecError(_WHERE_TO)


def scatter_in_parts(
    plan: PlanBuilder, source: TensorHandle, result: TensorSpec, line: Line, axis: int
) -> TensorHandle:
    """Pad each chip's part to whole tiles (rows become tiles first), reduce, and slice the sum."""
    held, is_in_rows = source, not source.spec.is_tiled
    where = replace(held.spec, shard=None)
    if held.spec.shard is not None:
        where = replace(where, memory=DRAM if result.shard is not None else result.memory)
        held = plan.apply(to_memory_config, held, where.memory, where.shard)
    like = where
    if source.spec.shard is None and result.shard is None:
        where = replace(where, memory=result.memory)
    casts = not is_in_rows and held.spec.dtype is BFLOAT8_B
    if casts:
        cast = plan.apply(typecast, held, dtype=BFLOAT16.name)
        held = plan.replace_tensor(held, cast, keep=source.slot)
    parts = apply_to_all(plan, split, [held], like, split_size=result.shape[axis], dim=axis)
    if is_in_rows:
        parts = [_tilize(plan, part) for part in parts]
    first = parts[0].spec
    padding = [(0, padded - size) for padded, size in zip(first.padded_shape, first.shape, strict=True)]
    parts = [plan.advance(pad, part, padding=padding, value=0) for part in parts]
    (whole,) = apply_to_all(plan, concat, parts, dim=axis)
    tiled = replace(parts[0].spec, memory=where.memory, shard=None)
    total = scatter(plan, whole.spec, tiled, line, axis)
    if is_in_rows:
        rows = replace(change_layout(total.spec, tiled=False), shape=result.shape)
        made = TensorHandle(untilize_by_rows(plan, total.spec, rows, ahead=False), rows)
    else:
        begins, ends = [0] * len(result.shape), list(result.shape)
        made = plan.apply(slice_, total, where.memory, where.shard, begins=begins, ends=ends, steps=None)
    if casts:
        made = plan.advance(typecast, made, dtype=source.spec.dtype.name)
    if result.shard is not None:
        made = plan.advance(to_memory_config, made, result.memory, result.shard)
    plan.free(*({total.slot} - {made.slot}), whole.slot, *(part.slot for part in parts))
    plan.free(*([held.slot] if held.slot != source.slot else []))
    return made


def _tilize(plan: PlanBuilder, rows: TensorHandle) -> TensorHandle:
    tiled = change_layout(rows.spec, tiled=True)
    return plan.replace_tensor(rows, TensorHandle(tilize(plan, rows.spec, tiled, may_pad=True), tiled))


def sum_copies(
    plan: PlanBuilder, source: TensorHandle, result: TensorSpec, line: Line, *, was_sharded: bool
) -> TensorHandle:
    """Gather the tensors of all chips along a new dimension and add them; ``was_sharded``: free the source, a copy."""
    layout, kind = source.spec.layout, source.spec.dtype
    stacked = replace(source.spec, shape=(1, *source.spec.shape))
    every = replace(stacked, shape=(line.chips, *source.spec.shape), shard=None if was_sharded else result.shard)
    every = replace(every, memory=source.spec.memory if was_sharded else result.memory)
    gathered = held = gather_by_copies(plan, replace(source, spec=stacked), every, [line], 0, says_where=True)
    if layout is not TILE:
        held = plan.apply(to_layout, held, layout="tile")
    made, on_the_way = (_sum_floats if kind is FLOAT32 else _sum)(plan, held, result)
    if layout is not TILE:
        made = plan.advance(to_layout, made, layout="row_major")
    plan.free(*(slot for slot in on_the_way if slot != held.slot))
    plan.free(*({held.slot} - {gathered.slot}), gathered.slot)
    if was_sharded:
        plan.free(source.slot)
    return replace(made, spec=replace(made.spec, shape=source.spec.shape))


def _sum(plan: PlanBuilder, held: TensorHandle, result: TensorSpec) -> tuple[TensorHandle, list[int]]:
    """Sum along the first dimension and return what is freed at the end; block floats are summed as bfloat16."""
    casts = held.spec.dtype is BFLOAT8_B
    if casts:
        held = plan.apply(typecast, held, dtype=BFLOAT16.name)
    spec = replace(held.spec, shape=(1, *held.spec.shape[1:]), memory=result.memory, shard=result.shard)
    tile = spec.tile_bytes
    made = TensorHandle(plan.allocate(spec), spec)
    plan.launch([2 * tile, tile, 2 * tile])
    return plan.advance(typecast, made, dtype=BFLOAT8_B.name) if casts else made, [held.slot]


def _sum_floats(plan: PlanBuilder, held: TensorHandle, result: TensorSpec) -> tuple[TensorHandle, list[int]]:
    """Sum float32: the chips' dimension moves behind a new one and is summed there."""
    if result.shard is not None:
        raise NoRuleError("sums of float32 into shards")
    chips, *shape = held.spec.shape
    apart = plan.apply(reshape, held, shape=[chips, 1, *shape])
    moved = plan.apply(transpose, apart, dim1=0, dim2=1)
    (made,) = apply_to_all(plan, reduce, [moved], result, name="sum", dim=1, keepdim=False)
    return made, list(dict.fromkeys((moved.slot, apart.slot)))
