# SPDX-License-Identifier: Apache-2.0
"""The tables and sentences that all formats of a profile share."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Literal

from ttmem.analysis.architecture import guess_architecture
from ttmem.analysis.consumers import LiveSet
from ttmem.analysis.failure import RunFailure
from ttmem.analysis.findings import Finding
from ttmem.analysis.growth import LEAK
from ttmem.analysis.lifetimes import TensorLife
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
from ttmem.reports.kit.tables import Column, Table, mib_column, name_column, number_column, percent_column, text_column
from ttmem.reports.profile_analyses import Analyses

TARGETS_PERCENT = {"DRAM": (80, 90), "L1": (90, 95)}
PADDING_HIGH_PERCENT = 50.0
"""The usual targets; above the second figure it is a risk."""
_RISKS = {
    "DRAM": "risk of OOM; reduce batch or model size, or shard the model",
    "L1": "operations may fall back to DRAM or clash with circular buffers",
}
_ABOVE_TARGETS = {"DRAM": ": little headroom", "L1": " (circular buffers come on top, they are not in this figure)"}

Level = Literal["ok", "warn", "alarm"]

UNKNOWN = "unknown"
_LONGEST_COMMAND = 200
_LONGEST_NAME = 80


def list_warnings(known: Analyses) -> list[str]:
    """List all warnings, most urgent first; empty when the run has room."""
    peaks = [_warn_of_peak(known, memory) for memory in TARGETS_PERCENT]
    return [
        note
        for note in (*peaks, _warn_of_growth(known), _warn_of_fragmentation(known), _warn_of_padding(known))
        if note
    ]


def find_level(share: float | None) -> Level:
    """Return the level for colours and cards."""
    target, risk = TARGETS_PERCENT["DRAM"]
    if share is None or share <= target:
        return "ok"
    return "alarm" if share > risk else "warn"


def list_ranks(profile: Profile) -> list[int]:
    """The MPI ranks of the processes; a process without one is not listed."""
    return [timeline.rank for timeline in profile.timelines if timeline.rank >= 0]


def describe_rounding(profile: Profile) -> str:
    """Return the rounding error of a bank's figure; empty for exact sources."""
    error_bytes = profile.source.state_error_bytes
    return f"states are printed rounded, +-{format_mib(error_bytes, decimals=4)} per bank" if error_bytes else ""


def suggest_command(profile: Profile, known: Analyses) -> str:
    """Return the command that answers the next question about this source."""
    source = shlex.quote(profile.source.name or profile.name)
    if len(source) > _LONGEST_COMMAND or not source.isprintable():
        source = "SOURCE"
    if profile.source.kind == "predicted":
        return f"ttmem fit {source} --html report.html"
    if "engine" in profile.facts:  # captured while a script ran: the script is run again, not read
        return f"ttmem run {source} --html report.html"
    if len(known.runs) > 1 and (known.failure is not None or known.counted_runs > 1):
        return f"ttmem profile {source} --run last --llm"
    return f"ttmem profile {source} --html report.html"


def describe_load(known: Analyses) -> str:
    """Describe how the weights were loaded, in one sentence; empty when unknown."""
    phase = known.load_phase
    if phase is None:
        return ""
    text = f"{format_mib(phase.before_first_bytes_per_bank)}/bank resident before the first operation"
    if phase.const_eval_programs:
        added = format_mib(phase.const_eval_bytes_per_bank, signed=True)
        text += f"; const-eval ({pluralize(phase.const_eval_programs, 'program')}) {added}/bank"
    if phase.upload_operations:
        text += f"; to_device outside const-eval {format_mib(phase.upload_bytes_per_bank, signed=True)}/bank"
    if phase.loaded_at_index is not None and phase.loaded_bytes_per_bank is not None:
        text += (
            f"; first run's weights in by #{phase.loaded_at_index} at {format_mib(phase.loaded_bytes_per_bank)}/bank"
        )
    return text


def describe_growth(known: Analyses) -> str:
    """Describe the growth of DRAM from run to run; empty for a single run."""
    growth = known.growth.get("DRAM")
    if growth is None or len(growth.starts_bytes_per_bank) < 2:
        return ""
    if not growth.compared_runs:
        return f"{growth.verdict} to judge growth"
    slope = format_mib(growth.bytes_per_bank_per_run, decimals=4, signed=True)
    error = f" (+-{format_mib(growth.error_bytes_per_run, decimals=4)})" if growth.error_bytes_per_run else ""
    return f"{growth.verdict}: DRAM {slope}/bank per run{error} over {growth.compared_runs} runs"


