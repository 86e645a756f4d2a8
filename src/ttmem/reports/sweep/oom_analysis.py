# SPDX-License-Identifier: Apache-2.0
"""The memory failures: ``oom_analysis_report.md``, ``oom_detailed_data.json``, ``oom_operators_summary.csv`` and
``OOM_OPERATORS_FINAL_SUMMARY.txt``."""

from typing import Any

from ttmem.operators.sweeps.summary import Findings, severity_of, where
from ttmem.reports.kit.tables import Table
from ttmem.reports.kit.units import compact_bytes, one_line, shape_list, share
from ttmem.reports.sweep import tables
from ttmem.reports.sweep.sentences import NOTES, advice_note, bullets, document, facts_lines, memories_text
from ttmem.reports.sweep.tables import as_text, section

_MOST_SHAPES, _MOST_SHAPES_OF_TEXT = 60, 30
_COLUMNS = ("Operator", "OOM", "DRAM", "L1", "Worst shape", "Logical", "On device", "Severity")
CSV_HEADS = (
    "Operator", "OOM_Count", "DRAM_OOM", "L1_OOM", "Worst_Shape", "Worst_Shape_Memory", "Max_Memory",
    "Max_Memory_Logical_Bytes", "Max_Memory_Padded_Bytes", "Status", "Board",
)  # fmt: skip


def _figures(findings: Findings) -> list[str]:
    summary = findings.summary
    affected, total = summary.operators_with_memory_failures, len(summary.operators)
    lines = [
        f"{affected} of {total} operators ({share(affected, total)}) run out of memory somewhere",
        f"{summary.memory_failures} of {summary.tests} tests: {memories_text(summary.by_memory)}",
    ]
    for name, sizes in tables.sizes_of(summary).items():
        if sizes:
            least, most, mean = map(compact_bytes, (min(sizes), max(sizes), sum(sizes) // len(sizes)))
            lines.append(f"{name}: smallest {least}, largest {most}, mean {mean}")
    return lines


def summary_text(findings: Findings) -> str:
    """``OOM_OPERATORS_FINAL_SUMMARY.txt``."""
    line = "=" * 80
    summary = findings.summary

    def head(title: str) -> str:
        return f"{line}\n{title:^80}".rstrip() + f"\n{line}"

    return document(
        head("TT-METAL OUT OF MEMORY (OOM) OPERATORS SUMMARY"),
        f"Generated: {findings.generated}\nAnalysis: {len(summary.operators)} operators tested, "
        f"{summary.memory_failures} OOM errors found across {summary.operators_with_memory_failures} operators\n"
        + "\n".join(facts_lines(findings)),
        "FINDINGS:\n" + bullets(_figures(findings)),
        "\n".join(NOTES),
        head("OPERATORS WITH OUT OF MEMORY ISSUES"),
        as_text(tables.operators(summary, *_COLUMNS, failing=True)) if summary.failures else "none",
        head("MOST PROBLEMATIC SHAPES"),
        as_text(tables.shapes(summary).first(_MOST_SHAPES_OF_TEXT)),
        head("MEMORY ANALYSIS"),
        as_text(tables.severities(summary)),
        f"TOTAL OOM OCCURRENCES: {summary.memory_failures}",
        head("RECOMMENDATIONS"),
        tables.priorities_text(findings) or "none",
        advice_note(findings),
    )


def markdown(findings: Findings) -> str:
    """``oom_analysis_report.md``: every failure with what passes instead."""
    summary = findings.summary
    every = tables.with_boards(
        tables.failures(findings, summary.failures),
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
    return document(
        "# Out of Memory Analysis",
        f"**Generated:** {findings.generated}",
        bullets([*facts_lines(findings), *_figures(findings)]),
        " ".join(NOTES),
        section("Operators", tables.operators(summary, *_COLUMNS, failing=True), "None ran out of memory."),
        section("Most Problematic Shapes", tables.shapes(summary).first(_MOST_SHAPES)),
        section("Severity", tables.severities(summary)),
        section("Models", tables.models(summary)),
        section("Every Failure", every),
        advice_note(findings),
    )


def data(findings: Findings) -> list[dict[str, Any]]:
    """``oom_detailed_data.json``: ``memory_bytes`` is logical, ``padded_bytes`` what the device was asked for."""
    return [
        {
            "operator": result.op,
            "shape": list(result.shape),
            "memory_bytes": result.shape_logical_bytes,
            "memory_readable": compact_bytes(result.shape_logical_bytes),
            "padded_bytes": result.device_bytes,
            "padded_readable": compact_bytes(result.device_bytes),
            "bytes_per_bank": result.bytes_per_bank,
            "banks": result.banks,
            "memory": where(result),
            "status": result.status,
            "class": result.outcome.failure_class,
            "severity": severity_of(result),
            "board": result.board or None,
            "models": list(result.models),
            "test": result.name,
            "message": one_line(result.message),
            "file_source": result.origin,
            "advice": list(findings.advice_for(result)),
        }
        for result in findings.summary.failures
    ]


def csv_table(findings: Findings) -> Table:
    """``oom_operators_summary.csv``."""
    rows = [
        (one.name, one.memory_failures, one.by_memory.get("DRAM", 0), one.by_memory.get("L1", 0),
         shape_list(worst.shape), where(worst), compact_bytes(worst.device_bytes or worst.shape_logical_bytes),
         worst.shape_logical_bytes, worst.device_bytes, severity_of(worst), one.board or worst.board or None)
        for one in tables.failing_operators(findings.summary)
        if (worst := one.worst) is not None
    ]  # fmt: skip
    return Table.of_texts(CSV_HEADS, rows)
