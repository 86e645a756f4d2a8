# SPDX-License-Identifier: Apache-2.0
"""The least of columns of types that have no such kernel: the greatest of their negatives, negated again."""

from collections.abc import Callable
from dataclasses import replace
from math import lcm, prod

from ttmem.hardware import BFLOAT8_B, BFLOAT16, FLOAT32, INT32, L1, UINT32
from ttmem.twin.operations.elementwise import one_to_one, spell_type
from ttmem.twin.operations.plan import PlanWriter
from ttmem.twin.operations.reduced_shards import Place, is_reduced_in_place
from ttmem.twin.operations.tensor_handle import Held
from ttmem.twin.tensor_spec import Shard, TensorSpec

_TILES_AT_ONCE = 4


_REDUCED_TYPES = (BFLOAT16, FLOAT32, BFLOAT8_B, UINT32, INT32)
_UNREDUCED_TYPES = (
    "Only FLOAT32, BFLOAT16, BFLOAT8_B, and UINT32 are supported for generic reduction "
    "(INT32 is supported for MAX/MIN/SUM) - got {}."
)


def check_reduced_type(plan: PlanWriter, source: TensorSpec) -> None:
    if source.dtype not in _REDUCED_TYPES:
        plan.refuse(_UNREDUCED_TYPES.format(spell_type(source.dtype)))


def is_negated(source: TensorSpec, name: str) -> bool:
    return name == "min" and source.dtype not in (BFLOAT16, FLOAT32, INT32)


def least_of_columns(plan: PlanWriter, held: Held, place: Place, greatest: Callable[[Held], Held]) -> Held:
    """Negatives of all the columns of a core are kept twice, where L1 has room for them. Where it has not, two more
    operations negate the input and what is the ``greatest`` of it.
    """
    source = held.spec
    shard = source.shard if source.memory is L1 and isinstance(source.shard, Shard) else None
    tile, tall = source.tile_bytes, source.tiles_down
    together = shard.width // 32 if shard and shard.kind == "width" else _columns_together(plan, source)
    if 2 * tall * together * tile > plan.l1_space():
        return _negated_outside(plan, held, greatest)
    result = place.holds(replace(source, shape=(*source.shape[:-2], 1, source.shape[-1])))
    slot = plan.allocate(result)
    check_reduced_type(plan, source)
    in_place = is_reduced_in_place(source, result, "width")
    if not in_place:
        together = _columns_together(plan, source)
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

    plan.launch_kept(("least of columns", _four(source), _four(result)), sizes)
    return Held(slot, result)


def _columns_together(plan: PlanWriter, source: TensorSpec) -> int:
    """So many columns of tiles are a whole number of what each core has."""
    each, more = divmod(prod(source.shape[:-2]) * source.tiles_across, plan.memory_map.grid.cores)
    return lcm(each or 1, each + 1) if more and each else max(each, 1)


def _four(spec: TensorSpec) -> TensorSpec:
    """In four dimensions, as the library reduces it."""
    *outer, height, width = spec.shape
    lead = [1] * (2 - len(outer)) + outer
    return replace(spec, shape=(prod(lead[:-1]), lead[-1], height, width))


def _negated_outside(plan: PlanWriter, held: Held, greatest: Callable[[Held], Held]) -> Held:
    before = _negative(plan, held.spec, held.spec)
    found = greatest(before)
    result = _negative(plan, found.spec, found.spec)
    plan.free(found.slot, before.slot)
    return result


def _negative(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> Held:
    if not source.dtype.is_float:
        plan.allocate(result)
        plan.refuse(f"Unary: UnaryOpType::NEG does not support integer input dtype {spell_type(source.dtype)}")
    ((slot, spec),) = one_to_one(plan, source, result).results
    return Held(slot, spec)
