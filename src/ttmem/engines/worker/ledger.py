# SPDX-License-Identifier: Apache-2.0
"""The ledger of buffers, kept from what the library reports about each operation: plain arithmetic, no ttnn.

The library's memory view gives the amount taken, its graph nodes give an operation's allocations and frees in order.
Together they give every moment inside an operation exactly.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .graph_nodes import Node, find_innermost, name_device_program, read_memory
from .library import BankView, MemoryRegion

# ``start.py`` loads it under another name, where there is no ttmem.
if TYPE_CHECKING or __name__.startswith("ttmem."):
    from ttmem.twin.free_list import FreeList
else:
    from ttmem_free_list import FreeList

TAKE, GIVE, LAUNCH = "take", "give", "launch"
_HELPERS = "::"
"""Part of the names of functions that are no device operations: ``Tensor::to_device``."""


class Move(NamedTuple):
    """A move inside an operation: memory allocated or freed, or a program launched."""

    kind: str
    memory: str = ""
    address: int = 0
    bytes_per_bank: int = 0
    total_bytes: int = 0
    program: str = ""
    """For a launch: device operation and factory."""


class LedgerBuffer(NamedTuple):
    """An allocation, numbered in order."""

    number: int
    memory: str
    address: int
    bytes_per_bank: int
    """Rounded up to the allocator's quantum."""
    total_bytes: int


class CallPeak(NamedTuple):
    allocated: int
    born: tuple[int, ...]
    """Buffers of this operation that were live."""
    gone: tuple[int, ...]
    """Earlier buffers that had been freed."""
    largest_free: int


class CallEffect(NamedTuple):
    born: tuple[LedgerBuffer, ...]
    gone: tuple[int, ...]
    """Numbers of the buffers that it freed, its own included."""
    fullest: dict[str, CallPeak]
    """Memories that were fuller inside than before. Often that is the end of the operation; whether the next state
    shows it depends on what the program drops at once (``x = ttnn.relu(x)``)."""
    l1_at_launch: tuple[int, ...]
    """Bytes per bank of tensors in L1 at each launch."""
    highest_l1: int
    order: tuple[int | None, ...]
    """Moves: a buffer's number when allocated, ``~number`` when freed, None for a launch."""


