# SPDX-License-Identifier: Apache-2.0
"""Rules on the counts of waits, pushes and pops: R1 to R5 and R11."""

import math
from collections.abc import Iterator
from pathlib import PurePath

from ttmem.circular_buffers.scan.cpp.expressions import Expression, render
from ttmem.circular_buffers.scan.cpp.polynomials import (
    Amounts,
    Polynomial,
    as_constant,
    is_certainly_positive,
    plus,
    times,
    uses_own_leaves,
)
from ttmem.circular_buffers.scan.host.programs import ProgramTotals
from ttmem.circular_buffers.scan.link_host_and_kernels import JoinedBuffer, JoinedProgram
from ttmem.circular_buffers.scan.model import (
    OPERATIONS,
    POP,
    PUSH,
    RESERVE,
    WAIT,
    Branch,
    Kernel,
    KernelOperation,
    Loop,
    Trace,
    buffer_name,
    depends_on_a_loop,
    first_lines,
    operations,
    total_of,
)
from ttmem.circular_buffers.scan.rules.scan_rule import Breach, Breaches, L1Space, ScanRule


def _too_large(joined: JoinedProgram) -> Breaches:
    for buffer in joined.buffers:
        held, amounts = buffer.capacities, buffer.kernel.amounts
        seen: set[tuple[str, int]] = set()
        for step in operations(buffer.trace) if held else ():
            if (step.kind, step.line) in seen:
                continue
            seen.add((step.kind, step.line))
            count = amounts.of(step.count)
            if count is not None and all(_exceeds(count, pages) for pages in held):
                pages, amount = as_constant(held[0]), as_constant(count)
                size = f"{pages} pages" if pages is not None else "its pages"
                asked = amount if amount is not None else f"'{render(step.count)}'"
                text = f"{step.kind} of {asked} pages, but buffer {buffer.name} holds {size}"
                yield Breach(buffer.kernel.file, step.line, text)


def _exceeds(count: Polynomial, pages: Polynomial) -> bool:
    difference = plus(count, pages, -1)
    number = as_constant(difference)
    if number is not None:
        return number > 0
    return is_certainly_positive(difference) and not uses_own_leaves(difference)


COUNT_WITHIN_CAPACITY = ScanRule(
    "R1",
    "A count never exceeds the buffer's capacity",
    "reserve_back or wait_front waits for pages that the buffer cannot hold: it never returns and the core hangs",
    "make the buffer at least as deep as the largest count, or split the step",
    joined=_too_large,
)


def _laps(joined: JoinedProgram) -> Breaches:
    for buffer in joined.buffers:
        pages = buffer.pages
        for kind in (PUSH, POP) if pages and not buffer.is_hidden else ():
            count = buffer.only_count(kind)
            if not pages or not count or pages % count == 0 or count > pages:
                continue
            total = as_constant(buffer.total(kind))
            if total is not None and total <= pages:
                continue  # it never comes to the end
            text = f"{kind} moves {count} pages at a time through buffer {buffer.name} of {pages} pages"
            yield Breach(buffer.kernel.file, buffer.steps(kind)[0].line, text)


EVEN_LAPS = ScanRule(
    "R2",
    "Steps add up to the capacity over one lap",
    "the pointer wraps only when it meets the end exactly; a step across the end writes behind the buffer",
    "make the capacity a multiple of the step",
    joined=_laps,
)


def _not_cumulative(kernel: Kernel, amounts: Amounts) -> Breaches:
    for buffer, own in kernel.whole_buffers(even_passed_on=True):
        for pop, wait, trips in _pops(own):
            if wait is None or depends_on_a_loop(wait.count) or depends_on_a_loop(pop.count):
                continue
            waited, popped = amounts.of(wait.count), amounts.of(pop.count)
            if waited is None or popped is None:
                continue
            more = as_constant(plus(popped, waited, -1))
            looped: Polynomial | None = waited
            for loop in trips:
                by = amounts.of(loop)
                looped = times(looped, by) if looped is not None and by is not None else None
            repeated = bool(trips) and looped == popped and looped != waited
            if (more is not None and more > 0) or repeated:
                text = (
                    f"pops {render(pop.count)} pages of buffer {buffer_name(buffer)} but waited only for "
                    f"{render(wait.count)} (line {wait.line})"
                )
                yield Breach(kernel.figures.file, pop.line, text)


