# SPDX-License-Identifier: Apache-2.0
"""Search the smallest set of edits that reaches a target, cheapest kinds first.

A candidate is evaluated by what it saves at the overfull moment, which is a sum; the allocator is replayed only for
the chosen set, because fragmentation depends on addresses.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ttmem.analysis.findings import captures_traces, negligible
from ttmem.base.errors import TtmemError
from ttmem.profile.model import MEMORIES
from ttmem.tuning import edits
from ttmem.tuning.apply_edit import apply_edit, compute_effect
from ttmem.tuning.captured_run import CapturedRun
from ttmem.tuning.edited_run import (
    BOUNDED,
    EXACT,
    L1_NUMBER,
    UNKNOWN,
    AppliedEdit,
    EditedRun,
    list_launch_columns,
    start_edits,
)
from ttmem.tuning.edits import Edit
from ttmem.tuning.figures import (
    DRAM,
    L1,
    Figures,
    FrontierPoint,
    Goal,
    build_frontier_point,
    compute_figures,
    is_reached,
)
from ttmem.tuning.programs import update_programs
from ttmem.tuning.proposals import MOST_GROUPS, Proposal, list_proposals, measure_saving
from ttmem.tuning.replay import replay

_MOST_SECONDS = 4.0
_MOST_TRIED = 4000


@dataclass(frozen=True, slots=True)
class OverfullMoment:
    """A moment at which a memory exceeds its limit."""

    memory: int
    position: int
    excess_bytes_per_bank: int
    is_scattered: bool = False
    """There is enough free memory, but fragmented."""


_ALL = (edits.FREE, edits.INPLACE, edits.REGION, edits.MEMORY, edits.ORDER, edits.DTYPE, edits.SHARD, edits.CHUNK)
_TIERS = tuple(_ALL[:count] for count in (1, 3, 5, 6, 8))
_PROMISES = ((EXACT,), (EXACT, BOUNDED), (EXACT, BOUNDED, UNKNOWN))
"""Within each tier, the most certain edits are tried first."""
MOST_EDITS = 24
_LEAST_GAIN = 0.005
"""Share of a peak below which an edit is not worth a line."""
_WORTH = {
    edits.FREE: 1.0,
    edits.DTYPE: 0.4,
    edits.SHARD: 0.3,
    edits.CHUNK: 0.3,
    **dict.fromkeys((edits.INPLACE, edits.REGION, edits.MEMORY, edits.ORDER), 0.5),
}
"""Without a target: weight of an edit's saving, by the cost of making it."""
_WORTH_BY_HAND = 0.3
_PRUNED_BY_PLAYING = 12
_MOST_TOGETHER = 6


