# SPDX-License-Identifier: Apache-2.0
"""Concat and stack."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT16, DRAM, FLOAT32, L1, UINT8
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import OWN_KERNELS, double_buffered_rows, double_buffered_tiles, spec_like
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.permute import swap_last_two
from ttmem.twin.operations.plan import Call, NoRuleError, Plan, PlanBuilder, TensorHandle, dimension
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.reshape import reshape_tensor, unsqueeze
from ttmem.twin.operations.to_layout import change_layout, tilize, untilize_by_rows
from ttmem.twin.placement import place
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import TILE, CoreRange, InvalidSpecError, Shard, TensorSpec

_UNSIGNED = 1 << 32
_MOST_AT_ONCE = 47
"""More tensors are concatenated in groups, and the groups with each other."""


def concat(call: Call, plan: PlanBuilder) -> Plan:
    """Plan concat; the result is in DRAM by default, whatever the inputs."""
    first, rank = call.inputs[0], len(call.inputs[0].shape)
    if len(call.inputs) == 1:
        return to_memory_config(replace(call, memory=call.memory or DRAM), plan)
    axis = dimension(call.arguments["dim"], rank)
    others = [spec.shape[:axis] + spec.shape[axis + 1 :] for spec in call.inputs]
    if any(other != others[0] or len(spec.shape) != rank for other, spec in zip(others, call.inputs, strict=True)):
        raise BadInputError(
            "All dimensions must be the same size except for the dimension along which the contenation is taking place."
        )
    if any(spec.layout is not first.layout or spec.dtype is not first.dtype for spec in call.inputs):
        return plan.unknown("concat of different layouts or data types")
    result = replace(spec_like(first, call.memory or DRAM), shape=_join_shapes(call.inputs, axis))
    if any(spec.shard is not None for spec in call.inputs):
        joined = _join_shards(
            plan, [TensorHandle(-place - 1, spec) for place, spec in enumerate(call.inputs)], axis, result
        )
        return plan.finish(joined.slot, joined.spec)
    slot, result = join(plan, call.inputs, axis, result)
    return plan.finish(slot, result)


def _join_shards(plan: PlanBuilder, held: Sequence[TensorHandle], axis: int, result: TensorSpec) -> TensorHandle:
    """Plan sharded inputs.

    L1 shards that no kernel joins along this dimension become interleaved in the result's memory first, with all other
    inputs; so do row-major shards next to anything in DRAM. DRAM shards of one kind are read in place.
    """
    specs = [one.spec for one in held]
    first = specs[0].shard
    if _is_padded(specs, axis, result) or not isinstance(first, Shard):
        raise NoRuleError("concat of padded tiles in shards, or of shards after an interleaved tensor")
    is_in_dram = any(spec.memory is DRAM for spec in specs)
    if is_in_dram and result.memory is L1:
        raise NoRuleError("concat of L1 shards and DRAM tensors in L1")
    if not is_in_dram and axis in _list_kernel_dimensions(first, len(result.shape)):
        raise NoRuleError(OWN_KERNELS)
    if not is_in_dram or (not result.is_tiled and first.kind != "height"):
        held = [plan.apply(to_memory_config, one, result.memory) for one in held]
    elif any(_kind_and_cores(spec) != _kind_and_cores(specs[0]) for spec in specs):
        raise NoRuleError("concat of DRAM shards of several kinds")
    pages = [one.spec for one in held]
    if axis == len(result.shape) - 1 and _have_unaligned_rows(plan, [*specs, *pages], _row_elements):
        raise NoRuleError("concat of unaligned row-major shards through transposes")
    slot, whole = join(plan, pages, axis, result)
    plan.free(*(one.slot for one in held))
    return TensorHandle(slot, whole)


def _kind_and_cores(spec: TensorSpec) -> tuple[str, tuple[CoreRange, ...]] | None:
    return (spec.shard.kind, spec.shard.ranges) if isinstance(spec.shard, Shard) else None


def _list_kernel_dimensions(shard: Shard, rank: int) -> tuple[int, ...]:
    """Return the dimensions along which a kernel joins shards in place."""
    return {"height": (rank - 1,), "width": (rank - 2,), "block": (rank - 2, rank - 1)}[shard.kind]


def _join_shapes(specs: Sequence[TensorSpec], axis: int) -> tuple[int, ...]:
    shape = list(specs[0].shape)
    shape[axis] = sum(spec.shape[axis] for spec in specs)
    return tuple(shape)


def join(plan: PlanBuilder, specs: Sequence[TensorSpec], axis: int, result: TensorSpec) -> tuple[int, TensorSpec]:
    """Plan interleaved tensors; unless a kernel shifts them, padded tiles are untilized and block floats become
    bfloat16.
    """
    if not _is_padded(specs, axis, result):
        left_over: list[int] = []
        slot, result = _join(plan, specs, axis, result, left_over)
        plan.free(*left_over)
        return slot, result
    if axis == len(result.shape) - 1 and len(result.shape) > 1 and result.dtype in (BFLOAT16, FLOAT32):
        if len(specs) > _MOST_AT_ONCE:
            raise NoRuleError("concat of many padded tiles along the last dimension")
        tile = result.tile_bytes
        before, after = (tile * sum(spec.tiles_across for spec in group) for group in (specs, [result]))
        taken = place(result, plan.memory_map).taken_bytes_per_bank if result.memory is L1 else 0
        if 3 * (before + after) <= plan.l1_space() - taken:
            slot = plan.allocate(result)
            plan.launch([2 * before, before, after, 2 * after], CIRCULAR)
            return slot, result
    rows = [change_layout(spec, tiled=False) for spec in specs]
    # The library checks the alignment of tiles too, and takes the tile's height for a single row.
    forced = axis == len(result.shape) - 1 and _have_unaligned_rows(plan, specs, lambda spec: spec.padded[axis])
    if forced and len(result.shape) == 1 and not _have_unaligned_rows(plan, rows, _row_elements):
        raise InvalidSpecError(
            "Index is out of bounds for the rank, should be between 0 and 0 however is 18446744073709551615"
        )
    slots = [untilize_by_rows(plan, spec, row, ahead=False) for spec, row in zip(specs, rows, strict=True)]
    whole = change_layout(result, tiled=False)
    left_over = []
    joined, whole = _join(plan, rows, axis, whole, left_over, slots, transposes=forced)
    tiled = replace(whole, layout=TILE)
    if tiled.dtype is UINT8:
        plan.allocate(tiled)
        raise InvalidSpecError("Can only tilize bfloat16/float32 or int32/uint32/uint16 or fp8_e4m3 tensors")
    slot = tilize(plan, whole, tiled)
    plan.free(joined, *left_over, *slots)
    return slot, tiled


def _is_padded(specs: Sequence[TensorSpec], axis: int, result: TensorSpec) -> bool:
    if not result.is_tiled:
        return False
    return len(result.shape) == 1 or any(spec.shape[axis] != spec.padded_shape[axis] for spec in specs)


def _row_elements(spec: TensorSpec) -> int:
    return spec.padded[-1]


def _have_unaligned_rows(plan: PlanBuilder, specs: Sequence[TensorSpec], elements: Callable[[TensorSpec], int]) -> bool:
    return any(
        elements(spec) * max(spec.dtype.mantissa_bits // 8, 1) % plan.memory_map.page_alignment_bytes(spec.memory)
        for spec in specs
    )


def _join(
    plan: PlanBuilder,
    specs: Sequence[TensorSpec],
    axis: int,
    result: TensorSpec,
    left_over: list[int],
    sources: list[int] | None = None,
    *,
    transposes: bool = False,
) -> tuple[int, TensorSpec]:
    """Add one program; where rows are unaligned along the last dimension, between two transposes.

    The library measures rows even of tiles, so bfloat8_b on Blackhole may be unaligned too. ``left_over`` receives the
    slots to free at the end; ``sources`` not needed after the transposes are freed and removed.
    """
    is_last = axis == len(result.shape) - 1
    unaligned = transposes or (is_last and _have_unaligned_rows(plan, specs, _row_elements))
    if not unaligned:
        return _join_in_parts(plan, specs, axis, result), result
    pairs = [(replace(spec, shape=(1, *spec.shape)) if len(spec.shape) == 1 else spec) for spec in specs]
    swapped = [swap_last_two(plan, spec, spec) for spec in pairs]
    if sources is not None:
        plan.free(*(source for source, (slot, _) in zip(sources, swapped, strict=True) if slot > 0))
        sources[:] = [source for source, (slot, _) in zip(sources, swapped, strict=True) if slot <= 0]
    upright = [spec for _, spec in swapped]
    long = replace(upright[0], memory=result.memory, shape=_join_shapes(upright, len(upright[0].shape) - 2))
    joined = _join_in_parts(plan, upright, len(upright[0].shape) - 2, long)
    slot, turned = swap_last_two(plan, long, long)
    left_over += [joined] * (slot > 0) + [made for made, _ in swapped]
    return slot if slot > 0 else joined, replace(turned, shape=result.shape)


def _join_in_parts(plan: PlanBuilder, specs: Sequence[TensorSpec], axis: int, result: TensorSpec) -> int:
    """Add one program, or one per group of tensors and one for the groups."""
    parts = [specs[begin : begin + _MOST_AT_ONCE] for begin in range(0, len(specs), _MOST_AT_ONCE)]
    made: list[int] = []
    if len(parts) > 1:
        wholes = [replace(result, shape=_join_shapes(part, axis)) for part in parts]
        if len(parts[-1]) == 1 and parts[-1][0].memory is not result.memory:
            raise NoRuleError("a last tensor of many that is copied before it is joined")
        joined = zip(parts, wholes, strict=True)
        made = [_join_in_parts(plan, part, axis, whole) for part, whole in joined if len(part) > 1]
        specs = wholes
    slot = plan.allocate(result)
    plan.launch(_list_buffers(plan, specs[0], result))
    plan.free(*made)
    return slot


def _list_buffers(plan: PlanBuilder, first: TensorSpec, result: TensorSpec) -> list[int]:
    """Return two pages, or one if two would fill half of L1 (no limit above the middle: the difference is unsigned)."""
    if result.is_tiled:
        return double_buffered_tiles(result)
    (two_rows,) = double_buffered_rows(plan, result, first, result)
    whole, base = plan.memory_map.architecture.l1_bytes_per_core, plan.memory_map.l1_base_address
    if two_rows <= (whole // 2 - base) % _UNSIGNED:
        return [two_rows]
    row, room = two_rows // 2, whole - base
    if row > room:
        plan.refuse(
            f"ttnn.concat: required DFB entry size ({row} B) exceeds per-core L1 capacity ({room} B); "
            "op cannot fit on this device."
        )
    return [row]


def stack(call: Call, plan: PlanBuilder) -> Plan:
    """Plan stack: unsqueeze each tensor and concatenate along the new dimension."""
    first = call.inputs[0]
    if any(spec.shape != first.shape for spec in call.inputs):
        raise BadInputError("All tensors must have the same shape to be stacked")
    axis = dimension(call.arguments["dim"], len(first.shape), new=1)
    shape = (*first.shape[:axis], 1, *first.shape[axis:])
    if any(spec != replace(first, memory=spec.memory, shard=spec.shard) for spec in call.inputs):
        return plan.unknown("stack of tensors with different layouts or data types")
    if any(spec.shard is not None for spec in call.inputs):
        return _stack_shards(call, plan, axis)
    made = [reshape_tensor(plan, spec, replace(spec, shape=shape)) for spec in call.inputs]
    specs = [replace(spec, shape=shape) for spec in call.inputs]
    result = replace(spec_like(first, call.memory or DRAM), shape=_join_shapes(specs, axis))
    slot, result = join(plan, specs, axis, result)
    plan.free(*made)
    return plan.finish(slot, result)


def _stack_shards(call: Call, plan: PlanBuilder, axis: int) -> Plan:
    made = [plan.apply(unsqueeze, TensorHandle(-place - 1, spec), dim=axis) for place, spec in enumerate(call.inputs)]
    shape = _join_shapes([one.spec for one in made], axis)
    result = replace(spec_like(call.inputs[0], call.memory or DRAM), shape=shape)
    joined = _join_shards(plan, made, axis, result)
    plan.free(*(one.slot for one in made))
    return plan.finish(joined.slot, joined.spec)


RECORDS = (
    build_record(
        format_call("concat", [EXAMPLE_TENSOR] * 2, -1, as_list=True),
        concat,
        Argument("dim", 0, 0),
        verified_low_rank_and_rare_types=True,
        verified_with_shards=False,
    ),
    build_record(
        format_call("stack", [EXAMPLE_TENSOR] * 2, 0, as_list=True),
        stack,
        Argument("dim", 0),
        verified_low_rank_and_rare_types=True,
        verified_with_shards=False,
    ),
)
