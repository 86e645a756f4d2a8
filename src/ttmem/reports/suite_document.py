# SPDX-License-Identifier: Apache-2.0
"""The JSON document of ``ttmem test``: the peak memory of every test of a suite."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ttmem.analysis.findings import Finding
from ttmem.analysis.lifetimes import TensorLife
from ttmem.analysis.peaks import Peak
from ttmem.analysis.programs_l1 import ProgramPeak
from ttmem.analysis.states import OperationPlace
from ttmem.analysis.suite import GrownTest, MemoryOfTest, SuiteGrowth
from ttmem.base.text_safety import replace_half_pairs
from ttmem.failures.text.find import find_failures
from ttmem.reports.kit.documents import UNSET, Document, UnsetType
from ttmem.reports.profile_document import FailureFacts, build_failure

_MEMORIES = ("DRAM", "L1", "L1_SMALL", "TRACE")
_ALWAYS = ("DRAM", "L1")
_MOST_LETTERS = 2000


class PeakTensor(Document, frozen=True):
    """A tensor alive at the peak."""

    name: str
    shape: Sequence[int]
    dtype: str
    bytes_per_bank: int
    location: str
    """The line that creates it; empty when that is outside the test."""


class TestMemoryPeak(Document, frozen=True):
    """The highest use of one memory during a test."""

    peak_bytes_per_bank: int
    bank_bytes: int | None
    peak_with_programs_bytes_per_core: int | UnsetType = UNSET
    """L1 only: tensors and the programs' buffers."""
    caused_by: OperationPlace | UnsetType | None = UNSET
    """The operation after which, or in which, the memory was fullest; null when it was full before the test."""
    top: Sequence[PeakTensor] | UnsetType = UNSET
    """DRAM and L1: the largest tensors at that moment."""
    peak_with_programs_at: OperationPlace | UnsetType = UNSET
    parts: Mapping[str, int] | UnsetType = UNSET
    """L1 with programs: bytes per core by holder."""


class SuiteTest(Document, frozen=True, kw_only=True):
    """A test; figures of memories that the device does not have, or of tests that never ran, are left out."""

    test: str
    outcome: str
    """``passed``, ``failed``, ``skipped``, ``error`` (a fixture failed, or the file could not be
    collected), ``crashed`` or ``timeout``."""
    expected_failure: str | UnsetType = UNSET
    """The reason of its xfail mark, when it applied."""
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
    operations: int = 0
    skipped_comparisons: int = 0
    """Skipped comparisons of values: a mock computes nothing."""
    unmeasured_programs: int = 0
    """Operations whose programs could not be measured in L1."""
    not_judged: str | None = None
    """The assertion of the test that failed after it had read values from the device: a mock computes none."""
    id: str
    """The node id of pytest."""
    memories: Mapping[str, TestMemoryPeak]
    """DRAM and L1 always (peaks of 0 for a test without memory), the others where the device has them."""
    failure: FailureFacts | None
    run: int | None
    """Its number in the stored report: ``ttmem profile NAME --run N``."""

    @property
    def fullness(self) -> float:
        """The share of the fuller of DRAM and L1, programs included."""
        shares = [
            (self.dram_peak_bytes_per_bank, self.dram_bank_bytes),
            (self.l1_peak_bytes_per_bank, self.l1_bank_bytes),
            (self.l1_with_programs_bytes_per_core, self.l1_bank_bytes),
        ]
        return max((used / bank for used, bank in shares if used is not UNSET and bank), default=0.0)


class Baseline(Document, frozen=True):
    """An earlier run of the same suite, and the tests that grew."""

    name: str
    max_growth: str
    compared: int
    """Tests that passed both times."""
    grown: Sequence[GrownTest]
    """The largest growth first."""
    only_before: Sequence[str]
    only_after: Sequence[str]


class TestFinding(Document, frozen=True):
    """A leak or waste of one test."""

    test: str
    kind: str
    tensor: str
    memory: str
    location: str
    bytes_per_bank: int
    held_operations: int
    message: str


class SuiteRun(Document, frozen=True, tag_field="schema", tag="ttmem.test/1"):
    """A pytest suite of ttnn programs and the peak memory of every test."""

    status: int
    """The exit status of pytest, 128 + signal when it was killed; 1 when only the baseline's limit is exceeded."""
    board: str
    """Its name; ``card`` where the tests ran on one."""
    engine: str
    ttnn: str
    tests: Sequence[SuiteTest]
    """The fullest first; empty when pytest reached no test."""
    timed_out: bool
    baseline: Baseline | None
    findings: Sequence[TestFinding] | UnsetType = UNSET
    """Leaks and waste; present when they were requested."""

    @property
    def place(self) -> str:
        """The engine and board of the tests: ``mock n150``, ``card``."""
        return self.board if self.board == self.engine else f"{self.engine} {self.board}"


def build_findings(found: Mapping[str, Sequence[Finding]]) -> tuple[TestFinding, ...]:
    """Build the findings of all tests."""
    return tuple(
        TestFinding(
            test=test,
            kind=one.kind,
            tensor=one.tensor,
            memory=one.memory,
            location=one.location,
            bytes_per_bank=one.bytes_per_bank,
            held_operations=one.held_operations,
            message=one.message,
        )
        for test, findings in found.items()
        for one in findings
    )


