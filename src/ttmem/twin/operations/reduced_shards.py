# SPDX-License-Identifier: Apache-2.0
"""Where reductions leave their results: in pages, or in shards that are cut anew for the cores of the wanted ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import lcm, prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT8_B, BFLOAT16, FLOAT32, INT32, L1, UINT32, Memory
from ttmem.twin.operations.elementwise import (
    dtype_name,
    fill_in_place,
    fill_padding,
    has_tile_padding,
    one_to_one,
    typecast,
)
from ttmem.twin.operations.plan import Call, PlanBuilder, TensorHandle, apply, replace_handle
from ttmem.twin.operations.reshape import reshape
from ttmem.twin.placement import compute_paging
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
    paging, grid = compute_paging(spec), shard.ranges[0]
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


def check_cores(plan: PlanBuilder, spec: TensorSpec, name: str, label: str, units: int) -> None:
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


def in_shape(plan: PlanBuilder, held: TensorHandle, shape: tuple[int, ...]) -> TensorHandle:
    """Under its last shape."""
    return apply(plan, reshape, held, shape=shape)


def filled(plan: PlanBuilder, source: TensorSpec) -> TensorHandle:
    """The input with the unused part of its last tiles filled, as `fill_padding`, be it in shards or not."""
    if source.shard is None or not has_tile_padding(source):
        return TensorHandle(fill_padding(plan, source), source)
    first = TensorHandle(-1, source)
    plain = apply(plan, typecast, first, dtype=BFLOAT16.name) if source.dtype.is_block_float else first
    if source.memory is L1 and (slices := prod(source.shape[:-2])) > 1:
        plan.refuse(f"FillPadL1ShardedProgramFactory: N_slices > 1 not yet supported (got {slices})")
    fill_in_place(plan, plain.spec)
    if plain is first:
        return first
    return replace_handle(plan, plain, apply(plan, typecast, plain, dtype=source.dtype.name))


def is_reduced_in_place(source: TensorSpec, result: TensorSpec, kind: str) -> bool:
    """Whether each core reduces its own shard: rows of height shards that all cores have, columns of width
    shards."""
    one, two = source.shard, result.shard
    if not isinstance(one, Shard) or not isinstance(two, Shard) or not source.memory is result.memory is L1:
        return False
    if one.kind != kind or two.kind != kind:
        return False
    return kind == "width" or (
        one.ranges == two.ranges and one.height * one.cores == compute_paging(source).physical_height
    )


_TILES_AT_ONCE = 4


_REDUCED_TYPES = (BFLOAT16, FLOAT32, BFLOAT8_B, UINT32, INT32)
_UNREDUCED_TYPES = (
    "Only FLOAT32, BFLOAT16, BFLOAT8_B, and UINT32 are supported for generic reduction "
    "(INT32 is supported for MAX/MIN/SUM) - got {}."
)


def check_reduced_type(plan: PlanBuilder, source: TensorSpec) -> None:
    if source.dtype not in _REDUCED_TYPES:
        plan.refuse(_UNREDUCED_TYPES.format(dtype_name(source.dtype)))


def is_negated(source: TensorSpec, name: str) -> bool:
    return name == "min" and source.dtype not in (BFLOAT16, FLOAT32, INT32)


def reduce_columns_to_minimum(
    plan: PlanBuilder, held: TensorHandle, place: Place, greatest: Callable[[TensorHandle], TensorHandle]
) -> TensorHandle:
    """Reduce columns to their minimum as the negated maximum of their negatives.

    L1 holds the negatives of a core's columns twice if there is room; otherwise two more operations negate the input
    and the result of ``greatest``.
    """
    source = held.spec
    shard = source.shard if source.memory is L1 and isinstance(source.shard, Shard) else None
    tile, tall = source.tile_bytes, source.tiles_down
    together = shard.width // 32 if shard and shard.kind == "width" else _count_columns_per_batch(plan, source)
    if 2 * tall * together * tile > plan.l1_space():
        return _negate_input_and_result(plan, held, greatest)
    result = place.holds(replace(source, shape=(*source.shape[:-2], 1, source.shape[-1])))
    slot = plan.allocate(result)
    check_reduced_type(plan, source)
    in_place = is_reduced_in_place(source, result, "width")
    if not in_place:
        together = _count_columns_per_batch(plan, source)
    streams = [2 * tile] if in_place else [_TILES_AT_ONCE * tile] * 2
    kept = tall * together * tile

    def sizes() -> list[list[int]]:
        if 2 * kept > (left := plan.l1_space()):
            plan.refuse(
                f"Negate H reduce: cb_acc + cb_ineg ({2 * kept} B for {tall * together} tiles) would not fit in "
                f"available L1 ({left} B). Caller must use h_reduce_negate_fits_in_l1 to choose the external-negate "
                "fallback."
            )
        return [[*streams, BFLOAT16.tile_bytes(), kept, kept]]

    plan.launch_kept(("least of columns", _reshape_to_rank_4(source), _reshape_to_rank_4(result)), sizes)
    return TensorHandle(slot, result)


def _count_columns_per_batch(plan: PlanBuilder, source: TensorSpec) -> int:
    """Return the smallest number of tile columns that divides the share of every core."""
    each, more = divmod(prod(source.shape[:-2]) * source.tiles_across, plan.memory_map.grid.cores)
    return lcm(each or 1, each + 1) if more and each else max(each, 1)


def _reshape_to_rank_4(spec: TensorSpec) -> TensorSpec:
    """Return the spec with four dimensions, as the library reduces it."""
    *outer, height, width = spec.shape
    lead = [1] * (2 - len(outer)) + outer
    return replace(spec, shape=(prod(lead[:-1]), lead[-1], height, width))


def _negate_input_and_result(
    plan: PlanBuilder, held: TensorHandle, greatest: Callable[[TensorHandle], TensorHandle]
) -> TensorHandle:
    before = _negate(plan, held.spec, held.spec)
    found = greatest(before)
    result = _negate(plan, found.spec, found.spec)
    plan.free(found.slot, before.slot)
    return result


def _negate(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> TensorHandle:
    if not source.dtype.is_float:
        plan.allocate(result)
        plan.refuse(f"Unary: UnaryOpType::NEG does not support integer input dtype {dtype_name(source.dtype)}")
    ((slot, spec),) = one_to_one(plan, source, result).results
    return TensorHandle(slot, spec)
