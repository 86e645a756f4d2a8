# SPDX-License-Identifier: Apache-2.0
"""The programs that the chips of a mesh run together. Figures are those of one chip."""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT16, BLACKHOLE, BOARDS, DRAM, L1, L1_SMALL, UINT32, Memory
from ttmem.twin.operations.elementwise import aligned_page
from ttmem.twin.operations.plan import PlanWriter
from ttmem.twin.operations.tensor_handle import Held
from ttmem.twin.paging import paging_of
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import ROW_MAJOR, CoreRange, InvalidSpecError, Shard, TensorSpec, grid_of

_PACKET_BYTES = 4352
"""The most that travels at once between two chips."""
_CHANNEL_BYTES = _PACKET_BYTES + 48
"""With what tells a packet where to go: some operations fill that too."""
_IN_A_ROW = 3
"""One is on its way while others are read and written."""
_PACKETS, _PACKETS_ON_BLACKHOLE = 3, 4
"""Of tiles so many at once, where there is room."""
_MOST_TILES_AT_ONCE = 8
PAIR = 2
"""So many chips are no ring, whatever the caller says."""
LINEAR, RING = "ttnn.Topology.Linear", "ttnn.Topology.Ring"
_TUNING = ("chunks_per_sync", "num_workers_per_link", "num_buffers_per_channel")
_NO_CONNECTION = "Trying to get un-initialized fabric context"


class NotKnownError(Exception):
    """There is no rule for this, so none for what it is a part of."""


@dataclass(frozen=True, slots=True)
class Line:
    """The chips that do something together, along an axis of the mesh or all of a mesh that is a line."""

    chips: int
    axis: int | None
    links: int = 1
    """Between two of them that are used."""
    is_ring: bool = False
    semaphores: Memory = L1
    tuning: tuple[Any, ...] = (None, None, None)
    """Changes no buffer, but makes another program."""

    @property
    def by_default(self) -> "Line":
        """As operations are called that have no say in it."""
        return Line(self.chips, self.axis)


def is_linear(arguments: Mapping[str, Any]) -> bool:
    """Whether the caller wants no ring."""
    return str(arguments.get("topology") or LINEAR) == LINEAR


def lines_of(plan: PlanWriter, arguments: Mapping[str, Any], *, uses_all_links: bool = False) -> list[Line]:
    """One; several, one after another, where the mesh has two dimensions and none is named."""
    mesh, axis = plan.memory_map.settings.mesh, arguments["cluster_axis"]
    if mesh == (1, 1):
        raise InvalidSpecError(_NO_CONNECTION)
    small = L1_SMALL if arguments.get("use_l1_small_for_semaphores") else L1
    tuning = tuple(arguments.get(name) for name in _TUNING)
    links = _links(plan, arguments.get("num_links"), uses_all_links=uses_all_links)
    rings = not is_linear(arguments)

    def line(chips: int, number: int | None) -> Line:
        return Line(chips, number, links, rings and chips > PAIR and 1 in mesh, small, tuning)

    if axis is None and 1 not in mesh:
        return [line(chips, number) for number, chips in enumerate(mesh)]
    chips = mesh[0] * mesh[1] if axis is None else mesh[int(axis)]
    if chips == 1:
        raise BadInputError("along this axis the mesh has one chip")
    return [line(chips, axis)]


def _links(plan: PlanWriter, wanted: int | None, *, uses_all_links: bool) -> int:
    """As many as are wanted; otherwise one, or all that are there but for one that carries commands to chips without a
    host link of their own.
    """
    board = BOARDS.find(plan.memory_map.board_name)
    if wanted is None and not uses_all_links:
        return 1
    if board.mock is None or not board.mock.links:
        if wanted is None:
            return 0  # a number that nobody can name
        raise NotKnownError("so many links: how many this board has is not known")
    there = min(Counter((one, other) for one, _, other, _ in board.mock.links).values())
    if wanted is None:
        return there - (len(board.mock.host_chips) < board.chips)
    if not 1 <= wanted <= there:
        raise BadInputError(f"{wanted} links between chips that have {there}")
    return wanted


