# SPDX-License-Identifier: Apache-2.0
"""The tables and sentences that all files of a sweep report share."""

from collections.abc import Mapping, Sequence
from typing import Any

from ttmem.base.formatting import format_compact_bytes, format_shape_list, format_share
from ttmem.base.limits import ROWS_FOR_PEOPLE
from ttmem.operators.sweeps.result import Result
from ttmem.operators.sweeps.summary import (
    MEMORY,
    SEVERITIES,
    Findings,
    OperatorSummary,
    SweepSummary,
    severity_of,
    where,
)
from ttmem.reports.kit.tables import (
    Column,
    Table,
    format_markdown,
    format_plain,
    name_column,
    number_column,
    text_column,
)

_SIZES_NOTE = (
    "Sizes are in units of 1024. 'Logical' is elements times element size; 'on device' is the allocation that failed "
    "as the allocator names it: tile-padded, in the layout that ran."
)
_COUNT_NOTE = (
    "Each failure is counted once. A test skipped because it ran out of memory is an OOM; an operator without an "
    "executed test has no verdict; DRAM and L1 are distinguished."
)
NOTES = (_COUNT_NOTE, _SIZES_NOTE)
"""Notes on the counts and sizes."""


def format_memories(counts: Mapping[str, int]) -> str:
    """``DRAM 1, L1 41``."""
    return ", ".join(f"{memory} {count}" for memory, count in sorted(counts.items())) or "-"


def format_severity(name: str) -> str:
    """Return the sizes of a class: ``100MB-500MB``."""
    bounds = dict(SEVERITIES)
    if name not in bounds:
        return "unknown size"
    above = [least for _, least in SEVERITIES if least > bounds[name]]
    if not above:
        return f">{bounds[name]}MB"
    return f"{bounds[name]}MB-{min(above)}MB" if bounds[name] else f"<={min(above)}MB"


def format_advice(advice: Sequence[Mapping[str, Any]]) -> str:
    """Return one line with all changes that pass, the smallest first."""
    return "; or ".join(
        f"{one['do']}{'' if one['confidence'] in ('exact', 'real') else ' (not exact)'}" for one in advice
    )


def describe_advice(findings: Findings) -> str:
    """Describe which engine was asked for remedies, and the failures without; empty where nothing ran out of memory."""
    if not findings.summary.failures:
        return ""
    asked = findings.advice_from
    text = f"What passes was determined by the {asked}; each chunk ran alone, with the rest of its tensor elsewhere."
    if findings.unadvised:
        text += f" {findings.unadvised} failures were not examined (too many, or their shape or memory is unknown)."
    return text


def list_facts(findings: Findings) -> list[str]:
    """List the sources of the figures, and their notes."""
    summary = findings.summary
    lines = [f"{name}: {value}" for name, value in {"Source": findings.source, **summary.facts}.items()]
    return lines + [f"Note: {note}" for note in summary.notes]


