# SPDX-License-Identifier: Apache-2.0
"""The sentences that go with the figures: which threshold is passed, what leaks, what to run next."""

import shlex
from collections.abc import Sequence
from typing import Literal

from ttmem.analysis.architecture import architecture_of
from ttmem.analysis.consumers import LiveSet
from ttmem.analysis.failure import RunFailure
from ttmem.analysis.findings import Finding
from ttmem.analysis.growth import LEAK
from ttmem.analysis.peaks import Peak
from ttmem.profile.model import Profile
from ttmem.reports.kit.units import counted, megabytes, one_line, operation_label, percent, short
from ttmem.reports.profile.analyses import Analyses

TARGETS_PERCENT = {"DRAM": (80, 90), "L1": (90, 95)}
PADDING_HIGH_PERCENT = 50.0
"""The targets that readers of these reports know; from the second figure on it is a risk."""
_RISKS = {
    "DRAM": "risk of OOM; reduce batch or model size, or shard the model",
    "L1": "operations may fall back to DRAM or clash with circular buffers",
}
_ABOVE_TARGETS = {"DRAM": ": little headroom", "L1": " (circular buffers come on top, they are not in this figure)"}

Level = Literal["ok", "warn", "alarm"]

UNKNOWN = "unknown"
_LONGEST_COMMAND = 200
_LONGEST_NAME = 80


def threshold_warnings(known: Analyses) -> list[str]:
    """Everything worth a warning, most urgent first; empty when the run has room."""
    peaks = [_peak(known, memory) for memory in TARGETS_PERCENT]
    return [note for note in (*peaks, _growth(known), _fragmentation(known), _padding(known)) if note]


def level(share: float | None) -> Level:
    """Return the level for colours and cards."""
    target, risk = TARGETS_PERCENT["DRAM"]
    if share is None or share <= target:
        return "ok"
    return "alarm" if share > risk else "warn"


def ranks_of(profile: Profile) -> list[int]:
    """The MPI ranks of the processes; a process without one is not listed."""
    return [timeline.rank for timeline in profile.timelines if timeline.rank >= 0]


def rounding_note(profile: Profile) -> str:
    """Return the rounding error of a bank's figure; empty for exact sources."""
    error_bytes = profile.source.state_error_bytes
    return f"states are printed rounded, +-{megabytes(error_bytes, decimals=4)} per bank" if error_bytes else ""


def next_command(profile: Profile, known: Analyses) -> str:
    """The command that answers the next question about this source."""
    source = shlex.quote(profile.source.name or profile.name)
    if len(source) > _LONGEST_COMMAND or not source.isprintable():
        source = "SOURCE"
    if profile.source.kind == "predicted":
        return f"ttmem fit {source} --html report.html"
    if "engine" in profile.facts:  # captured while a script ran: the script is no source, it is run again
        return f"ttmem run {source} --html report.html"
    if len(known.runs) > 1 and (known.failure is not None or known.counted_runs > 1):
        return f"ttmem profile {source} --run last --llm"
    return f"ttmem profile {source} --html report.html"


def load_text(known: Analyses) -> str:
    """Describe how the weights were loaded, in one sentence; empty when unknown."""
    phase = known.load_phase
    if phase is None:
        return ""
    text = f"{megabytes(phase.before_first_bytes_per_bank)}/bank resident before the first operation"
    if phase.const_eval_programs:
        added = megabytes(phase.const_eval_bytes_per_bank, signed=True)
        text += f"; const-eval ({counted(phase.const_eval_programs, 'program')}) {added}/bank"
    if phase.upload_operations:
        text += f"; to_device outside const-eval {megabytes(phase.upload_bytes_per_bank, signed=True)}/bank"
    if phase.loaded_at_index is not None and phase.loaded_bytes_per_bank is not None:
        text += f"; first run's weights in by #{phase.loaded_at_index} at {megabytes(phase.loaded_bytes_per_bank)}/bank"
    return text


