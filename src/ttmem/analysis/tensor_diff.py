# SPDX-License-Identifier: Apache-2.0
"""Pair the tensors alive at a peak in two profiles, with the contribution of each to the difference.

The peaks of two runs may lie at different moments, so tensors are compared by the operation that made them: larger
than before, new, or the same as before but now alive at the peak.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import NamedTuple

from ttmem.analysis.alignment import pair_forms, result_types
from ttmem.analysis.consumers import LiveSet
from ttmem.analysis.lifetimes import TensorLife
from ttmem.profile.model import Profile
from ttmem.profile.tensor_type import TensorType

LARGER, NEW, ALIVE_LONGER = "larger", "new", "alive longer"
SMALLER, GONE, FREED_EARLIER = "smaller", "gone", "freed earlier"
SUSPICION = (LARGER, NEW, ALIVE_LONGER, SMALLER, GONE, FREED_EARLIER)
"""A tensor that outgrew itself explains more than one that another moment merely found alive."""
_ALIKE = 1.5
"""Elements of a tensor over those of its counterpart in another program, from which on it is another tensor."""
_MOST_PARTS, _MOST_NEAR = 4, 24
"""Weights that one may be made of, and those near it that are tried."""
_REACH = 2
"""Steps that may come between: a gate's activation comes before the matmul that is fused with it."""


@dataclass(frozen=True, slots=True)
class TensorChange:
    """A tensor that adds to (or relieves) a peak, with the operation that makes it."""

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
    """In the second profile; in the first one for freed tensors."""
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


class _LiveTensor(NamedTuple):
    """A live tensor with what identifies it across profiles."""

    life: TensorLife
    form: int | None
    """The operation that made it; None for inputs and weights, which are known by name."""
    result: int
    """Which result of that operation."""


