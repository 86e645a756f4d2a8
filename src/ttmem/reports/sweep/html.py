# SPDX-License-Identifier: Apache-2.0
"""The report of a sweep as one self-contained page."""

from math import prod

from ttmem.failures.outcome import PASS, SKIPPED
from ttmem.operators.sweeps.result import Result
from ttmem.operators.sweeps.summary import Findings, Summary
from ttmem.reports.kit.drawings import Matrix, Outcome
from ttmem.reports.kit.pages import Card, Section, page
from ttmem.reports.kit.units import compact_bytes, one_line, shape_list, share
from ttmem.reports.sweep import tables
from ttmem.reports.sweep.sentences import NOTES, advice_note

_MOST_ROWS = 3000
"""Rows of a table that a browser still sorts at once; the JSON files have all."""
_MOST_SHAPES = 500
_BADNESS = (1, 3, 2, 0)
"""Of the outcomes below: what is worst is shown."""
_MOST_COLUMNS, _MOST_OPERATORS = 240, 80
_OUTCOMES = (
    Outcome("passes", "ok"),
    Outcome("out of memory", "alarm"),
    Outcome("fails otherwise", "warn"),
    Outcome("not run, or not judged", "none"),
)
_COLUMNS = ("Operator", "Tests", "Passed", "OOM", "OOM in", "Failed", "Skipped", "Worst shape", "On device", "Status")


def render(findings: Findings) -> str:
    """The page."""
    summary = findings.summary
    facts = " · ".join(f"{name}: {value}" for name, value in summary.facts.items())
    kept = {"failures": "oom_detailed_data.json", "by_board": "detailed_analysis_data.json"}
    cut = {name: len(getattr(summary, name)) - _MOST_ROWS for name in kept}
    return page(
        title="Operator memory report",
        subtitle=one_line(f"{findings.source} · {findings.generated}" + (f" · {facts}" if facts else "")),
        cards=_cards(findings),
        notes=[
            *map(one_line, summary.notes),
            *(
                f"{more:,} more {'failures' if name == 'failures' else 'operators'} are in {kept[name]}"
                for name, more in cut.items()
                if more > 0
            ),
        ],
        sections=[_matrix(findings.summary), *(one for one in _sections(findings) if one.tables[0].rows)],
        foot=" ".join(NOTES),
    )


def _cards(findings: Findings) -> list[Card]:
    summary = findings.summary
    affected = summary.operators_with_memory_failures
    cards = [
        Card("Operators", str(len(summary.operators)), detail=f"{affected} run out of memory"),
        Card("Tests", str(summary.tests), detail=f"{summary.skipped} skipped"),
        Card("Passed", str(summary.passed), detail=share(summary.passed, summary.tests)),
    ]
    cards += [
        Card(f"Out of memory in {memory}", str(count), detail=share(count, summary.tests), level="alarm")
        for memory, count in sorted(summary.by_memory.items())
    ]
    if summary.failed:
        detail = share(summary.failed, summary.tests)
        cards.append(Card("Failed otherwise", str(summary.failed), detail=detail, level="warn"))
    if summary.not_judged:
        detail = f"{share(summary.not_judged, summary.tests)}: ask --engine mock"
        cards.append(Card("Not judged", str(summary.not_judged), detail=detail, level="warn"))
    return cards


def _matrix(summary: Summary) -> Section:
    """Operators by shapes: the worst that came of a shape in any memory and layout, small shapes on the left."""
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
            outcome = _outcome(result)
            if outcomes[place] < 0 or _BADNESS[outcome] > _BADNESS[outcomes[place]]:
                outcomes[place] = outcome
                where = " ".join(filter(None, (result.board, result.memory, result.layout)))
                texts[place] = f"{result.status} {where}, {compact_bytes(result.logical_bytes)}"
        cells.append(outcomes)
        remarks.append(texts)
    title = "Operators by shapes"
    names = [one_line(operator.name) for operator in shown]
    drawing = Matrix(title, names, [shape_list(shape) for shape in shapes], cells, remarks, _OUTCOMES)
    about = "One column per shape, from small to large; each cell shows the worst result across memories and layouts."
    return Section("matrix", title, about=about, drawing=drawing if shapes else None, drawing_role="matrix")


def _outcome(result: Result) -> int:
    """Which of the outcomes; a test that was skipped because it ran out of memory ran out of memory."""
    if result.is_memory_failure:
        return 1
    if not result.is_judged:
        return 3
    return {PASS: 0, SKIPPED: 3}.get(result.status, 2)


def _sections(findings: Findings) -> list[Section]:
    summary = findings.summary
    operators = tables.operators_with(_COLUMNS, summary)
    priorities = tables.priorities(findings)
    failures = tables.failures(findings, summary.failures[:_MOST_ROWS])
    models, patterns = tables.models(summary), tables.patterns(summary)
    priorities, operators, models, patterns = (
        table.first(_MOST_ROWS) for table in (priorities, operators, models, patterns)
    )
    return [
        Section("priorities", "Priorities and what passes instead", [priorities], about=advice_note(findings)),
        Section("operators", "Operators", [operators]),
        Section("shapes", "Most problematic shapes", [tables.shapes(summary).first(_MOST_SHAPES)]),
        Section("severity", "Severity", [tables.severities(summary)]),
        Section("models", "Models", [models]),
        Section("patterns", "Error patterns", [patterns]),
        Section("failures", "Every memory failure", [failures]),
    ]
