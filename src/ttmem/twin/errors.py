# SPDX-License-Identifier: Apache-2.0
"""Failures of an allocation or a launch, with the numbers and words that the library prints."""

from dataclasses import dataclass

from ttmem.base.errors import TtmemError
from ttmem.hardware import L1_SMALL, Memory
from ttmem.twin import error_messages
from ttmem.twin.tensor_spec import CoreRange

_NO_SMALL_REGION = (
    " The L1_SMALL region is 0 B because it is reserved at device open; set l1_small_size large enough for this "
    "allocation when opening the device."
)
_SMALL_REGION = " The L1_SMALL region is sized at device open; increase l1_small_size when opening the device."


class DeviceFailureError(TtmemError):
    """A failure of the device: the answer is "does not fit" (exit code 1)."""

    exit_code = 1


@dataclass(eq=False, repr=False, kw_only=True)
class OutOfMemoryError(DeviceFailureError):
    """No free block is large enough; nothing was allocated."""

    memory: Memory
    total_bytes: int
    banks: int
    bytes_per_bank: int
    bank_bytes: int
    allocated_bytes_per_bank: int
    free_bytes_per_bank: int
    largest_free_bytes_per_bank: int
    full_stop: bool = True

    def __post_init__(self) -> None:
        sentence = error_messages.describe_out_of_memory(
            self.total_bytes, self.memory, self.banks, self.bytes_per_bank, self.bank_bytes,
            self.allocated_bytes_per_bank, self.free_bytes_per_bank, self.largest_free_bytes_per_bank,
        )  # fmt: skip
        if self.full_stop:
            sentence += "."
            if self.memory is L1_SMALL:
                sentence += _SMALL_REGION if self.bank_bytes else _NO_SMALL_REGION
        TtmemError.__init__(self, sentence)


@dataclass(eq=False, repr=False, kw_only=True)
class StaticBuffersError(DeviceFailureError):
    """The static buffers of a program do not fit on a core range."""

    family: str
    core_range: CoreRange | None
    region_end_address: int


@dataclass(eq=False, repr=False, kw_only=True)
class BufferClashError(StaticBuffersError):
    """A program's static buffers reach into an L1 tensor."""

    lowest_address: int

    def __post_init__(self) -> None:
        message = error_messages.describe_clash(
            self.family, self.lowest_address, self.region_end_address, self.core_range
        )
        TtmemError.__init__(self, message)

    @property
    def overlap_bytes(self) -> int:
        """The bytes that the program or the tensors must release."""
        return self.region_end_address - self.lowest_address


@dataclass(eq=False, repr=False, kw_only=True)
class BufferOverflowError(StaticBuffersError):
    """A program's static buffers alone are larger than a core's L1."""

    l1_bytes_per_core: int

    def __post_init__(self) -> None:
        message = error_messages.describe_overflow(
            self.family, self.region_end_address, self.l1_bytes_per_core, self.core_range
        )
        TtmemError.__init__(self, message)
