# SPDX-License-Identifier: Apache-2.0
"""ttnn as this process has it: the few calls that the rest of the worker needs, with their odd corners rounded off."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from .protocol import MEMORIES


class View(NamedTuple):
    """One memory at one moment; all but the first are bytes per bank."""

    banks: int
    total: int
    allocated: int
    free: int
    largest_free: int


class Pool(NamedTuple):
    """Where one memory of an opened device lies."""

    banks: int
    base: int
    bytes_per_bank: int


class Library:
    """The loaded ttnn."""

    def __init__(self) -> None:
        self.ttnn: Any = importlib.import_module("ttnn")
        self.core: Any = self.ttnn._ttnn
        # The C++ layer: the Python one switches on a recording that needs torch.
        self.graph: Any = self.core.graph
        self._types = {name: getattr(self.ttnn.BufferType, name) for name in MEMORIES}

    @property
    def version(self) -> str:
        """The release, or empty for a build of one's own without metadata."""
        from importlib import metadata

        try:
            return metadata.version("ttnn")
        except metadata.PackageNotFoundError:
            return ""

    @property
    def folder(self) -> str:
        """Where the package lies: frames of its own files are not the user's."""
        path: str = self.ttnn.__path__[0]
        return path

    def view(self, device: Any, memory: str) -> View:
        """The allocator's own account of one memory."""
        found = self.ttnn.get_memory_view(device, self._types[memory])
        return View(
            found.num_banks,
            found.total_bytes_per_bank,
            found.total_bytes_allocated_per_bank,
            found.total_bytes_free_per_bank,
            found.largest_contiguous_bytes_free_per_bank,
        )

    def views(self, device: Any) -> list[View]:
        """All four memories, in the order of ``MEMORIES``."""
        return [self.view(device, memory) for memory in MEMORIES]

    def blocks(self, device: Any, memory: str, base: int) -> dict[int, int]:
        """What is taken in one memory whose pool begins at ``base``: address -> bytes per bank."""
        return {base + address: size for address, size, taken in self.block_table(device, memory) if taken}

    def block_table(self, device: Any, memory: str) -> list[tuple[int, int, bool]]:
        """The library's own table: address from the pool's base, bytes, whether taken."""
        table = self.ttnn.get_memory_view(device, self._types[memory]).block_table
        return [(int(block["address"]), int(block["size"]), block["allocated"] == "yes") for block in table]

    def pools(self, device: Any) -> dict[str, Pool]:
        """Where the memories lie. The library tells only the bases of DRAM and L1; the others lie above those."""
        views = dict(zip(MEMORIES, self.views(device), strict=True))
        base = {name: self.core.device.GetAllocatorBaseAddress(device, self._types[name]) for name in ("DRAM", "L1")}
        base["L1_SMALL"] = base["L1"] + views["L1"].total
        base["TRACE"] = base["DRAM"] + views["DRAM"].total
        return {name: Pool(view.banks, base[name], view.total) for name, view in views.items()}

    @property
    def quantum(self) -> int:
        """Every allocation is rounded up to the DRAM alignment, in all memories."""
        alignment: int = self.core.device.get_dram_alignment()
        return alignment

    def is_on_device(self, tensor: Any) -> bool:
        """Whether the tensor has a buffer of its own on a device right now."""
        return bool(tensor.storage_type() == self.ttnn.DEVICE_STORAGE_TYPE and tensor.is_allocated())
