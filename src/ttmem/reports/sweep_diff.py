# SPDX-License-Identifier: Apache-2.0
"""The answer of ``ttmem sweep diff``: two sweeps of the same cases, compared."""

from collections import Counter
from collections.abc import Mapping, Sequence

from ttmem.base.formatting import format_count, pluralize
from ttmem.operators.sweeps.comparison import CHANGES, NEWLY_FAILS, NEWLY_PASSES, Change, SweepComparison
from ttmem.operators.sweeps.result import Result
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.documents import Document
from ttmem.reports.kit.tables import Table, name_column, number_column, percent_column, text_column


class Ending(Document, frozen=True):
    """The result of a case in one of the sweeps."""

    status: str
    peak_bytes_per_bank: int | None
    needed_bytes: int | None
    message: str


class ChangedResult(Document, frozen=True):
    """A case with another result or peak."""

    change: str
    """``newly-fails``, ``fails-otherwise``, ``needs-more``, ``needs-less`` or ``newly-passes``."""
    id: str
    op: str
    board: str
    memory: str
    layout: str
    before: Ending
    after: Ending
    growth_bytes_per_bank: int | None
    growth_percent: float | None


class SweepDiff(Document, frozen=True, tag_field="schema", tag="ttmem.sweep-diff/1"):
    """Two sweeps, case by case."""

    before: str
    after: str
    compared: int
    unchanged: int
    only_before: int
    only_after: int
    counts: Mapping[str, int]
    """By kind of change."""
    changes: Sequence[ChangedResult]
    regression: bool
    """True when a change that ``--fail-on`` names was found."""


def build_document(found: SweepComparison, *, before: str, after: str, regression: bool) -> SweepDiff:
    """Build the document of a comparison; the names are those of the folders."""
    return SweepDiff(
        before,
        after,
        found.compared,
        found.unchanged,
        found.only_before,
        found.only_after,
        {change: len(found.count_kind(change)) for change in CHANGES},
        tuple(map(_describe_change, found.changes)),
        regression,
    )


def _describe_change(one: Change) -> ChangedResult:
    case = one.after
    return ChangedResult(
        change=one.change,
        id=case.id,
        op=case.op,
        board=case.board,
        memory=case.memory,
        layout=case.layout,
        before=_describe_ending(one.before),
        after=_describe_ending(one.after),
        growth_bytes_per_bank=one.growth_bytes_per_bank,
        growth_percent=one.growth_percent,
    )


def _describe_ending(result: Result) -> Ending:
    return Ending(result.status, result.peak_bytes_per_bank, result.needed_bytes, result.message)


_MOST_ROWS = 20
_STYLES = {NEWLY_FAILS: "bold red", NEWLY_PASSES: "green"}


def render_terminal(found: SweepDiff, *, width: int = 100, color: bool = False) -> str:
    """Render a table of operators by kind of change, and the largest changes."""
    report = TextReport(width, color=color)
    report.print(f"{found.before} -> {found.after}", style="bold")
    report.print(f"{pluralize(found.compared, 'result')} compared, {format_count(found.unchanged)} unchanged")
    for count, name in ((found.only_before, found.before), (found.only_after, found.after)):
        if count:
            report.print(f"{pluralize(count, 'result')} only in {name}", style="yellow")
    if not found.changes:
        return report.render()
    kinds = [change for change in CHANGES if found.counts[change]]
    by_operator: dict[str, Counter[str]] = {}
    for one in found.changes:
        by_operator.setdefault(one.op, Counter())[one.change] += 1
    rows = sorted(by_operator.items(), key=lambda item: ([-item[1][kind] for kind in kinds], item[0]))
    heads = [name_column("Operator"), *(number_column(kind.replace("-", " ").capitalize()) for kind in kinds)]
    report.print_titled(
        Table(heads, [(op, *(counts[kind] or None for kind in kinds)) for op, counts in rows], "By operator")
    )
    columns = [
        text_column("Change", style=lambda change: _STYLES.get(change, "")),
        name_column("Operator"),
        text_column("Board", spare=2),
        text_column("Memory"),
        text_column("Before"),
        text_column("After"),
        number_column("B per bank", lambda growth: f"{growth:+,}"),
        percent_column("Growth", signed=True),
        name_column("Case", spare=1),
    ]
    shown = [
        (
            one.change, one.op, one.board, one.memory, one.before.status, one.after.status,
            one.growth_bytes_per_bank, one.growth_percent, one.id,
        )
        for one in found.changes[:_MOST_ROWS]
    ]  # fmt: skip
    more = len(found.changes) - len(shown)
    left_out = f"and {format_count(more)} more (--json lists all)" if more else ""
    report.print_titled(Table(columns, shown, "The largest changes", left_out))
    return report.render()
