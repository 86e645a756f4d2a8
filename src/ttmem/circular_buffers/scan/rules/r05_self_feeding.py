# SPDX-License-Identifier: Apache-2.0
"""R5: a kernel that waits for space which only itself could free."""

from __future__ import annotations

from ttmem.circular_buffers.scan.cpp.polynomials import Amounts
from ttmem.circular_buffers.scan.join import JoinedProgram
from ttmem.circular_buffers.scan.kernel.trace import POP, PUSH, RESERVE, Branch, Loop, Operation, Trace
from ttmem.circular_buffers.scan.rules._rule import Breach, Breaches, Rule


def _self_feeding(joined: JoinedProgram) -> Breaches:
    for buffer in joined.buffers:
        pages = buffer.pages
        if pages is None or buffer.is_hidden or not all(map(buffer.steps, (RESERVE, PUSH, POP))):
            continue
        worst = _HeldPages(buffer.kernel.amounts, pages).first_refusal(buffer.trace)
        if worst is not None:
            line, held, asked = worst
            text = (
                f"reserves {asked} pages of buffer {buffer.name} while the kernel itself still holds {held}"
                f"; the buffer has {pages}"
            )
            yield Breach(buffer.kernel.file, line, text)


class _HeldPages:
    """How many pages a kernel holds in a buffer that it feeds itself, step by step."""

    def __init__(self, amounts: Amounts, pages: int) -> None:
        self._amounts = amounts
        self._pages = pages
        self._held: int | None = 0

    def first_refusal(self, trace: Trace) -> tuple[int, int, int] | None:
        """(line, held, asked) of the first reservation that cannot be granted."""
        for step in trace:
            if self._held is None:
                return None
            found = None
            if isinstance(step, Operation):
                found = self._step(step)
            elif isinstance(step, Loop):
                before = self._held
                found = self.first_refusal(step.body)
                if self._held is not None and before is not None and self._held != before:
                    trips = self._amounts.integer(step.trips)
                    self._held = before + trips * (self._held - before) if trips is not None else None
            else:
                self._branch(step)
            if found is not None:
                return found
        return None

    def _branch(self, step: Branch) -> None:
        before = self._held
        self.first_refusal(step.yes)
        taken, self._held = self._held, before
        self.first_refusal(step.no)
        if taken != self._held:
            self._held = None

    def _step(self, step: Operation) -> tuple[int, int, int] | None:
        count = self._amounts.integer(step.count)
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


RULE = Rule(
    "R5",
    "A kernel that feeds itself has room for what it holds and what it reserves",
    "the kernel waits for space that only its own later pop_front would free: it deadlocks with itself",
    "make the buffer as deep as held and reserved pages together, or pop before reserving",
    joined=_self_feeding,
)
