# SPDX-License-Identifier: Apache-2.0
"""Which page sizes explain a request: the arithmetic that turns three figures of a message into a tensor.

A buffer of ``total_bytes`` in pages of p bytes, dealt round robin over the banks, makes each bank store
``ceil(pages / banks) * p``. So p divides the total and the share of a bank, and fewer than ``banks`` pages are missing
from a full last row: ``banks * share - total < banks * p``.
"""

from __future__ import annotations

from math import gcd

_MOST_PAGES_LISTED = 256


def page_sizes(total_bytes: int, banks: int, bytes_per_bank: int, alignment_bytes: int) -> tuple[int, ...]:
    """Every aligned page size that gives exactly this share per bank, the largest first; empty when none does.

    Messages count aligned pages in the total (allocator rules 3), so a page of 100 bytes shows as 128 in DRAM.
    """
    if min(total_bytes, banks, bytes_per_bank) <= 0:
        return ()
    missing_bytes = banks * bytes_per_bank - total_bytes
    if missing_bytes < 0:
        return ()
    common = gcd(total_bytes, bytes_per_bank)
    return tuple(
        page
        for page in sorted(_divisors(common), reverse=True)
        if page * banks > missing_bytes and page % alignment_bytes == 0
    )[:_MOST_PAGES_LISTED]


def is_even_split(total_bytes: int, banks: int, bytes_per_bank: int) -> bool:
    """Whether the total divides over the banks without a rest: then any page fits, and none is singled out."""
    return banks * bytes_per_bank == total_bytes


def _divisors(number: int) -> list[int]:
    found = [1]
    factor, rest = 2, number
    while factor * factor <= rest:
        powers = [1]
        while rest % factor == 0:
            rest //= factor
            powers.append(powers[-1] * factor)
        found = [known * power for known in found for power in powers]
        factor += 1
    if rest > 1:
        found += [known * rest for known in found]
    return found
