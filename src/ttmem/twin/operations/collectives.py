# SPDX-License-Identifier: Apache-2.0
"""Collectives of a mesh: all_gather, reduce_scatter, all_reduce and all_broadcast. Figures are those of one chip."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ttmem.base.arithmetic import ceil_div
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT8_B, BFLOAT16, DRAM, FLOAT32, UINT8, MemoryMap
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.collective_programs import (
    LINEAR,
    PAIR,
    RING,
    Line,
    choose_lines,
    compute_batch_bytes,
    fit_packet,
    gather,
    is_linear,
    make_semaphore,
    scatter,
)
from ttmem.twin.operations.composite_collectives import (
    check_result_memory,
    copy_everywhere,
    gather_by_copies,
    scatter_in_parts,
    sum_copies,
)
from ttmem.twin.operations.elementwise import result_spec
from ttmem.twin.operations.memory_config import sharded_to_interleaved, to_memory_config
from ttmem.twin.operations.plan import Call, NoRuleError, Plan, PlanBuilder, PlanFunction, TensorHandle, dimension
from ttmem.twin.operations.record import Argument, OperationRecord, Step
from ttmem.twin.placement import compute_paging, place
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import ROW_MAJOR, CoreRange, InvalidSpecError, Shard, TensorSpec

_INPUT = -1
_WRITES_OF_BYTES = 16
"""Parts of rows are written to addresses that are multiples of this."""


def resize(spec: TensorSpec, axis: int, size: int) -> TensorSpec:
    return replace(spec, shape=(*spec.shape[:axis], size, *spec.shape[axis + 1 :]))


def all_gather(call: Call, plan: PlanBuilder) -> Plan:
    source = call.inputs[0]
    axis = dimension(call.arguments["dim"], len(source.shape))
    # The library ignores all other (deprecated) arguments.
    lines = choose_lines(plan, {"cluster_axis": call.arguments["cluster_axis"]})
    made = _gather(plan, TensorHandle(_INPUT, source), result_spec(call, source), lines, axis, call.memory is not None)
    return plan.finish(made.slot, made.spec)


def _gather(
    plan: PlanBuilder, source: TensorHandle, like: TensorSpec, lines: list[Line], axis: int, says_where: bool
) -> TensorHandle:
    chips = 1
    for line in lines:
        chips *= line.chips
    result = resize(like, axis, source.spec.shape[axis] * chips)
    if _has_pages_in_place(plan.memory_map, source.spec, result, axis, chips):
        if len(lines) > 1:
            plan.allocate(result)
            plan.refuse("1D fabric on a 2D mesh_device requires cluster_axis to be set")
        return gather(plan, source.spec, result, lines[0], axis)
    by_default = [line.by_default for line in lines]
    return gather_by_copies(plan, source, result, by_default, axis, says_where=says_where)


def _has_pages_in_place(memory_map: MemoryMap, source: TensorSpec, result: TensorSpec, axis: int, chips: int) -> bool:
    """Return whether pages keep their form at their final address: no padding between them, equal alignment."""
    before = compute_paging(source)
    padded = before.padded_shape[-len(source.shape) :]
    if padded[axis] != source.shape[axis]:
        return False
    place(result, memory_map)
    after = compute_paging(result)
    if after.padded_shape[-len(source.shape) :] != (*padded[:axis], padded[axis] * chips, *padded[axis + 1 :]):
        return False
    page, wanted = before.page_bytes, after.page_bytes
    aligned, room = (place(spec, memory_map).aligned_page_bytes for spec in (source, result))
    if max(page, wanted) % min(page, wanted) or (page != wanted and page != aligned):
        return False
    return wanted % _WRITES_OF_BYTES == 0 if page > wanted else room >= aligned


def all_broadcast(call: Call, plan: PlanBuilder) -> Plan:
    """Copy each chip's tensor to all chips."""
    source = call.inputs[0]
    lines = choose_lines(plan, call.arguments)
    if not is_linear(call.arguments):
        if any(line.chips > PAIR and not line.is_ring for line in lines):
            raise NoRuleError("a ring across a two-dimensional mesh")
        lines = [replace(line, is_ring=True) for line in lines]  # its own program also for two chips
    made = copy_everywhere(plan, TensorHandle(_INPUT, source), result_spec(call, source), lines)
    return plan.finish_all([(copy.slot, copy.spec) for copy in made])