def _pops(trace: Trace) -> Iterator[tuple[KernelOperation, KernelOperation | None, tuple[Expression, ...]]]:
    """Yield each pop on a straight path, with the last wait before it and the loops around the wait alone."""
    last: tuple[KernelOperation, tuple[Expression, ...]] | None = None
    for step in trace:
        if isinstance(step, KernelOperation):
            if step.kind == WAIT:
                last = (step, ())
            elif step.kind == POP:
                yield step, *(last or (None, ()))
                last = None
        elif isinstance(step, Loop):
            yield from _pops(step.body)
            kinds = {inner.kind for inner in operations(step.body)}
            waits = [inner for inner in step.body if isinstance(inner, KernelOperation) and inner.kind == WAIT]
            if POP in kinds:
                last = None
            elif waits and not any(not isinstance(inner, KernelOperation) for inner in step.body):
                last = (waits[-1], (step.trips,))
            elif WAIT in kinds:
                last = None
        else:
            yield from _pops(step.yes)
            yield from _pops(step.no)
            last = None


CUMULATIVE_WAIT = ScanRule(
    "R3",
    "Repeated wait_front without pop_front is cumulative",
    "wait_front counts from the front: the same count again waits for nothing new, and unread pages are popped",
    "wait for the running total (n, 2n, 3n, ...) or pop what was waited for",
    kernel=_not_cumulative,
)


def _check_one_kernel(kernel: Kernel, amounts: Amounts) -> Breaches:
    """A kernel that is both sides of a buffer."""
    for buffer, own in kernel.whole_buffers():
        lines = first_lines(own)
        pushed, popped = total_of(own, PUSH, amounts), total_of(own, POP, amounts)
        if not {PUSH, POP} <= lines.keys() or pushed is None or popped is None:
            continue
        difference = as_constant(plus(pushed, popped, -1))
        if difference:
            more, less = ("pushes", "pops") if difference > 0 else ("pops", "pushes")
            text = f"the kernel {more} {abs(difference)} pages of buffer {buffer_name(buffer)} more than it {less}"
            yield Breach(kernel.figures.file, lines[PUSH if difference > 0 else POP], text)


def _check_two_kernels(joined: JoinedProgram) -> Breaches:
    for key in joined.keys:
        producers, consumers = joined.touching(key, PUSH), joined.touching(key, POP)
        if len(producers) != 1 or len(consumers) != 1 or producers[0].kernel is consumers[0].kernel:
            continue
        sides = (producers[0], consumers[0])
        if any(side.kernel.use.conditions or not side.kernel.use.one_thread or side.is_hidden for side in sides):
            continue
        yield from _totals(*sides)
        yield from _meeting(*sides)


def _totals(producer: JoinedBuffer, consumer: JoinedBuffer) -> Breaches:
    pushed, popped = producer.total(PUSH), consumer.total(POP)
    if pushed is None or popped is None or uses_own_leaves(pushed) or uses_own_leaves(popped):
        return
    difference = plus(pushed, popped, -1)
    more = is_certainly_positive(difference)
    if not more and not is_certainly_positive(plus({}, difference, -1)):
        return
    amounts = (as_constant(pushed), as_constant(popped))
    known = f" ({amounts[0]} and {amounts[1]} pages)" if None not in amounts else ""
    text = (
        f"{PurePath(producer.kernel.file).name} pushes {'more' if more else 'fewer'} pages of buffer "
        f"{producer.name} than this kernel pops{known}"
    )
    yield Breach(consumer.kernel.file, consumer.steps(POP)[0].line, text)


