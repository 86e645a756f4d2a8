# SPDX-License-Identifier: Apache-2.0
"""The proof of a promise: the script runs again on the mock with the edits made at its calls, and nothing on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttmem._errors import BadInputError
from ttmem.analysis.failure import failure
from ttmem.analysis.peaks import peaks
from ttmem.analysis.programs_l1 import programs_peak
from ttmem.engines.capture import KIND
from ttmem.engines.running import RunSettings, run_script
from ttmem.profile import MEMORIES, Profile
from ttmem.tune import edits
from ttmem.tune.applying import Applied
from ttmem.tune.draft import Draft, as_captured
from ttmem.tune.figures import DRAM, L1, Figures
from ttmem.tune.groups import free_point
from ttmem.tune.history import History

_AT_CALLS = (edits.FREE, edits.INPLACE, edits.MEMORY, edits.DTYPE)
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
    """Equal to the byte where every edit is exact, not more than promised otherwise. None: not all edits were made."""
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
    """Not what is no change of a call, nor tensors that no call made."""
    edit = applied.edit
    if edit.kind in (edits.REGION, edits.BOARD):
        return True
    is_option = edit.kind in _AT_CALLS or (edit.kind == edits.SHARD and edit.value == edits.INTERLEAVED)
    changed = [life for group in applied.groups for life in group.lives if life.number in applied.change]
    return is_option and all(life.producer >= 0 and life.type is not None for life in changed)


def plan(history: History, chosen: Sequence[Applied]) -> Plan:
    """What the recorder is told, of the edits that can be made at a call."""
    calls: list[Mapping[str, Any]] = []
    settings: dict[str, Any] = {}
    for applied in filter(_can_be_made, chosen):
        edit = applied.edit
        if edit.kind == edits.BOARD:
            settings["board"] = edit.value
        elif edit.kind == edits.REGION:
            settings[_REGIONS[edit.target.upper()]] = int(edit.value)
        for group in applied.groups:
            if edit.kind == edits.FREE:
                calls += _frees(history, applied, dict(free_point(history, group).after))
            else:
                kind = edits.MEMORY if edit.kind == edits.SHARD else edit.kind
                for life in group.lives:
                    if life.number in applied.change:
                        memory = MEMORIES[applied.change[life.number].memory]
                        value = memory if kind == edits.MEMORY else edit.value
                        calls.append({"kind": kind, "operation": life.producer, "value": value})
    return Plan(tuple(calls), settings, tuple(str(one.edit) for one in chosen if not _can_be_made(one)))


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
            hint="verify where 'ttmem run' was called, or capture it again",
        )
    settings: dict[str, Any] = {"board": profile.facts.get("board", "n150"), **(what.settings or {})}
    arguments = [str(word) for word in profile.facts.get("arguments", ())]
    run = run_script(
        script, arguments, settings=RunSettings(python=python, edits=what.calls, **settings), output=output
    )
    return run.profile


def compare(draft: Draft, promised: Figures, tried: Plan, *, is_exact: bool, run: History) -> Verified:
    """What was captured with what was promised before the run.

    A run that had failed and gets further now is compared up to the operation that failed: that is what was known.
    """
    profile = run.profile
    found, together, ended = peaks(profile), programs_peak(profile), failure(profile)
    dram, l1 = (found[memory].peak_bytes_per_bank if memory in found else 0 for memory in (DRAM, L1))
    programs = together.total_bytes_per_core if together is not None else l1
    fits = ended is None or ended.survived
    known = len(draft.history.operations)
    if len(run.operations) > known:
        measured, told = _peaks_before(as_captured(run), known - 1), _peaks_before(draft, known - 1)
        as_told = promised.fits
    else:
        measured, told = (dram, l1), (promised.dram_peak_bytes_per_bank, promised.l1_peak_bytes_per_bank)
        as_told = fits == promised.fits
    as_told &= measured == told if is_exact else all(one <= other for one, other in zip(measured, told, strict=True))
    return Verified(dram, l1, programs, fits, None if tried.not_made else as_told, known, tried.not_made, profile)


def _peaks_before(draft: Draft, operation: int) -> tuple[int, ...]:
    """DRAM and L1, until an operation begins."""
    curves, end = draft.curves(), draft.history.starts[operation]
    return tuple(int(curves[MEMORIES.index(memory)][:end].max(initial=0)) for memory in (DRAM, L1))
