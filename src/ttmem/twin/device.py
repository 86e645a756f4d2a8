# SPDX-License-Identifier: Apache-2.0
"""The model of an opened device: four memory pools, their buffers, and the programs that share L1 with them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from ttmem.hardware import L1, MEMORIES, Memory, MemoryMap
from ttmem.twin.errors import OutOfMemoryError
from ttmem.twin.free_list import FreeList, FreeListState
from ttmem.twin.placement import Placement, place
from ttmem.twin.programs import DeviceProgram, ProgramLayout, Region, check_regions, lay_out
from ttmem.twin.tensor_spec import TensorSpec


class Buffer(NamedTuple):
    """An allocated tensor, at the same address in every bank. (A tuple, because replays create millions.)"""

    address: int
    placement: Placement

    @property
    def memory(self) -> Memory:
        return self.placement.spec.memory


@dataclass(frozen=True, slots=True)
class MemoryView:
    """The state of one memory, per bank, as `ttnn.get_memory_view` returns it."""

    memory: Memory
    banks: int
    total_bytes_per_bank: int
    allocated_bytes_per_bank: int
    free_bytes_per_bank: int
    largest_free_bytes_per_bank: int


Checkpoint = tuple[FreeListState, ...]
"""A snapshot of all four pools."""


class Device:
    """Allocates, frees and launches as the library does, and raises the library's errors."""

    def __init__(self, memory_map: MemoryMap) -> None:
        self.memory_map = memory_map
        self._free_lists = {
            pool.memory.name: FreeList(pool.base_address, pool.bytes_per_bank, grows_down=pool.memory.grows_down)
            for pool in memory_map.pools
        }
        self._l1 = self._free_lists[L1.name]
        # A model allocates the same few specs repeatedly, and placing one is slower than a free-list step.
        self._placements: dict[TensorSpec, Placement] = {}

    def place(self, spec: TensorSpec) -> Placement:
        """Return the cost of a spec on this device; raise InvalidSpecError where the library refuses it."""
        placement = self._placements.get(spec)
        if placement is None:
            placement = self._placements[spec] = place(spec, self.memory_map)
        return placement

    def allocate(self, spec: TensorSpec) -> Buffer:
        """Allocate a buffer or raise OutOfMemoryError with the library's numbers; an empty tensor takes no memory."""
        return self.allocate_placed(self.place(spec))

    def allocate_placed(self, placement: Placement) -> Buffer:
        """Allocate a placement that was computed for this device; replays keep theirs."""
        taken = placement.taken_bytes_per_bank
        if not taken:
            return Buffer(0, placement)
        address = self._free_lists[placement.spec.memory.name].allocate(taken)
        if address is None:
            raise self._build_out_of_memory_error(placement)
        return Buffer(address, placement)

    def free(self, buffer: Buffer) -> bool:
        """Free a buffer; return False if it is not allocated (the library ignores that too)."""
        address, placement = buffer
        if not placement.taken_bytes_per_bank:
            return True
        return self._free_lists[placement.spec.memory.name].free(address)

    def get_allocated_bytes_per_bank(self, memory: Memory) -> int:
        """Return the figure of `view`; every allocation asks for it, so no view is created."""
        return self._free_lists[memory.name].allocated_bytes

    def view(self, memory: Memory) -> MemoryView:
        pool, free_list = self.memory_map.pool(memory), self._free_lists[memory.name]
        return MemoryView(
            memory,
            pool.banks,
            pool.bytes_per_bank,
            free_list.allocated_bytes,
            free_list.free_bytes,
            free_list.largest_free_bytes,
        )

    def views(self) -> tuple[MemoryView, ...]:
        return tuple(self.view(memory) for memory in MEMORIES)

    def blocks(self, memory: Memory) -> list[tuple[int, int, bool]]:
        """Return all blocks in address order: address, bytes, whether it is allocated."""
        return self._free_lists[memory.name].blocks()

    @property
    def lowest_l1_address(self) -> int | None:
        """The address of the lowest L1 tensor: the upper limit of every program's static buffers."""
        return self._l1.lowest_taken_address

    def launch(self, program: DeviceProgram) -> ProgramLayout:
        """Compute the layout of a program and check it against the current tensors, as every enqueue does."""
        layout = lay_out(program, self.memory_map)
        self.check(layout.regions, program.family)
        return layout

    def check(self, regions: tuple[Region, ...], family: str) -> None:
        """Raise the clash or overflow that the library would."""
        check_regions(regions, family, self.memory_map, self._l1.lowest_taken_address)

    def check_region(self, end_address: int, family: str) -> None:
        """Check an operation whose static buffers have a known height and unknown cores."""
        self.check((Region(None, end_address),), family)

    def checkpoint(self) -> Checkpoint:
        return tuple(free_list.checkpoint() for free_list in self._free_lists.values())

    def restore(self, checkpoint: Checkpoint) -> None:
        for free_list, state in zip(self._free_lists.values(), checkpoint, strict=True):
            free_list.restore(state)

    @contextmanager
    def preserve_state(self) -> Iterator[None]:
        """Restore all memories on exit."""
        before = self.checkpoint()
        try:
            yield
        finally:
            self.restore(before)

    def _build_out_of_memory_error(self, placement: Placement) -> OutOfMemoryError:
        view = self.view(placement.spec.memory)
        return OutOfMemoryError(
            memory=view.memory,
            total_bytes=placement.total_bytes,
            banks=placement.banks,
            bytes_per_bank=placement.bytes_per_bank,
            bank_bytes=view.total_bytes_per_bank,
            allocated_bytes_per_bank=view.allocated_bytes_per_bank,
            free_bytes_per_bank=view.free_bytes_per_bank,
            largest_free_bytes_per_bank=view.largest_free_bytes_per_bank,
            full_stop=self.memory_map.release.full_stop_after_oom,
        )


class WatchedDevice(Device):
    """A device that records the peak of each memory."""

    def __init__(self, memory_map: MemoryMap) -> None:
        super().__init__(memory_map)
        self.peaks = {memory.name: 0 for memory in MEMORIES}

    def allocate_placed(self, placement: Placement) -> Buffer:
        buffer = super().allocate_placed(placement)
        memory = placement.spec.memory
        held = self.get_allocated_bytes_per_bank(memory)
        if held > self.peaks[memory.name]:
            self.peaks[memory.name] = held
        return buffer
