# SPDX-License-Identifier: Apache-2.0
"""A profile as text: the summary for a terminal, and compact Markdown for an LLM agent.

The Markdown has fixed sections and at most 8,000 tokens, one token taken as 3.5 characters. Tables get shorter and
names are cut in the middle until the text fits, but no section is ever dropped: an agent looks for its heading.
"""

from __future__ import annotations

import re
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from ttmem.analysis.consumers import LiveSet
from ttmem.analysis.peaks import Peak
from ttmem.base.formatting import (
    flatten_text,
    format_count,
    format_mib,
    format_operation,
    format_percent,
    format_shape,
    pluralize,
    shorten,
)
from ttmem.profile.model import Profile
from ttmem.reports import profile_tables
from ttmem.reports.explain import list_advice, list_live_lines
from ttmem.reports.kit import tables as tables_report
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table
from ttmem.reports.profile_analyses import Analyses, analyze
from ttmem.reports.profile_timeline import find_column_peaks, read_series

if TYPE_CHECKING:  # rich takes long to load, and Markdown needs none of it
    from rich.console import RenderableType
    from rich.table import Table as Grid
    from rich.text import Text

_ROWS = 10
_LIVE_ROWS = 5
_MOST_FINDINGS = 5
_BARS = " ▁▂▃▄▅▆▇█"
_CHART_ROWS = 3
_STYLES = {"ok": "", "warn": "yellow", "alarm": "bold red"}


def render_terminal(profile: Profile, *, width: int = 100, color: bool = False) -> str:
    """Render the summary; colour repeats the meaning, so that nothing is lost without it."""
    report = TextReport(width, color=color)
    report.print(*_build_parts(profile, analyze(profile), report.width))
    return report.render()


def _build_parts(profile: Profile, known: Analyses, width: int) -> list[RenderableType | Table]:
    from rich.text import Text

    parts: list[RenderableType | Table] = [_build_title(profile, known), ""]
    if known.peaks:
        parts += [_build_peaks(known, width), ""]
        for memory in ("DRAM", "L1"):
            if memory in known.peaks and known.peaks[memory].peak_bytes_per_bank:
                parts += [_draw_chart(profile, known.peaks[memory], width), ""]
    for memory, live in known.live.items():
        if live.tensors and memory in (known.memories_by_share[0], "DRAM", "L1"):
            parts += [Text(f"Alive at the {memory} peak", style="bold"), _build_consumers(live, width)]
            parts += [Text(profile_tables.describe_unattributed(live), style="dim"), ""]
    parts.append(_build_facts(profile, known))
    warnings = [
        *profile_tables.list_warnings(known),
        *(flatten_text(warning) for warning in profile.source.warnings[:5]),
    ]
    if warnings:
        parts.append("")
    parts += [Text(f"! {warning}", style="yellow") for warning in warnings]
    if known.findings:
        parts += ["", Text("Findings", style="bold"), *profile_tables.list_findings(known.findings[:_MOST_FINDINGS])]
        parts.append(Text("'ttmem tune' lists what to change", style="dim"))
    if known.failure is not None or profile_tables.describe_end(known):
        parts += ["", _describe_failure(known)]
    return parts


def _build_title(profile: Profile, known: Analyses) -> Text:
    from rich.text import Text

    counts, ranks = known.distribution, profile_tables.list_ranks(profile)
    executed = f"{pluralize(counts.executed, 'operation')} ({format_count(counts.compute)} compute)"
    about = f"{executed}, {profile_tables.describe_runs(known)}"
    board = profile_tables.describe_board(profile)
    worst = f", {pluralize(len(ranks), 'rank')} (each memory: its worst rank)" if len(ranks) > 1 else ""
    return Text.assemble(
        (flatten_text(profile.name), "bold"),
        (f"  {profile.source.kind}{board and f' on {board}'}, {about}{worst}", "dim"),
    )


