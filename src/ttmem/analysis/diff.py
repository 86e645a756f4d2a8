# SPDX-License-Identifier: Apache-2.0
"""What changed between two profiles, and which operation and tensor did it.

The peaks of two runs may lie at different moments, so tensors are compared by the operation that made them: larger
than before, new, or the same as before but now alive at the peak.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from ttmem.analysis._alignment import partners, result_types
from ttmem.analysis._same_model import counterparts, is_other_program
from ttmem.analysis.architecture import different_places
from ttmem.analysis.consumers import LiveSet, alive_at_peak
from ttmem.analysis.distribution import distribution
from ttmem.analysis.lifetimes import TensorLife
from ttmem.analysis.peaks import Peak
from ttmem.analysis.programs_l1 import ProgramPeak, programs_peak
from ttmem.profile import MEMORIES, Profile, TensorType

LARGER, NEW, ALIVE_LONGER = "larger", "new", "alive longer"
SMALLER, GONE, FREED_EARLIER = "smaller", "gone", "freed earlier"
_ALIKE = 1.5
"""Elements of a tensor over those of its counterpart in another program, from which on it is another tensor."""
_SUSPICION = (LARGER, NEW, ALIVE_LONGER, SMALLER, GONE, FREED_EARLIER)
"""A tensor that outgrew itself explains more than one that another moment merely found alive."""


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """One memory's peak in both profiles; None where a profile does not show it."""

    memory: str
    before_peak: Peak | None
    after_peak: Peak | None
    unattributed_delta_bytes_per_bank: int
    """Part of the change that belongs to no known tensor."""
    error_bytes: int
    """How far rounding of both figures can move the difference."""
    before_programs: ProgramPeak | None = None
    after_programs: ProgramPeak | None = None
    """L1 with the programs' own buffers; both or none, because a log does not know them."""

    @property
    def before_bytes_per_bank(self) -> int | None:
        return self.before_peak.peak_bytes_per_bank if self.before_peak else None

    @property
    def after_bytes_per_bank(self) -> int | None:
        return self.after_peak.peak_bytes_per_bank if self.after_peak else None

    @property
    def before_device_bytes(self) -> int | None:
        return self.before_peak.peak_bytes_per_bank * self.before_peak.banks if self.before_peak else None

    @property
    def after_device_bytes(self) -> int | None:
        return self.after_peak.peak_bytes_per_bank * self.after_peak.banks if self.after_peak else None

    @property
    def delta_bytes_per_bank(self) -> int:
        return (self.after_bytes_per_bank or 0) - (self.before_bytes_per_bank or 0)

    @property
    def delta_percent(self) -> float | None:
        """Against the first profile; None when that was zero and the second is not."""
        return _percent(self.delta_bytes_per_bank, self.before_bytes_per_bank)

    @property
    def programs_delta_bytes(self) -> int | None:
        """Per core, tensors and programs together; None where a profile does not know what programs take."""
        if self.before_programs is None or self.after_programs is None:
            return None
        return self.after_programs.total_bytes_per_core - self.before_programs.total_bytes_per_core

    @property
    def judged_delta_bytes(self) -> int:
        """What a limit is held against: L1 with programs where both profiles know it, else the allocator's figure."""
        return self.delta_bytes_per_bank if self.programs_delta_bytes is None else self.programs_delta_bytes

    @property
    def judged_delta_percent(self) -> float | None:
        if self.before_programs is None or self.programs_delta_bytes is None:
            return self.delta_percent
        return _percent(self.programs_delta_bytes, self.before_programs.total_bytes_per_core)

    def grows_over(self, limit: float, *, in_percent: bool) -> bool:
        """Whether the judged figure grew by more than so many percent, or bytes per bank."""
        if self.judged_delta_bytes <= 0:
            return False
        if not in_percent:
            return self.judged_delta_bytes > limit
        return self.judged_delta_percent is None or self.judged_delta_percent > limit


def _percent(delta: int, before: int | None) -> float | None:
    if not delta:
        return 0.0
    return 100.0 * delta / before if before else None