def describe_runs(known: Analyses) -> str:
    """Return ``5 runs``, ``1 run and an unfinished one``, ``7 tests``."""
    if known.is_suite:
        return pluralize(known.counted_runs, "test")
    last_ones = {run.timeline: run for run in known.runs}.values()
    if all(run.finished for run in last_ones):
        return pluralize(known.counted_runs, "run")
    if len(known.runs) == len(last_ones):
        return "1 unfinished run"
    return f"{pluralize(known.counted_runs, 'run')} and an unfinished one"


def describe_moment(peak: Peak) -> str:
    """Return the moment of the peak: ``before #170 ttnn.deallocate``, ``within #3 ttnn.conv2d``, ``after submit``."""
    if peak.at_index is None:
        return peak.at_name
    place = "within" if peak.within_operation else "before"
    return f"{place} {format_operation(peak.at_index, peak.at_name)}"


def describe_end(known: Analyses) -> str:
    """Describe the end of a run that stopped for another reason than memory; empty for any other run."""
    if known.end is None or known.end.is_for_memory:
        return ""
    return known.end.sentence


def format_end_error(known: Analyses) -> str:
    """Return the error that ended a run whose source prints no text of it: ``SystemExit: 3``."""
    return ": ".join(filter(None, (known.end.error, known.end.message))) if known.end else ""


def describe_fit(known: Analyses) -> str:
    """Return ``Fits as far as it ran``, or the memory failure that the program caught."""
    if not known.memory_failures:
        return "Fits as far as it ran"
    return f"The program caught a memory failure ({_format_class(known.memory_failures[0])})"


def describe_status(known: Analyses) -> str | None:
    """``fits``, ``oom/capacity in L1``, ``AssertionError (not memory)``, ``2 of 9 tests failed``; None where no memory
    state was seen."""
    if not known.fits:
        return _format_class(known.memory_failures[0])
    if known.is_suite and (failed := {run.number for run in known.runs if not run.finished}):
        return f"{len(failed)} of {pluralize(known.counted_runs, 'test')} failed"
    if known.end is not None and not known.end.is_for_memory:
        return f"{flatten_text(known.end.error) or 'error'}{known.end.remark}"
    return "fits" if known.peaks else None


def _format_class(failure: RunFailure) -> str:
    return " in ".join(filter(None, (failure.failure_class, failure.memory)))


def describe_l1(known: Analyses) -> str:
    """Return the programs' own buffers in L1, or, where they are not known, a note that they are left out."""
    programs = known.programs_peak
    if programs is None:
        return "L1 figures leave out circular buffers, which are not part of the allocator's state"
    parts = ", ".join(
        f"{name.replace('_', ' ')} {format_mib(amount)}" for name, amount in programs.parts.items() if amount
    )
    text = f"L1 with programs: {format_mib(programs.total_bytes_per_core)} per core ({parts or 'empty'})"
    text += f" in {shorten(format_operation(programs.index, programs.name), _LONGEST_NAME)}"
    if programs.unmeasured_operations:
        text += f"; programs of {pluralize(programs.unmeasured_operations, 'operation')} were not measured"
    return text


def describe_unattributed(live: LiveSet) -> str:
    """Describe the part of a peak that no tensor accounts for; with the listed parts it sums to the state's total."""
    left = live.unattributed_bytes_per_bank
    amount = f"{format_mib(left)}/bank (tensors that share a buffer or were freed)"
    if abs(left) <= live.peak.error_bytes * 2:
        amount = f"nothing beyond rounding ({format_mib(left, decimals=4, signed=True)}/bank)"
    elif left > 0:
        amount = f"{format_mib(left)}/bank (uploads, outputs of earlier runs, temporaries)"
    return f"Not attributed to any tensor: {amount}"


def format_weights(known: Analyses) -> str:
    """Return ``268.750 MiB``; unknown for a capture and a log without a module dump."""
    return UNKNOWN if known.weights.bytes is None else format_mib(known.weights.bytes)


