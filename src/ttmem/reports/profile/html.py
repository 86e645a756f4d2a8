# SPDX-License-Identifier: Apache-2.0
"""The report as one offline page: no network, no library, small however long the run was.

Python prepares rows and numbers; the template draws them, and escapes every text that came out of a log.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ttmem._version import __version__
from ttmem.profile import Profile
from ttmem.reports.explain.wording import advice
from ttmem.reports.kit.chart import HEIGHT, WIDTH, chart
from ttmem.reports.kit.units import counted, megabytes, one_line, operation_label, thousands
from ttmem.reports.profile.answers import Answers, answers
from ttmem.reports.profile.notes import growth_text, l1_text, load_text, next_command, notes, rounding_note, runs_text
from ttmem.reports.profile.page_cards import cards
from ttmem.reports.profile.page_tables import cell_text, tables

_TEMPLATES = Path(__file__).parents[1] / "templates"


def render(profile: Profile) -> str:
    """The page."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(_context(profile, answers(profile)))


def _context(profile: Profile, known: Answers) -> dict[str, Any]:
    failing = known.failure.operation_index if known.failure else None
    charts = [
        chart(profile, known.peaks[memory], known.runs, failing) for memory in ("DRAM", "L1") if memory in known.peaks
    ]
    return {
        "version": __version__,
        "name": cell_text(profile.name),
        "subtitle": _subtitle(profile, known),
        "cards": cards(known),
        "notes": [*notes(known), *(cell_text(warning) for warning in profile.source.warnings[:20])],
        "failure": known.failure,
        "failure_place": _failure_place(known),
        "failure_message": one_line(known.failure.message)[:4000] if known.failure else "",
        "failure_figures": [(name.replace("_", " "), thousands(value)) for name, value in known.failure.numbers.items()]
        if known.failure
        else [],
        "failure_headline": one_line(known.diagnosis.headline) if known.diagnosis else "",
        "failure_advice": advice(known.diagnosis) if known.diagnosis else [],
        "charts": charts,
        "chart_width": WIDTH,
        "chart_height": HEIGHT,
        "points": [asdict(item.points) for item in charts],
        "sections": tables(profile, known),
        "facts": _facts(profile, known),
        "next_command": next_command(profile, known),
        "style": Markup((_TEMPLATES / "report.css").read_text("utf-8")),  # our own files, not a log's text
        "script": Markup((_TEMPLATES / "report.js").read_text("utf-8")),
    }


def _subtitle(profile: Profile, known: Answers) -> str:
    counts = known.distribution
    parts = [
        profile.source.kind,
        f"{counted(counts.executed, 'operation')} ({thousands(counts.compute)} compute)",
        runs_text(known),
    ]
    ranks = [timeline.rank for timeline in profile.timelines if timeline.rank >= 0]
    if len(ranks) > 1:
        parts.append(f"{counted(len(ranks), 'rank')}, each memory shows its worst")
    return " · ".join(parts)


def _failure_place(known: Answers) -> str:
    failure = known.failure
    if failure is None:
        return ""
    if failure.operation_index is None:
        return "outside any program: inputs and weights are uploaded there"
    place = f" at {cell_text(failure.operation_location)}" if failure.operation_location else ""
    return f"{operation_label(failure.operation_index, cell_text(failure.operation_name))}{place}"


def _facts(profile: Profile, known: Answers) -> list[tuple[str, str]]:
    source = profile.source
    damaged = f", {thousands(source.unrecognised_lines)} damaged" if source.unrecognised_lines else ""
    facts = [
        (
            "Source",
            f"{cell_text(source.name)} ({thousands(source.bytes)} bytes, {thousands(source.lines)} lines{damaged})",
        ),
        *((cell_text(str(key)), cell_text(str(value))) for key, value in list(profile.facts.items())[:20]),
        ("Load", load_text(known)),
        ("Growth", growth_text(known)),
        ("Fragmentation", _fragmentation(known)),
        ("Rounding", rounding_note(profile)),
        ("L1", cell_text(l1_text(known))),
    ]
    return [(label, text) for label, text in facts if text]


def _fragmentation(known: Answers) -> str:
    item = known.fragmentation.get("DRAM")
    if item is None:
        return ""
    worst_at = cell_text(operation_label(item.worst_at_index, item.worst_at_name))
    return (
        f"DRAM at the peak: {megabytes(item.at_peak_bytes_per_bank)}/bank free outside the largest block; "
        f"worst {megabytes(item.worst_bytes_per_bank)}/bank at {worst_at}"
    )
