# SPDX-License-Identifier: Apache-2.0
"""The report as one offline page: no network, small however long the run was.

Python prepares figures and sentences; the app of ``web/`` draws them, and takes every text for text.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from ttmem.analysis.failure import RunFailure
from ttmem.analysis.growth import LEAK
from ttmem.analysis.peaks import Peak
from ttmem.analysis.programs_l1 import ProgramPeak
from ttmem.failures import Diagnosis, Stretch
from ttmem.profile.model import Profile, Timeline
from ttmem.profile.runs import runs
from ttmem.reports.explain.sentences import saving_text
from ttmem.reports.kit import page_bundle
from ttmem.reports.kit.pages import LONGEST_NAME, Card
from ttmem.reports.kit.units import counted, megabytes, mib, one_line, operation_label, percent, short, thousands
from ttmem.reports.profile import markdown, page_data, sentences
from ttmem.reports.profile.analyses import Analyses, analyses
from ttmem.reports.profile.document import document
from ttmem.reports.test import terminal
from ttmem.reports.test.document import SuiteRun

_MOST_REMEDIES = 6
_MOST_WARNINGS = 50


def render(profile: Profile, *, small: bool = False, tests: SuiteRun | None = None) -> str:
    """The page; rendered once for a profile, however often it is written. ``small`` is what a notebook's cell shows.

    The page of a suite begins with its ``tests``.
    """
    known = analyses(profile)
    key = (profile.name, small, tests is not None)
    if key not in known.pages:
        plain = "" if small else markdown.render(profile)
        if tests is not None:
            plain = f"{terminal.render(tests)}\n{plain}"
        known.pages[key] = page_bundle.frame(
            "profile", profile.name, blocks(profile, small=small, tests=tests), plain=plain
        )
    return known.pages[key]


def blocks(profile: Profile, *, small: bool = False, side: int = 0, tests: SuiteRun | None = None) -> list[bytes]:
    """The data of the page; a page that compares has those of both ``side`` s."""
    header = {**_header(profile, analyses(profile)), "small": small, "side": side, "suite": _suite(profile, tests)}
    return page_data.blocks(profile, page_bundle.header(header))


def _suite(profile: Profile, tests: SuiteRun | None) -> dict[str, Any] | None:
    """The tests, and the place of each: process, first operation, one past the last."""
    if tests is None:
        return None
    by_length = sorted(runs(profile), key=lambda run: run.end_index - run.first_index)
    places = {run.number: (run.timeline, run.first_index, run.end_index) for run in by_length}
    return {**tests.to_json(), "places": places}


def _header(profile: Profile, known: Analyses) -> dict[str, Any]:
    growth = sentences.growth_text(known)
    return {
        "part": "profile",
        "title": _name(profile.name),
        "subtitle": _subtitle(profile, known),
        "cards": [msgspec.to_builtins(card) for card in _cards(known)],
        "notes": sentences.threshold_warnings(known),
        "warnings": list(map(_name, profile.source.warnings[:_MOST_WARNINGS])),
        "facts": _facts(profile, known),
        "next_command": sentences.next_command(profile, known),
        "fragmentation": [_fragmentation(known, memory) for memory in ("DRAM", "L1") if memory in known.fragmentation],
        "remarks": {"runs": f"A run is one top-level execution. {growth[:1].upper()}{growth[1:]}"},
        "failure": _failure(profile, known),
        "ended": _name(sentences.ended_text(known)),
        "caught": bool(known.memory_failures),
        "fullest": next(iter(known.memories_by_share), None),
        "document": msgspec.to_builtins(document(profile)),
        "peak_states": {memory: [peak.timeline, peak.state] for memory, peak in known.peaks.items()},
    }


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


def _failure(profile: Profile, known: Analyses) -> dict[str, Any] | None:
    failure, diagnosis = known.failure, known.diagnosis
    if failure is None and known.end is not None:  # a signal or a time limit, of which the source prints no text
        failure = RunFailure("none", None, sentences.end_message(known), "", line=0)
    if failure is None:
        return None
    place = "" if sentences.ended_text(known) else "outside any program: inputs and weights are uploaded there"
    if failure.operation_index is not None:
        at = f" at {_name(failure.operation_location)}" if failure.operation_location else ""
        place = f"{operation_label(failure.operation_index, _name(failure.operation_name))}{at}"
    figures: list[tuple[str, str, str]] = [
        (name.replace("_", " "), thousands(value), "") for name, value in failure.numbers.items()
    ]
    if diagnosis is not None and diagnosis.arithmetic:
        figures = [(item.label, thousands(item.value), item.note) for item in diagnosis.arithmetic]
    return {
        "survived": failure.survived,
        "fits": known.fits,
        "failure_class": failure.failure_class,
        "memory": failure.memory,
        "line": failure.line,
        "place": place,
        "operation": failure.operation_index,
        "process": next((n for n, one in enumerate(profile.timelines) if _is_of(one, failure)), 0),
        "message": one_line(failure.message)[:4000],
        "arithmetic": figures,
        "headline": one_line(diagnosis.headline) if diagnosis else "",
        "findings": [one_line(finding.text) for finding in diagnosis.findings] if diagnosis else [],
        "remedies": [
            {"do": one_line(remedy.do), "why": one_line(remedy.why), "saving": saving_text(remedy)}
            for remedy in (diagnosis.remedies[:_MOST_REMEDIES] if diagnosis else ())
        ],
        "picture": _picture(diagnosis),
        "request_bytes_per_bank": failure.numbers.get("bytes_per_bank"),
    }


def _is_of(timeline: Timeline, failure: RunFailure) -> bool:
    return timeline.rank == failure.rank and timeline.first_index <= (failure.operation_index or 0) < timeline.end_index


def _picture(diagnosis: Diagnosis | None) -> dict[str, Any] | None:
    if diagnosis is None or diagnosis.picture is None:
        return None
    drawn = diagnosis.picture
    return {
        "title": drawn.title,
        "start": drawn.start,
        "end": drawn.end,
        "schematic": drawn.is_schematic,
        "stretches": [_stretch(stretch) for stretch in drawn.stretches if stretch.bytes > 0],
        "request": drawn.request and _stretch(drawn.request),
    }


def _stretch(stretch: Stretch) -> dict[str, Any]:
    return {name: getattr(stretch, name) for name in ("kind", "label", "start", "end")}


def _cards(known: Analyses) -> Iterator[Card]:
    """The figures for a first glance."""
    for memory, peak in known.peaks.items():
        if memory not in ("DRAM", "L1") and not peak.peak_bytes_per_bank:
            continue
        share, figure = peak.peak_percent, mib(peak.peak_bytes_per_bank)
        detail = f"{percent(share)} of {mib(peak.bytes_per_bank)} MiB, {peak.banks} banks"
        yield Card(f"Peak {memory}", figure, "MiB / bank", detail, share, sentences.level(share))
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
        else "the source does not list the tensors alive at the DRAM peak",
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
    return Card("L1 with programs", mib(total), "MiB / core", detail, share, sentences.level(share))


def _facts(profile: Profile, known: Analyses) -> list[tuple[str, str]]:
    source = profile.source
    damaged = f", {thousands(source.unrecognised_lines)} damaged" if source.unrecognised_lines else ""
    size = f"{thousands(source.bytes)} bytes, {thousands(source.lines)} lines{damaged}"
    facts = [
        ("Source", f"{_name(source.name)} ({size})"),
        *((_name(key), _name(value)) for key, value in sentences.short_facts(profile)[:20]),
        ("Load", sentences.load_text(known)),
        ("Growth", sentences.growth_text(known)),
        ("Rounding", sentences.rounding_note(profile)),
        ("L1", _name(sentences.l1_text(known))),
    ]
    return [(label, text) for label, text in facts if text]


def _fragmentation(known: Analyses, memory: str) -> str:
    item = known.fragmentation[memory]
    worst_at = _name(operation_label(item.worst_at.index, item.worst_at.name))
    return (
        f"{memory} at its peak: {megabytes(item.at_peak_bytes_per_bank)}/bank free outside the largest block; "
        f"worst {megabytes(item.worst_bytes_per_bank)}/bank at {worst_at}"
    )
