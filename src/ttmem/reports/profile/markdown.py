# SPDX-License-Identifier: Apache-2.0
"""The compact Markdown report for an LLM agent: fixed header and sections, at most 8,000 tokens.

A token is taken as 3.5 characters; tables get shorter and names are cut in the middle until the text fits, but no
section is ever dropped: an agent looks for its heading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttmem.analysis.lifetimes import TensorLife
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
    next_command,
    notes,
    rounding_note,
    runs_text,
    unattributed_text,
)

_MOST_BYTES = 24_000
"""UTF-8 bytes, so that names in other scripts, which cost more tokens, are covered too."""


@dataclass(frozen=True, slots=True)
class _Room:
    """How much a table may take."""

    rows: int
    name_width: int
    message_width: int


_ROOMS = (_Room(10, 90, 2000), _Room(10, 60, 1200), _Room(10, 36, 800), _Room(6, 24, 400), _Room(3, 12, 200))


def render(profile: Profile) -> str:
    """The report, with the most detail that fits."""
    known = answers(profile)
    text = ""
    for room in _ROOMS:
        text = _Report(profile, known, room).text()
        if len(text.encode("utf-8", "replace")) <= _MOST_BYTES:
            break
    return text


class _Report:
    def __init__(self, profile: Profile, known: Answers, room: _Room) -> None:
        self._profile = profile
        self._known = known
        self._room = room

    def text(self) -> str:
        sections = [
            [f"# Memory Profile: {short(self._profile.name, self._room.name_width)}"],
            [f"> {self._summary()}"],
            ["## Configuration", *self._configuration()],
            ["## Peak Memory", *self._peaks()],
            ["## Top 10 Memory Consumers (DRAM)", *self._consumers()],
            ["## Top 10 Padding Overhead", *self._padding()],
            [f"## Model Weights ({megabytes(self._known.weights.bytes)} total)", *self._weights()],
            ["## Operation Distribution", *self._distribution()],
        ]
        if self._known.failure is not None:
            sections.append(["## Failure", *self._failure()])
        return "\n\n".join("\n".join(lines) for lines in sections) + "\n"

    def _summary(self) -> str:
        known = self._known
        dram, l1 = known.peaks.get("DRAM"), known.peaks.get("L1")
        return " | ".join(
            [
                f"Peak DRAM: {megabytes(dram.peak_bytes_per_bank)}/bank ({percent(dram.peak_percent)})"
                if dram
                else "Peak DRAM: n/a",
                f"Peak L1: {megabytes(l1.peak_bytes_per_bank)}/bank" if l1 else "Peak L1: n/a",
                f"Ops: {known.distribution.compute}",
                f"Weights: {megabytes(known.weights.bytes)}",
                f"Padding Overhead: {percent(known.padding.overhead_percent)}",
            ]
        )

    def _configuration(self) -> list[str]:
        profile, known = self._profile, self._known
        source = profile.source
        ranks = [timeline.rank for timeline in profile.timelines if timeline.rank >= 0]
        damaged = f", {thousands(source.unrecognised_lines)} damaged" if source.unrecognised_lines else ""
        counts = known.distribution
        lines = [
            "",
            f"- Source: {source.kind}, {thousands(source.lines)} lines{damaged}",
            f"- Operations: {thousands(counts.executed)} executed, {thousands(counts.compute)} compute",
            "- Compute leaves out deallocate and get_device; indices (#) count every executed operation from 0",
            f"- Runs: {runs_text(known)}",
        ]
        if len(ranks) > 1:
            lines.append(f"- Ranks: {self._listed(ranks)}; each memory shows its worst rank")
        lines += [f"- {self._name(key)}: {self._name(str(value))}" for key, value in list(profile.facts.items())[:8]]
        rounding = rounding_note(profile)
        lines.append(
            "- Units: MB = 2^20 bytes; per bank unless marked device (device = per bank x banks)"
            + (f"; {rounding}" if rounding else "")
        )
        lines += [f"- Warning: {short(warning, self._room.name_width * 2)}" for warning in source.warnings[:5]]
        if len(source.warnings) > 5:
            lines.append(f"- {len(source.warnings) - 5} more warnings (`--json` has all)")
        rows = [
            [
                memory,
                str(peak.banks),
                mib(peak.bytes_per_bank),
                mib(peak.bytes_per_bank * peak.banks, decimals=1),
            ]
            for memory, peak in known.peaks.items()
        ]
        return [*lines, "", *_table(["Memory", "Banks", "MB/bank", "MB device"], rows)]

    def _listed(self, numbers: Sequence[int]) -> str:
        shown = ", ".join(map(str, numbers[:16]))
        return shown + (f" and {len(numbers) - 16} more" if len(numbers) > 16 else "")

    def _peaks(self) -> list[str]:
        rows = [
            [
                memory,
                mib(peak.peak_bytes_per_bank),
                percent(peak.peak_percent),
                self._operation(peak.caused_by_index, peak.caused_by_name) if peak.caused_by_index is not None else "-",
                self._name(peak.caused_by_location) or "-",
                self._name(moment_text(peak)),
                mib(peak.free_bytes_at_peak),
                mib(peak.largest_free_bytes_at_peak),
                mib(peak.end_bytes_per_bank),
            ]
            for memory, peak in self._known.peaks.items()
        ]
        head = ["Memory", "Peak", "% of bank", "Caused by", "Location", "State", "Free", "Largest free", "End"]
        table = _table(head, rows) or ["No memory state in the source."]
        remarks = [f"Note: {note}" for note in notes(self._known)]
        remarks += [f"Growth: {text}" for text in [growth_text(self._known)] if text]
        remarks += [f"Load: {text}" for text in [load_text(self._known)] if text]
        remarks.append(short(l1_text(self._known), self._room.message_width))
        remarks.append(f"Next: `{next_command(self._profile, self._known)}`")
        return ["", "MB per bank.", "", *table, "", *(f"- {remark}" for remark in remarks)]

    def _consumers(self) -> list[str]:
        live = self._known.dram
        if live is None:
            return ["", "No DRAM state in the source."]
        shown = live.tensors[: self._room.rows]
        rows = [
            [
                self._name(life.name),
                self._name(shape_text(life.type.shape, life.type.dtype)),
                mib(life.bytes_per_bank),
                percent(100 * life.bytes_per_bank / live.total_bytes_per_bank if live.total_bytes_per_bank else None),
                mib(life.type.padded_bytes),
                self._producer(life),
                self._name(life.location) or "-",
                f"#{life.first_index}-#{life.last_index}",
                "-" if life.last_use_index is None else f"#{life.last_use_index}",
                "weight" if life.weight else "",
            ]
            for life in shown
        ]
        head = [
            "Tensor",
            "Shape",
            "MB/bank",
            "Of peak",
            "MB device",
            "Producer",
            "Location",
            "Alive",
            "Last use",
            "Kind",
        ]
        rest = live.tensors[len(shown) :]
        moment = self._name(moment_text(live.peak))
        lines = [
            "",
            f"Tensors alive at the peak: {megabytes(live.total_bytes_per_bank)}/bank {moment}.",
            "",
            *(_table(head, rows) or ["No tensor could be attributed."]),
            "",
        ]
        if rest:
            rest_bytes = sum(life.bytes_per_bank for life in rest)
            lines.append(f"- {counted(len(rest), 'smaller tensor')}: {megabytes(rest_bytes)}/bank")
        lines.append(f"- {unattributed_text(live)}")
        return lines

    def _padding(self) -> list[str]:
        padding = self._known.padding
        rows = [
            [
                self._name(life.name),
                self._name(shape_text(life.type.shape, life.type.dtype)),
                mib(life.type.logical_bytes),
                mib(life.type.padded_bytes),
                mib(life.type.padding_bytes),
                percent(100 * life.type.padding_bytes / life.type.logical_bytes if life.type.logical_bytes else None),
                self._producer(life),
            ]
            for life in padding.top[: self._room.rows]
        ]
        head = ["Tensor", "Shape", "Logical MB", "Padded MB", "Wasted MB", "Overhead", "Producer"]
        logical, padded = megabytes(padding.logical_bytes), megabytes(padding.padded_bytes)
        overhead = percent(padding.overhead_percent)
        return [
            "",
            f"DRAM tensors alive at the DRAM peak, device bytes: {logical} logical, {padded} padded ({overhead} more).",
            "",
            *(_table(head, rows) or ["No tensor alive at the peak is padded."]),
        ]

    def _weights(self) -> list[str]:
        found = self._known.weights
        if not found.count and "engine" in self._profile.facts:
            return ["", "A captured script does not say which of its tensors are weights."]
        if not found.count:
            return ["", "No module dump in the source names weights (TT-XLA prints one with TTXLA_LOGGER_LEVEL=DEBUG)."]
        shown = found.entries[: self._room.rows]
        rows = [
            [
                self._name(weight.name),
                self._name(shape_text(weight.shape, weight.dtype)),
                mib(weight.bytes),
                weight.where,
                "constant" if weight.kind == "constant" else "",
            ]
            for weight in shown
        ]
        places = ", ".join(
            f"{megabytes(found.bytes_in(where))} {label}"
            for where, label in (("device", "on device"), ("host", "host only"), ("unknown", "place unknown"))
            if found.bytes_in(where)
        )
        kinds = f"{counted(found.count, 'weight')} ({counted(found.constants, 'constant')})"
        lines = [
            "",
            f"{kinds}, logical bytes on one chip, each counted once over all graphs; {places}.",
            "",
            *_table(["Weight", "Shape", "MB", "Where", "Kind"], rows),
        ]
        rest = found.entries[len(shown) :]
        if rest:
            rest_bytes = sum(weight.bytes for weight in rest)
            lines += ["", f"- {counted(len(rest), 'smaller weight')}: {megabytes(rest_bytes)}"]
        return lines

    def _distribution(self) -> list[str]:
        counts = self._known.distribution
        if not counts.executed:
            return ["", "No operation lines in the source."]
        shown = list(counts.by_name.items())[: 2 * self._room.rows]
        rows = [[self._name(name), thousands(count), percent(100 * count / counts.executed)] for name, count in shown]
        lines = ["", *_table(["Operation", "Count", "Share"], rows)]
        rest = len(counts.by_name) - len(shown)
        if rest:
            left = counts.executed - sum(count for _, count in shown)
            lines += ["", f"- {counted(rest, 'other name')}: {counted(left, 'operation')}"]
        return lines

    def _failure(self) -> list[str]:
        failure = self._known.failure
        if failure is None:
            return []
        where = (
            f"{self._operation(failure.operation_index, failure.operation_name)}"
            + (f" at {self._name(failure.operation_location)}" if failure.operation_location else "")
            if failure.operation_index is not None
            else "outside any program (uploads of inputs and weights happen there)"
        )
        lines = [
            "",
            f"- Class: {failure.failure_class}" + (f" ({failure.memory})" if failure.memory else ""),
            f"- Operation: {where}",
            f"- Message: {short(failure.message, self._room.message_width)}",
            f"- Line: {failure.line or '-'}" + ("; the process went on after it" if failure.survived else ""),
        ]
        if failure.numbers:
            figures = ", ".join(f"{name} {value}" for name, value in failure.numbers.items())
            lines.append(f"- Numbers: {short(figures, self._room.message_width)}")
        if (diagnosis := self._known.diagnosis) is not None:
            lines.append(f"- Diagnosis: {short(diagnosis.text, self._room.message_width)}")
            remedies = advice(diagnosis)
            lines += [f"- Remedy {n}: {short(text, self._room.message_width)}" for n, text in enumerate(remedies, 1)]
        others = len(self._known.failures) - 1
        if others > 0:
            lines.append(f"- {others} other failure texts in the source (`--json` lists them)")
        return lines

    def _producer(self, life: TensorLife) -> str:
        return self._operation(life.producer_index, life.producer_name) or "resident before the run"

    def _operation(self, index: int | None, name: str) -> str:
        return self._name(operation_label(index, name))

    def _name(self, text: str) -> str:
        return short(text, self._room.name_width)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table; no rows, no table."""
    if not rows:
        return []
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(map(_cell, row)) + " |" for row in lines]


def _cell(text: str) -> str:
    """A name may hold what Markdown takes for the end of a cell."""
    return one_line(text).replace("\\", "\\\\").replace("|", "\\|")
