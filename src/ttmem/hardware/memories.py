# SPDX-License-Identifier: Apache-2.0
"""The four memories that the allocator keeps apart."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.hardware._registry import Registry


@dataclass(frozen=True, slots=True)
class Memory:
    """One pool of the allocator, named as ttnn's BufferType and its messages name it."""

    name: str
    in_dram: bool
    """True: banks are DRAM channels with DRAM alignment. False: banks are the L1 of compute cores."""
    grows_down: bool
    """True: first fit from the top, so that tensors and circular buffers meet in the middle of L1."""
    description: str
    aliases: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


DRAM = Memory("DRAM", in_dram=True, grows_down=False, description="tensors in device DRAM")
L1 = Memory("L1", in_dram=False, grows_down=True, description="tensors in the SRAM of the compute cores")
L1_SMALL = Memory(
    "L1_SMALL",
    in_dram=False,
    grows_down=True,
    description="small sharded buffers at the top of L1 (conv2d, pooling); 0 B unless l1_small_size is set",
    aliases=("L1 SMALL", "L1-SMALL", "L1SMALL"),
)
TRACE = Memory("TRACE", in_dram=True, grows_down=False, description="recorded traces, above the DRAM pool")

MEMORIES: Registry[Memory] = Registry("memory", (DRAM, L1, L1_SMALL, TRACE))
