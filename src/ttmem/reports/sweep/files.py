# SPDX-License-Identifier: Apache-2.0
"""All report files of a sweep, by name."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ttmem._atomic import write_bytes
from ttmem._errors import BadInputError
from ttmem.reports.sweep import final_report as sweep_final_report
from ttmem.reports.sweep import html as sweep_html
from ttmem.reports.sweep import oom_analysis as sweep_oom_analysis
from ttmem.reports.sweep import operator_analysis as sweep_operator_analysis
from ttmem.sweep.findings import Findings

PAGE = "sweep_report.html"


def render_all(findings: Findings) -> dict[str, str]:
    """File name -> content."""
    return {
        "OPERATOR_MEMORY_ANALYSIS_SUMMARY.md": sweep_operator_analysis.markdown(findings),
        "comprehensive_analysis_report.txt": sweep_operator_analysis.text(findings),
        "detailed_analysis_data.json": _json(sweep_operator_analysis.data(findings)),
        "oom_analysis_report.md": sweep_oom_analysis.markdown(findings),
        "oom_detailed_data.json": _json(sweep_oom_analysis.data(findings)),
        "oom_operators_summary.csv": _csv(sweep_oom_analysis.csv_rows(findings)),
        "OOM_OPERATORS_FINAL_SUMMARY.txt": sweep_oom_analysis.summary_text(findings),
        "VISION_OPERATOR_FINAL_REPORT.md": sweep_final_report.markdown(findings),
        "comprehensive_oom_report.json": _json(sweep_final_report.data(findings)),
        "oom_failures_detailed.csv": _csv(sweep_final_report.csv_rows(findings)),
        "subset_test_analysis.json": _json(sweep_final_report.metrics(findings)),
        PAGE: sweep_html.render(findings),
    }


def write_all(findings: Findings, folder: Path) -> list[Path]:
    """Write every file, each whole or not at all."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise BadInputError("is a file; reports need a folder", where=str(folder)) from None
    written = []
    for name, content in render_all(findings).items():
        write_bytes(folder / name, content.encode("utf-8", "backslashreplace"))
        written.append(folder / name)
    return written


def _json(document: Any) -> str:
    return json.dumps(document, indent=1) + "\n"


def _csv(rows: Sequence[Sequence[object]]) -> str:
    """A cell that a spreadsheet would take for a formula gets a quote in front."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for row in rows:
        writer.writerow([_safe(value) for value in row])
    return stream.getvalue()


def _safe(value: object) -> object:
    if isinstance(value, str) and value[:1] in ("=", "+", "@", "-", "\t", "\r"):
        return f"'{value}"
    return value
