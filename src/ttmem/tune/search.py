# SPDX-License-Identifier: Apache-2.0
"""The smallest set of edits that reaches a target, the cheapest kinds first.

A candidate is judged by what it leaves at the moment that is too full, which is a sum; the allocator is played only for
the set that a step has chosen, because only addresses tell whether the pieces that are free lie together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ttmem._errors import TtmemError
from ttmem.profile import MEMORIES
from ttmem.tune import edits
from ttmem.tune.applying import Applied, apply, effect
from ttmem.tune.draft import L1_NUMBER, Draft, as_captured, launch_columns
from ttmem.tune.edits import Edit
from ttmem.tune.figures import DRAM, L1, Figures, figures
from ttmem.tune.history import History
from ttmem.tune.playing import play
from ttmem.tune.proposals import Proposal, proposals, saved_at

_TIERS = (
    (edits.FREE,),
    (edits.FREE, edits.INPLACE, edits.REGION),
    (edits.FREE, edits.INPLACE, edits.REGION, edits.MEMORY, edits.ORDER),
    (edits.FREE, edits.INPLACE, edits.REGION, edits.MEMORY, edits.ORDER, edits.DTYPE),
    (edits.FREE, edits.INPLACE, edits.REGION, edits.MEMORY, edits.ORDER, edits.DTYPE, edits.SHARD, edits.CHUNK),
)
_ALL = _TIERS[-1]
MOST_EDITS = 24
_LEAST_GAIN = 0.005
"""Of a peak; what lowers it by less is not worth a line."""
_PRUNED_BY_PLAYING = 12
_MOST_TOGETHER = 6


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be reached; with neither, the peaks are lowered as far as it goes."""

    fits: bool = False
    limits: Mapping[str, int] | None = None
    """Highest peak by memory (DRAM, L1), bytes per bank."""

    @property
    def is_open(self) -> bool:
        """No target: the edits that lower the peaks most."""
        return not self.fits and not self.limits


@dataclass(frozen=True, slots=True)
class Step:
    """One edit of the answer."""

    applied: Applied
    memory: str
    saves_bytes_per_bank: int


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """How low the peaks are with so many edits."""

    edits: int
    dram_peak_bytes_per_bank: int
    l1_peak_with_programs_bytes_per_core: int
    fits: bool


@dataclass(frozen=True, slots=True)
class Found:
    """The answer of a search."""

    draft: Draft
    steps: tuple[Step, ...]
    reached: bool
    before: Figures
    after: Figures
    frontier: tuple[FrontierPoint, ...]
    tried: int
    """Candidates that were judged."""


@dataclass(frozen=True, slots=True)
class _TooFull:
    memory: int
    position: int
    excess_bytes_per_bank: int


def is_reached(goal: Goal, *, fits: bool, peaks: Mapping[str, int]) -> bool:
    """What did not come to its end says nothing of its peak."""
    if not goal.is_open and not fits:
        return False
    return all(peaks[memory] <= limit for memory, limit in (goal.limits or {}).items())