def reduce_scatter(call: Call, plan: PlanBuilder) -> Plan:
    source = call.inputs[0]
    axis = dimension(call.arguments["dim"], len(source.shape))
    held = TensorHandle(_INPUT, source)
    for line in choose_lines(plan, call.arguments, uses_all_links=True):
        before, like = held, replace(call, inputs=(held.spec,))
        held = scatter_tiles(plan, held, result_spec(like, held.spec), line, axis)
        plan.free(before.slot)
    return plan.finish(held.slot, held.spec)


def scatter_tiles(
    plan: PlanBuilder,
    source: TensorHandle,
    like: TensorSpec,
    line: Line,
    axis: int,
    by: Callable[..., TensorHandle] = scatter,
    *,
    says_where: bool = True,
) -> TensorHandle:
    """Reduce and scatter with the program ``by``; sizes that do not divide evenly are split into parts or refused."""
    spec, is_tiled = source.spec, source.spec.is_tiled
    size = spec.shape[axis]
    result = resize(like, axis, size // line.chips)
    is_within_tiles = is_tiled and axis >= len(spec.shape) - 2
    if size % line.chips == 0 and (not is_tiled or (is_within_tiles and result.shape[axis] % 32)):
        check_result_memory(spec, says_where=says_where)
        return scatter_in_parts(plan, source, result, line, axis)
    if not is_tiled:
        raise NoRuleError("row-major sums along a dimension that does not divide evenly")
    if by is scatter:
        compute_paging(result)  # an invalid result is refused first
    if is_within_tiles and ceil_div(size, 32) % line.chips:
        raise InvalidSpecError(f"Number of tiles at dimension {axis} must be divisible by ring_size")
    if not is_within_tiles and size % line.chips:
        if by is not scatter and size < line.chips:
            raise NoRuleError("fewer sums than chips, which crashes the library")
        raise InvalidSpecError(f"Dimension {axis} must be divisible by ring_size")
    if spec.dtype not in (BFLOAT16, BFLOAT8_B, FLOAT32):
        raise NoRuleError("sums of other data types")
    compute_paging(result)  # an invalid result is refused before any allocation
    return by(plan, spec, result, line, axis)


def all_reduce(call: Call, plan: PlanBuilder) -> Plan:
    """Each chip reduces its part, then all parts are gathered."""
    held = TensorHandle(_INPUT, call.inputs[0])
    for line in choose_lines(plan, call.arguments, uses_all_links=True):
        before, like = held, replace(call, inputs=(held.spec,))
        held = _reduce_line(plan, held, result_spec(like, held.spec), line)
        plan.free(before.slot)
    return plan.finish(held.slot, held.spec)


def _reduce_line(plan: PlanBuilder, source: TensorHandle, result: TensorSpec, line: Line) -> TensorHandle:
    spec, held = source.spec, source
    if spec.dtype not in (BFLOAT16, BFLOAT8_B, FLOAT32):
        raise NoRuleError("sums of other data types")
    if spec.shard is not None:
        held = plan.apply(sharded_to_interleaved, held, spec.memory, output_dtype=None)
    axis = _choose_axis(spec, line.chips)
    if not spec.is_tiled or axis is None or not _divides_in_tiles(spec, axis, line.chips):
        copying = replace(line.by_default, links=line.links)
        return sum_copies(plan, held, result, copying, was_sharded=spec.shard is not None)
    part = scatter_tiles(plan, held, result, line, axis)
    plan.free(*({held.slot} - {source.slot}))
    made = _gather(plan, part, result, [line], axis, says_where=True)
    plan.free(part.slot)
    if spec.shard is None:
        return made
    return plan.apply(to_memory_config, made, result.memory, result.shard)


def _choose_axis(spec: TensorSpec, chips: int) -> int | None:
    """Return the last dimension that divides evenly, counted in tiles."""
    padded = spec.padded_shape
    sizes = (*padded[:-2], *(size // 32 for size in padded[-2:])) if spec.is_tiled else padded
    return next((axis for axis in reversed(range(len(sizes))) if sizes[axis] % chips == 0), None)


def _divides_in_tiles(spec: TensorSpec, axis: int, chips: int) -> bool:
    """Return whether the dimension divides into whole tiles; otherwise copies are added."""
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
    example = format_call(name, [EXAMPLE_TENSOR], *dim)
    return build_record(example, rule, *arguments, family="collective", needs_mesh=True)


_CREATE = "ttnn.create_global_semaphore"
_OF_ONE_MODEL = ((1, 1, 32, 960), (1, 8, 32, 128), (1, 1, 32, 32))
"""Sizes whose shards have another program."""
_MOST_PLACES = 4
"""The largest number of pages in a packet."""


def all_gather_async(call: Call, plan: PlanBuilder) -> Plan:
    source = call.inputs[0]
    axis, (line,) = dimension(call.arguments["dim"], len(source.shape)), _choose_line(call, plan)
    made_here = _allocate_semaphores(call, plan)
    result = resize(result_spec(call, source), axis, source.shape[axis] * line.chips)
    held = TensorHandle(_INPUT, source)
    if not source.is_tiled or (axis >= len(source.shape) - 2 and source.shape[axis] % 32):
        copying = replace(line.by_default, links=line.links)
        made = gather_by_copies(plan, held, result, [copying], axis, says_where=call.memory is not None)
    else:
        _check_shards(source, result)
        made = TensorHandle(plan.allocate(result), result)
        tile = source.tile_bytes
        plan.launch([3 * tile * min(fit_packet(tile) // tile, _MOST_PLACES)], CIRCULAR)
    plan.free(*made_here)
    return plan.finish(made.slot, made.spec)


def reduce_scatter_async(call: Call, plan: PlanBuilder) -> Plan:
    source = call.inputs[0]
    axis, (line,) = dimension(call.arguments["dim"], len(source.shape)), _choose_line(call, plan)
    made_here = _allocate_semaphores(call, plan)
    held, says_where = TensorHandle(_INPUT, source), call.memory is not None
    program = _scatter_on_ring if line.is_ring else _scatter_on_line
    made = scatter_tiles(plan, held, result_spec(call, source), line, axis, program, says_where=says_where)
    plan.free(*made_here)
    return plan.finish(made.slot, made.spec)


def _choose_line(call: Call, plan: PlanBuilder) -> Sequence[Line]:
    if call.arguments["persistent_output_buffer"] or call.arguments["persistent_output_buffers"]:
        raise NoRuleError("results in existing buffers")
    lines = choose_lines(plan, call.arguments, uses_all_links=True)
    if len(lines) > 1:
        raise NoRuleError("a two-dimensional mesh without an axis")
    return lines


def _allocate_semaphores(call: Call, plan: PlanBuilder) -> list[int]:
    """Allocate the semaphores that are created in the arguments; they exist until the call ends."""
    given = [*(call.arguments["multi_device_global_semaphore"] or ()), call.arguments["barrier_semaphore"]]
    made = [value for value in given if isinstance(value, dict) and value.get("new") == _CREATE]
    return [plan.allocate(make_semaphore(_parse_cores(value))) for value in made]


def _parse_cores(written: dict[str, Any]) -> tuple[CoreRange, ...]:
    try:
        _, cores, _ = written["args"]
        (ranges,) = cores["args"]
        return tuple(CoreRange(*(at for corner in each["args"] for at in corner["args"])) for each in ranges)
    except (KeyError, TypeError, ValueError):
        raise NoRuleError("semaphores in another form") from None


def _check_shards(source: TensorSpec, result: TensorSpec) -> None:
    shard = source.shard
    if isinstance(shard, Shard) and shard.kind == "block" and source.memory is DRAM:
        raise BadInputError("We don't support input DRAM block sharding")
    if shard is not None and result.shard is not None and source.padded in _OF_ONE_MODEL:
        raise NoRuleError("shards of a size with its own program")


def _scatter_on_line(plan: PlanBuilder, source: TensorSpec, result: TensorSpec, line: Line, axis: int) -> TensorHandle:
    """Store the parts from both neighbours in the memory of the source, in shards of twice the height."""
    padded, cut = source.padded_shape, source.shard
    if isinstance(cut, Shard):
        cut = replace(cut, height=2 * cut.height)
    between = plan.allocate(replace(source, shape=(2 * padded[0], *padded[1:]), shard=cut))
    slot = plan.allocate(result)
    plan.launch([3 * compute_batch_bytes(source)] * 4, CIRCULAR)
    plan.free(between)
    return TensorHandle(slot, result)


def _scatter_on_ring(plan: PlanBuilder, source: TensorSpec, result: TensorSpec, line: Line, axis: int) -> TensorHandle:
    """Store received parts as pieces in DRAM, those of the last but one chip separately.

    A piece is the tiles that are added in one step. Along the first of several dimensions the parts are stored like the
    source.
    """
    paging, rank, piece = compute_paging(source), len(source.shape), compute_batch_bytes(source)
    if rank > 4:
        raise NoRuleError("sums of more than four dimensions around a ring")
    if axis == 0 and rank > 2:
        kept = [replace(source, shape=paging.padded_shape[-rank:])]
    else:
        batches, channels = (1, 1, *source.shape)[-4:-2] if rank != 3 else (1, source.shape[0])
        channels //= line.chips if axis == rank - 3 else 1
        tiles = paging.pages // line.chips // batches // channels
        pieces = batches * channels * ceil_div(tiles * source.tile_bytes, piece)
        kept = [TensorSpec((count, piece), UINT8, ROW_MAJOR, DRAM) for count in (line.chips * pieces, pieces)]
    first = plan.allocate(kept[0])
    slot = plan.allocate(result)
    rest = [plan.allocate(spec) for spec in kept[1:]]
    plan.launch([2 * piece] * 5, CIRCULAR)
    plan.free(first, *rest)
    return TensorHandle(slot, result)


def write_semaphore() -> dict[str, Any]:
    def new(name: str, *arguments: Any) -> dict[str, Any]:
        return {"new": f"ttnn.{name}", "args": list(arguments)}

    cores = new("CoreRange", new("CoreCoord", 0, 0), new("CoreCoord", 6, 6))
    return new("create_global_semaphore", {"device": True}, new("CoreRangeSet", [cores]), 0)


def write_async_call(name: str, source: Step, count: int, axis: int, **named: Any) -> list[Step]:
    buffers = f"persistent_output_buffer{'s' if count > 2 else ''}"
    given: dict[str, Any] = {
        buffers: None,
        "dim": axis,
        "multi_device_global_semaphore": [write_semaphore() for _ in range(count)],
    }
    return format_call(name, [source], **given, **named)


def _list_arguments() -> Iterable[Argument]:
    yield Argument("dim", 0)
    yield Argument("multi_device_global_semaphore", 1)
    for name in ("persistent_output_buffer", "persistent_output_buffers", "barrier_semaphore", "cluster_axis"):
        yield Argument(name, default=None)
    yield Argument("num_links", default=None, samples=(1, 1, 2))
    yield Argument("topology", default=RING, samples=({"attribute": LINEAR}, {"attribute": RING}))
    yield Argument("chunks_per_sync", default=None, samples=(2, 10))
    yield Argument("num_workers_per_link", default=None, samples=(1, 2))
    yield Argument("num_buffers_per_channel", default=None, samples=(2, 4))


_ASYNC_RECORDS = tuple(
    build_record(
        write_async_call(f"experimental.{name}", EXAMPLE_TENSOR, count, -1),
        rule,
        *_list_arguments(),
        family="collective",
        needs_mesh=True,
    )
    for name, rule, count in (
        ("all_gather_async", all_gather_async, 2),
        ("reduce_scatter_minimal_async", reduce_scatter_async, 3),
    )
)

RECORDS = (
    _record("all_gather", all_gather, _DIM, _AXIS, _LINKS, _TOPOLOGY, _SMALL, *_TUNING),
    _record("reduce_scatter", reduce_scatter, _DIM, _AXIS, _LINKS, _TOPOLOGY, _SMALL, *_TUNING),
    _record("all_reduce", all_reduce, _AXIS, _LINKS, _TOPOLOGY),
    _record("all_broadcast", all_broadcast, _AXIS, _LINKS, _TOPOLOGY, _SMALL),
    *_ASYNC_RECORDS,
)
