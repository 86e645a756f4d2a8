# SPDX-License-Identifier: Apache-2.0
"""What the chips of a mesh do together: all_gather, reduce_scatter, all_reduce. Figures are those of one chip."""

from collections.abc import Hashable
from dataclasses import replace

from ttmem._errors import BadInputError
from ttmem.allocator.operations import draws
from ttmem.allocator.operations.draws import EXAMPLE_TENSOR
from ttmem.allocator.operations.elementwise import result_like
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter, dimension
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.allocator.programs import CIRCULAR
from ttmem.hardware import BFLOAT8_B, BFLOAT16, BLACKHOLE, DRAM, FLOAT32, L1, L1_SMALL, UINT32, Memory
from ttmem.tensors import ROW_MAJOR, TILE, InvalidSpecError, Shard, TensorSpec, grid_of, round_up

_PACKET_BYTES = 4352
"""The most that travels at once between two chips."""
_PACKETS = (3, 6, 9)
"""Of which one is on its way while others are read and written."""
_MOST_TILES_AT_ONCE = 8
_NO_CONNECTION = "Trying to get un-initialized fabric context"


def _chips(call: Call, plan: PlanWriter) -> int:
    """Along the axis, or of a mesh that is a line."""
    mesh, axis = plan.memory_map.settings.mesh, call.arguments["cluster_axis"]
    if mesh == (1, 1):
        raise InvalidSpecError(_NO_CONNECTION)
    if axis is None and 1 not in mesh:
        raise BadInputError(f"a mesh of {mesh[0]}x{mesh[1]} chips: along which axis?")
    chips = mesh[0] * mesh[1] if axis is None else mesh[int(axis)]
    if chips == 1:
        raise BadInputError("along this axis the mesh has one chip")
    return chips


def _is_known(call: Call, plan: PlanWriter) -> bool:
    source = call.inputs[0]
    return (
        source.layout is TILE
        and source.shard is None
        and source.dtype in (BFLOAT16, BFLOAT8_B, FLOAT32)
        and 2 <= len(source.shape) <= 4
        and plan.memory_map.architecture is not BLACKHOLE
    )


_NOT_KNOWN = "collectives of shards, rows, other types, and of meshes of Blackhole"


def all_gather(call: Call, plan: PlanWriter) -> Plan:
    chips = _chips(call, plan)
    axis = dimension(call.arguments["dim"], len(call.inputs[0].shape))
    if not _is_known(call, plan) or _is_cut_short(call.inputs[0], axis):
        return plan.give_up(_NOT_KNOWN)
    slot, result = _gathered(plan, call.inputs[0], axis, chips, call.memory or call.inputs[0].memory)
    return plan.finish(slot, result)


def _is_cut_short(spec: TensorSpec, axis: int) -> bool:
    """Whether tiles end with padding there: such tensors are sent whole and joined afterwards."""
    return axis >= len(spec.shape) - 2 and spec.shape[axis] % 32 != 0


def _gathered(plan: PlanWriter, source: TensorSpec, axis: int, chips: int, memory: Memory) -> tuple[int, TensorSpec]:
    shape = tuple(size * chips if d == axis else size for d, size in enumerate(source.shape))
    result = replace(result_like(source, memory), shape=shape)
    slot = plan.allocate(result)
    where = L1_SMALL if plan.memory_map.settings.l1_small_bytes else L1
    _keep_semaphores(plan, 2, where, ("all_gather", source, axis, chips, memory))
    tile = source.dtype.tile_bytes()
    packet = _PACKET_BYTES // tile * tile
    most = max(_PACKETS) * packet
    if most <= plan.l1_space():
        plan.launch([most], CIRCULAR)
    else:  # a program that is there already keeps the buffers it once had
        why = "fewer packets at once where L1 is short, unless the program was made before"
        plan.launch([min(_PACKETS) * packet], CIRCULAR, at_least=why, at_most_bytes=most)
    return slot, result


