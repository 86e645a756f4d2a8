# SPDX-License-Identifier: Apache-2.0
"""Collectives whose semaphores are the caller's. Figures are those of one chip."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ttmem.base.arithmetic import ceil_div
from ttmem.base.errors import BadInputError
from ttmem.hardware import DRAM, UINT8
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, record_of, write_call
from ttmem.twin.operations.collective_programs import (
    LINEAR,
    RING,
    Line,
    NotKnownError,
    lines_of,
    packets,
    semaphore,
    tiles_added_at_once,
)
from ttmem.twin.operations.collectives import chain, resized, scattered
from ttmem.twin.operations.composite_collectives import gather_by_copies
from ttmem.twin.operations.elementwise import wanted_like
from ttmem.twin.operations.plan import Call, Plan, PlanWriter, dimension
from ttmem.twin.operations.record import Argument, Step
from ttmem.twin.operations.tensor_handle import Held
from ttmem.twin.paging import paging_of
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import ROW_MAJOR, CoreRange, Shard, TensorSpec

_INPUT = -1
_CREATE = "ttnn.create_global_semaphore"
_OF_ONE_MODEL = ((1, 1, 32, 960), (1, 8, 32, 128), (1, 1, 32, 32))
"""Sizes for whose shards there is another program."""
_MOST_PLACES = 4
"""Pages of a packet go to so many places."""


@chain
def all_gather_async(call: Call, plan: PlanWriter) -> Plan:
    source = call.inputs[0]
    axis, (line,) = dimension(call.arguments["dim"], len(source.shape)), _line(call, plan)
    made_here = _made_for_the_call(call, plan)
    result = resized(wanted_like(call, source), axis, source.shape[axis] * line.chips)
    held = Held(_INPUT, source)
    if not source.is_tiled or (axis >= len(source.shape) - 2 and source.shape[axis] % 32):
        copying = replace(line.by_default, links=line.links)
        made = gather_by_copies(plan, held, result, [copying], axis, says_where=call.memory is not None)
    else:
        _check_shards(source, result)
        made = Held(plan.allocate(result), result)
        tile = source.tile_bytes
        plan.launch([3 * tile * min(packets(tile) // tile, _MOST_PLACES)], CIRCULAR)
    plan.free(*made_here)
    return plan.finish(made.slot, made.spec)


@chain
def reduce_scatter_async(call: Call, plan: PlanWriter) -> Plan:
    source = call.inputs[0]
    axis, (line,) = dimension(call.arguments["dim"], len(source.shape)), _line(call, plan)
    made_here = _made_for_the_call(call, plan)
    held, says_where = Held(_INPUT, source), call.memory is not None
    program = _scatter_around if line.is_ring else _scatter_beside
    made = scattered(plan, held, wanted_like(call, source), line, axis, program, says_where=says_where)
    plan.free(*made_here)
    return plan.finish(made.slot, made.spec)


def _line(call: Call, plan: PlanWriter) -> Sequence[Line]:
    if call.arguments["persistent_output_buffer"] or call.arguments["persistent_output_buffers"]:
        raise NotKnownError("results in buffers that are there")
    lines = lines_of(plan, call.arguments, uses_all_links=True)
    if len(lines) > 1:
        raise NotKnownError("a mesh of two dimensions without an axis")
    return lines


def _made_for_the_call(call: Call, plan: PlanWriter) -> list[int]:
    """Semaphores that are made among the arguments live as long as the call."""
    given = [*(call.arguments["multi_device_global_semaphore"] or ()), call.arguments["barrier_semaphore"]]
    made = [value for value in given if isinstance(value, dict) and value.get("new") == _CREATE]
    return [plan.allocate(semaphore(_cores_of(value))) for value in made]


def _cores_of(written: dict[str, Any]) -> tuple[CoreRange, ...]:
    try:
        _, cores, _ = written["args"]
        (ranges,) = cores["args"]
        return tuple(CoreRange(*(at for corner in each["args"] for at in corner["args"])) for each in ranges)
    except (KeyError, TypeError, ValueError):
        raise NotKnownError("semaphores that are written otherwise") from None


def _check_shards(source: TensorSpec, result: TensorSpec) -> None:
    shard = source.shard
    if isinstance(shard, Shard) and shard.kind == "block" and source.memory is DRAM:
        raise BadInputError("We don't support input DRAM block sharding")
    if shard is not None and result.shard is not None and source.padded in _OF_ONE_MODEL:
        raise NotKnownError("shards of a size that has a program of its own")


def _scatter_beside(plan: PlanWriter, source: TensorSpec, result: TensorSpec, line: Line, axis: int) -> Held:
    """What comes from both neighbours is kept where the source lies, in shards twice as high."""
    padded, cut = source.padded[-len(source.shape) :], source.shard
    if isinstance(cut, Shard):
        cut = replace(cut, height=2 * cut.height)
    between = plan.allocate(replace(source, shape=(2 * padded[0], *padded[1:]), shard=cut))
    slot = plan.allocate(result)
    plan.launch([3 * tiles_added_at_once(source)] * 4, CIRCULAR)
    plan.free(between)
    return Held(slot, result)


def _scatter_around(plan: PlanWriter, source: TensorSpec, result: TensorSpec, line: Line, axis: int) -> Held:
    """A ring keeps what comes in pieces of as many tiles as are added at once, in DRAM, and those of the last but one
    chip apart; along the first of many dimensions it is kept like the source.
    """
    paging, rank, piece = paging_of(source), len(source.shape), tiles_added_at_once(source)
    if rank > 4:
        raise NotKnownError("sums of more than four dimensions around a ring")
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
    return Held(slot, result)


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
    return write_call(name, [source], **given, **named)


def _arguments() -> Iterable[Argument]:
    yield Argument("dim", 0)
    yield Argument("multi_device_global_semaphore", 1)
    for name in ("persistent_output_buffer", "persistent_output_buffers", "barrier_semaphore", "cluster_axis"):
        yield Argument(name, default=None)
    yield Argument("num_links", default=None, samples=(1, 1, 2))
    yield Argument("topology", default=RING, samples=({"attribute": LINEAR}, {"attribute": RING}))
    yield Argument("chunks_per_sync", default=None, samples=(2, 10))
    yield Argument("num_workers_per_link", default=None, samples=(1, 2))
    yield Argument("num_buffers_per_channel", default=None, samples=(2, 4))


RECORDS = tuple(
    record_of(
        write_async_call(f"experimental.{name}", EXAMPLE_TENSOR, count, -1),
        rule,
        *_arguments(),
        family="collective",
        needs_mesh=True,
        takes_shards=True,
    )
    for name, rule, count in (
        ("all_gather_async", all_gather_async, 2),
        ("reduce_scatter_minimal_async", reduce_scatter_async, 3),
    )
)
