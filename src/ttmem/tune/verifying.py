# SPDX-License-Identifier: Apache-2.0
"""The proof of a promise: the script runs again on the mock with the edits made at its calls, and nothing on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ttmem._errors import BadInputError
from ttmem.analysis.failure import failure
from ttmem.analysis.peaks import peaks
from ttmem.analysis.programs_l1 import programs_peak
from ttmem.engines.capture import KIND
from ttmem.engines.running import RunSettings, run_script
from ttmem.engines.worker.editing import NOT_MADE
from ttmem.profile import MEMORIES, Profile, TensorType
from ttmem.tune import edits
from ttmem.tune.applied import BOUNDED, EXACT, UNKNOWN, Applied
from ttmem.tune.applying import TAKES_DTYPE, written_shard
from ttmem.tune.cutting import Cut
from ttmem.tune.draft import Draft, as_captured
from ttmem.tune.edits import Edit
from ttmem.tune.figures import DRAM, L1, Figures
from ttmem.tune.freeing import free_point
from ttmem.tune.history import History, Life

_REGIONS = {"L1_SMALL": "l1_small_bytes", "TRACE": "trace_region_bytes"}


@dataclass(frozen=True, slots=True)
class Verified:
    """What the mock said, and whether it is what was promised."""

    dram_peak_bytes_per_bank: int
    l1_peak_bytes_per_bank: int
    l1_peak_with_programs_bytes_per_core: int
    fits: bool
    """It came to its end."""
    agrees: bool | None
    """Equal to the byte where every edit is exact, not more than promised where they are bounded. None: not all edits
    were made, or nobody knows a bound of one."""
    promised_operations: int
    """For how many operations there was a promise before the run; one that had failed is known only up to there."""
    not_made: tuple[str, ...]
    """Edits that cannot be made while the program runs: the run is one without them."""
    profile: Profile


@dataclass(frozen=True, slots=True)
class Plan:
    """How a script is run again: what changes at which operation, and how its device is opened."""

    calls: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] | None = None
    not_made: tuple[str, ...] = ()
    """Edits that cannot be made while the program runs."""

    def then(self, other: Plan) -> Plan:
        """Both."""
        missing = tuple(dict.fromkeys((*self.not_made, *other.not_made)))
        return Plan((*self.calls, *other.calls), {**(self.settings or {}), **(other.settings or {})}, missing)


def _can_be_made(applied: Applied) -> bool:
    """Not for tensors that no call made."""
    if applied.edit.kind in (edits.REGION, edits.BOARD):
        return True
    changed = [life for group in applied.groups for life in group.lives if life.number in applied.change]
    if applied.edit.kind == edits.CHUNK:
        return bool(applied.cuts)
    return all(life.producer >= 0 and life.type is not None for life in changed)


def plan(history: History, chosen: Sequence[Applied]) -> Plan:
    """What the recorder is told, of the edits that can be made at a call."""
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
            calls += [_in_parts(edit, operation, cut) for operation, cut in applied.cuts.items()]
        for group in applied.groups:
            if edit.kind == edits.FREE:
                calls += _frees(history, applied, dict(free_point(history, group).after))
            elif edit.kind != edits.CHUNK:
                for life in group.lives:
                    if life.number in applied.change:
                        calls.append(_at_call(history, applied, life, types.get(life.number)))
    rank = max(history.timeline.rank, 0)  # operations are counted per device
    told = tuple({**call, "rank": rank} for call in calls)
    return Plan(told, settings, tuple(str(one.edit) for one in chosen if not _can_be_made(one)))


def _at_call(history: History, applied: Applied, life: Life, changed: TensorType | None) -> Mapping[str, Any]:
    """One call with other options, or at another time; then of the type that all edits together give it."""
    edit = applied.edit
    assert life.type is not None
    told: dict[str, Any] = {"kind": edit.kind, "operation": life.producer, "value": edit.value}
    if edit.kind in (edits.MEMORY, edits.SHARD):
        shard = written_shard(edit) if edit.kind == edits.SHARD else None
        memory = MEMORIES[applied.change[life.number].memory]
        return {**told, "kind": edits.MEMORY, "value": memory, **({"shard": shard} if shard else {})}
    if edit.kind == edits.DTYPE:
        name = history.operations[life.producer].name.rpartition(".")[2]
        return {**told, "on_host": name not in TAKES_DTYPE}
    if edit.kind == edits.ORDER:
        type_ = changed or life.type
        tensor = {"shape": type_.shape, "dtype": type_.dtype, "layout": type_.layout, "memory": type_.memory}
        return {**told, "tensor": tensor}
    return told


def _in_parts(edit: Edit, operation: int, cut: Cut) -> Mapping[str, Any]:
    place = {"kind": edits.CHUNK, "operation": operation, "edit": str(edit), "dimension": cut.dimension}
    return {**place, "pieces": cut.pieces, "cuts_all": cut.cuts_all, "keeps_last": cut.keeps_last}


def _frees(history: History, applied: Applied, after: Mapping[int, int]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for number, operation in after.items():
        life = history.lives[number]
        if number in applied.change:
            results = [one.number for one in history.results(life.producer) if one.type is not None]
            place = {"operation": life.producer, "position": results.index(number), "after": operation}
            found.append({"kind": edits.FREE, **place})
    return found


def run_again(profile: Profile, what: Plan, *, python: str | None = None, output: int | None = None) -> Profile:
    """The script of a capture, with changes."""
    script = profile.source.name
    if profile.source.kind != KIND or not Path(script).is_file():
        raise BadInputError(
            f"'{profile.name}' cannot be run again: its script {script!r} is not here",
            hint="only what 'ttmem run' captured can be, in the folder where it was called",
        )
    settings: dict[str, Any] = {"board": profile.facts.get("board", "n150"), **(what.settings or {})}
    arguments = [str(word) for word in profile.facts.get("arguments", ())]
    run = run_script(
        script, arguments, settings=RunSettings(python=python, edits=what.calls, **settings), output=output
    )
    return run.profile


def certainty(applied: Sequence[Applied]) -> str:
    """Of several edits together: that of the least certain."""
    return max((one.confidence for one in applied), key=(EXACT, BOUNDED, UNKNOWN).index, default=EXACT)


def compare(
    draft: Draft, promised: Figures, tried: Plan, *, confidence: str, run: History, programs_doubt: str = ""
) -> Verified:
    """What was captured with what was promised before the run.

    A run that had failed and gets further now is compared up to the operation that failed: that is what was known.
    What programs need in L1 is compared where the records of all operations that changed tell it.
    """
    profile = replace(run.profile, timelines=(run.timeline,))  # of several devices the one that was looked at
    found, together, ended = peaks(profile), programs_peak(profile), failure(profile)
    dram, l1 = (found[memory].peak_bytes_per_bank if memory in found else 0 for memory in (DRAM, L1))
    programs = together.total_bytes_per_core if together is not None else l1
    fits = ended is None or ended.survived
    known = len(draft.history.operations)
    measured: tuple[int, ...]
    told: tuple[int, ...]
    if gets_further(draft.history, run):
        measured, told = _peaks_before(as_captured(run), known - 1), _peaks_before(draft, known - 1)
        as_told = promised.fits
    else:
        measured, told = (dram, l1), (promised.dram_peak_bytes_per_bank, promised.l1_peak_bytes_per_bank)
        as_told = fits == promised.fits
        if not programs_doubt and confidence == EXACT:
            measured, told = (*measured, programs), (*told, promised.l1_peak_with_programs_bytes_per_core)
    is_exact = confidence == EXACT
    as_told &= measured == told if is_exact else all(one <= other for one, other in zip(measured, told, strict=True))
    not_made = (*tried.not_made, *_refused(profile))
    agrees = None if not_made or confidence == UNKNOWN else as_told
    return Verified(dram, l1, programs, fits, agrees, known, not_made, run.profile)


def _refused(profile: Profile) -> Iterator[str]:
    """Edits that the recorder could not make."""
    for note in profile.source.warnings:
        if note.startswith(NOT_MADE):
            yield note.removeprefix(NOT_MADE)


def gets_further(before: History, after: History) -> bool:
    """Whether a run came to what the other one did not: another operation, or a later step of its last one."""
    if len(after.operations) != len(before.operations):
        return len(after.operations) > len(before.operations)
    one, other = before.failure, after.failure
    if one is None or other is None or one.survived or other.survived:
        return False
    has_room_now = one.failure_class.startswith("oom/") and other.failure_class.startswith("buffers/")
    return has_room_now and one.operation_index == other.operation_index == len(after.operations) - 1


def _peaks_before(draft: Draft, operation: int) -> tuple[int, ...]:
    """DRAM and L1, until an operation begins."""
    curves, end = draft.curves(), draft.history.starts[operation]
    return tuple(int(curves[MEMORIES.index(memory)][:end].max(initial=0)) for memory in (DRAM, L1))
