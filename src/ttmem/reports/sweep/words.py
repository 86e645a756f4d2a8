# SPDX-License-Identifier: Apache-2.0
"""How all reports of a sweep write sizes, shapes, statuses and advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ttmem.reports.kit.units import one_line
from ttmem.sweep.findings import Findings
from ttmem.sweep.summary import MEMORY, SEVERITIES, Summary, severity_of, where

MIB, GIB = 1 << 20, 1 << 30
SIZES_NOTE = (
    "Sizes are in units of 1024. 'Logical' is elements times element size; 'on device' is the allocation that failed "
    "as the allocator names it: tile-padded, in the layout that ran."
)
COUNT_NOTE = (
    "Each failure is counted once. A test skipped because it ran out of memory is an OOM; an operator without an "
    "executed test has no verdict; DRAM and L1 are told apart."
)


def readable(amount_bytes: int | None) -> str:
    """``1.49GB``, ``765.0MB``, ``12.0KB``; ``-`` when it is not known."""
    if amount_bytes is None:
        return "-"
    if amount_bytes >= GIB:
        return f"{amount_bytes / GIB:.2f}GB"
    return f"{amount_bytes / MIB:.1f}MB" if amount_bytes >= MIB else f"{amount_bytes / 1024:.1f}KB"


def shape_list(shape: Sequence[int]) -> str:
    """``[1, 96, 2176, 1920]``."""
    return f"[{', '.join(map(str, shape))}]" if shape else "(unknown shape)"


def by_memory(counts: Mapping[str, int]) -> str:
    """``DRAM 1, L1 41``."""
    return ", ".join(f"{memory} {count}" for memory, count in sorted(counts.items())) or "-"


def share(count: int, total: int) -> str:
    return f"{100 * count / total:.1f}%" if total else "-"


def severity_range(name: str) -> str:
    """``100MB-500MB`` in the words of the class."""
    bounds = dict(SEVERITIES)
    if name not in bounds:
        return "unknown size"
    above = [least for _, least in SEVERITIES if least > bounds[name]]
    if not above:
        return f">{bounds[name]}MB"
    return f"{bounds[name]}MB-{min(above)}MB" if bounds[name] else f"<={min(above)}MB"


def advice_text(advice: Sequence[Mapping[str, Any]]) -> str:
    """One line: everything that passes, the least change first."""
    if not advice:
        return ""
    return "; or ".join(
        f"{one['do']}{'' if one['confidence'] in ('exact', 'real') else ' (not exact)'}" for one in advice
    )


def chunk_of(advice: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((one for one in advice if one["kind"] == "chunks"), None)


def headline(summary: Summary) -> list[tuple[str, str, str]]:
    """Metric, count, percentage."""
    total = summary.tests
    operators = len(summary.operators)
    rows = [
        ("Operators", str(operators), ""),
        ("Tests", str(total), ""),
        ("Passed", str(summary.passed), share(summary.passed, total)),
        ("Out of memory", str(summary.memory_failures), share(summary.memory_failures, total)),
        ("Failed for another reason", str(summary.failed), share(summary.failed, total)),
        ("Skipped", str(summary.skipped), share(summary.skipped, total)),
        (
            "Operators with memory failures",
            str(summary.operators_with_memory_failures),
            share(summary.operators_with_memory_failures, operators),
        ),
    ]
    rows += [(f"Memory failures in {memory}", str(count), "") for memory, count in sorted(summary.by_memory.items())]
    return rows


def priorities(findings: Findings) -> list[tuple[str, str, str, str]]:
    """Priority, operator, problem, remedy: DRAM failures first, which no other memory can take; then by size."""
    ranked = []
    for operator in findings.summary.operators:
        worst = operator.worst
        if worst is None:
            continue
        in_dram = operator.by_memory.get("DRAM", 0)
        level = "HIGH" if in_dram or (operator.status == MEMORY and not operator.passed) else "MEDIUM"
        if level == "MEDIUM" and severity_of(worst) in ("LOW", "MEDIUM"):
            level = "LOW"
        problem = (
            f"{operator.memory_failures} of {operator.tests} run out of memory ({by_memory(operator.by_memory)}), "
            f"worst {shape_list(worst.shape)}: {readable(worst.device_bytes)} in {where(worst)}"
        )
        remedy = advice_text(findings.advice_for(worst)) or "no change that was tried passes"
        ranked.append(
            (
                ("HIGH", "MEDIUM", "LOW").index(level),
                -in_dram,
                -(worst.device_bytes or 0),
                level,
                operator.name,
                problem,
                remedy,
            )
        )
    return [(level, name, problem, remedy) for *_, level, name, problem, remedy in sorted(ranked)]


def cell(text: str) -> str:
    """A table cell in Markdown."""
    return one_line(text).replace("|", "\\|")


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "|".join("---" for _ in heads) + "|"]
    lines += ["| " + " | ".join(cell(str(value)) for value in row) + " |" for row in rows]
    return "\n".join(lines)


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in plain text, as wide as its cells."""
    cells = [[one_line(str(value)) for value in row] for row in (heads, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    lines = [" | ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([lines[0], "-|-".join("-" * width for width in widths), *lines[1:]])


def facts_lines(findings: Findings) -> list[str]:
    """Where the figures come from, and what they leave open."""
    summary = findings.summary
    lines = [f"{name}: {value}" for name, value in {"Source": findings.source, **summary.facts}.items()]
    return lines + [f"Note: {note}" for note in summary.notes]
