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
from ttmem.profile import Profile
from ttmem.tune import edits
from ttmem.tune.applying import EXACT, Applied
from ttmem.tune.figures import Figures
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
    agrees: bool
    """Equal to the byte where every edit is exact, not more than promised otherwise."""
    profile: Profile


@dataclass(frozen=True, slots=True)
class Plan:
    """How a script is run again: what changes at which operation, and how its device is opened."""

    calls: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] | None = None

    def then(self, other: Plan) -> Plan:
        """Both."""
        return Plan((*self.calls, *other.calls), {**(self.settings or {}), **(other.settings or {})})


def can_verify(applied: Applied) -> bool:
    """Whether an edit can be made at a call while the program runs."""
    return applied.edit.kind in (*_AT_CALLS, edits.REGION, edits.BOARD)


def plan(history: History, chosen: Sequence[Applied]) -> Plan:
    """What the recorder is told."""
    calls: list[Mapping[str, Any]] = []
    settings: dict[str, Any] = {}
    for applied in chosen:
        edit = applied.edit
        if edit.kind == edits.BOARD:
            settings["board"] = edit.value
        elif edit.kind == edits.REGION:
            settings[_REGIONS[edit.target.upper()]] = int(edit.value)
        elif edit.kind not in _AT_CALLS:
            raise BadInputError(
                f"'{edit}' cannot be tried while the program runs", hint="make it by hand, and run the script again"
            )
        for group in applied.groups:
            if edit.kind == edits.FREE:
                calls += _frees(history, applied, dict(free_point(history, group).after))
            else:
                value = edit.value.upper() if edit.kind == edits.MEMORY else edit.value
                for life in group.lives:
                    if life.producer >= 0 and life.number in applied.change:
                        calls.append({"kind": edit.kind, "operation": life.producer, "value": value})
    return Plan(tuple(calls), settings)


def _frees(history: History, applied: Applied, after: Mapping[int, int]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for number, operation in after.items():
        life = history.lives[number]
        if number in applied.change and life.producer >= 0:
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


def compare(promised: Figures, confidences: Sequence[str], profile: Profile) -> Verified:
    """What was captured with what was promised."""
    found, together, ended = peaks(profile), programs_peak(profile), failure(profile)
    dram, l1 = (found[memory].peak_bytes_per_bank if memory in found else 0 for memory in ("DRAM", "L1"))
    programs = together.total_bytes_per_core if together is not None else l1
    measured, told = (dram, l1), (promised.dram_peak_bytes_per_bank, promised.l1_peak_bytes_per_bank)
    exact = all(confidence == EXACT for confidence in confidences)
    agrees = measured == told if exact else all(one <= other for one, other in zip(measured, told, strict=True))
    fits = ended is None or ended.survived
    return Verified(dram, l1, programs, fits, agrees and fits == promised.fits, profile)