@dataclass(frozen=True, slots=True)
class TensorChange:
    """One tensor that adds to (or relieves) a peak, with the operation that makes it."""

    memory: str
    reason: str
    """``larger``, ``new``, ``alive longer``; ``smaller``, ``gone``, ``freed earlier``."""
    tensor: str
    before: TensorType | None
    after: TensorType | None
    delta_bytes: int
    """Padded bytes on one chip, against the tensor's former size."""
    delta_bytes_per_bank: int
    """What it adds to the peak."""
    operation_index: int | None
    """In the second profile; in the first one for what is gone."""
    operation_name: str
    location: str
    program: str
    counterpart: str = ""
    """What the other profile calls it; empty where that is the same, or where it has none."""

    def describe(self) -> str:
        """``4x32x64 bfloat16 (was 2x32x64 bfloat16)``."""
        if self.before and self.after and self.before != self.after:
            return f"{self.after.describe()} (was {self.before.describe()})"
        present = self.after or self.before
        return present.describe() if present else ""


@dataclass(frozen=True, slots=True)
class CountChange:
    """How often an operation ran."""

    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class MemoryDiff:
    """Everything that is different; all lists are empty for two profiles of the same behaviour."""

    before_name: str
    after_name: str
    memories: dict[str, MemoryChange]
    grew: tuple[TensorChange, ...]
    """First suspect first."""
    shrank: tuple[TensorChange, ...]
    operation_counts: tuple[CountChange, ...]
    """Operations that ran more or less often, largest difference first."""
    pairs: tuple[tuple[int, int], ...] = ()
    """Operations of both that are the same step of a model, where two different programs ran it."""
    remarks: tuple[str, ...] = ()
    """Why the figures may not compare: another board, chip or way to open the device."""

    def remarks_about(self, memory: str) -> list[str]:
        """Those that concern a memory: all but what is said of another one."""
        others = [other for other in MEMORIES if other != memory]
        return [text for text in self.remarks if not any(text.startswith((f"{o} ", f"a {o} ")) for o in others)]

    def grows_over(self, limit: float, *, in_percent: bool = True) -> bool:
        """Whether any memory's peak grew by more than this: the regression of ``--fail-on``."""
        return any(change.grows_over(limit, in_percent=in_percent) for change in self.memories.values())


def diff(before: Profile, after: Profile) -> MemoryDiff:
    """Compare ``after`` with ``before``."""
    memories: dict[str, MemoryChange] = {}
    changes: list[TensorChange] = []
    programs = programs_peak(before), programs_peak(after)
    steps = _Steps(before, after) if is_other_program(before, after) else None
    for memory in MEMORIES:
        first, second = alive_at_peak(before, memory), alive_at_peak(after, memory)
        if first is None and second is None:
            continue
        changes += _Comparison(memory, before, after, first, second, steps).changes()
        left_before, left_after = (live.unattributed_bytes_per_bank if live else 0 for live in (first, second))
        memories[memory] = MemoryChange(
            memory,
            before_peak=first.peak if first else None,
            after_peak=second.peak if second else None,
            unattributed_delta_bytes_per_bank=left_after - left_before,
            error_bytes=before.source.state_error_bytes + after.source.state_error_bytes,
            before_programs=programs[0] if memory == "L1" and all(programs) else None,
            after_programs=programs[1] if memory == "L1" and all(programs) else None,
        )
    changes.sort(key=lambda change: (_SUSPICION.index(change.reason), -abs(change.delta_bytes)))
    return MemoryDiff(
        before_name=before.name,
        after_name=after.name,
        memories=memories,
        grew=tuple(change for change in changes if change.reason in _SUSPICION[:3]),
        shrank=tuple(change for change in changes if change.reason in _SUSPICION[3:]),
        operation_counts=_count_changes(before, after),
        pairs=tuple(steps.pairs(0, 0)) if steps else (),
        remarks=different_places(before, after),
    )


