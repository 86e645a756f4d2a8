# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem test --json`` says."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ttmem.reports.kit.documents import UNSET, Document, UnsetType

_MEMORIES = ("DRAM", "L1", "L1_SMALL", "TRACE")


class MemoryPeak(Document, frozen=True):
    """The highest use of one memory during a test."""

    peak_bytes_per_bank: int
    bank_bytes: int | None
    peak_with_programs_bytes_per_core: int | UnsetType = UNSET
    """L1 alone: tensors and what programs need beside them."""


class SuiteTest(Document, frozen=True, kw_only=True):
    """One test; figures of memories that the device does not have are left out."""

    test: str
    outcome: str
    """``passed``, ``failed`` or ``skipped``."""
    dram_peak_bytes_per_bank: int | UnsetType = UNSET
    l1_peak_bytes_per_bank: int | UnsetType = UNSET
    l1_small_peak_bytes_per_bank: int | UnsetType = UNSET
    trace_peak_bytes_per_bank: int | UnsetType = UNSET
    dram_bank_bytes: int | UnsetType = UNSET
    l1_bank_bytes: int | UnsetType = UNSET
    l1_small_bank_bytes: int | UnsetType = UNSET
    trace_bank_bytes: int | UnsetType = UNSET
    l1_with_programs_bytes_per_core: int
    operations: int
    skipped_comparisons: int
    """Comparisons of values: a mock computes nothing."""
    id: str
    """pytest's name of the test."""
    memories: dict[str, MemoryPeak]


class SuiteRun(Document, frozen=True, tag_field="schema", tag="ttmem.test/1"):
    """A pytest suite of ttnn programs and the peak memory of every test."""

    status: int
    """pytest's own, 128 + signal when it was killed."""
    board: str
    tests: tuple[SuiteTest, ...]
    """The fullest first; empty when pytest did not get as far as its summary."""
    timed_out: bool


def document(status: int, board: str, rows: Sequence[Mapping[str, Any]], *, timed_out: bool) -> SuiteRun:
    """``rows`` is what the plugin measured, a mapping per test."""
    tests = [{**row, "id": row["test"], "memories": _memories(row)} for row in rows]
    return SuiteRun(status, board, msgspec.convert(tests, tuple[SuiteTest, ...]), timed_out)


def _memories(row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found = {
        memory: {"peak_bytes_per_bank": peak, "bank_bytes": row.get(f"{memory.lower()}_bank_bytes")}
        for memory in _MEMORIES
        if (peak := row.get(f"{memory.lower()}_peak_bytes_per_bank")) is not None
    }
    if "L1" in found:
        found["L1"]["peak_with_programs_bytes_per_core"] = row["l1_with_programs_bytes_per_core"]
    return found
