# SPDX-License-Identifier: Apache-2.0
"""The part of a tensor that each chip of a mesh keeps, and transfers between chips. Figures are those of one chip."""

from dataclasses import replace
from math import prod
from typing import Any

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import L1
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.collective_programs import (
    PAIR,
    broadcast,
    choose_lines,
    compute_largest_packet_bytes,
    keep_semaphores,
)
from ttmem.twin.operations.elementwise import compute_aligned_page_bytes, double_buffered_tiles, result_spec
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, dimension
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.slice_ import compute_row_buffers
from ttmem.twin.placement import compute_paging, place
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import InvalidSpecError, Shard, TensorSpec

_HEADER_BYTES = 192
"""The header of a packet."""
_NOT_LAUNCHED = "a program for only some chips of a mesh, which a mock cannot launch: not verified"


def mesh_partition(call: Call, plan: PlanBuilder) -> Plan:
    """Keep a different slice on each chip."""
    source, mesh, number = call.inputs[0], plan.memory_map.settings.mesh, call.arguments["cluster_axis"]
    axis = dimension(call.arguments["dim"], len(source.shape))
    chips = prod(mesh) if number is None else mesh[int(number)]
    if chips == 1:
        return plan.finish(-1, source)
    if source.shape[axis] % chips:
        raise BadInputError(f"dimension {axis} of {source.shape[axis]} for {chips} chips")
    wanted = result_spec(call, source)
    shape = (*source.shape[:axis], source.shape[axis] // chips, *source.shape[axis + 1 :])
    result = replace(wanted, shape=shape)
    rule = _slice_tiles if source.is_tiled else _slice_rows
    return rule(plan, source, axis, chips, result)


def _slice_rows(plan: PlanBuilder, source: TensorSpec, axis: int, chips: int, result: TensorSpec) -> Plan:
    """Copy height shards in place if the slices start aligned; all else passes through a few rows as long as the
    result's shards together.
    """
    kinds = [spec.shard.kind if isinstance(spec.shard, Shard) else "" for spec in (source, result)]
    is_by_height, l1_alignment = kinds == ["height", "height"], plan.memory_map.architecture.l1_alignment_bytes
    if is_by_height and (source.memory is not L1 or result.memory is not L1):
        return plan.unknown("slices per chip of row-major height shards in DRAM")
    slot = plan.allocate(result)
    for called, spec, kind in (("input", source, kinds[0]), ("output", result, kinds[1])):
        page, aligned = compute_paging(spec).page_bytes, compute_aligned_page_bytes(plan, spec)
        if kind in ("width", "block") and page != aligned:
            plan.refuse(
                f"ttnn::slice: {called} per-shard page size {page} B disagrees with the accessor's aligned page size "
                f"{aligned} B ({page} B is not a multiple of the {plan.memory_map.page_alignment_bytes(spec.memory)} B "
                "buffer alignment). Reach this op through ttnn::slice, which reshards such tensors, rather than "
                "building the program factory directly."
            )
    stored, rank = source.padded, len(source.shape)
    # A slice of the stored rows, with their padding, must fit the result's shards too.
    place(replace(result, shape=(*stored[:axis], stored[axis] // chips, *stored[axis + 1 :])), plan.memory_map)
    pages = replace(result, shape=(*result.shape[:-1], result.padded[-1]), shard=None)
    alignments = [plan.memory_map.page_alignment_bytes(spec.memory) for spec in (source, result)]

    def choose_buffers(chip: int) -> list[int]:
        begins = [stored[axis] // chips * chip if dim == axis else 0 for dim in range(rank)]
        if is_by_height and begins[-1] * source.element_bytes % l1_alignment == 0:
            return []
        return compute_row_buffers(plan, source, begins, pages, alignments)

    plan.launch_kept(
        ("mesh_partition", source, axis, chips, result), lambda: [choose_buffers(chip) for chip in range(chips)]
    )
    return plan.finish(slot, result)


def _slice_tiles(plan: PlanBuilder, source: TensorSpec, axis: int, chips: int, result: TensorSpec) -> Plan:
    """Slice tiles; each slice starts at a tile, tile padding included."""
    slot = plan.allocate(result)
    rank = len(source.shape)
    part = source.padded[-rank:][axis] // chips
    if axis >= rank - 2 and part % 32:
        side = "width" if axis == rank - 1 else "height"
        plan.refuse(f"Can only slice tilized tensor with {side} begin index aligned to tiles")
    plan.launch([*double_buffered_tiles(source), 4 * rank])
    return plan.finish(slot, result)


def broadcast_one(call: Call, plan: PlanBuilder) -> Plan:
    """Send one chip's tensor to all."""
    source, sender = call.inputs[0], str(call.arguments["sender_coord"])
    lines = choose_lines(plan, call.arguments, uses_all_links=True)
    if len(lines) > 1:
        raise BadInputError("broadcast op is only supported for a linear tensor topology shape")
    if lines[0].is_ring:
        return plan.unknown("a broadcast around a ring")
    (made,) = broadcast(plan, source, result_spec(call, source), lines[0], sender)
    return plan.finish(made.slot, made.spec)


def point_to_point(call: Call, plan: PlanBuilder) -> Plan:
    """Send a tensor to another chip in packets, which are stored in a tensor until they are unpacked."""
    source, mesh = call.inputs[0], plan.memory_map.settings.mesh
    if mesh == (1, 1) or str(call.arguments["sender_coord"]) == str(call.arguments["receiver_coord"]):
        return plan.unknown("a chip that sends to itself")
    if source.dtype.is_block_float:
        raise InvalidSpecError("datum for bfp2, bfp4, bfp8 is invalid")
    if source.shard is not None:
        raise InvalidSpecError("Point to point does not yet support sharded configs")
    alignment = plan.memory_map.architecture.l1_alignment_bytes
    if compute_paging(source).page_bytes % alignment:
        raise InvalidSpecError("Tensor page size must be 16 byte aligned")
    page, pages = round_up(compute_paging(source).page_bytes, alignment), compute_paging(source).pages
    largest = compute_largest_packet_bytes(source)
    together = min(largest // page, pages) if page <= largest else 1
    packet = page * together if page <= largest else largest
    packets = ceil_div(pages, together) if page <= largest else ceil_div(page, largest) * pages
    element = source.dtype.element_bytes or 1
    between = plan.allocate(replace(source, shape=(packets, packet // element)))
    slot = plan.allocate(source)
    coordinates = str(call.arguments["sender_coord"]), str(call.arguments["receiver_coord"])
    key = "point_to_point", source, coordinates, str(call.arguments["topology"])
    keep_semaphores(plan, 1, L1, key)
    sent, received = [2 * page, _HEADER_BYTES, packet], [_HEADER_BYTES, packet, 3 * together * page]
    plan.launch_kept(key, lambda: [received, sent], family=CIRCULAR)  # the receiver's program is checked first
    if prod(mesh) > PAIR:
        plan.estimate(_NOT_LAUNCHED)
    plan.free(between)
    return plan.finish(slot, source)


def write_coordinate(row: int, column: int) -> dict[str, Any]:
    return {"new": "ttnn.MeshCoordinate", "args": [row, column]}


_AXIS = Argument("cluster_axis", default=None)
_SENDER = Argument("sender_coord", 0)
_TOPOLOGY = Argument("topology", default=None)
RECORDS = (
    build_record(
        format_call("mesh_partition", [EXAMPLE_TENSOR], -1),
        mesh_partition,
        *(Argument("dim", 0), replace(_AXIS, position=1)),
        family="mesh transfer",
        needs_mesh=True,
    ),
    build_record(
        format_call("broadcast", [EXAMPLE_TENSOR], write_coordinate(0, 0)),
        broadcast_one,
        *(_SENDER, _AXIS, Argument("num_links", default=None), _TOPOLOGY),
        family="mesh transfer",
        needs_mesh=True,
    ),
    build_record(
        format_call("point_to_point", [EXAMPLE_TENSOR], write_coordinate(0, 0), write_coordinate(0, 1)),
        point_to_point,
        *(_SENDER, Argument("receiver_coord", 1), _TOPOLOGY),
        family="mesh transfer",
        needs_mesh=True,
        verified_with_shards=False,
    ),
)
