# SPDX-License-Identifier: Apache-2.0
"""The answers of ``ttmem ops map``, ``extract`` and ``tests``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ttmem.base.formatting import flatten_text, format_count, format_share
from ttmem.operators.catalogue_entries import DEVICE, FREE
from ttmem.operators.extraction import Extraction
from ttmem.operators.mapping import CELLS, Mapped, MappedOperator, is_unsupported, model_calls, support_words
from ttmem.operators.tracing import SourceResult
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.documents import UNSET, Document, UnsetType
from ttmem.reports.kit.tables import Table, format_markdown, name_column, number_column, text_column
from ttmem.twin.operations import combine_confidence


class TwinCoverage(Document, frozen=True):
    """The share of many models' calls that the twin covers, as last compared with the mock."""

    models: int
    calls: int
    """On one board and in one memory."""
    exact_percent: float
    """Rounded down, as all of these."""
    bounded_percent: float
    unknown_percent: float
    exact_percent_by_place: Mapping[str, float]
    """Board and memory -> per cent."""


class MapStatistics(Document, frozen=True):
    """Operators by what is supported."""

    total_operators: int
    supported: int
    """They run on the device."""
    unsupported: int
    meta_operations: int
    """No-ops on the device."""
    by_category: Mapping[str, int]
    calls: int
    covered_calls: int


class MappedOperatorRow(Document, frozen=True, kw_only=True):
    """An aten operator and its ttnn call; what the catalogue does not know is left out."""

    ttnn_function: str | None
    torch_function: str
    num_inputs: int | str
    """A number, ``variable`` or ``unknown``."""
    category: str
    supported: bool
    support: str | UnsetType = UNSET
    twin: str | UnsetType | None = UNSET
    """The confidence of the twin for plain calls: ``exact``, ``bounded`` or ``none``; null when nothing is called."""
    model_calls: int | UnsetType = UNSET
    """The number of calls by the models of ``twin``; left out when none does."""
    exact_percent: float | UnsetType = UNSET
    """The share of those calls."""
    lowering: str | UnsetType = UNSET
    tensors: Sequence[str] | UnsetType = UNSET
    arguments: Sequence[str] | UnsetType = UNSET
    expressions: Sequence[str] | UnsetType = UNSET
    note: str | UnsetType = UNSET
    tried: Mapping[str, str] | UnsetType = UNSET
    """The example of the operator on a mock board, by memory and layout."""
    cases: int
    calls: int
    unique_shapes: int
    runnable_cases: int
    cannot_run: Mapping[str, int]
    """Reason -> cases."""
    models: Sequence[str]


class OpsMap(Document, frozen=True, tag_field="schema", tag="ttmem.ops-map/1"):
    """The catalogue, or the operators of a file of cases."""

    statistics: MapStatistics
    twin: TwinCoverage
    operators: Mapping[str, MappedOperatorRow]


class ExtractedSource(Document, frozen=True):
    """The result of one target (at one size)."""

    target: str
    model: str
    size: str
    kind: str
    """``model``, or the format of a list."""
    status: str
    """``ok`` or ``refused``."""
    calls: int
    operators: int
    cases: int
    parameters: int | None
    seconds: float
    refusal: str | None
    remarks: Sequence[str]


class OpsExtraction(Document, frozen=True, tag_field="schema", tag="ttmem.ops-extract/1"):
    """The cases that models are made of."""

    attention: str
    """It decides the memory of transformers."""
    cases: int
    operators: int
    calls: int
    sources: Sequence[ExtractedSource]


class LeftOut(Document, frozen=True):
    """A case that is not tested, and why."""

    id: str
    reason: str


class OpsTests(Document, frozen=True, tag_field="schema", tag="ttmem.ops-tests/1"):
    """The pytest files that were written."""

    folder: str
    files: Sequence[str]
    tests: Mapping[str, int]
    """By operator."""
    predicted_on: Sequence[str]
    left_out: Sequence[LeftOut]


