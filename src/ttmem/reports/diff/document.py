# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem diff --json`` says: a contract, keys may be added."""

import msgspec

from ttmem.analysis.diff import CountChange, MemoryChange, MemoryDiff
from ttmem.analysis.states import OperationPlace
from ttmem.analysis.tensor_diff import TensorChange
from ttmem.reports.kit.documents import Document
from ttmem.reports.profile.document import caused_by


class MemoryChangeEntry(Document, frozen=True):
    """The peaks of one memory in bytes per bank; null where a profile has none."""

    before_bytes_per_bank: int | None = msgspec.field(name="before")
    after_bytes_per_bank: int | None = msgspec.field(name="after")
    delta_bytes_per_bank: int | None
    """Null where one of the profiles does not show this memory: that is not known, and no change of 100 %."""
    delta_percent: float | None
    """Null also for growth from nothing."""
    unattributed_delta_bytes_per_bank: int | None
    error_bytes: int = msgspec.field(name="error_bytes_per_bank")
    before_device_bytes: int | None
    """Over all banks of a chip: what compares where the number of banks does not."""
    after_device_bytes: int | None
    before_with_programs_bytes_per_core: int | None
    """L1 with the programs' own buffers; null unless both profiles know them."""
    after_with_programs_bytes_per_core: int | None
    peak_moved: bool
    caused_by_before: OperationPlace | None
    caused_by_after: OperationPlace | None


class ChangedOperation(Document, frozen=True):
    """The operation that makes a tensor; the index is null for one that was there before."""

    operation_index: int | None = msgspec.field(name="index")
    operation_name: str = msgspec.field(name="name")
    location: str
    program: str


class TensorTypeEntry(Document, frozen=True):
    """What a tensor is; bytes with padding."""

    shape: list[int]
    dtype: str
    padded_bytes: int = msgspec.field(name="bytes")


class TensorChangeEntry(Document, frozen=True):
    """A tensor that takes more or less of a peak than before."""

    tensor: str
    operation: ChangedOperation
    delta_bytes: int
    delta_bytes_per_bank: int
    memory: str
    reason: str
    before: TensorTypeEntry | None
    after: TensorTypeEntry | None
    counterpart: str
    """What the first profile calls it, where two different programs ran the same model."""


class DiffDocument(Document, frozen=True, tag_field="schema", tag="ttmem.diff/1"):
    """Two profiles compared; ``grew`` begins with the first suspect."""

    before_name: str = msgspec.field(name="before")
    after_name: str = msgspec.field(name="after")
    memories: dict[str, MemoryChangeEntry]
    grew: list[TensorChangeEntry]
    shrank: list[TensorChangeEntry]
    operation_counts: list[CountChange]
    remarks: list[str]
    """Why the figures may not compare: another board, another way to open the device."""
    regression: bool


def document(diff: MemoryDiff, regression: bool) -> DiffDocument:
    """``regression`` says whether the limit that was given is passed."""
    return DiffDocument.of(
        diff,
        memories={memory: _memory(change) for memory, change in diff.memories.items()},
        grew=[_tensor(change) for change in diff.grew],
        shrank=[_tensor(change) for change in diff.shrank],
        regression=regression,
    )


def _memory(change: MemoryChange) -> MemoryChangeEntry:
    before, after = ((peak and caused_by(peak)) for peak in (change.before_peak, change.after_peak))
    programs = (change.before_programs, change.after_programs)
    with_programs = [peak.total_bytes_per_core if peak else None for peak in programs]
    return MemoryChangeEntry.of(
        change,
        decimals=4,
        before_with_programs_bytes_per_core=with_programs[0],
        after_with_programs_bytes_per_core=with_programs[1],
        peak_moved=before != after,
        caused_by_before=before,
        caused_by_after=after,
    )


def _tensor(change: TensorChange) -> TensorChangeEntry:
    return TensorChangeEntry.of(change, operation=ChangedOperation.of(change))
