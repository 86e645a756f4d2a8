# SPDX-License-Identifier: Apache-2.0
"""The reports of the store for a person."""

from ttmem.reports.kit.tables import Table, plain, text_column
from ttmem.reports.kit.units import megabytes, percent, thousands
from ttmem.reports.stored.document import StoredReport, StoredReports

_HEADS = ("NAME", "STORED (UTC)", "KIND", "OPERATIONS", "PEAK DRAM PER BANK", "ON DISK")


def render(stored: StoredReports) -> str:
    """Plain columns: names are what people copy, so no borders around them."""
    return plain(Table([text_column(head) for head in _HEADS], [_row(report) for report in stored.reports]))


def _row(report: StoredReport) -> tuple[str | None, ...]:
    peak = report.peak_dram_bytes_per_bank
    return (
        report.name,
        report.stored_at and report.stored_at.replace("T", " ").rstrip("Z"),
        report.kind,
        None if report.operations_executed is None else thousands(report.operations_executed),
        None if peak is None else f"{megabytes(peak)} ({percent(report.peak_dram_percent)})",
        megabytes(report.bytes_on_disk, decimals=1),
    )
