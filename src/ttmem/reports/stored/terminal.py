# SPDX-License-Identifier: Apache-2.0
"""The reports of the store for a person."""

from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table, number_column, text_column
from ttmem.reports.kit.units import megabytes, percent, thousands
from ttmem.reports.stored.document import StoredReport, StoredReports

_COLUMNS = (
    text_column("Name", whole=True),
    text_column("Stored (UTC)", spare=1),
    text_column("Kind", spare=2),
    number_column("Operations", write=str, spare=3),
    number_column("DRAM peak per bank", write=str),
    number_column("On disk", write=str, spare=4),
)


def render(stored: StoredReports, *, width: int = 100, color: bool = False) -> str:
    """Names are what people copy: they are never cut, and no border is around them."""
    report = TextReport(width, color=color)
    report.print(Table(_COLUMNS, [_row(one) for one in stored.reports]))
    return report.text()


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
