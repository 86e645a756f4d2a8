# SPDX-License-Identifier: Apache-2.0
"""What the chips of a mesh do together: all_gather, reduce_scatter and their like. Figures are those of one chip."""

from collections.abc import Hashable
from dataclasses import replace

from ttmem._errors import BadInputError
from ttmem.allocator.operations import draws
from ttmem.allocator.operations.draws import EXAMPLE_TENSOR
from ttmem.allocator.operations.elementwise import aligned_page, result_like
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter, dimension
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.allocator.programs import CIRCULAR
from ttmem.hardware import BFLOAT8_B, BFLOAT16, BLACKHOLE, DRAM, FLOAT32, L1, L1_SMALL, UINT32, Memory
from ttmem.tensors import ROW_MAJOR, TILE, InvalidSpecError, Shard, TensorSpec, grid_of, paging_of, round_up

_PACKET_BYTES = 4352
"""The most that travels at once between two chips."""
_IN_A_ROW = 3
"""One is on its way while others are read and written."""
_PACKETS, _PACKETS_ON_BLACKHOLE = 3, 4
"""Of tiles so many at once, where there is room."""
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
    """Of the operations that add: tiles in pages."""
    source = call.inputs[0]
    return source.layout is TILE and source.dtype in (BFLOAT16, BFLOAT8_B, FLOAT32) and _has_pages(call)


def _has_pages(call: Call) -> bool:
    return call.inputs[0].shard is None and call.shard is None and 2 <= len(call.inputs[0].shape) <= 4


_NOT_KNOWN = "collectives of shards, of dimensions that do not come out even, and sums of rows or of other types"


def all_gather(call: Call, plan: PlanWriter) -> Plan:
    chips = _chips(call, plan)
    source, memory = call.inputs[0], call.memory or call.inputs[0].memory
    axis = dimension(call.arguments["dim"], len(source.shape))
    if not _has_pages(call) or _is_cut_short(source, axis) or not _has_rows_in_place(plan, source, axis, memory):
        return plan.give_up(_NOT_KNOWN)
    slot, result = _gathered(plan, source, axis, chips, memory)
    return plan.finish(slot, result)


def _is_cut_short(spec: TensorSpec, axis: int) -> bool:
    """Whether tiles end with padding there: such tensors are sent whole and joined afterwards."""
    return spec.layout is TILE and axis >= len(spec.shape) - 2 and spec.shape[axis] % 32 != 0


def _has_rows_in_place(plan: PlanWriter, source: TensorSpec, axis: int, memory: Memory) -> bool:
    """Rows go where they belong if they have room there, aligned as they come, and leave no gaps where they join."""
    if source.layout is TILE:
        return True
    page, aligned = paging_of(source).page_bytes, aligned_page(plan, source)
    if axis == len(source.shape) - 1:
        return page == aligned
    return round_up(page, plan.memory_map.page_alignment_bytes(memory)) >= aligned


