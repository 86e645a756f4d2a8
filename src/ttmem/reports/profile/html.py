# SPDX-License-Identifier: Apache-2.0
"""The report as one offline page: no network, no library, small however long the run was.

Python prepares rows and numbers; the template draws them, and escapes every text that came out of a log.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ttmem.analysis.consumers import LiveSet
from ttmem.analysis.failure import RunFailure
from ttmem.analysis.growth import LEAK
from ttmem.analysis.peaks import Peak
from ttmem.analysis.programs_l1 import ProgramPeak
from ttmem.profile import Profile
from ttmem.reports.explain.sentences import advice
from ttmem.reports.kit.pages import LONGEST_NAME, Card, Section, page
from ttmem.reports.kit.units import counted, megabytes, mib, one_line, operation_label, percent, short, thousands
from ttmem.reports.profile import sentences, tables
from ttmem.reports.profile.analyses import Analyses, analyses
from ttmem.reports.profile.chart import HEIGHT, WIDTH, memory_chart

_MOST_REPLAYED_AGAIN = 100_000


def render(profile: Profile) -> str:
    """The page; rendered once for a profile, however often it is written."""
    known = analyses(profile)
    if profile.name not in known.pages:
        known.pages[profile.name] = _page(profile, known)
    return known.pages[profile.name]


def _page(profile: Profile, known: Analyses) -> str:
    failing = known.failure.operation_index if known.failure else None
    charts = [
        memory_chart(profile, known.peaks[memory], known.runs, failing)
        for memory in ("DRAM", "L1")
        if memory in known.peaks
    ]
    return page(
        template="profile.html.j2",
        title=_name(profile.name),
        subtitle=_subtitle(profile, known),
        cards=list(_cards(known)),
        notes=[*sentences.threshold_warnings(known), *map(_name, profile.source.warnings[:20])],
        sections=_sections(profile, known),
        failure=_failure(known.failure, known) if known.failure else None,
        charts=charts,
        chart_width=WIDTH,
        chart_height=HEIGHT,
        points=[chart.points for chart in charts],
        facts=_facts(profile, known),
        next_command=sentences.next_command(profile, known),
    )


def _name(text: str) -> str:
    return short(text, LONGEST_NAME)


def _subtitle(profile: Profile, known: Analyses) -> str:
    counts = known.distribution
    parts = [
        profile.source.kind,
        f"{counted(counts.executed, 'operation')} ({thousands(counts.compute)} compute)",
        sentences.runs_text(known),
    ]
    ranks = sentences.ranks_of(profile)
    if len(ranks) > 1:
        parts.append(f"{counted(len(ranks), 'rank')}, each memory shows its worst")
    return " · ".join(parts)


def _failure(failure: RunFailure, known: Analyses) -> dict[str, Any]:
    place = "outside any program: inputs and weights are uploaded there"
    if failure.operation_index is not None:
        at = f" at {_name(failure.operation_location)}" if failure.operation_location else ""
        place = f"{operation_label(failure.operation_index, _name(failure.operation_name))}{at}"
    return {
        "survived": failure.survived,
        "failure_class": failure.failure_class,
        "memory": failure.memory,
        "line": failure.line,
        "place": place,
        "message": one_line(failure.message)[:4000],
        "figures": [(name.replace("_", " "), thousands(value)) for name, value in failure.numbers.items()],
        "headline": one_line(known.diagnosis.headline) if known.diagnosis else "",
        "advice": advice(known.diagnosis) if known.diagnosis else [],
    }


def _cards(known: Analyses) -> Iterator[Card]:
    """What a glance must catch."""
    for memory in ("DRAM", "L1"):
        if memory in known.peaks:
            peak = known.peaks[memory]
            share, figure = peak.peak_percent, mib(peak.peak_bytes_per_bank)
            detail = f"{percent(share)} of {mib(peak.bytes_per_bank)} MB, {peak.banks} banks"
            yield Card(f"Peak {memory}", figure, "MB / bank", detail, share, sentences.level(share))
    padding, found = known.padding, known.weights
    programs, l1 = known.programs_peak, known.peaks.get("L1")
    if programs is not None and l1 is not None:
        yield _programs_card(programs, l1)
    yield Card(
        "Padding",
        sentences.padding_text(known),
        "overhead" if padding.wasted_bytes is not None else "",
        f"{megabytes(padding.wasted_bytes)} of the tensors alive at the DRAM peak"
        if padding.wasted_bytes is not None
        else "the tensors alive at the DRAM peak are not told",
        level="warn" if (padding.overhead_percent or 0.0) > sentences.PADDING_HIGH_PERCENT else "ok",
    )
    if found.count:
        places = [
            f"{megabytes(amount)} {label}"
            for amount, label in ((found.device_bytes, "on device"), (found.host_only_bytes, "only on the host"))
            if amount
        ]
        about = ", ".join([f"{counted(found.count, 'weight')}, logical bytes on one chip", *places])
        figure, unit = megabytes(found.bytes or 0, decimals=1).rsplit(" ", 1)
        yield Card("Weights", figure, unit, about)
    growth = known.growth.get("DRAM")
    if growth is not None and growth.compared_runs:
        slope = megabytes(growth.bytes_per_bank_per_run, decimals=4, signed=True)
        yield Card(
            "Growth",
            growth.verdict,
            detail=f"DRAM {slope}/bank per run over {counted(growth.compared_runs, 'run')}",
            level="alarm" if growth.verdict == LEAK else "ok",
        )


def _programs_card(programs: ProgramPeak, l1: Peak) -> Card:
    total = programs.total_bytes_per_core
    share = 100 * total / l1.bytes_per_bank if l1.bytes_per_bank else None
    parts = ", ".join(f"{name.replace('_', ' ')} {mib(amount)}" for name, amount in programs.parts.items() if amount)
    detail = f"{_name(operation_label(programs.index, programs.name))}: {parts}"
    return Card("L1 with programs", mib(total), "MB / core", detail, share, sentences.level(share))


def _sections(profile: Profile, known: Analyses) -> list[Section]:
    """All tables that have something to show, each with the sentence that says what it is."""
    padding, counts, growth = known.padding, known.distribution, sentences.growth_text(known)
    about = {
        "peaks": "MB per bank. A state is printed before its operation, so the operation before it caused it.",
        "operations": "Distinct operations that added most to DRAM in one execution: state after minus state before, "
        "MB per bank.",
        "padding": f"{megabytes(padding.logical_bytes or 0)} of elements take "
        f"{megabytes(padding.padded_bytes or 0)} on the "
        "device because shapes are rounded up to tiles of 32 x 32 (or to shards).",
        "weights": "Logical bytes on one chip, each weight once over all graphs. Host: it only feeds const-eval.",
        "distribution": f"{thousands(counts.executed)} executed, {thousands(counts.compute)} of them compute.",
        "runs": f"A run is one top-level execution. {growth[:1].upper()}{growth[1:]}",
        "ranks": "Each process's own figures, MB per bank.",
    }
    found = [
        ("peaks", "Peaks", tables.peaks(known)),
        ("operations", "Operations that fill DRAM", tables.operations(profile, 200)),
        ("padding", "Padding at the DRAM peak", tables.padding(known, 100)),
        ("weights", "Weights", tables.weights(known, 500)),
        ("distribution", "Operation distribution", tables.distribution(known, 200)),
        ("runs", "Runs", tables.runs(known, 100)),
        ("ranks", "Ranks", tables.ranks(profile)),
    ]
    sections = [Section(key, title, [table], about[key]) for key, title, table in found]
    sections[1:1] = [_consumers(live) for live in (known.dram, _l1_live_set(known)) if live is not None]
    return [section for section in sections if section.tables[0].rows]


def _consumers(live: LiveSet) -> Section:
    table = tables.consumers(live, 300)
    remarks = [remark for remark in (table.left_out, sentences.unattributed_text(live)) if remark]
    return Section(
        "consumers" if live.memory == "DRAM" else f"consumers-{live.memory.lower()}",
        f"Alive at the {live.memory} peak",
        [replace(table, left_out=". ".join(remarks))],
        f"The tensors that make up {megabytes(live.total_bytes_per_bank)}/bank, largest first.",
    )


def _l1_live_set(known: Analyses) -> LiveSet | None:
    """The tensors in L1 at its peak; a run of very many operations is not replayed a second time for them."""
    peak = known.peaks.get("L1")
    if peak is None or not peak.peak_bytes_per_bank:
        return None
    is_long = any(
        run.end_index - run.first_index > _MOST_REPLAYED_AGAIN
        for run in known.runs
        if run.timeline == peak.timeline and run.first_state <= peak.state < run.end_state
    )
    return None if is_long else known.l1


def _facts(profile: Profile, known: Analyses) -> list[tuple[str, str]]:
    source = profile.source
    damaged = f", {thousands(source.unrecognised_lines)} damaged" if source.unrecognised_lines else ""
    size = f"{thousands(source.bytes)} bytes, {thousands(source.lines)} lines{damaged}"
    facts = [
        ("Source", f"{_name(source.name)} ({size})"),
        *((_name(str(key)), _name(str(value))) for key, value in list(profile.facts.items())[:20]),
        ("Load", sentences.load_text(known)),
        ("Growth", sentences.growth_text(known)),
        ("Fragmentation", _fragmentation(known)),
        ("Rounding", sentences.rounding_note(profile)),
        ("L1", _name(sentences.l1_text(known))),
    ]
    return [(label, text) for label, text in facts if text]


def _fragmentation(known: Analyses) -> str:
    if (item := known.fragmentation.get("DRAM")) is None:
        return ""
    worst_at = _name(operation_label(item.worst_at.index, item.worst_at.name))
    return (
        f"DRAM at the peak: {megabytes(item.at_peak_bytes_per_bank)}/bank free outside the largest block; "
        f"worst {megabytes(item.worst_bytes_per_bank)}/bank at {worst_at}"
    )
