# SPDX-License-Identifier: Apache-2.0
"""ttnn as loaded in this process: the calls that the worker needs."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from math import prod
from typing import Any, NamedTuple

from .protocol import MEMORIES

_DEEPEST = 6
"""Depth limit of nested arguments; a cyclic structure must end too."""


class BankView(NamedTuple):
    """A memory at one moment; all but the first are bytes per bank."""

    banks: int
    total: int
    allocated: int
    free: int
    largest_free: int


class MemoryRegion(NamedTuple):
    """Address and size of one memory of an opened device."""

    banks: int
    base: int
    bytes_per_bank: int


class Library:
    def __init__(self) -> None:
        self.ttnn: Any = importlib.import_module("ttnn")
        self.core: Any = self.ttnn._ttnn
        # The C++ layer: the Python one switches on a recording that needs torch.
        self.graph: Any = self.core.graph
        self.is_mock = "TT_METAL_MOCK_CLUSTER_DESC_PATH" in os.environ
        """Nothing is computed, so an operation may be repeated."""
        self.forbids_misses: set[int] = set()
        """Numbers of the devices whose program cache may not be missed."""
        self._types = {name: getattr(self.ttnn.BufferType, name) for name in MEMORIES}

    @property
    def version(self) -> str:
        """The release; empty for a build without metadata."""
        try:
            return metadata.version("ttnn")
        except metadata.PackageNotFoundError:
            return ""

    @property
    def folder(self) -> str:
        """The package's folder: frames of its files are not the user's."""
        return str(self.ttnn.__path__[0])

    def read_view(self, device: Any, memory: str) -> BankView:
        found = self.ttnn.get_memory_view(device, self._types[memory])
        return BankView(
            found.num_banks,
            found.total_bytes_per_bank,
            found.total_bytes_allocated_per_bank,
            found.total_bytes_free_per_bank,
            found.largest_contiguous_bytes_free_per_bank,
        )

    def read_views(self, device: Any) -> list[BankView]:
        return [self.read_view(device, memory) for memory in MEMORIES]

    def read_blocks(self, device: Any, memory: str, base: int) -> dict[int, int]:
        """Return the allocated blocks of a memory whose pool begins at ``base``: address -> bytes per bank."""
        return {base + address: size for address, size, taken in self.read_block_table(device, memory) if taken}

    def read_block_table(self, device: Any, memory: str) -> list[tuple[int, int, bool]]:
        """Return the library's table: offset from the pool's base, bytes, whether allocated."""
        table = self.ttnn.get_memory_view(device, self._types[memory]).block_table
        return [(int(block["address"]), int(block["size"]), block["allocated"] == "yes") for block in table]

    def read_regions(self, device: Any) -> dict[str, MemoryRegion]:
        """Return the memories' regions. The library gives the bases of DRAM and L1; the others are above those."""
        views = dict(zip(MEMORIES, self.read_views(device), strict=True))
        base = {name: self.core.device.GetAllocatorBaseAddress(device, self._types[name]) for name in ("DRAM", "L1")}
        base["L1_SMALL"] = base["L1"] + views["L1"].total
        base["TRACE"] = base["DRAM"] + views["DRAM"].total
        return {name: MemoryRegion(view.banks, base[name], view.total) for name, view in views.items()}

    @property
    def quantum(self) -> int:
        """Allocation quantum: the DRAM alignment, in all memories."""
        return int(self.core.device.get_dram_alignment())

    def is_on_device(self, tensor: Any) -> bool:
        """Return whether the tensor has a buffer of its own on a device now."""
        return bool(tensor.storage_type() == self.ttnn.DEVICE_STORAGE_TYPE and tensor.is_allocated())

    def is_freed(self, tensor: Any) -> bool:
        """Return whether it is a device tensor whose buffer was freed."""
        return bool(tensor.storage_type() == self.ttnn.DEVICE_STORAGE_TYPE and not tensor.is_allocated())

    def find_tensors(self, value: Any) -> Iterator[Any]:
        """Yield the tensors in a structure of lists, tuples and dictionaries."""
        return (thing for thing in self.find_values(value) if isinstance(thing, self.ttnn.Tensor))

    def find_values(self, value: Any, depth: int = 0) -> Iterator[Any]:
        """Yield the tensors and devices in such a structure."""
        if isinstance(value, (self.ttnn.Tensor, self.ttnn.MeshDevice)):
            yield value
        elif depth < _DEEPEST and isinstance(value, (list, tuple, dict)):
            for item in value.values() if isinstance(value, dict) else value:
                yield from self.find_values(item, depth + 1)

    def patch_cache_misses(self, patches: "Patches") -> None:
        """Track whether the program forbids cache misses, which the library does not report."""

        def make(original: Any) -> Any:
            def set_allowed(device: Any, allowed: bool) -> Any:
                (self.forbids_misses.discard if allowed else self.forbids_misses.add)(device.id())
                return original(device, allowed)

            return set_allowed

        patches.replace(self.ttnn.MeshDevice, "set_program_cache_misses_allowed", make)

    def find_device_tensors(self, value: Any) -> list[Any]:
        return [tensor for tensor in self.find_tensors(value) if self.is_on_device(tensor)]