def _gathered(plan: PlanWriter, source: TensorSpec, axis: int, chips: int, memory: Memory) -> tuple[int, TensorSpec]:
    shape = tuple(size * chips if d == axis else size for d, size in enumerate(source.shape))
    result = replace(result_like(source, memory), shape=shape)
    slot = plan.allocate(result)
    where = L1_SMALL if plan.memory_map.settings.l1_small_bytes else L1
    _keep_semaphores(plan, 2, where, ("all_gather", source, axis, chips, memory))
    page = aligned_page(plan, source)
    least = _IN_A_ROW * page * max(_PACKET_BYTES // page, 1)
    if source.layout is not TILE:
        plan.launch([least], CIRCULAR)
        return slot, result
    most = least * (_PACKETS_ON_BLACKHOLE if plan.memory_map.architecture is BLACKHOLE else _PACKETS)
    if most <= plan.l1_space():
        plan.launch([most], CIRCULAR)
    else:  # a program that is there already keeps the buffers it once had
        why = "fewer packets at once where L1 is short, unless the program was made before"
        plan.launch([least], CIRCULAR, at_least=why, at_most_bytes=most)
    return slot, result


def all_broadcast(call: Call, plan: PlanWriter) -> Plan:
    """Every chip gets a tensor from each, itself among them."""
    chips = _chips(call, plan)
    source, memory = call.inputs[0], call.memory or call.inputs[0].memory
    if not _has_pages(call):
        return plan.give_up(_NOT_KNOWN)
    result = result_like(source, memory)
    slots = [plan.allocate(result) for _ in range(chips)]
    _keep_semaphores(plan, 2, L1, ("all_broadcast", source, chips, memory))
    page = aligned_page(plan, source)
    packet = 1 << (_PACKET_BYTES.bit_length() - 1) if source.dtype is BFLOAT16 else _PACKET_BYTES
    pages = packet // page if source.layout is TILE else min(max(packet // page, 1), 2)
    plan.launch([_IN_A_ROW * pages * page], CIRCULAR)
    return plan.finish_all([(slot, result) for slot in slots])


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
    if not _is_known(call, plan) or _is_cut_short(source, axis) or not _divides_in_tiles(source, axis, chips):
        return plan.give_up(_NOT_KNOWN)
    slot, result = _scattered(plan, source, axis, chips, call.memory or source.memory)
    return plan.finish(slot, result)


def _divides_in_tiles(source: TensorSpec, axis: int, chips: int) -> bool:
    """Otherwise it is cut first, and put together by other operations."""
    return source.shape[axis] % (32 * chips if axis >= len(source.shape) - 2 else chips) == 0


def _scattered(plan: PlanWriter, source: TensorSpec, axis: int, chips: int, memory: Memory) -> tuple[int, TensorSpec]:
    """What comes from both neighbours is kept in DRAM meanwhile."""
    shape = tuple(size // chips if d == axis else size for d, size in enumerate(source.shape))
    result = replace(result_like(source, memory), shape=shape)
    slot = plan.allocate(result)
    both = plan.allocate(replace(source, shape=(2 * source.shape[0], *source.shape[1:]), memory=DRAM))
    _keep_semaphores(plan, 4, L1, ("reduce_scatter", source, axis, chips, memory))
    tile = source.dtype.tile_bytes()
    tiles = min(4 * (_PACKET_BYTES // tile), _MOST_TILES_AT_ONCE)
    plan.launch([3 * tiles * tile] * 4, CIRCULAR)
    plan.free(both)
    return slot, result


def all_reduce(call: Call, plan: PlanWriter) -> Plan:
    """Each chip adds up its part, then all parts go everywhere."""
    chips = _chips(call, plan)
    source, memory = call.inputs[0], call.memory or call.inputs[0].memory
    padded = paging_of(source).padded_shape[-len(source.shape) :]
    sizes = (*padded[:-2], *(size // 32 for size in padded[-2:]))
    axis = next((axis for axis in reversed(range(len(sizes))) if sizes[axis] % chips == 0), None)
    if not _is_known(call, plan) or axis is None or not _divides_in_tiles(source, axis, chips):
        return plan.give_up(_NOT_KNOWN)
    part, spec = _scattered(plan, source, axis, chips, memory)
    slot, result = _gathered(plan, spec, axis, chips, memory)
    plan.free(part)
    return plan.finish(slot, result)


def _draw(record: OperationRecord, choose: Choose) -> list[Step]:
    adds = record.name in ("reduce_scatter", "all_reduce")
    source = draws.tensor(choose, tile_only=adds, integers=not adds, most=4)
    if adds:
        source["dtype"] = choose.one_of(("bfloat16", "bfloat16", "bfloat8_b", "float32"))
    source["shape"][-1] = choose.one_of((64, 128, 256, 512, 512, 1024, 100))
    if record.name == "all_reduce":
        return write_call(record.name, [source], memory=draws.wish(choose))
    if record.name == "all_broadcast":
        return write_call(record.name, [source], memory=draws.wish(choose))
    axis = choose.integer(-len(source["shape"]), -1)
    if record.name == "reduce_scatter" and choose.integer(0, 2):
        source["shape"][axis] = choose.one_of((128, 256, 512)) if axis >= -2 else choose.one_of((2, 4, 8))
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
        ("all_broadcast", all_broadcast, ()),
    )
)
