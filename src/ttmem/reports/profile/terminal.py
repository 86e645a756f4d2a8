# SPDX-License-Identifier: Apache-2.0
"""The summary for a person at a terminal: what filled the memory, a small picture of it, what to do next."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ttmem.analysis.consumers import LiveSet
from ttmem.analysis.peaks import Peak
from ttmem.profile import Profile
from ttmem.reports.explain.wording import advice
from ttmem.reports.kit.units import (
    counted,
    megabytes,
    mib,
    one_line,
    operation_label,
    percent,
    shape_text,
    short,
    thousands,
)
from ttmem.reports.profile.answers import Answers, answers
from ttmem.reports.profile.notes import (
    growth_text,
    l1_text,
    load_text,
    moment_text,
    notes,
    rounding_note,
    runs_text,
    unattributed_text,
)
from ttmem.reports.profile.timeline import highest_per_column, series

_ROWS = 10
_BARS = " ▁▂▃▄▅▆▇█"
_CHART_ROWS = 3
_WARN_PERCENT, _ALARM_PERCENT = 80.0, 90.0


def render(profile: Profile, *, width: int = 100, color: bool = False) -> str:
    """The summary as text; colour by meaning only, so that nothing is lost without it."""
    console = _console(width, color)
    known = answers(profile)
    for part in _parts(profile, known, max(width, 40)):
        console.print(part)
    return _text_of(console)


def _console(width: int, color: bool) -> Console:
    return Console(
        file=io.StringIO(),
        width=max(width, 40),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )


def _text_of(console: Console) -> str:
    file = console.file
    text = file.getvalue() if isinstance(file, io.StringIO) else ""
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _parts(profile: Profile, known: Answers, width: int) -> list[RenderableType]:
    parts: list[RenderableType] = [_title(profile, known), ""]
    if known.peaks:
        parts += [_peaks(known, width), ""]
        for memory in ("DRAM", "L1"):
            if memory in known.peaks:
                parts += [_chart(profile, known.peaks[memory], width), ""]
    if known.dram is not None and known.dram.tensors:
        parts += [Text("Alive at the DRAM peak", style="bold"), _consumers(known.dram, width)]
        parts += [Text(unattributed_text(known.dram), style="dim"), ""]
    parts.append(_facts(profile, known))
    warnings = [*notes(known), *(one_line(warning) for warning in profile.source.warnings[:5])]
    if warnings:
        parts.append("")
    parts += [Text(f"! {warning}", style="yellow") for warning in warnings]
    if known.failure is not None:
        parts += ["", _failure(known)]
    return parts


def _title(profile: Profile, known: Answers) -> Text:
    counts = known.distribution
    title = Text()
    title.append(one_line(profile.name), style="bold")
    title.append(
        f"  {profile.source.kind}, {counted(counts.executed, 'operation')} ({thousands(counts.compute)} compute), "
        f"{runs_text(known)}",
        style="dim",
    )
    ranks = [timeline.rank for timeline in profile.timelines if timeline.rank >= 0]
    if len(ranks) > 1:
        title.append(f", {counted(len(ranks), 'rank')} (each memory: its worst rank)", style="dim")
    return title


def _peaks(known: Answers, width: int) -> Table:
    table = _table("MB per bank", "Peak", "Of bank", "Bank", "Largest free", right=range(1, 5))
    table.add_column("Caused by", overflow="fold")
    for memory, peak in known.peaks.items():
        table.add_row(
            f"{memory} x{peak.banks}",
            mib(peak.peak_bytes_per_bank),
            Text(percent(peak.peak_percent), style=_alarm(peak.peak_percent)),
            mib(peak.bytes_per_bank),
            mib(peak.largest_free_bytes_at_peak),
            short(operation_label(peak.caused_by_index, peak.caused_by_name), max(12, width - 60)) or "-",
        )
    return table


def _alarm(share: float | None) -> str:
    if share is None or share <= _WARN_PERCENT:
        return ""
    return "bold red" if share > _ALARM_PERCENT else "yellow"


def _chart(profile: Profile, peak: Peak, width: int) -> Text:
    """Block characters over operations, scaled to the peak; the mark below points at it."""
    line = series(profile, peak.timeline, peak.memory)
    heights = highest_per_column(line.allocated, width - 4)
    top = max(peak.peak_bytes_per_bank, 1)
    steps = [int(value) * _CHART_ROWS * 8 // top for value in heights.tolist()]
    peak_column = int(heights.argmax()) if len(heights) else 0
    first, last = (int(line.operation[0]), int(line.operation[-1])) if len(line.operation) else (0, 0)
    chart = Text()
    chart.append(f"{peak.memory} over operations #{first} to #{last}", style="bold")
    chart.append(f"  full height = {megabytes(peak.peak_bytes_per_bank)}/bank\n", style="dim")
    for row in range(_CHART_ROWS - 1, -1, -1):
        cells = "".join(_BARS[min(max(step - 8 * row, 0), 8)] for step in steps)
        chart.append(f"  {cells}\n", style="cyan")
    at = short(f"peak {moment_text(peak)}", width - 8)
    label = f"▲ {at}"
    if peak_column + len(label) > width - 4:
        mark = " " * max(0, peak_column - len(label) + 1) + f"{at} ▲"
    else:
        mark = " " * peak_column + label
    chart.append(f"  {mark}", style="magenta")
    return chart


def _consumers(live: LiveSet, width: int) -> Table:
    table = _table("Tensor", "Shape", "MB/bank", "Of peak", right=range(2, 4))
    table.add_column("Producer", overflow="fold")
    shown = live.tensors[:_ROWS]
    shapes = [short(shape_text(life.type.shape, life.type.dtype), 28) for life in shown]
    producer_width = max(19, width // 4)
    name_width = max(12, width - producer_width - max(map(len, shapes)) - len("MB/bank  Of peak") - 3 * 2)
    for life, shape in zip(shown, shapes, strict=True):
        total = live.total_bytes_per_bank
        table.add_row(
            short(life.name, name_width),
            shape,
            mib(life.bytes_per_bank),
            percent(100 * life.bytes_per_bank / total if total else None),
            short(operation_label(life.producer_index, life.producer_name), producer_width) or "resident",
        )
    rest = live.tensors[_ROWS:]
    if rest:
        rest_bytes = sum(life.bytes_per_bank for life in rest)
        table.add_row(counted(len(rest), "smaller tensor"), "", mib(rest_bytes), "", "")
    return table


def _facts(profile: Profile, known: Answers) -> Table:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    padding, found = known.padding, known.weights
    wasted = megabytes(padding.padded_bytes - padding.logical_bytes)
    facts.add_row("Padding", f"{percent(padding.overhead_percent)} of the tensors alive at the DRAM peak ({wasted})")
    if found.count:
        facts.add_row("Weights", f"{thousands(found.count)}, {megabytes(found.bytes)} logical on one chip")
    for label, text in (
        ("L1", one_line(l1_text(known))),
        ("Growth", growth_text(known)),
        ("Load", load_text(known)),
        ("Error", rounding_note(profile)),
    ):
        if text:
            facts.add_row(label, text)
    common = ", ".join(f"{name} {thousands(count)}" for name, count in list(known.distribution.by_name.items())[:6])
    if common:
        facts.add_row("Operations", one_line(common))
    return facts


def _failure(known: Answers) -> Text:
    failure = known.failure
    text = Text()
    if failure is None:
        return text
    where = (
        f"in {operation_label(failure.operation_index, failure.operation_name)}"
        if failure.operation_index is not None
        else "outside any program"
    )
    text.append(f"Failed {where}", style="bold red")
    place = f", line {thousands(failure.line)}" if failure.line else ""
    text.append(f"  {failure.failure_class}{place}\n", style="dim")
    text.append(one_line(failure.message))
    if (diagnosis := known.diagnosis) is not None:
        text.append(f"\n{one_line(diagnosis.headline)}", style="bold")
        for number, line in enumerate(advice(diagnosis), 1):
            text.append(f"\n{number}. {line}")
    return text


def _table(*columns: str, right: range) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for position, column in enumerate(columns):
        aligned_right = position in right
        table.add_column(column, justify="right" if aligned_right else "left", no_wrap=aligned_right, overflow="fold")
    return table
