# SPDX-License-Identifier: Apache-2.0
"""The index of the largest element: argmax."""

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT16, FLOAT32, UINT32
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import dtype_name
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, TensorHandle, dimension
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.reshape import reshape
from ttmem.twin.operations.to_layout import to_layout
from ttmem.twin.placement import compute_paging
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import ROW_MAJOR, TILE, TensorSpec

_ROW_ALIGNMENT = 32
_SHORTEST_ROW_BYTES, _LONG_ROW_BYTES = 8, 1 << 17


def argmax(call: Call, plan: PlanBuilder) -> Plan:
    """Plan row-major indices: one core reads tiles, many cores share rows; outer dimensions use the registers."""
    source, rank = call.inputs[0], len(call.inputs[0].shape)
    dim, keeps = call.arguments["dim"], bool(call.arguments["keepdim"])
    if source.shard is not None:
        return plan.unknown("argmax of shards")
    if not rank:
        return plan.unknown("argmax of a single number")
    axis = rank - 1 if dim is None else dimension(dim, rank)
    shape = [1 if dim is None or place == axis else size for place, size in enumerate(source.shape)]
    memory = call.memory or source.memory
    are_floats = source.dtype in (BFLOAT16, FLOAT32)
    if axis < rank - 2 and are_floats:
        return _through_registers(call, plan, axis, tuple(shape))
    kept = shape if keeps else [] if dim is None else [*shape[:axis], *shape[axis + 1 :]]
    result = TensorSpec(tuple(kept), UINT32, ROW_MAJOR, memory)
    held = TensorHandle(-1, source)
    if not source.is_tiled and axis < rank - 1:
        if not are_floats:
            return plan.unknown("argmax of integers along other dimensions than the last")
        held = plan.apply(to_layout, held, None, layout="tile")
    slot = plan.allocate(result)
    if source.is_tiled and not are_floats:
        dtype = dtype_name(source.dtype)
        plan.refuse(f"Only BFLOAT16, FLOAT32 are supported for inputs with TILE layout, got {dtype}")
    if source.is_tiled and dim is None:
        plan.refuse("For inputs with TILE layout, dim parameter must be specified!")
    if held.spec.is_tiled:
        plan.launch([held.spec.tile_bytes, compute_paging(result).page_bytes])
    else:
        _launch_shared_rows(plan, source, result, 1 if keeps or dim is None else source.shape[-2])
    plan.free(held.slot)
    return plan.finish(slot, result)


def _through_registers(call: Call, plan: PlanBuilder, axis: int, shape: tuple[int, ...]) -> Plan:
    first = held = TensorHandle(-1, call.inputs[0])
    if not held.spec.is_tiled:
        held = first = plan.apply(to_layout, held, None, layout="tile")
    found = TensorSpec(shape, UINT32, TILE, call.memory or call.inputs[0].memory)
    slot = plan.allocate(found)
    plan.launch([2 * held.spec.tile_bytes, 2 * UINT32.tile_bytes()], CIRCULAR)
    held = TensorHandle(slot, found)
    held = plan.advance(to_layout, held, None, layout="row_major")
    if not call.arguments["keepdim"]:
        held = plan.apply(reshape, held, shape=(*shape[:axis], *shape[axis + 1 :]))
    plan.free(first.slot)
    return plan.finish(held.slot, held.spec)


def _launch_shared_rows(plan: PlanBuilder, source: TensorSpec, result: TensorSpec, results: int) -> None:
    """Launch the program in which each core reads its part of a row and the first core collects the results."""
    element = source.element_bytes
    least = plan.memory_map.page_alignment_bytes(source.memory) // 2
    parts = ceil_div(source.shape[-1], least)
    cores = min(parts, plan.memory_map.grid.cores)
    if results > 1:  # results are sent together, so fewer cores share a short row
        cores = min(cores, _cores_for_rows(source.shape[-1] * element))
    indices, values = (round_up(results * size, _ROW_ALIGNMENT) for size in (4, element))
    read = round_up(ceil_div(parts, cores) * least * element, _ROW_ALIGNMENT)
    sizes = read, indices, indices * cores, values * cores
    if results == 1:
        plan.launch(sizes)
        return
    # A cached program has room for two parts of a row: observed in the library, not explained by its source.
    plan.launch_kept(("argmax", source, result), lambda: [sizes], again=((2 * read, *sizes[1:]),))


def _cores_for_rows(row_bytes: int) -> int:
    """Return 1 for a row of 8 bytes, and twice as many cores for each row four times as long."""
    cores, most = 1, _SHORTEST_ROW_BYTES
    while row_bytes > most and most < _LONG_ROW_BYTES:
        cores, most = cores * 2, most * 4
    return cores


RECORDS = (
    build_record(
        format_call("argmax", [EXAMPLE_TENSOR], dim=-1),
        argmax,
        *(Argument("dim", default=None), Argument("keepdim", default=False)),
        verified_with_shards=False,
    ),
)
