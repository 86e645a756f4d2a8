# SPDX-License-Identifier: Apache-2.0
"""The tables of a sweep's reports: every file and the page pick columns and rows from the same ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from ttmem.base.limits import ROWS_FOR_PEOPLE
from ttmem.operators.sweeps.result import Result
from ttmem.operators.sweeps.summary import MEMORY, Findings, OperatorSummary, Summary, severity_of, where
from ttmem.reports.kit.tables import Column, Table, markdown, name_column, number_column, plain, text_column
from ttmem.reports.kit.units import compact_bytes, shape_list, share
from ttmem.reports.sweep.sentences import advice_text, memories_text, severity_range

_NO_SHAPE = "(unknown shape)"


def as_markdown(table: Table) -> str:
    return "\n".join([*markdown(table.first(ROWS_FOR_PEOPLE)), *_rest_of(table)])


def section(title: str, body: Table | str, otherwise: str = "") -> str:
    """A heading of Markdown with its table or text; without either no heading."""
    text = (body if isinstance(body, str) else as_markdown(body)) or otherwise
    return f"## {title}\n\n{text}" if text else ""


def as_text(table: Table) -> str:
    return "\n".join([plain(table.first(ROWS_FOR_PEOPLE), gap=" | ", rule="-|-"), *_rest_of(table)])


def _rest_of(table: Table) -> list[str]:
    """What a table for people leaves out; a Markdown table ends at the empty line."""
    more = len(table.rows) - ROWS_FOR_PEOPLE
    return ["", f"{more:,} more rows: the JSON and CSV files beside this one have all."] if more > 0 else []


def bold(table: Table) -> Table:
    """For Markdown: the first column names what a row is about."""
    return table.with_column(table.heads[0], write=lambda name: f"**{name}**")


def _count(head: str) -> Column:
    return number_column(head, str)


def _size(head: str) -> Column:
    return number_column(head, compact_bytes)


def _shape(head: str = "Shape") -> Column:
    return text_column(head, write=lambda shape: shape_list(shape, unknown=_NO_SHAPE), whole=True)


def _memories(head: str = "OOM in") -> Column:
    return text_column(head, write=memories_text)


def headline(summary: Summary) -> Table:
    """What was counted."""
    tests, operators = summary.tests, len(summary.operators)
    affected = summary.operators_with_memory_failures
    rows: list[tuple[str, int, str]] = [
        ("Operators", operators, ""),
        ("Tests", tests, ""),
        ("Passed", summary.passed, share(summary.passed, tests)),
        ("Out of memory", summary.memory_failures, share(summary.memory_failures, tests)),
        ("Failed for another reason", summary.failed, share(summary.failed, tests)),
        ("Skipped", summary.skipped, share(summary.skipped, tests)),
        *([("Not judged", summary.not_judged, share(summary.not_judged, tests))] if summary.not_judged else []),
        ("Operators with memory failures", affected, share(affected, operators)),
    ]
    rows += [(f"Memory failures in {memory}", count, "") for memory, count in sorted(summary.by_memory.items())]
    rows += [
        (
            f"Memory failures on {one.board}",
            one.memory_failures,
            f"{share(one.memory_failures, one.tests)} of its tests",
        )
        for one in summary.boards
    ]
    return Table([text_column("Metric"), _count("Count"), Column("Percentage", "number")], rows)


def operators(summary: Summary, *heads: str, failing: bool = False) -> Table:
    """One row per operator (and board); ``failing``: those that run out of memory, the largest first."""
    columns = [
        name_column("Operator", whole=True),
        text_column("Board"),
        *map(_count, ("Tests", "Passed", "Failed", "OOM")),
        _memories(),
        *map(_count, ("DRAM", "L1", "Skipped", "Not judged")),
        _shape("Worst shape"),
        _size("Logical"),
        _size("On device"),
        text_column("Severity"),
        text_column("Status"),
    ]
    rows = [_operator_row(one) for one in (failing_operators(summary) if failing else summary.by_board)]
    return with_boards(Table(columns, rows), summary, *heads)


def with_boards(table: Table, summary: Summary, *heads: str) -> Table:
    """These columns, and behind the first one the board where there are several."""
    first, *others = heads or table.heads
    others = [head for head in others if head != "Board"]
    return table.only(first, *(["Board"] if summary.boards else []), *others)


def operators_with(columns: Sequence[str], summary: Summary) -> Table:
    """These columns, and before the last one those that are not judged: other tools and the real library have none."""
    return operators(summary, *columns[:-1], *(["Not judged"] if summary.not_judged else []), columns[-1])


def failing_operators(summary: Summary) -> list[OperatorSummary]:
    """Those with memory failures, the largest first."""
    found = [one for one in summary.by_board if one.worst is not None]
    return sorted(found, key=lambda one: (-((one.worst.device_bytes or 0) if one.worst else 0), -one.memory_failures))


def _operator_row(one: OperatorSummary) -> Sequence[Any]:
    worst = one.worst
    return (
        one.name, one.board, one.tests, one.passed, one.failed, one.memory_failures, one.by_memory,
        one.by_memory.get("DRAM", 0), one.by_memory.get("L1", 0), one.skipped, one.not_judged, *_worst_cells(worst),
        severity_of(worst) if worst else None, one.status,
    )  # fmt: skip


def _worst_cells(worst: Result | None) -> tuple[Any, Any, Any]:
    return (worst.shape, worst.shape_logical_bytes, worst.device_bytes) if worst else (None, None, None)


def shapes(summary: Summary) -> Table:
    """Shapes that ran out of memory, the largest first."""
    columns = [
        _shape(),
        text_column("Board"),
        _size("Logical"),
        _size("On device"),
        name_column("Operators"),
        _count("Occurrences"),
        _memories(),
    ]
    rows = [
        (one.shape, one.board, one.logical_bytes, one.device_bytes, ", ".join(one.operators), one.occurrences,
         one.by_memory)
        for one in summary.shapes
    ]  # fmt: skip
    return with_boards(Table(columns, rows), summary)


def severities(summary: Summary) -> Table:
    """Memory failures by the size of the allocation."""
    columns = [text_column("Class"), text_column("On device"), _count("Count"), Column("Share", "number")]
    rows = [
        (name, severity_range(name), count, share(count, summary.memory_failures))
        for name, count in summary.severities.items()
    ]
    return Table(columns, rows)


def models(summary: Summary) -> Table:
    """What the failures mean for the models that the cases come from."""
    columns = [
        name_column("Model"), text_column("Board"), _count("Tests"), _memories("Memory failures"),
        name_column("Operators that fail"), _shape("Worst shape"), _size("Logical"), _size("On device"),
    ]  # fmt: skip
    rows = [
        (one.name, one.board, one.tests, one.by_memory, ", ".join(one.operators) or None, *_worst_cells(one.worst))
        for one in summary.models_by_board
    ]
    return with_boards(Table(columns, rows), summary)


def patterns(summary: Summary) -> Table:
    """Failures that say the same."""
    columns = [
        name_column("Pattern"), _count("Occurrences"), name_column("Operators"), name_column("Error", most=300),
    ]  # fmt: skip
    return Table(columns, [(p.title, p.occurrences, ", ".join(p.operators), p.sentence) for p in summary.patterns])


def failures(findings: Findings, results: Sequence[Result]) -> Table:
    """Memory failures, and what passes instead of each."""
    columns = [
        name_column("Operator", whole=True), _shape(), text_column("Board"), text_column("Memory"),
        text_column("Status"), _size("Logical"), _size("On device"), _size("Per bank"), text_column("Severity"),
        name_column("What passes instead", whole=True),
    ]  # fmt: skip
    rows = [
        (one.op, one.shape, one.board or None, where(one), one.status, one.shape_logical_bytes, one.device_bytes,
         one.bytes_per_bank, severity_of(one), advice_text(findings.advice_for(one)) or None)
        for one in results
    ]  # fmt: skip
    return Table(columns, rows)


def priorities(findings: Findings) -> Table:
    """What to look at first: DRAM failures, which no other memory can take; then by size."""
    ranked = []
    for one in findings.summary.by_board:
        worst = one.worst
        if worst is None:
            continue
        in_dram = one.by_memory.get("DRAM", 0)
        level = 0 if in_dram or (one.status == MEMORY and not one.passed) else 1
        if level and severity_of(worst) in ("LOW", "MEDIUM"):
            level = 2
        largest = f"{shape_list(worst.shape, unknown=_NO_SHAPE)}: {compact_bytes(worst.device_bytes)} in {where(worst)}"
        problem = (
            f"{one.memory_failures} of {one.tests} run out of memory ({memories_text(one.by_memory)}), worst {largest}"
        )
        tried = "no change that was tried passes" if worst.name in findings.advice else "not asked"
        remedy = advice_text(findings.advice_for(worst)) or tried
        name = f"{one.name} on {one.board}" if one.board else one.name
        ranked.append((level, -in_dram, -(worst.device_bytes or 0), name, problem, remedy))
    rows = [(("HIGH", "MEDIUM", "LOW")[level], *said) for level, _, _, *said in sorted(ranked)]
    names = [name_column(head, whole=True) for head in ("Operator", "Problem", "What passes instead")]
    return Table([text_column("Priority"), *names], rows)


def priorities_text(findings: Findings) -> str:
    """The same as lines."""
    table = priorities(findings)
    lines = [
        f"{level}: {name}: {said}\n    {remedy}" for level, name, said, remedy in table.first(ROWS_FOR_PEOPLE).cells()
    ]
    return "\n".join([*lines, *_rest_of(table)])


def headline_text(summary: Summary) -> str:
    """``Passed: 3 (50.0%)``, one per line."""
    return "\n".join(
        f"{name}: {count}{f' ({part})' if part else ''}" for name, count, part in headline(summary).cells()
    )


def sizes_of(summary: Summary) -> Mapping[str, list[int]]:
    """The sizes of the memory failures that have one."""
    return {
        "On device": [one.device_bytes for one in summary.failures if one.device_bytes is not None],
        "Logical": [one.shape_logical_bytes for one in summary.failures if one.shape_logical_bytes is not None],
    }
