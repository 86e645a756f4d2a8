# SPDX-License-Identifier: Apache-2.0
"""The answer of ``ttmem tune``: the edits that a search finds, proved by running the script with them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ttmem.analysis.budget import PERCENT, Amount, parse_limit, refuse_more_than_a_bank
from ttmem.analysis.failure import RunEnd, run_end
from ttmem.analysis.findings import Finding, findings
from ttmem.base.errors import BadInputError, TtmemError
from ttmem.profile.model import MEMORIES, Profile
from ttmem.tuning.apply_edit import apply_edit
from ttmem.tuning.captured_run import CapturedRun, read_captured_run
from ttmem.tuning.edited_run import AppliedEdit, start_edits
from ttmem.tuning.figures import DRAM, L1, Figures, FrontierPoint, Goal, compute_figures, is_reached
from ttmem.tuning.groups import find_groups
from ttmem.tuning.patch import Patch, build_patch
from ttmem.tuning.programs import update_programs
from ttmem.tuning.search import SearchAnswer, SearchStep, find_edits
from ttmem.tuning.verify import (
    DroppedEdit,
    Verification,
    compare,
    find_certainty,
    find_other_end,
    find_suspect,
    is_further,
    plan_rerun,
    report_no_run,
    run_again,
)

FITS = "fits"
_MOST_ROUNDS = 12
"""Most runs of the script: to tune on where it gets further, or without an edit that broke it."""


@dataclass(frozen=True, eq=False)
class TunedRun:
    """The edits that were found, and their effect."""

    history: CapturedRun
    """The run that the edits are for: the last proof, where it got further than the captured run."""
    steps: tuple[SearchStep, ...]
    reached: bool
    before: Figures
    after: Figures
    frontier: tuple[FrontierPoint, ...]
    findings: tuple[Finding, ...]
    verified: Verification | None
    tried: int
    found: SearchAnswer
    """The last search: its draft describes the edits."""
    captured: CapturedRun
    """The run as it was captured."""

    @property
    def applied(self) -> tuple[AppliedEdit, ...]:
        """Return the edits."""
        return tuple(step.applied for step in self.steps)

    def build_patch(self) -> Patch:
        """Return the edits as a unified diff."""
        return build_patch(self.history, self.applied)

    def compute_patched(self) -> Figures:
        """Return the figures of the run with the edits of the patch alone."""
        left_out = set(self.build_patch().left_out)
        if not left_out:
            return self.after
        draft = start_edits(self.captured)
        for applied in self.applied:
            if str(applied.edit) not in left_out:
                with suppress(TtmemError):  # of an operation that the captured run never came to
                    draft, _ = apply_edit(draft, applied.edit)
        return compute_figures(update_programs(draft)[0])


def tune_run(profile: Profile, goal: Goal, most: int | None) -> TunedRun:
    """Search the edits of a captured run that reach the goal."""
    return _search(read_captured_run(profile), goal, most, frozenset(), tuple(findings(profile)))


def parse_goal(profile: Profile, target: str | None, max_dram: Amount | None, max_l1: Amount | None) -> Goal:
    """Return the goal; limits are converted to bytes per bank of the run's board."""
    if target not in (None, FITS):
        raise BadInputError(f"'{target}' is no target", hint=f"write --target {FITS}, --max-dram 80% or --max-l1 70%")
    pools = read_captured_run(profile).pools
    limits: dict[str, int] = {}
    for memory, amount in ((DRAM, max_dram), (L1, max_l1)):
        if amount is not None:
            limit = parse_limit(amount)
            refuse_more_than_a_bank(memory, limit)
            bank = pools[MEMORIES.index(memory)][2]
            limits[memory] = int(limit.amount * bank / 100 if limit.unit == PERCENT else limit.amount)
    return Goal(target == FITS, limits or None)


def prove_edits(answer: TunedRun, goal: Goal, most: int | None, settings: dict[str, Any]) -> TunedRun:
    """Run the script with the edits; where it gets further, search on there.

    Where it ends otherwise than without the edits, the edit that is to blame is dropped and the search begins anew.
    """
    return _Proof(answer, goal, most, settings).run()


def _search(
    run: CapturedRun, goal: Goal, most: int | None, refused: frozenset[str], known_findings: tuple[Finding, ...]
) -> TunedRun:
    """Search without the edits that were dropped."""
    found = find_edits(run, goal, most=most, start=replace(start_edits(run), refused=refused))
    first = (found.before, found.after, found.frontier)
    return TunedRun(run, found.steps, found.reached, *first, known_findings, None, found.tried, found, run)


