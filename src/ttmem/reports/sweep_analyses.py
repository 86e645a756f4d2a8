# SPDX-License-Identifier: Apache-2.0
"""The report files that earlier tools wrote: analyses of operators and of memory failures, and the final report."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ttmem.base.formatting import (
    KIB,
    MIB,
    flatten_text,
    format_compact_bytes,
    format_mib,
    format_shape_list,
    format_share,
)
from ttmem.base.limits import ROWS_FOR_PEOPLE
from ttmem.operators.sweeps.result import Result
from ttmem.operators.sweeps.summary import Findings, OperatorSummary, severity_of, where
from ttmem.reports import sweep_tables
from ttmem.reports.kit.tables import Table
from ttmem.reports.sweep_tables import (
    NOTES,
    describe_advice,
    embolden,
    format_advice,
    format_bullets,
    format_memories,
    join_paragraphs,
    list_facts,
    render_markdown_table,
    render_section,
    render_text_table,
)

_MOST_OPERATOR_SHAPES = 12
_MOST_OPERATORS = 500
"""With a section of their own; there are a few hundred operators in all."""
_MOST_PATTERNS = 20
_MOST_ERRORS = 50
_OPERATOR_COLUMNS = ("Operator", "Tests", "Passed", "Failed", "OOM", "OOM in", "Skipped", "Status")
_OPERATOR_FILES = """\
- `comprehensive_analysis_report.txt`: the same as plain text
- `detailed_analysis_data.json`: one record per operator
- `oom_analysis_report.md`, `oom_detailed_data.json`: every memory failure"""


def render_operator_markdown(findings: Findings) -> str:
    """The summary for people."""
    summary = findings.summary
    subject = f"{len(summary.operators)} operators with {summary.tests} total tests"
    return join_paragraphs(
        "# TT-Metal Operator Memory Analysis Summary",
        f"**Generated:** {findings.generated}  \n**Analysis of:** {subject}",
        format_bullets(list_facts(findings)),
        render_section("Executive Summary", embolden(sweep_tables.build_headline(summary))),
        " ".join(NOTES),
        render_section("Memory Issues Analysis", _render_memory_issues(findings)),
        render_section(
            "Operator Status Breakdown", embolden(sweep_tables.select_operator_columns(_OPERATOR_COLUMNS, summary))
        ),
        render_section("Common Error Patterns", _render_patterns(findings)),
        render_section("Recommendations", sweep_tables.build_priorities(findings), "Nothing ran out of memory."),
        describe_advice(findings),
        render_section("File Locations", _OPERATOR_FILES),
    )


def _render_memory_issues(findings: Findings) -> str:
    parts = []
    failing = [operator for operator in findings.summary.operators if operator.memory_failures]
    for operator in failing[:_MOST_OPERATORS]:
        failures = sorted(
            (one for one in operator.results if one.is_memory_failure), key=lambda one: -(one.device_bytes or 0)
        )
        if failures:
            shown = sweep_tables.build_failures(findings, failures[:_MOST_OPERATOR_SHAPES])
            heads = ("Shape", "Memory", "Status", "Logical", "On device", "What passes instead")
            shown = sweep_tables.select_columns(shown, findings.summary, *heads)
            left = len(failures) - _MOST_OPERATOR_SHAPES
            parts += [
                f"### {operator.name}: {operator.memory_failures} of {operator.tests} tests",
                render_markdown_table(shown),
                *([f"{left} more in `oom_detailed_data.json`."] if left > 0 else []),
            ]
    if len(failing) > _MOST_OPERATORS:
        parts.append(f"{len(failing) - _MOST_OPERATORS:,} more operators in `oom_detailed_data.json`.")
    return "\n\n".join(parts) or "No test ran out of memory."


def _render_patterns(findings: Findings) -> str:
    parts = []
    for number, pattern in enumerate(findings.summary.patterns[:_MOST_PATTERNS], 1):
        shapes = ", ".join(f"`{format_shape_list(shape)}`" for shape in pattern.example_shapes)
        operators = ", ".join(f"`{name}`" for name in pattern.operators)
        parts.append(
            f"### {number}. {flatten_text(pattern.title)}\n**Operators affected:** {operators}  \n**Occurrences:** "
            f"{pattern.occurrences}  \n**Error:** {flatten_text(pattern.sentence)[:400] or '-'}"
            + (f"  \n**Example shapes:** {shapes}" if shapes else "")
        )
    return "\n\n".join(parts) or "No failures."


def render_operator_text(findings: Findings) -> str:
    """``comprehensive_analysis_report.txt``."""
    summary = findings.summary
    line = "=" * 80
    patterns = "\n".join(
        f"{count}x {title}: {operators}\n    {error}"
        for title, count, operators, error in sweep_tables.build_patterns(summary).take(ROWS_FOR_PEOPLE).format_cells()
    )
    return join_paragraphs(
        f"{line}\nTT-METAL COMPREHENSIVE OPERATOR ANALYSIS\n{line}",
        f"Generated: {findings.generated}\n" + "\n".join(list_facts(findings)),
        sweep_tables.render_headline(summary),
        "\n".join(NOTES),
        render_text_table(sweep_tables.select_operator_columns(_OPERATOR_COLUMNS, summary)),
        "ERROR PATTERNS",
        patterns or "none",
        "PRIORITIES",
        sweep_tables.render_priorities(findings) or "none",
    )


def build_operator_data(findings: Findings) -> list[dict[str, Any]]:
    """``detailed_analysis_data.json``: one record per operator, under the keys of the older analyser."""
    return [_describe_operator(one, findings) for one in findings.summary.operators]


def _describe_operator(one: OperatorSummary, findings: Findings) -> dict[str, Any]:
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
        "specific_errors": list(dict.fromkeys(flatten_text(result.message) for result in failures if result.message))[
            :_MOST_ERRORS
        ],
        "test_duration": round(sum(timed), 3) if timed else None,
    }


_MOST_OOM_SHAPES, _MOST_OOM_TEXT_SHAPES = 60, 30
_OOM_COLUMNS = ("Operator", "OOM", "DRAM", "L1", "Worst shape", "Logical", "On device", "Severity")
OOM_CSV_HEADS = (
    "Operator", "OOM_Count", "DRAM_OOM", "L1_OOM", "Worst_Shape", "Worst_Shape_Memory", "Max_Memory",
    "Max_Memory_Logical_Bytes", "Max_Memory_Padded_Bytes", "Status", "Board",
)  # fmt: skip


def _list_oom_figures(findings: Findings) -> list[str]:
    summary = findings.summary
    affected, total = summary.operators_with_memory_failures, len(summary.operators)
    lines = [
        f"{affected} of {total} operators ({format_share(affected, total)}) run out of memory somewhere",
        f"{summary.memory_failures} of {summary.tests} tests: {format_memories(summary.by_memory)}",
    ]
    for name, sizes in sweep_tables.list_sizes(summary).items():
        if sizes:
            least, most, mean = map(format_compact_bytes, (min(sizes), max(sizes), sum(sizes) // len(sizes)))
            lines.append(f"{name}: smallest {least}, largest {most}, mean {mean}")
    return lines


def render_oom_text(findings: Findings) -> str:
    """``OOM_OPERATORS_FINAL_SUMMARY.txt``."""
    line = "=" * 80
    summary = findings.summary

    def head(title: str) -> str:
        return f"{line}\n{title:^80}".rstrip() + f"\n{line}"

    return join_paragraphs(
        head("TT-METAL OUT OF MEMORY (OOM) OPERATORS SUMMARY"),
        f"Generated: {findings.generated}\nAnalysis: {len(summary.operators)} operators tested, "
        f"{summary.memory_failures} OOM errors found across {summary.operators_with_memory_failures} operators\n"
        + "\n".join(list_facts(findings)),
        "FINDINGS:\n" + format_bullets(_list_oom_figures(findings)),
        "\n".join(NOTES),
        head("OPERATORS WITH OUT OF MEMORY ISSUES"),
        render_text_table(sweep_tables.build_operators(summary, *_OOM_COLUMNS, failing=True))
        if summary.failures
        else "none",
        head("MOST PROBLEMATIC SHAPES"),
        render_text_table(sweep_tables.build_shapes(summary).take(_MOST_OOM_TEXT_SHAPES)),
        head("MEMORY ANALYSIS"),
        render_text_table(sweep_tables.build_severities(summary)),
        f"TOTAL OOM OCCURRENCES: {summary.memory_failures}",
        head("RECOMMENDATIONS"),
        sweep_tables.render_priorities(findings) or "none",
        describe_advice(findings),
    )


def render_oom_markdown(findings: Findings) -> str:
    """``oom_analysis_report.md``: every failure with what passes instead."""
    summary = findings.summary
    every = sweep_tables.select_columns(
        sweep_tables.build_failures(findings, summary.failures),
        summary,
        "Operator",
        "Shape",
        "Memory",
        "Status",
        "Logical",
        "On device",
        "Per bank",
        "Severity",
        "What passes instead",
    )
    return join_paragraphs(
        "# Out of Memory Analysis",
        f"**Generated:** {findings.generated}",
        format_bullets([*list_facts(findings), *_list_oom_figures(findings)]),
        " ".join(NOTES),
        render_section(
            "Operators", sweep_tables.build_operators(summary, *_OOM_COLUMNS, failing=True), "None ran out of memory."
        ),
        render_section("Most Problematic Shapes", sweep_tables.build_shapes(summary).take(_MOST_OOM_SHAPES)),
        render_section("Severity", sweep_tables.build_severities(summary)),
        render_section("Models", sweep_tables.build_models(summary)),
        render_section("Every Failure", every),
        describe_advice(findings),
    )


def build_oom_data(findings: Findings) -> list[dict[str, Any]]:
    """``oom_detailed_data.json``: ``memory_bytes`` is logical, ``padded_bytes`` what the device was asked for."""
    return [
        {
            "operator": result.op,
            "shape": list(result.shape),
            "memory_bytes": result.shape_logical_bytes,
            "memory_readable": format_compact_bytes(result.shape_logical_bytes),
            "padded_bytes": result.device_bytes,
            "padded_readable": format_compact_bytes(result.device_bytes),
            "bytes_per_bank": result.bytes_per_bank,
            "banks": result.banks,
            "memory": where(result),
            "status": result.status,
            "class": result.outcome.failure_class,
            "severity": severity_of(result),
            "board": result.board or None,
            "models": list(result.models),
            "test": result.name,
            "message": flatten_text(result.message),
            "file_source": result.origin,
            "advice": list(findings.advice_for(result)),
        }
        for result in findings.summary.failures
    ]


def build_oom_csv(findings: Findings) -> Table:
    """``oom_operators_summary.csv``."""
    rows = [
        (one.name, one.memory_failures, one.by_memory.get("DRAM", 0), one.by_memory.get("L1", 0),
         format_shape_list(worst.shape), where(worst),
         format_compact_bytes(worst.device_bytes or worst.shape_logical_bytes),
         worst.shape_logical_bytes, worst.device_bytes, severity_of(worst), one.board or worst.board or None)
        for one in sweep_tables.list_failing_operators(findings.summary)
        if (worst := one.worst) is not None
    ]  # fmt: skip
    return Table.build(OOM_CSV_HEADS, rows)


_MOST_FINAL_SHAPES = 10
_FINAL_COLUMNS = ("Operator", "Tests", "Passed", "Failed", "Skipped", "OOM", "OOM in", "Status")
FINAL_CSV_HEADS = (
    "Operator", "Input_Shape", "Total_Memory_B", "Total_Memory_MB", "Per_Bank_Memory_B", "Per_Bank_Memory_KB",
    "Num_Banks", "Memory", "Status", "Logical_Memory_B", "Board", "Models", "Chunks", "Chunk_Dim", "Advice",
)  # fmt: skip
_FINAL_CSV_KEYS = (
    "operator", "input_shape", "total_memory_B", "total_memory_MB", "per_bank_memory_B", "per_bank_memory_KB",
    "num_banks", "memory", "status", "logical_memory_B", "board",
)  # fmt: skip
_FINAL_FILES = """\
- `comprehensive_oom_report.json`: every memory failure, by operator and by shape
- `oom_failures_detailed.csv`: the same for a spreadsheet
- `subset_test_analysis.json`: the metrics"""


def render_final_markdown(findings: Findings) -> str:
    """The report for people."""
    summary = findings.summary
    figures = [
        ("Operators", str(len(summary.operators))),
        ("Operators with an executed test", str(summary.operators_tested)),
        ("Total Test Cases Run", str(summary.tests)),
        ("Success Rate", format_share(summary.passed, summary.judged)),
        *([("Not Judged", str(summary.not_judged))] if summary.not_judged else []),
        ("OOM Failures Found", f"{summary.memory_failures} ({format_memories(summary.by_memory)})"),
        ("Unique Problematic Shapes", str(summary.problematic_shapes)),
    ]
    sized = sweep_tables.list_sizes(summary)["On device"]
    if sized:
        amounts = {"Minimum": min(sized), "Maximum": max(sized), "Average": sum(sized) / len(sized)}
        figures += [(f"{name} OOM", format_mib(amount, decimals=2)) for name, amount in amounts.items()]
    return join_paragraphs(
        "# Vision Model Operator Testing: Final Report",
        f"**Report Generated**: {findings.generated}",
        format_bullets(list_facts(findings)),
        render_section("Key Metrics", embolden(Table.build(("Metric", "Value"), figures))),
        f"{' '.join(NOTES)} The rows of the table below sum to the metrics above.",
        render_section(
            "Operator Performance Results", embolden(sweep_tables.select_operator_columns(_FINAL_COLUMNS, summary))
        ),
        render_section(
            "Most Memory-Intensive Shapes",
            sweep_tables.build_shapes(summary).take(_MOST_FINAL_SHAPES),
            "None ran out of memory.",
        ),
        render_section("Vision Model Impact", sweep_tables.build_models(summary)),
        render_section("Recommendations", sweep_tables.build_priorities(findings), "None needed."),
        describe_advice(findings),
        render_section("File Index", _FINAL_FILES),
    )


def _convert(amount_bytes: float | None, unit: int) -> float | None:
    return None if amount_bytes is None else round(amount_bytes / unit, 2)


def _describe_failure(result: Result, findings: Findings) -> dict[str, Any]:
    return {
        "operator": result.op,
        "input_shape": format_shape_list(result.shape) if result.shapes else None,
        "total_memory_B": result.device_bytes,
        "total_memory_MB": _convert(result.device_bytes, MIB),
        "per_bank_memory_B": result.bytes_per_bank,
        "per_bank_memory_KB": _convert(result.bytes_per_bank, KIB),
        "num_banks": result.banks,
        "memory": where(result),
        "status": result.status,
        "logical_memory_B": result.shape_logical_bytes,
        "severity": severity_of(result),
        "board": result.board or None,
        "models": list(result.models),
        "test": result.name,
        "advice": list(findings.advice_for(result)),
    }


def build_final_data(findings: Findings) -> dict[str, Any]:
    """``comprehensive_oom_report.json``."""
    summary = findings.summary
    failures = [_describe_failure(result, findings) for result in summary.failures]
    by_operator: dict[str, list[dict[str, Any]]] = {}
    by_shape: dict[str, list[dict[str, Any]]] = {}
    for failure in failures:
        by_operator.setdefault(failure["operator"], []).append(failure)
        by_shape.setdefault(failure["input_shape"] or "unknown", []).append(failure)
    sized = sweep_tables.list_sizes(summary)["On device"]
    return {
        "summary": {
            "total_oom_failures": len(failures),
            "oom_failures_by_memory": dict(summary.by_memory),
            "operators_with_oom": summary.operators_with_memory_failures,
            "unique_problematic_shapes": summary.problematic_shapes,
            "memory_statistics": {
                "failures_with_a_size": len(sized),
                "min_MB": _convert(min(sized, default=None), MIB),
                "max_MB": _convert(max(sized, default=None), MIB),
                "average_MB": _convert(sum(sized) / len(sized) if sized else None, MIB),
            },
        },
        "failures_by_operator": by_operator,
        "failures_by_shape": by_shape,
        "all_failures": failures,
        "notes": list(summary.notes),
    }


def build_final_csv(findings: Findings) -> Table:
    """``oom_failures_detailed.csv``."""
    rows = []
    for result in findings.summary.failures:
        failure = _describe_failure(result, findings)
        chunks: Mapping[str, Any] = next((one for one in failure["advice"] if one["kind"] == "chunks"), {})
        rows.append(
            (*(failure[key] for key in _FINAL_CSV_KEYS), ";".join(failure["models"]), chunks.get("chunks"),
             chunks.get("dim"), format_advice(failure["advice"]))
        )  # fmt: skip
    return Table.build(FINAL_CSV_HEADS, rows)
