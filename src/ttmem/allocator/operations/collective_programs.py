# SPDX-License-Identifier: Apache-2.0
"""The programs that the chips of a mesh run together. Figures are those of one chip."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ttmem._errors import BadInputError
from ttmem.allocator.operations.chaining import Held
from ttmem.allocator.operations.elementwise import aligned_page
from ttmem.allocator.operations.plan import PlanWriter
from ttmem.allocator.programs import CIRCULAR
from ttmem.hardware import BFLOAT16, BLACKHOLE, DRAM, L1, L1_SMALL, UINT32, Memory
from ttmem.tensors import ROW_MAJOR, TILE, InvalidSpecError, Shard, TensorSpec, grid_of, paging_of

_PACKET_BYTES = 4352
"""The most that travels at once between two chips."""
_IN_A_ROW = 3
"""One is on its way while others are read and written."""
_PACKETS, _PACKETS_ON_BLACKHOLE = 3, 4
"""Of tiles so many at once, where there is room."""
_MOST_TILES_AT_ONCE = 8
_NO_CONNECTION = "Trying to get un-initialized fabric context"


@dataclass(frozen=True, slots=True)
class Line:
    """The chips that do something together, along an axis of the mesh or all of a mesh that is a line."""

    chips: int
    axis: int | None
    links: int | None = None
    """As the caller says: another number is another program."""


def lines_of(plan: PlanWriter, arguments: Mapping[str, Any]) -> list[Line]:
    """One; several, one after another, where the mesh has two dimensions and none is named."""
    mesh, axis, links = plan.memory_map.settings.mesh, arguments["cluster_axis"], arguments.get("num_links")
    if mesh == (1, 1):
        raise InvalidSpecError(_NO_CONNECTION)
    if axis is None and 1 not in mesh:
        return [Line(chips, number, links) for number, chips in enumerate(mesh)]
    chips = mesh[0] * mesh[1] if axis is None else mesh[int(axis)]
    if chips == 1:
        raise BadInputError("along this axis the mesh has one chip")
    return [Line(chips, axis, links)]


def packets(page_bytes: int) -> int:
    """The bytes of pages that travel together."""
    return page_bytes * max(_PACKET_BYTES // page_bytes, 1)


def gather(plan: PlanWriter, source: TensorSpec, result: TensorSpec, line: Line, axis: int) -> Held:
    """Each page goes where it belongs on all chips."""
    slot = plan.allocate(result)
    key = "all_gather", source, axis, line.chips, line.axis, result
    _keep_semaphores(plan, 2, L1_SMALL if plan.memory_map.settings.l1_small_bytes else L1, key)
    least = _IN_A_ROW * packets(aligned_page(plan, source))
    if source.layout is not TILE:
        plan.launch([least], CIRCULAR)
        return Held(slot, result)
    most = _PACKETS_ON_BLACKHOLE if plan.memory_map.architecture is BLACKHOLE else _PACKETS
    plan.launch_kept(key, lambda: [[least * min(max(plan.l1_space() // least, 1), most)]], family=CIRCULAR)
    return Held(slot, result)


def broadcast(plan: PlanWriter, source: TensorSpec, result: TensorSpec, line: Line, copies: int = 0) -> list[Held]:
    """Every chip gets a tensor from each, itself among them; ``copies``: of fewer."""
    slots = [plan.allocate(result) for _ in range(copies or line.chips)]
    _keep_semaphores(plan, 2, L1, ("broadcast", source, line, result, copies))
    plan.launch([_IN_A_ROW * _broadcast_packet(plan, source)], CIRCULAR)
    return [Held(slot, result) for slot in slots]


def _broadcast_packet(plan: PlanWriter, source: TensorSpec) -> int:
    """Whole tiles; one row or two, which in shards are as long as these."""
    page = aligned_page(plan, source)
    if source.layout is TILE:
        return packets(page)
    paging, shard = paging_of(source), source.shard
    if isinstance(shard, Shard) and shard.kind != "height" and paging.padded_shape[-1] > shard.width:
        page = shard.width * (source.dtype.element_bytes or 0)
    largest = 1 << (_PACKET_BYTES.bit_length() - 1) if source.dtype is BFLOAT16 else _PACKET_BYTES
    return page * min(max(largest // page, 1), 2)


def scatter(plan: PlanWriter, source: TensorSpec, result: TensorSpec, line: Line, axis: int) -> Held:
    """What comes from both neighbours is kept in DRAM meanwhile."""
    slot = plan.allocate(result)
    shape = (2 * source.shape[0], *source.shape[1:])
    both = plan.allocate(replace(source, shape=shape, memory=DRAM, shard=None))
    _keep_semaphores(plan, 4, L1, ("reduce_scatter", source, axis, line, result))
    tile = source.dtype.tile_bytes()
    tiles = min(4 * (_PACKET_BYTES // tile), _MOST_TILES_AT_ONCE)
    plan.launch([3 * tiles * tile] * 4, CIRCULAR)
    plan.free(both)
    return Held(slot, result)


def _keep_semaphores(plan: PlanWriter, count: int, memory: Memory, key: Hashable) -> None:
    """They stay with the program: a few bytes of every core."""
    grid = plan.memory_map.grid
    shard = Shard("height", 1, 4, grid_of(grid.columns, grid.rows))
    for number in range(count):
        plan.allocate(TensorSpec((grid.cores, 4), UINT32, ROW_MAJOR, memory, shard), cache_key=(key, number))