class _Search:
    def __init__(self, history: History, goal: Goal, most: int) -> None:
        self.history, self.goal, self.most = history, goal, most
        self.tried = 0

    def run(self, start: Draft) -> Found:
        before = figures(start)
        chosen = self._towards_target(start) if not self.goal.is_open else self._downwards(start)
        draft, after, steps, frontier = self._replayed(start, before, chosen)
        return Found(draft, tuple(steps), self._is_reached(after), before, after, tuple(frontier), self.tried)

    def _is_reached(self, found: Figures) -> bool:
        return is_reached(self.goal, fits=found.fits, peaks={memory: found.peak(memory) for memory in (DRAM, L1)})

    def _towards_target(self, draft: Draft) -> list[Proposal]:
        """Cheap kinds alone while they get there; then, of all that was chosen, what is not needed is left out."""
        best: list[Proposal] = []
        for kinds in _TIERS:
            chosen, now = list[Proposal](), draft
            while len(chosen) < self.most:
                full = self._too_full(now)
                if full is None:
                    return self._pruned(draft, chosen)
                proposal = self._best(now, full, kinds)
                if proposal is None:
                    break
                now = _extended(now, proposal)[0]
                chosen.append(proposal)
            if self._too_full(now) is None:
                return self._pruned(draft, chosen)
            best = chosen or best
        return best

    def _too_full(self, draft: Draft) -> _TooFull | None:
        """The first requirement that does not hold, and the moment of it. Sums are asked first: they are cheap."""
        curves = draft.curves()
        for memory, limit in (self.goal.limits or {}).items():
            number = MEMORIES.index(memory)
            peak = int(curves[number].max(initial=0))
            if peak > limit:
                return _TooFull(number, int(curves[number].argmax()), peak - limit)
            totals, _ = draft.programs_curve(curves)
            if memory == L1 and len(totals) and int(totals.max()) > limit:
                row = int(totals.argmax())
                at, _, _ = launch_columns(self.history)
                return _TooFull(number, int(at[row]), int(totals[row]) - limit)
        short = None if self.goal.is_open else play(draft).shortfall
        if short is None:
            return None
        return _TooFull(MEMORIES.index(short.memory), short.at, short.needed_bytes_per_bank)

    def _best(self, draft: Draft, full: _TooFull, kinds: tuple[str, ...]) -> Proposal | None:
        """What leaves most room at that moment without filling another memory; the cheaper kind on a tie."""
        capacity = [pool[2] for pool in draft.pools]
        limits = {MEMORIES.index(memory): limit for memory, limit in (self.goal.limits or {}).items()}
        curves = draft.curves()
        found: list[tuple[int, int, Proposal]] = []
        for proposal in [*proposals(draft, full.memory, full.position, kinds), *_regions(draft, full.memory, kinds)]:
            self.tried += 1
            peaks = draft.peak_after(proposal.applied.change, curves)
            if any(
                peaks[other] > limits.get(other, capacity[other]) for other in range(len(peaks)) if other != full.memory
            ):
                continue
            saved = saved_at(draft, proposal.applied, full.memory, full.position) or _region_gain(draft, proposal)
            found.append((-saved, edits.KINDS.index(proposal.edit.kind), proposal))
        return min(found, key=lambda one: one[:2])[2] if found else None

    def _pruned(self, draft: Draft, chosen: list[Proposal]) -> list[Proposal]:
        """Without the edits that are not needed, the least useful looked at first."""
        kept = list(chosen)
        for needless in list(reversed(chosen))[:_PRUNED_BY_PLAYING]:
            fewer = [one for one in kept if one is not needless]
            if self._too_full(_with(draft, fewer)) is None:
                kept = fewer
        return kept

    def _downwards(self, draft: Draft) -> list[Proposal]:
        """Edit by edit, the one that lowers a peak most, as a share of it.

        Several moments may be as full as the fullest: then one edit lowers nothing, and a few together do.
        """
        chosen: list[Proposal] = []
        together: list[Proposal] = []
        now = draft
        while len(chosen) + len(together) < self.most and len(together) < _MOST_TOGETHER:
            found = self._lowering(now)
            if found is None:
                break
            lowers, proposal = found
            now = _extended(now, proposal)[0]
            together.append(proposal)
            if lowers:
                chosen, together = chosen + together, []
        return chosen

    def _lowering(self, draft: Draft) -> tuple[bool, Proposal] | None:
        """The best edit, and whether a peak is lower with it alone."""
        curves = draft.curves()
        best: tuple[tuple[bool, float, int], Proposal] | None = None
        for memory in (MEMORIES.index(DRAM), L1_NUMBER):
            peak = int(curves[memory].max(initial=0))
            if not peak:
                continue
            position = int(curves[memory].argmax())
            for proposal in proposals(draft, memory, position, _ALL):
                self.tried += 1
                peaks = draft.peak_after(proposal.applied.change, curves)
                if any(after > pool[2] for after, pool in zip(peaks, draft.pools, strict=True)):
                    continue
                gain = (peak - peaks[memory]) / peak
                lowers = gain > _LEAST_GAIN
                if not lowers:
                    gain = saved_at(draft, proposal.applied, memory, position) / peak
                key = (not lowers, -gain, edits.KINDS.index(proposal.edit.kind))
                if gain > _LEAST_GAIN and (best is None or key < best[0]):
                    best = (key, proposal)
        return (not best[0][0], best[1]) if best is not None else None

    def _replayed(
        self, draft: Draft, before: Figures, chosen: list[Proposal]
    ) -> tuple[Draft, Figures, list[Step], list[FrontierPoint]]:
        """The chosen edits one after the other, with what each of them brings."""
        steps: list[Step] = []
        frontier = [_point(0, before)]
        last = before
        for proposal in chosen:
            full = self._too_full(draft) if not self.goal.is_open else None
            after, applied = _extended(draft, proposal)
            if applied is None:
                continue
            found = figures(after)
            drops = {memory: last.peak(memory) - found.peak(memory) for memory in (DRAM, L1)}
            memory = MEMORIES[full.memory] if full is not None else max(drops, key=lambda name: drops[name])
            saved = saved_at(draft, applied, full.memory, full.position) if full is not None else drops[memory]
            if proposal.edit.kind == edits.REGION:
                saved = _region_gain(draft, Proposal(applied, None))
            steps.append(Step(applied, memory, saved))
            frontier.append(_point(len(steps), found))
            draft, last = after, found
        return draft, last, steps, frontier


def _extended(draft: Draft, proposal: Proposal) -> tuple[Draft, Applied | None]:
    """One more edit, of the very tensors that were looked at; None when another one has made it needless."""
    try:
        if not proposal.applied.groups:
            return apply(draft, proposal.edit)
        applied = effect(draft, proposal.edit, proposal.applied.groups)
    except TtmemError:
        return draft, None
    return draft.with_change(applied.change, applied.written_over), applied


def _with(draft: Draft, chosen: list[Proposal]) -> Draft:
    for proposal in chosen:
        draft, _ = _extended(draft, proposal)
    return draft


def _regions(draft: Draft, memory: int, kinds: tuple[str, ...]) -> list[Proposal]:
    """L1 that was set aside for small buffers and is not used."""
    name, number = "L1_SMALL", MEMORIES.index("L1_SMALL")
    size = draft.pools[number][2]
    if edits.REGION not in kinds or memory != L1_NUMBER or not size:
        return []
    used = int(draft.curves()[number].max(initial=0))
    if used >= size:
        return []
    return [Proposal(apply(draft, Edit(edits.REGION, name, "", str(used)))[1], None)]


def _region_gain(draft: Draft, proposal: Proposal) -> int:
    edit = proposal.edit
    return draft.pools[MEMORIES.index("L1_SMALL")][2] - int(edit.value) if edit.kind == edits.REGION else 0


def _point(count: int, found: Figures) -> FrontierPoint:
    return FrontierPoint(count, found.dram_peak_bytes_per_bank, found.l1_peak_with_programs_bytes_per_core, found.fits)


def search(history: History, goal: Goal, *, most: int | None = None, start: Draft | None = None) -> Found:
    """The answer to ``tune``, from the run as it was or from a draft of it."""
    return _Search(history, goal, most or (10 if goal.is_open else MOST_EDITS)).run(start or as_captured(history))
