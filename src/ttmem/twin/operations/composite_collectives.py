# SPDX-License-Identifier: Apache-2.0
"""What the chips of a mesh do together by several operations, where no program of theirs does it at once."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ttmem.hardware import BFLOAT8_B, BFLOAT16, DRAM, FLOAT32
from ttmem.twin.operations.collective_programs import Line, NotKnownError, broadcast, scatter
from ttmem.twin.operations.concat import concat
from ttmem.twin.operations.elementwise import typecast
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.pad import pad
from ttmem.twin.operations.permute import transpose
from ttmem.twin.operations.plan import Call, PlanWriter
from ttmem.twin.operations.record import PlanFunction
from ttmem.twin.operations.reductions import reduce
from ttmem.twin.operations.reshape import reshape
from ttmem.twin.operations.slice_ import slice_
from ttmem.twin.operations.split import split
from ttmem.twin.operations.tensor_handle import Held, replaced
from ttmem.twin.operations.to_layout import in_layout, tilize, to_layout, untilize_by_rows
from ttmem.twin.tensor_spec import TILE, InvalidSpecError, TensorSpec

_WHERE_TO = (
    "If input memory config is sharded, then output memory config must be provided. Defaulting the output memory "
    "config to the input sharded memory config will break the op as the input and output shapes are different."
)


def step(
    plan: PlanWriter, rule: PlanFunction, held: Sequence[Held], like: TensorSpec | None = None, **arguments: Any
) -> list[Held]:
    """What another operation makes of tensors on the way; ``like``: where its result is to lie."""
    where, shard = (like.memory, like.shard) if like else (None, None)
    name = str(arguments.pop("name", ""))
    made = rule(Call(name, tuple(one.spec for one in held), arguments, where, shard=shard), plan)
    if not made.results:
        raise NotKnownError(made.note)
    return [Held(held[-slot - 1].slot if slot < 0 else slot, spec) for slot, spec in made.results]


def next_step(
    plan: PlanWriter, rule: PlanFunction, held: Held, like: TensorSpec | None = None, **arguments: Any
) -> Held:
    """Of one tensor, which goes when the next one is there."""
    (made,) = step(plan, rule, [held], like, **arguments)
    return replaced(plan, held, made)


def gather_by_copies(
    plan: PlanWriter, source: Held, result: TensorSpec, lines: Sequence[Line], axis: int, *, says_where: bool
) -> Held:
    """A copy of each chip's tensor, joined in DRAM. Block floats whose tiles have padding are bfloat16 meanwhile."""
    held, kind = source, source.spec.dtype
    check_place(held.spec, says_where=says_where)
    if held.spec.shard is not None:
        pages = replace(held.spec, memory=DRAM if result.shard is not None else result.memory, shard=None)
        (held,) = step(plan, to_memory_config, [held], pages)
    casts = kind is BFLOAT8_B and any(size % 32 for size in (1, *held.spec.shape)[-2:])
    if casts:
        (cast,) = step(plan, typecast, [held], dtype=BFLOAT16.name)
        held = replaced(plan, held, cast, keep=source.slot)
    copies = copy_everywhere(plan, held, held.spec, lines)
    (joined,) = step(plan, concat, copies, dim=axis)
    if casts:
        joined = next_step(plan, typecast, joined, dtype=kind.name)
    if result.shard is not None:
        joined = next_step(plan, to_memory_config, joined, result)
    plan.free(*(copy.slot for copy in copies), *([held.slot] if held.slot != source.slot else []))
    return joined


def copy_everywhere(plan: PlanWriter, source: Held, result: TensorSpec, lines: Sequence[Line]) -> list[Held]:
    """Along one axis after another: the copies of the first are what is copied along the second."""
    held = [source]
    for line in lines:
        made = []
        for one in held:
            made += broadcast(plan, one.spec, result, line)
            if one.slot != source.slot:
                plan.free(one.slot)
        held = made
    return held


def check_place(source: TensorSpec, *, says_where: bool) -> None:
    """What comes of shards has no place of its own."""
    if source.shard is not None and not says_where:
        raise InvalidSpecError(_WHERE_TO)


