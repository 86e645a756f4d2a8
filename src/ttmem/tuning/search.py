# SPDX-License-Identifier: Apache-2.0
"""The smallest set of edits that reaches a target, the cheapest kinds first.

A candidate is judged by what it leaves at the moment that is too full, which is a sum; the allocator is played only for
the set that a step has chosen, because only addresses tell whether the pieces that are free lie together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ttmem.analysis.findings import captures_traces, negligible
from ttmem.base.errors import TtmemError
from ttmem.profile.model import MEMORIES
from ttmem.tuning import edits
from ttmem.tuning.apply_edit import apply, effect
from ttmem.tuning.captured_run import History
from ttmem.tuning.edited_run import BOUNDED, EXACT, L1_NUMBER, UNKNOWN, Applied, Draft, as_captured, launch_columns
from ttmem.tuning.edits import Edit
from ttmem.tuning.figures import DRAM, L1, Figures, FrontierPoint, Goal, _point, figures, is_reached
from ttmem.tuning.programs import with_programs
from ttmem.tuning.proposals import MOST_GROUPS, Proposal, proposals, saved_at
from ttmem.tuning.replay import play

_MOST_SECONDS = 4.0
_MOST_TRIED = 4000


@dataclass(frozen=True, slots=True)
class TooFull:
    """A moment at which a memory holds more than it may."""

    memory: int
    position: int
    excess_bytes_per_bank: int
    is_scattered: bool = False
    """There is room enough, but not in one piece."""


class Exhaustive:
    """Sets of edits, the small ones first."""

    def __init__(
        self,
        too_full: Callable[[Draft], TooFull | None],
        candidates: Callable[[Draft, TooFull], list[tuple[int, Proposal]]],
        extended: Callable[[Draft, Proposal], tuple[Draft, Applied | None]],
    ) -> None:
        self._too_full, self._candidates, self._extended = too_full, candidates, extended
        self._ends = time.monotonic() + _MOST_SECONDS
        self.tried = 0
        self.is_complete = True
        """Nothing was left out so far."""

    def within(self, draft: Draft, count: int) -> list[Proposal] | None:
        """A set of so many edits that reaches the target; None when none was found."""
        full = self._too_full(draft)
        if full is None:
            return []
        if full.is_scattered:
            self.is_complete = False
        if count == 0:
            return None
        found = self._candidates(draft, full)
        if len({id(proposal.group) for _, proposal in found}) >= MOST_GROUPS:
            self.is_complete = False
        if not full.is_scattered and sum(saved for saved, _ in found[:count]) < full.excess_bytes_per_bank:
            return None
        for saved, proposal in found:
            if not full.is_scattered and saved * count < full.excess_bytes_per_bank:
                break  # those behind save no more: not even so many of them are enough
            if self.tried >= _MOST_TRIED or time.monotonic() > self._ends:
                self.is_complete = False
                return None
            self.tried += 1
            after, applied = self._extended(draft, proposal)
            if applied is None:
                continue
            rest = self.within(after, count - 1)
            if rest is not None:
                return [proposal, *rest]
        return None


_TIERS = (
    (edits.FREE,),
    (edits.FREE, edits.INPLACE, edits.REGION),
    (edits.FREE, edits.INPLACE, edits.REGION, edits.MEMORY, edits.ORDER),
    (edits.FREE, edits.INPLACE, edits.REGION, edits.MEMORY, edits.ORDER, edits.DTYPE),
    (edits.FREE, edits.INPLACE, edits.REGION, edits.MEMORY, edits.ORDER, edits.DTYPE, edits.SHARD, edits.CHUNK),
)
_ALL = _TIERS[-1]
_PROMISES = ((EXACT,), (EXACT, BOUNDED), (EXACT, BOUNDED, UNKNOWN))
"""Within each of them: what can be promised best is tried first, however little it saves."""
MOST_EDITS = 24
_LEAST_GAIN = 0.005
"""Of a peak; what lowers it by less is not worth a line."""
_WORTH = {
    edits.FREE: 1.0,
    edits.INPLACE: 0.5,
    edits.REGION: 0.5,
    edits.MEMORY: 0.5,
    edits.ORDER: 0.5,
    edits.DTYPE: 0.4,
    edits.SHARD: 0.3,
    edits.CHUNK: 0.3,
}
"""Without a target: of what an edit brings, what is left when one counts what it costs to make it."""
_WORTH_BY_HAND = 0.3
_PRUNED_BY_PLAYING = 12
_MOST_TOGETHER = 6


@dataclass(frozen=True, slots=True)
class Step:
    """One edit of the answer."""

    applied: Applied
    memory: str
    saves_bytes_per_bank: int


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
    proven_smallest: bool = False
    """No smaller set of the candidates reaches the target: all of them were tried."""
    programs_doubt: str = ""
    """Why what programs need in L1 is not certain; empty when it is."""


class _Allowed(NamedTuple):
    """Which candidates are looked at."""

    kinds: tuple[str, ...]
    confidences: tuple[str, ...]


class _Search:
    def __init__(self, history: History, goal: Goal, most: int) -> None:
        self.history, self.goal, self.most = history, goal, most
        self.tried = 0
        self.passed_over: set[str] = set()
        """The confidences that were not allowed for some candidate since this was cleared."""
        self.is_proven = False

    def run(self, start: Draft) -> Found:
        before = figures(start)
        chosen = self._towards_target(start) if not self.goal.is_open else self._downwards(start)
        draft, after, steps, frontier = self._replayed(start, before, chosen)
        draft, doubt = with_programs(draft)
        if draft.static_bytes:
            after = figures(draft)
            frontier[-1] = _point(len(steps), after)
        reached = self._is_reached(after)
        return Found(draft, tuple(steps), reached, before, after, tuple(frontier), self.tried, self.is_proven, doubt)

    def _is_reached(self, found: Figures) -> bool:
        return is_reached(self.goal, fits=found.fits, peaks={memory: found.peak(memory) for memory in (DRAM, L1)})

    def _towards_target(self, draft: Draft) -> list[Proposal]:
        """Cheap kinds alone while they get there; then, of all that was chosen, what is not needed is left out."""
        best: list[Proposal] = []
        for kinds in _TIERS:
            self.passed_over.clear()
            for confidences in _PROMISES:
                if confidences != _PROMISES[0] and confidences[-1] not in self.passed_over:
                    continue  # the same candidates again
                allowed = _Allowed(kinds, confidences)
                chosen, is_reached = self._greedily(draft, allowed)
                if is_reached:
                    return self._smallest(draft, self._pruned(draft, chosen), allowed)
                best = chosen or best
        return self._effective(draft, best)

    def _effective(self, draft: Draft, chosen: list[Proposal]) -> list[Proposal]:
        """Without the edits that lower no peak, where the limits are out of reach; what fails may need each of them."""
        kept, reached = list(chosen), figures(_with(draft, chosen))
        if not reached.fits:
            return kept
        for needless in list(reversed(chosen))[:_PRUNED_BY_PLAYING]:
            fewer = [one for one in kept if one is not needless]
            found = figures(_with(draft, fewer))
            if found.fits and all(found.peak(memory) <= reached.peak(memory) for memory in (DRAM, L1)):
                kept = fewer
        return kept

    def _greedily(self, draft: Draft, allowed: _Allowed) -> tuple[list[Proposal], bool]:
        """Edit by edit, the best for the first moment that is too full, and whether the target is reached."""
        chosen = list[Proposal]()
        while (full := self._too_full(draft)) is not None:
            proposal = self._best(draft, full, allowed) if len(chosen) < self.most else None
            if proposal is None:
                return chosen, False
            draft = _extended(draft, proposal)[0]
            chosen.append(proposal)
        return chosen, True

    def _smallest(self, draft: Draft, chosen: list[Proposal], allowed: _Allowed) -> list[Proposal]:
        """A smaller set that reaches the target too, where there is one; all of them are tried while time allows."""
        exhaustive = Exhaustive(self._too_full, lambda now, full: self._candidates(now, full, allowed), _extended)
        for count in range(len(chosen)):
            found = exhaustive.within(draft, count)
            if found is not None:
                chosen = found
                break
        self.tried += exhaustive.tried
        self.is_proven = exhaustive.is_complete
        return chosen

    def _proposals(self, draft: Draft, full: TooFull, allowed: _Allowed) -> Iterator[Proposal]:
        """What makes room at a moment."""
        yield from _regions(draft, full.memory, allowed.kinds)
        for proposal in proposals(draft, full.memory, full.position, allowed.kinds):
            if proposal.applied.confidence in allowed.confidences:
                yield proposal
            else:
                self.passed_over.add(proposal.applied.confidence)

    def _candidates(self, draft: Draft, full: TooFull, allowed: _Allowed) -> list[tuple[int, Proposal]]:
        """What makes room at a moment, and how much of it, the most first."""
        found = list(self._proposals(draft, full, allowed))
        saved = [saved_at(draft, one.applied, full.memory, full.position) or _region_gain(draft, one) for one in found]
        return sorted(zip(saved, found, strict=True), key=lambda one: (-one[0], edits.KINDS.index(one[1].edit.kind)))

    def _too_full(self, draft: Draft) -> TooFull | None:
        """The first requirement that does not hold, and the moment of it. Sums are asked first: they are cheap."""
        curves = draft.curves()
        for memory, limit in (self.goal.limits or {}).items():
            number = MEMORIES.index(memory)
            peak = int(curves[number].max(initial=0))
            if peak > limit:
                return TooFull(number, int(curves[number].argmax()), peak - limit)
            totals, _ = draft.programs_curve(curves)
            if memory == L1 and len(totals) and int(totals.max()) > limit:
                row = int(totals.argmax())
                at, _, _ = launch_columns(self.history)
                return TooFull(number, int(at[row]), int(totals[row]) - limit)
        short = None if self.goal.is_open else play(draft).shortfall
        if short is None:
            return None
        missing = short.needed_bytes_per_bank - short.free_bytes_per_bank
        return TooFull(MEMORIES.index(short.memory), short.at, max(missing, 1), is_scattered=missing <= 0)

    def _best(self, draft: Draft, full: TooFull, allowed: _Allowed) -> Proposal | None:
        """What leaves most room at that moment without filling another memory; the cheaper kind on a tie."""
        capacity = [pool[2] for pool in draft.pools]
        limits = {MEMORIES.index(memory): limit for memory, limit in (self.goal.limits or {}).items()}
        curves = draft.curves()
        found: list[tuple[int, int, Proposal]] = []
        for proposal in self._proposals(draft, full, allowed):
            self.tried += 1
            peaks = draft.peak_after(proposal.applied.change, curves)
            if any(
                peaks[other] > limits.get(other, capacity[other]) for other in range(len(peaks)) if other != full.memory
            ):
                continue
            saved = saved_at(draft, proposal.applied, full.memory, full.position) or _region_gain(draft, proposal)
            found.append((-saved, edits.KINDS.index(proposal.edit.kind), proposal))
        best = min(found, key=lambda one: one[:2])[2] if found else None
        if best is None or best.edit.kind != edits.CHUNK:
            return best
        enough = [
            (int(one.edit.value), one)
            for saved, _, one in found
            if one.edit.kind == edits.CHUNK and one.group is best.group and -saved >= full.excess_bytes_per_bank
        ]
        return min(enough, key=lambda one: one[0])[1] if enough else best  # the fewest parts that will do

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
            least = max(_LEAST_GAIN * peak, negligible(draft.pools[memory][2]))
            position = int(curves[memory].argmax())
            for proposal in proposals(draft, memory, position, _ALL):
                self.tried += 1
                if proposal.applied.confidence == UNKNOWN:
                    continue  # nobody asked for it, and the program may not even run with it
                peaks = draft.peak_after(proposal.applied.change, curves)
                if any(after > pool[2] for after, pool in zip(peaks, draft.pools, strict=True)):
                    continue
                gain = peak - peaks[memory]
                lowers = gain > least
                if not lowers:
                    gain = saved_at(draft, proposal.applied, memory, position)
                worth = _WORTH[proposal.edit.kind] if proposal.is_in_source else _WORTH_BY_HAND
                key = (not lowers, -gain / peak * worth, edits.KINDS.index(proposal.edit.kind))
                if gain > least and (best is None or key < best[0]):
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
    return applied.on(draft), applied


def _with(draft: Draft, chosen: list[Proposal]) -> Draft:
    for proposal in chosen:
        draft, _ = _extended(draft, proposal)
    return draft


_TAKEN_FROM = {"L1_SMALL": L1, "TRACE": DRAM}


def _regions(draft: Draft, memory: int, kinds: tuple[str, ...]) -> list[Proposal]:
    """What was set aside of a memory and is not used."""
    found = []
    for name, whole in _TAKEN_FROM.items():
        number = MEMORIES.index(name)
        used = int(draft.curves()[number].max(initial=0))
        if edits.REGION not in kinds or MEMORIES[memory] != whole or used >= draft.pools[number][2]:
            continue
        if name == "TRACE" and captures_traces(draft.history.profile):
            continue  # how much of it a trace takes is not known on a mock
        wanted = used * (draft.pools[number][0] if name == "TRACE" else 1)
        found.append(Proposal(apply(draft, Edit(edits.REGION, name, "", str(wanted)))[1], None))
    return found


def _region_gain(draft: Draft, proposal: Proposal) -> int:
    """What is left of a bank more than before."""
    if proposal.edit.kind != edits.REGION:
        return 0
    number = MEMORIES.index(_TAKEN_FROM[proposal.edit.target.upper()])
    return apply(draft, proposal.edit)[0].pools[number][2] - draft.pools[number][2]


def search(history: History, goal: Goal, *, most: int | None = None, start: Draft | None = None) -> Found:
    """The answer to ``tune``, from the run as it was or from a draft of it."""
    return _Search(history, goal, most or (10 if goal.is_open else MOST_EDITS)).run(start or as_captured(history))
