# SPDX-License-Identifier: Apache-2.0
"""How a sweep looks on a terminal: live while it runs, a short table when it is done."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ttmem.reports.kit.units import MIB, counted, one_line, thousands
from ttmem.results import STATUSES, Result

if TYPE_CHECKING:
    from ttmem.sweep.expectations import Deviation
    from ttmem.sweep.progress import Finished, Progress

_COLORS = {"pass": "green", "oom": "red", "clash": "red", "overflow": "red", "crash": "magenta", "timeout": "magenta"}
_MOST_DEVIATIONS = 20
_MOST_LIMITS = 8


def status_counts(rows: Iterable[Result]) -> dict[str, dict[str, dict[str, int]]]:
    """Board -> memory -> status -> how many."""
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for row in rows:
        here = counts.setdefault(row.board, {}).setdefault(row.memory, {})
        here[row.status] = here.get(row.status, 0) + 1
    return counts


def render(rows: Sequence[Result], finished: Finished, deviations: Sequence[Deviation]) -> str:
    """Plain text: statuses per board and memory, where the results are, what was not expected."""
    counts: Counter[tuple[str, str, str]] = Counter((row.board, row.memory, row.status) for row in rows)
    lines = [_plain(_table(counts))]
    doubtful = sum(row.confidence in ("bounded", "unknown") for row in rows)
    if doubtful:
        lines.append(
            f"{counted(doubtful, 'row')} not exact (the twin has lower bounds for them): --engine mock asks the library"
        )
    resumed = f", {thousands(finished.resumed)} were there" if finished.resumed else ""
    rate = finished.asked / finished.seconds if finished.seconds > 0 else 0.0
    lines.append(
        f"{counted(finished.asked, 'case')} asked in {finished.seconds:.1f} s ({rate:,.0f}/s){resumed}; "
        "each ran alone on an empty device"
    )
    for deviation in deviations[:_MOST_DEVIATIONS]:
        row = deviation.row
        lines.append(
            f"unexpected: {row.id} {row.board} {row.memory} {row.layout}: {row.status}, expected {deviation.expected}"
            + (f" ({one_line(row.message)[:120]})" if row.message else "")
        )
    if len(deviations) > _MOST_DEVIATIONS:
        lines.append(f"unexpected: {thousands(len(deviations) - _MOST_DEVIATIONS)} more")
    lines.append(f"results: {finished.results}")
    return "\n".join(lines)


def live(progress: Progress) -> RenderableType:
    """The table of a sweep at work."""
    done = progress.done_before + progress.done_now
    left = progress.seconds_left
    head = Text(
        f"{thousands(done)} of {thousands(progress.total)} cases, {progress.rate_per_second:,.0f}/s"
        + (f", about {_duration(left)} left" if left is not None else "")
    )
    parts: list[RenderableType] = [head, _table(progress.statuses)]
    if progress.largest_pass:
        best = sorted(progress.largest_pass.items(), key=lambda item: -item[1])[:_MOST_LIMITS]
        words = [f"{op} {memory} {size / MIB:,.1f} MB" for (op, _, memory), size in best]
        parts.append(Text(f"largest inputs that passed: {', '.join(words)}", style="dim"))
    return Group(*parts)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _table(counts: Counter[tuple[str, str, str]]) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    used = [status for status in STATUSES if any(key[2] == status for key in counts)]
    grid.add_column("board")
    grid.add_column("memory")
    for status in used:
        grid.add_column(status, justify="right", style=_COLORS.get(status, ""))
    for board, memory in dict.fromkeys((board, memory) for board, memory, _ in sorted(counts)):
        cells = (counts.get((board, memory, status), 0) for status in used)
        grid.add_row(board, memory, *(thousands(count) if count else "-" for count in cells))
    return grid


def _plain(what: Any) -> str:
    console = Console(file=io.StringIO(), width=120, no_color=True, highlight=False)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())