def _count_changes(before: Profile, after: Profile) -> tuple[CountChange, ...]:
    first, second = distribution(before).by_name, distribution(after).by_name
    changes = [CountChange(name, first.get(name, 0), second.get(name, 0)) for name in {**first, **second}]
    changes = [change for change in changes if change.before != change.after]
    return tuple(sorted(changes, key=lambda change: (-abs(change.after - change.before), change.name)))


class _Alive(NamedTuple):
    """A live tensor with what identifies it across profiles."""

    life: TensorLife
    form: int | None
    """The operation that made it; None for inputs and weights, which are known by name."""
    result: int
    """Which result of that operation."""


class _Steps:
    """Two different programs of one model: which operation of the one is which of the other."""

    def __init__(self, before: Profile, after: Profile) -> None:
        self._before, self._after = before, after
        self._known: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def pairs(self, first: int, second: int) -> list[tuple[int, int]]:
        """Of these timelines of the two."""
        if not (first < len(self._before.timelines) and second < len(self._after.timelines)):
            return []
        if (first, second) not in self._known:
            timelines = self._before.timelines[first], self._after.timelines[second]
            found = counterparts(self._before, timelines[0], self._after, timelines[1])
            self._known[first, second] = found
        return self._known[first, second]


class _Comparison:
    """The tensors alive at one memory's peak in both profiles, paired up."""

    def __init__(
        self,
        memory: str,
        before: Profile,
        after: Profile,
        live_before: LiveSet | None,
        live_after: LiveSet | None,
        steps: _Steps | None = None,
    ) -> None:
        self._memory, self._before = memory, before
        self._same_step: dict[int, int] | None = None
        if steps is not None and live_before is not None and live_after is not None:
            pairs = steps.pairs(live_before.peak.timeline, live_after.peak.timeline)
            self._same_step = {second: first for first, second in pairs}
        self._gone = _identified(before, live_before)
        self._arrived = _identified(after, live_after)
        names = {item.life.producer_name for item in (*self._gone, *self._arrived) if item.form is not None}
        self._partner = partners(before, after, names) if names else {}
        self._known_before = set(self._partner.values())

    def changes(self) -> list[TensorChange]:
        if self._same_step is not None:
            return self._changes_of_a_model(self._same_step)
        same = self._pair(
            lambda item: (item.form, item.result) if item.form is not None else item.life.name,
            lambda item: (self._partner.get(item.form, -1), item.result) if item.form is not None else item.life.name,
        )
        found = [self._resized(old, new) for old, new in same]
        # Another moment of the run holds other tensors of the same kind: they replace each other byte for byte.
        self._pair(lambda item: (item.life.producer_name, item.life.type))
        self._pair(lambda item: item.life.type)
        found += [self._arrival(item) for item in self._arrived]
        found += [self._departure(item) for item in self._gone]
        return [change for change in found if change is not None]

    def _changes_of_a_model(self, same_step: dict[int, int]) -> list[TensorChange]:
        """Another program of the same model: what belongs to the same step and has about as many elements is the same.

        A weight belongs to the operation that reads it, anything else to the one that makes it.
        """
        waiting: dict[int, list[_Alive]] = defaultdict(list)
        for item in self._gone:
            if (step := _step_of(item.life)) is not None:
                waiting[step].append(item)
        pairs: list[tuple[_Alive, _Alive]] = []
        for item in sorted(self._arrived, key=lambda item: -_elements(item)):
            candidates = waiting.get(same_step.get(_step_of(item.life) or -1, -1), [])
            best = min(candidates, key=lambda other: _ratio(item, other), default=None)
            if best is not None and _ratio(item, best) <= _ALIKE:
                candidates.remove(best)
                pairs.append((best, item))
        taken = {id(item) for pair in pairs for item in pair}
        self._gone = [item for item in self._gone if id(item) not in taken]
        self._arrived = [item for item in self._arrived if id(item) not in taken]
        pairs += self._pair(lambda item: (item.life.weight, _elements(item)))
        found = [self._resized(old, new) for old, new in pairs]
        found += [self._arrival(item) for item in self._arrived]
        found += [self._departure(item) for item in self._gone]
        return [change for change in found if change is not None]

    def _pair(
        self, key_before: Callable[[_Alive], Hashable], key_after: Callable[[_Alive], Hashable] | None = None
    ) -> list[tuple[_Alive, _Alive]]:
        """Take pairs with equal keys out of both sides; several with one key pair up in order."""
        waiting: dict[Hashable, deque[_Alive]] = defaultdict(deque)
        for item in self._gone:
            waiting[key_before(item)].append(item)
        pairs, left = [], []
        for item in self._arrived:
            if same := waiting.get((key_after or key_before)(item)):
                pairs.append((same.popleft(), item))
            else:
                left.append(item)
        taken = {id(old) for old, _ in pairs}
        self._gone = [item for item in self._gone if id(item) not in taken]
        self._arrived = left
        return pairs

    def _resized(self, old: _Alive, new: _Alive) -> TensorChange | None:
        delta = new.life.type.padded_bytes - old.life.type.padded_bytes
        per_bank = new.life.bytes_per_bank - old.life.bytes_per_bank
        if not delta and not per_bank:
            return None
        reason = LARGER if (per_bank, delta) > (0, 0) else SMALLER
        other = old.life.name if old.life.name != new.life.name else ""
        return self._change(reason, new, old.life.type, new.life.type, delta, per_bank, other)

    def _arrival(self, item: _Alive) -> TensorChange:
        now, former = item.life.type, self._former_type(item)
        reason, delta = ALIVE_LONGER if former else NEW, now.padded_bytes
        if former and now.padded_bytes > former.padded_bytes:
            reason, delta = LARGER, now.padded_bytes - former.padded_bytes
        return self._change(reason, item, former, now, delta, item.life.bytes_per_bank)

    def _departure(self, item: _Alive) -> TensorChange:
        reason, was = FREED_EARLIER if item.form in self._known_before else GONE, item.life.type
        return self._change(reason, item, was, None, -was.padded_bytes, -item.life.bytes_per_bank)

    def _former_type(self, item: _Alive) -> TensorType | None:
        """What the same operation produced in the first profile, alive at its peak or not."""
        if item.form not in self._partner:
            return None
        types = result_types(self._before, self._partner[item.form])
        return types[item.result] if item.result < len(types) else None

    def _change(
        self,
        reason: str,
        item: _Alive,
        old: TensorType | None,
        new: TensorType | None,
        delta: int,
        per_bank: int,
        counterpart: str = "",
    ) -> TensorChange:
        return TensorChange(
            memory=self._memory,
            reason=reason,
            tensor=item.life.name,
            before=old,
            after=new,
            delta_bytes=delta,
            delta_bytes_per_bank=per_bank,
            operation_index=item.life.producer_index,
            operation_name=item.life.producer_name,
            location=item.life.location,
            program=item.life.program,
            counterpart=counterpart,
        )


def _step_of(life: TensorLife) -> int | None:
    """The operation that a tensor belongs to."""
    if life.weight or life.producer_index is None:
        return life.last_use_index if life.last_use_index is not None else life.producer_index
    return life.producer_index


def _elements(item: _Alive) -> int:
    return prod(item.life.type.shape)


def _ratio(one: _Alive, other: _Alive) -> float:
    """How many times the larger has the elements of the smaller; a prepared weight is rounded up in its own way."""
    small, large = sorted((_elements(one), _elements(other)))
    return large / small if small else float(large + 1)


def _identified(profile: Profile, live: LiveSet | None) -> list[_Alive]:
    """In order of production, so that equal identities of both profiles pair up first with first."""
    if live is None:
        return []
    timeline = profile.timelines[live.peak.timeline]
    found = []
    for life in sorted(live.tensors, key=lambda life: (life.first_index, life.name)):
        position = -1 if life.producer_index is None else life.producer_index - timeline.first_index
        form = int(timeline.form[position]) if 0 <= position < len(timeline.form) else None
        _, _, result = life.name.partition("#")
        found.append(_Alive(life, form, int(result) if result.isdecimal() else 0))
    return found
