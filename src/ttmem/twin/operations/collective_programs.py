# SPDX-License-Identifier: Apache-2.0
"""Programs that run on all chips of a mesh. Figures are those of one chip."""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT16, BLACKHOLE, BOARDS, DRAM, L1, L1_SMALL, UINT32, Memory
from ttmem.twin.operations.elementwise import compute_aligned_page_bytes
from ttmem.twin.operations.plan import NoRuleError, PlanBuilder, TensorHandle
from ttmem.twin.placement import compute_paging
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import ROW_MAJOR, CoreRange, InvalidSpecError, Shard, TensorSpec, make_core_grid

_PACKET_BYTES = 4352
"""The largest packet between two chips."""
_CHANNEL_BYTES = _PACKET_BYTES + 48
"""A packet with its header; some operations use that space too."""
_IN_A_ROW = 3
"""A packet is sent while others are read and written."""
_PACKETS, _PACKETS_ON_BLACKHOLE = 3, 4
"""The largest number of packets of tiles at a time."""
_MOST_TILES_AT_ONCE = 8
PAIR = 2
"""Two chips form no ring, whatever the caller wants."""
LINEAR, RING = "ttnn.Topology.Linear", "ttnn.Topology.Ring"
_TUNING = ("chunks_per_sync", "num_workers_per_link", "num_buffers_per_channel")
_NO_CONNECTION = "Trying to get un-initialized fabric context"


@dataclass(frozen=True, slots=True)
class Line:
    """The chips that run a program together: along an axis of the mesh, or a whole mesh that is a line."""

    chips: int
    axis: int | None
    links: int = 1
    """The used links between two chips."""
    is_ring: bool = False
    semaphores: Memory = L1
    tuning: tuple[Any, ...] = (None, None, None)
    """Options that select another program without changing its buffers."""

    @property
    def by_default(self) -> "Line":
        """The line with default options."""
        return Line(self.chips, self.axis)


def is_linear(arguments: Mapping[str, Any]) -> bool:
    """Return whether the caller wants a line, not a ring."""
    return str(arguments.get("topology") or LINEAR) == LINEAR


def choose_lines(plan: PlanBuilder, arguments: Mapping[str, Any], *, uses_all_links: bool = False) -> list[Line]:
    """Return one line, or one per dimension of a two-dimensional mesh if the call names no axis."""
    mesh, axis = plan.memory_map.settings.mesh, arguments["cluster_axis"]
    if mesh == (1, 1):
        raise InvalidSpecError(_NO_CONNECTION)
    small = L1_SMALL if arguments.get("use_l1_small_for_semaphores") else L1
    tuning = tuple(arguments.get(name) for name in _TUNING)
    links = _count_links(plan, arguments.get("num_links"), uses_all_links=uses_all_links)
    rings = not is_linear(arguments)

    def line(chips: int, number: int | None) -> Line:
        return Line(chips, number, links, rings and chips > PAIR and 1 in mesh, small, tuning)

    if axis is None and 1 not in mesh:
        return [line(chips, number) for number, chips in enumerate(mesh)]
    chips = mesh[0] * mesh[1] if axis is None else mesh[int(axis)]
    if chips == 1:
        raise BadInputError("the mesh has one chip along this axis")
    return [line(chips, axis)]


def _count_links(plan: PlanBuilder, wanted: int | None, *, uses_all_links: bool) -> int:
    """Return the wanted number of links; by default one, or all but the one that carries commands to remote chips."""
    board = BOARDS.find(plan.memory_map.board_name)
    if wanted is None and not uses_all_links:
        return 1
    if board.mock is None or not board.mock.links:
        if wanted is None:
            return 0  # not known
        raise NoRuleError("explicit links on a board whose number of links is not known")
    there = min(Counter((one, other) for one, _, other, _ in board.mock.links).values())
    if wanted is None:
        return there - (len(board.mock.host_chips) < board.chips)
    if not 1 <= wanted <= there:
        raise BadInputError(f"num_links={wanted}, but the chips have {there} links")
    return wanted


