# SPDX-License-Identifier: Apache-2.0
"""The operator analysis: ``OPERATOR_MEMORY_ANALYSIS_SUMMARY.md``, ``comprehensive_analysis_report.txt`` and
``detailed_analysis_data.json``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ttmem.reports.kit.units import one_line
from ttmem.reports.sweep.words import (
    COUNT_NOTE,
    SIZES_NOTE,
    advice_text,
    by_memory,
    columns,
    facts_lines,
    headline,
    priorities,
    readable,
    shape_list,
    table,
)
from ttmem.results import Result
from ttmem.sweep.findings import Findings
from ttmem.sweep.summary import OperatorSummary, where

_MOST_SHAPES = 12
_FILES = """\
- `comprehensive_analysis_report.txt`: the same as plain text
- `detailed_analysis_data.json`: one record per operator
- `oom_analysis_report.md`, `oom_detailed_data.json`: every memory failure"""


def markdown(findings: Findings) -> str:
    """The summary for people."""
    summary = findings.summary
    subject = f"{len(summary.operators)} operators with {summary.tests} total tests"
    parts = [
        "# TT-Metal Operator Memory Analysis Summary",
        f"**Generated:** {findings.generated}  \n**Analysis of:** {subject}",
        "\n".join(f"- {line}" for line in facts_lines(findings)),
        "## Executive Summary",
        table(
            ("Metric", "Count", "Percentage"), [(f"**{name}**", count, part) for name, count, part in headline(summary)]
        ),
        f"{COUNT_NOTE} {SIZES_NOTE}",
        "## Memory Issues Analysis",
        _memory_issues(findings),
        "## Operator Status Breakdown",
        table(
            ("Operator", "Total Tests", "Passed", "Failed", "OOM", "OOM in", "Skipped", "Status"),
            [
                (
                    f"**{one.name}**",
                    one.tests,
                    one.passed,
                    one.failed,
                    one.memory_failures,
                    by_memory(one.by_memory),
                    one.skipped,
                    one.status,
                )
                for one in summary.operators
            ],
        ),
        "## Common Error Patterns",
        _patterns(findings),
        "## Recommendations",
        table(("Priority", "Operator", "Memory Issue", "What passes instead"), priorities(findings))
        if summary.failures
        else "Nothing ran out of memory.",
        _advice_note(findings),
        "## File Locations",
        _FILES,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _advice_note(findings: Findings) -> str:
    if not findings.summary.failures:
        return ""
    asked = findings.advice_from
    text = f"What passes was asked of the {asked}; a chunk runs alone, the rest of its tensor waits elsewhere."
    if findings.unadvised:
        text += f" {findings.unadvised} failures were not asked about (too many, or their shape or memory is not told)."
    return text


def _memory_issues(findings: Findings) -> str:
    parts = []
    for operator in findings.summary.operators:
        failures = [result for result in findings.summary.failures if result.op == operator.name]
        if not failures:
            continue
        rows = [
            (f"`{shape_list(result.shape)}`", where(result), result.status, readable(result.first_logical_bytes),
             readable(result.device_bytes), advice_text(findings.advice_for(result)) or "-")
            for result in failures[:_MOST_SHAPES]
        ]  # fmt: skip
        more = (
            f"\n\n{len(failures) - _MOST_SHAPES} more in `oom_detailed_data.json`."
            if len(failures) > _MOST_SHAPES
            else ""
        )
        heads = ("Shape", "Memory", "Status", "Logical", "On device", "What passes instead")
        parts.append(
            f"### {operator.name}: {operator.memory_failures} of {operator.tests} tests\n\n{table(heads, rows)}{more}"
        )
    return "\n\n".join(parts) or "No test ran out of memory."


def _patterns(findings: Findings) -> str:
    parts = []
    for number, pattern in enumerate(findings.summary.patterns[:20], 1):
        shapes = ", ".join(f"`{shape_list(shape)}`" for shape in pattern.example_shapes)
        operators = ", ".join(f"`{name}`" for name in pattern.operators)
        parts.append(
            f"### {number}. {one_line(pattern.title)}\n**Operators affected:** {operators}  \n**Occurrences:** "
            f"{pattern.occurrences}  \n**Error:** {one_line(pattern.sentence)[:400] or '-'}"
            + (f"  \n**Example shapes:** {shapes}" if shapes else "")
        )
    return "\n\n".join(parts) or "No failures."


def text(findings: Findings) -> str:
    """``comprehensive_analysis_report.txt``."""
    summary = findings.summary
    line = "=" * 80
    heads = ("OPERATOR", "TESTS", "PASSED", "FAILED", "OOM", "OOM IN", "SKIPPED", "STATUS")
    rows = [
        (one.name, str(one.tests), str(one.passed), str(one.failed), str(one.memory_failures), by_memory(one.by_memory),
         str(one.skipped), one.status)
        for one in summary.operators
    ]  # fmt: skip
    parts = [
        f"{line}\nTT-METAL COMPREHENSIVE OPERATOR ANALYSIS\n{line}",
        f"Generated: {findings.generated}\n" + "\n".join(facts_lines(findings)),
        "\n".join(f"{name}: {count}{f' ({part})' if part else ''}" for name, count, part in headline(summary)),
        f"{COUNT_NOTE}\n{SIZES_NOTE}",
        columns(heads, rows),
        "ERROR PATTERNS",
        "\n".join(
            f"{pattern.occurrences}x {one_line(pattern.title)}: {', '.join(pattern.operators)}\n    "
            f"{one_line(pattern.sentence)[:300]}"
            for pattern in summary.patterns
        )
        or "none",
        "PRIORITIES",
        "\n".join(f"{level}: {name}: {problem}\n    {remedy}" for level, name, problem, remedy in priorities(findings))
        or "none",
    ]
    return "\n\n".join(parts) + "\n"


def data(findings: Findings) -> list[dict[str, Any]]:
    """``detailed_analysis_data.json``: one record per operator, under the keys of the older analyser."""
    by_operator: dict[str, list[Result]] = {one.name: [] for one in findings.summary.operators}
    for result in findings.summary.results:
        by_operator[result.op].append(result)
    return [_record(one, by_operator[one.name], findings) for one in findings.summary.operators]


def _record(one: OperatorSummary, tests: list[Result], findings: Findings) -> dict[str, Any]:
    failures = [result for result in tests if result.outcome.is_failure]
    timed = [result.outcome.seconds for result in tests if result.outcome.seconds is not None]
    return {
        "operator": one.name,
        "file_path": ", ".join(dict.fromkeys(result.origin for result in tests)),
        "total_tests": one.tests,
        "passed_tests": one.passed,
        "failed_tests": one.failed,
        "skipped_tests": one.skipped,
        "memory_errors": one.memory_failures,
        "memory_errors_by_memory": dict(one.by_memory),
        "timeout_errors": sum(result.status == "timeout" for result in tests),
        "collection_errors": sum(result.status == "error" for result in tests),
        "other_errors": sum(
            not result.is_memory_failure and result.status not in ("timeout", "error") for result in failures
        ),
        "status": one.status,
        "input_shapes": [list(shape) for shape in dict.fromkeys(result.shape for result in tests if result.shapes)],
        "error_types": dict(Counter(result.outcome.failure_class or result.status for result in failures)),
        "memory_usage_estimates": [
            {
                "shape": list(result.shape),
                "memory": where(result),
                "memory_bytes": result.first_logical_bytes,
                "padded_bytes": result.device_bytes,
                "advice": list(findings.advice_for(result)),
            }
            for result in tests
            if result.is_memory_failure
        ],
        "specific_errors": list(dict.fromkeys(one_line(result.message) for result in failures if result.message))[:50],
        "test_duration": round(sum(timed), 3) if timed else None,
    }