def growth_text(known: Analyses) -> str:
    """The verdict on growth from run to run for DRAM, in one sentence; empty for a single run."""
    growth = known.growth.get("DRAM")
    if growth is None or len(growth.starts_bytes_per_bank) < 2:
        return ""
    if not growth.compared_runs:
        return f"{growth.verdict} to judge growth"
    slope = megabytes(growth.bytes_per_bank_per_run, decimals=4, signed=True)
    error = f" (+-{megabytes(growth.error_bytes_per_run, decimals=4)})" if growth.error_bytes_per_run else ""
    return f"{growth.verdict}: DRAM {slope}/bank per run{error} over {growth.compared_runs} runs"


def runs_text(known: Analyses) -> str:
    """``5 runs``, ``1 run and an unfinished one``, ``7 tests``."""
    if known.is_suite:
        return counted(known.counted_runs, "test")
    last_ones = {run.timeline: run for run in known.runs}.values()
    if all(run.finished for run in last_ones):
        return counted(known.counted_runs, "run")
    if len(known.runs) == len(last_ones):
        return "1 unfinished run"
    return f"{counted(known.counted_runs, 'run')} and an unfinished one"


def moment_text(peak: Peak) -> str:
    """Return the moment of the peak: ``before #170 ttnn.deallocate``, ``within #3 ttnn.conv2d``, ``after submit``."""
    if peak.at_index is None:
        return peak.at_name
    place = "within" if peak.within_operation else "before"
    return f"{place} {operation_label(peak.at_index, peak.at_name)}"


def ended_text(known: Analyses) -> str:
    """Describe the end of a run that another reason than memory stopped; empty for every other run."""
    if known.end is None or known.end.is_for_memory:
        return ""
    return known.end.sentence


def end_message(known: Analyses) -> str:
    """``SystemExit: 3``: the error that ended a run whose source prints no text of it."""
    return ": ".join(filter(None, (known.end.error, known.end.message))) if known.end else ""


def fit_text(known: Analyses) -> str:
    """``Fits as far as it ran``; a memory failure that the program caught is named instead."""
    if not known.memory_failures:
        return "Fits as far as it ran"
    return f"The program caught a memory failure ({_class_text(known.memory_failures[0])})"


def status_text(known: Analyses) -> str | None:
    """``fits``, ``oom/capacity in L1``, ``AssertionError (not memory)``, ``2 of 9 tests failed``; None where no memory
    state was seen."""
    if not known.fits:
        return _class_text(known.memory_failures[0])
    if known.is_suite and (failed := {run.number for run in known.runs if not run.finished}):
        return f"{len(failed)} of {counted(known.counted_runs, 'test')} failed"
    if known.end is not None and not known.end.is_for_memory:
        return f"{one_line(known.end.error) or 'error'}{known.end.remark}"
    return "fits" if known.peaks else None


def _class_text(failure: RunFailure) -> str:
    return " in ".join(filter(None, (failure.failure_class, failure.memory)))


def l1_text(known: Analyses) -> str:
    """Return the programs' own buffers in L1, or, where they are not known, a note that they are left out."""
    programs = known.programs_peak
    if programs is None:
        return "L1 figures leave out circular buffers, which are not part of the allocator's state"
    parts = ", ".join(
        f"{name.replace('_', ' ')} {megabytes(amount)}" for name, amount in programs.parts.items() if amount
    )
    text = f"L1 with programs: {megabytes(programs.total_bytes_per_core)} per core ({parts or 'empty'})"
    text += f" in {short(operation_label(programs.index, programs.name), _LONGEST_NAME)}"
    if programs.unmeasured_operations:
        text += f"; programs of {counted(programs.unmeasured_operations, 'operation')} were not measured"
    return text