def fit_packet(page_bytes: int) -> int:
    """Return the bytes of the pages that fit one packet."""
    return page_bytes * max(_PACKET_BYTES // page_bytes, 1)


def compute_largest_packet_bytes(spec: TensorSpec) -> int:
    """Return the bytes of the largest packet, a power of two for bfloat16."""
    return 1 << (_CHANNEL_BYTES.bit_length() - 1) if spec.dtype is BFLOAT16 else _CHANNEL_BYTES


def gather(plan: PlanBuilder, source: TensorSpec, result: TensorSpec, line: Line, axis: int) -> TensorHandle:
    """Gather the parts of all chips, each page directly to its final address."""
    slot = plan.allocate(result)
    key = "all_gather", source, axis, line.chips, line.axis, result
    keep_semaphores(plan, 2, L1_SMALL if plan.memory_map.settings.l1_small_bytes else L1, key)
    least = _IN_A_ROW * fit_packet(compute_aligned_page_bytes(plan, source))
    if not source.is_tiled:
        plan.launch([least], CIRCULAR)
        return TensorHandle(slot, result)
    most = _PACKETS_ON_BLACKHOLE if plan.memory_map.architecture is BLACKHOLE else _PACKETS
    plan.launch_kept(key, lambda: [[least * min(max(plan.l1_space() // least, 1), most)]], family=CIRCULAR)
    return TensorHandle(slot, result)


def broadcast(
    plan: PlanBuilder, source: TensorSpec, result: TensorSpec, line: Line, sender: Hashable = None
) -> list[TensorHandle]:
    """Copy each chip's tensor, or that of the one ``sender``, to all chips."""
    slots = [plan.allocate(result) for _ in range(line.chips if sender is None else 1)]
    keep_semaphores(plan, 2, line.semaphores, ("broadcast", source, line, result, sender))
    plan.launch([_IN_A_ROW * _compute_broadcast_packet_bytes(plan, source)], CIRCULAR)
    return [TensorHandle(slot, result) for slot in slots]


def _compute_broadcast_packet_bytes(plan: PlanBuilder, source: TensorSpec) -> int:
    """Return the bytes of whole tiles, or of one or two rows; rows of shards are as long as the shards."""
    page = compute_aligned_page_bytes(plan, source)
    if source.is_tiled:
        return fit_packet(page)
    paging, shard = compute_paging(source), source.shard
    if isinstance(shard, Shard) and shard.kind != "height" and paging.padded_shape[-1] > shard.width:
        page = shard.width * source.element_bytes
    return page * min(max(compute_largest_packet_bytes(source) // page, 1), 2)


def scatter(plan: PlanBuilder, source: TensorSpec, result: TensorSpec, line: Line, axis: int) -> TensorHandle:
    """Reduce and scatter; parts received from neighbours (one in a ring) are stored in DRAM."""
    slot = plan.allocate(result)
    shape = (source.shape[0] * (1 if line.is_ring else 2), *source.shape[1:])
    between = plan.allocate(replace(source, shape=shape, memory=DRAM, shard=None))
    keep_semaphores(plan, 4, line.semaphores, ("reduce_scatter", source, axis, line, result))
    tiles = compute_batch_bytes(source)
    plan.launch([2 * tiles] * 5 if line.is_ring else [3 * tiles] * 4, CIRCULAR)
    plan.free(between)
    return TensorHandle(slot, result)


def compute_batch_bytes(source: TensorSpec) -> int:
    """Return the bytes of the tiles that are added in one step."""
    tile = source.tile_bytes
    return tile * min(4 * (_PACKET_BYTES // tile), _MOST_TILES_AT_ONCE)


def keep_semaphores(plan: PlanBuilder, count: int, memory: Memory, key: Hashable) -> None:
    """Allocate semaphores on all cores that belong to the cached program."""
    grid = plan.memory_map.grid
    for number in range(count):
        plan.allocate(make_semaphore(make_core_grid(grid.columns, grid.rows), memory), cache_key=(key, number))


def make_semaphore(cores: tuple[CoreRange, ...], memory: Memory = L1) -> TensorSpec:
    """Return the spec of a semaphore: 4 bytes on each core."""
    shard = Shard("height", 1, 4, cores)
    return TensorSpec((shard.cores, 4), UINT32, ROW_MAJOR, memory, shard)
