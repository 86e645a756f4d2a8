# SPDX-License-Identifier: Apache-2.0
"""The free blocks of one memory, the same in all its banks: address-ordered first fit.

The library keeps size classes for speed but compares the best address over all of them. So a pool that grows up takes
the lowest block that is large enough; one that grows down takes the highest and cuts from its top. Free neighbours
merge at once; there is no compaction.

Blocks are stored in chunks of bounded length, each with its largest size, so a search skips whole chunks: a pool in
100,000 pieces stays usable, and a usual pool of a few dozen blocks is one chunk.
"""

from bisect import bisect_right
from dataclasses import dataclass

_CHUNK_BLOCKS = 512


@dataclass(frozen=True, slots=True)
class FreeListState:
    """An immutable snapshot of a free list."""

    starts: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[int, ...], ...]
    taken: dict[int, int]
    allocated_bytes: int


class FreeList:
    """Free and taken blocks of `[base_address, base_address + total_bytes)`, per bank."""

    __slots__ = (
        "_firsts",
        "_largest",
        "_sizes",
        "_starts",
        "_taken",
        "allocated_bytes",
        "base_address",
        "grows_down",
        "total_bytes",
    )

    def __init__(self, base_address: int, total_bytes: int, *, grows_down: bool) -> None:
        self.base_address = base_address
        self.total_bytes = total_bytes
        self.grows_down = grows_down
        self.allocated_bytes = 0
        self._taken: dict[int, int] = {}
        # Chunk by chunk: block starts in address order, their sizes, the first start, the largest size.
        # No chunk is empty.
        self._starts: list[list[int]] = []
        self._sizes: list[list[int]] = []
        self._firsts: list[int] = []
        self._largest: list[int] = []
        if total_bytes:
            self._insert(base_address, total_bytes)

    @property
    def free_bytes(self) -> int:
        return self.total_bytes - self.allocated_bytes

    @property
    def largest_free_bytes(self) -> int:
        return max(self._largest, default=0)

    @property
    def lowest_taken_address(self) -> int | None:
        """Lowest address in use, which is the ceiling of circular buffers; None while nothing is in use."""
        if not self._taken:
            return None
        if self._firsts and self._firsts[0] == self.base_address:
            return self.base_address + self._sizes[0][0]
        return self.base_address

    def blocks(self) -> list[tuple[int, int, bool]]:
        """Return all blocks in address order: address, bytes, whether it is allocated."""
        free = [
            (start, size, False)
            for starts, sizes in zip(self._starts, self._sizes, strict=True)
            for start, size in zip(starts, sizes, strict=True)
        ]
        return sorted(free + [(address, size, True) for address, size in self._taken.items()])

    def allocate(self, wanted_bytes: int) -> int | None:
        """Return the address of a new block, or None if no free block is large enough."""
        largest = self._largest
        if self.grows_down:
            chunk = len(largest) - 1
            while chunk >= 0 and largest[chunk] < wanted_bytes:
                chunk -= 1
            if chunk < 0:
                return None
            sizes = self._sizes[chunk]
            index = len(sizes) - 1
            while sizes[index] < wanted_bytes:
                index -= 1
            size = sizes[index]
            address = self._starts[chunk][index] + size - wanted_bytes
        else:
            chunk, chunks = 0, len(largest)
            while chunk < chunks and largest[chunk] < wanted_bytes:
                chunk += 1
            if chunk == chunks:
                return None
            sizes = self._sizes[chunk]
            index = 0
            while sizes[index] < wanted_bytes:
                index += 1
            size = sizes[index]
            address = self._starts[chunk][index]
        if size == wanted_bytes:
            self._remove(chunk, index)
        else:
            sizes[index] = size - wanted_bytes
            if not self.grows_down:
                self._starts[chunk][index] = address + wanted_bytes
                if index == 0:
                    self._firsts[chunk] = address + wanted_bytes
            if size == largest[chunk]:
                largest[chunk] = max(sizes)
        self._taken[address] = wanted_bytes
        self.allocated_bytes += wanted_bytes
        return address

    def take(self, address: int, size: int) -> bool:
        """Allocate exactly this block; return False if part of it is not free."""
        if not size:
            return True
        chunk = bisect_right(self._firsts, address) - 1
        if chunk < 0:
            return False
        starts, sizes = self._starts[chunk], self._sizes[chunk]
        index = bisect_right(starts, address) - 1
        free = sizes[index]
        before = address - starts[index]
        after = free - before - size
        if after < 0:
            return False
        if before:
            sizes[index] = before
        elif after:
            sizes[index] = after
            starts[index] = address + size
            self._firsts[chunk] = starts[0]
        else:
            self._remove(chunk, index)
        if (before or after) and free == self._largest[chunk]:
            self._largest[chunk] = max(sizes)
        if before and after:
            self._insert(address + size, after)
        self._taken[address] = size
        self.allocated_bytes += size
        return True

    def free(self, address: int) -> bool:
        """Free a block and merge it with free neighbours; return False for an unknown address."""
        size = self._taken.pop(address, None)
        if size is None:
            return False
        self.allocated_bytes -= size
        end = address + size
        chunk = bisect_right(self._firsts, address) - 1
        if chunk < 0:
            if self._firsts and self._firsts[0] == end:
                self._grow(0, 0, size, new_start=address)
            else:
                self._insert(address, size)
            return True
        starts, sizes = self._starts[chunk], self._sizes[chunk]
        before = bisect_right(starts, address) - 1
        after_chunk, after = (chunk, before + 1) if before + 1 < len(starts) else (chunk + 1, 0)
        touches_after = after_chunk < len(self._starts) and self._starts[after_chunk][after] == end
        if starts[before] + sizes[before] == address:
            if touches_after:
                size += self._sizes[after_chunk][after]
                self._grow(chunk, before, size)
                self._remove(after_chunk, after)
            else:
                self._grow(chunk, before, size)
        elif touches_after:
            self._grow(after_chunk, after, size, new_start=address)
        else:
            self._insert(address, size)
        return True

    def checkpoint(self) -> FreeListState:
        return FreeListState(
            tuple(tuple(chunk) for chunk in self._starts),
            tuple(tuple(chunk) for chunk in self._sizes),
            dict(self._taken),
            self.allocated_bytes,
        )

    def restore(self, state: FreeListState) -> None:
        self._starts = [list(chunk) for chunk in state.starts]
        self._sizes = [list(chunk) for chunk in state.sizes]
        self._firsts = [chunk[0] for chunk in state.starts]
        self._largest = [max(chunk) for chunk in state.sizes]
        self._taken = dict(state.taken)
        self.allocated_bytes = state.allocated_bytes

    def _grow(self, chunk: int, index: int, by_bytes: int, *, new_start: int | None = None) -> None:
        size = self._sizes[chunk][index] = self._sizes[chunk][index] + by_bytes
        if new_start is not None:
            self._starts[chunk][index] = new_start
            if index == 0:
                self._firsts[chunk] = new_start
        if size > self._largest[chunk]:
            self._largest[chunk] = size

    def _insert(self, start: int, size: int) -> None:
        chunk = max(bisect_right(self._firsts, start) - 1, 0)
        if not self._starts:
            self._put_chunk(0, [start], [size])
            return
        starts, sizes = self._starts[chunk], self._sizes[chunk]
        index = bisect_right(starts, start)
        starts.insert(index, start)
        sizes.insert(index, size)
        self._firsts[chunk] = starts[0]
        if size > self._largest[chunk]:
            self._largest[chunk] = size
        if len(starts) > _CHUNK_BLOCKS:
            half = len(starts) // 2
            self._put_chunk(chunk + 1, starts[half:], sizes[half:])
            del starts[half:], sizes[half:]
            self._largest[chunk] = max(sizes)

    def _remove(self, chunk: int, index: int) -> None:
        starts, sizes = self._starts[chunk], self._sizes[chunk]
        del starts[index]
        size = sizes.pop(index)
        if not starts:
            del self._starts[chunk], self._sizes[chunk], self._firsts[chunk], self._largest[chunk]
            return
        if index == 0:
            self._firsts[chunk] = starts[0]
        if size == self._largest[chunk]:
            self._largest[chunk] = max(sizes)
        # Small neighbours merge again; otherwise a pool that was fragmented once would stay slow.
        if chunk and len(starts) + len(self._starts[chunk - 1]) < _CHUNK_BLOCKS // 2:
            self._starts[chunk - 1] += starts
            self._sizes[chunk - 1] += sizes
            self._largest[chunk - 1] = max(self._largest[chunk - 1], self._largest[chunk])
            del self._starts[chunk], self._sizes[chunk], self._firsts[chunk], self._largest[chunk]

    def _put_chunk(self, chunk: int, starts: list[int], sizes: list[int]) -> None:
        self._starts.insert(chunk, starts)
        self._sizes.insert(chunk, sizes)
        self._firsts.insert(chunk, starts[0])
        self._largest.insert(chunk, max(sizes))
