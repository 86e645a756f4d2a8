# SPDX-License-Identifier: Apache-2.0
"""What an extraction gave: a table for a person, a document for a program."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from ttmem.operators.extraction import Extraction
from ttmem.reports.kit.units import one_line, thousands
from ttmem.reports.ops.document import OpsExtraction


def document(found: Extraction, *, attention: str) -> OpsExtraction:
    """Totals and one entry per target and size. ``attention`` decides the memory of transformers, so it is named."""
    return OpsExtraction.of(
        attention=attention,
        cases=len(found.cases),
        operators=len({case.op for case in found.cases}),
        calls=sum(case.count for case in found.cases),
        sources=[source.to_json() for source in found.sources],
    )


def render(found: Extraction, *, width: int = 100, color: bool = False) -> str:
    """One row per target and size, then the totals."""
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=color, no_color=not color, highlight=False, markup=False, emoji=False
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Target", overflow="fold")
    table.add_column("Size")
    for title in ("Parameters", "Calls", "Operators", "Cases", "Seconds"):
        table.add_column(title, justify="right")
    for source in found.sources:
        figures = [thousands(source.calls), thousands(source.operators), thousands(source.cases)]
        parameters = "" if source.parameters is None else thousands(source.parameters)
        cells = ["", "refused", "", ""] if source.refusal else [parameters, *figures]
        table.add_row(one_line(source.model), source.size, *cells, f"{source.seconds:.1f}" if source.seconds else "")
    console.print(table)
    for source in found.sources:
        for remark in source.remarks:
            console.print(f"{one_line(source.model)}: {one_line(remark)}")
    operators = len({case.op for case in found.cases})
    calls = sum(case.count for case in found.cases)
    console.print(
        f"{thousands(len(found.cases))} different cases of {operators} operators, {thousands(calls)} calls",
        style="bold",
    )
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"
