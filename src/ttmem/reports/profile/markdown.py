# SPDX-License-Identifier: Apache-2.0
"""The compact Markdown report for an LLM agent: fixed header and sections, at most 8,000 tokens.

A token is taken as 3.5 characters; tables get shorter and names are cut in the middle until the text fits, but no
section is ever dropped: an agent looks for its heading.
"""

import re
from operator import attrgetter
from typing import NamedTuple

from ttmem.profile.model import Profile
from ttmem.reports.explain.sentences import advice, live_lines
from ttmem.reports.kit import tables as kit
from ttmem.reports.kit.units import counted, megabytes, operation_label, percent, short, thousands
from ttmem.reports.profile import sentences, tables
from ttmem.reports.profile.analyses import Analyses, analyses

_MOST_BYTES = 24_000
"""UTF-8 bytes, so that names in other scripts, which cost more tokens, are covered too."""


_MIB = re.compile(r"\bMiB\b")
"""Readers of this report know its fixed heading, which says MB; one report has one unit."""


class _Detail(NamedTuple):
    """The limits of a section."""

    rows: int
    name_width: int
    message_width: int


_DETAILS = [(10, 90, 2000), (10, 60, 1200), (10, 36, 800), (6, 24, 400), (3, 12, 200)]


def render(profile: Profile) -> str:
    """The report, with the most detail that fits."""
    known = analyses(profile)
    text = ""
    for detail in _DETAILS:
        text = _MIB.sub("MB", _Report(profile, known, _Detail(*detail)).text())
        if len(text.encode("utf-8", "replace")) <= _MOST_BYTES:
            break
    return text