def add_findings(suite: SuiteRun, found: Sequence[TestFinding], wanted: Mapping[str, int]) -> SuiteRun:
    """Return the suite with the findings that count, which set its status to 1."""
    told = tuple(one for one in found if one.kind in wanted and one.bytes_per_bank >= wanted[one.kind])
    return msgspec.structs.replace(suite, findings=told, status=suite.status or int(bool(told)))


def build_document(
    status: int,
    place: str,
    rows: Sequence[Mapping[str, Any]],
    measured: Mapping[str, MemoryOfTest],
    *,
    ttnn: str,
    timed_out: bool,
    baseline: Baseline | None,
) -> SuiteRun:
    """``place`` is ``SuiteRun.place``, ``rows`` what pytest said, a mapping per test, ``measured`` what the recording
    of the suite tells."""
    told = [_build_test(row, measured.get(row["test"])) for row in rows]
    tests = msgspec.convert(told, tuple[SuiteTest, ...], from_attributes=True)
    ordered = tuple(sorted(tests, key=lambda test: (-test.fullness, test.id)))
    if baseline is not None and baseline.grown:
        status = status or 1
    engine, _, board = place.partition(" ")
    return SuiteRun(status, board or engine, engine, ttnn, ordered, timed_out, baseline)


def build_baseline(name: str, max_growth: str, growth: SuiteGrowth) -> Baseline:
    """Build the entry of a baseline."""
    return Baseline(
        name=name,
        max_growth=max_growth,
        compared=growth.compared,
        grown=growth.grown,
        only_before=growth.only_before,
        only_after=growth.only_after,
    )


def _build_test(row: Mapping[str, Any], memory: MemoryOfTest | None) -> dict[str, Any]:
    """Build a test from pytest's figures; those of its recording replace missing ones."""
    row = {**_read_recorded_figures(memory), **row} if memory else row
    return {
        **row,
        "id": row["test"],
        "memories": _build_memories(row, memory),
        "failure": _describe_failure(row),
        "not_judged": _flatten(row["not_judged"], most=300) if row.get("not_judged") else None,
        "run": memory.number if memory else None,
    }


def _read_recorded_figures(memory: MemoryOfTest) -> dict[str, Any]:
    found: dict[str, Any] = {"operations": memory.operations}
    for name, peak in memory.peaks.items():
        found[f"{name.lower()}_peak_bytes_per_bank"] = peak.peak_bytes_per_bank
        found[f"{name.lower()}_bank_bytes"] = peak.bytes_per_bank
    if memory.programs:
        found["l1_with_programs_bytes_per_core"] = memory.programs.total_bytes_per_core
        found["unmeasured_programs"] = memory.programs.unmeasured_operations
    return found


def _describe_failure(row: Mapping[str, Any]) -> FailureFacts | None:
    """Classify the error's text as explain does; a crash or timeout is its own class."""
    if row["outcome"] in ("passed", "skipped"):
        return None
    told = json.loads(row.get("failure") or "{}")
    text = replace_half_pairs(str(told.get("text", "")))
    found = next(iter(find_failures(text, include_other=True)), None)
    by_outcome = {"crashed": "crash", "timeout": "timeout"}.get(row["outcome"])
    operation = msgspec.convert(told.get("operation"), OperationPlace | None)
    if found is None or by_outcome:
        return build_failure(by_outcome or "none", None, _flatten(text), operation, found.numbers if found else {})
    return build_failure(found.failure_class, found.memory, found.message, operation, found.numbers)


def _flatten(text: str, most: int = _MOST_LETTERS) -> str:
    return " ".join(text.split())[:most]


def _build_memories(row: Mapping[str, Any], memory: MemoryOfTest | None) -> dict[str, dict[str, Any]]:
    found = {
        name: {
            "peak_bytes_per_bank": peak,
            "bank_bytes": row.get(f"{name.lower()}_bank_bytes"),
            **(_describe_causes(name, memory.peaks.get(name), memory) if memory else {}),
        }
        for name in _MEMORIES
        if (peak := row.get(f"{name.lower()}_peak_bytes_per_bank", 0 if name in _ALWAYS else None)) is not None
    }
    found["L1"]["peak_with_programs_bytes_per_core"] = row.get("l1_with_programs_bytes_per_core", 0)
    if memory and memory.programs:
        found["L1"] |= {
            "peak_with_programs_at": _locate_programs(memory.programs),
            "parts": dict(memory.programs.parts),
        }
    return found


def _describe_causes(name: str, peak: Peak | None, memory: MemoryOfTest) -> dict[str, Any]:
    if peak is None:
        return {}
    index = peak.caused_by_index
    place = None if index is None else OperationPlace(index, peak.caused_by_name, peak.caused_by_location)
    top = {"top": [_describe_tensor(life) for life in memory.top[name]]} if name in memory.top else {}
    return {"caused_by": place, **top}


def _locate_programs(programs: ProgramPeak) -> OperationPlace:
    return OperationPlace(programs.index, programs.name, programs.location)


def _describe_tensor(life: TensorLife) -> PeakTensor:
    return PeakTensor(
        name=life.name,
        shape=life.type.shape,
        dtype=life.type.dtype,
        bytes_per_bank=life.bytes_per_bank,
        location=life.location,
    )
