# SPDX-License-Identifier: Apache-2.0
"""The report of a sweep as one self-contained page."""

from __future__ import annotations

from ttmem.reports.kit.units import one_line
from ttmem.reports.sweep.page import Card, Section, render_page
from ttmem.reports.sweep.words import (
    COUNT_NOTE,
    SIZES_NOTE,
    advice_text,
    by_memory,
    priorities,
    readable,
    severity_range,
    shape_list,
    share,
)
from ttmem.sweep.findings import Findings
from ttmem.sweep.summary import severity_of, where

_MOST_FAILURES = 3000
"""Rows of a table that a browser still sorts at once; the JSON files have all."""


def render(findings: Findings) -> str:
    """The page."""
    summary = findings.summary
    facts = " · ".join(f"{name}: {value}" for name, value in summary.facts.items())
    cut = len(summary.failures) - _MOST_FAILURES
    return render_page(
        title="Operator memory report",
        subtitle=one_line(f"{findings.source} · {findings.generated}" + (f" · {facts}" if facts else "")),
        cards=_cards(findings),
        notes=[
            *map(one_line, summary.notes),
            *([f"{cut} more failures are in oom_detailed_data.json"] if cut > 0 else []),
        ],
        sections=[section for section in _sections(findings) if section.rows],
        foot=f"{COUNT_NOTE} {SIZES_NOTE}",
    )


def _cards(findings: Findings) -> list[Card]:
    summary = findings.summary
    total = summary.tests
    cards = [
        Card("Operators", str(len(summary.operators)), f"{summary.operators_with_memory_failures} run out of memory"),
        Card("Tests", str(total), f"{summary.skipped} skipped"),
        Card("Passed", str(summary.passed), share(summary.passed, total)),
    ]
    for memory, count in sorted(summary.by_memory.items()):
        cards.append(Card(f"Out of memory in {memory}", str(count), share(count, total), "alarm" if count else ""))
    if summary.failed:
        cards.append(Card("Failed otherwise", str(summary.failed), share(summary.failed, total), "warn"))
    return cards


def _sections(findings: Findings) -> list[Section]:
    summary = findings.summary
    asked = f"asked of the {findings.advice_from}; a chunk runs alone, the rest of its tensor waits elsewhere"
    return [
        Section(
            "priorities",
            "Priorities and what passes instead",
            ("Priority", "Operator", "Problem", "What passes instead"),
            priorities(findings),
            says=asked,
        ),
        Section(
            "operators",
            "Operators",
            ("Operator", "Tests", "Passed", "OOM", "OOM in", "Failed", "Skipped", "Worst shape", "On device", "Status"),
            [
                (
                    one.name,
                    str(one.tests),
                    str(one.passed),
                    str(one.memory_failures),
                    by_memory(one.by_memory),
                    str(one.failed),
                    str(one.skipped),
                    shape_list(one.worst.shape) if one.worst else "-",
                    readable(one.worst.device_bytes) if one.worst else "-",
                    one.status,
                )
                for one in summary.operators
            ],
            frozenset({1, 2, 3, 5, 6, 8}),
        ),
        Section(
            "shapes",
            "Most problematic shapes",
            ("Shape", "Logical", "On device", "Operators", "Occurrences", "OOM in"),
            [
                (
                    shape_list(one.shape),
                    readable(one.logical_bytes),
                    readable(one.device_bytes),
                    ", ".join(one.operators),
                    str(one.occurrences),
                    by_memory(one.by_memory),
                )
                for one in summary.shapes[:500]
            ],
            frozenset({1, 2, 4}),
        ),
        Section(
            "severity",
            "Severity",
            ("Class", "On device", "Count", "Share"),
            [
                (name, severity_range(name), str(count), share(count, summary.memory_failures))
                for name, count in summary.severities.items()
            ],
            frozenset({2, 3}),
        ),
        Section(
            "models",
            "Models",
            ("Model", "Tests", "Memory failures", "Operators", "Worst shape"),
            [
                (
                    one_line(one.name),
                    str(one.tests),
                    by_memory(one.by_memory),
                    ", ".join(one.operators) or "-",
                    shape_list(one.worst.shape) if one.worst else "-",
                )
                for one in summary.models
            ],
            frozenset({1}),
        ),
        Section(
            "patterns",
            "Error patterns",
            ("Pattern", "Occurrences", "Operators", "Error"),
            [
                (one_line(one.title), str(one.occurrences), ", ".join(one.operators), one_line(one.sentence)[:300])
                for one in summary.patterns
            ],
            frozenset({1}),
        ),
        Section(
            "failures",
            "Every memory failure",
            (
                "Operator",
                "Shape",
                "Board",
                "Memory",
                "Status",
                "Logical",
                "On device",
                "Severity",
                "What passes instead",
            ),
            [
                (
                    result.op,
                    shape_list(result.shape),
                    result.board or "-",
                    where(result),
                    result.status,
                    readable(result.first_logical_bytes),
                    readable(result.device_bytes),
                    severity_of(result),
                    advice_text(findings.advice_for(result)) or "-",
                )
                for result in summary.failures[:_MOST_FAILURES]
            ],
            frozenset({5, 6}),
        ),
    ]
