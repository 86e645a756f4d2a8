# SPDX-License-Identifier: Apache-2.0
"""R1: waiting for more pages than a buffer can hold."""

from ttmem.circular_buffers.scan.cpp.expressions import render
from ttmem.circular_buffers.scan.cpp.polynomials import (
    Polynomial,
    as_constant,
    is_certainly_positive,
    plus,
    uses_own_leaves,
)
from ttmem.circular_buffers.scan.kernel.trace import operations
from ttmem.circular_buffers.scan.link_host_and_kernels import JoinedProgram
from ttmem.circular_buffers.scan.rules._rule import Breach, Breaches, Rule


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


RULE = Rule(
    "R1",
    "A count never exceeds the buffer's capacity",
    "reserve_back or wait_front waits for pages that the buffer cannot hold: it never returns and the core hangs",
    "make the buffer at least as deep as the largest count, or split the step",
    joined=_too_large,
)