class Comparison:
    """The tensors alive at one memory's peak in both profiles, paired up."""

    def __init__(
        self,
        memory: str,
        before: Profile,
        after: Profile,
        live_before: LiveSet | None,
        live_after: LiveSet | None,
        same_steps: Sequence[tuple[int, int]] = (),
    ) -> None:
        """``same_steps``: operations that are the same step of a model, where two different programs ran it."""
        self._memory, self._before = memory, before
        self._same_steps = same_steps
        self._gone = _identify(before, live_before)
        self._arrived = _identify(after, live_after)
        names = {item.life.producer_name for item in (*self._gone, *self._arrived) if item.form is not None}
        self._partner = pair_forms(before, after, names) if names else {}
        self._known_before = set(self._partner.values())

    def changes(self) -> list[TensorChange]:
        if self._same_steps:
            return self._changes_of_a_model()
        same = self._pair(
            lambda item: (item.form, item.result) if item.form is not None else item.life.name,
            lambda item: (self._partner.get(item.form, -1), item.result) if item.form is not None else item.life.name,
        )
        found = [self._describe_resized([old], [new]) for old, new in same]
        # Another moment of the run holds other tensors of the same kind: they replace each other byte for byte.
        self._pair(lambda item: (item.life.producer_name, item.life.type))
        self._pair(lambda item: item.life.type)
        found += [self._describe_arrival(item) for item in self._arrived]
        found += [self._describe_departure(item) for item in self._gone]
        return [change for change in found if change is not None]

    def _changes_of_a_model(self) -> list[TensorChange]:
        """Another program of the same model: what belongs to the same step and has about as many elements is the same.

        A weight belongs to the operation that reads it, anything else to the one that makes it.
        """
        groups = self._pair_fused()
        same_step = {second: first for first, second in self._same_steps}
        waiting: dict[int, list[_LiveTensor]] = defaultdict(list)
        for item in self._gone:
            if (step := _step_of(item.life)) is not None:
                waiting[step].append(item)
        pairs: list[tuple[_LiveTensor, _LiveTensor]] = []
        for item in sorted(self._arrived, key=lambda item: -_elements(item)):
            candidates = waiting.get(same_step.get(_step_of(item.life) or -1, -1), [])
            best = min(candidates, key=lambda other: _ratio(item, other), default=None)
            if best is not None and _ratio(item, best) <= _ALIKE:
                candidates.remove(best)
                pairs.append((best, item))
        self._take(item for pair in pairs for item in pair)
        pairs += self._pair(lambda item: (item.life.weight, _elements(item)))
        groups += [([old], [new]) for old, new in pairs]
        found = [self._describe_resized(old, new) for old, new in groups]
        found += [self._describe_arrival(item) for item in self._arrived]
        found += [self._describe_departure(item) for item in self._gone]
        return [change for change in found if change is not None]

    def _pair_fused(self) -> list[tuple[list[_LiveTensor], list[_LiveTensor]]]:
        """Weights that one program stores in one piece and the other in several, such as query, key and value."""
        groups: list[tuple[list[_LiveTensor], list[_LiveTensor]]] = []
        steps = self._same_steps
        for whole in self._arrived:
            if parts := _find_parts(whole, self._gone, [(second, first) for first, second in steps]):
                groups.append((parts, [whole]))
                self._take([*parts, whole])
        for whole in self._gone:
            if parts := _find_parts(whole, self._arrived, steps):
                groups.append(([whole], parts))
                self._take([*parts, whole])
        return groups

    def _take(self, items: Iterable[_LiveTensor]) -> None:
        """Out of both sides: they have found each other."""
        taken = {id(item) for item in items}
        self._gone = [item for item in self._gone if id(item) not in taken]
        self._arrived = [item for item in self._arrived if id(item) not in taken]

    def _pair(
        self, key_before: Callable[[_LiveTensor], Hashable], key_after: Callable[[_LiveTensor], Hashable] | None = None
    ) -> list[tuple[_LiveTensor, _LiveTensor]]:
        """Take pairs with equal keys out of both sides; several with one key pair up in order."""
        waiting: dict[Hashable, deque[_LiveTensor]] = defaultdict(deque)
        for item in self._gone:
            waiting[key_before(item)].append(item)
        key = key_after or key_before
        pairs = [(same.popleft(), item) for item in self._arrived if (same := waiting.get(key(item)))]
        self._take(item for pair in pairs for item in pair)
        return pairs

    def _describe_resized(self, old: Sequence[_LiveTensor], new: Sequence[_LiveTensor]) -> TensorChange | None:
        """Describe a tensor of another size, or several that are one in the other profile."""
        delta = sum(one.life.type.padded_bytes for one in new) - sum(one.life.type.padded_bytes for one in old)
        per_bank = sum(one.life.bytes_per_bank for one in new) - sum(one.life.bytes_per_bank for one in old)
        if not delta and not per_bank:
            return None
        reason = LARGER if (per_bank, delta) > (0, 0) else SMALLER
        before, after = (" + ".join(one.life.name for one in side) for side in (old, new))
        types = [side[0].life.type if len(side) == 1 else None for side in (old, new)]
        change = self._change(reason, new[0], types[0], types[1], delta, per_bank, before if before != after else "")
        return replace(change, tensor=after)

    def _describe_arrival(self, item: _LiveTensor) -> TensorChange:
        now, former = item.life.type, self._former_type(item)
        reason, delta = ALIVE_LONGER if former else NEW, now.padded_bytes
        if former and now.padded_bytes > former.padded_bytes:
            reason, delta = LARGER, now.padded_bytes - former.padded_bytes
        return self._change(reason, item, former, now, delta, item.life.bytes_per_bank)

    def _describe_departure(self, item: _LiveTensor) -> TensorChange:
        reason, was = FREED_EARLIER if item.form in self._known_before else GONE, item.life.type
        return self._change(reason, item, was, None, -was.padded_bytes, -item.life.bytes_per_bank)

    def _former_type(self, item: _LiveTensor) -> TensorType | None:
        """Return the result type of the same operation in the first profile, alive at its peak or not."""
        if item.form not in self._partner:
            return None
        types = result_types(self._before, self._partner[item.form])
        return types[item.result] if item.result < len(types) else None

    def _change(
        self,
        reason: str,
        item: _LiveTensor,
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


def _find_parts(
    whole: _LiveTensor, others: Sequence[_LiveTensor], steps: Sequence[tuple[int, int]]
) -> list[_LiveTensor]:
    """The weights of the other program that have its elements between them, read where it is read; empty when none.

    ``steps``: the same steps of both, in order, those of the whole's program first.
    """
    place = _step_of(whole.life)
    if not whole.life.weight or place is None:
        return []
    ends = [step for step, _ in steps]
    before, after = bisect_left(ends, place), bisect_right(ends, place)

    def is_read_within(other: _LiveTensor, reach: int) -> bool:
        """Return True between the steps of both that are ``reach`` beyond its neighbours."""
        step = _step_of(other.life)
        low, high = before - 1 - reach, after + reach
        return step is not None and (low < 0 or step > steps[low][1]) and (high >= len(steps) or step < steps[high][1])

    near = [other for other in others if other.life.weight and is_read_within(other, _REACH)]
    near.sort(key=lambda other: (not is_read_within(other, 0), _step_of(other.life)))
    elements = _elements(whole)
    if any(_elements(other) == elements for other in near):
        return []
    smaller = [other for other in near if _elements(other) < elements][:_MOST_NEAR]
    for number in range(2, _MOST_PARTS + 1):
        for parts in combinations(smaller, number):
            if sum(map(_elements, parts)) == elements:
                return list(parts)
    return []


def _elements(item: _LiveTensor) -> int:
    return prod(item.life.type.shape)


def _ratio(one: _LiveTensor, other: _LiveTensor) -> float:
    """Return the ratio of elements of the larger to the smaller; a prepared weight is rounded up differently."""
    small, large = sorted((_elements(one), _elements(other)))
    return large / small if small else float(large + 1)


def _identify(profile: Profile, live: LiveSet | None) -> list[_LiveTensor]:
    """In order of production, so that equal identities of both profiles pair up first with first."""
    if live is None:
        return []
    timeline = profile.timelines[live.peak.timeline]
    found = []
    for life in sorted(live.tensors, key=lambda life: (life.first_index, life.name)):
        position = -1 if life.producer_index is None else life.producer_index - timeline.first_index
        form = int(timeline.form[position]) if 0 <= position < len(timeline.form) else None
        _, _, result = life.name.partition("#")
        found.append(_LiveTensor(life, form, int(result) if result.isdecimal() else 0))
    return found
