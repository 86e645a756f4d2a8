# SPDX-License-Identifier: Apache-2.0
"""The headline figures of the page."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.analysis.growth import LEAK
from ttmem.analysis.peaks import Peak
from ttmem.analysis.programs_l1 import ProgramPeak
from ttmem.reports.kit.units import counted, megabytes, mib, operation_label, percent
from ttmem.reports.profile.answers import Answers
from ttmem.reports.profile.notes import PADDING_HIGH_PERCENT
from ttmem.reports.profile.page_tables import cell_text

_WARN_PERCENT, _ALARM_PERCENT = 80.0, 90.0


@dataclass(frozen=True, slots=True)
class Card:
    """One headline figure."""

    title: str
    figure: str
    unit: str
    detail: str
    bar_percent: float | None = None
    level: str = "ok"


def cards(known: Answers) -> list[Card]:
    """What a glance must catch."""
    shown = [_memory_card(known.peaks[memory]) for memory in ("DRAM", "L1") if memory in known.peaks]
    padding, found = known.padding, known.weights
    programs, l1 = known.programs_peak, known.peaks.get("L1")
    if programs is not None and l1 is not None:
        shown.append(_programs_card(programs, l1))
    shown.append(
        Card(
            "Padding",
            percent(padding.overhead_percent),
            "overhead",
            f"{megabytes(padding.padded_bytes - padding.logical_bytes)} of the tensors alive at the DRAM peak",
            level="warn" if padding.overhead_percent > PADDING_HIGH_PERCENT else "ok",
        )
    )
    if found.count:
        places = [
            f"{megabytes(found.bytes_in(where))} {label}"
            for where, label in (("device", "on device"), ("host", "only on the host"))
            if found.bytes_in(where)
        ]
        figure, unit = megabytes(found.bytes, decimals=1).rsplit(" ", 1)
        detail = ", ".join([f"{counted(found.count, 'weight')}, logical bytes on one chip", *places])
        shown.append(Card("Weights", figure, unit, detail))
    growth = known.growth.get("DRAM")
    if growth is not None and growth.compared_runs:
        shown.append(
            Card(
                "Growth",
                growth.verdict,
                "",
                f"DRAM {megabytes(growth.bytes_per_bank_per_run, decimals=4, signed=True)}/bank per run "
                f"over {counted(growth.compared_runs, 'run')}",
                level="alarm" if growth.verdict == LEAK else "ok",
            )
        )
    return shown


def _memory_card(peak: Peak) -> Card:
    share = peak.peak_percent
    return Card(
        f"Peak {peak.memory}",
        mib(peak.peak_bytes_per_bank),
        "MB / bank",
        f"{percent(share)} of {mib(peak.bytes_per_bank)} MB, {peak.banks} banks",
        bar_percent=share,
        level=_level(share),
    )


def _programs_card(programs: ProgramPeak, l1: Peak) -> Card:
    total = programs.total_bytes_per_core
    share = 100 * total / l1.bytes_per_bank if l1.bytes_per_bank else None
    parts = ", ".join(f"{name.replace('_', ' ')} {mib(amount)}" for name, amount in programs.parts.items() if amount)
    place = cell_text(operation_label(programs.index, programs.name))
    return Card(
        "L1 with programs", mib(total), "MB / core", f"{place}: {parts}", bar_percent=share, level=_level(share)
    )


def _level(share: float | None) -> str:
    if share is None or share <= _WARN_PERCENT:
        return "ok"
    return "alarm" if share > _ALARM_PERCENT else "warn"
