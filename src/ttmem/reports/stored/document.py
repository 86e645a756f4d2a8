# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem reports --json`` says."""

from __future__ import annotations

from ttmem.reports.kit.documents import Document


class StoredReport(Document, frozen=True):
    """One report of the store; what its maker did not know is null."""

    name: str
    stored_at: str | None
    """UTC."""
    kind: str | None
    """Of the source that it was made from."""
    operations_executed: int | None
    peak_dram_bytes_per_bank: int | None
    peak_dram_percent: float | None
    origin: str | None
    """What was read."""
    bytes_on_disk: int
    folder: str


class StoredReports(Document, frozen=True, tag_field="schema", tag="ttmem.reports/1"):
    """What is in the store, by name."""

    folder: str
    reports: tuple[StoredReport, ...]