def _build_peaks(known: Analyses, width: int) -> Table:
    return (
        profile_tables.build_peaks(known)
        .select("Memory", "Peak", "% of bank", "Bank", "Largest free", "Caused by")
        .change_column("Memory", head="MiB per bank", write=lambda peak: f"{peak.memory} x{peak.banks}")
        .change_column(
            "% of bank", head="Of bank", style=lambda share: _STYLES[profile_tables.find_level(share)], spare=1
        )
        .change_column("Bank", spare=2)
        .change_column("Largest free", spare=3)
        .change_column("Caused by", most=max(12, width - 60))
    )


def _draw_chart(profile: Profile, peak: Peak, width: int) -> Text:
    """Draw block characters over operations, scaled to the peak; a mark below points at it."""
    from rich.text import Text

    line = read_series(profile, peak.timeline, peak.memory)
    heights = find_column_peaks(line.allocated, width - 4)
    top = max(peak.peak_bytes_per_bank, 1)
    steps = [int(value) * _CHART_ROWS * 8 // top for value in heights.tolist()]
    peak_column = int(heights.argmax()) if len(heights) else 0
    first, last = (int(line.operation[0]), int(line.operation[-1])) if len(line.operation) else (0, 0)
    chart = Text()
    chart.append(f"{peak.memory} over operations #{first} to #{last}", style="bold")
    chart.append(f"  full height = {format_mib(peak.peak_bytes_per_bank)}/bank\n", style="dim")
    for row in range(_CHART_ROWS - 1, -1, -1):
        cells = "".join(_BARS[min(max(step - 8 * row, 0), 8)] for step in steps)
        chart.append(f"  {cells}\n", style="cyan")
    at = shorten(f"peak {profile_tables.describe_moment(peak)}", width - 8)
    mark = " " * peak_column + f"▲ {at}"
    if len(mark) > width - 4:
        mark = f"{at} ▲".rjust(peak_column + 1)
    return chart.append(f"  {mark}", style="magenta")


def _build_consumers(live: LiveSet, width: int) -> Table:
    shapes = [shorten(format_shape(life.type.shape, life.type.dtype), 28) for life in live.tensors[:_ROWS]]
    producer_width = max(19, width // 4)
    name_width = max(12, width - producer_width - max(map(len, shapes)) - len("MiB/bank  Of peak") - 3 * 2)
    table = (
        profile_tables.build_consumers(live, _ROWS)
        .select("Tensor", "Shape", "MiB/bank", "Of peak", "Producer")
        .change_column("Tensor", most=name_width)
        .change_column("Shape", most=28, spare=2)
        .change_column("Of peak", spare=3)
        .change_column("Producer", most=producer_width, unknown="resident", spare=1)
    )
    rest = live.tensors[_ROWS:]
    if not rest:
        return table
    left = [pluralize(len(rest), "smaller tensor"), "", sum(life.bytes_per_bank for life in rest), "", ""]
    return replace(table.change_column("Of peak", write=_format_share), rows=[*table.rows, left])


def _format_share(value: float | str) -> str:
    """Format a share; the row that sums the others has none."""
    return value if isinstance(value, str) else format_percent(value)


def _build_facts(profile: Profile, known: Analyses) -> Grid:
    from rich.table import Table as Grid

    facts = Grid.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    padding, found = known.padding, known.weights
    if padding.wasted_bytes is None:
        facts.add_row(
            "Padding", f"{profile_tables.UNKNOWN}: the source does not list the tensors alive at the DRAM peak"
        )
    else:
        wasted = f"tensors alive at the DRAM peak ({format_mib(padding.wasted_bytes)})"
        facts.add_row("Padding", f"{profile_tables.format_padding(known)} of the {wasted}")
    if found.count:
        facts.add_row(
            "Weights", f"{format_count(found.count)}, {profile_tables.format_weights(known)} logical on one chip"
        )
    elif found.bytes is None:
        facts.add_row("Weights", f"{profile_tables.UNKNOWN}: the source does not mark weights")
    for label, text in (
        ("L1", flatten_text(profile_tables.describe_l1(known))),
        ("Growth", profile_tables.describe_growth(known)),
        ("Load", profile_tables.describe_load(known)),
        ("Error", profile_tables.describe_rounding(profile)),
    ):
        if text:
            facts.add_row(label, text)
    common = ", ".join(f"{name} {format_count(count)}" for name, count in list(known.distribution.by_name.items())[:6])
    if common:
        facts.add_row("Operations", flatten_text(common))
    return facts


def _describe_failure(known: Analyses) -> Text:
    failure, diagnosis = known.failure, known.diagnosis
    text = _describe_headline(known)
    text.append(flatten_text(failure.message if failure is not None else profile_tables.format_end_error(known)))
    if failure is None or diagnosis is None:
        return text
    text.append(f"\n{flatten_text(diagnosis.headline)}", style="bold")
    if diagnosis.live:
        text.append(f"\nAlive in {failure.memory} when it failed:")
        for line in list_live_lines(diagnosis, _LIVE_ROWS):
            text.append(f"\n  - {line}")
    for number, line in enumerate(list_advice(diagnosis), 1):
        text.append(f"\n{number}. {line}")
    return text


def _describe_headline(known: Analyses) -> Text:
    from rich.text import Text

    failure = known.failure
    if ended := profile_tables.describe_end(known):
        return Text.assemble((f"{profile_tables.describe_fit(known)}; {flatten_text(ended)}\n", "bold yellow"))
    assert failure is not None
    where = "outside any program"
    if failure.operation_index is not None:
        where = f"in {format_operation(failure.operation_index, failure.operation_name)}"
    place = f", line {format_count(failure.line)}" if failure.line else ""
    return Text.assemble((f"Failed {where}", "bold red"), (f"  {failure.failure_class}{place}\n", "dim"))


_MOST_BYTES = 24_000
"""UTF-8 bytes, so that names in other scripts, which cost more tokens, are covered too."""


_MIB = re.compile(r"\bMiB\b")
"""Readers of this report know its fixed heading, which says MB; one report has one unit."""


class _SectionLimits(NamedTuple):
    """The limits of a section."""

    rows: int
    name_width: int
    message_width: int


_DETAILS = [(10, 90, 2000), (10, 60, 1200), (10, 36, 800), (6, 24, 400), (3, 12, 200)]


def render_markdown(profile: Profile) -> str:
    """Render the report, with the most detail that fits."""
    known = analyze(profile)
    text = ""
    for detail in _DETAILS:
        text = _MIB.sub("MB", _MarkdownReport(profile, known, _SectionLimits(*detail)).render())
        if len(text.encode("utf-8", "replace")) <= _MOST_BYTES:
            break
    return text


class _MarkdownReport:
    def __init__(self, profile: Profile, known: Analyses, detail: _SectionLimits) -> None:
        self._profile = profile
        self._known = known
        self._detail = detail

    def render(self) -> str:
        weights = profile_tables.format_weights(self._known)
        sections = [
            [f"# Memory Profile: {self._shorten_name(self._profile.name)}"],
            [f"> {self._render_summary()}"],
            ["## Configuration", *self._render_configuration()],
            ["## Peak Memory", *self._render_peaks()],
            ["## Top 10 Memory Consumers (DRAM)", *self._render_consumers("DRAM")],
            *([["## Top 10 Memory Consumers (L1)", *self._render_consumers("L1")]] if self._knows_l1 else []),
            ["## Top 10 Padding Overhead", *self._render_padding()],
            [f"## Model Weights ({weights.removesuffix(' MiB')} MB total)", *self._render_weights()],
            ["## Operation Distribution", *self._render_distribution()],
        ]
        if self._known.failure is not None or profile_tables.describe_end(self._known):
            sections.append(["## Failure", *self._render_failure()])
        texts = ("\n\n".join((head, "\n".join(lines))) if lines else head for head, *lines in sections)
        return "\n\n".join(texts) + "\n"

    def _render_summary(self) -> str:
        known = self._known
        dram, l1 = (
            f"{format_mib(peak.peak_bytes_per_bank)}/bank" if (peak := known.peaks.get(memory)) else "n/a"
            for memory in ("DRAM", "L1")
        )
        share = f" ({format_percent(known.peaks['DRAM'].peak_percent)})" if "DRAM" in known.peaks else ""
        return (
            f"Peak DRAM: {dram}{share} | Peak L1: {l1} | Ops: {known.distribution.compute} | "
            f"Weights: {profile_tables.format_weights(known)} | "
            f"Padding Overhead: {profile_tables.format_padding(known)}"
        )

    def _render_configuration(self) -> list[str]:
        profile, known = self._profile, self._known
        source, ranks, counts = profile.source, profile_tables.list_ranks(profile), known.distribution
        damaged = f", {format_count(source.unrecognised_lines)} damaged" if source.unrecognised_lines else ""
        lines = [
            f"- Source: {source.kind}, {format_count(source.lines)} lines{damaged}",
            f"- Operations: {format_count(counts.executed)} executed, {format_count(counts.compute)} compute",
            "- Compute leaves out deallocate and get_device; indices (#) count every executed operation from 0",
            f"- Runs: {profile_tables.describe_runs(known)}",
        ]
        if len(ranks) > 1:
            more = f" and {len(ranks) - 16} more" if len(ranks) > 16 else ""
            lines.append(f"- Ranks: {', '.join(map(str, ranks[:16]))}{more}; each memory shows its worst rank")
        lines += [
            f"- {self._shorten_name(key)}: {self._shorten_name(value)}"
            for key, value in profile_tables.list_short_facts(profile)[:8]
        ]
        units = "MB = 2^20 bytes; per bank unless marked device (device = per bank x banks)"
        lines.append(f"- Units: {'; '.join(filter(None, (units, profile_tables.describe_rounding(profile))))}")
        lines += [f"- Warning: {shorten(warning, self._detail.name_width * 2)}" for warning in source.warnings[:5]]
        if len(source.warnings) > 5:
            lines.append(f"- {len(source.warnings) - 5} more warnings (`--json` has all)")
        columns: profile_tables.Columns = [
            (tables_report.text_column("Memory"), attrgetter("memory")),
            (tables_report.number_column("Banks", str), attrgetter("banks")),
            (tables_report.mib_column("MB/bank"), attrgetter("bytes_per_bank")),
            (tables_report.mib_column("MB device", decimals=1), lambda peak: peak.bytes_per_bank * peak.banks),
        ]
        return [*lines, "", *self._format_table(profile_tables.build_table(known.peaks.values(), columns))]

    def _render_peaks(self) -> list[str]:
        known = self._known
        table = profile_tables.build_peaks(known).select(
            "Memory", "Peak", "% of bank", "Caused by", "Location", "State", "Free", "Largest free", "End"
        )
        remarks = [f"Note: {warning}" for warning in profile_tables.list_warnings(known)]
        optional = {"Growth": profile_tables.describe_growth(known), "Load": profile_tables.describe_load(known)}
        remarks += [f"{label}: {text}" for label, text in optional.items() if text]
        remarks.append(shorten(profile_tables.describe_l1(known), self._detail.message_width))
        remarks.append(f"Next: `{profile_tables.suggest_command(self._profile, known)}`")
        lines = self._format_table(table) or ["No memory state in the source."]
        return ["MB per bank.", "", *lines, "", *(f"- {remark}" for remark in remarks)]

    @property
    def _knows_l1(self) -> bool:
        live = self._known.live.get("L1")
        return live is not None and bool(live.tensors)

    def _render_consumers(self, memory: str) -> list[str]:
        live = self._known.live.get(memory)
        if live is None:
            return ["No DRAM state in the source."]
        table = profile_tables.build_consumers(live, self._detail.rows)
        moment = self._shorten_name(profile_tables.describe_moment(live.peak))
        remarks = [remark for remark in (table.left_out, profile_tables.describe_unattributed(live)) if remark]
        return [
            f"Tensors alive at the peak: {format_mib(live.total_bytes_per_bank)}/bank {moment}.",
            "",
            *(self._format_table(table) or ["No tensor could be attributed."]),
            "",
            *(f"- {remark}" for remark in remarks),
        ]

    def _render_padding(self) -> list[str]:
        padding = self._known.padding
        if padding.logical_bytes is None or padding.padded_bytes is None:
            return ["Unknown: the source does not list the tensors alive at the DRAM peak."]
        logical, padded = format_mib(padding.logical_bytes), format_mib(padding.padded_bytes)
        overhead = format_percent(padding.overhead_percent)
        lines = self._format_table(profile_tables.build_padding(self._known, self._detail.rows))
        return [
            f"DRAM tensors alive at the DRAM peak, device bytes: {logical} logical, {padded} padded ({overhead} more).",
            "",
            *(lines or ["No tensor alive at the peak is padded."]),
        ]

    def _render_weights(self) -> list[str]:
        found = self._known.weights
        if not found.count and "engine" in self._profile.facts:
            return ["A captured script does not mark its weights."]
        if not found.count:
            return ["No module dump in the source names weights (TT-XLA prints one with TTXLA_LOGGER_LEVEL=DEBUG)."]
        table = profile_tables.build_weights(self._known, self._detail.rows)
        table = table.change_column("Kind", write=lambda kind: "constant" if kind == "constant" else "")
        amounts = {
            "on device": found.device_bytes,
            "host only": found.host_only_bytes,
            "place unknown": found.unknown_bytes,
        }
        places = ", ".join(f"{format_mib(amount)} {label}" for label, amount in amounts.items() if amount)
        kinds = f"{pluralize(found.count, 'weight')} ({pluralize(found.constants, 'constant')})"
        lines = [
            f"{kinds}, logical bytes on one chip, each counted once over all graphs; {places}.",
            "",
            *self._format_table(table),
        ]
        rest = found.entries[len(table.rows) :]
        if rest:
            rest_bytes = sum(weight.bytes for weight in rest)
            lines += ["", f"- {pluralize(len(rest), 'smaller weight')}: {format_mib(rest_bytes)}"]
        return lines

    def _render_distribution(self) -> list[str]:
        counts = self._known.distribution
        if not counts.executed:
            return ["No operation lines in the source."]
        table = profile_tables.build_distribution(self._known, 2 * self._detail.rows)
        lines = self._format_table(table)
        rest = len(counts.by_name) - len(table.rows)
        if rest:
            left = counts.executed - sum(list(counts.by_name.values())[: len(table.rows)])
            lines += ["", f"- {pluralize(rest, 'other name')}: {pluralize(left, 'operation')}"]
        return lines

    def _render_failure(self) -> list[str]:
        failure, ended = self._known.failure, profile_tables.describe_end(self._known)
        lines = [f"- {profile_tables.describe_fit(self._known)}; {self._shorten_message(ended)}"] if ended else []
        if failure is None:
            return [*lines, f"- Message: {self._shorten_message(profile_tables.format_end_error(self._known))}"]
        where = "outside any program (uploads of inputs and weights happen there)"
        if failure.operation_index is not None:
            where = self._shorten_name(format_operation(failure.operation_index, failure.operation_name))
            where += f" at {self._shorten_name(failure.operation_location)}" if failure.operation_location else ""
        lines += [
            f"- Class: {failure.failure_class}" + (f" ({failure.memory})" if failure.memory else ""),
            *([f"- Operation: {where}"] if failure.operation_index is not None or not ended else []),
            f"- Message: {self._shorten_message(failure.message)}",
            f"- Line: {failure.line or '-'}" + ("; the process went on after it" if failure.survived else ""),
        ]
        if failure.numbers:
            figures = ", ".join(f"{name} {value}" for name, value in failure.numbers.items())
            lines.append(f"- Numbers: {self._shorten_message(figures)}")
        if (diagnosis := self._known.diagnosis) is not None:
            lines.append(f"- Diagnosis: {self._shorten_message(diagnosis.text)}")
            alive = list_live_lines(diagnosis, self._detail.rows)
            lines += [f"- Alive in {failure.memory} when it failed: {self._shorten_message(text)}" for text in alive]
            lines += [
                f"- Remedy {n}: {self._shorten_message(text)}" for n, text in enumerate(list_advice(diagnosis), 1)
            ]
        others = len(self._known.failures) - 1
        if others > 0:
            lines.append(f"- {others} other failure texts in the source (`--json` lists them)")
        return lines

    def _format_table(self, table: tables_report.Table) -> list[str]:
        return tables_report.format_markdown(table, longest=self._detail.name_width)

    def _shorten_name(self, text: str) -> str:
        return shorten(text, self._detail.name_width)

    def _shorten_message(self, text: str) -> str:
        return shorten(text, self._detail.message_width)