@dataclass(frozen=True, slots=True)
class SearchStep:
    """An edit of the answer."""

    applied: AppliedEdit
    memory: str
    saves_bytes_per_bank: int


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The answer of a search."""

    draft: EditedRun
    steps: tuple[SearchStep, ...]
    reached: bool
    before: Figures
    after: Figures
    frontier: tuple[FrontierPoint, ...]
    tried: int
    """Number of evaluated candidates."""
    proven_smallest: bool = False
    """All smaller sets of candidates were tried and do not reach the target."""
    programs_doubt: str = ""
    """Why the needs of programs in L1 are uncertain; empty if they are certain."""


class _AllowedEdits(NamedTuple):
    """The kinds and confidences of candidates that are tried."""

    kinds: tuple[str, ...]
    confidences: tuple[str, ...]


class _EditSearch:
    def __init__(self, run: CapturedRun, goal: Goal, most: int) -> None:
        self.history, self.goal, self.most = run, goal, most
        self.tried = 0
        self.passed_over: set[str] = set()
        """Confidences of candidates that were not allowed since this was cleared."""
        self.is_proven = False
        self._ends, self._sets_tried = 0.0, 0

    def run(self, start: EditedRun) -> SearchAnswer:
        before = compute_figures(start)
        chosen = self._reach_target(start) if not self.goal.is_open else self._lower_peaks(start)
        draft, after, steps, frontier = self._replay_steps(start, before, chosen)
        draft, doubt = update_programs(draft)
        if draft.static_bytes:
            after = compute_figures(draft)
            frontier[-1] = build_frontier_point(len(steps), after)
        reached = self._is_reached(after)
        return SearchAnswer(
            draft, tuple(steps), reached, before, after, tuple(frontier), self.tried, self.is_proven, doubt
        )

    def _is_reached(self, found: Figures) -> bool:
        return is_reached(self.goal, fits=found.fits, peaks={memory: found.peak(memory) for memory in (DRAM, L1)})

    def _reach_target(self, draft: EditedRun) -> list[Proposal]:
        """Use only cheap kinds if they suffice; then drop edits that are not needed."""
        best: list[Proposal] = []
        for kinds in _TIERS:
            self.passed_over.clear()
            for confidences in _PROMISES:
                if confidences != _PROMISES[0] and confidences[-1] not in self.passed_over:
                    continue  # the same candidates again
                allowed = _AllowedEdits(kinds, confidences)
                chosen, is_reached = self._choose_greedily(draft, allowed)
                if is_reached:
                    return self._find_smaller_set(draft, self._drop_needless(draft, chosen), allowed)
                best = chosen or best
        return self._drop_ineffective(draft, best)

    def _drop_ineffective(self, draft: EditedRun, chosen: list[Proposal]) -> list[Proposal]:
        """Drop edits that lower no peak if the limits are out of reach and the run fits."""
        kept, reached = list(chosen), compute_figures(_add_edits(draft, chosen))
        if not reached.fits:
            return kept
        for needless in list(reversed(chosen))[:_PRUNED_BY_PLAYING]:
            fewer = [one for one in kept if one is not needless]
            found = compute_figures(_add_edits(draft, fewer))
            if found.fits and all(found.peak(memory) <= reached.peak(memory) for memory in (DRAM, L1)):
                kept = fewer
        return kept

    def _choose_greedily(self, draft: EditedRun, allowed: _AllowedEdits) -> tuple[list[Proposal], bool]:
        """Choose the best edit for the first overfull moment, repeatedly; return whether the target is reached."""
        chosen = list[Proposal]()
        while (full := self._find_overfull(draft)) is not None:
            proposal = self._find_best(draft, full, allowed) if len(chosen) < self.most else None
            if proposal is None:
                return chosen, False
            draft = _add_edit(draft, proposal)[0]
            chosen.append(proposal)
        return chosen, True

    def _find_smaller_set(self, draft: EditedRun, chosen: list[Proposal], allowed: _AllowedEdits) -> list[Proposal]:
        """Find a smaller set that reaches the target, if time allows.

        Whatever reaches the target saves memory at the first overfull moment, so only the edits that do so are tried
        next. That leaves out no set, unless there is enough memory but fragmented: then addresses decide.
        """
        self._ends = time.monotonic() + _MOST_SECONDS
        self.is_proven = True
        for count in range(len(chosen)):
            found = self._find_set(draft, count, allowed)
            if found is not None:
                chosen = found
                break
        self.tried += self._sets_tried
        return chosen

    def _find_set(self, draft: EditedRun, count: int, allowed: _AllowedEdits) -> list[Proposal] | None:
        """Return a set of at most ``count`` edits that reaches the target; None if none was found."""
        full = self._find_overfull(draft)
        if full is None:
            return []
        if full.is_scattered:
            self.is_proven = False
        if count == 0:
            return None
        found = self._rank_candidates(draft, full, allowed)
        if len({id(proposal.group) for _, proposal in found}) >= MOST_GROUPS:
            self.is_proven = False
        if not full.is_scattered and sum(saved for saved, _ in found[:count]) < full.excess_bytes_per_bank:
            return None
        for saved, proposal in found:
            if not full.is_scattered and saved * count < full.excess_bytes_per_bank:
                break  # the following ones save no more, so they are not enough
            if self._sets_tried >= _MOST_TRIED or time.monotonic() > self._ends:
                self.is_proven = False
                return None
            self._sets_tried += 1
            after, applied = _add_edit(draft, proposal)
            if applied is None:
                continue
            rest = self._find_set(after, count - 1, allowed)
            if rest is not None:
                return [proposal, *rest]
        return None

    def _list_proposals(self, draft: EditedRun, full: OverfullMoment, allowed: _AllowedEdits) -> Iterator[Proposal]:
        yield from _list_region_edits(draft, full.memory, allowed.kinds)
        for proposal in list_proposals(draft, full.memory, full.position, allowed.kinds):
            if proposal.applied.confidence in allowed.confidences:
                yield proposal
            else:
                self.passed_over.add(proposal.applied.confidence)

    def _rank_candidates(
        self, draft: EditedRun, full: OverfullMoment, allowed: _AllowedEdits
    ) -> list[tuple[int, Proposal]]:
        """Return edits that free memory at one moment with their savings, largest first."""
        found = list(self._list_proposals(draft, full, allowed))
        saved = [
            measure_saving(draft, one.applied, full.memory, full.position) or _measure_region_gain(draft, one)
            for one in found
        ]
        return sorted(zip(saved, found, strict=True), key=lambda one: (-one[0], edits.KINDS.index(one[1].edit.kind)))

    def _find_overfull(self, draft: EditedRun) -> OverfullMoment | None:
        """Return the first requirement that does not hold, with its moment. Sums come first: they are cheap."""
        curves = draft.curves()
        for memory, limit in (self.goal.limits or {}).items():
            number = MEMORIES.index(memory)
            peak = int(curves[number].max(initial=0))
            if peak > limit:
                return OverfullMoment(number, int(curves[number].argmax()), peak - limit)
            totals, _ = draft.programs_curve(curves)
            if memory == L1 and len(totals) and int(totals.max()) > limit:
                row = int(totals.argmax())
                at, _, _ = list_launch_columns(self.history)
                return OverfullMoment(number, int(at[row]), int(totals[row]) - limit)
        short = None if self.goal.is_open else replay(draft).shortfall
        if short is None:
            return None
        missing = short.needed_bytes_per_bank - short.free_bytes_per_bank
        return OverfullMoment(MEMORIES.index(short.memory), short.at, max(missing, 1), is_scattered=missing <= 0)

    def _find_best(self, draft: EditedRun, full: OverfullMoment, allowed: _AllowedEdits) -> Proposal | None:
        """Return the edit that saves most without filling another memory; the cheaper kind on a tie."""
        capacity = [pool[2] for pool in draft.pools]
        limits = {MEMORIES.index(memory): limit for memory, limit in (self.goal.limits or {}).items()}
        curves = draft.curves()
        found: list[tuple[int, int, Proposal]] = []
        for proposal in self._list_proposals(draft, full, allowed):
            self.tried += 1
            peaks = draft.compute_peaks_with(proposal.applied.change, curves)
            if any(
                peaks[other] > limits.get(other, capacity[other]) for other in range(len(peaks)) if other != full.memory
            ):
                continue
            saved = measure_saving(draft, proposal.applied, full.memory, full.position) or _measure_region_gain(
                draft, proposal
            )
            found.append((-saved, edits.KINDS.index(proposal.edit.kind), proposal))
        best = min(found, key=lambda one: one[:2])[2] if found else None
        if best is None or best.edit.kind != edits.CHUNK:
            return best
        enough = [
            (int(one.edit.value), one)
            for saved, _, one in found
            if one.edit.kind == edits.CHUNK and one.group is best.group and -saved >= full.excess_bytes_per_bank
        ]
        return min(enough, key=lambda one: one[0])[1] if enough else best  # the fewest parts that suffice

    def _drop_needless(self, draft: EditedRun, chosen: list[Proposal]) -> list[Proposal]:
        """Drop edits that are not needed, the least useful first."""
        kept = list(chosen)
        for needless in list(reversed(chosen))[:_PRUNED_BY_PLAYING]:
            fewer = [one for one in kept if one is not needless]
            if self._find_overfull(_add_edits(draft, fewer)) is None:
                kept = fewer
        return kept

    def _lower_peaks(self, draft: EditedRun) -> list[Proposal]:
        """Choose the edit that lowers a peak by the largest share, repeatedly.

        Several moments may be equally full: then one edit lowers nothing, and a few together do.
        """
        chosen: list[Proposal] = []
        together: list[Proposal] = []
        now = draft
        while len(chosen) + len(together) < self.most and len(together) < _MOST_TOGETHER:
            found = self._find_lowering_edit(now)
            if found is None:
                break
            lowers, proposal = found
            now = _add_edit(now, proposal)[0]
            together.append(proposal)
            if lowers:
                chosen, together = chosen + together, []
        return chosen

    def _find_lowering_edit(self, draft: EditedRun) -> tuple[bool, Proposal] | None:
        """Return the best edit, and whether it alone lowers a peak."""
        curves = draft.curves()
        best: tuple[tuple[bool, float, int], Proposal] | None = None
        for memory in (MEMORIES.index(DRAM), L1_NUMBER):
            peak = int(curves[memory].max(initial=0))
            if not peak:
                continue
            least = max(_LEAST_GAIN * peak, negligible(draft.pools[memory][2]))
            position = int(curves[memory].argmax())
            for proposal in list_proposals(draft, memory, position, _ALL):
                self.tried += 1
                if proposal.applied.confidence == UNKNOWN:
                    continue  # the program may not run with it
                peaks = draft.compute_peaks_with(proposal.applied.change, curves)
                if any(after > pool[2] for after, pool in zip(peaks, draft.pools, strict=True)):
                    continue
                gain = peak - peaks[memory]
                lowers = gain > least
                if not lowers:
                    gain = measure_saving(draft, proposal.applied, memory, position)
                worth = _WORTH[proposal.edit.kind] if proposal.is_in_source else _WORTH_BY_HAND
                key = (not lowers, -gain / peak * worth, edits.KINDS.index(proposal.edit.kind))
                if gain > least and (best is None or key < best[0]):
                    best = (key, proposal)
        return (not best[0][0], best[1]) if best is not None else None

    def _replay_steps(
        self, draft: EditedRun, before: Figures, chosen: list[Proposal]
    ) -> tuple[EditedRun, Figures, list[SearchStep], list[FrontierPoint]]:
        """Apply the chosen edits one after the other, and measure each."""
        steps: list[SearchStep] = []
        frontier = [build_frontier_point(0, before)]
        last = before
        for proposal in chosen:
            full = self._find_overfull(draft) if not self.goal.is_open else None
            after, applied = _add_edit(draft, proposal)
            if applied is None:
                continue
            found = compute_figures(after)
            drops = {memory: last.peak(memory) - found.peak(memory) for memory in (DRAM, L1)}
            memory = MEMORIES[full.memory] if full is not None else max(drops, key=lambda name: drops[name])
            saved = measure_saving(draft, applied, full.memory, full.position) if full is not None else drops[memory]
            if proposal.edit.kind == edits.REGION:
                saved = _measure_region_gain(draft, Proposal(applied, None))
            steps.append(SearchStep(applied, memory, saved))
            frontier.append(build_frontier_point(len(steps), found))
            draft, last = after, found
        return draft, last, steps, frontier


def _add_edit(draft: EditedRun, proposal: Proposal) -> tuple[EditedRun, AppliedEdit | None]:
    """Apply a proposal; None if another edit has made it needless."""
    try:
        if not proposal.applied.groups:
            return apply_edit(draft, proposal.edit)
        applied = compute_effect(draft, proposal.edit, proposal.applied.groups)
    except TtmemError:
        return draft, None
    return applied.apply_to(draft), applied


def _add_edits(draft: EditedRun, chosen: list[Proposal]) -> EditedRun:
    for proposal in chosen:
        draft, _ = _add_edit(draft, proposal)
    return draft


_TAKEN_FROM = {"L1_SMALL": L1, "TRACE": DRAM}


def _list_region_edits(draft: EditedRun, memory: int, kinds: tuple[str, ...]) -> list[Proposal]:
    """List edits of regions that are reserved and not used."""
    found = []
    for name, whole in _TAKEN_FROM.items():
        number = MEMORIES.index(name)
        used = int(draft.curves()[number].max(initial=0))
        if edits.REGION not in kinds or MEMORIES[memory] != whole or used >= draft.pools[number][2]:
            continue
        if name == "TRACE" and captures_traces(draft.history.profile):
            continue  # the size of a trace is unknown on a mock
        wanted = used * (draft.pools[number][0] if name == "TRACE" else 1)
        found.append(Proposal(apply_edit(draft, Edit(edits.REGION, name, "", str(wanted)))[1], None))
    return found


def _measure_region_gain(draft: EditedRun, proposal: Proposal) -> int:
    """Return the bytes per bank that an edit of a region saves."""
    if proposal.edit.kind != edits.REGION:
        return 0
    number = MEMORIES.index(_TAKEN_FROM[proposal.edit.target.upper()])
    return apply_edit(draft, proposal.edit)[0].pools[number][2] - draft.pools[number][2]


def find_edits(
    run: CapturedRun, goal: Goal, *, most: int | None = None, start: EditedRun | None = None
) -> SearchAnswer:
    """Search edits for a run, starting from it or from an edited one."""
    return _EditSearch(run, goal, most or (10 if goal.is_open else MOST_EDITS)).run(start or start_edits(run))
