# SPDX-License-Identifier: Apache-2.0
"""The mapping of operators: the three files of the first vision study, a compatibility matrix, a table."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ttmem.operators.catalogue_entries import DEVICE, FREE
from ttmem.operators.mapping import CELLS, Mapped, MappedOperator, is_unsupported, support_words
from ttmem.operators.twin_coverage import model_calls
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table, markdown, name_column, number_column, text_column
from ttmem.reports.kit.units import share, thousands
from ttmem.reports.ops.document import OpsMap
from ttmem.twin.operations import confidence_in

_TWIN_MEANS = (
    "whether the model of ttnn that runs without it knows what plain calls do to memory: exact, bounded (at least so "
    "much), or none (it has no record of an operation)"
)
_CELL_TITLES = tuple(f"{memory} {layout.replace('_', '-')}" for memory, layout in CELLS)


def document(mapped: Mapped) -> OpsMap:
    return OpsMap.of(
        statistics=statistics(mapped),
        twin=_coverage(),
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


def _coverage() -> dict[str, Any]:
    """Weighted by the calls of models."""
    known = model_calls()
    total = known.total
    return {
        "models": known.models,
        "calls": known.once(total),
        "exact_percent": total.exact_percent,
        "bounded_percent": total.percent(total.bounded),
        "unknown_percent": total.percent(total.unknown),
        "exact_percent_by_place": {place: calls.exact_percent for place, calls in known.places.items()},
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
    if used := model_calls().operators.get(one.aten):
        entry |= {"model_calls": model_calls().once(used), "exact_percent": used.exact_percent}
    if operator.note:
        entry["note"] = operator.note
    if one.cells:
        entry["tried"] = {title: one.cells.get(cell, "") for title, cell in zip(_CELL_TITLES, CELLS, strict=True)}
    return entry


def _twin(one: MappedOperator) -> str:
    """Return the confidence of the twin for plain calls, by the operations' records; empty without a call."""
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


def _table(mapped: Mapped) -> Table:
    """One row per operator; the columns of the four cells only where they were tried."""
    tried = CELLS if any(one.cells for one in mapped.operators) else ()
    count = number_column if mapped.from_cases else text_column
    columns = [
        name_column("operator"),
        name_column("ttnn"),
        *map(text_column, ("kind", "support", "twin")),
        *(count(head, unknown="") for head in ("calls", "cases", "runnable")),
        *(text_column(title) for title, _ in zip(_CELL_TITLES, tried, strict=False)),
        name_column("notes"),
        number_column("exact calls", "{:g} %".format, unknown=""),
    ]
    return Table(columns, [_row(one, tried, has_cases=mapped.from_cases) for one in mapped.operators])


def _row(one: MappedOperator, tried: Sequence[tuple[str, str]], *, has_cases: bool) -> list[Any]:
    operator = one.operator
    why = "; ".join(f"{count} cases: {reason}" for reason, count in one.cannot_run.items())
    return [
        one.aten,
        (operator.ttnn if operator else "") or None,
        operator.kind if operator else "unknown",
        support_words(one.support),
        _twin(one) or None,
        *([one.calls, len(one.cases), one.runnable_cases] if has_cases else [None] * 3),
        *(one.cells.get(cell, "") for cell in tried),
        ". ".join(filter(None, (operator.note if operator else "not in the catalogue", why))),
        used.exact_percent if (used := model_calls().operators.get(one.aten)) else None,
    ]


def matrix_markdown(mapped: Mapped) -> str:
    """``compatibility_matrix.md``: one row per operator."""
    table = _table(mapped)
    shown = table.only(*(head for head in table.heads if head != "runnable"))
    for head in ("operator", "ttnn"):
        shown = shown.with_column(head, write="`{}`".format)
    lines = ["# Operator compatibility", "", _sentence(mapped), "", f"The column twin: {_TWIN_MEANS}.", ""]
    lines += [f"The column exact calls: the share of the models' calls. {_coverage_sentence()}", ""]
    if any(one.cells for one in mapped.operators):
        lines += ["The four columns of memory and layout show the example of each operator, run on the mock board.", ""]
    return "\n".join([*lines, *markdown(shown)]) + "\n"


def _sentence(mapped: Mapped) -> str:
    counts = statistics(mapped)
    sentence = (
        f"{counts['total_operators']} operators: {counts['supported']} run on the device, "
        f"{counts['meta_operations']} are no-ops, {counts['unsupported']} run on the host or are unsupported."
    )
    covered = f" {share(mapped.covered_calls, mapped.calls)[:-1]} % of {thousands(mapped.calls)} calls are covered."
    return sentence + (covered if mapped.calls else "")


def _coverage_sentence() -> str:
    found = _coverage()
    return (
        f"Across {thousands(found['calls'])} calls from {found['models']} models ({len(model_calls().places)} "
        f"board/memory pairs) the twin is exact for {found['exact_percent']:g} %, bounded for "
        f"{found['bounded_percent']:g} %, and has no rule for {found['unknown_percent']:g} %."
    )


def _headline(head: str) -> str:
    return head if head == "ttnn" else head[:1].upper() + head[1:]


def render(mapped: Mapped, *, width: int = 100, color: bool = False) -> str:
    table = _table(mapped)
    counts = () if mapped.from_cases else ("calls", "cases", "runnable")
    report = TextReport(width, color=color)
    shown = table.only(*(head for head in table.heads if head not in (*counts, "notes")))
    report.print(replace(shown, columns=[replace(one, head=_headline(one.head)) for one in shown.columns]))
    report.print(_sentence(mapped), style="bold")
    report.print(_coverage_sentence())
    return report.text()
