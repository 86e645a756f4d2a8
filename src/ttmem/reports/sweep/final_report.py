# SPDX-License-Identifier: Apache-2.0
"""The final report: ``VISION_OPERATOR_FINAL_REPORT.md``, ``comprehensive_oom_report.json``,
``oom_failures_detailed.csv``; ``subset_test_analysis.json`` is ``document.report_document``."""

from collections.abc import Mapping
from typing import Any

from ttmem.operators.sweeps.result import Result
from ttmem.operators.sweeps.summary import Findings, severity_of, where
from ttmem.reports.kit.tables import Table
from ttmem.reports.kit.units import KIB, MIB, megabytes, shape_list, share
from ttmem.reports.sweep import tables
from ttmem.reports.sweep.sentences import NOTES, advice_note, advice_text, bullets, document, facts_lines, memories_text
from ttmem.reports.sweep.tables import bold, section

_MOST_SHAPES = 10
_COLUMNS = ("Operator", "Tests", "Passed", "Failed", "Skipped", "OOM", "OOM in", "Status")
CSV_HEADS = (
    "Operator", "Input_Shape", "Total_Memory_B", "Total_Memory_MB", "Per_Bank_Memory_B", "Per_Bank_Memory_KB",
    "Num_Banks", "Memory", "Status", "Logical_Memory_B", "Board", "Models", "Chunks", "Chunk_Dim", "Advice",
)  # fmt: skip
_CSV_KEYS = (
    "operator", "input_shape", "total_memory_B", "total_memory_MB", "per_bank_memory_B", "per_bank_memory_KB",
    "num_banks", "memory", "status", "logical_memory_B", "board",
)  # fmt: skip
_FILES = """\
- `comprehensive_oom_report.json`: every memory failure, by operator and by shape
- `oom_failures_detailed.csv`: the same for a spreadsheet
- `subset_test_analysis.json`: the metrics"""


def markdown(findings: Findings) -> str:
    """The report for people."""
    summary = findings.summary
    figures = [
        ("Operators", str(len(summary.operators))),
        ("Operators with an executed test", str(summary.operators_tested)),
        ("Total Test Cases Run", str(summary.tests)),
        ("Success Rate", share(summary.passed, summary.judged)),
        *([("Not Judged", str(summary.not_judged))] if summary.not_judged else []),
        ("OOM Failures Found", f"{summary.memory_failures} ({memories_text(summary.by_memory)})"),
        ("Unique Problematic Shapes", str(summary.problematic_shapes)),
    ]
    sized = tables.sizes_of(summary)["On device"]
    if sized:
        amounts = {"Minimum": min(sized), "Maximum": max(sized), "Average": sum(sized) / len(sized)}
        figures += [(f"{name} OOM", megabytes(amount, decimals=2)) for name, amount in amounts.items()]
    return document(
        "# Vision Model Operator Testing: Final Report",
        f"**Report Generated**: {findings.generated}",
        bullets(facts_lines(findings)),
        section("Key Metrics", bold(Table.of_texts(("Metric", "Value"), figures))),
        f"{' '.join(NOTES)} The rows of the table below sum to the metrics above.",
        section("Operator Performance Results", bold(tables.operators_with(_COLUMNS, summary))),
        section("Most Memory-Intensive Shapes", tables.shapes(summary).first(_MOST_SHAPES), "None ran out of memory."),
        section("Vision Model Impact", tables.models(summary)),
        section("Recommendations", tables.priorities(findings), "None needed."),
        advice_note(findings),
        section("File Index", _FILES),
    )


def _in_units(amount_bytes: float | None, unit: int) -> float | None:
    return None if amount_bytes is None else round(amount_bytes / unit, 2)


def _failure(result: Result, findings: Findings) -> dict[str, Any]:
    return {
        "operator": result.op,
        "input_shape": shape_list(result.shape) if result.shapes else None,
        "total_memory_B": result.device_bytes,
        "total_memory_MB": _in_units(result.device_bytes, MIB),
        "per_bank_memory_B": result.bytes_per_bank,
        "per_bank_memory_KB": _in_units(result.bytes_per_bank, KIB),
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


def data(findings: Findings) -> dict[str, Any]:
    """``comprehensive_oom_report.json``."""
    summary = findings.summary
    failures = [_failure(result, findings) for result in summary.failures]
    by_operator: dict[str, list[dict[str, Any]]] = {}
    by_shape: dict[str, list[dict[str, Any]]] = {}
    for failure in failures:
        by_operator.setdefault(failure["operator"], []).append(failure)
        by_shape.setdefault(failure["input_shape"] or "unknown", []).append(failure)
    sized = tables.sizes_of(summary)["On device"]
    return {
        "summary": {
            "total_oom_failures": len(failures),
            "oom_failures_by_memory": dict(summary.by_memory),
            "operators_with_oom": summary.operators_with_memory_failures,
            "unique_problematic_shapes": summary.problematic_shapes,
            "memory_statistics": {
                "failures_with_a_size": len(sized),
                "min_MB": _in_units(min(sized, default=None), MIB),
                "max_MB": _in_units(max(sized, default=None), MIB),
                "average_MB": _in_units(sum(sized) / len(sized) if sized else None, MIB),
            },
        },
        "failures_by_operator": by_operator,
        "failures_by_shape": by_shape,
        "all_failures": failures,
        "notes": list(summary.notes),
    }


def csv_table(findings: Findings) -> Table:
    """``oom_failures_detailed.csv``."""
    rows = []
    for result in findings.summary.failures:
        failure = _failure(result, findings)
        chunks: Mapping[str, Any] = next((one for one in failure["advice"] if one["kind"] == "chunks"), {})
        rows.append(
            (*(failure[key] for key in _CSV_KEYS), ";".join(failure["models"]), chunks.get("chunks"),
             chunks.get("dim"), advice_text(failure["advice"]))
        )  # fmt: skip
    return Table.of_texts(CSV_HEADS, rows)
