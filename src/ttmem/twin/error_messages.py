# SPDX-License-Identifier: Apache-2.0
"""The library's out-of-memory and clash messages, word for word, each in one place.

Uses the standard library only: the worker of the engines loads this file in an interpreter without ttmem.
"""

_ABOUT_MEMORY = ("Out of Memory", "clash with L1 buffers", "beyond max L1 size", "Cannot allocate at an address")


def is_about_memory(text: str) -> bool:
    """Return whether an error message of the library reports a lack of memory."""
    return any(mark in text for mark in _ABOUT_MEMORY)


def describe_out_of_memory(
    total_bytes: int,
    memory: object,
    banks: int,
    bytes_per_bank: int,
    bank_bytes: int,
    allocated_bytes_per_bank: int,
    free_bytes_per_bank: int,
    largest_free_bytes_per_bank: int,
) -> str:
    """Return the allocator's message; releases differ in the text that follows it."""
    return (
        f"Out of Memory: Not enough space to allocate {total_bytes} B {memory} buffer across {banks} banks, "
        f"where each bank needs to store {bytes_per_bank} B, but bank size is {bank_bytes} B "
        f"(allocated: {allocated_bytes_per_bank} B, free: {free_bytes_per_bank} B, "
        f"largest free block: {largest_free_bytes_per_bank} B)"
    )


def describe_clash(family: str, lowest_address: int, region_end_address: int, core_range: object = None) -> str:
    """Return the message for static buffers that overlap a tensor."""
    return (
        f"Statically allocated {family} buffers clash with L1 buffers{_describe_core_range(core_range)}. L1 buffer "
        f"allocated at {lowest_address} and static {family} buffer region ends at {region_end_address}"
    )


def describe_overflow(family: str, region_end_address: int, l1_bytes_per_core: int, core_range: object = None) -> str:
    """Return the message for static buffers that exceed L1."""
    return (
        f"Statically allocated {family} buffers{_describe_core_range(core_range)} grow to {region_end_address} B "
        f"which is beyond max L1 size of {l1_bytes_per_core} B"
    )


def _describe_core_range(core_range: object) -> str:
    return f" on core range {core_range}" if core_range else ""