def scatter_in_parts(plan: PlanWriter, source: Held, result: TensorSpec, line: Line, axis: int) -> Held:
    """Each chip's part is filled up to whole tiles first, as tiles where it was rows, and cut out of the sum again."""
    held, is_in_rows = source, not source.spec.is_tiled
    where = replace(held.spec, shard=None)
    if held.spec.shard is not None:
        where = replace(where, memory=DRAM if result.shard is not None else result.memory)
        (held,) = step(plan, to_memory_config, [held], where)
    like = where
    if source.spec.shard is None and result.shard is None:
        where = replace(where, memory=result.memory)
    casts = not is_in_rows and held.spec.dtype is BFLOAT8_B
    if casts:
        (cast,) = step(plan, typecast, [held], dtype=BFLOAT16.name)
        held = replaced(plan, held, cast, keep=source.slot)
    parts = step(plan, split, [held], like, split_size=result.shape[axis], dim=axis)
    if is_in_rows:
        parts = [_tilized(plan, part) for part in parts]
    padding = [(0, size - told) for size, told in zip(_padded(parts[0].spec), parts[0].spec.shape, strict=True)]
    parts = [next_step(plan, pad, part, padding=padding, value=0) for part in parts]
    (whole,) = step(plan, concat, parts, dim=axis)
    tiled = replace(parts[0].spec, memory=where.memory, shard=None)
    total = scatter(plan, whole.spec, tiled, line, axis)
    if is_in_rows:
        rows = replace(in_layout(total.spec, tiled=False), shape=result.shape)
        made = Held(untilize_by_rows(plan, total.spec, rows, ahead=False), rows)
    else:
        begins, ends = [0] * len(result.shape), list(result.shape)
        (made,) = step(plan, slice_, [total], where, begins=begins, ends=ends, steps=None)
    if casts:
        made = next_step(plan, typecast, made, dtype=source.spec.dtype.name)
    if result.shard is not None:
        made = next_step(plan, to_memory_config, made, result)
    plan.free(*({total.slot} - {made.slot}), whole.slot, *(part.slot for part in parts))
    plan.free(*([held.slot] if held.slot != source.slot else []))
    return made


def _tilized(plan: PlanWriter, rows: Held) -> Held:
    tiled = in_layout(rows.spec, tiled=True)
    return replaced(plan, rows, Held(tilize(plan, rows.spec, tiled, may_pad=True), tiled))


def _padded(spec: TensorSpec) -> tuple[int, ...]:
    return spec.padded[-len(spec.shape) :]


def sum_of_copies(plan: PlanWriter, source: Held, result: TensorSpec, line: Line, *, was_sharded: bool) -> Held:
    """All chips' tensors, one behind the other along a new dimension, are added up by each chip. ``was_sharded``: the
    source is a copy in pages, which goes; it is gathered in pages too."""
    layout, kind = source.spec.layout, source.spec.dtype
    stacked = replace(source.spec, shape=(1, *source.spec.shape))
    every = replace(stacked, shape=(line.chips, *source.spec.shape), shard=None if was_sharded else result.shard)
    every = replace(every, memory=source.spec.memory if was_sharded else result.memory)
    gathered = held = gather_by_copies(plan, replace(source, spec=stacked), every, [line], 0, says_where=True)
    if layout is not TILE:
        (held,) = step(plan, to_layout, [held], layout="tile")
    made, on_the_way = (_sum_of_floats if kind is FLOAT32 else _sum)(plan, held, result)
    if layout is not TILE:
        made = next_step(plan, to_layout, made, layout="row_major")
    plan.free(*(slot for slot in on_the_way if slot != held.slot))
    plan.free(*({held.slot} - {gathered.slot}), gathered.slot)
    if was_sharded:
        plan.free(source.slot)
    return replace(made, spec=replace(made.spec, shape=source.spec.shape))


def _sum(plan: PlanWriter, held: Held, result: TensorSpec) -> tuple[Held, list[int]]:
    """Along the first dimension, and what is there until the end; block floats as bfloat16."""
    casts = held.spec.dtype is BFLOAT8_B
    if casts:
        (held,) = step(plan, typecast, [held], dtype=BFLOAT16.name)
    spec = replace(held.spec, shape=(1, *held.spec.shape[1:]), memory=result.memory, shard=result.shard)
    tile = spec.tile_bytes
    made = Held(plan.allocate(spec), spec)
    plan.launch([2 * tile, tile, 2 * tile])
    return next_step(plan, typecast, made, dtype=BFLOAT8_B.name) if casts else made, [held.slot]


def _sum_of_floats(plan: PlanWriter, held: Held, result: TensorSpec) -> tuple[Held, list[int]]:
    """Floats of 32 bits: the chips' dimension is moved behind a new one, and summed there."""
    if result.shard is not None:
        raise NotKnownError("sums of float32 into shards")
    chips, *shape = held.spec.shape
    (apart,) = step(plan, reshape, [held], shape=[chips, 1, *shape])
    (moved,) = step(plan, transpose, [apart], dim1=0, dim2=1)
    (made,) = step(plan, reduce, [moved], result, name="sum", dim=1, keepdim=False)
    return made, list(dict.fromkeys((moved.slot, apart.slot)))
