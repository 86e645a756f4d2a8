# SPDX-License-Identifier: Apache-2.0
"""Figures of real error messages, which are per bank."""

from __future__ import annotations

import pytest

from ttmem.twin.placement import (
    compute_interleaved_bytes_per_bank,
    compute_sharded_bytes_per_bank,
    compute_taken_bytes_per_bank,
)


@pytest.mark.parametrize(
    ("size_bytes", "page_bytes", "per_bank"),
    [(3294625792, 402176, 274686208), (146575360, 1088, 12214976), (58720256, 2048, 4894720)],
)
def test_interleaved_as_printed_by_real_messages(size_bytes, page_bytes, per_bank):
    pages = size_bytes // page_bytes
    assert (
        compute_interleaved_bytes_per_bank(pages=pages, page_bytes=page_bytes, alignment_bytes=32, banks=12) == per_bank
    )


def test_a_shard_costs_its_pages_whatever_the_grid():
    assert compute_sharded_bytes_per_bank(shard_pages=4, page_bytes=2048, alignment_bytes=16) == 8192
    assert compute_sharded_bytes_per_bank(shard_pages=3, page_bytes=20, alignment_bytes=16) == 96


def test_the_pool_loses_whole_quanta():
    assert compute_taken_bytes_per_bank(1, quantum_bytes=32) == 32
    assert compute_taken_bytes_per_bank(33, quantum_bytes=32) == 64
    assert compute_taken_bytes_per_bank(64, quantum_bytes=64) == 64