class AllocationLedger:
    """The buffers of an opened device."""

    def __init__(self, pools: Mapping[str, MemoryRegion], quantum: int) -> None:
        self.pools = dict(pools)
        self._quantum = quantum
        self._next = 0
        self.live: dict[str, dict[int, LedgerBuffer]] = {memory: {} for memory in pools}
        self.allocated: dict[str, int] = dict.fromkeys(pools, 0)
        self._free = {name: FreeList(pool.base, pool.bytes_per_bank, grows_down=False) for name, pool in pools.items()}
        self._misplaced: dict[str, set[int]] = {memory: set() for memory in pools}
        """Buffers that overlap others or are outside of the pool: a free below them was not seen."""

    def round_up(self, bytes_per_bank: int) -> int:
        """Return the bytes that the allocator takes for a request."""
        return -(-bytes_per_bank // self._quantum) * self._quantum

    def apply(self, moves: Iterable[Move]) -> CallEffect:
        """Apply the moves of an operation and return its effect."""
        before, born, gone = dict(self.allocated), dict[int, LedgerBuffer](), dict[int, LedgerBuffer]()
        tops: dict[str, tuple[int, int, int]] = {}  # allocated, steps of the order, largest free block
        at_launch: list[int] = []
        highest_l1 = self.allocated.get("L1", 0)
        order: list[int | None] = []
        for move in moves:
            memory = move.memory
            if move.kind == LAUNCH:
                order.append(None)
                at_launch.append(self.allocated.get("L1", 0))
            if move.kind == LAUNCH or memory not in self.live:
                continue
            there = self.live[memory].get(move.address)
            if there:
                gone[there.number] = self.drop(there)
                order.append(~there.number)
            if move.kind == GIVE:
                continue
            if there:  # addresses are unique: this one was freed unseen, before the operation
                before[memory] -= there.bytes_per_bank
            buffer = self.add(memory, move.address, self.round_up(move.bytes_per_bank), move.total_bytes)
            born[buffer.number] = buffer
            order.append(buffer.number)
            now = self.allocated[memory]
            if memory == "L1":
                highest_l1 = max(highest_l1, now)
            if now > (tops[memory][0] if memory in tops else before[memory]):
                tops[memory] = now, len(order), self.find_largest_free(memory)
        fullest = {
            memory: CallPeak(now, *_split_moves(order[:steps], {**born, **gone}, memory), largest)
            for memory, (now, steps, largest) in tops.items()
        }
        return CallEffect(tuple(born.values()), tuple(gone), fullest, tuple(at_launch), highest_l1, tuple(order))

    def reconcile(self, memory: str, blocks: Mapping[int, int]) -> tuple[list[LedgerBuffer], list[int]]:
        """Accept the library's table: return buffers that were allocated and freed outside operations (``del``,
        uploads)."""
        live = self.live[memory]
        gone = [
            self.drop(buffer).number
            for address, buffer in list(live.items())
            if blocks.get(address) != buffer.bytes_per_bank
        ]
        banks = self.pools[memory].banks
        came = [
            self.add(memory, address, size, size * banks)
            for address, size in sorted(blocks.items())
            if address not in live
        ]
        return came, gone

    def find_largest_free(self, memory: str) -> int:
        if not self._misplaced[memory]:
            return self._free[memory].largest_free_bytes
        pool = self.pools[memory]
        largest, end = 0, pool.base
        for address, buffer in sorted(self.live[memory].items()):
            largest = max(largest, address - end)
            end = max(end, address + buffer.bytes_per_bank)
        return max(largest, pool.base + pool.bytes_per_bank - end)

    def compute_view(self, memory: str) -> BankView:
        """Return the view that the library would give, if nothing happened unseen."""
        pool, allocated = self.pools[memory], self.allocated[memory]
        total = pool.bytes_per_bank
        return BankView(pool.banks, total, allocated, total - allocated, self.find_largest_free(memory))

    def add(self, memory: str, address: int, bytes_per_bank: int, total_bytes: int) -> LedgerBuffer:
        buffer = LedgerBuffer(self._next, memory, address, bytes_per_bank, total_bytes)
        self._next += 1
        self.live[memory][address] = buffer
        self.allocated[memory] += bytes_per_bank
        if not self._free[memory].take(address, bytes_per_bank):
            self._misplaced[memory].add(buffer.number)
        return buffer

    def drop(self, buffer: LedgerBuffer) -> LedgerBuffer:
        memory = buffer.memory
        del self.live[memory][buffer.address]
        self.allocated[memory] -= buffer.bytes_per_bank
        if buffer.number in self._misplaced[memory]:
            self._misplaced[memory].discard(buffer.number)
        else:
            self._free[memory].free(buffer.address)
        return buffer


def _split_moves(
    order: Sequence[int | None], buffers: Mapping[int, LedgerBuffer], memory: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the buffers of a memory that were allocated and live after these moves, and the earlier ones that were
    freed."""
    there, gone = dict[int, None](), dict[int, None]()
    for move in order:
        number = -1 if move is None else max(move, ~move)
        if move is None or buffers[number].memory != memory:
            continue
        if move >= 0:
            there[number] = None
        elif number in there:
            del there[number]
        else:
            gone[number] = None
    return tuple(there), tuple(gone)


def read_moves(nodes: Iterable[Node], *, raised: bool = False) -> list[Move]:
    """Return the moves of a NORMAL capture. A launch is recognised by the clearing of buffers before it.

    When the call ``raised``, the failed operation names no program, and buffers are cleared once more: without a
    program's name that is no launch.
    """
    moves: list[Move] = []
    functions: list[tuple[str, str]] = []
    executed = [-1]
    """Number of moves when a program last ran, by function; -1: none did."""
    for node in nodes:
        kind, params = node["node_type"], node["params"] or {}
        if kind == "function_start":
            hidden = raised and "program_cache_hit" not in params
            functions.append((str(params.get("name", "")), "" if hidden else name_device_program(params)))
            executed.append(-1)
        elif kind == "program_execution":
            executed[-1] = len(moves)
        elif kind == "function_end":
            del functions[-1:]
            # Without a cache the program ends with its operation, and its buffers are cleared once more.
            if -1 < executed[-1] < len(moves) and moves[-1].kind == LAUNCH:
                del moves[-1]
            executed = executed[:-1] or [-1]
        elif kind == "circular_buffer_deallocate_all":
            program = find_innermost(functions)
            # A program of a device that was closed may be collected at any time, which clears its buffers too.
            is_launch = bool(program) or not (raised or not functions or _HELPERS in functions[-1][0])
            if is_launch:
                moves.append(Move(LAUNCH, program=program))
        elif kind in ("buffer_allocate", "buffer_deallocate"):
            moves.append(
                Move(
                    TAKE if kind == "buffer_allocate" else GIVE,
                    read_memory(params),
                    int(params["address"]),
                    int(params["max_size_per_bank"]),
                    int(params["size"]),
                )
            )
    return moves
