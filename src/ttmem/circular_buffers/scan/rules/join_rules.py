# SPDX-License-Identifier: Apache-2.0
"""Rules that need host and kernels together: R1, R2, R4, R5, R6, R8, R9.

A rule speaks only where the numbers (or the difference of two expressions) are certain, and for every declaration that
the kernel may mean. What shipping kernels do too is a warning.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import PurePath

from ttmem.circular_buffers.scan.cpp.expressions import render
from ttmem.circular_buffers.scan.cpp.polynomials import (
    Polynomial,
    as_constant,
    is_certainly_positive,
    plus,
    uses_own_leaves,
)
from ttmem.circular_buffers.scan.join import JoinedKernel, JoinedProgram, capacity
from ttmem.circular_buffers.scan.kernel.counters import Step, run, unrolled
from ttmem.circular_buffers.scan.kernel.trace import (
    OPERATIONS,
    PASSED,
    POP,
    PUSH,
    RESERVE,
    WAIT,
    Branch,
    Loop,
    Operation,
    Trace,
    of_buffer,
    operations,
)
from ttmem.circular_buffers.scan.model import ERROR, WARNING, Finding
from ttmem.circular_buffers.scan.rules.host_rules import label
from ttmem.circular_buffers.scan.rules.kernel_rules import shown, total_of
from ttmem.circular_buffers.scan.rules.registry import finding


def check_joined(joined: JoinedProgram) -> list[Finding]:
    """Findings of one program with its kernels."""
    found: list[Finding] = []
    for member in joined.kernels:
        found += list(_too_large(member))
        found += list(_laps(member))
        found += list(_self_feeding(member))
    found += list(_amounts(joined))
    found += list(_sides(joined))
    found += list(_order(joined))
    if not any(one.severity == ERROR for one in found):
        found += list(_deadlock(joined))
    return found


def _file(member: JoinedKernel) -> str:
    return member.kernel.figures.file


def _capacities(member: JoinedKernel, identity: str) -> list[Polynomial]:
    """Of every declaration that an identity may mean; empty when one of them is not known."""
    buffer = member.buffers.get(identity)
    if buffer is None:
        return []
    found = [capacity(one, member.amounts.of_the_host) for one in buffer.candidates]
    return [pages for pages in found if pages is not None] if None not in found else []


def fixed_capacity(member: JoinedKernel, identity: str) -> int | None:
    """Pages, when every declaration that is meant has the same number."""
    numbers = {as_constant(pages) for pages in _capacities(member, identity)}
    return numbers.pop() if len(numbers) == 1 else None


def _name(member: JoinedKernel, identity: str) -> str:
    buffer = member.buffers.get(identity)
    if buffer is None:
        return shown(identity)
    declaration = buffer.candidates[0].declaration
    return f"{label(declaration)} ({PurePath(declaration.file).name}:{declaration.line})"


def _too_large(member: JoinedKernel) -> Iterator[Finding]:
    seen: set[tuple[str, str, int]] = set()
    for step in operations(member.trace):
        if step.kind not in OPERATIONS or (step.kind, step.buffer, step.line) in seen:
            continue
        seen.add((step.kind, step.buffer, step.line))
        count, held = member.amounts.of(step.count), _capacities(member, step.buffer)
        if count is None or not held:
            continue
        if all(_exceeds(count, pages) for pages in held):
            pages = as_constant(held[0])
            amount = as_constant(count)
            size = f"{pages} pages" if pages is not None else "its pages"
            asked = amount if amount is not None else f"'{render(step.count)}'"
            text = f"{step.kind} of {asked} pages, but buffer {_name(member, step.buffer)} holds {size}"
            yield finding("R1", ERROR, _file(member), step.line, text)


def _exceeds(count: Polynomial, pages: Polynomial) -> bool:
    difference = plus(count, pages, -1)
    number = as_constant(difference)
    if number is not None:
        return number > 0
    return is_certainly_positive(difference) and not uses_own_leaves(difference)


def _laps(member: JoinedKernel) -> Iterator[Finding]:
    for identity in member.buffers:
        pages = fixed_capacity(member, identity)
        if not pages or _hidden(member, identity):
            continue
        own = of_buffer(member.trace, identity)
        for kind in (PUSH, POP):
            steps = [step for step in operations(own) if step.kind == kind]
            counts = {member.amounts.integer(step.count) for step in steps}
            if len(counts) != 1 or None in counts:
                continue
            count = counts.pop()
            if not count or pages % count == 0 or count > pages:
                continue
            total = as_constant(total_of(own, kind, member.amounts))
            if total is not None and total <= pages:
                continue  # it never comes to the end
            text = f"{kind} moves {count} pages at a time through buffer {_name(member, identity)} of {pages} pages"
            yield finding("R2", ERROR, _file(member), steps[0].line, text)


def _self_feeding(member: JoinedKernel) -> Iterator[Finding]:
    for identity in member.buffers:
        pages = fixed_capacity(member, identity)
        own = of_buffer(member.trace, identity)
        kinds = {step.kind for step in operations(own)}
        if pages is None or not {RESERVE, PUSH, POP} <= kinds or _hidden(member, identity):
            continue
        worst = _Room(member, pages).check(own)
        if worst is not None:
            line, held, asked = worst
            text = (
                f"reserves {asked} pages of buffer {_name(member, identity)} while the kernel itself still holds {held}"
                f"; the buffer has {pages}"
            )
            yield finding("R5", ERROR, _file(member), line, text)


class _Room:
    """How many pages a kernel holds in a buffer that it feeds itself, step by step."""

    def __init__(self, member: JoinedKernel, pages: int) -> None:
        self._member = member
        self._pages = pages
        self._held: int | None = 0

    def check(self, trace: Trace) -> tuple[int, int, int] | None:
        """(line, held, asked) of the first reservation that cannot be granted."""
        for step in trace:
            if self._held is None:
                return None
            if isinstance(step, Operation):
                found = self._step(step)
            elif isinstance(step, Loop):
                before = self._held
                found = self.check(step.body)
                if self._held is not None and before is not None and self._held != before:
                    trips = self._member.amounts.integer(step.trips)
                    self._held = before + trips * (self._held - before) if trips is not None else None
            else:
                found = self._fork(step)
            if found is not None:
                return found
        return None

    def _fork(self, step: Branch) -> tuple[int, int, int] | None:
        before = self._held
        self.check(step.yes)
        taken, self._held = self._held, before
        self.check(step.no)
        if taken != self._held:
            self._held = None
        return None

    def _step(self, step: Operation) -> tuple[int, int, int] | None:
        count = self._member.amounts.integer(step.count)
        if count is None:
            if step.kind in (PUSH, POP):
                self._held = None
            return None
        assert self._held is not None
        if step.kind == RESERVE and self._held > 0 and self._held + count > self._pages >= count:
            return step.line, self._held, count
        if step.kind == PUSH:
            self._held += count
        elif step.kind == POP:
            self._held -= count
        return None


def _touching(joined: JoinedProgram, key: str, kind: str) -> list[tuple[JoinedKernel, str]]:
    found = []
    for member in joined.kernels:
        for identity, buffer in member.buffers.items():
            if buffer.key == key and any(s.kind == kind for s in operations(of_buffer(member.trace, identity))):
                found.append((member, identity))
    return found


def _keys(joined: JoinedProgram) -> list[str]:
    return list(dict.fromkeys(buffer.key for member in joined.kernels for buffer in member.buffers.values()))


def _hidden(member: JoinedKernel, identity: str) -> bool:
    """Whether the buffer goes to a function that was not followed, or the kernel is not understood as a whole."""
    return member.kernel.figures.broken or any(
        step.kind == PASSED and step.buffer == identity for step in operations(member.trace)
    )


def _amounts(joined: JoinedProgram) -> Iterator[Finding]:
    for key in _keys(joined):
        producers, consumers = _touching(joined, key, PUSH), _touching(joined, key, POP)
        if len(producers) != 1 or len(consumers) != 1 or producers[0][0] is consumers[0][0]:
            continue
        (producer, pushing), (consumer, popping) = producers[0], consumers[0]
        if producer.use.conditions or consumer.use.conditions:
            continue
        if not (producer.use.one_thread and consumer.use.one_thread):
            continue
        if _hidden(producer, pushing) or _hidden(consumer, popping):
            continue
        pushed = total_of(of_buffer(producer.trace, pushing), PUSH, producer.amounts)
        popped = total_of(of_buffer(consumer.trace, popping), POP, consumer.amounts)
        yield from _totals(producer, consumer, pushing, popping, pushed, popped)
        yield from _meeting(producer, consumer, pushing, popping)


def _totals(
    producer: JoinedKernel,
    consumer: JoinedKernel,
    pushing: str,
    popping: str,
    pushed: Polynomial | None,
    popped: Polynomial | None,
) -> Iterator[Finding]:
    if pushed is None or popped is None or uses_own_leaves(pushed) or uses_own_leaves(popped):
        return
    difference = plus(pushed, popped, -1)
    more = is_certainly_positive(difference)
    less = is_certainly_positive(plus({}, difference, -1))
    if not (more or less):
        return
    line = next(step.line for step in operations(of_buffer(consumer.trace, popping)) if step.kind == POP)
    amounts = (as_constant(pushed), as_constant(popped))
    known = f" ({amounts[0]} and {amounts[1]} pages)" if None not in amounts else ""
    text = (
        f"{PurePath(_file(producer)).name} pushes {'more' if more else 'fewer'} pages of buffer "
        f"{_name(producer, pushing)} than this kernel pops{known}"
    )
    yield finding("R4", ERROR, _file(consumer), line, text)


def _meeting(producer: JoinedKernel, consumer: JoinedKernel, pushing: str, popping: str) -> Iterator[Finding]:
    """Constant steps p and c need p + c - gcd(p, c) pages, or both sides wait with the buffer part full."""
    pages = fixed_capacity(producer, pushing)
    reserved = _only_count(producer, pushing, RESERVE)
    waited = _only_count(consumer, popping, WAIT)
    pushed, popped = _only_count(producer, pushing, PUSH), _only_count(consumer, popping, POP)
    if None in (pages, reserved, waited) or reserved != pushed or waited != popped:
        return
    assert pages is not None
    assert reserved is not None
    assert waited is not None
    if not reserved or not waited or reserved > pages or waited > pages:
        return
    total = as_constant(total_of(of_buffer(producer.trace, pushing), PUSH, producer.amounts))
    if total is not None and total <= pages:
        return  # everything fits at once: nobody has to wait for space
    needed = reserved + waited - math.gcd(reserved, waited)
    if pages < needed:
        step = next(step for step in operations(of_buffer(consumer.trace, popping)) if step.kind == WAIT)
        text = (
            f"steps of {reserved} pages in and {waited} out never meet in buffer {_name(producer, pushing)} of {pages} "
            f"pages: at least {needed} are needed"
        )
        yield finding("R4", ERROR, _file(consumer), step.line, text)


def _only_count(member: JoinedKernel, identity: str, kind: str) -> int | None:
    counts = {
        member.amounts.integer(step.count)
        for step in operations(of_buffer(member.trace, identity))
        if step.kind == kind
    }
    return counts.pop() if len(counts) == 1 else None


def _sides(joined: JoinedProgram) -> Iterator[Finding]:
    for key in _keys(joined):
        for kind, side in ((PUSH, "pushed"), (POP, "popped")):
            by_cores: dict[str, tuple[JoinedKernel, str]] = {}
            for member, identity in _touching(joined, key, kind):
                cores = render(member.use.core_ranges)
                if not cores or member.use.conditions:
                    continue
                if any(one.open_conditions for one in member.buffers[identity].candidates):
                    continue
                other = by_cores.setdefault(cores, (member, identity))
                if other[0] is member or _file(other[0]) == _file(member):
                    continue
                steps = (s for s in operations(of_buffer(member.trace, identity)) if s.kind == kind)
                text = (
                    f"buffer {_name(member, identity)} is {side} by this kernel and by "
                    f"{PurePath(_file(other[0])).name} on the same cores ({cores})"
                )
                yield finding("R6", WARNING, _file(member), next(steps).line, text)


def _order(joined: JoinedProgram) -> Iterator[Finding]:
    """R8: a cycle among what must be pushed before what."""
    needs: dict[str, tuple[set[str], JoinedKernel, int]] = {}
    doubtful: set[str] = set()
    for member in joined.kernels:
        if member.kernel.figures.broken or member.use.conditions:
            return
        doubtful |= {member.buffers[i].key for i in member.buffers if _hidden(member, i) or _may_be_full(member, i)}
        for key, (waited, line) in _first_pushes(member).items():
            if key in needs:
                doubtful.add(key)  # another kernel may push first
            needs[key] = (waited, member, line)
    graph = {key: waited - doubtful for key, (waited, _, _) in needs.items() if key not in doubtful}
    for key in graph:
        cycle = _cycle(key, graph)
        if cycle and min(cycle) == key:
            _, member, line = needs[key]
            path = " -> ".join((*cycle, cycle[0]))
            text = f"the first page of buffer {key} is pushed only after waiting for itself: {path}"
            yield finding("R8", ERROR, _file(member), line, text)


def _may_be_full(member: JoinedKernel, identity: str) -> bool:
    return any(one.borrowed or one.declaration.borrowed_if for one in member.buffers[identity].candidates)


def _first_pushes(member: JoinedKernel) -> dict[str, tuple[set[str], int]]:
    """Buffer -> (what was waited for before its first push on every path, line)."""
    found: dict[str, tuple[set[str], int]] = {}
    waited: set[str] = set()

    def follow(trace: Trace, *, certain: bool) -> None:
        for step in trace:
            if isinstance(step, Operation):
                buffer = member.buffers.get(step.buffer)
                if buffer is None:
                    continue
                if step.kind == WAIT and certain:
                    waited.add(buffer.key)
                elif step.kind == PUSH:
                    found.setdefault(buffer.key, (set(waited), step.line))
            elif isinstance(step, Loop):
                follow(step.body, certain=certain)
            else:
                follow(step.yes, certain=False)
                follow(step.no, certain=False)

    follow(member.trace, certain=True)
    return found


def _cycle(start: str, graph: dict[str, set[str]]) -> list[str]:
    """A way from a buffer back to itself."""
    pending: list[list[str]] = [[start]]
    seen: set[str] = set()
    while pending:
        path = pending.pop()
        for following in sorted(graph.get(path[-1], ())):
            if following == start:
                return path
            if following not in seen:
                seen.add(following)
                pending.append([*path, following])
    return []


def _deadlock(joined: JoinedProgram) -> Iterator[Finding]:
    """R9: the kernels run on counters, where all numbers are known."""
    members = joined.kernels
    if not joined.complete or any(member.use.conditions or not member.use.one_thread for member in members):
        return
    capacities: dict[str, int] = {}
    for member in members:
        for identity, buffer in member.buffers.items():
            pages = fixed_capacity(member, identity)
            if pages is None or _hidden(member, identity) or _may_be_full(member, identity):
                return
            capacities[buffer.key] = pages
    if any(not _touching(joined, key, kind) for key in capacities for kind in (PUSH, POP)):
        return
    kernels = [_steps(member) for member in members]
    if any(steps is None for steps in kernels):
        return
    blocked = run([steps for steps in kernels if steps is not None], capacities)
    if not blocked:
        return
    waits = "; ".join(
        f"{PurePath(_file(members[one.kernel])).name}:{one.step.line} {one.step.kind} of {one.step.pages} of buffer "
        f"{one.step.buffer} with {one.available} there"
        for one in blocked
    )
    first = blocked[0]
    text = f"the kernels of program {joined.program.name} stop for ever: {waits}"
    yield finding("R9", ERROR, _file(members[first.kernel]), first.step.line, text)


def _steps(member: JoinedKernel) -> list[Step] | None:
    def key(identity: str) -> str | None:
        buffer = member.buffers.get(identity)
        return buffer.key if buffer is not None else None

    return unrolled(member.trace, member.amounts.integer, key)