class _Proof:
    """The runs of the script with the edits."""

    def __init__(self, answer: TunedRun, goal: Goal, most: int | None, settings: dict[str, Any]) -> None:
        self.first, self.goal, self.most, self.settings = answer, goal, most, settings
        self.dropped: dict[str, DroppedEdit] = {}
        self.ends: set[tuple[str, str]] = set()
        """Error and place of ends that could not be attributed to an edit with certainty."""
        self.rounds = _MOST_ROUNDS

    def run(self) -> TunedRun:
        answer = self.first
        while True:
            answer, broken = self._run_until_broken(answer)
            if broken is None or not self.rounds:
                return answer
            self.dropped[broken.edit] = broken
            again = _search(self.first.history, self.goal, self.most, frozenset(self.dropped), self.first.findings)
            verified = answer.verified
            assert verified is not None
            answer = replace(again, tried=answer.tried + again.tried)
            if not answer.applied:
                return replace(answer, verified=replace(verified, dropped=tuple(self.dropped.values())))

    def _run_until_broken(self, answer: TunedRun) -> tuple[TunedRun, DroppedEdit | None]:
        """Return the answer with its proof, and the edit that broke the script."""
        start, tried = answer.history, plan_rerun(answer.history, answer.applied)
        kept = True
        while self.rounds:
            self.rounds -= 1
            again = run_again(start.profile, tried, **self.settings)
            try:
                run = read_captured_run(again, start.timeline.rank)
            except TtmemError:
                answer = replace(
                    answer, reached=False, verified=self._list_dropped(report_no_run(len(start.operations), again))
                )
                return answer, self._find_broken_edit(answer, again)
            found = compare(
                answer.found.draft,
                answer.after,
                tried,
                confidence=find_certainty(answer.applied),
                run=run,
                programs_doubt=answer.found.programs_doubt,
            )
            kept = kept and found.agrees is not False
            answer = replace(answer, verified=self._list_dropped(found if kept else replace(found, agrees=False)))
            if find_other_end(start, again) is not None and found.agrees is False:
                broken = self._find_broken_edit(answer, again)
                if broken is not None or not self._is_own_end(again):
                    return replace(answer, reached=False), broken
                answer = replace(answer, verified=self._list_dropped(replace(found, agrees=None)))
            if not is_further(answer.history, run):
                break
            answer, more = _search_further(answer, run, self.goal, self.most)
            if not more:
                break
            tried = tried.combine(plan_rerun(run, more))
        verified = answer.verified
        if verified is None or verified.not_made:
            return answer, None  # the effect of edits that were not made is still a prediction
        measured = {DRAM: verified.dram_peak_bytes_per_bank, L1: verified.l1_peak_with_programs_bytes_per_core}
        return replace(answer, reached=is_reached(self.goal, fits=verified.fits, peaks=measured)), None

    def _list_dropped(self, verified: Verification) -> Verification:
        return replace(verified, dropped=tuple(self.dropped.values()))

    def _find_broken_edit(self, answer: TunedRun, again: Profile) -> DroppedEdit | None:
        """Return the edit to drop: one that concerns the line, else the riskiest, once for each end."""
        found = find_suspect(answer.applied, again)
        end = run_end(again)
        if found is None or end is None:
            return None
        applied, is_certain = found
        if not is_certain and (end.error, end.location) in self.ends and not _is_crash(end):
            return None  # the same end without the edit that was dropped for it
        if not is_certain:
            self.ends.add((end.error, end.location))
        return DroppedEdit(str(applied.edit), end.sentence)

    def _is_own_end(self, again: Profile) -> bool:
        end = run_end(again)
        return end is not None and not _is_crash(end) and (end.error, end.location) in self.ends


def _is_crash(end: RunEnd) -> bool:
    """Return whether a signal ended the run: several edits may each free what is read there."""
    return end.error.startswith("SIG")


def _search_further(
    answer: TunedRun, run: CapturedRun, goal: Goal, most: int | None
) -> tuple[TunedRun, list[AppliedEdit]]:
    """Return the answer for a run that got further with its edits, and the additional edits there."""
    draft, more = replace(start_edits(run), refused=answer.found.draft.refused), list[AppliedEdit]()
    for one in answer.applied:
        try:
            draft, applied = apply_edit(draft, one.edit)
        except TtmemError:
            continue  # it is made already, or the tensor is not there any more
        more.append(applied)
    found = find_edits(run, goal, most=most, start=draft)
    steps = {str(step.applied.edit): step for step in (*answer.steps, *found.steps)}
    transferred = tuple(replace(step, applied=_transfer_edit(run, step.applied)) for step in steps.values())
    more += [step.applied for step in found.steps]
    answer = replace(
        answer,
        history=run,
        steps=transferred,
        reached=found.reached,
        after=found.after,
        frontier=(*answer.frontier, *found.frontier[1:]),
        tried=answer.tried + found.tried,
        found=found,
    )
    return answer, more


def _transfer_edit(run: CapturedRun, applied: AppliedEdit) -> AppliedEdit:
    """Return the same edit for the tensors of another run."""
    try:
        return replace(applied, groups=tuple(find_groups(run, applied.edit))) if applied.groups else applied
    except TtmemError:
        return applied  # made in that run already: it is reported as it was found
