# SPDX-License-Identifier: Apache-2.0
"""R12: a page that is handed over while a transfer still uses it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ttmem.circular_buffers.scan.cpp.polynomials import Amounts
from ttmem.circular_buffers.scan.kernel.trace import (
    BARRIER,
    PASSED,
    POP,
    PUSH,
    READ,
    WRITE,
    Loop,
    Operation,
    Trace,
    buffer_name,
)
from ttmem.circular_buffers.scan.model import WARNING, Kernel
from ttmem.circular_buffers.scan.rules._rule import Breach, Breaches, Rule


def _too_early(kernel: Kernel, amounts: Amounts) -> Breaches:
    for line, text in _Transfers().follow(kernel.trace):
        yield Breach(kernel.figures.file, line, text)


@dataclass(slots=True)
class _Transfers:
    """Which transfers are still under way: line of the transfer by buffer."""

    reading: dict[str, int] = field(default_factory=dict)
    writing: dict[str, int] = field(default_factory=dict)

    def follow(self, trace: Trace) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        for step in trace:
            if isinstance(step, Operation):
                found += self._step(step)
            elif isinstance(step, Loop):
                found += self.follow(step.body)
            else:
                before = (dict(self.reading), dict(self.writing))
                found += self.follow(step.yes)
                after = (self.reading, self.writing)
                self.reading, self.writing = before
                found += self.follow(step.no)
                # A barrier on one side counts: rather miss a mistake than claim one.
                self.reading = {b: line for b, line in self.reading.items() if b in after[0]}
                self.writing = {b: line for b, line in self.writing.items() if b in after[1]}
        return found

    def _step(self, step: Operation) -> list[tuple[int, str]]:
        name = buffer_name(step.buffer)
        if step.kind == BARRIER:
            self.reading.clear()
            self.writing.clear()
        elif step.kind == READ:
            self.reading.setdefault(step.buffer, step.line)
        elif step.kind == WRITE:
            self.writing.setdefault(step.buffer, step.line)
        elif step.kind == PASSED:
            self.reading.pop(step.buffer, None)
            self.writing.pop(step.buffer, None)
        elif step.kind == PUSH and (line := self.reading.pop(step.buffer, None)) is not None:
            return [(step.line, f"pushes buffer {name} before the read of line {line} is known to be done")]
        elif step.kind == POP and (line := self.writing.pop(step.buffer, None)) is not None:
            return [(step.line, f"pops buffer {name} before the write of line {line} has left")]
        return []


RULE = Rule(
    "R12",
    "A page is handed over after its transfer",
    "the other side may read the page before the data is there, or overwrite it before it has left",
    "put the barrier between the transfer and push_back or pop_front",
    severity=WARNING,
    detail="barrier before push_back and pop_front",
    kernel=_too_early,
)