def build_extraction(found: Extraction, *, attention: str) -> OpsExtraction:
    """Totals and one entry per target and size. ``attention`` decides the memory of transformers, so it is named."""
    return OpsExtraction(
        attention=attention,
        cases=len(found.cases),
        operators=len({case.op for case in found.cases}),
        calls=sum(case.count for case in found.cases),
        sources=[
            ExtractedSource(
                target=one.target,
                model=one.model,
                size=one.size,
                kind=one.kind,
                status=one.status,
                calls=one.calls,
                operators=one.operators,
                cases=len(one.cases),
                parameters=one.parameters,
                seconds=round(one.seconds, 3),
                refusal=one.refusal or None,
                remarks=one.remarks,
            )
            for one in found.sources
        ],
    )


def render_extraction(found: Extraction, *, width: int = 100, color: bool = False) -> str:
    """Render one row per target and size, then the totals."""
    heads = ("Parameters", "Calls", "Operators", "Cases")
    columns = [
        name_column("Target"),
        text_column("Size"),
        *(number_column(head, _format_figure, unknown="") for head in heads),
        number_column("Seconds", lambda seconds: f"{seconds:.1f}", unknown=""),
    ]
    report = TextReport(width, color=color)
    report.print(Table(columns, [_build_extraction_row(source) for source in found.sources]))
    for source in found.sources:
        for remark in source.remarks:
            report.print(f"{flatten_text(source.model)}: {flatten_text(remark)}")
    operators = len({case.op for case in found.cases})
    calls = sum(case.count for case in found.cases)
    report.print(
        f"{format_count(len(found.cases))} different cases of {operators} operators, {format_count(calls)} calls",
        style="bold",
    )
    return report.render()


def _build_extraction_row(source: SourceResult) -> list[Any]:
    figures = [source.parameters, source.calls, source.operators, len(source.cases)]
    shown = [None, "refused", None, None] if source.refusal else figures
    return [source.model, source.size, *shown, source.seconds or None]


def _format_figure(value: Any) -> str:
    return value if isinstance(value, str) else format_count(value)


_TWIN_MEANS = (
    "how well the twin, the model of ttnn that runs without it, knows the memory of plain calls: exact, bounded (a "
    "lower bound), or none (it has no record of an operation)"
)
_CELL_TITLES = tuple(f"{memory} {layout.replace('_', '-')}" for memory, layout in CELLS)


def build_map(mapped: Mapped) -> OpsMap:
    operators = {one.aten: {**_describe_operator(one), **_describe_use(one)} for one in mapped.operators}
    plain = {"statistics": count_operators(mapped), "twin": _measure_coverage(), "operators": operators}
    return msgspec.convert(plain, OpsMap)


def count_operators(mapped: Mapped) -> dict[str, Any]:
    """``supported`` run on the device, ``meta_operations`` need no work there, the rest is unsupported."""
    return {
        "total_operators": len(mapped.operators),
        "supported": mapped.count(DEVICE),
        "unsupported": sum(is_unsupported(one.support) for one in mapped.operators),
        "meta_operations": mapped.count(FREE),
        "by_category": mapped.count_by_kind(),
        "calls": mapped.calls,
        "covered_calls": mapped.covered_calls,
    }


def _measure_coverage() -> dict[str, Any]:
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


def build_operator_mapping(mapped: Mapped) -> dict[str, Any]:
    """``operator_mapping.json``."""
    return {one.aten: _describe_operator(one) for one in mapped.operators}


def build_mapping_analysis(mapped: Mapped) -> dict[str, Any]:
    """``mapping_analysis.json``."""
    return {
        "statistics": count_operators(mapped),
        "detailed_analysis": {
            one.aten: {"occurrences": one.calls, **_describe_use(one), "mapping": _describe_operator(one)}
            for one in mapped.operators
        },
    }


def list_basic_operators(mapped: Mapped) -> dict[str, Any]:
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


def _describe_operator(one: MappedOperator) -> dict[str, Any]:
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
        "twin": _find_confidence(one) or None,
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


