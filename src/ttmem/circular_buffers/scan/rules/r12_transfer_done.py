# SPDX-License-Identifier: Apache-2.0
"""R12: a page that is handed over while a transfer still uses it."""

from collections.abc import Iterator

from ttmem.circular_buffers.scan.cpp.polynomials import Amounts
from ttmem.circular_buffers.scan.kernel.trace import (
    BARRIER,
    PASSED,
    POP,
    PUSH,
    READ,
    WRITE,
    Branch,
    Loop,
    Trace,
    buffer_name,
)
from ttmem.circular_buffers.scan.model import WARNING, Kernel
from ttmem.circular_buffers.scan.rules._rule import Breach, Breaches, Rule

_ENDS = {
    PUSH: (READ, "pushes buffer {} before the read of line {} is known to be done"),
    POP: (WRITE, "pops buffer {} before the write of line {} has left"),
}
_Open = dict[tuple[str, str], int]
"""Transfers under way: (kind, buffer) -> line."""


def _too_early(kernel: Kernel, amounts: Amounts) -> Breaches:
    for line, text in _follow(kernel.trace, {}):
        yield Breach(kernel.figures.file, line, text)


def _follow(trace: Trace, under_way: _Open) -> Iterator[tuple[int, str]]:
    """Pages handed over too early; what is still under way at the end stays in the mapping."""
    for step in trace:
        if isinstance(step, Loop):
            yield from _follow(step.body, under_way)
        elif isinstance(step, Branch):
            other = dict(under_way)
            yield from _follow(step.yes, under_way)
            yield from _follow(step.no, other)
            # A barrier on one side counts: rather miss a mistake than claim one.
            kept = {key: line for key, line in other.items() if key in under_way}
            under_way.clear()
            under_way.update(kept)
        elif step.kind == BARRIER:
            under_way.clear()
        elif step.kind in (READ, WRITE):
            under_way.setdefault((step.kind, step.buffer), step.line)
        elif step.kind == PASSED:
            for kind in (READ, WRITE):
                under_way.pop((kind, step.buffer), None)
        elif step.kind in _ENDS:
            kind, text = _ENDS[step.kind]
            if (line := under_way.pop((kind, step.buffer), None)) is not None:
                yield step.line, text.format(buffer_name(step.buffer), line)


RULE = Rule(
    "R12",
    "A page is handed over after its transfer",
    "the other side may read the page before the data is there, or overwrite it before it has left",
    "put the barrier between the transfer and push_back or pop_front",
    severity=WARNING,
    detail="barrier before push_back and pop_front",
    kernel=_too_early,
)
