# SPDX-License-Identifier: Apache-2.0
"""Prove a promise: run the script again on the mock, with the edits applied at its calls and not on disk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ttmem.analysis.failure import RunEnd, run_end
from ttmem.analysis.peaks import peaks
from ttmem.analysis.programs_l1 import programs_peak
from ttmem.base.errors import BadInputError
from ttmem.engines.run_script import RunSettings, run_script
from ttmem.engines.worker.call_editor import NOT_MADE
from ttmem.profile.builder import KIND
from ttmem.profile.model import MEMORIES, Profile
from ttmem.profile.tensor_type import TensorType
from ttmem.tuning import edits
from ttmem.tuning.apply_edit import TAKES_DTYPE, describe_shard
from ttmem.tuning.captured_run import BufferLifetime, CapturedRun
from ttmem.tuning.chunking import OperationCut
from ttmem.tuning.edited_run import BOUNDED, EXACT, UNKNOWN, AppliedEdit, EditedRun, start_edits
from ttmem.tuning.edits import Edit
from ttmem.tuning.figures import DRAM, L1, Figures
from ttmem.tuning.free_points import find_free_point
from ttmem.tuning.source import open_source, parse_place

_ONLY_CAPTURES = "only what 'ttmem run' captured can be run again, in the folder where it was called"
_REGIONS = {"L1_SMALL": "l1_small_bytes", "TRACE": "trace_region_bytes"}


@dataclass(frozen=True, slots=True)
class Verification:
    """The figures of a run on the mock, compared with the promise."""

    dram_peak_bytes_per_bank: int
    l1_peak_bytes_per_bank: int
    l1_peak_with_programs_bytes_per_core: int
    fits: bool
    """Everything fitted, as far as it ran."""
    agrees: bool | None
    """Equal to the byte if every edit is exact, not more than promised if they are bounded. None: nothing is
    proven, see ``reason``."""
    reason: str
    """Why ``agrees`` is not true; empty if it is."""
    promised_operations: int
    """Number of operations with a promise; a failed run is known only up to its failure."""
    not_made: tuple[str, ...]
    """Edits that cannot be made while the program runs: the run is one without them."""
    profile: Profile
    dropped: tuple[DroppedEdit, ...] = ()
    """Edits that were tried and dropped."""


@dataclass(frozen=True, slots=True)
class DroppedEdit:
    """An edit with which the script ended differently."""

    edit: str
    reason: str


@dataclass(frozen=True, slots=True)
class RerunPlan:
    """Changes for running a script again, per operation and for opening the device."""

    calls: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] | None = None
    not_made: tuple[str, ...] = ()
    """Edits that cannot be made while the program runs."""

    def combine(self, other: RerunPlan) -> RerunPlan:
        missing = tuple(dict.fromkeys((*self.not_made, *other.not_made)))
        return RerunPlan((*self.calls, *other.calls), {**(self.settings or {}), **(other.settings or {})}, missing)


def _can_be_made(applied: AppliedEdit) -> bool:
    """Return whether an edit can be made in a run; not for tensors that no call made."""
    if applied.edit.kind in (edits.REGION, edits.BOARD):
        return True
    changed = [life for group in applied.groups for life in group.lives if life.number in applied.change]
    if applied.edit.kind == edits.CHUNK:
        return bool(applied.cuts)
    return all(life.producer >= 0 and life.type is not None for life in changed)


def plan_rerun(run: CapturedRun, chosen: Sequence[AppliedEdit]) -> RerunPlan:
    """Plan a run with the edits that can be made at a call."""
    calls: list[Mapping[str, Any]] = []
    settings: dict[str, Any] = {}
    types = {number: piece.type for one in chosen for number, piece in one.change.items() if piece.type is not None}
    for applied in filter(_can_be_made, chosen):
        edit = applied.edit
        if edit.kind == edits.BOARD:
            settings["board"] = edit.value
        elif edit.kind == edits.REGION:
            settings[_REGIONS[edit.target.upper()]] = int(edit.value)
        elif edit.kind == edits.CHUNK:
            calls += [_describe_chunks(edit, operation, cut) for operation, cut in applied.cuts.items()]
        for group in applied.groups:
            if edit.kind == edits.FREE:
                calls += _describe_frees(run, applied, dict(find_free_point(run, group).after))
            elif edit.kind != edits.CHUNK:
                for life in group.lives:
                    if life.number in applied.change:
                        calls.append(_describe_call_edit(run, applied, life, types.get(life.number)))
    rank = max(run.timeline.rank, 0)  # operations are counted per device
    told = tuple({**call, "rank": rank} for call in calls)
    return RerunPlan(told, settings, tuple(str(one.edit) for one in chosen if not _can_be_made(one)))


def _describe_call_edit(
    run: CapturedRun, applied: AppliedEdit, life: BufferLifetime, changed: TensorType | None
) -> Mapping[str, Any]:
    """Describe a call with other options or at another time, with the type after all edits."""
    edit = applied.edit
    assert life.type is not None
    told: dict[str, Any] = {"kind": edit.kind, "operation": life.producer, "value": edit.value}
    if edit.kind in (edits.MEMORY, edits.SHARD):
        shard = describe_shard(edit) if edit.kind == edits.SHARD else None
        memory = MEMORIES[applied.change[life.number].memory]
        return {**told, "kind": edits.MEMORY, "value": memory, **({"shard": shard} if shard else {})}
    if edit.kind == edits.DTYPE:
        name = run.operations[life.producer].name.rpartition(".")[2]
        return {**told, "on_host": name not in TAKES_DTYPE}
    if edit.kind == edits.ORDER:
        type_ = changed or life.type
        tensor = {"shape": type_.shape, "dtype": type_.dtype, "layout": type_.layout, "memory": type_.memory}
        return {**told, "tensor": tensor}
    return told


def _describe_chunks(edit: Edit, operation: int, cut: OperationCut) -> Mapping[str, Any]:
    place = {"kind": edits.CHUNK, "operation": operation, "edit": str(edit), "dimension": cut.dimension}
    return {**place, "pieces": cut.pieces, "cuts_all": cut.cuts_all, "keeps_last": cut.keeps_last}


def _describe_frees(run: CapturedRun, applied: AppliedEdit, after: Mapping[int, int]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for number, operation in after.items():
        life = run.lives[number]
        if number in applied.change:
            results = [one.number for one in run.results(life.producer) if one.type is not None]
            place = {"operation": life.producer, "position": results.index(number), "after": operation}
            found.append({"kind": edits.FREE, **place})
    return found


def find_command(profile: Profile) -> list[str]:
    script = profile.source.name
    if profile.source.kind != KIND or not _is_file(script):
        raise BadInputError(
            f"'{profile.name}' cannot be run again: its script {script!r} is not here", hint=_ONLY_CAPTURES
        )
    return [script, *(str(word) for word in profile.facts.get("arguments", ()))]


def _is_file(script: str) -> bool:
    """Return whether a path is a file; a profile may contain any text."""
    try:
        return Path(script).is_file()
    except (OSError, ValueError, RuntimeError):
        return False


def run_again(
    profile: Profile,
    what: RerunPlan,
    *,
    command: Sequence[str] = (),
    python: str | None = None,
    output: int | None = None,
    timeout_seconds: float | None = None,
) -> Profile:
    """Run the script of a capture with changes; ``command`` replaces the script and its arguments."""
    if profile.source.kind != KIND:
        raise BadInputError(f"'{profile.name}' is no run of a script", hint=_ONLY_CAPTURES)
    script, *arguments = command or find_command(profile)
    wanted: dict[str, Any] = {"board": profile.facts.get("board", "n150"), **(what.settings or {})}
    settings = RunSettings(python=python, edits=what.calls, timeout_seconds=timeout_seconds, **wanted)
    return run_script(script, arguments, settings=settings, output=output).profile


def find_certainty(applied: Sequence[AppliedEdit]) -> str:
    return max((one.confidence for one in applied), key=(EXACT, BOUNDED, UNKNOWN).index, default=EXACT)


def compare(
    draft: EditedRun,
    promised: Figures,
    tried: RerunPlan,
    *,
    confidence: str,
    run: CapturedRun,
    programs_doubt: str = "",
) -> Verification:
    """Compare a run with the promise before it.

    A run that ended out of memory is known until its failed call would have ended, or only until
    it began if nothing tells what it does. What programs need in L1 is compared if the records of all operations
    that changed give it.
    """
    before = draft.history
    captured = next(one for one in run.profile.timelines if one.rank == run.timeline.rank)
    profile = replace(run.profile, timelines=(captured,))  # the selected device
    found, together = peaks(profile), programs_peak(profile)
    dram, l1 = (found[memory].peak_bytes_per_bank if memory in found else 0 for memory in (DRAM, L1))
    programs = together.total_bytes_per_core if together is not None else l1
    known = len(before.operations)
    is_through = before.is_short and is_further(before, run)
    measured: tuple[int, ...]
    told: tuple[int, ...]
    if is_through:
        whole = before.unfinished is not None and before.unfinished.is_known
        measured, told = (one.peaks_until(known - 1, inclusive=whole) for one in (start_edits(run), draft))
        as_told = promised.fits is not (run.is_short and len(run.operations) == known)
    else:
        measured = dram, l1, programs
        told = promised.dram_peak_bytes_per_bank, promised.l1_peak_bytes_per_bank, promised.peak(L1)
        as_told = promised.fits is not run.is_short
    is_exact = confidence == EXACT
    if programs_doubt or not is_exact:
        measured, told = measured[:2], told[:2]
    as_told &= measured == told if is_exact else all(one <= other for one, other in zip(measured, told, strict=True))
    not_made = (*tried.not_made, *_list_refused(profile))
    other_end = find_other_end(before, run.profile)
    is_unknown = confidence == UNKNOWN or (before.is_short and before.unfinished is None)
    reason = _explain_verdict(as_told, not_made, measured, told, is_unknown=is_unknown)
    agrees = None if not_made or is_unknown else as_told
    if other_end is not None:
        is_own = is_through and not _is_of_the_library(other_end)
        agrees, reason = (None if agrees is not False and is_own else False), other_end.sentence
    return Verification(dram, l1, programs, not run.is_short, agrees, reason, known, not_made, run.profile)


def _explain_verdict(
    as_told: bool, not_made: Sequence[str], measured: Sequence[int], told: Sequence[int], *, is_unknown: bool
) -> str:
    """Return why a run does not prove a promise; empty if it does."""
    if not_made:
        return "not all edits were made in that run"
    if is_unknown:
        return "no bound of an edit is known, or nothing tells what the call that failed needs"
    if as_told:
        return ""
    if measured == told:
        return "it was promised to fit and does not, or the other way round"
    words = ", ".join(f"{name} {size:,} B" for name, size in zip((DRAM, L1, "L1 with programs"), told, strict=False))
    return f"promised were {words}"


def find_other_end(before: CapturedRun, again: Profile) -> RunEnd | None:
    """Return how a run ended, if neither for memory nor like the captured run."""
    end, known = run_end(again), run_end(before.profile)
    if end is None or end.is_for_memory:
        return None
    is_same = (
        known is not None and not known.is_for_memory and (known.error, known.location) == (end.error, end.location)
    )
    return None if is_same else end


def _is_of_the_library(end: RunEnd) -> bool:
    """Return whether a run ended by a crash, an error of ttnn or the time limit, which edits may cause."""
    return end.error in ("RuntimeError", "TimeoutExpired") or end.error.startswith(("SIG", "signal"))


def report_no_run(known: int, again: Profile) -> Verification:
    end = run_end(again)
    reason = end.sentence if end is not None else "the script opened no device"
    return Verification(0, 0, 0, False, False, reason, known, (), again)


def find_suspect(answer: Sequence[AppliedEdit], again: Profile) -> tuple[AppliedEdit, bool] | None:
    """Return the edit that probably ended a run, and whether it is related to the line where the run ended."""
    end = run_end(again)
    changes_calls = [one for one in answer if one.groups]
    if end is None or not changes_calls:
        return None
    riskiest = sorted(changes_calls, key=lambda one: edits.KINDS.index(one.edit.kind))
    index = len(again.timelines[0]) - 1 if again.timelines else -1
    words = set(re.findall(r"\w+", _read_line(end.location)))
    for applied in riskiest:
        lives = [life for group in applied.groups for life in group.lives if life.number in applied.change]
        names = {group.name.rpartition(".")[2] for group in applied.groups}
        if names & words or any(index in (*life.uses, life.producer) for life in lives):
            return applied, True
    return riskiest[0], False


def _read_line(location: str) -> str:
    """Return the text of a source line; empty if the file is missing."""
    place = parse_place(location)
    source = open_source(place.file) if place.file else None
    return source.lines[place.line - 1] if source is not None and 0 < place.line <= len(source.lines) else ""


def _list_refused(profile: Profile) -> Iterator[str]:
    for note in profile.source.warnings:
        if note.startswith(NOT_MADE):
            yield note.removeprefix(NOT_MADE)


def is_further(before: CapturedRun, after: CapturedRun) -> bool:
    """Return whether a run got further than another one: more operations, or a later step of the last one."""
    if len(after.operations) != len(before.operations):
        return len(after.operations) > len(before.operations)
    one, other = before.failure, after.failure
    if not before.is_short or one is None:
        return False
    if not after.is_short or other is None:  # the call succeeded, unless it ended the run for another reason
        return other is None or other.survived or other.operation_index != len(after.operations) - 1
    has_room_now = one.failure_class.startswith("oom/") and other.failure_class.startswith("buffers/")
    return has_room_now and one.operation_index == other.operation_index == len(after.operations) - 1
