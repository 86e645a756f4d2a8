# SPDX-License-Identifier: Apache-2.0
"""The answer of ``ttmem reports``, and the first page of ``ttmem serve``."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ttmem.base.formatting import format_count, format_mib, format_mib_number, format_percent
from ttmem.reports.kit import pages
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.documents import Document
from ttmem.reports.kit.tables import Table, number_column, text_column


class StoredReportRow(Document, frozen=True):
    """A report of the store; unknown facts are null."""

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
    """``fits``, the class and memory of the failure, the error that ended the run for another reason, or the number of
    tests of a suite that failed, crashed or timed out."""
    origin: str | None
    """The file or command that was read."""
    bytes_on_disk: int
    folder: str


class StoredReportsDocument(Document, frozen=True, tag_field="schema", tag="ttmem.reports/1"):
    """The reports of the store, by name."""

    folder: str
    reports: Sequence[StoredReportRow]


def build_document(folder: str, entries: Sequence[Mapping[str, object]]) -> StoredReportsDocument:
    """Return the listing of the store. Damaged facts become null: the report itself can still be read."""
    return StoredReportsDocument(folder, tuple(map(_read_row, entries)))


def _read_row(entry: Mapping[str, object]) -> StoredReportRow:
    kept = ("name", "bytes_on_disk", "folder")
    known = {key: value for key, value in entry.items() if key in kept or not _is_damaged(value)}
    try:
        return msgspec.convert({**dict.fromkeys(entry), **known}, StoredReportRow)
    except msgspec.ValidationError:
        return msgspec.convert({key: entry.get(key) if key in kept else None for key in entry}, StoredReportRow)


def _is_damaged(value: object) -> bool:
    """Return whether it is a figure that no memory has."""
    return isinstance(value, int | float) and not -1 < value < 1 << 60


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


def render_terminal(stored: StoredReportsDocument, *, width: int = 100, color: bool = False) -> str:
    """Render one row per report; names are never cut, because people copy them."""
    report = TextReport(width, color=color)
    report.print(Table(_COLUMNS, [_build_row(one) for one in stored.reports], names_omitted=False))
    return report.render()


def _build_row(report: StoredReportRow) -> tuple[str | None, ...]:
    return (
        report.name,
        report.stored_at and report.stored_at.replace("T", " ").rstrip("Z"),
        report.kind,
        None if report.operations_executed is None else format_count(report.operations_executed),
        _format_peak(report.peak_dram_bytes_per_bank, report.peak_dram_percent),
        _format_peak(report.peak_l1_bytes_per_bank, report.peak_l1_percent),
        report.status,
        format_mib(report.bytes_on_disk, decimals=1),
    )


def _format_peak(amount_bytes: int | None, share: float | None) -> str | None:
    return None if amount_bytes is None else f"{format_mib_number(amount_bytes)} ({format_percent(share)})"


def render_html(folder: str, reports: Sequence[dict[str, Any]], follows: str = "") -> str:
    """Render the page to find, open, compare and delete; ``follows`` names a log that the server follows."""
    data = {"part": "store", "title": "ttmem", "folder": folder, "reports": list(reports), "follows": follows}
    return pages.render_data_page("store", "Stored reports", data, served=True)
