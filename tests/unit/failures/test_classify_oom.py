# SPDX-License-Identifier: Apache-2.0
"""The class of an allocator failure follows from its figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from ttmem.failures.diagnosis.diagnose import explain
from ttmem.failures.failure import classify_oom
from ttmem.failures.text.find import find_failures

BANK = 1_000_000


@pytest.mark.parametrize(
    ("need", "bank", "allocated", "free", "largest", "memory", "expected"),
    [
        # nothing that is freed would help
        (BANK + 1, BANK, 0, BANK, BANK, "L1", "oom/too-big"),
        (BANK + 1, BANK, None, None, None, "DRAM", "oom/too-big"),
        # exactly the bank is not too big
        (BANK, BANK, 32, BANK - 32, BANK - 32, "L1", "oom/capacity"),
        (100, BANK, BANK - 99, 99, 99, "DRAM", "oom/capacity"),
        (100, BANK, BANK - 100, 100, 99, "DRAM", "oom/fragmented"),
        (100, BANK, BANK - 100, 100, None, "DRAM", "oom/unknown"),
        # allocated and bank give free
        (100, BANK, BANK - 99, None, None, "DRAM", "oom/capacity"),
        # a hole that is large enough contradicts the failure
        (100, BANK, BANK - 200, 200, 150, "L1", "oom/unknown"),
        # never configured, whatever the rest says
        (448, 0, None, None, None, "L1_SMALL", "oom/unconfigured"),
        (448, 0, 0, 0, 0, "L1_SMALL", "oom/unconfigured"),
        (33792, 32768, None, None, None, "L1_SMALL", "oom/too-big"),
        # a trace buffer: the region is too small, by any arithmetic
        (8192, 256, 0, 256, 256, "TRACE", "trace/region"),
        (8192, 0, None, None, None, "TRACE", "trace/region"),
        # 2025: the bank is known, its content is not
        (BANK // 2 + 1, BANK, None, None, None, "L1", "oom/capacity"),
        (BANK // 2, BANK, None, None, None, "L1", "oom/unknown"),
        # 2023-2025: not even the bank
        (100, None, None, None, None, "L1", "oom/unknown"),
        (None, None, None, None, None, None, "oom/unknown"),
        (None, BANK, 0, BANK, BANK, "DRAM", "oom/unknown"),
    ],
)
def test_by_hand(
    need: int | None,
    bank: int | None,
    allocated: int | None,
    free: int | None,
    largest: int | None,
    memory: str | None,
    expected: str,
) -> None:
    assert classify_oom(need, bank, allocated, free, largest, memory) == expected


@given(
    holes=st.lists(st.integers(1, 400).map(lambda units: units * 32), max_size=6),
    blocks=st.lists(st.integers(1, 400).map(lambda units: units * 32), max_size=6),
    need=st.integers(1, 2000).map(lambda units: units * 32),
    memory=st.sampled_from(["DRAM", "L1", "L1_SMALL"]),
)
@examples(500)
def test_the_message_of_any_allocator_state_is_read_back_exactly(
    holes: list[int], blocks: list[int], need: int, memory: str
) -> None:
    # GIVEN a bank of holes and blocks, and a request that no hole can take
    free, allocated, largest = sum(holes), sum(blocks), max(holes, default=0)
    if need <= largest:
        need = largest + 32
    bank = free + allocated
    message = (
        f"Out of Memory: Not enough space to allocate {need * 12} B {memory} buffer across 12 banks, where each bank "
        f"needs to store {need} B, but bank size is {bank} B (allocated: {allocated} B, free: {free} B, largest free "
        f"block: {largest} B)."
    )
    # WHEN the library's message is read
    (failure,) = find_failures(message)
    # THEN the figures are those of the state, and the class is what the state implies
    assert failure.numbers == {
        "requested_bytes": need * 12,
        "banks": 12,
        "bytes_per_bank": need,
        "bank_bytes": bank,
        "allocated": allocated,
        "free": free,
        "largest_free": largest,
    }
    assert failure.memory == memory
    if bank == 0:
        assert failure.failure_class == "oom/unconfigured"
    elif need > bank:
        assert failure.failure_class == "oom/too-big"
    elif need > free:
        assert failure.failure_class == "oom/capacity"
    else:
        assert failure.failure_class == "oom/fragmented"


def test_a_message_cut_before_the_share_of_a_bank_is_judged_by_the_even_share() -> None:
    # 120000 B over 12 banks is at least 10000 B in each, and 9000 B are free
    (failure,) = find_failures(
        "Out of Memory: Not enough space to allocate 120000 B DRAM buffer across 12 banks, but bank size is 50000 B "
        "(allocated: 41000 B, free: 9000 B, largest free block: 9000 B)"
    )
    assert failure.failure_class == "oom/capacity"
    assert "bytes_per_bank" not in failure.numbers


def test_a_mistyped_paste_is_noted() -> None:
    (failure,) = find_failures(
        "Out of Memory: Not enough space to allocate 1200 B DRAM buffer across 12 banks, where each bank needs to "
        "store 100 B, but bank size is 1000 B (allocated: 941 B, free: 95 B, largest free block: 95 B)"
    )
    assert failure.texts["note"] == "allocated + free is 1036 B but the bank is 1000 B: a figure is mistyped"


GIB = 1 << 30
OLD = "Out of Memory: Not enough space to allocate {} B {} buffer across {} banks, where each bank needs to store {} B"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # beyond the largest bank that a board with so many banks can have
        (OLD.format(18 * GIB, "DRAM", 12, 18 * GIB // 12), "oom/too-big"),
        (OLD.format(40 * GIB, "DRAM", 8, 5 * GIB), "oom/too-big"),
        (OLD.format(64 * 2_000_000, "L1", 64, 2_000_000), "oom/too-big"),
        (OLD.format(64 * 1_600_000, "L1_SMALL", 64, 1_600_000), "oom/too-big"),
        ("Out of Memory: Not enough space to allocate 42949672960 B DRAM buffer across 8 banks", "oom/too-big"),
        ("Out of Memory: Not enough space to allocate 99999999999 B DRAM buffer", "oom/too-big"),
        ("Cannot allocate 99999999 KB sized buffer in banks!", "oom/unknown"),  # of a memory that is not named
        # within a bank of the board: the message cannot tell
        (OLD.format(2 * GIB * 8, "DRAM", 8, 2 * GIB), "oom/unknown"),
        (OLD.format(12 * 999_999_968, "DRAM", 12, 999_999_968), "oom/unknown"),
        (OLD.format(64 * 1_400_000, "L1", 64, 1_400_000), "oom/unknown"),
        (OLD.format(8 * 9 * GIB, "TRACE", 8, 9 * GIB), "trace/region"),
    ],
)
def test_more_than_any_board_has_is_too_big_whatever_the_message_lacks(text: str, expected: str) -> None:
    (told,) = explain(text)
    assert told.failure.failure_class == expected
    if expected == "oom/too-big":
        assert told.headline.startswith("Too big for")
        assert told.confidence == "certain"