class _Report:
    def __init__(self, profile: Profile, known: Analyses, detail: _Detail) -> None:
        self._profile = profile
        self._known = known
        self._detail = detail

    def text(self) -> str:
        weights = sentences.weights_text(self._known)
        sections = [
            [f"# Memory Profile: {self._name(self._profile.name)}"],
            [f"> {self._summary()}"],
            ["## Configuration", *self._configuration()],
            ["## Peak Memory", *self._peaks()],
            ["## Top 10 Memory Consumers (DRAM)", *self._consumers("DRAM")],
            *([["## Top 10 Memory Consumers (L1)", *self._consumers("L1")]] if self._knows_l1 else []),
            ["## Top 10 Padding Overhead", *self._padding()],
            [f"## Model Weights ({weights.removesuffix(' MiB')} MB total)", *self._weights()],
            ["## Operation Distribution", *self._distribution()],
        ]
        if self._known.failure is not None or sentences.ended_text(self._known):
            sections.append(["## Failure", *self._failure()])
        texts = ("\n\n".join((head, "\n".join(lines))) if lines else head for head, *lines in sections)
        return "\n\n".join(texts) + "\n"

    def _summary(self) -> str:
        known = self._known
        dram, l1 = (
            f"{megabytes(peak.peak_bytes_per_bank)}/bank" if (peak := known.peaks.get(memory)) else "n/a"
            for memory in ("DRAM", "L1")
        )
        share = f" ({percent(known.peaks['DRAM'].peak_percent)})" if "DRAM" in known.peaks else ""
        return (
            f"Peak DRAM: {dram}{share} | Peak L1: {l1} | Ops: {known.distribution.compute} | "
            f"Weights: {sentences.weights_text(known)} | Padding Overhead: {sentences.padding_text(known)}"
        )

    def _configuration(self) -> list[str]:
        profile, known = self._profile, self._known
        source, ranks, counts = profile.source, sentences.ranks_of(profile), known.distribution
        damaged = f", {thousands(source.unrecognised_lines)} damaged" if source.unrecognised_lines else ""
        lines = [
            f"- Source: {source.kind}, {thousands(source.lines)} lines{damaged}",
            f"- Operations: {thousands(counts.executed)} executed, {thousands(counts.compute)} compute",
            "- Compute leaves out deallocate and get_device; indices (#) count every executed operation from 0",
            f"- Runs: {sentences.runs_text(known)}",
        ]
        if len(ranks) > 1:
            more = f" and {len(ranks) - 16} more" if len(ranks) > 16 else ""
            lines.append(f"- Ranks: {', '.join(map(str, ranks[:16]))}{more}; each memory shows its worst rank")
        lines += [f"- {self._name(key)}: {self._name(value)}" for key, value in sentences.short_facts(profile)[:8]]
        units = "MB = 2^20 bytes; per bank unless marked device (device = per bank x banks)"
        lines.append(f"- Units: {'; '.join(filter(None, (units, sentences.rounding_note(profile))))}")
        lines += [f"- Warning: {short(warning, self._detail.name_width * 2)}" for warning in source.warnings[:5]]
        if len(source.warnings) > 5:
            lines.append(f"- {len(source.warnings) - 5} more warnings (`--json` has all)")
        columns: tables.Columns = [
            (kit.text_column("Memory"), attrgetter("memory")),
            (kit.number_column("Banks", str), attrgetter("banks")),
            (kit.mib_column("MB/bank"), attrgetter("bytes_per_bank")),
            (kit.mib_column("MB device", decimals=1), lambda peak: peak.bytes_per_bank * peak.banks),
        ]
        return [*lines, "", *self._table(tables.table_of(known.peaks.values(), columns))]

    def _peaks(self) -> list[str]:
        known = self._known
        table = tables.peaks(known).only(
            "Memory", "Peak", "% of bank", "Caused by", "Location", "State", "Free", "Largest free", "End"
        )
        remarks = [f"Note: {warning}" for warning in sentences.threshold_warnings(known)]
        optional = {"Growth": sentences.growth_text(known), "Load": sentences.load_text(known)}
        remarks += [f"{label}: {text}" for label, text in optional.items() if text]
        remarks.append(short(sentences.l1_text(known), self._detail.message_width))
        remarks.append(f"Next: `{sentences.next_command(self._profile, known)}`")
        lines = self._table(table) or ["No memory state in the source."]
        return ["MB per bank.", "", *lines, "", *(f"- {remark}" for remark in remarks)]

    @property
    def _knows_l1(self) -> bool:
        live = self._known.live.get("L1")
        return live is not None and bool(live.tensors)

    def _consumers(self, memory: str) -> list[str]:
        live = self._known.live.get(memory)
        if live is None:
            return ["No DRAM state in the source."]
        table = tables.consumers(live, self._detail.rows)
        moment = self._name(sentences.moment_text(live.peak))
        remarks = [remark for remark in (table.left_out, sentences.unattributed_text(live)) if remark]
        return [
            f"Tensors alive at the peak: {megabytes(live.total_bytes_per_bank)}/bank {moment}.",
            "",
            *(self._table(table) or ["No tensor could be attributed."]),
            "",
            *(f"- {remark}" for remark in remarks),
        ]

    def _padding(self) -> list[str]:
        padding = self._known.padding
        if padding.logical_bytes is None or padding.padded_bytes is None:
            return ["Unknown: the source does not list the tensors alive at the DRAM peak."]
        logical, padded = megabytes(padding.logical_bytes), megabytes(padding.padded_bytes)
        overhead = percent(padding.overhead_percent)
        lines = self._table(tables.padding(self._known, self._detail.rows))
        return [
            f"DRAM tensors alive at the DRAM peak, device bytes: {logical} logical, {padded} padded ({overhead} more).",
            "",
            *(lines or ["No tensor alive at the peak is padded."]),
        ]

    def _weights(self) -> list[str]:
        found = self._known.weights
        if not found.count and "engine" in self._profile.facts:
            return ["A captured script does not mark its weights."]
        if not found.count:
            return ["No module dump in the source names weights (TT-XLA prints one with TTXLA_LOGGER_LEVEL=DEBUG)."]
        table = tables.weights(self._known, self._detail.rows)
        table = table.with_column("Kind", write=lambda kind: "constant" if kind == "constant" else "")
        amounts = {
            "on device": found.device_bytes,
            "host only": found.host_only_bytes,
            "place unknown": found.unknown_bytes,
        }
        places = ", ".join(f"{megabytes(amount)} {label}" for label, amount in amounts.items() if amount)
        kinds = f"{counted(found.count, 'weight')} ({counted(found.constants, 'constant')})"
        lines = [
            f"{kinds}, logical bytes on one chip, each counted once over all graphs; {places}.",
            "",
            *self._table(table),
        ]
        rest = found.entries[len(table.rows) :]
        if rest:
            rest_bytes = sum(weight.bytes for weight in rest)
            lines += ["", f"- {counted(len(rest), 'smaller weight')}: {megabytes(rest_bytes)}"]
        return lines

    def _distribution(self) -> list[str]:
        counts = self._known.distribution
        if not counts.executed:
            return ["No operation lines in the source."]
        table = tables.distribution(self._known, 2 * self._detail.rows)
        lines = self._table(table)
        rest = len(counts.by_name) - len(table.rows)
        if rest:
            left = counts.executed - sum(list(counts.by_name.values())[: len(table.rows)])
            lines += ["", f"- {counted(rest, 'other name')}: {counted(left, 'operation')}"]
        return lines

    def _failure(self) -> list[str]:
        failure, ended = self._known.failure, sentences.ended_text(self._known)
        lines = [f"- {sentences.fit_text(self._known)}; {self._message(ended)}"] if ended else []
        if failure is None:
            return [*lines, f"- Message: {self._message(sentences.end_message(self._known))}"]
        where = "outside any program (uploads of inputs and weights happen there)"
        if failure.operation_index is not None:
            where = self._name(operation_label(failure.operation_index, failure.operation_name))
            where += f" at {self._name(failure.operation_location)}" if failure.operation_location else ""
        lines += [
            f"- Class: {failure.failure_class}" + (f" ({failure.memory})" if failure.memory else ""),
            *([f"- Operation: {where}"] if failure.operation_index is not None or not ended else []),
            f"- Message: {self._message(failure.message)}",
            f"- Line: {failure.line or '-'}" + ("; the process went on after it" if failure.survived else ""),
        ]
        if failure.numbers:
            figures = ", ".join(f"{name} {value}" for name, value in failure.numbers.items())
            lines.append(f"- Numbers: {self._message(figures)}")
        if (diagnosis := self._known.diagnosis) is not None:
            lines.append(f"- Diagnosis: {self._message(diagnosis.text)}")
            alive = live_lines(diagnosis, self._detail.rows)
            lines += [f"- Alive in {failure.memory} when it failed: {self._message(text)}" for text in alive]
            lines += [f"- Remedy {n}: {self._message(text)}" for n, text in enumerate(advice(diagnosis), 1)]
        others = len(self._known.failures) - 1
        if others > 0:
            lines.append(f"- {others} other failure texts in the source (`--json` lists them)")
        return lines

    def _table(self, table: kit.Table) -> list[str]:
        return kit.markdown(table, longest=self._detail.name_width)

    def _name(self, text: str) -> str:
        return short(text, self._detail.name_width)

    def _message(self, text: str) -> str:
        return short(text, self._detail.message_width)
