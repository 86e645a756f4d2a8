# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem test --json`` says."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ttmem.explain import find_failures
from ttmem.reports.kit.documents import UNSET, Document, UnsetType
from ttmem.reports.profile.document_parts import FAILURE_FIGURES, FailureFacts

_MEMORIES = ("DRAM", "L1", "L1_SMALL", "TRACE")
_MOST_LETTERS = 2000


class MemoryPeak(Document, frozen=True):
    """The highest use of one memory during a test."""

    peak_bytes_per_bank: int
    bank_bytes: int | None
    peak_with_programs_bytes_per_core: int | UnsetType = UNSET
    """L1 alone: tensors and what programs need beside them."""


class SuiteTest(Document, frozen=True, kw_only=True):
    """One test; figures of memories that the device does not have, or of what never ran, are left out."""

    test: str
    outcome: str
    """``passed``, ``failed``, ``skipped``, ``error`` (a fixture failed), ``crashed`` or ``timeout``."""
    seconds: float
    dram_peak_bytes_per_bank: int | UnsetType = UNSET
    l1_peak_bytes_per_bank: int | UnsetType = UNSET
    l1_small_peak_bytes_per_bank: int | UnsetType = UNSET
    trace_peak_bytes_per_bank: int | UnsetType = UNSET
    dram_bank_bytes: int | UnsetType = UNSET
    l1_bank_bytes: int | UnsetType = UNSET
    l1_small_bank_bytes: int | UnsetType = UNSET
    trace_bank_bytes: int | UnsetType = UNSET
    l1_with_programs_bytes_per_core: int | UnsetType = UNSET
    operations: int | None = None
    skipped_comparisons: int | None = None
    """Comparisons of values: a mock computes nothing."""
    unmeasured_programs: int | None = None
    """Operations whose programs could not be measured in L1."""
    id: str
    """pytest's name of the test."""
    memories: dict[str, MemoryPeak]
    failure: FailureFacts | None


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
    tests = [{**row, "id": row["test"], "memories": _memories(row), "failure": _failure(row)} for row in rows]
    return SuiteRun(status, board, msgspec.convert(tests, tuple[SuiteTest, ...]), timed_out)


def _failure(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the error's text says, in the classes of explain; how a process ended says itself."""
    if row["outcome"] in ("passed", "skipped"):
        return None
    told = json.loads(row.get("failure") or "{}")
    text = str(told.get("text", ""))
    found = next(iter(find_failures(text, include_other=True)), None)
    by_outcome = {"crashed": "crash", "timeout": "timeout"}.get(row["outcome"])
    return {
        "class": by_outcome or (found.failure_class if found else "none"),
        "memory": found.memory if found and not by_outcome else None,
        "message": found.message if found and not by_outcome else " ".join(text.split())[:_MOST_LETTERS],
        "operation": told.get("operation"),
        **{name: found.numbers.get(name) if found else None for name in FAILURE_FIGURES},
    }


def _memories(row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found = {
        memory: {"peak_bytes_per_bank": peak, "bank_bytes": row.get(f"{memory.lower()}_bank_bytes")}
        for memory in _MEMORIES
        if (peak := row.get(f"{memory.lower()}_peak_bytes_per_bank")) is not None
    }
    if "L1" in found:
        found["L1"]["peak_with_programs_bytes_per_core"] = row.get("l1_with_programs_bytes_per_core", 0)
    return found
