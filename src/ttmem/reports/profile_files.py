# SPDX-License-Identifier: Apache-2.0
"""The page of a profile, its fragment for a notebook, and the files that the store keeps.

Python prepares figures and sentences; the app of ``web/`` draws them, and treats every text as text. The stored data
files hold columns with dictionaries, not one object per operation: half a million operations stay small.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec

from ttmem.analysis.failure import RunFailure
from ttmem.analysis.growth import LEAK
from ttmem.analysis.peaks import Peak
from ttmem.analysis.programs_l1 import ProgramPeak
from ttmem.base.formatting import (
    flatten_text,
    format_count,
    format_mib,
    format_mib_number,
    format_operation,
    format_percent,
    pluralize,
    shorten,
)
from ttmem.base.text_safety import encode_json
from ttmem.failures.diagnosis.diagnose import Diagnosis
from ttmem.failures.diagnosis.memory_diagram import Stretch
from ttmem.profile import profile_file
from ttmem.profile.model import MEMORIES, STATE_NAMES, Profile, Timeline
from ttmem.profile.operation_forms import Int64, OperationForms
from ttmem.profile.runs import find_runs
from ttmem.reports import profile_page_data, profile_tables, profile_text, suite
from ttmem.reports.explain import describe_saving
from ttmem.reports.kit import pages, templates
from ttmem.reports.kit.pages import LONGEST_NAME, Card
from ttmem.reports.profile_analyses import Analyses, analyze
from ttmem.reports.profile_document import build_document
from ttmem.reports.profile_tables import describe_runs
from ttmem.reports.suite_document import SuiteRun

_MOST_REMEDIES = 6
_MOST_WARNINGS = 50


def render_html(profile: Profile, *, small: bool = False, tests: SuiteRun | None = None) -> str:
    """Render the page, once per profile. ``small`` is the version for a notebook's cell.

    The page of a suite begins with its ``tests``.
    """
    known = analyze(profile)
    key = (profile.name, small, tests is not None)
    if key not in known.pages:
        plain = "" if small else profile_text.render_markdown(profile)
        if tests is not None:
            plain = f"{suite.render_terminal(tests)}\n{plain}"
        known.pages[key] = pages.render_frame(
            "profile", profile.name, build_page_blocks(profile, small=small, tests=tests), plain=plain
        )
    return known.pages[key]


def build_page_blocks(
    profile: Profile, *, small: bool = False, side: int = 0, tests: SuiteRun | None = None
) -> list[bytes]:
    """Build the data of the page; a comparison has that of both ``side`` s."""
    header = {
        **_build_page_header(profile, analyze(profile)),
        "small": small,
        "side": side,
        "suite": _describe_suite(profile, tests),
    }
    return profile_page_data.build_blocks(profile, pages.build_header(header))


def _describe_suite(profile: Profile, tests: SuiteRun | None) -> dict[str, Any] | None:
    """Return the tests, and the position of each: process, first operation, one past the last."""
    if tests is None:
        return None
    by_length = sorted(find_runs(profile), key=lambda run: run.end_index - run.first_index)
    places = {run.number: (run.timeline, run.first_index, run.end_index) for run in by_length}
    return {**tests.to_json(), "places": places}


def _build_page_header(profile: Profile, known: Analyses) -> dict[str, Any]:
    growth = profile_tables.describe_growth(known)
    return {
        "part": "profile",
        "title": _shorten_name(profile.name),
        "subtitle": _build_subtitle(profile, known),
        "cards": [msgspec.to_builtins(card) for card in _build_cards(known)],
        "notes": profile_tables.list_warnings(known),
        "warnings": list(map(_shorten_name, profile.source.warnings[:_MOST_WARNINGS])),
        "facts": _list_page_facts(profile, known),
        "next_command": profile_tables.suggest_command(profile, known),
        "fragmentation": [
            _describe_fragmentation(known, memory) for memory in ("DRAM", "L1") if memory in known.fragmentation
        ],
        "remarks": {"runs": f"A run is one top-level execution. {growth[:1].upper()}{growth[1:]}"},
        "failure": _describe_failure(profile, known),
        "ended": _shorten_name(profile_tables.describe_end(known)),
        "caught": bool(known.memory_failures),
        "fullest": next(iter(known.memories_by_share), None),
        "document": msgspec.to_builtins(build_document(profile)),
        "peak_states": {memory: [peak.timeline, peak.state] for memory, peak in known.peaks.items()},
    }


def _shorten_name(text: str) -> str:
    return shorten(text, LONGEST_NAME)


def _build_subtitle(profile: Profile, known: Analyses) -> str:
    counts = known.distribution
    parts = [
        profile.source.kind,
        f"{pluralize(counts.executed, 'operation')} ({format_count(counts.compute)} compute)",
        profile_tables.describe_runs(known),
    ]
    ranks = profile_tables.list_ranks(profile)
    if len(ranks) > 1:
        parts.append(f"{pluralize(len(ranks), 'rank')}, each memory shows its worst")
    return " · ".join(parts)


def _describe_failure(profile: Profile, known: Analyses) -> dict[str, Any] | None:
    failure, diagnosis = known.failure, known.diagnosis
    if failure is None and known.end is not None:  # a signal or a time limit, of which the source prints no text
        failure = RunFailure("none", None, profile_tables.format_end_error(known), "", line=0)
    if failure is None:
        return None
    place = "" if profile_tables.describe_end(known) else "outside any program: inputs and weights are uploaded there"
    if failure.operation_index is not None:
        at = f" at {_shorten_name(failure.operation_location)}" if failure.operation_location else ""
        place = f"{format_operation(failure.operation_index, _shorten_name(failure.operation_name))}{at}"
    figures: list[tuple[str, str, str]] = [
        (name.replace("_", " "), format_count(value), "") for name, value in failure.numbers.items()
    ]
    if diagnosis is not None and diagnosis.arithmetic:
        figures = [(item.label, format_count(item.value), item.note) for item in diagnosis.arithmetic]
    return {
        "survived": failure.survived,
        "fits": known.fits,
        "failure_class": failure.failure_class,
        "memory": failure.memory,
        "line": failure.line,
        "place": place,
        "operation": failure.operation_index,
        "process": next((n for n, one in enumerate(profile.timelines) if _is_of(one, failure)), 0),
        "message": flatten_text(failure.message)[:4000],
        "arithmetic": figures,
        "headline": flatten_text(diagnosis.headline) if diagnosis else "",
        "findings": [flatten_text(finding.text) for finding in diagnosis.findings] if diagnosis else [],
        "remedies": [
            {"do": flatten_text(remedy.do), "why": flatten_text(remedy.why), "saving": describe_saving(remedy)}
            for remedy in (diagnosis.remedies[:_MOST_REMEDIES] if diagnosis else ())
        ],
        "picture": _describe_picture(diagnosis),
        "request_bytes_per_bank": failure.numbers.get("bytes_per_bank"),
    }


def _is_of(timeline: Timeline, failure: RunFailure) -> bool:
    return timeline.rank == failure.rank and timeline.first_index <= (failure.operation_index or 0) < timeline.end_index


def _describe_picture(diagnosis: Diagnosis | None) -> dict[str, Any] | None:
    if diagnosis is None or diagnosis.picture is None:
        return None
    drawn = diagnosis.picture
    return {
        "title": drawn.title,
        "start": drawn.start,
        "end": drawn.end,
        "schematic": drawn.is_schematic,
        "stretches": [_describe_stretch(stretch) for stretch in drawn.stretches if stretch.bytes > 0],
        "request": drawn.request and _describe_stretch(drawn.request),
    }


def _describe_stretch(stretch: Stretch) -> dict[str, Any]:
    return {name: getattr(stretch, name) for name in ("kind", "label", "start", "end")}


def _build_cards(known: Analyses) -> Iterator[Card]:
    """Yield the headline figures."""
    for memory, peak in known.peaks.items():
        if memory not in ("DRAM", "L1") and not peak.peak_bytes_per_bank:
            continue
        share, figure = peak.peak_percent, format_mib_number(peak.peak_bytes_per_bank)
        detail = f"{format_percent(share)} of {format_mib_number(peak.bytes_per_bank)} MiB, {peak.banks} banks"
        yield Card(f"Peak {memory}", figure, "MiB / bank", detail, share, profile_tables.find_level(share))
    padding, found = known.padding, known.weights
    programs, l1 = known.programs_peak, known.peaks.get("L1")
    if programs is not None and l1 is not None:
        yield _build_programs_card(programs, l1)
    yield Card(
        "Padding",
        profile_tables.format_padding(known),
        "overhead" if padding.wasted_bytes is not None else "",
        f"{format_mib(padding.wasted_bytes)} of the tensors alive at the DRAM peak"
        if padding.wasted_bytes is not None
        else "the source does not list the tensors alive at the DRAM peak",
        level="warn" if (padding.overhead_percent or 0.0) > profile_tables.PADDING_HIGH_PERCENT else "ok",
    )
    if found.count:
        places = [
            f"{format_mib(amount)} {label}"
            for amount, label in ((found.device_bytes, "on device"), (found.host_only_bytes, "only on the host"))
            if amount
        ]
        about = ", ".join([f"{pluralize(found.count, 'weight')}, logical bytes on one chip", *places])
        figure, unit = format_mib(found.bytes or 0, decimals=1).rsplit(" ", 1)
        yield Card("Weights", figure, unit, about)
    growth = known.growth.get("DRAM")
    if growth is not None and growth.compared_runs:
        slope = format_mib(growth.bytes_per_bank_per_run, decimals=4, signed=True)
        yield Card(
            "Growth",
            growth.verdict,
            detail=f"DRAM {slope}/bank per run over {pluralize(growth.compared_runs, 'run')}",
            level="alarm" if growth.verdict == LEAK else "ok",
        )


def _build_programs_card(programs: ProgramPeak, l1: Peak) -> Card:
    total = programs.total_bytes_per_core
    share = 100 * total / l1.bytes_per_bank if l1.bytes_per_bank else None
    parts = ", ".join(
        f"{name.replace('_', ' ')} {format_mib_number(amount)}" for name, amount in programs.parts.items() if amount
    )
    detail = f"{_shorten_name(format_operation(programs.index, programs.name))}: {parts}"
    return Card(
        "L1 with programs", format_mib_number(total), "MiB / core", detail, share, profile_tables.find_level(share)
    )


def _list_page_facts(profile: Profile, known: Analyses) -> list[tuple[str, str]]:
    source = profile.source
    damaged = f", {format_count(source.unrecognised_lines)} damaged" if source.unrecognised_lines else ""
    size = f"{format_count(source.bytes)} bytes, {format_count(source.lines)} lines{damaged}"
    facts = [
        ("Source", f"{_shorten_name(source.name)} ({size})"),
        *((_shorten_name(key), _shorten_name(value)) for key, value in profile_tables.list_short_facts(profile)[:20]),
        ("Load", profile_tables.describe_load(known)),
        ("Growth", profile_tables.describe_growth(known)),
        ("Rounding", profile_tables.describe_rounding(profile)),
        ("L1", _shorten_name(profile_tables.describe_l1(known))),
    ]
    return [(label, text) for label, text in facts if text]


def _describe_fragmentation(known: Analyses, memory: str) -> str:
    item = known.fragmentation[memory]
    worst_at = _shorten_name(format_operation(item.worst_at.index, item.worst_at.name))
    return (
        f"{memory} at its peak: {format_mib(item.at_peak_bytes_per_bank)}/bank free outside the largest block; "
        f"worst {format_mib(item.worst_bytes_per_bank)}/bank at {worst_at}"
    )


def render_notebook(profile: Profile) -> str:
    """Render a fragment that needs no style sheet; the page in it is isolated from the notebook."""
    known = analyze(profile)
    failure = known.failure
    place = ""
    if failure and failure.operation_index is not None:
        place = f" at {format_operation(failure.operation_index, failure.operation_name)}"
    return templates.render_template(
        "notebook.html.j2",
        name=shorten(profile.name, LONGEST_NAME),
        about=f"{profile.source.kind}, {pluralize(known.distribution.executed, 'operation')}, {describe_runs(known)}",
        peaks=profile_tables.build_peaks(known).select("Memory", "Peak", "% of bank", "Bank", "Banks", "Caused by"),
        longest_name=LONGEST_NAME,
        failure=f"{failure.failure_class}{place}: {flatten_text(failure.message)[:400]}" if failure else "",
        page=render_html(profile, small=True) if known.peaks else "",
    )


_VIEW_COLUMNS = ("banks", *(f"{figure}_bytes_per_bank" for figure in ("total", "allocated", "free", "largest_free")))
"""The columns of ``Profile.views``, in order."""
_TYPE_FACTS = ("shape", "dtype", "layout", "memory", "placement", "logical_bytes", "padded_bytes")
_PROGRAM_FACTS = ("name", "parent", "run", "caller", "first_operation", "end_operation", "finished", "line")


def build_files(profile: Profile, tests: SuiteRun | None = None) -> Iterator[tuple[str, bytes]]:
    """Yield (file name after ``<name>_``, content); ``tests`` are those of a suite."""
    yield "memory.json", encode_json(build_memory_document(profile))
    yield "operations.json", encode_json(build_operations_document(profile))
    yield "inputs_registry.json", encode_json(build_inputs_document(profile))
    if tests is not None:
        yield "tests.json", encode_json(tests)
    yield "report.html", render_html(profile, tests=tests).encode("utf-8", "replace")
    yield "profile.ttmem", profile_file.encode(profile)


def list_facts(profile: Profile) -> dict[str, object]:
    """Return the facts that a listing of the store shows."""
    known = analyze(profile)
    peaks = [(memory.lower(), known.peaks.get(memory)) for memory in ("DRAM", "L1")]
    return {
        "kind": profile.source.kind,
        "operations_executed": sum(len(timeline) for timeline in profile.timelines),
        **{f"peak_{memory}_bytes_per_bank": peak and peak.peak_bytes_per_bank for memory, peak in peaks},
        **{f"peak_{memory}_percent": peak and peak.peak_percent for memory, peak in peaks},
        "status": profile_tables.describe_status(known),
    }


def build_memory_document(profile: Profile) -> dict[str, Any]:
    """Build the columns of memory states per process; each memory's column is an index into ``views`` (-1: none)."""
    return {
        "schema": "ttmem.memory/1",
        "name": profile.name,
        "states": list(STATE_NAMES),
        "state_error_bytes": profile.source.state_error_bytes,
        "views": {name: profile.views[:, column].tolist() for column, name in enumerate(_VIEW_COLUMNS)},
        "processes": [
            {
                "rank": timeline.rank,
                "state": timeline.state_kind.tolist(),
                "operation": timeline.state_operation.tolist(),
                "caused_by": timeline.state_cause.tolist(),
                "line": timeline.state_line.tolist(),
                **{memory: timeline.state_view[:, column].tolist() for column, memory in enumerate(MEMORIES)},
            }
            for timeline in profile.timelines
        ],
    }