def format_bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def join_paragraphs(*parts: str) -> str:
    """Join paragraphs; empty ones are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"


_NO_SHAPE = "(unknown shape)"


def render_markdown_table(table: Table) -> str:
    return "\n".join([*format_markdown(table.take(ROWS_FOR_PEOPLE)), *_describe_rest(table)])


def render_section(title: str, body: Table | str, otherwise: str = "") -> str:
    """Render a Markdown heading with its table or text; nothing without either."""
    text = (body if isinstance(body, str) else render_markdown_table(body)) or otherwise
    return f"## {title}\n\n{text}" if text else ""


def render_text_table(table: Table) -> str:
    return "\n".join([format_plain(table.take(ROWS_FOR_PEOPLE), gap=" | ", rule="-|-"), *_describe_rest(table)])


def _describe_rest(table: Table) -> list[str]:
    """Describe the rows that a table for people leaves out; a Markdown table ends at the empty line."""
    more = len(table.rows) - ROWS_FOR_PEOPLE
    return ["", f"{more:,}more rows: the JSON and CSV files next to this one have all."] if more > 0 else []


def embolden(table: Table) -> Table:
    """Set the first column in bold, for Markdown."""
    return table.change_column(table.heads[0], write=lambda name: f"**{name}**")


def _count_column(head: str) -> Column:
    return number_column(head, str)


def _size_column(head: str) -> Column:
    return number_column(head, format_compact_bytes)


def _shape_column(head: str = "Shape") -> Column:
    return text_column(head, write=lambda shape: format_shape_list(shape, unknown=_NO_SHAPE), whole=True)


def _memories_column(head: str = "OOM in") -> Column:
    return text_column(head, write=format_memories)


def build_headline(summary: SweepSummary) -> Table:
    """Build the table of counts."""
    tests, operators = summary.tests, len(summary.operators)
    affected = summary.operators_with_memory_failures
    rows: list[tuple[str, int, str]] = [
        ("Operators", operators, ""),
        ("Tests", tests, ""),
        ("Passed", summary.passed, format_share(summary.passed, tests)),
        ("Out of memory", summary.memory_failures, format_share(summary.memory_failures, tests)),
        ("Failed for another reason", summary.failed, format_share(summary.failed, tests)),
        ("Skipped", summary.skipped, format_share(summary.skipped, tests)),
        *([("Not judged", summary.not_judged, format_share(summary.not_judged, tests))] if summary.not_judged else []),
        ("Operators with memory failures", affected, format_share(affected, operators)),
    ]
    rows += [(f"Memory failures in {memory}", count, "") for memory, count in sorted(summary.by_memory.items())]
    rows += [
        (
            f"Memory failures on {one.board}",
            one.memory_failures,
            f"{format_share(one.memory_failures, one.tests)} of its tests",
        )
        for one in summary.boards
    ]
    return Table([text_column("Metric"), _count_column("Count"), Column("Percentage", "number")], rows)


def build_operators(summary: SweepSummary, *heads: str, failing: bool = False) -> Table:
    """Build one row per operator (and board); ``failing``: only those that run out of memory, the largest first."""
    columns = [
        name_column("Operator", whole=True),
        text_column("Board"),
        *map(_count_column, ("Tests", "Passed", "Failed", "OOM")),
        _memories_column(),
        *map(_count_column, ("DRAM", "L1", "Skipped", "Not judged")),
        _shape_column("Worst shape"),
        _size_column("Logical"),
        _size_column("On device"),
        text_column("Severity"),
        text_column("Status"),
    ]
    rows = [_build_operator_row(one) for one in (list_failing_operators(summary) if failing else summary.by_board)]
    return select_columns(Table(columns, rows), summary, *heads)


def select_columns(table: Table, summary: SweepSummary, *heads: str) -> Table:
    """Select these columns, and after the first one the board where there are several."""
    first, *others = heads or table.heads
    others = [head for head in others if head != "Board"]
    return table.select(first, *(["Board"] if summary.boards else []), *others)


def select_operator_columns(columns: Sequence[str], summary: SweepSummary) -> Table:
    """Select these columns, and before the last one "Not judged" where there are such tests."""
    return build_operators(summary, *columns[:-1], *(["Not judged"] if summary.not_judged else []), columns[-1])


def list_failing_operators(summary: SweepSummary) -> list[OperatorSummary]:
    """List the operators with memory failures, the largest first."""
    found = [one for one in summary.by_board if one.worst is not None]
    return sorted(found, key=lambda one: (-((one.worst.device_bytes or 0) if one.worst else 0), -one.memory_failures))


def _build_operator_row(one: OperatorSummary) -> Sequence[Any]:
    worst = one.worst
    return (
        one.name, one.board, one.tests, one.passed, one.failed, one.memory_failures, one.by_memory,
        one.by_memory.get("DRAM", 0), one.by_memory.get("L1", 0), one.skipped, one.not_judged,
        *_find_worst_cells(worst),
        severity_of(worst) if worst else None, one.status,
    )  # fmt: skip


def _find_worst_cells(worst: Result | None) -> tuple[Any, Any, Any]:
    return (worst.shape, worst.shape_logical_bytes, worst.device_bytes) if worst else (None, None, None)


def build_shapes(summary: SweepSummary) -> Table:
    """Build the table of shapes that ran out of memory, the largest first."""
    columns = [
        _shape_column(),
        text_column("Board"),
        _size_column("Logical"),
        _size_column("On device"),
        name_column("Operators"),
        _count_column("Occurrences"),
        _memories_column(),
    ]
    rows = [
        (one.shape, one.board, one.logical_bytes, one.device_bytes, ", ".join(one.operators), one.occurrences,
         one.by_memory)
        for one in summary.shapes
    ]  # fmt: skip
    return select_columns(Table(columns, rows), summary)


def build_severities(summary: SweepSummary) -> Table:
    """Build the table of memory failures by the size of the allocation."""
    columns = [text_column("Class"), text_column("On device"), _count_column("Count"), Column("Share", "number")]
    rows = [
        (name, format_severity(name), count, format_share(count, summary.memory_failures))
        for name, count in summary.severities.items()
    ]
    return Table(columns, rows)


def build_models(summary: SweepSummary) -> Table:
    """Build the table of models with failing cases."""
    columns = [
        name_column("Model"), text_column("Board"), _count_column("Tests"), _memories_column("Memory failures"),
        name_column("Operators that fail"), _shape_column("Worst shape"), _size_column("Logical"),
        _size_column("On device"),
    ]  # fmt: skip
    rows = [
        (one.name, one.board, one.tests, one.by_memory, ", ".join(one.operators) or None, *_find_worst_cells(one.worst))
        for one in summary.models_by_board
    ]
    return select_columns(Table(columns, rows), summary)


def build_patterns(summary: SweepSummary) -> Table:
    """Failures with the same message."""
    columns = [
        name_column("Pattern"), _count_column("Occurrences"), name_column("Operators"), name_column("Error", most=300),
    ]  # fmt: skip
    return Table(columns, [(p.title, p.occurrences, ", ".join(p.operators), p.sentence) for p in summary.patterns])


def build_failures(findings: Findings, results: Sequence[Result]) -> Table:
    """Build the table of memory failures, and what passes instead of each."""
    columns = [
        name_column("Operator", whole=True), _shape_column(), text_column("Board"), text_column("Memory"),
        text_column("Status"), _size_column("Logical"), _size_column("On device"), _size_column("Per bank"),
        text_column("Severity"), name_column("What passes instead", whole=True),
    ]  # fmt: skip
    rows = [
        (one.op, one.shape, one.board or None, where(one), one.status, one.shape_logical_bytes, one.device_bytes,
         one.bytes_per_bank, severity_of(one), format_advice(findings.advice_for(one)) or None)
        for one in results
    ]  # fmt: skip
    return Table(columns, rows)


def build_priorities(findings: Findings) -> Table:
    """Build the table of priorities: DRAM failures first, then by size."""
    ranked = []
    for one in findings.summary.by_board:
        worst = one.worst
        if worst is None:
            continue
        in_dram = one.by_memory.get("DRAM", 0)
        level = 0 if in_dram or (one.status == MEMORY and not one.passed) else 1
        if level and severity_of(worst) in ("LOW", "MEDIUM"):
            level = 2
        size = f"{format_compact_bytes(worst.device_bytes)} in {where(worst)}"
        largest = f"{format_shape_list(worst.shape, unknown=_NO_SHAPE)}: {size}"
        failed = f"{one.memory_failures} of {one.tests} run out of memory ({format_memories(one.by_memory)})"
        problem = f"{failed}, worst {largest}"
        tried = "no change that was tried passes" if worst.name in findings.advice else "not examined"
        remedy = format_advice(findings.advice_for(worst)) or tried
        name = f"{one.name} on {one.board}" if one.board else one.name
        ranked.append((level, -in_dram, -(worst.device_bytes or 0), name, problem, remedy))
    rows = [(("HIGH", "MEDIUM", "LOW")[level], *said) for level, _, _, *said in sorted(ranked)]
    names = [name_column(head, whole=True) for head in ("Operator", "Problem", "What passes instead")]
    return Table([text_column("Priority"), *names], rows)


def render_priorities(findings: Findings) -> str:
    """Render the priorities as lines."""
    table = build_priorities(findings)
    lines = [
        f"{level}: {name}: {said}\n    {remedy}"
        for level, name, said, remedy in table.take(ROWS_FOR_PEOPLE).format_cells()
    ]
    return "\n".join([*lines, *_describe_rest(table)])


def render_headline(summary: SweepSummary) -> str:
    """``Passed: 3 (50.0%)``, one per line."""
    return "\n".join(
        f"{name}: {count}{f' ({part})' if part else ''}" for name, count, part in build_headline(summary).format_cells()
    )


def list_sizes(summary: SweepSummary) -> Mapping[str, list[int]]:
    """Return the sizes of the memory failures that have one."""
    return {
        "On device": [one.device_bytes for one in summary.failures if one.device_bytes is not None],
        "Logical": [one.shape_logical_bytes for one in summary.failures if one.shape_logical_bytes is not None],
    }
