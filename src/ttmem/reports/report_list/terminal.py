# SPDX-License-Identifier: Apache-2.0
"""The reports of the store for a person."""

from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table, number_column, text_column
from ttmem.reports.kit.units import megabytes, mib, percent, thousands
from ttmem.reports.report_list.document import StoredReport, StoredReports

_COLUMNS = (
    text_column("Name", whole=True),
    text_column("Stored (UTC)", spare=1),
    text_column("Kind", spare=2),
    number_column("Operations", write=str, spare=3),
    number_column("DRAM MiB/bank", write=str),
    number_column("L1 MiB/bank", write=str),
    text_column("Status", most=40),
    number_column("On disk", write=str, spare=4),
)


def render(stored: StoredReports, *, width: int = 100, color: bool = False) -> str:
    """Names are what people copy: they are never cut, and no border is around them."""
    report = TextReport(width, color=color)
    report.print(Table(_COLUMNS, [_row(one) for one in stored.reports], names_omitted=False))
    return report.text()


def _row(report: StoredReport) -> tuple[str | None, ...]:
    return (
        report.name,
        report.stored_at and report.stored_at.replace("T", " ").rstrip("Z"),
        report.kind,
        None if report.operations_executed is None else thousands(report.operations_executed),
        _peak(report.peak_dram_bytes_per_bank, report.peak_dram_percent),
        _peak(report.peak_l1_bytes_per_bank, report.peak_l1_percent),
        report.status,
        megabytes(report.bytes_on_disk, decimals=1),
    )


def _peak(amount_bytes: int | None, share: float | None) -> str | None:
    return None if amount_bytes is None else f"{mib(amount_bytes)} ({percent(share)})"
