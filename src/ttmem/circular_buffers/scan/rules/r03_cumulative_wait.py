# SPDX-License-Identifier: Apache-2.0
"""R3: popping pages that were not all waited for."""

from collections.abc import Iterator

from ttmem.circular_buffers.scan.cpp.expressions import Expression, render
from ttmem.circular_buffers.scan.cpp.polynomials import Amounts, Polynomial, as_constant, plus, times
from ttmem.circular_buffers.scan.kernel.trace import (
    POP,
    WAIT,
    Loop,
    Operation,
    Trace,
    buffer_name,
    depends_on_a_loop,
    operations,
)
from ttmem.circular_buffers.scan.model import Kernel
from ttmem.circular_buffers.scan.rules._rule import Breach, Breaches, Rule


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


def _pops(trace: Trace) -> Iterator[tuple[Operation, Operation | None, tuple[Expression, ...]]]:
    """Every pop on a straight path, with the last wait before it and the loops that the wait alone stands in."""
    last: tuple[Operation, tuple[Expression, ...]] | None = None
    for step in trace:
        if isinstance(step, Operation):
            if step.kind == WAIT:
                last = (step, ())
            elif step.kind == POP:
                yield step, *(last or (None, ()))
                last = None
        elif isinstance(step, Loop):
            yield from _pops(step.body)
            kinds = {inner.kind for inner in operations(step.body)}
            waits = [inner for inner in step.body if isinstance(inner, Operation) and inner.kind == WAIT]
            if POP in kinds:
                last = None
            elif waits and not any(not isinstance(inner, Operation) for inner in step.body):
                last = (waits[-1], (step.trips,))
            elif WAIT in kinds:
                last = None
        else:
            yield from _pops(step.yes)
            yield from _pops(step.no)
            last = None


RULE = Rule(
    "R3",
    "Repeated wait_front without pop_front is cumulative",
    "wait_front counts from the front: the same count again waits for nothing new, and unread pages are popped",
    "wait for the running total (n, 2n, 3n, ...) or pop what was waited for",
    kernel=_not_cumulative,
)
