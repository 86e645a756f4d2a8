# SPDX-License-Identifier: Apache-2.0
"""All report files of a sweep, by name."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ttmem.base.atomic_files import write_texts
from ttmem.base.errors import BadInputError
from ttmem.operators.sweeps.summary import Findings
from ttmem.reports.kit.documents import indented_pieces
from ttmem.reports.kit.tables import Table, csv
from ttmem.reports.sweep import final_report, html, oom_analysis, operator_analysis
from ttmem.reports.sweep.document import report_document

PAGE = "sweep_report.html"
ABOUT = {
    PAGE: "everything on one page, to sort and search: open this first",
    "OPERATOR_MEMORY_ANALYSIS_SUMMARY.md": "what fails and what passes instead, by operator",
    "comprehensive_analysis_report.txt": "the same as plain text",
    "detailed_analysis_data.json": "one record per operator",
    "oom_analysis_report.md": "every memory failure",
    "oom_detailed_data.json": "one record per memory failure",
    "oom_operators_summary.csv": "operators that run out of memory, for a spreadsheet",
    "OOM_OPERATORS_FINAL_SUMMARY.txt": "the memory failures as plain text",
    "VISION_OPERATOR_FINAL_REPORT.md": "metrics, models and recommendations",
    "comprehensive_oom_report.json": "memory failures by operator and by shape",
    "oom_failures_detailed.csv": "every memory failure, for a spreadsheet",
    "subset_test_analysis.json": "the metrics (what --json prints)",
}
"""What each file is for, the first one to open first."""


_RENDERED: dict[str, Callable[[Findings], Iterable[str]]] = {
    PAGE: lambda findings: (html.render(findings),),
    "OPERATOR_MEMORY_ANALYSIS_SUMMARY.md": lambda findings: (operator_analysis.markdown(findings),),
    "comprehensive_analysis_report.txt": lambda findings: (operator_analysis.text(findings),),
    "detailed_analysis_data.json": lambda findings: _json(operator_analysis.data(findings)),
    "oom_analysis_report.md": lambda findings: (oom_analysis.markdown(findings),),
    "oom_detailed_data.json": lambda findings: _json(oom_analysis.data(findings)),
    "oom_operators_summary.csv": lambda findings: _csv(oom_analysis.csv_table(findings)),
    "OOM_OPERATORS_FINAL_SUMMARY.txt": lambda findings: (oom_analysis.summary_text(findings),),
    "VISION_OPERATOR_FINAL_REPORT.md": lambda findings: (final_report.markdown(findings),),
    "comprehensive_oom_report.json": lambda findings: _json(final_report.data(findings)),
    "oom_failures_detailed.csv": lambda findings: _csv(final_report.csv_table(findings)),
    "subset_test_analysis.json": lambda findings: _json(report_document(findings).to_json()),
}


def render_all(findings: Findings) -> dict[str, str]:
    """File name -> content."""
    return {name: "".join(_RENDERED[name](findings)) for name in ABOUT}


def listing(written: Sequence[Path]) -> str:
    """Where the files are and what each is for, a line each."""
    wide = max((len(str(path)) for path in written), default=0)
    return "\n".join(f"{path!s:<{wide}}  {ABOUT[path.name]}" for path in written)


def write_all(findings: Findings, folder: Path) -> list[Path]:
    """Write every file, each whole or not at all."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise BadInputError("is a file; reports need a folder", where=str(folder)) from None
    written = []
    for name in ABOUT:  # one after the other: together they may be hundreds of megabytes
        write_texts(folder / name, _RENDERED[name](findings))
        written.append(folder / name)
    return written


def _json(document: Any) -> Iterator[str]:
    yield from indented_pieces(document, 1)
    yield "\n"


def _csv(table: Table) -> tuple[str]:
    """A cell that a spreadsheet would take for a formula gets a quote in front: names come from logs."""
    return (csv(replace(table, rows=[[_harmless(value) for value in row] for row in table.rows])),)


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "@", "-", "\t", "\r") else value
