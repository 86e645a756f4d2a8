# SPDX-License-Identifier: Apache-2.0
"""The report of a sweep as one self-contained page."""

from ttmem.reports.kit.pages import Card, Section, page
from ttmem.reports.kit.units import one_line, share
from ttmem.reports.sweep import tables
from ttmem.reports.sweep.sentences import NOTES, advice_note
from ttmem.sweep.summary import Findings

_MOST_FAILURES = 3000
"""Rows of a table that a browser still sorts at once; the JSON files have all."""
_MOST_SHAPES = 500
_COLUMNS = ("Operator", "Tests", "Passed", "OOM", "OOM in", "Failed", "Skipped", "Worst shape", "On device", "Status")


def render(findings: Findings) -> str:
    """The page."""
    summary = findings.summary
    facts = " · ".join(f"{name}: {value}" for name, value in summary.facts.items())
    cut = len(summary.failures) - _MOST_FAILURES
    return page(
        title="Operator memory report",
        subtitle=one_line(f"{findings.source} · {findings.generated}" + (f" · {facts}" if facts else "")),
        cards=_cards(findings),
        notes=[
            *map(one_line, summary.notes),
            *([f"{cut} more failures are in oom_detailed_data.json"] if cut > 0 else []),
        ],
        sections=[section for section in _sections(findings) if section.tables[0].rows],
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


def _sections(findings: Findings) -> list[Section]:
    summary = findings.summary
    operators = tables.operators_with(_COLUMNS, summary)
    priorities = tables.priorities(findings)
    failures = tables.failures(findings, summary.failures[:_MOST_FAILURES])
    return [
        Section("priorities", "Priorities and what passes instead", [priorities], about=advice_note(findings)),
        Section("operators", "Operators", [operators]),
        Section("shapes", "Most problematic shapes", [tables.shapes(summary).first(_MOST_SHAPES)]),
        Section("severity", "Severity", [tables.severities(summary)]),
        Section("models", "Models", [tables.models(summary)]),
        Section("patterns", "Error patterns", [tables.patterns(summary)]),
        Section("failures", "Every memory failure", [failures]),
    ]