def _find_confidence(one: MappedOperator) -> str:
    """Return the confidence of the twin for plain calls, by the operations' records; empty without a call."""
    called = one.operator.called if one.operator else ()
    return combine_confidence(called) if called else ""


def _describe_use(one: MappedOperator) -> dict[str, Any]:
    return {
        "cases": len(one.cases),
        "calls": one.calls,
        "unique_shapes": one.unique_shapes,
        "runnable_cases": one.runnable_cases,
        "cannot_run": dict(one.cannot_run),
        "models": sorted({model for case in one.cases for model in case.models}),
    }


def _build_map_table(mapped: Mapped) -> Table:
    """Build one row per operator; the columns of the four cells only where they were tried."""
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
    return Table(columns, [_build_map_row(one, tried, has_cases=mapped.from_cases) for one in mapped.operators])


def _build_map_row(one: MappedOperator, tried: Sequence[tuple[str, str]], *, has_cases: bool) -> list[Any]:
    operator = one.operator
    why = "; ".join(f"{count} cases: {reason}" for reason, count in one.cannot_run.items())
    return [
        one.aten,
        (operator.ttnn if operator else "") or None,
        operator.kind if operator else "unknown",
        support_words(one.support),
        _find_confidence(one) or None,
        *([one.calls, len(one.cases), one.runnable_cases] if has_cases else [None] * 3),
        *(one.cells.get(cell, "") for cell in tried),
        ". ".join(filter(None, (operator.note if operator else "not in the catalogue", why))),
        used.exact_percent if (used := model_calls().operators.get(one.aten)) else None,
    ]


def render_map_markdown(mapped: Mapped) -> str:
    """``compatibility_matrix.md``: one row per operator."""
    table = _build_map_table(mapped)
    shown = table.select(*(head for head in table.heads if head != "runnable"))
    for head in ("operator", "ttnn"):
        shown = shown.change_column(head, write="`{}`".format)
    lines = ["# Operator compatibility", "", _summarize_map(mapped), "", f"The column twin: {_TWIN_MEANS}.", ""]
    lines += [f"The column exact calls: the share of the models' calls. {_summarize_coverage()}", ""]
    if any(one.cells for one in mapped.operators):
        lines += ["The four columns of memory and layout show the example of each operator, run on the mock board.", ""]
    return "\n".join([*lines, *format_markdown(shown)]) + "\n"


def _summarize_map(mapped: Mapped) -> str:
    counts = count_operators(mapped)
    sentence = (
        f"{counts['total_operators']} operators: {counts['supported']} run on the device, "
        f"{counts['meta_operations']} are no-ops, {counts['unsupported']} run on the host or are unsupported."
    )
    covered = (
        f" {format_share(mapped.covered_calls, mapped.calls)[:-1]} % of {format_count(mapped.calls)} calls are covered."
    )
    return sentence + (covered if mapped.calls else "")


def _summarize_coverage() -> str:
    found = _measure_coverage()
    return (
        f"Across {format_count(found['calls'])} calls from {found['models']} models ({len(model_calls().places)} "
        f"board/memory pairs) the twin is exact for {found['exact_percent']:g} %, bounded for "
        f"{found['bounded_percent']:g} %, and has no rule for {found['unknown_percent']:g} %."
    )


def _capitalize_head(head: str) -> str:
    return head if head == "ttnn" else head[:1].upper() + head[1:]


def render_map(mapped: Mapped, *, width: int = 100, color: bool = False) -> str:
    table = _build_map_table(mapped)
    counts = () if mapped.from_cases else ("calls", "cases", "runnable")
    report = TextReport(width, color=color)
    shown = table.select(*(head for head in table.heads if head not in (*counts, "notes")))
    report.print(replace(shown, columns=[replace(one, head=_capitalize_head(one.head)) for one in shown.columns]))
    report.print(_summarize_map(mapped), style="bold")
    report.print(_summarize_coverage())
    return report.render()