def _keep_semaphores(plan: PlanWriter, count: int, memory: Memory, key: Hashable) -> None:
    """They stay with the program: a few bytes of every core."""
    grid = plan.memory_map.grid
    shard = Shard("height", 1, 4, grid_of(grid.columns, grid.rows))
    for number in range(count):
        plan.allocate(TensorSpec((grid.cores, 4), UINT32, ROW_MAJOR, memory, shard), cache_key=(key, number))


def reduce_scatter(call: Call, plan: PlanWriter) -> Plan:
    chips = _chips(call, plan)
    source = call.inputs[0]
    axis = dimension(call.arguments["dim"], len(source.shape))
    if source.shape[axis] % chips:
        raise BadInputError(f"{source.shape[axis]} is no multiple of {chips} chips")
    if not _is_known(call, plan) or _is_cut_short(source, axis) or not _divides_in_tiles(source, axis, chips):
        return plan.give_up(_NOT_KNOWN)
    slot, result = _scattered(plan, source, axis, chips, call.memory or source.memory)
    return plan.finish(slot, result)


def _divides_in_tiles(source: TensorSpec, axis: int, chips: int) -> bool:
    """Of other dimensions than the last nobody compared how they are dealt out."""
    return axis == len(source.shape) - 1 and source.shape[axis] % (32 * chips) == 0


def _scattered(plan: PlanWriter, source: TensorSpec, axis: int, chips: int, memory: Memory) -> tuple[int, TensorSpec]:
    """What comes from both neighbours is kept in DRAM meanwhile."""
    shape = tuple(size // chips if d == axis else size for d, size in enumerate(source.shape))
    result = replace(result_like(source, memory), shape=shape)
    slot = plan.allocate(result)
    padded = (*source.shape[:-2], round_up(source.shape[-2], 32), source.shape[-1])
    both = plan.allocate(replace(source, shape=(2, *padded), memory=DRAM))
    _keep_semaphores(plan, 4, L1, ("reduce_scatter", source, axis, chips, memory))
    tile = source.dtype.tile_bytes()
    tiles = min(4 * (_PACKET_BYTES // tile), _MOST_TILES_AT_ONCE)
    plan.launch([3 * tiles * tile] * 4, CIRCULAR)
    plan.free(both)
    return slot, result


def all_reduce(call: Call, plan: PlanWriter) -> Plan:
    """Each chip adds up its part, then all parts go everywhere."""
    chips = _chips(call, plan)
    source = call.inputs[0]
    last = len(source.shape) - 1
    if not _is_known(call, plan) or not _divides_in_tiles(source, last, chips):
        return plan.give_up(_NOT_KNOWN)
    memory = call.memory or source.memory
    part, spec = _scattered(plan, source, last, chips, memory)
    slot, result = _gathered(plan, spec, last, chips, memory)
    plan.free(part)
    return plan.finish(slot, result)


def _draw(record: OperationRecord, choose: Choose) -> list[Step]:
    source = {
        **draws.tensor(choose, tile_only=True, most=4),
        "dtype": choose.one_of(("bfloat16", "bfloat16", "bfloat8_b", "float32")),
    }
    source["shape"][-1] = choose.one_of((64, 128, 256, 512, 512, 1024, 100))
    if record.name == "all_reduce":
        return write_call(record.name, [source], memory=draws.wish(choose))
    axis = -1 if record.name == "reduce_scatter" else choose.integer(-len(source["shape"]), -1)
    return write_call(record.name, [source], axis, memory=draws.wish(choose))


_AXIS = Argument("cluster_axis", default=None)
RECORDS = tuple(
    record_of(
        write_call(name, [EXAMPLE_TENSOR], *dim),
        plan,
        _draw,
        *(Argument("dim", 0) for _ in dim),
        _AXIS,
        family="collective",
        needs_mesh=True,
    )
    for name, plan, dim in (
        ("all_gather", all_gather, (-1,)),
        ("reduce_scatter", reduce_scatter, (-1,)),
        ("all_reduce", all_reduce, ()),
    )
)
