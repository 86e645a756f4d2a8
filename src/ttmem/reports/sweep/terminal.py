# SPDX-License-Identifier: Apache-2.0
"""How a sweep looks on a terminal: live while it runs, a short table when it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from ttmem.failures.outcome import STATUSES
from ttmem.operators.sweeps.result import Result
from ttmem.reports.kit.console import TextReport, rich_table
from ttmem.reports.kit.tables import Table, number_column, text_column
from ttmem.reports.kit.units import counted, mib, one_line, thousands
from ttmem.twin.operations import BOUNDED, UNKNOWN

if TYPE_CHECKING:
    from ttmem.operators.sweeps.expectations import Deviation
    from ttmem.operators.sweeps.run import Finished, Progress

_COLORS = {"pass": "green", "oom": "red", "clash": "red", "overflow": "red", "crash": "magenta", "timeout": "magenta"}
_MOST_DEVIATIONS = 20
_MOST_LIMITS = 8


def render(results: Sequence[Result], finished: Finished, deviations: Sequence[Deviation]) -> str:
    """Plain text: statuses per board and memory, where the results are, what was not expected."""
    report = TextReport(120)
    report.print(_statuses(Counter((one.board, one.memory, one.status) for one in results)))
    lines = [report.text().rstrip("\n")]
    not_judged = sum(not one.is_judged for one in results)
    if not_judged:
        lines.append(
            f"{counted(not_judged, 'result')} not judged (unsupported by the twin, neither pass nor failure): "
            "--engine mock asks the library"
        )
    if bounded := sum(one.confidence in (BOUNDED, UNKNOWN) and one.is_judged for one in results):
        lines.append(f"{counted(bounded, 'result')} not exact: the status is certain, the peak is a lower bound")
    resumed = f", {thousands(finished.resumed)} were there" if finished.resumed else ""
    rate = finished.asked / finished.seconds if finished.seconds > 0 else 0.0
    lines.append(
        f"{counted(finished.asked, 'case')} asked in {finished.seconds:.1f} s ({rate:,.0f}/s){resumed}; "
        "each ran alone on an empty device"
    )
    for deviation in deviations[:_MOST_DEVIATIONS]:
        one = deviation.result
        lines.append(
            f"unexpected: {one.id} {one.board} {one.memory} {one.layout}: {one.status}, expected {deviation.expected}"
            + (f" ({one_line(one.message)[:120]})" if one.message else "")
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
    parts: list[RenderableType] = [head, rich_table(_statuses(progress.statuses))]
    if progress.largest_pass:
        best = sorted(progress.largest_pass.items(), key=lambda item: -item[1])[:_MOST_LIMITS]
        words = [f"{op} {memory} {mib(size, decimals=1)} MiB" for (op, _, memory), size in best]
        parts.append(Text(f"largest inputs that passed: {', '.join(words)}", style="dim"))
    return Group(*parts)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _statuses(counts: Mapping[tuple[str, str, str], int]) -> Table:
    used = [status for status in STATUSES if any(key[2] == status for key in counts)]
    columns = [text_column("board"), text_column("memory")]
    columns += [number_column(status, style=_color(status)) for status in used]
    rows: list[list[Any]] = [
        [board, memory, *(counts.get((board, memory, status)) or None for status in used)]
        for board, memory in dict.fromkeys((board, memory) for board, memory, _ in sorted(counts))
    ]
    return Table(columns, rows)


def _color(status: str) -> Callable[[Any], str]:
    return lambda _: _COLORS.get(status, "")