def packets(page_bytes: int) -> int:
    """The bytes of pages that travel together."""
    return page_bytes * max(_PACKET_BYTES // page_bytes, 1)


def largest_packet(spec: TensorSpec) -> int:
    """In bytes; of bfloat16 a power of two."""
    return 1 << (_CHANNEL_BYTES.bit_length() - 1) if spec.dtype is BFLOAT16 else _CHANNEL_BYTES


def gather(plan: PlanWriter, source: TensorSpec, result: TensorSpec, line: Line, axis: int) -> Held:
    """Each page goes where it belongs on all chips."""
    slot = plan.allocate(result)
    key = "all_gather", source, axis, line.chips, line.axis, result
    keep_semaphores(plan, 2, L1_SMALL if plan.memory_map.settings.l1_small_bytes else L1, key)
    least = _IN_A_ROW * packets(aligned_page(plan, source))
    if not source.is_tiled:
        plan.launch([least], CIRCULAR)
        return Held(slot, result)
    most = _PACKETS_ON_BLACKHOLE if plan.memory_map.architecture is BLACKHOLE else _PACKETS
    plan.launch_kept(key, lambda: [[least * min(max(plan.l1_space() // least, 1), most)]], family=CIRCULAR)
    return Held(slot, result)


def broadcast(
    plan: PlanWriter, source: TensorSpec, result: TensorSpec, line: Line, sender: Hashable = None
) -> list[Held]:
    """Every chip gets a tensor from each, itself among them, or from the one ``sender``."""
    slots = [plan.allocate(result) for _ in range(line.chips if sender is None else 1)]
    keep_semaphores(plan, 2, line.semaphores, ("broadcast", source, line, result, sender))
    plan.launch([_IN_A_ROW * _broadcast_packet(plan, source)], CIRCULAR)
    return [Held(slot, result) for slot in slots]


def _broadcast_packet(plan: PlanWriter, source: TensorSpec) -> int:
    """Whole tiles; one row or two, which in shards are as long as these."""
    page = aligned_page(plan, source)
    if source.is_tiled:
        return packets(page)
    paging, shard = paging_of(source), source.shard
    if isinstance(shard, Shard) and shard.kind != "height" and paging.padded_shape[-1] > shard.width:
        page = shard.width * source.element_bytes
    return page * min(max(largest_packet(source) // page, 1), 2)


def scatter(plan: PlanWriter, source: TensorSpec, result: TensorSpec, line: Line, axis: int) -> Held:
    """What comes from both neighbours, or in a ring from one, is kept in DRAM meanwhile."""
    slot = plan.allocate(result)
    shape = (source.shape[0] * (1 if line.is_ring else 2), *source.shape[1:])
    between = plan.allocate(replace(source, shape=shape, memory=DRAM, shard=None))
    keep_semaphores(plan, 4, line.semaphores, ("reduce_scatter", source, axis, line, result))
    tiles = tiles_added_at_once(source)
    plan.launch([2 * tiles] * 5 if line.is_ring else [3 * tiles] * 4, CIRCULAR)
    plan.free(between)
    return Held(slot, result)


def tiles_added_at_once(source: TensorSpec) -> int:
    """In bytes."""
    tile = source.tile_bytes
    return tile * min(4 * (_PACKET_BYTES // tile), _MOST_TILES_AT_ONCE)


def keep_semaphores(plan: PlanWriter, count: int, memory: Memory, key: Hashable) -> None:
    """They stay with the program, on every core."""
    grid = plan.memory_map.grid
    for number in range(count):
        plan.allocate(semaphore(grid_of(grid.columns, grid.rows), memory), cache_key=(key, number))


def semaphore(cores: tuple[CoreRange, ...], memory: Memory = L1) -> TensorSpec:
    """A few bytes of every core."""
    shard = Shard("height", 1, 4, cores)
    return TensorSpec((shard.cores, 4), UINT32, ROW_MAJOR, memory, shard)