def _meeting(producer: JoinedBuffer, consumer: JoinedBuffer) -> Breaches:
    """Constant steps p and c need p + c - gcd(p, c) pages, or both sides wait with the buffer part full."""
    pages, reserved, waited = producer.pages, producer.only_count(RESERVE), consumer.only_count(WAIT)
    if pages is None or not reserved or not waited or reserved > pages or waited > pages:
        return
    if reserved != producer.only_count(PUSH) or waited != consumer.only_count(POP):
        return
    total = as_constant(producer.total(PUSH))
    if total is not None and total <= pages:
        return  # everything fits at once: no kernel waits for space
    needed = reserved + waited - math.gcd(reserved, waited)
    if pages < needed:
        text = (
            f"steps of {reserved} pages in and {waited} out never meet in buffer {producer.name} of {pages} "
            f"pages: at least {needed} are needed"
        )
        yield Breach(consumer.kernel.file, consumer.steps(WAIT)[0].line, text)


AMOUNTS_MEET = ScanRule(
    "R4",
    "What is pushed is popped, in amounts that can meet",
    "a consumer that asks for more than is pushed hangs; left-over pages meet the next program",
    "let both sides move the same number of pages, and the buffer hold one step of each",
    detail="steps p and c need p + c - gcd(p, c) pages",
    kernel=_check_one_kernel,
    joined=_check_two_kernels,
)


def _self_feeding(joined: JoinedProgram) -> Breaches:
    for buffer in joined.buffers:
        pages = buffer.pages
        if pages is None or buffer.is_hidden or not all(map(buffer.steps, (RESERVE, PUSH, POP))):
            continue
        _, refused = _follow(buffer.trace, 0, pages, buffer.kernel.amounts)
        if refused is not None:
            line, held, asked = refused
            text = (
                f"reserves {asked} pages of buffer {buffer.name} while the kernel itself still holds {held}"
                f"; the buffer has {pages}"
            )
            yield Breach(buffer.kernel.file, line, text)


_Refused = tuple[int, int, int]


def _follow(trace: Trace, held: int | None, pages: int, amounts: Amounts) -> tuple[int | None, _Refused | None]:
    """Pages that a kernel holds in a buffer that it feeds itself after a trace (None: not known).

    And (line, held, asked) of the first reservation that cannot be granted; what a branch reserves does not count.
    """
    refused: _Refused | None = None
    for step in trace:
        if held is None:
            break
        if isinstance(step, Loop):
            after, refused = _follow(step.body, held, pages, amounts)
            trips = amounts.integer(step.trips)
            if after is not None and after != held:
                after = held + trips * (after - held) if trips is not None else None
            held = after
        elif isinstance(step, Branch):
            yes, no = (_follow(side, held, pages, amounts)[0] for side in (step.yes, step.no))
            held = yes if yes == no else None
        elif (count := amounts.integer(step.count)) is None:
            held = None if step.kind in (PUSH, POP) else held
        elif step.kind == RESERVE and held > 0 and held + count > pages >= count:
            refused = step.line, held, count
        else:
            held += {PUSH: count, POP: -count}.get(step.kind, 0)
        if refused is not None:
            break
    return held, refused


SELF_FEEDING = ScanRule(
    "R5",
    "A kernel that feeds itself has room for what it holds and what it reserves",
    "the kernel waits for space that only its own later pop_front would free: it deadlocks with itself",
    "make the buffer as deep as held and reserved pages together, or pop before reserving",
    joined=_self_feeding,
)


MOST_PAGES = 65535
"""The counters of a buffer have 16 bits."""


def _check_counts(kernel: Kernel, amounts: Amounts) -> Breaches:
    for step in operations(kernel.trace):
        count = amounts.integer(step.count) if step.kind in OPERATIONS else None
        if count is not None and count > MOST_PAGES:
            text = f"{step.kind} of {count} pages: counters hold {MOST_PAGES}"
            yield Breach(kernel.figures.file, step.line, text)


def _check_declared(program: ProgramTotals, space: L1Space) -> Breaches:
    for one in program.buffers:
        if one.active and one.pages is not None and one.pages > MOST_PAGES:
            declaration = one.declaration
            text = f"buffer {declaration.label} has {one.pages} pages; counters hold {MOST_PAGES}"
            yield Breach(declaration.file, declaration.line, text)


COUNTER_RANGE = ScanRule(
    "R11",
    "Page counts fit 16 bits",
    "the counters wrap at 65,536: reserve_back returns too early",
    "use larger pages or fewer of them",
    kernel=_check_counts,
    program=_check_declared,
)