def build_operations_document(profile: Profile) -> dict[str, Any]:
    """Build the columns of operations per process; ``form`` is an index into the distinct operations."""
    return {
        "schema": "ttmem.operations/1",
        "name": profile.name,
        "tensor_types": [_read_attributes(item, _TYPE_FACTS) for item in profile.tensor_types],
        "forms": _describe_forms(profile.forms),
        "processes": [
            {
                "rank": timeline.rank,
                "first_index": timeline.first_index,
                "form": timeline.form.tolist(),
                "line": timeline.line.tolist(),
                "program": timeline.program.tolist(),
                "retained": sorted(timeline.retained),
                "programs": [_read_attributes(program, _PROGRAM_FACTS) for program in timeline.programs],
            }
            for timeline in profile.timelines
        ],
    }


def build_inputs_document(profile: Profile) -> dict[str, Any]:
    """Build the arguments of all graphs, as the module dumps name them."""
    arguments: list[dict[str, Any]] = [msgspec.to_builtins(argument) for argument in profile.arguments]
    for argument in arguments:
        if argument["device_bytes"] is None:  # a module dump has types alone
            del argument["device_bytes"]
    return {"schema": "ttmem.inputs/1", "name": profile.name, "arguments": arguments}


def _read_attributes(item: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(item, name) for name in names}


def _describe_forms(forms: OperationForms) -> dict[str, Any]:
    """Describe distinct operations: names and types as indices, SSA names as ``results=operands``."""
    locations: dict[str, int] = {}
    location = [
        locations.setdefault(text, len(locations)) for text in _split_pool(forms.location_pool, forms.location_end)
    ]
    return {
        "names": list(forms.names),
        "name": forms.name.tolist(),
        "locations": list(locations),
        "location": location,
        "values": _split_pool(forms.ssa_pool, forms.ssa_end),
        "signatures": [{"operands": operands, "results": results} for operands, results in forms.signatures],
        "signature": forms.signature.tolist(),
    }


def _split_pool(pool: bytes, ends: Int64) -> list[str]:
    """Split the texts of a pool; decoded at once where each character is one byte."""
    bounds = [0, *ends.tolist()]
    if pool.isascii():
        text = pool.decode("ascii")
        return [text[start:end] for start, end in pairwise(bounds)]
    return [pool[start:end].decode("utf-8", "replace") for start, end in pairwise(bounds)]
