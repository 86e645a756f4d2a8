# SPDX-License-Identifier: Apache-2.0
"""The twin: the library's allocator and its rules for static buffers, exact to the byte."""

from ttmem.allocator.device import Buffer, Checkpoint, Device, WatchedDevice
from ttmem.allocator.failures import (
    BufferClashError,
    BufferOverflowError,
    DeviceFailureError,
    OutOfMemoryError,
    StaticBuffersError,
)
from ttmem.allocator.free_list import FreeList
from ttmem.allocator.programs import (
    CIRCULAR,
    DATAFLOW,
    Program,
    ProgramLayout,
    Region,
    StaticBuffer,
    check_regions,
    end_of_stack,
    lay_out,
)

__all__ = [
    "CIRCULAR",
    "DATAFLOW",
    "Buffer",
    "BufferClashError",
    "BufferOverflowError",
    "Checkpoint",
    "Device",
    "DeviceFailureError",
    "FreeList",
    "OutOfMemoryError",
    "Program",
    "ProgramLayout",
    "Region",
    "StaticBuffer",
    "StaticBuffersError",
    "WatchedDevice",
    "check_regions",
    "end_of_stack",
    "lay_out",
]
