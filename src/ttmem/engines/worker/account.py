# SPDX-License-Identifier: Apache-2.0
"""Which buffers there are, kept from what the library reports about each operation: plain arithmetic, no ttnn.

The library's memory view says how much is taken, its graph nodes say what one operation took and gave back in which
order. Together they give every moment inside an operation exactly.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .library import Pool

TAKE, GIVE, LAUNCH = "take", "give", "launch"


class Move(NamedTuple):
    """One thing that happened inside an operation: memory taken, given back, or a program launched."""

    kind: str
    memory: str = ""
    address: int = 0
    bytes_per_bank: int = 0
    total_bytes: int = 0
    program: str = ""
    """For a launch: which device operation and factory made it."""


class Buffer(NamedTuple):
    """One allocation, numbered in order."""

    number: int
    memory: str
    address: int
    bytes_per_bank: int
    """What the allocator takes: rounded up to its quantum."""
    total_bytes: int


class Fullest(NamedTuple):
    """The fullest moment of one memory inside an operation."""

    allocated: int
    born: tuple[int, ...]
    """Buffers of this operation that were there."""
    gone: tuple[int, ...]
    """Buffers from before that were not there any more."""


class Effect(NamedTuple):
    """What one operation did to the account."""

    born: tuple[Buffer, ...]
    gone: tuple[int, ...]
    """Numbers of the buffers it gave back, its own included."""
    fullest: dict[str, Fullest]
    """Only memories that were fuller inside than before. Often that is the moment at the end; whether it shows in the
    next state depends on what the program drops at once (``x = ttnn.relu(x)``)."""
    l1_at_launch: tuple[int, ...]
    """Bytes per bank that tensors took in L1 when each program was launched."""
    highest_l1: int
    order: tuple[int | None, ...]
    """Every move: a buffer's number when it was taken, ``~number`` when it was given back, None for a launch."""


class Account:
    """The buffers of one opened device."""

    def __init__(self, pools: Mapping[str, Pool], quantum: int) -> None:
        self.pools = dict(pools)
        self._quantum = quantum
        self._next = 0
        self.live: dict[str, dict[int, Buffer]] = {memory: {} for memory in pools}
        self.allocated: dict[str, int] = dict.fromkeys(pools, 0)

    def taken(self, bytes_per_bank: int) -> int:
        """What the allocator takes for so many bytes."""
        return -(-bytes_per_bank // self._quantum) * self._quantum

    def apply(self, moves: Iterable[Move]) -> Effect:
        """Bring the account up to date with an operation, and say what happened inside it, move by move."""
        before, born, gone = dict(self.allocated), dict[int, Buffer](), dict[int, Buffer]()
        tops: dict[str, Fullest] = {}
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
            if there:  # two buffers cannot share an address: this one was given back unseen, before the operation
                before[memory] -= there.bytes_per_bank
            buffer = self.add(memory, move.address, self.taken(move.bytes_per_bank), move.total_bytes)
            born[buffer.number] = buffer
            order.append(buffer.number)
            now = self.allocated[memory]
            if memory == "L1":
                highest_l1 = max(highest_l1, now)
            if now > (tops[memory].allocated if memory in tops else before[memory]):
                here = tuple(b.number for b in born.values() if b.memory == memory and b.number not in gone)
                absent = tuple(b.number for b in gone.values() if b.memory == memory and b.number not in born)
                tops[memory] = Fullest(now, here, absent)
        return Effect(tuple(born.values()), tuple(gone), tops, tuple(at_launch), highest_l1, tuple(order))

    def reconcile(self, memory: str, blocks: Mapping[int, int]) -> tuple[list[Buffer], list[int]]:
        """Accept the library's own table: buffers that came and went outside operations (``del``, uploads)."""
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

    def add(self, memory: str, address: int, bytes_per_bank: int, total_bytes: int) -> Buffer:
        """A buffer came."""
        buffer = Buffer(self._next, memory, address, bytes_per_bank, total_bytes)
        self._next += 1
        self.live[memory][address] = buffer
        self.allocated[memory] += bytes_per_bank
        return buffer

    def drop(self, buffer: Buffer) -> Buffer:
        """A buffer went."""
        del self.live[buffer.memory][buffer.address]
        self.allocated[buffer.memory] -= buffer.bytes_per_bank
        return buffer
