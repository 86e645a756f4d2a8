# SPDX-License-Identifier: Apache-2.0
"""The answer of ``ttmem reports --json``."""

from collections.abc import Mapping, Sequence

import msgspec

from ttmem.reports.kit.documents import Document


class StoredReport(Document, frozen=True):
    """One report of the store; unknown facts are null."""

    name: str
    stored_at: str | None
    """UTC."""
    kind: str | None
    """The kind of its source."""
    operations_executed: int | None
    peak_dram_bytes_per_bank: int | None
    peak_dram_percent: float | None
    peak_l1_bytes_per_bank: int | None
    peak_l1_percent: float | None
    status: str | None
    """``fits``, the class and memory of the failure, the error that ended the run for another reason, or how many tests
    of a suite failed, crashed or timed out."""
    origin: str | None
    """The file or command that was read."""
    bytes_on_disk: int
    folder: str


class StoredReports(Document, frozen=True, tag_field="schema", tag="ttmem.reports/1"):
    """The reports of the store, by name."""

    folder: str
    reports: tuple[StoredReport, ...]


def document(folder: str, entries: Sequence[Mapping[str, object]]) -> StoredReports:
    """Return the listing of the store. Damaged facts become null: the report itself can still be read."""
    return StoredReports(folder, tuple(map(_report, entries)))


def _report(entry: Mapping[str, object]) -> StoredReport:
    kept = ("name", "bytes_on_disk", "folder")
    known = {key: value for key, value in entry.items() if key in kept or not _is_damaged(value)}
    try:
        return msgspec.convert({**dict.fromkeys(entry), **known}, StoredReport)
    except msgspec.ValidationError:
        return msgspec.convert({key: entry.get(key) if key in kept else None for key in entry}, StoredReport)


def _is_damaged(value: object) -> bool:
    """A figure that no memory has."""
    return isinstance(value, int | float) and not -1 < value < 1 << 60
