# SPDX-License-Identifier: Apache-2.0
"""Concat and stack."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT16, DRAM, FLOAT32, L1, UINT8
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, record_of, write_call
from ttmem.twin.operations.elementwise import OWN_KERNELS, double_buffered_rows, double_buffered_tiles, result_like
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.permute import swap_last_two
from ttmem.twin.operations.plan import Call, NoRuleError, Plan, PlanWriter, dimension
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.reshape import reshaped, unsqueeze
from ttmem.twin.operations.tensor_handle import Held, applied
from ttmem.twin.operations.to_layout import in_layout, tilize, untilize_by_rows
from ttmem.twin.placement import place
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import TILE, CoreRange, InvalidSpecError, Shard, TensorSpec

_UNSIGNED = 1 << 32
_MOST_AT_ONCE = 47
"""More are joined in parts, and the parts with each other."""


def concat(call: Call, plan: PlanWriter) -> Plan:
    """The result goes to DRAM unless the caller says otherwise, whatever the inputs."""
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
        return plan.give_up("concat of different layouts or data types")
    result = replace(result_like(first, call.memory or DRAM), shape=_joined_shape(call.inputs, axis))
    if any(spec.shard is not None for spec in call.inputs):
        joined = _join_shards(plan, [Held(-place - 1, spec) for place, spec in enumerate(call.inputs)], axis, result)
        return plan.finish(joined.slot, joined.spec)
    slot, result = join(plan, call.inputs, axis, result)
    return plan.finish(slot, result)


def _join_shards(plan: PlanWriter, held: Sequence[Held], axis: int, result: TensorSpec) -> Held:
    """Shards of L1 that no kernel joins along this dimension are made pages first where the result goes, and whatever
    comes with them; so are rows that are cut, next to anything in DRAM. Shards of one kind are read where they lie in
    DRAM.
    """
    specs = [one.spec for one in held]
    first = specs[0].shard
    if _is_padded(specs, axis, result) or not isinstance(first, Shard):
        raise NoRuleError("padded tiles in shards, or shards behind pages, that are joined")
    is_in_dram = any(spec.memory is DRAM for spec in specs)
    if is_in_dram and result.memory is L1:
        raise NoRuleError("shards that are joined in L1 with what lies in DRAM")
    if not is_in_dram and axis in _dimensions_of_kernels(first, len(result.shape)):
        raise NoRuleError(OWN_KERNELS)
    if not is_in_dram or (not result.is_tiled and first.kind != "height"):
        held = [applied(plan, to_memory_config, one, result.memory) for one in held]
    elif any(_kind_and_cores(spec) != _kind_and_cores(specs[0]) for spec in specs):
        raise NoRuleError("shards of several kinds that are joined in DRAM")
    pages = [one.spec for one in held]
    if axis == len(result.shape) - 1 and _have_unaligned_rows(plan, [*specs, *pages], _row_elements):
        raise NoRuleError("rows in shards that are joined by way of transposes")
    slot, whole = join(plan, pages, axis, result)
    plan.free(*(one.slot for one in held))
    return Held(slot, whole)


def _kind_and_cores(spec: TensorSpec) -> tuple[str, tuple[CoreRange, ...]] | None:
    return (spec.shard.kind, spec.shard.ranges) if isinstance(spec.shard, Shard) else None


def _dimensions_of_kernels(shard: Shard, rank: int) -> tuple[int, ...]:
    """Along which shards are joined where they lie."""
    return {"height": (rank - 1,), "width": (rank - 2,), "block": (rank - 2, rank - 1)}[shard.kind]


def _joined_shape(specs: Sequence[TensorSpec], axis: int) -> tuple[int, ...]:
    shape = list(specs[0].shape)
    shape[axis] = sum(spec.shape[axis] for spec in specs)
    return tuple(shape)


def join(plan: PlanWriter, specs: Sequence[TensorSpec], axis: int, result: TensorSpec) -> tuple[int, TensorSpec]:
    """Interleaved tensors of one kind. Tiles with padding in the middle cannot be joined: where no kernel shifts them
    they are rows for the time being, and block floats come back as bfloat16.
    """
    if not _is_padded(specs, axis, result):
        left_over: list[int] = []
        slot, result = _join(plan, specs, axis, result, left_over)
        plan.free(*left_over)
        return slot, result
    if axis == len(result.shape) - 1 and len(result.shape) > 1 and result.dtype in (BFLOAT16, FLOAT32):
        if len(specs) > _MOST_AT_ONCE:
            raise NoRuleError("many tiles with padding side by side")
        tile = result.tile_bytes
        before, after = (tile * sum(_stored(spec)[-1] // 32 for spec in group) for group in (specs, [result]))
        taken = place(result, plan.memory_map).taken_bytes_per_bank if result.memory is L1 else 0
        if 3 * (before + after) <= plan.l1_space() - taken:
            slot = plan.allocate(result)
            plan.launch([2 * before, before, after, 2 * after], CIRCULAR)
            return slot, result
    rows = [in_layout(spec, tiled=False) for spec in specs]
    # The library asks the tiles too whether their rows are aligned, and of a single row it takes the tile's height.
    forced = axis == len(result.shape) - 1 and _have_unaligned_rows(plan, specs, lambda spec: _padded(spec)[axis])
    if forced and len(result.shape) == 1 and not _have_unaligned_rows(plan, rows, _row_elements):
        raise InvalidSpecError(
            "Index is out of bounds for the rank, should be between 0 and 0 however is 18446744073709551615"
        )
    slots = [untilize_by_rows(plan, spec, row, ahead=False) for spec, row in zip(specs, rows, strict=True)]
    whole = in_layout(result, tiled=False)
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
    return len(result.shape) == 1 or any(spec.shape[axis] != _stored(spec)[axis] for spec in specs)


def _padded(spec: TensorSpec) -> tuple[int, ...]:
    return spec.padded


def _stored(spec: TensorSpec) -> tuple[int, ...]:
    """As long as the shape."""
    padded = _padded(spec)
    return padded[len(padded) - len(spec.shape) :]


def _row_elements(spec: TensorSpec) -> int:
    return _padded(spec)[-1]


def _have_unaligned_rows(plan: PlanWriter, specs: Sequence[TensorSpec], elements: Callable[[TensorSpec], int]) -> bool:
    return any(
        elements(spec) * max(spec.dtype.mantissa_bits // 8, 1) % plan.memory_map.page_alignment_bytes(spec.memory)
        for spec in specs
    )


def _join(
    plan: PlanWriter,
    specs: Sequence[TensorSpec],
    axis: int,
    result: TensorSpec,
    left_over: list[int],
    sources: list[int] | None = None,
    *,
    transposes: bool = False,
) -> tuple[int, TensorSpec]:
    """One program; along the last dimension, where a row is not a multiple of the alignment, between two transposes.

    The library measures rows even of tiles: bfloat8_b on Blackhole may fail this too.
    ``left_over`` gets what is to be freed at the end; ``sources`` that are not needed after the transposes are freed,
    and taken from the list.
    """
    is_last = axis == len(result.shape) - 1
    unaligned = transposes or (is_last and _have_unaligned_rows(plan, specs, _row_elements))
    if not unaligned:
        return _joined_at_once(plan, specs, axis, result), result
    pairs = [(replace(spec, shape=(1, *spec.shape)) if len(spec.shape) == 1 else spec) for spec in specs]
    swapped = [swap_last_two(plan, spec, spec) for spec in pairs]
    if sources is not None:
        plan.free(*(source for source, (slot, _) in zip(sources, swapped, strict=True) if slot > 0))
        sources[:] = [source for source, (slot, _) in zip(sources, swapped, strict=True) if slot <= 0]
    upright = [spec for _, spec in swapped]
    long = replace(upright[0], memory=result.memory, shape=_joined_shape(upright, len(upright[0].shape) - 2))
    joined = _joined_at_once(plan, upright, len(upright[0].shape) - 2, long)
    slot, turned = swap_last_two(plan, long, long)
    left_over += [joined] * (slot > 0) + [made for made, _ in swapped]
    return slot if slot > 0 else joined, replace(turned, shape=result.shape)


def _joined_at_once(plan: PlanWriter, specs: Sequence[TensorSpec], axis: int, result: TensorSpec) -> int:
    """One program; of many tensors one for each part, and one for the parts."""
    parts = [specs[begin : begin + _MOST_AT_ONCE] for begin in range(0, len(specs), _MOST_AT_ONCE)]
    made: list[int] = []
    if len(parts) > 1:
        wholes = [replace(result, shape=_joined_shape(part, axis)) for part in parts]
        if len(parts[-1]) == 1 and parts[-1][0].memory is not result.memory:
            raise NoRuleError("a last tensor of many that is copied before it is joined")
        joined = zip(parts, wholes, strict=True)
        made = [_joined_at_once(plan, part, axis, whole) for part, whole in joined if len(part) > 1]
        specs = wholes
    slot = plan.allocate(result)
    plan.launch(_join_buffers(plan, specs[0], result))
    plan.free(*made)
    return slot


def _join_buffers(plan: PlanWriter, first: TensorSpec, result: TensorSpec) -> list[int]:
    """Two pages; of rows that would fill half of L1 so only one. (A base above the middle bounds nothing: the library
    takes the difference without a sign.)
    """
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


def stack(call: Call, plan: PlanWriter) -> Plan:
    """Each tensor gets a dimension of size 1, along which they are joined."""
    first = call.inputs[0]
    if any(spec.shape != first.shape for spec in call.inputs):
        raise BadInputError("All tensors must have the same shape to be stacked")
    axis = dimension(call.arguments["dim"], len(first.shape), new=1)
    shape = (*first.shape[:axis], 1, *first.shape[axis:])
    if any(spec != replace(first, memory=spec.memory, shard=spec.shard) for spec in call.inputs):
        return plan.give_up("stack of tensors of different kinds")
    if any(spec.shard is not None for spec in call.inputs):
        return _stack_shards(call, plan, axis)
    made = [reshaped(plan, spec, replace(spec, shape=shape)) for spec in call.inputs]
    specs = [replace(spec, shape=shape) for spec in call.inputs]
    result = replace(result_like(first, call.memory or DRAM), shape=_joined_shape(specs, axis))
    slot, result = join(plan, specs, axis, result)
    plan.free(*made)
    return plan.finish(slot, result)


def _stack_shards(call: Call, plan: PlanWriter, axis: int) -> Plan:
    made = [applied(plan, unsqueeze, Held(-place - 1, spec), dim=axis) for place, spec in enumerate(call.inputs)]
    shape = _joined_shape([one.spec for one in made], axis)
    result = replace(result_like(call.inputs[0], call.memory or DRAM), shape=shape)
    joined = _join_shards(plan, made, axis, result)
    plan.free(*(one.slot for one in made))
    return plan.finish(joined.slot, joined.spec)


RECORDS = (
    record_of(
        write_call("concat", [EXAMPLE_TENSOR] * 2, -1, as_list=True),
        concat,
        Argument("dim", 0, 0),
        is_drawn_odd=True,
    ),
    record_of(
        write_call("stack", [EXAMPLE_TENSOR] * 2, 0, as_list=True),
        stack,
        Argument("dim", 0),
        is_drawn_odd=True,
    ),
)
