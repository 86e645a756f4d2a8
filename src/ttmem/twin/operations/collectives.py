# SPDX-License-Identifier: Apache-2.0
"""What the chips of a mesh do together: all_gather, reduce_scatter and their like. Figures are those of one chip."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

from ttmem.base.arithmetic import ceil_div
from ttmem.hardware import BFLOAT8_B, BFLOAT16, FLOAT32, MemoryMap
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, record_of, write_call
from ttmem.twin.operations.collective_programs import (
    LINEAR,
    PAIR,
    RING,
    Line,
    NotKnownError,
    gather,
    is_linear,
    lines_of,
    scatter,
)
from ttmem.twin.operations.composite_collectives import (
    check_place,
    copy_everywhere,
    gather_by_copies,
    scatter_in_parts,
    step,
    sum_of_copies,
)
from ttmem.twin.operations.elementwise import wanted_like
from ttmem.twin.operations.memory_config import sharded_to_interleaved, to_memory_config
from ttmem.twin.operations.plan import Call, Plan, PlanWriter, dimension
from ttmem.twin.operations.record import Argument, OperationRecord, PlanFunction
from ttmem.twin.operations.tensor_handle import Held
from ttmem.twin.paging import paging_of
from ttmem.twin.placement import place
from ttmem.twin.tensor_spec import InvalidSpecError, TensorSpec

_INPUT = -1
_WRITES_OF_BYTES = 16
"""Rows that are cut go to places that are multiples of this."""


def chain(rule: Callable[[Call, PlanWriter], Plan]) -> PlanFunction:
    """A rule that has nothing to say where one of its steps has not."""

    @wraps(rule)
    def known(call: Call, plan: PlanWriter) -> Plan:
        try:
            return rule(call, plan)
        except NotKnownError as why:
            return plan.give_up(str(why))

    return known


def resized(spec: TensorSpec, axis: int, size: int) -> TensorSpec:
    return replace(spec, shape=(*spec.shape[:axis], size, *spec.shape[axis + 1 :]))


@chain
def all_gather(call: Call, plan: PlanWriter) -> Plan:
    source = call.inputs[0]
    axis = dimension(call.arguments["dim"], len(source.shape))
    # All other arguments are of yesterday: the library does not look at them.
    lines = lines_of(plan, {"cluster_axis": call.arguments["cluster_axis"]})
    made = _gathered(plan, Held(_INPUT, source), wanted_like(call, source), lines, axis, call.memory is not None)
    return plan.finish(made.slot, made.spec)


def _gathered(plan: PlanWriter, source: Held, like: TensorSpec, lines: list[Line], axis: int, says_where: bool) -> Held:
    chips = 1
    for line in lines:
        chips *= line.chips
    result = resized(like, axis, source.spec.shape[axis] * chips)
    if _has_pages_in_place(plan.memory_map, source.spec, result, axis, chips):
        if len(lines) > 1:
            plan.allocate(result)
            plan.refuse("1D fabric on a 2D mesh_device requires cluster_axis to be set")
        return gather(plan, source.spec, result, lines[0], axis)
    by_default = [line.by_default for line in lines]
    return gather_by_copies(plan, source, result, by_default, axis, says_where=says_where)


def _has_pages_in_place(memory_map: MemoryMap, source: TensorSpec, result: TensorSpec, axis: int, chips: int) -> bool:
    """Whether pages go where they belong as they are: no padding between them, and aligned as they come."""
    before = paging_of(source)
    padded = before.padded_shape[-len(source.shape) :]
    if padded[axis] != source.shape[axis]:
        return False
    place(result, memory_map)
    after = paging_of(result)
    if after.padded_shape[-len(source.shape) :] != (*padded[:axis], padded[axis] * chips, *padded[axis + 1 :]):
        return False
    page, wanted = before.page_bytes, after.page_bytes
    aligned, room = (place(spec, memory_map).aligned_page_bytes for spec in (source, result))
    if max(page, wanted) % min(page, wanted) or (page != wanted and page != aligned):
        return False
    return wanted % _WRITES_OF_BYTES == 0 if page > wanted else room >= aligned


@chain
def all_broadcast(call: Call, plan: PlanWriter) -> Plan:
    """Every chip gets a tensor from each, itself among them."""
    source = call.inputs[0]
    lines = lines_of(plan, call.arguments)
    if not is_linear(call.arguments):
        if any(line.chips > PAIR and not line.is_ring for line in lines):
            raise NotKnownError("a ring across a mesh of two dimensions")
        lines = [replace(line, is_ring=True) for line in lines]  # a program of its own also for two chips
    made = copy_everywhere(plan, Held(_INPUT, source), wanted_like(call, source), lines)
    return plan.finish_all([(copy.slot, copy.spec) for copy in made])


@chain
def reduce_scatter(call: Call, plan: PlanWriter) -> Plan:
    source = call.inputs[0]
    axis = dimension(call.arguments["dim"], len(source.shape))
    held = Held(_INPUT, source)
    for line in lines_of(plan, call.arguments, uses_all_links=True):
        before, like = held, replace(call, inputs=(held.spec,))
        held = scattered(plan, held, wanted_like(like, held.spec), line, axis)
        plan.free(before.slot)
    return plan.finish(held.slot, held.spec)


def scattered(
    plan: PlanWriter,
    source: Held,
    like: TensorSpec,
    line: Line,
    axis: int,
    by: Callable[..., Held] = scatter,
    *,
    says_where: bool = True,
) -> Held:
    """Whole tiles are added as they are, ``by`` this program; what does not come out even is refused where it is not
    cut into parts."""
    spec, is_tiled = source.spec, source.spec.is_tiled
    size = spec.shape[axis]
    result = resized(like, axis, size // line.chips)
    is_within_tiles = is_tiled and axis >= len(spec.shape) - 2
    if size % line.chips == 0 and (not is_tiled or (is_within_tiles and result.shape[axis] % 32)):
        check_place(spec, says_where=says_where)
        return scatter_in_parts(plan, source, result, line, axis)
    if not is_tiled:
        raise NotKnownError("sums of rows along a dimension that does not come out even")
    if by is scatter:
        paging_of(result)  # a result that cannot be is refused before anything else
    if is_within_tiles and ceil_div(size, 32) % line.chips:
        raise InvalidSpecError(f"Number of tiles at dimension {axis} must be divisible by ring_size")
    if not is_within_tiles and size % line.chips:
        if by is not scatter and size < line.chips:
            raise NotKnownError("fewer sums than chips, which the library dies of")
        raise InvalidSpecError(f"Dimension {axis} must be divisible by ring_size")
    if spec.dtype not in (BFLOAT16, BFLOAT8_B, FLOAT32):
        raise NotKnownError("sums of other types")
    paging_of(result)  # a result that cannot be is refused before anything is allocated
    return by(plan, spec, result, line, axis)


@chain
def all_reduce(call: Call, plan: PlanWriter) -> Plan:
    """Each chip adds up its part, then all parts go everywhere."""
    held = Held(_INPUT, call.inputs[0])
    for line in lines_of(plan, call.arguments, uses_all_links=True):
        before, like = held, replace(call, inputs=(held.spec,))
        held = _reduced(plan, held, wanted_like(like, held.spec), line)
        plan.free(before.slot)
    return plan.finish(held.slot, held.spec)


def _reduced(plan: PlanWriter, source: Held, result: TensorSpec, line: Line) -> Held:
    spec, held = source.spec, source
    if spec.dtype not in (BFLOAT16, BFLOAT8_B, FLOAT32):
        raise NotKnownError("sums of other types")
    if spec.shard is not None:
        (held,) = step(plan, sharded_to_interleaved, [held], replace(spec, shard=None), output_dtype=None)
    axis = _axis_of_parts(spec, line.chips)
    if not spec.is_tiled or axis is None or not _divides_in_tiles(spec, axis, line.chips):
        copying = replace(line.by_default, links=line.links)
        return sum_of_copies(plan, held, result, copying, was_sharded=spec.shard is not None)
    part = scattered(plan, held, result, line, axis)
    plan.free(*({held.slot} - {source.slot}))
    made = _gathered(plan, part, result, [line], axis, says_where=True)
    plan.free(part.slot)
    if spec.shard is None:
        return made
    (placed,) = step(plan, to_memory_config, [made], result)
    return placed


def _axis_of_parts(spec: TensorSpec, chips: int) -> int | None:
    """The last dimension that comes out even, in tiles."""
    padded = spec.padded[-len(spec.shape) :]
    sizes = (*padded[:-2], *(size // 32 for size in padded[-2:])) if spec.is_tiled else padded
    return next((axis for axis in reversed(range(len(sizes))) if sizes[axis] % chips == 0), None)


def _divides_in_tiles(spec: TensorSpec, axis: int, chips: int) -> bool:
    """Neither padded there nor cut within tiles: otherwise copies are added up instead."""
    size, is_within_tiles = spec.shape[axis], axis >= len(spec.shape) - 2
    if is_within_tiles and size % 32:
        return False
    return not (size % chips == 0 and is_within_tiles and size // chips % 32)


_DIM, _AXIS = Argument("dim", 0), Argument("cluster_axis", default=None)
_LINKS = Argument("num_links", default=None, samples=(1, 1, 2))
_TOPOLOGY = Argument("topology", default=None, samples=({"attribute": LINEAR}, {"attribute": RING}))
_SMALL = Argument("use_l1_small_for_semaphores", default=False, samples=(False, True))
_TUNING = (
    Argument("chunks_per_sync", default=None, samples=(2, 10)),
    Argument("num_workers_per_link", default=None, samples=(1, 2)),
    Argument("num_buffers_per_channel", default=None, samples=(2, 4)),
)


def _record(name: str, rule: PlanFunction, *arguments: Argument) -> OperationRecord:
    dim = [-1] if _DIM in arguments else []
    example = write_call(name, [EXAMPLE_TENSOR], *dim)
    return record_of(example, rule, *arguments, family="collective", needs_mesh=True, takes_shards=True)


RECORDS = (
    _record("all_gather", all_gather, _DIM, _AXIS, _LINKS, _TOPOLOGY, _SMALL, *_TUNING),
    _record("reduce_scatter", reduce_scatter, _DIM, _AXIS, _LINKS, _TOPOLOGY, _SMALL, *_TUNING),
    _record("all_reduce", all_reduce, _AXIS, _LINKS, _TOPOLOGY),
    _record("all_broadcast", all_broadcast, _AXIS, _LINKS, _TOPOLOGY, _SMALL),
)
