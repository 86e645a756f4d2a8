# SPDX-License-Identifier: Apache-2.0
"""The memory failures: ``oom_analysis_report.md``, ``oom_detailed_data.json``, ``oom_operators_summary.csv`` and
``OOM_OPERATORS_FINAL_SUMMARY.txt``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttmem.reports.kit.units import one_line
from ttmem.reports.sweep.words import (
    COUNT_NOTE,
    SIZES_NOTE,
    advice_text,
    by_memory,
    columns,
    facts_lines,
    priorities,
    readable,
    severity_range,
    shape_list,
    share,
    table,
)
from ttmem.sweep.findings import Findings
from ttmem.sweep.summary import OperatorSummary, severity_of, where

_OPERATOR_HEADS = ("OPERATOR NAME", "OOM COUNT", "DRAM", "L1", "WORST SHAPE", "LOGICAL", "MAX MEMORY", "STATUS")
CSV_HEADS = (
    "Operator", "OOM_Count", "DRAM_OOM", "L1_OOM", "Worst_Shape", "Worst_Shape_Memory", "Max_Memory",
    "Max_Memory_Logical_Bytes", "Max_Memory_Padded_Bytes", "Status",
)  # fmt: skip


def _operators(findings: Findings) -> list[OperatorSummary]:
    """Those with memory failures, the largest first."""
    found = [one for one in findings.summary.operators if one.memory_failures]
    return sorted(found, key=lambda one: (-((one.worst.device_bytes or 0) if one.worst else 0), -one.memory_failures))


def _operator_rows(findings: Findings) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for one in _operators(findings):
        worst = one.worst
        assert worst is not None
        counts = (str(one.memory_failures), str(one.by_memory.get("DRAM", 0)), str(one.by_memory.get("L1", 0)))
        sizes = (readable(worst.first_logical_bytes), readable(worst.device_bytes or worst.first_logical_bytes))
        rows.append((one.name, *counts, shape_list(worst.shape), *sizes, severity_of(worst)))
    return rows


def _shape_rows(findings: Findings, most: int) -> list[tuple[str, ...]]:
    return [
        (
            shape_list(one.shape),
            readable(one.logical_bytes),
            readable(one.device_bytes),
            ", ".join(one.operators[:6]) + (f" and {len(one.operators) - 6} more" if len(one.operators) > 6 else ""),
            str(one.occurrences),
            by_memory(one.by_memory),
        )
        for one in findings.summary.shapes[:most]
    ]


def _severity_rows(findings: Findings) -> list[tuple[str, ...]]:
    total = findings.summary.memory_failures
    return [
        (f"{name} ({severity_range(name)})", str(count), share(count, total))
        for name, count in findings.summary.severities.items()
    ]


def _figures(findings: Findings) -> list[str]:
    summary = findings.summary
    failures = summary.failures
    sized = [result.device_bytes for result in failures if result.device_bytes is not None]
    logical = [result.first_logical_bytes for result in failures if result.first_logical_bytes is not None]
    affected, total = summary.operators_with_memory_failures, len(summary.operators)
    lines = [
        f"{affected} of {total} operators ({share(affected, total)}) run out of memory somewhere",
        f"{summary.memory_failures} of {summary.tests} tests: {by_memory(summary.by_memory)}",
    ]
    if sized:
        mean = sum(sized) // len(sized)
        lines.append(
            f"On device: smallest {readable(min(sized))}, largest {readable(max(sized))}, mean {readable(mean)}"
        )
    if logical:
        mean = sum(logical) // len(logical)
        lines.append(
            f"Logical: smallest {readable(min(logical))}, largest {readable(max(logical))}, mean {readable(mean)}"
        )
    return lines


def summary_text(findings: Findings) -> str:
    """``OOM_OPERATORS_FINAL_SUMMARY.txt``."""
    line = "=" * 80
    summary = findings.summary

    def head(title: str) -> str:
        return f"{line}\n{title:^80}".rstrip() + f"\n{line}"

    remedies = [f"{level}: {name}: {problem}\n    {remedy}" for level, name, problem, remedy in priorities(findings)]
    parts = [
        head("TT-METAL OUT OF MEMORY (OOM) OPERATORS SUMMARY"),
        f"Generated: {findings.generated}\nAnalysis: {len(summary.operators)} operators tested, "
        f"{summary.memory_failures} OOM errors found across {summary.operators_with_memory_failures} operators\n"
        + "\n".join(facts_lines(findings)),
        "FINDINGS:\n" + "\n".join(f"- {text}" for text in _figures(findings)),
        f"{COUNT_NOTE}\n{SIZES_NOTE}",
        head("OPERATORS WITH OUT OF MEMORY ISSUES"),
        columns(_OPERATOR_HEADS, _operator_rows(findings)) if summary.failures else "none",
        head("MOST PROBLEMATIC SHAPES"),
        columns(
            ("SHAPE", "LOGICAL", "ON DEVICE", "OPERATORS AFFECTED", "OCCURRENCES", "IN"), _shape_rows(findings, 30)
        ),
        head("MEMORY ANALYSIS"),
        columns(("MEMORY CATEGORY", "COUNT", "PERCENTAGE"), _severity_rows(findings)),
        f"TOTAL OOM OCCURRENCES: {summary.memory_failures}",
        head("RECOMMENDATIONS"),
        "\n".join(remedies) or "none",
        f"Asked of the {findings.advice_from}." if remedies else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown(findings: Findings) -> str:
    """``oom_analysis_report.md``: every failure with what passes instead."""
    summary = findings.summary
    heads = (
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
    rows = [
        (result.op, f"`{shape_list(result.shape)}`", where(result), result.status, readable(result.first_logical_bytes),
         readable(result.device_bytes), readable(result.bytes_per_bank), severity_of(result),
         advice_text(findings.advice_for(result)) or "-")
        for result in summary.failures
    ]  # fmt: skip
    models = [
        (one.name, str(one.tests), by_memory(one.by_memory), ", ".join(one.operators) or "-",
         f"`{shape_list(one.worst.shape)}` {readable(one.worst.device_bytes)}" if one.worst else "-")
        for one in summary.models
    ]  # fmt: skip
    parts = [
        "# Out of Memory Analysis",
        f"**Generated:** {findings.generated}",
        "\n".join(f"- {line}" for line in (*facts_lines(findings), *_figures(findings))),
        f"{COUNT_NOTE} {SIZES_NOTE}",
        "## Operators",
        table([head.title() for head in _OPERATOR_HEADS], _operator_rows(findings))
        if rows
        else "None ran out of memory.",
        "## Most Problematic Shapes",
        table(("Shape", "Logical", "On device", "Operators", "Occurrences", "In"), _shape_rows(findings, 60))
        if rows
        else "-",
        "## Severity",
        table(("Class", "Count", "Percentage"), _severity_rows(findings)) if rows else "-",
        "## Models" if models else "",
        table(("Model", "Tests", "Memory failures", "Operators", "Worst"), models) if models else "",
        "## Every Failure",
        table(heads, rows) if rows else "-",
        f"What passes was asked of the {findings.advice_from}." if rows else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def data(findings: Findings) -> list[dict[str, Any]]:
    """``oom_detailed_data.json``: ``memory_bytes`` is logical, ``padded_bytes`` what the device was asked for."""
    return [
        {
            "operator": result.op,
            "shape": list(result.shape),
            "memory_bytes": result.first_logical_bytes,
            "memory_readable": readable(result.first_logical_bytes),
            "padded_bytes": result.device_bytes,
            "padded_readable": readable(result.device_bytes),
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


def csv_rows(findings: Findings) -> list[Sequence[object]]:
    """``oom_operators_summary.csv``."""
    rows: list[Sequence[object]] = [CSV_HEADS]
    for one in _operators(findings):
        worst = one.worst
        assert worst is not None
        rows.append(
            (one.name, one.memory_failures, one.by_memory.get("DRAM", 0), one.by_memory.get("L1", 0),
             shape_list(worst.shape), where(worst), readable(worst.device_bytes or worst.first_logical_bytes),
             worst.first_logical_bytes, worst.device_bytes, severity_of(worst))
        )  # fmt: skip
    return rows
