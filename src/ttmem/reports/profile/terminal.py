# SPDX-License-Identifier: Apache-2.0
"""The summary for a person at a terminal: what filled the memory, a small picture of it, what to do next."""

from dataclasses import replace

from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from ttmem.analysis.consumers import LiveSet
from ttmem.analysis.peaks import Peak
from ttmem.profile.model import Profile
from ttmem.reports.explain.sentences import advice, live_lines
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table
from ttmem.reports.kit.units import counted, megabytes, one_line, operation_label, percent, shape_text, short, thousands
from ttmem.reports.profile import sentences, tables
from ttmem.reports.profile.analyses import Analyses, analyses
from ttmem.reports.profile.chart import highest_per_column, series

_ROWS = 10
_LIVE_ROWS = 5
_MOST_FINDINGS = 5
_BARS = " ▁▂▃▄▅▆▇█"
_CHART_ROWS = 3
_STYLES = {"ok": "", "warn": "yellow", "alarm": "bold red"}


def render(profile: Profile, *, width: int = 100, color: bool = False) -> str:
    """The summary as text; colour by meaning only, so that nothing is lost without it."""
    report = TextReport(width, color=color)
    report.print(*_parts(profile, analyses(profile), report.width))
    return report.text()


def _parts(profile: Profile, known: Analyses, width: int) -> list[RenderableType | Table]:
    parts: list[RenderableType | Table] = [_title(profile, known), ""]
    if known.peaks:
        parts += [_peaks(known, width), ""]
        for memory in ("DRAM", "L1"):
            if memory in known.peaks and known.peaks[memory].peak_bytes_per_bank:
                parts += [_chart(profile, known.peaks[memory], width), ""]
    for memory, live in known.live.items():
        if live.tensors and memory in (known.memories_by_share[0], "DRAM", "L1"):
            parts += [Text(f"Alive at the {memory} peak", style="bold"), _consumers(live, width)]
            parts += [Text(sentences.unattributed_text(live), style="dim"), ""]
    parts.append(_facts(profile, known))
    warnings = [*sentences.threshold_warnings(known), *(one_line(warning) for warning in profile.source.warnings[:5])]
    if warnings:
        parts.append("")
    parts += [Text(f"! {warning}", style="yellow") for warning in warnings]
    if known.findings:
        parts += ["", Text("Found", style="bold"), *sentences.finding_lines(known.findings[:_MOST_FINDINGS])]
        parts.append(Text("'ttmem tune' lists what to change", style="dim"))
    if known.failure is not None or sentences.ended_text(known):
        parts += ["", _failure(known)]
    return parts


def _title(profile: Profile, known: Analyses) -> Text:
    counts, ranks = known.distribution, sentences.ranks_of(profile)
    about = (
        f"{counted(counts.executed, 'operation')} ({thousands(counts.compute)} compute), {sentences.runs_text(known)}"
    )
    board = sentences.board_text(profile)
    worst = f", {counted(len(ranks), 'rank')} (each memory: its worst rank)" if len(ranks) > 1 else ""
    return Text.assemble(
        (one_line(profile.name), "bold"), (f"  {profile.source.kind}{board and f' on {board}'}, {about}{worst}", "dim")
    )


def _peaks(known: Analyses, width: int) -> Table:
    return (
        tables.peaks(known)
        .only("Memory", "Peak", "% of bank", "Bank", "Largest free", "Caused by")
        .with_column("Memory", head="MiB per bank", write=lambda peak: f"{peak.memory} x{peak.banks}")
        .with_column("% of bank", head="Of bank", style=lambda share: _STYLES[sentences.level(share)], spare=1)
        .with_column("Bank", spare=2)
        .with_column("Largest free", spare=3)
        .with_column("Caused by", most=max(12, width - 60))
    )


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
    at = short(f"peak {sentences.moment_text(peak)}", width - 8)
    mark = " " * peak_column + f"▲ {at}"
    if len(mark) > width - 4:
        mark = f"{at} ▲".rjust(peak_column + 1)
    return chart.append(f"  {mark}", style="magenta")


def _consumers(live: LiveSet, width: int) -> Table:
    shapes = [short(shape_text(life.type.shape, life.type.dtype), 28) for life in live.tensors[:_ROWS]]
    producer_width = max(19, width // 4)
    name_width = max(12, width - producer_width - max(map(len, shapes)) - len("MiB/bank  Of peak") - 3 * 2)
    table = (
        tables.consumers(live, _ROWS)
        .only("Tensor", "Shape", "MiB/bank", "Of peak", "Producer")
        .with_column("Tensor", most=name_width)
        .with_column("Shape", most=28, spare=2)
        .with_column("Of peak", spare=3)
        .with_column("Producer", most=producer_width, unknown="resident", spare=1)
    )
    rest = live.tensors[_ROWS:]
    if not rest:
        return table
    left = [counted(len(rest), "smaller tensor"), "", sum(life.bytes_per_bank for life in rest), "", ""]
    return replace(table.with_column("Of peak", write=_share), rows=[*table.rows, left])


def _share(value: float | str) -> str:
    """The row that sums up the others has none."""
    return value if isinstance(value, str) else percent(value)


def _facts(profile: Profile, known: Analyses) -> Grid:
    facts = Grid.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    padding, found = known.padding, known.weights
    if padding.wasted_bytes is None:
        facts.add_row("Padding", f"{sentences.UNKNOWN}: the source does not list the tensors alive at the DRAM peak")
    else:
        wasted = f"tensors alive at the DRAM peak ({megabytes(padding.wasted_bytes)})"
        facts.add_row("Padding", f"{sentences.padding_text(known)} of the {wasted}")
    if found.count:
        facts.add_row("Weights", f"{thousands(found.count)}, {sentences.weights_text(known)} logical on one chip")
    elif found.bytes is None:
        facts.add_row("Weights", f"{sentences.UNKNOWN}: the source does not mark weights")
    for label, text in (
        ("L1", one_line(sentences.l1_text(known))),
        ("Growth", sentences.growth_text(known)),
        ("Load", sentences.load_text(known)),
        ("Error", sentences.rounding_note(profile)),
    ):
        if text:
            facts.add_row(label, text)
    common = ", ".join(f"{name} {thousands(count)}" for name, count in list(known.distribution.by_name.items())[:6])
    if common:
        facts.add_row("Operations", one_line(common))
    return facts


def _failure(known: Analyses) -> Text:
    failure, diagnosis = known.failure, known.diagnosis
    text = _headline(known)
    text.append(one_line(failure.message if failure is not None else sentences.end_message(known)))
    if failure is None or diagnosis is None:
        return text
    text.append(f"\n{one_line(diagnosis.headline)}", style="bold")
    if diagnosis.live:
        text.append(f"\nAlive in {failure.memory} when it failed:")
        for line in live_lines(diagnosis, _LIVE_ROWS):
            text.append(f"\n  - {line}")
    for number, line in enumerate(advice(diagnosis), 1):
        text.append(f"\n{number}. {line}")
    return text


def _headline(known: Analyses) -> Text:
    failure = known.failure
    if ended := sentences.ended_text(known):
        return Text.assemble((f"{sentences.fit_text(known)}; {one_line(ended)}\n", "bold yellow"))
    assert failure is not None
    where = "outside any program"
    if failure.operation_index is not None:
        where = f"in {operation_label(failure.operation_index, failure.operation_name)}"
    place = f", line {thousands(failure.line)}" if failure.line else ""
    return Text.assemble((f"Failed {where}", "bold red"), (f"  {failure.failure_class}{place}\n", "dim"))