def format_padding(known: Analyses) -> str:
    """Return ``12.5%``; unknown without states or operations."""
    share = known.padding.overhead_percent
    return UNKNOWN if share is None else format_percent(share)


def _warn_of_peak(known: Analyses, memory: str) -> str:
    target, risk = TARGETS_PERCENT[memory]
    share = known.peaks[memory].peak_percent if memory in known.peaks else None
    if share is None or share <= target:
        return ""
    if share > risk:
        return f"{memory} peak {format_percent(share)} is above {risk}%: {_RISKS[memory]}"
    return f"{memory} peak {format_percent(share)} is above the {target}% target{_ABOVE_TARGETS[memory]}"


def _warn_of_growth(known: Analyses) -> str:
    leaking = [(memory, item) for memory, item in known.growth.items() if item.verdict == LEAK]
    if not leaking:
        return ""
    memory, worst = max(leaking, key=lambda found: found[1].bytes_per_bank_per_run)
    slope = format_mib(worst.bytes_per_bank_per_run, decimals=4, signed=True)
    return f"Leak: {memory} starts each run {slope}/bank higher, over {worst.compared_runs} runs that load nothing"


def _warn_of_fragmentation(known: Analyses) -> str:
    for memory in ("DRAM", "L1"):
        item = known.fragmentation.get(memory)
        if item is not None and item.states_above_threshold_percent:
            worst_at = shorten(format_operation(item.worst_at.index, item.worst_at.name), _LONGEST_NAME)
            return (
                f"{memory} is fragmented in {format_percent(item.states_above_threshold_percent)} of the states "
                f"(over {item.threshold_percent:g}% of the free bytes are outside the largest free block); "
                f"worst {format_mib(item.worst_bytes_per_bank)}/bank at {worst_at}"
            )
    return ""


def _warn_of_padding(known: Analyses) -> str:
    share = known.padding.overhead_percent
    if share is None or share <= PADDING_HIGH_PERCENT:
        return ""
    return f"Padding overhead {format_percent(share)} is above 50%: prefer trailing dimensions that are multiples of 32"


def list_short_facts(profile: Profile) -> list[tuple[str, str]]:
    """List the facts that fit a line; nested answers have a view of their own."""
    return [(str(key), str(value)) for key, value in profile.facts.items() if not isinstance(value, dict)]


def describe_board(profile: Profile) -> str:
    """Return ``a mock n150 (1 chip)``, or ``wormhole`` by its banks; empty when unknown."""
    facts = profile.facts
    chips = facts.get("chips")
    count = f" ({pluralize(chips, 'chip')})" if isinstance(chips, int) and chips > 0 else ""
    if board := facts.get("board"):
        return f"{'a mock ' if facts.get('engine') == 'mock' else ''}{flatten_text(str(board))}{count}"
    has_states = any(len(timeline.state_operation) for timeline in profile.timelines)
    return f"{guess_architecture(profile).name}{count}" if has_states or "system" in facts else ""


def list_findings(findings: Sequence[Finding]) -> list[str]:
    """List leaks and waste, one line each."""
    return [
        f"{one.kind} {flatten_text(one.tensor) or one.memory}: {format_mib(one.bytes_per_bank)} of {one.memory} "
        f"per bank"
        f"{f' at {flatten_text(one.location)}' if one.location else ''}; {flatten_text(one.message)}"
        for one in findings
    ]


Columns = Sequence[tuple[Column, Callable[[Any], object]]]
"""Columns, each with a function that returns its value of an entry."""


def build_table(entries: Iterable[Any], columns: Columns, **more: Any) -> Table:
    """Build one row per entry."""
    return Table([column for column, _ in columns], [[get(entry) for _, get in columns] for entry in entries], **more)


def build_peaks(known: Analyses) -> Table:
    """Build one row per memory, in MiB per bank."""
    columns: Columns = [
        (text_column("Memory", write=attrgetter("memory")), lambda peak: peak),
        (mib_column("Peak"), attrgetter("peak_bytes_per_bank")),
        (percent_column("% of bank"), attrgetter("peak_percent")),
        (mib_column("Bank"), attrgetter("bytes_per_bank")),
        (number_column("Banks"), attrgetter("banks")),
        (name_column("Caused by"), lambda peak: format_operation(peak.caused_by_index, peak.caused_by_name) or None),
        (name_column("Location"), lambda peak: peak.caused_by_location or None),
        (name_column("State"), describe_moment),
        (mib_column("Free"), attrgetter("free_bytes_at_peak")),
        (mib_column("Largest free"), attrgetter("largest_free_bytes_at_peak")),
        (mib_column("End"), attrgetter("end_bytes_per_bank")),
    ]
    return build_table(known.peaks.values(), columns)


