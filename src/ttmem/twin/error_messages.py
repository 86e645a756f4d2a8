# SPDX-License-Identifier: Apache-2.0
"""What the library prints when something does not fit, word for word; each sentence is written here alone.

The standard library alone: the worker of the engines loads this file under an interpreter that need not have ttmem.
"""

_ABOUT_MEMORY = (
    "Out of Memory",
    "clash with L1 buffers",
    "beyond max L1 size",
    "Cannot allocate at an address",
)


def is_about_memory(text: str) -> bool:
    """Whether an error of the library says that something does not fit."""
    return any(mark in text for mark in _ABOUT_MEMORY)


def out_of_memory(
    total_bytes: int,
    memory: object,
    banks: int,
    bytes_per_bank: int,
    bank_bytes: int,
    allocated_bytes_per_bank: int,
    free_bytes_per_bank: int,
    largest_free_bytes_per_bank: int,
) -> str:
    """The allocator's; releases differ in what follows it."""
    return (
        f"Out of Memory: Not enough space to allocate {total_bytes} B {memory} buffer across {banks} banks, "
        f"where each bank needs to store {bytes_per_bank} B, but bank size is {bank_bytes} B "
        f"(allocated: {allocated_bytes_per_bank} B, free: {free_bytes_per_bank} B, "
        f"largest free block: {largest_free_bytes_per_bank} B)"
    )


def clash(family: str, lowest_address: int, region_end_address: int, core_range: object = None) -> str:
    """Static buffers that reach into a tensor."""
    return (
        f"Statically allocated {family} buffers clash with L1 buffers{_on(core_range)}. L1 buffer "
        f"allocated at {lowest_address} and static {family} buffer region ends at {region_end_address}"
    )


def overflow(family: str, region_end_address: int, l1_bytes_per_core: int, core_range: object = None) -> str:
    """Static buffers that are larger than L1."""
    return (
        f"Statically allocated {family} buffers{_on(core_range)} grow to {region_end_address} B "
        f"which is beyond max L1 size of {l1_bytes_per_core} B"
    )


def _on(core_range: object) -> str:
    return f" on core range {core_range}" if core_range else ""
