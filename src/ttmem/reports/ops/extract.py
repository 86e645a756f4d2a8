# SPDX-License-Identifier: Apache-2.0
"""The result of an extraction: a table for a person, a document for a program."""

from typing import Any

from ttmem.operators.extraction import Extraction
from ttmem.operators.tracing import SourceResult
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table, name_column, number_column, text_column
from ttmem.reports.kit.units import one_line, thousands
from ttmem.reports.ops.document import ExtractedSource, OpsExtraction


def document(found: Extraction, *, attention: str) -> OpsExtraction:
    """Totals and one entry per target and size. ``attention`` decides the memory of transformers, so it is named."""
    return OpsExtraction.of(
        attention=attention,
        cases=len(found.cases),
        operators=len({case.op for case in found.cases}),
        calls=sum(case.count for case in found.cases),
        sources=[
            ExtractedSource.of(one, decimals=3, cases=len(one.cases), refusal=one.refusal or None)
            for one in found.sources
        ],
    )


def render(found: Extraction, *, width: int = 100, color: bool = False) -> str:
    """One row per target and size, then the totals."""
    heads = ("Parameters", "Calls", "Operators", "Cases")
    columns = [
        name_column("Target"),
        text_column("Size"),
        *(number_column(head, _figure, unknown="") for head in heads),
        number_column("Seconds", lambda seconds: f"{seconds:.1f}", unknown=""),
    ]
    report = TextReport(width, color=color)
    report.print(Table(columns, [_row(source) for source in found.sources]))
    for source in found.sources:
        for remark in source.remarks:
            report.print(f"{one_line(source.model)}: {one_line(remark)}")
    operators = len({case.op for case in found.cases})
    calls = sum(case.count for case in found.cases)
    report.print(
        f"{thousands(len(found.cases))} different cases of {operators} operators, {thousands(calls)} calls",
        style="bold",
    )
    return report.text()


def _row(source: SourceResult) -> list[Any]:
    figures = [source.parameters, source.calls, source.operators, len(source.cases)]
    shown = [None, "refused", None, None] if source.refusal else figures
    return [source.model, source.size, *shown, source.seconds or None]


def _figure(value: Any) -> str:
    return value if isinstance(value, str) else thousands(value)
