# SPDX-License-Identifier: Apache-2.0
"""Why something does not fit, with the very numbers and words that the library prints."""

from __future__ import annotations

from ttmem._errors import TtmemError
from ttmem.allocator import sentences
from ttmem.hardware import L1_SMALL, Memory
from ttmem.tensors import CoreRange

_NO_SMALL_REGION = (
    " The L1_SMALL region is 0 B because it is reserved at device open; set l1_small_size large enough for this "
    "allocation when opening the device."
)
_SMALL_REGION = " The L1_SMALL region is sized at device open; increase l1_small_size when opening the device."


class DeviceFailureError(TtmemError):
    """The device would have said no: the answer is "does not fit" (exit 1)."""

    exit_code = 1


class OutOfMemoryError(DeviceFailureError):
    """No free block is large enough; nothing was allocated."""

    def __init__(
        self,
        *,
        memory: Memory,
        total_bytes: int,
        banks: int,
        bytes_per_bank: int,
        bank_bytes: int,
        allocated_bytes_per_bank: int,
        free_bytes_per_bank: int,
        largest_free_bytes_per_bank: int,
        full_stop: bool = True,
    ) -> None:
        self.memory = memory
        self.total_bytes = total_bytes
        self.banks = banks
        self.bytes_per_bank = bytes_per_bank
        self.bank_bytes = bank_bytes
        self.allocated_bytes_per_bank = allocated_bytes_per_bank
        self.free_bytes_per_bank = free_bytes_per_bank
        self.largest_free_bytes_per_bank = largest_free_bytes_per_bank
        advice = ""
        if full_stop:
            advice = "."
            if memory is L1_SMALL:
                advice += _SMALL_REGION if bank_bytes else _NO_SMALL_REGION
        sentence = sentences.out_of_memory(
            total_bytes,
            memory,
            banks,
            bytes_per_bank,
            bank_bytes,
            allocated_bytes_per_bank,
            free_bytes_per_bank,
            largest_free_bytes_per_bank,
        )
        super().__init__(sentence + advice)


class StaticBuffersError(DeviceFailureError):
    """The static buffers of a program do not fit on a core range."""

    def __init__(self, message: str, *, family: str, core_range: CoreRange | None, region_end_address: int) -> None:
        super().__init__(message)
        self.family = family
        self.core_range = core_range
        self.region_end_address = region_end_address


class BufferClashError(StaticBuffersError):
    """A program's static buffers reach into an L1 tensor."""

    def __init__(
        self, *, family: str, core_range: CoreRange | None, region_end_address: int, lowest_address: int
    ) -> None:
        self.lowest_address = lowest_address
        super().__init__(
            sentences.clash(family, lowest_address, region_end_address, core_range),
            family=family,
            core_range=core_range,
            region_end_address=region_end_address,
        )

    @property
    def overlap_bytes(self) -> int:
        """Bytes to win back, from the program or from the tensors."""
        return self.region_end_address - self.lowest_address


class BufferOverflowError(StaticBuffersError):
    """A program's static buffers alone are larger than a core's L1."""

    def __init__(
        self, *, family: str, core_range: CoreRange | None, region_end_address: int, l1_bytes_per_core: int
    ) -> None:
        self.l1_bytes_per_core = l1_bytes_per_core
        super().__init__(
            sentences.overflow(family, region_end_address, l1_bytes_per_core, core_range),
            family=family,
            core_range=core_range,
            region_end_address=region_end_address,
        )
