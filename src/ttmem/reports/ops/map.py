# SPDX-License-Identifier: Apache-2.0
"""The mapping of operators: the three files of the first vision study, a compatibility matrix, a table."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console
from rich.table import Table

from ttmem.allocator.operations import confidence_in
from ttmem.operators.catalogue_entries import DEVICE, FREE
from ttmem.operators.mapping import CELLS, Mapped, MappedOperator, is_unsupported, support_words
from ttmem.reports.kit.units import one_line, thousands
from ttmem.reports.ops.document import OpsMap

_TWIN_MEANS = (
    "whether the model of ttnn that runs without it knows what plain calls do to memory: exact, bounded (at least so "
    "much), or none (it has no record of an operation)"
)
_CELL_TITLES = tuple(f"{memory} {layout.replace('_', '-')}" for memory, layout in CELLS)


def document(mapped: Mapped) -> OpsMap:
    """Everything, for programs."""
    return OpsMap.of(
        statistics=statistics(mapped),
        operators={one.aten: {**_entry(one), **_use(one)} for one in mapped.operators},
    )


def statistics(mapped: Mapped) -> dict[str, Any]:
    """``supported`` run on the device, ``meta_operations`` need no work there, the rest is unsupported."""
    return {
        "total_operators": len(mapped.operators),
        "supported": mapped.count(DEVICE),
        "unsupported": sum(is_unsupported(one.support) for one in mapped.operators),
        "meta_operations": mapped.count(FREE),
        "by_category": mapped.by_kind(),
        "calls": mapped.calls,
        "covered_calls": mapped.covered_calls,
    }


def operator_mapping(mapped: Mapped) -> dict[str, Any]:
    """``operator_mapping.json``."""
    return {one.aten: _entry(one) for one in mapped.operators}


def mapping_analysis(mapped: Mapped) -> dict[str, Any]:
    """``mapping_analysis.json``."""
    return {
        "statistics": statistics(mapped),
        "detailed_analysis": {
            one.aten: {"occurrences": one.calls, **_use(one), "mapping": _entry(one)} for one in mapped.operators
        },
    }


def basic_operators(mapped: Mapped) -> dict[str, Any]:
    """``basic_operators.json``: per operator every shape set with the models that use it."""
    listed: dict[str, Any] = {}
    for one in mapped.operators:
        entries = listed.setdefault(one.aten, [])
        for case in one.cases:
            shapes = [list(tensor.shape) for tensor in case.tensors]
            for use in case.uses or (None,):
                module = use.modules[0] if use and use.modules else ""
                model = use.model if use else ""
                full_name = f"{module}.{one.aten}" if module and not module.endswith(one.aten) else module or one.aten
                entries.append({"shapes": shapes, "model": model, "full_name": full_name, "case": case.id})
    return listed


def _entry(one: MappedOperator) -> dict[str, Any]:
    operator = one.operator
    if operator is None:
        return {
            "ttnn_function": None,
            "torch_function": f"torch.ops.aten.{one.aten}",
            "num_inputs": "unknown",
            "category": "unknown",
            "supported": False,
            "twin": None,
            "note": "not in the catalogue",
        }
    listed = any(name.endswith("[]") for name in operator.tensors)
    entry: dict[str, Any] = {
        "ttnn_function": operator.ttnn or None,
        "torch_function": f"torch.ops.aten.{one.aten}",
        "num_inputs": "variable" if listed or operator.optional else len(operator.tensors),
        "category": operator.kind,
        "supported": operator.support == DEVICE,
        "support": operator.support,
        "twin": _twin(one) or None,
        "lowering": operator.lowering,
        "tensors": list(operator.tensors) + [f"{name}?" for name in operator.optional],
        "arguments": list(operator.args),
        "expressions": [variant.call for variant in operator.variants],
    }
    if operator.note:
        entry["note"] = operator.note
    if one.cells:
        entry["tried"] = {title: one.cells.get(cell, "") for title, cell in zip(_CELL_TITLES, CELLS, strict=True)}
    return entry


def _twin(one: MappedOperator) -> str:
    """How certain the twin is of plain calls, by the records of the ttnn operations; empty when nothing is called."""
    called = one.operator.called if one.operator else ()
    return confidence_in(called) if called else ""


def _use(one: MappedOperator) -> dict[str, Any]:
    return {
        "cases": len(one.cases),
        "calls": one.calls,
        "unique_shapes": one.unique_shapes,
        "runnable_cases": one.runnable_cases,
        "cannot_run": dict(one.cannot_run),
        "models": sorted({model for case in one.cases for model in case.models}),
    }


def matrix_markdown(mapped: Mapped) -> str:
    """``compatibility_matrix.md``: one row per operator."""
    tried = any(one.cells for one in mapped.operators)
    shared = ["operator", "ttnn", "kind", "support", "twin", "calls", "cases"]
    titles = [*shared, *(_CELL_TITLES if tried else ()), "notes"]
    lines = ["# Operator compatibility", ""]
    lines += [_sentence(mapped), ""]
    lines += [f"The column twin: {_TWIN_MEANS}.", ""]
    if tried:
        lines += ["The four columns of memory and layout are the example of each operator, run on the mock board.", ""]
    lines += [_row(titles), _row(["---"] * len(titles))]
    for one in mapped.operators:
        operator = one.operator
        cells = [one.cells.get(cell, "") for cell in CELLS] if tried else []
        why = "; ".join(f"{count} cases: {reason}" for reason, count in one.cannot_run.items())
        note = ". ".join(filter(None, (operator.note if operator else "not in the catalogue", why)))
        function = f"`{operator.ttnn}`" if operator and operator.ttnn else "-"
        figures = [thousands(one.calls), thousands(len(one.cases))] if mapped.from_cases else ["", ""]
        kind = operator.kind if operator else "unknown"
        about = [f"`{one.aten}`", function, kind, support_words(one.support), _twin(one)]
        lines.append(_row([*about, *figures, *cells, note]))
    return "\n".join(lines) + "\n"


def _sentence(mapped: Mapped) -> str:
    sentence = (
        f"{len(mapped.operators)} operators: {mapped.count(DEVICE)} run on the device, "
        f"{mapped.count(FREE)} need no work there, "
        f"{sum(is_unsupported(one.support) for one in mapped.operators)} are the host's or have no form."
    )
    if mapped.calls:
        sentence += (
            f" {100 * mapped.covered_calls / mapped.calls:.1f} % of {thousands(mapped.calls)} calls are covered."
        )
    return sentence


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(one_line(cell).replace("|", "\\|") for cell in cells) + " |"


def render(mapped: Mapped, *, width: int = 100, color: bool = False) -> str:
    """A table for a person."""
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=color, no_color=not color, highlight=False, markup=False, emoji=False
    )
    tried = any(one.cells for one in mapped.operators)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Operator", no_wrap=True)
    table.add_column("ttnn", overflow="fold")
    table.add_column("Kind")
    table.add_column("Support")
    table.add_column("Twin")
    if mapped.from_cases:
        table.add_column("Calls", justify="right")
        table.add_column("Cases", justify="right")
        table.add_column("Runnable", justify="right")
    for title in _CELL_TITLES if tried else ():
        table.add_column(title)
    for one in mapped.operators:
        operator = one.operator
        row = [one.aten, (operator.ttnn if operator else "") or "-", operator.kind if operator else "-"]
        row += [support_words(one.support), _twin(one) or "-"]
        if mapped.from_cases:
            row += [thousands(one.calls), thousands(len(one.cases)), thousands(one.runnable_cases)]
        row += [one.cells.get(cell, "") for cell in CELLS] if tried else []
        table.add_row(*row)
    console.print(table)
    console.print(_sentence(mapped), style="bold")
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"
