# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem diff --json`` says: a contract, keys may be added."""

from __future__ import annotations

from typing import Literal

from ttmem.analysis.diff import MemoryChange, MemoryDiff, TensorChange
from ttmem.profile import TensorType
from ttmem.reports.kit.documents import Document, OperationPlace
from ttmem.reports.profile.document import caused_by


class MemoryChangeEntry(Document, frozen=True, kw_only=True):
    """The peaks of one memory in bytes per bank; null where a profile has none."""

    before: int | None
    after: int | None
    delta_bytes_per_bank: int
    delta_percent: float | None
    unattributed_delta_bytes_per_bank: int
    error_bytes_per_bank: int
    peak_moved: bool
    caused_by_before: OperationPlace | None
    caused_by_after: OperationPlace | None


class ChangedOperation(Document, frozen=True, kw_only=True):
    """The operation that makes a tensor; the index is null for one that was there before."""

    index: int | None
    name: str
    location: str
    program: str


class TensorTypeEntry(Document, frozen=True, kw_only=True):
    """What a tensor is; bytes with padding."""

    shape: list[int]
    dtype: str
    bytes: int


class TensorChangeEntry(Document, frozen=True, kw_only=True):
    """A tensor that takes more or less of a peak than before."""

    tensor: str
    operation: ChangedOperation
    delta_bytes: int
    delta_bytes_per_bank: int
    memory: str
    reason: str
    before: TensorTypeEntry | None
    after: TensorTypeEntry | None


class CountChangeEntry(Document, frozen=True, kw_only=True):
    """An operation that is executed more or less often."""

    name: str
    before: int
    after: int


class DiffDocument(Document, frozen=True, kw_only=True):
    """Two profiles compared; ``grew`` begins with the first suspect."""

    schema: Literal["ttmem.diff/1"] = "ttmem.diff/1"
    before: str
    after: str
    memories: dict[str, MemoryChangeEntry]
    grew: list[TensorChangeEntry]
    shrank: list[TensorChangeEntry]
    operation_counts: list[CountChangeEntry]
    regression: bool


def document(diff: MemoryDiff, regression: bool) -> DiffDocument:
    """``regression`` says whether the limit that was given is passed."""
    return DiffDocument.of(
        diff,
        before=diff.before_name,
        after=diff.after_name,
        memories={memory: _memory(change) for memory, change in diff.memories.items()},
        grew=[_tensor(change) for change in diff.grew],
        shrank=[_tensor(change) for change in diff.shrank],
        regression=regression,
    )


def _memory(change: MemoryChange) -> MemoryChangeEntry:
    before, after = ((peak and caused_by(peak)) for peak in (change.before_peak, change.after_peak))
    return MemoryChangeEntry.of(
        change,
        before=change.before_bytes_per_bank,
        after=change.after_bytes_per_bank,
        delta_percent=None if change.delta_percent is None else round(change.delta_percent, 4),
        error_bytes_per_bank=change.error_bytes,
        peak_moved=before != after,
        caused_by_before=before,
        caused_by_after=after,
    )


def _tensor(change: TensorChange) -> TensorChangeEntry:
    operation = ChangedOperation.of(change, index=change.operation_index, name=change.operation_name)
    return TensorChangeEntry.of(change, operation=operation, before=_type(change.before), after=_type(change.after))


def _type(found: TensorType | None) -> TensorTypeEntry | None:
    return None if found is None else TensorTypeEntry.of(found, bytes=found.padded_bytes)
