# SPDX-License-Identifier: Apache-2.0
"""The final report: ``VISION_OPERATOR_FINAL_REPORT.md``, ``comprehensive_oom_report.json``,
``oom_failures_detailed.csv`` and ``subset_test_analysis.json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttmem.reports.sweep.words import (
    COUNT_NOTE,
    SIZES_NOTE,
    advice_text,
    by_memory,
    chunk_of,
    facts_lines,
    priorities,
    readable,
    shape_list,
    share,
    table,
)
from ttmem.results import Result
from ttmem.sweep.findings import Findings
from ttmem.sweep.summary import severity_of, where

MIB = 1 << 20
CSV_HEADS = (
    "Operator", "Input_Shape", "Total_Memory_B", "Total_Memory_MB", "Per_Bank_Memory_B", "Per_Bank_Memory_KB",
    "Num_Banks", "Memory", "Status", "Logical_Memory_B", "Board", "Models", "Chunks", "Chunk_Dim", "Advice",
)  # fmt: skip

_FILES = """\
- `comprehensive_oom_report.json`: every memory failure, by operator and by shape
- `oom_failures_detailed.csv`: the same for a spreadsheet
- `subset_test_analysis.json`: the metrics"""


def markdown(findings: Findings) -> str:
    """The report for people."""
    summary = findings.summary
    total = summary.tests
    failures = summary.failures
    sized = [result.device_bytes for result in failures if result.device_bytes is not None]
    metrics = [
        ("Operators", str(len(summary.operators))),
        ("Operators with an executed test", str(sum(one.tests > one.skipped for one in summary.operators))),
        ("Total Test Cases Run", str(total)),
        ("Success Rate", share(summary.passed, total)),
        ("OOM Failures Found", f"{len(failures)} ({by_memory(summary.by_memory)})"),
        ("Unique Problematic Shapes", str(len(summary.shapes))),
    ]
    if sized:
        metrics += [
            ("Minimum OOM", f"{min(sized) / MIB:,.2f} MB"),
            ("Maximum OOM", f"{max(sized) / MIB:,.2f} MB"),
            ("Average OOM", f"{sum(sized) / len(sized) / MIB:,.2f} MB"),
        ]
    operators = [
        (
            f"**{one.name}**",
            one.tests,
            one.passed,
            one.failed,
            one.skipped,
            one.memory_failures,
            by_memory(one.by_memory),
            one.status,
        )
        for one in summary.operators
    ]
    top = [
        (
            f"`{shape_list(one.shape)}`",
            readable(one.logical_bytes),
            readable(one.device_bytes),
            ", ".join(one.operators),
            by_memory(one.by_memory),
        )
        for one in summary.shapes[:10]
    ]
    models = [
        (one.name, one.tests, by_memory(one.by_memory), ", ".join(one.operators[:8]) or "-") for one in summary.models
    ]
    parts = [
        "# Vision Model Operator Testing: Final Report",
        f"**Report Generated**: {findings.generated}",
        "\n".join(f"- {line}" for line in facts_lines(findings)),
        "## Key Metrics",
        table(("Metric", "Value"), [(f"**{name}**", value) for name, value in metrics]),
        f"{COUNT_NOTE} {SIZES_NOTE} The rows of the table below sum to the metrics above.",
        "## Operator Performance Results",
        table(("Operator", "Tests", "Passed", "Failed", "Skipped", "OOM Count", "OOM in", "Status"), operators),
        "## Most Memory-Intensive Shapes",
        table(("Shape", "Logical", "On device", "Operators", "OOM in"), top) if top else "None ran out of memory.",
        "## Vision Model Impact" if models else "",
        table(("Model", "Tests", "Memory failures", "Operators that fail"), models) if models else "",
        "## Recommendations",
        table(("Priority", "Operator", "Problem", "What passes instead"), priorities(findings))
        if failures
        else "None needed.",
        f"What passes was asked of the {findings.advice_from}." if failures else "",
        "## File Index",
        _FILES,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _failure(result: Result, findings: Findings) -> dict[str, Any]:
    needed, per_bank = result.device_bytes, result.bytes_per_bank
    return {
        "operator": result.op,
        "input_shape": shape_list(result.shape) if result.shapes else None,
        "total_memory_B": needed,
        "total_memory_MB": round(needed / MIB, 2) if needed is not None else None,
        "per_bank_memory_B": per_bank,
        "per_bank_memory_KB": round(per_bank / 1024, 2) if per_bank is not None else None,
        "num_banks": result.banks,
        "memory": where(result),
        "status": result.status,
        "logical_memory_B": result.first_logical_bytes,
        "severity": severity_of(result),
        "board": result.board or None,
        "models": list(result.models),
        "test": result.name,
        "advice": list(findings.advice_for(result)),
    }


def data(findings: Findings) -> dict[str, Any]:
    """``comprehensive_oom_report.json``."""
    summary = findings.summary
    failures = [_failure(result, findings) for result in summary.failures]
    by_operator: dict[str, list[dict[str, Any]]] = {}
    by_shape: dict[str, list[dict[str, Any]]] = {}
    for failure in failures:
        by_operator.setdefault(failure["operator"], []).append(failure)
        by_shape.setdefault(failure["input_shape"] or "unknown", []).append(failure)
    sized = [result.device_bytes for result in summary.failures if result.device_bytes is not None]
    return {
        "summary": {
            "total_oom_failures": len(failures),
            "oom_failures_by_memory": summary.by_memory,
            "operators_with_oom": summary.operators_with_memory_failures,
            "unique_problematic_shapes": len(summary.shapes),
            "memory_statistics": {
                "failures_with_a_size": len(sized),
                "min_MB": round(min(sized) / MIB, 2) if sized else None,
                "max_MB": round(max(sized) / MIB, 2) if sized else None,
                "average_MB": round(sum(sized) / len(sized) / MIB, 2) if sized else None,
            },
        },
        "failures_by_operator": by_operator,
        "failures_by_shape": by_shape,
        "all_failures": failures,
        "notes": list(summary.notes),
    }


def csv_rows(findings: Findings) -> list[Sequence[object]]:
    """``oom_failures_detailed.csv``."""
    rows: list[Sequence[object]] = [CSV_HEADS]
    for result in findings.summary.failures:
        told = _failure(result, findings)
        chunks = chunk_of(told["advice"]) or {}
        rows.append(
            (told["operator"], told["input_shape"], told["total_memory_B"], told["total_memory_MB"],
             told["per_bank_memory_B"], told["per_bank_memory_KB"], told["num_banks"], told["memory"], told["status"],
             told["logical_memory_B"], told["board"], ";".join(told["models"]), chunks.get("chunks"), chunks.get("dim"),
             advice_text(told["advice"]))
        )  # fmt: skip
    return rows


def metrics(findings: Findings) -> dict[str, Any]:
    """``subset_test_analysis.json``."""
    summary = findings.summary
    total = summary.tests
    return {
        "generated": findings.generated,
        "source": findings.source,
        "total_tests": total,
        "passed": summary.passed,
        "failed": summary.failed,
        "skipped": summary.skipped,
        "oom": summary.memory_failures,
        "oom_by_memory": summary.by_memory,
        "success_rate": round(100 * summary.passed / total, 1) if total else None,
        "operators_tested": sum(one.tests > one.skipped for one in summary.operators),
        "operators_without_tests": [one.name for one in summary.operators if not one.tests],
        "unique_problematic_shapes": len(summary.shapes),
        "severities": dict(summary.severities),
        "operators": {
            one.name: {
                "total": one.tests,
                "passed": one.passed,
                "failed": one.failed,
                "skipped": one.skipped,
                "oom": one.memory_failures,
                "oom_by_memory": dict(one.by_memory),
                "status": one.status,
            }
            for one in summary.operators
        },
        "models": {one.name: {"tests": one.tests, "oom_by_memory": dict(one.by_memory)} for one in summary.models},
        "error_patterns": [
            {
                "title": one.title,
                "occurrences": one.occurrences,
                "operators": list(one.operators),
                "error": one.sentence,
            }
            for one in summary.patterns
        ],
        "notes": list(summary.notes),
    }
