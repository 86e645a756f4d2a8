# SPDX-License-Identifier: Apache-2.0
"""Pages to bytes per bank: the arithmetic that every size in a log, a capture or an error message obeys.

All banks of a memory move in lock step, so one figure per bank describes a buffer on the whole chip.
"""

from ttmem.base.arithmetic import ceil_div, round_up


def interleaved_bytes_per_bank(*, pages: int, page_bytes: int, alignment_bytes: int, banks: int) -> int:
    """Pages are dealt round robin; a bank that gets one page less still reserves as much as the fullest one."""
    return ceil_div(pages, banks) * round_up(page_bytes, alignment_bytes)


def sharded_bytes_per_bank(*, shard_pages: int, page_bytes: int, alignment_bytes: int) -> int:
    """The shard shape alone decides, and every bank of the pool loses that range, used by the grid or not."""
    return shard_pages * round_up(page_bytes, alignment_bytes)


def taken_bytes_per_bank(bytes_per_bank: int, *, quantum_bytes: int) -> int:
    """What the pool really loses; memory views count this, error messages print `bytes_per_bank`.

    The quantum is the DRAM alignment (32 Wormhole, 64 Blackhole) in all four memories. Zero-volume tensors are never
    allocated, so a request that reaches the pool takes at least one quantum.
    """
    return round_up(max(bytes_per_bank, quantum_bytes), quantum_bytes)
