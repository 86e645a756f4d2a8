# SPDX-License-Identifier: Apache-2.0
"""One memory pool: address-ordered first fit, all banks in lock step."""

from __future__ import annotations

from bisect import bisect_left


class Pool:
    """Free space of one memory, in bytes per bank.

    DRAM and TRACE hand out the lowest fitting address; L1 and L1_SMALL the highest. The order matters because the
    log prints the largest contiguous free block, which depends on where things were put.
    """

    __slots__ = (
        "_free_lengths",
        "_free_starts",
        "_largest",
        "allocated",
        "banks",
        "name",
        "quantum",
        "size",
        "top_down",
    )

    def __init__(self, name: str, *, banks: int, size: int, quantum: int, top_down: bool) -> None:
        self.name = name
        self.banks = banks
        self.size = size
        self.quantum = quantum
        self.top_down = top_down
        self.allocated = 0
        self._free_starts = [0] if size else []
        self._free_lengths = [size] if size else []
        self._largest = size

    @property
    def free(self) -> int:
        return self.size - self.allocated

    @property
    def largest_free(self) -> int:
        if self._largest < 0:
            self._largest = max(self._free_lengths, default=0)
        return self._largest

    def taken(self, bytes_per_bank: int) -> int:
        """What the pool loses for a request: rounded up to the quantum, and never nothing."""
        quantum = self.quantum
        return max(-(-bytes_per_bank // quantum), 1) * quantum

    def allocate(self, taken: int) -> int | None:
        """Address of `taken` bytes, or None (state unchanged) when no single free block is big enough."""
        starts, lengths = self._free_starts, self._free_lengths
        if self.top_down:
            for i in range(len(lengths) - 1, -1, -1):
                if lengths[i] >= taken:
                    address = starts[i] + lengths[i] - taken
                    if lengths[i] == taken:
                        del starts[i], lengths[i]
                    else:
                        lengths[i] -= taken
                    break
            else:
                return None
        else:
            for i, length in enumerate(lengths):
                if length >= taken:
                    address = starts[i]
                    if length == taken:
                        del starts[i], lengths[i]
                    else:
                        starts[i] = address + taken
                        lengths[i] = length - taken
                    break
            else:
                return None
        self.allocated += taken
        self._largest = -1
        return address

    def release(self, address: int, taken: int) -> None:
        """Give a block back and merge it with its free neighbours at once."""
        starts, lengths = self._free_starts, self._free_lengths
        i = bisect_left(starts, address)
        joins_next = i < len(starts) and address + taken == starts[i]
        joins_previous = i > 0 and starts[i - 1] + lengths[i - 1] == address
        if joins_previous and joins_next:
            lengths[i - 1] += taken + lengths[i]
            del starts[i], lengths[i]
        elif joins_previous:
            lengths[i - 1] += taken
        elif joins_next:
            starts[i] = address
            lengths[i] += taken
        else:
            starts.insert(i, address)
            lengths.insert(i, taken)
        self.allocated -= taken
        self._largest = -1
