# SPDX-License-Identifier: Apache-2.0
"""R11: more pages than the counters hold."""

from ttmem.circular_buffers.scan.cpp.polynomials import Amounts
from ttmem.circular_buffers.scan.host.programs import ProgramTotals
from ttmem.circular_buffers.scan.kernel.trace import OPERATIONS, operations
from ttmem.circular_buffers.scan.model import Kernel
from ttmem.circular_buffers.scan.rules._rule import Breach, Breaches, L1Space, Rule

MOST_PAGES = 65535
"""The counters of a buffer have 16 bits."""


def _counted(kernel: Kernel, amounts: Amounts) -> Breaches:
    for step in operations(kernel.trace):
        count = amounts.integer(step.count) if step.kind in OPERATIONS else None
        if count is not None and count > MOST_PAGES:
            text = f"{step.kind} of {count} pages: counters hold {MOST_PAGES}"
            yield Breach(kernel.figures.file, step.line, text)


def _declared(program: ProgramTotals, space: L1Space) -> Breaches:
    for one in program.buffers:
        if one.active and one.pages is not None and one.pages > MOST_PAGES:
            declaration = one.declaration
            text = f"buffer {declaration.label} has {one.pages} pages; counters hold {MOST_PAGES}"
            yield Breach(declaration.file, declaration.line, text)


RULE = Rule(
    "R11",
    "Page counts fit 16 bits",
    "the counters wrap at 65,536: reserve_back returns too early",
    "use larger pages or fewer of them",
    kernel=_counted,
    program=_declared,
)