def build_consumers(live: LiveSet, most: int) -> Table:
    """Build the table of the largest tensors alive at a peak."""
    total = live.total_bytes_per_bank
    columns: Columns = [
        (name_column("Tensor"), attrgetter("name")),
        (text_column("Shape"), _format_shape),
        (mib_column("MiB/bank"), attrgetter("bytes_per_bank")),
        (percent_column("Of peak"), lambda life: 100 * life.bytes_per_bank / total if total else None),
        (mib_column("MiB device"), attrgetter("type.padded_bytes")),
        (name_column("Producer", unknown="resident before the run"), _format_producer),
        (name_column("Location"), lambda life: life.location or None),
        (text_column("Alive", whole=True), lambda life: f"#{life.first_index}-#{life.last_index}"),
        (text_column("Last use", whole=True), _format_last_use),
        (text_column("Kind"), lambda life: "weight" if life.weight else ""),
    ]
    rest = live.tensors[most:]
    rest_bytes = format_mib(sum(life.bytes_per_bank for life in rest))
    left_out = f"{pluralize(len(rest), 'smaller tensor')}: {rest_bytes}/bank" if rest else ""
    return build_table(live.tensors[:most], columns, left_out=left_out, bars="Of peak")


def build_padding(known: Analyses, most: int) -> Table:
    """Build the table of the tensors at the DRAM peak with most padding; device bytes."""
    columns: Columns = [
        (name_column("Tensor"), attrgetter("name")),
        (text_column("Shape"), _format_shape),
        (mib_column("Logical MiB"), attrgetter("type.logical_bytes")),
        (mib_column("Padded MiB"), attrgetter("type.padded_bytes")),
        (mib_column("Wasted MiB"), attrgetter("type.padding_bytes")),
        (percent_column("Overhead"), compute_overhead_percent),
        (name_column("Producer", unknown="resident before the run"), _format_producer),
    ]
    return _take_first(known.padding.top, most, columns, bars="Wasted MiB")


def build_weights(known: Analyses, most: int) -> Table:
    """Build the table of the largest weights; logical bytes on one chip."""
    columns: Columns = [
        (name_column("Weight"), attrgetter("name")),
        (text_column("Shape"), lambda weight: format_shape(weight.shape, weight.dtype)),
        (mib_column("MiB"), attrgetter("bytes")),
        (text_column("Where"), attrgetter("where")),
        (text_column("Kind"), attrgetter("kind")),
    ]
    return _take_first(known.weights.entries, most, columns, bars="MiB")


def build_distribution(known: Analyses, most: int) -> Table:
    """Build the table of executions by operation."""
    counts = known.distribution
    columns: Columns = [
        (name_column("Operation"), lambda named: named[0]),
        (number_column("Count"), lambda named: named[1]),
        (percent_column("Share"), lambda named: 100 * named[1] / counts.executed),
    ]
    return _take_first(list(counts.by_name.items()), most, columns, bars="Count")


def compute_overhead_percent(life: TensorLife) -> float | None:
    """Return the share that padding adds to a tensor; None for a tensor of no bytes."""
    return 100 * life.type.padding_bytes / life.type.logical_bytes if life.type.logical_bytes else None


def _format_last_use(life: TensorLife) -> str | None:
    return None if life.last_use_index is None else f"#{life.last_use_index}"


def _format_shape(life: TensorLife) -> str:
    return format_shape(life.type.shape, life.type.dtype)


def _format_producer(life: TensorLife) -> str | None:
    return format_operation(life.producer_index, life.producer_name) or None


def _take_first(entries: Sequence[Any], most: int, columns: Columns, **more: Any) -> Table:
    left = len(entries) - most
    left_out = f"{format_count(left)} more are left out here; the JSON document has them." if left > 0 else ""
    return build_table(entries[:most], columns, left_out=left_out, **more)
