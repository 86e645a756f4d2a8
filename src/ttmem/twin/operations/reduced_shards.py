# SPDX-License-Identifier: Apache-2.0
"""Where reductions leave their results: in pages, or in shards that are cut anew for the cores of the wanted ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT16, L1, Memory
from ttmem.twin.operations.elementwise import typecast
from ttmem.twin.operations.fill_and_copy import fill_in_place, fill_padding, has_tile_padding
from ttmem.twin.operations.plan import Call, PlanWriter
from ttmem.twin.operations.reshape import reshape
from ttmem.twin.operations.tensor_handle import Held, applied, replaced
from ttmem.twin.paging import paging_of
from ttmem.twin.tensor_spec import CoreRange, NdShard, Shard, TensorSpec


@dataclass(frozen=True, slots=True)
class Place:
    """What the caller says of the result, or what the input has."""

    memory: Memory
    shard: Shard | NdShard | None = None

    def holds(self, result: TensorSpec) -> TensorSpec:
        """The result there: of wanted shards only the cores count, which share its tiles evenly."""
        plain = replace(result, memory=self.memory, shard=None)
        return plain if not isinstance(self.shard, Shard) else replace(plain, shard=_shared_out(plain, self.shard))


def place_of(call: Call) -> Place:
    """Of the result: where the input is, unless the caller says something else."""
    source = call.inputs[0]
    return Place(source.memory, source.shard) if call.memory is None else Place(call.memory, call.shard)


def _shared_out(spec: TensorSpec, shard: Shard) -> Shard:
    paging, grid = paging_of(spec), shard.ranges[0]
    high, wide = paging.physical_height, paging.physical_width
    down = across = 1
    if shard.kind == "block":
        down, across = (grid.columns, grid.rows) if shard.by_column else (grid.rows, grid.columns)
    elif shard.kind == "height":
        down = shard.cores
    else:
        across = shard.cores
    part_high, part_wide = round_up(ceil_div(high, down), 32), round_up(ceil_div(wide, across), 32)
    # One shard of the whole height is taken for a width shard.
    kind = "width" if shard.kind == "height" and part_high == high else shard.kind
    return replace(shard, kind=kind, height=part_high, width=part_wide)


def check_cores(plan: PlanWriter, spec: TensorSpec, name: str, label: str, units: int) -> None:
    """Some programs want the cores of shards among their own: as many as have work, column by column."""
    if spec.shard is None:
        return
    rows, cores = plan.memory_map.grid.rows, min(units, plan.memory_map.grid.cores)
    if all(one.end_x * rows + one.end_y < cores for one in spec.shard.ranges):
        return
    full, rest = divmod(cores, rows)
    used = [CoreRange(0, 0, full - 1, rows - 1)] * bool(full) + [CoreRange(full, 0, full, rest - 1)] * bool(rest)
    plan.refuse(
        f"{name} {label} shard grid {_spell(spec.shard.ranges)} must be contained in program core grid {_spell(used)}"
    )


def _spell(ranges: Sequence[CoreRange]) -> str:
    inner = ", ".join(f"[{one.start_x}-{one.start_y} - {one.end_x}-{one.end_y}]" for one in ranges)
    return f"{{{inner}}}"


def in_shape(plan: PlanWriter, held: Held, shape: tuple[int, ...]) -> Held:
    """Under its last shape."""
    return applied(plan, reshape, held, shape=shape)


def filled(plan: PlanWriter, source: TensorSpec) -> Held:
    """The input with the unused part of its last tiles filled, as `fill_padding`, be it in shards or not."""
    if source.shard is None or not has_tile_padding(source):
        return Held(fill_padding(plan, source), source)
    first = Held(-1, source)
    plain = applied(plan, typecast, first, dtype=BFLOAT16.name) if source.dtype.is_block_float else first
    if source.memory is L1 and (slices := prod(source.shape[:-2])) > 1:
        plan.refuse(f"FillPadL1ShardedProgramFactory: N_slices > 1 not yet supported (got {slices})")
    fill_in_place(plan, plain.spec)
    if plain is first:
        return first
    return replaced(plan, plain, applied(plan, typecast, plain, dtype=source.dtype.name))


def is_reduced_in_place(source: TensorSpec, result: TensorSpec, kind: str) -> bool:
    """Whether each core reduces its own shard: rows of height shards that all cores have, columns of width
    shards."""
    one, two = source.shard, result.shard
    if not isinstance(one, Shard) or not isinstance(two, Shard) or not source.memory is result.memory is L1:
        return False
    if one.kind != kind or two.kind != kind:
        return False
    return kind == "width" or (one.ranges == two.ranges and one.height * one.cores == paging_of(source).physical_height)
