# SPDX-License-Identifier: Apache-2.0
"""The answer of ``ttmem sweep report``: the JSON document, the files and the page."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import msgspec

from ttmem.base.atomic_files import write_texts
from ttmem.base.errors import BadInputError
from ttmem.base.formatting import flatten_text, format_compact_bytes, format_shape_list, format_share
from ttmem.failures.outcome import PASS, SKIPPED
from ttmem.operators.sweeps.result import Result
from ttmem.operators.sweeps.summary import Findings, SweepSummary
from ttmem.reports import sweep_analyses, sweep_tables
from ttmem.reports.kit.charts import Matrix, MatrixOutcome
from ttmem.reports.kit.documents import Document, format_json_pieces
from ttmem.reports.kit.pages import Card, Section, render_page
from ttmem.reports.kit.tables import Table, format_csv
from ttmem.reports.sweep_tables import NOTES, describe_advice


class Counts(Document, frozen=True):
    """The tests of one operator."""

    tests: int = msgspec.field(name="total")
    passed: int
    failed: int
    """For another reason than memory."""
    skipped: int
    not_judged: int
    """Tests without a verdict of the twin."""
    memory_failures: int = msgspec.field(name="oom")
    by_memory: Mapping[str, int] = msgspec.field(name="oom_by_memory")
    status: str


class ModelCounts(Document, frozen=True):
    """The tests of one model."""

    tests: int
    by_memory: Mapping[str, int] = msgspec.field(name="oom_by_memory")


class ErrorPattern(Document, frozen=True):
    """Failures with the same message."""

    title: str
    occurrences: int
    operators: Sequence[str]
    sentence: str = msgspec.field(name="error")
    """One of the messages, in full."""


class SweepReport(Document, frozen=True, tag_field="schema", tag="ttmem.sweep-report/1"):
    """The metrics of a set of results; also the file ``subset_test_analysis.json``."""

    generated: str
    source: str
    tests: int = msgspec.field(name="total_tests")
    passed: int
    failed: int
    skipped: int
    not_judged: int
    memory_failures: int = msgspec.field(name="oom")
    by_memory: Mapping[str, int] = msgspec.field(name="oom_by_memory")
    success_rate: float | None
    """Per cent of the tests that have a verdict."""
    operators_tested: int
    operators_without_tests: Sequence[str]
    unique_problematic_shapes: int
    severities: Mapping[str, int]
    operators: Mapping[str, Counts]
    models: Mapping[str, ModelCounts]
    patterns: Sequence[ErrorPattern] = msgspec.field(name="error_patterns")
    notes: Sequence[str]


def build_report(findings: Findings) -> SweepReport:
    """Build the document of findings."""
    summary = findings.summary
    return SweepReport(
        generated=findings.generated,
        source=findings.source,
        tests=summary.tests,
        passed=summary.passed,
        failed=summary.failed,
        skipped=summary.skipped,
        not_judged=summary.not_judged,
        memory_failures=summary.memory_failures,
        by_memory=summary.by_memory,
        success_rate=round(100 * summary.passed / summary.judged, 1) if summary.judged else None,
        operators_tested=summary.operators_tested,
        operators_without_tests=[one.name for one in summary.operators if not one.tests],
        unique_problematic_shapes=summary.problematic_shapes,
        severities=summary.severities,
        operators={
            one.name: Counts(
                tests=one.tests,
                passed=one.passed,
                failed=one.failed,
                skipped=one.skipped,
                not_judged=one.not_judged,
                memory_failures=one.memory_failures,
                by_memory=one.by_memory,
                status=one.status,
            )
            for one in summary.operators
        },
        models={one.name: ModelCounts(tests=one.tests, by_memory=one.by_memory) for one in summary.models},
        patterns=[
            ErrorPattern(title=one.title, occurrences=one.occurrences, operators=one.operators, sentence=one.sentence)
            for one in summary.patterns
        ],
        notes=summary.notes,
    )


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
"""The purpose of each file, the first one to open first."""


_RENDERED: dict[str, Callable[[Findings], Iterable[str]]] = {
    PAGE: lambda findings: (render_html(findings),),
    "OPERATOR_MEMORY_ANALYSIS_SUMMARY.md": lambda findings: (sweep_analyses.render_operator_markdown(findings),),
    "comprehensive_analysis_report.txt": lambda findings: (sweep_analyses.render_operator_text(findings),),
    "detailed_analysis_data.json": lambda findings: _render_json(sweep_analyses.build_operator_data(findings)),
    "oom_analysis_report.md": lambda findings: (sweep_analyses.render_oom_markdown(findings),),
    "oom_detailed_data.json": lambda findings: _render_json(sweep_analyses.build_oom_data(findings)),
    "oom_operators_summary.csv": lambda findings: _render_csv(sweep_analyses.build_oom_csv(findings)),
    "OOM_OPERATORS_FINAL_SUMMARY.txt": lambda findings: (sweep_analyses.render_oom_text(findings),),
    "VISION_OPERATOR_FINAL_REPORT.md": lambda findings: (sweep_analyses.render_final_markdown(findings),),
    "comprehensive_oom_report.json": lambda findings: _render_json(sweep_analyses.build_final_data(findings)),
    "oom_failures_detailed.csv": lambda findings: _render_csv(sweep_analyses.build_final_csv(findings)),
    "subset_test_analysis.json": lambda findings: _render_json(build_report(findings).to_json()),
}


def render_all(findings: Findings) -> dict[str, str]:
    """File name -> content."""
    return {name: "".join(_RENDERED[name](findings)) for name in ABOUT}


def list_files(written: Sequence[Path]) -> str:
    """List the files and their purpose, one line each."""
    wide = max((len(str(path)) for path in written), default=0)
    return "\n".join(f"{path!s:<{wide}}  {ABOUT[path.name]}" for path in written)


def write_files(findings: Findings, folder: Path) -> list[Path]:
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


def _render_json(document: Any) -> Iterator[str]:
    yield from format_json_pieces(document, 1)
    yield "\n"


def _render_csv(table: Table) -> tuple[str]:
    """Render CSV; a cell that a spreadsheet would take for a formula gets a leading quote: names come from logs."""
    return (format_csv(replace(table, rows=[[_escape_formula(value) for value in row] for row in table.rows])),)


def _escape_formula(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "@", "-", "\t", "\r") else value


_MOST_ROWS = 3000
"""Rows of a table that a browser sorts quickly; the JSON files have all."""
_MOST_SHAPES = 500
_BADNESS = (1, 3, 2, 0)
"""Severity of the outcomes below: the worst is shown."""
_MOST_COLUMNS, _MOST_OPERATORS = 240, 80
_OUTCOMES = (
    MatrixOutcome("passes", "ok"),
    MatrixOutcome("out of memory", "alarm"),
    MatrixOutcome("fails otherwise", "warn"),
    MatrixOutcome("not run, or not judged", "none"),
)
_COLUMNS = ("Operator", "Tests", "Passed", "OOM", "OOM in", "Failed", "Skipped", "Worst shape", "On device", "Status")


def render_html(findings: Findings) -> str:
    """The page."""
    summary = findings.summary
    facts = " · ".join(f"{name}: {value}" for name, value in summary.facts.items())
    kept = {"failures": "oom_detailed_data.json", "by_board": "detailed_analysis_data.json"}
    cut = {name: len(getattr(summary, name)) - _MOST_ROWS for name in kept}
    return render_page(
        title="Operator memory report",
        subtitle=flatten_text(f"{findings.source} · {findings.generated}" + (f" · {facts}" if facts else "")),
        cards=_build_cards(findings),
        notes=[
            *map(flatten_text, summary.notes),
            *(
                f"{more:,} more {'failures' if name == 'failures' else 'operators'} are in {kept[name]}"
                for name, more in cut.items()
                if more > 0
            ),
        ],
        sections=[_build_matrix(findings.summary), *(one for one in _build_sections(findings) if one.tables[0].rows)],
        foot=" ".join(NOTES),
    )


def _build_cards(findings: Findings) -> list[Card]:
    summary = findings.summary
    affected = summary.operators_with_memory_failures
    cards = [
        Card("Operators", str(len(summary.operators)), detail=f"{affected} run out of memory"),
        Card("Tests", str(summary.tests), detail=f"{summary.skipped} skipped"),
        Card("Passed", str(summary.passed), detail=format_share(summary.passed, summary.tests)),
    ]
    cards += [
        Card(f"Out of memory in {memory}", str(count), detail=format_share(count, summary.tests), level="alarm")
        for memory, count in sorted(summary.by_memory.items())
    ]
    if summary.failed:
        detail = format_share(summary.failed, summary.tests)
        cards.append(Card("Failed otherwise", str(summary.failed), detail=detail, level="warn"))
    if summary.not_judged:
        detail = f"{format_share(summary.not_judged, summary.tests)}: ask --engine mock"
        cards.append(Card("Not judged", str(summary.not_judged), detail=detail, level="warn"))
    return cards


def _build_matrix(summary: SweepSummary) -> Section:
    """Build the matrix of operators by shapes: the worst result in any memory and layout, small shapes on the left."""
    places: dict[tuple[int, ...], int] = {}
    for result in summary.results:
        if result.shapes:
            size = result.logical_bytes or prod(result.shapes[0])
            places[result.shapes[0]] = max(places.get(result.shapes[0], 0), size)
    shapes = sorted(places, key=lambda shape: (places[shape], shape))[-_MOST_COLUMNS:]
    columns = {shape: number for number, shape in enumerate(shapes)}
    shown = sorted(summary.operators, key=lambda one: (-one.memory_failures, one.name))[:_MOST_OPERATORS]
    cells, remarks = [], []
    for operator in shown:
        outcomes, texts = [-1] * len(shapes), [""] * len(shapes)
        for result in operator.results:
            place = columns.get(result.shapes[0]) if result.shapes else None
            if place is None:
                continue
            outcome = _classify(result)
            if outcomes[place] < 0 or _BADNESS[outcome] > _BADNESS[outcomes[place]]:
                outcomes[place] = outcome
                where = " ".join(filter(None, (result.board, result.memory, result.layout)))
                texts[place] = f"{result.status} {where}, {format_compact_bytes(result.logical_bytes)}"
        cells.append(outcomes)
        remarks.append(texts)
    title = "Operators by shapes"
    names = [flatten_text(operator.name) for operator in shown]
    drawing = Matrix(title, names, [format_shape_list(shape) for shape in shapes], cells, remarks, _OUTCOMES)
    about = "One column per shape, from small to large; each cell shows the worst result across memories and layouts."
    return Section("matrix", title, about=about, drawing=drawing if shapes else None, drawing_role="matrix")


def _classify(result: Result) -> int:
    """Return the index of the outcome; a test skipped because it ran out of memory counts as out of memory."""
    if result.is_memory_failure:
        return 1
    if not result.is_judged:
        return 3
    return {PASS: 0, SKIPPED: 3}.get(result.status, 2)


def _build_sections(findings: Findings) -> list[Section]:
    summary = findings.summary
    operators = sweep_tables.select_operator_columns(_COLUMNS, summary)
    priorities = sweep_tables.build_priorities(findings)
    failures = sweep_tables.build_failures(findings, summary.failures[:_MOST_ROWS])
    models, patterns = sweep_tables.build_models(summary), sweep_tables.build_patterns(summary)
    priorities, operators, models, patterns = (
        table.take(_MOST_ROWS) for table in (priorities, operators, models, patterns)
    )
    return [
        Section("priorities", "Priorities and what passes instead", [priorities], about=describe_advice(findings)),
        Section("operators", "Operators", [operators]),
        Section("shapes", "Most problematic shapes", [sweep_tables.build_shapes(summary).take(_MOST_SHAPES)]),
        Section("severity", "Severity", [sweep_tables.build_severities(summary)]),
        Section("models", "Models", [models]),
        Section("patterns", "Error patterns", [patterns]),
        Section("failures", "Every memory failure", [failures]),
    ]