def unattributed_text(live: LiveSet) -> str:
    """The part of a peak that no tensor accounts for; the listed parts and this one sum to the state's total."""
    left = live.unattributed_bytes_per_bank
    amount = f"{megabytes(left)}/bank (tensors that share a buffer or were freed)"
    if abs(left) <= live.peak.error_bytes * 2:
        amount = f"nothing beyond rounding ({megabytes(left, decimals=4, signed=True)}/bank)"
    elif left > 0:
        amount = f"{megabytes(left)}/bank (uploads, outputs of earlier runs, temporaries)"
    return f"Not attributed to any tensor: {amount}"


def weights_text(known: Analyses) -> str:
    """``268.750 MiB``; a capture, and a log without a module dump, do not say what a weight is."""
    return UNKNOWN if known.weights.bytes is None else megabytes(known.weights.bytes)


def padding_text(known: Analyses) -> str:
    """``12.5%``; unknown without states or operations."""
    share = known.padding.overhead_percent
    return UNKNOWN if share is None else percent(share)


def _peak(known: Analyses, memory: str) -> str:
    target, risk = TARGETS_PERCENT[memory]
    share = known.peaks[memory].peak_percent if memory in known.peaks else None
    if share is None or share <= target:
        return ""
    if share > risk:
        return f"{memory} peak {percent(share)} is above {risk}%: {_RISKS[memory]}"
    return f"{memory} peak {percent(share)} is above the {target}% target{_ABOVE_TARGETS[memory]}"


def _growth(known: Analyses) -> str:
    leaking = [(memory, item) for memory, item in known.growth.items() if item.verdict == LEAK]
    if not leaking:
        return ""
    memory, worst = max(leaking, key=lambda found: found[1].bytes_per_bank_per_run)
    slope = megabytes(worst.bytes_per_bank_per_run, decimals=4, signed=True)
    return f"Leak: {memory} starts each run {slope}/bank higher, over {worst.compared_runs} runs that load nothing"


def _fragmentation(known: Analyses) -> str:
    for memory in ("DRAM", "L1"):
        item = known.fragmentation.get(memory)
        if item is not None and item.states_above_threshold_percent:
            worst_at = short(operation_label(item.worst_at.index, item.worst_at.name), _LONGEST_NAME)
            return (
                f"{memory} is fragmented in {percent(item.states_above_threshold_percent)} of the states "
                f"(over {item.threshold_percent:g}% of the free bytes lie outside the largest free block); "
                f"worst {megabytes(item.worst_bytes_per_bank)}/bank at {worst_at}"
            )
    return ""


def _padding(known: Analyses) -> str:
    share = known.padding.overhead_percent
    if share is None or share <= PADDING_HIGH_PERCENT:
        return ""
    return f"Padding overhead {percent(share)} is above 50%: prefer trailing dimensions that are multiples of 32"


def short_facts(profile: Profile) -> list[tuple[str, str]]:
    """The facts that fit a line; a whole answer among them has a view of its own."""
    return [(str(key), str(value)) for key, value in profile.facts.items() if not isinstance(value, dict)]


def board_text(profile: Profile) -> str:
    """``a mock n150 (1 chip)``, or ``wormhole`` by its banks; empty when unknown."""
    facts = profile.facts
    chips = facts.get("chips")
    count = f" ({counted(chips, 'chip')})" if isinstance(chips, int) and chips > 0 else ""
    if board := facts.get("board"):
        return f"{'a mock ' if facts.get('engine') == 'mock' else ''}{one_line(str(board))}{count}"
    has_states = any(len(timeline.state_operation) for timeline in profile.timelines)
    return f"{architecture_of(profile).name}{count}" if has_states or "system" in facts else ""


def finding_lines(findings: Sequence[Finding]) -> list[str]:
    """Leaks and waste, a line each."""
    return [
        f"{one.kind} {one_line(one.tensor) or one.memory}: {megabytes(one.bytes_per_bank)} of {one.memory} per bank"
        f"{f' at {one_line(one.location)}' if one.location else ''}; {one_line(one.message)}"
        for one in findings
    ]
