# SPDX-License-Identifier: Apache-2.0
"""The operator analysis: ``OPERATOR_MEMORY_ANALYSIS_SUMMARY.md``, ``comprehensive_analysis_report.txt`` and
``detailed_analysis_data.json``."""

from collections import Counter
from typing import Any

from ttmem.base.limits import ROWS_FOR_PEOPLE
from ttmem.operators.sweeps.summary import Findings, OperatorSummary, where
from ttmem.reports.kit.units import one_line, shape_list
from ttmem.reports.sweep import tables
from ttmem.reports.sweep.sentences import NOTES, advice_note, bullets, document, facts_lines
from ttmem.reports.sweep.tables import as_markdown, as_text, bold, section

_MOST_SHAPES = 12
_MOST_OPERATORS = 500
"""With a section of their own; there are a few hundred operators in all."""
_MOST_PATTERNS = 20
_MOST_ERRORS = 50
_COLUMNS = ("Operator", "Tests", "Passed", "Failed", "OOM", "OOM in", "Skipped", "Status")
_FILES = """\
- `comprehensive_analysis_report.txt`: the same as plain text
- `detailed_analysis_data.json`: one record per operator
- `oom_analysis_report.md`, `oom_detailed_data.json`: every memory failure"""


def markdown(findings: Findings) -> str:
    """The summary for people."""
    summary = findings.summary
    subject = f"{len(summary.operators)} operators with {summary.tests} total tests"
    return document(
        "# TT-Metal Operator Memory Analysis Summary",
        f"**Generated:** {findings.generated}  \n**Analysis of:** {subject}",
        bullets(facts_lines(findings)),
        section("Executive Summary", bold(tables.headline(summary))),
        " ".join(NOTES),
        section("Memory Issues Analysis", _memory_issues(findings)),
        section("Operator Status Breakdown", bold(tables.operators_with(_COLUMNS, summary))),
        section("Common Error Patterns", _patterns(findings)),
        section("Recommendations", tables.priorities(findings), "Nothing ran out of memory."),
        advice_note(findings),
        section("File Locations", _FILES),
    )


def _memory_issues(findings: Findings) -> str:
    parts = []
    failing = [operator for operator in findings.summary.operators if operator.memory_failures]
    for operator in failing[:_MOST_OPERATORS]:
        failures = sorted(
            (one for one in operator.results if one.is_memory_failure), key=lambda one: -(one.device_bytes or 0)
        )
        if failures:
            shown = tables.failures(findings, failures[:_MOST_SHAPES])
            heads = ("Shape", "Memory", "Status", "Logical", "On device", "What passes instead")
            shown = tables.with_boards(shown, findings.summary, *heads)
            left = len(failures) - _MOST_SHAPES
            parts += [
                f"### {operator.name}: {operator.memory_failures} of {operator.tests} tests",
                as_markdown(shown),
                *([f"{left} more in `oom_detailed_data.json`."] if left > 0 else []),
            ]
    if len(failing) > _MOST_OPERATORS:
        parts.append(f"{len(failing) - _MOST_OPERATORS:,} more operators in `oom_detailed_data.json`.")
    return "\n\n".join(parts) or "No test ran out of memory."


def _patterns(findings: Findings) -> str:
    parts = []
    for number, pattern in enumerate(findings.summary.patterns[:_MOST_PATTERNS], 1):
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
    patterns = "\n".join(
        f"{count}x {title}: {operators}\n    {error}"
        for title, count, operators, error in tables.patterns(summary).first(ROWS_FOR_PEOPLE).cells()
    )
    return document(
        f"{line}\nTT-METAL COMPREHENSIVE OPERATOR ANALYSIS\n{line}",
        f"Generated: {findings.generated}\n" + "\n".join(facts_lines(findings)),
        tables.headline_text(summary),
        "\n".join(NOTES),
        as_text(tables.operators_with(_COLUMNS, summary)),
        "ERROR PATTERNS",
        patterns or "none",
        "PRIORITIES",
        tables.priorities_text(findings) or "none",
    )


def data(findings: Findings) -> list[dict[str, Any]]:
    """``detailed_analysis_data.json``: one record per operator, under the keys of the older analyser."""
    return [_record(one, findings) for one in findings.summary.operators]


def _record(one: OperatorSummary, findings: Findings) -> dict[str, Any]:
    results = one.results
    failures = [result for result in results if result.outcome.is_failure]
    statuses = Counter(result.status for result in results)
    timed = [result.outcome.seconds for result in results if result.outcome.seconds is not None]
    return {
        "operator": one.name,
        "file_path": ", ".join(dict.fromkeys(result.origin for result in results)),
        "total_tests": one.tests,
        "passed_tests": one.passed,
        "failed_tests": one.failed,
        "skipped_tests": one.skipped,
        "not_judged_tests": one.not_judged,
        "memory_errors": one.memory_failures,
        "memory_errors_by_memory": dict(one.by_memory),
        "timeout_errors": statuses["timeout"],
        "collection_errors": statuses["error"],
        "other_errors": one.failed - statuses["timeout"] - statuses["error"],
        "status": one.status,
        "boards": list(dict.fromkeys(result.board for result in results if result.board)),
        "input_shapes": [list(shape) for shape in dict.fromkeys(result.shape for result in results if result.shapes)],
        "error_types": dict(Counter(result.outcome.failure_class or result.status for result in failures)),
        "memory_usage_estimates": [
            {
                "shape": list(result.shape),
                "board": result.board or None,
                "memory": where(result),
                "memory_bytes": result.shape_logical_bytes,
                "padded_bytes": result.device_bytes,
                "advice": list(findings.advice_for(result)),
            }
            for result in failures
            if result.is_memory_failure
        ],
        "specific_errors": list(dict.fromkeys(one_line(result.message) for result in failures if result.message))[
            :_MOST_ERRORS
        ],
        "test_duration": round(sum(timed), 3) if timed else None,
    }