class Patches:
    """Replaced attributes of other modules and classes, with their originals."""

    def __init__(self) -> None:
        self._originals: list[tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace an attribute by ``make(original)``, where it exists."""
        original = getattr(owner, name, None)
        if original is not None:
            self._originals.append((owner, name, original))
            setattr(owner, name, make(original))

    def undo(self) -> None:
        while self._originals:
            setattr(*self._originals.pop())


def replace_everywhere(patches: Patches, originals: set[Any], replacement: Any) -> None:
    """Replace objects under every name in the library; programs that import it later get the replacement too."""
    wanted = [original for original in originals if original is not None]
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "ttnn" and module is not None:
            for attribute, value in list(vars(module).items()):
                if any(value is original for original in wanted):
                    patches.replace(module, attribute, lambda _: replacement)


def describe_tensor(tensor: Any) -> dict[str, Any]:
    """Describe a tensor for a profile, with the library's own figures."""
    config = tensor.memory_config()
    shard = config.shard_spec
    described: dict[str, Any] = {
        "shape": list(tensor.shape),
        "padded": list(tensor.padded_shape),
        "dtype": tensor.dtype.name.lower(),
        "layout": "tile" if tensor.layout.name == "TILE" else "row_major",
        "memory": config.buffer_type.name,
        "placement": config.memory_layout.name.lower(),
        "page_bytes": tensor.buffer_page_size(),
        "pages": tensor.buffer_num_pages(),
    }
    if shard is not None:
        described["shard"] = list(shard.shape)
        described["shard_cores"] = shard.num_cores()
    if distribution := _describe_distribution(tensor):
        described["distribution"] = distribution
    return described


def _describe_distribution(tensor: Any) -> str:
    """Describe how a mesh shares the tensor: ``replicated on 8``, ``dim 3 over 8``; empty on one chip."""
    topology = getattr(tensor, "tensor_topology", None)
    if topology is None or tensor.device() is None or tensor.device().get_num_devices() == 1:
        return ""
    found = topology()
    sizes = list(found.distribution_shape())
    cuts = [
        (int(placement.dim), size)
        for placement, size in zip(found.placements(), sizes, strict=False)
        if hasattr(placement, "dim")
    ]
    return ", ".join(f"dim {dim} over {size}" for dim, size in cuts) or f"replicated on {prod(sizes)}"


def find_address(tensor: Any) -> tuple[str, int]:
    """Return memory and address of a tensor's buffer: equal for tensors that share one."""
    return tensor.memory_config().buffer_type.name, tensor.buffer_address()
