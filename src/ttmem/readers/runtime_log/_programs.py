# SPDX-License-Identifier: Apache-2.0
"""Which program ran each operation: the stack of started and finished programs, and what breaks it.

Programs nest (const-eval, traces, calls) and restart their SSA numbers; an exception leaves them unfinished without
a line that says so. Everything here is about the few lines that are not operations or memory views.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from ttmem.base.limits import NESTED_PROGRAMS
from ttmem.profile.model import CacheLookup, FailureText, Program
from ttmem.readers.runtime_log._tokens import Event, What

_CALLERS = ("ttcore.load_cached", "tt.load_cached", "func.call", "ttnn.capture_or_execute_trace")


@dataclass(slots=True)
class ProgramTracker:
    """Follows the event lines of one process, in order."""

    programs: list[Program] = field(default_factory=list)
    lookups: list[CacheLookup] = field(default_factory=list)
    retained: set[int] = field(default_factory=set)
    failures: list[FailureText] = field(default_factory=list)
    changes: list[tuple[int, int]] = field(default_factory=list)
    """(operation index, program number) wherever the innermost program changes; -1 outside."""
    facts: dict[str, str] = field(default_factory=dict)
    _stack: list[int] = field(default_factory=list)
    """Numbers of the programs that have started and not yet ended."""
    _open: Counter[str] = field(default_factory=Counter)
    """Their names."""
    _top: int = -1
    """The last program that no other one called."""
    _runs: int = 0
    _broken_at: int = -1
    """How many operations had started when a failure was printed: unless one more runs or a program finishes after
    all (it was caught), the next start is a new run."""
    _resumed: tuple[int, int] = (-1, -1)
    """(operations at that moment, caller) when a nested program ended: until another operation runs, the caller is
    what is running."""
    _submit: tuple[int, int] | None = None
    _any_program: bool = False
    _expected: bool = False
    """Inside the brackets that tests print around the errors they provoke."""

    def event(self, event: Event, *, operations: int, states: int, line: int, last_name: str) -> None:
        """An event line; ``operations`` and ``blocks`` count those before it, ``last_name`` is the last operation's."""
        if event.what is What.STARTED:
            self._start(event.subject, operations, states, line, last_name)
        elif event.what is What.FINISHED:
            self._finish(event.subject, operations, states)
        elif event.what in (What.EXPECTED_BEGIN, What.EXPECTED_END):
            self._expected = event.what is What.EXPECTED_BEGIN
        else:
            self.facts.setdefault(event.what.name.lower(), event.subject)

    def before_submit(self, *, operations: int, states: int) -> None:
        """A new top-level submission begins."""
        self.close_all(operations, states)
        self._submit = (operations, states)

    def after_submit(self, *, operations: int, states: int, line: int) -> None:
        """The submission ended; in a log without program lines this is all that delimits a run."""
        if self._any_program:
            if self._submit and self.programs:
                self.programs[self._top] = replace(self.programs[self._top], end_state=states + 1)
        elif self._submit:
            first_operation, first_state = self._submit
            self.programs.append(
                Program("submit", -1, self._runs, -1, first_operation, operations, True, line, first_state, states + 1)
            )
            self.changes.append((first_operation, len(self.programs) - 1))
            self.changes.append((operations, -1))
            self._runs += 1
        self._submit = None

    def failure(self, text: str, *, operations: int, line: int) -> None:
        """A failure text; it belongs to the operation that was running, if a program was open."""
        if self._expected or not text:
            return
        operation = self._running(operations)
        if not self._any_program:
            operation = operations - 1  # logs from before 2025-05 have no program lines at all
        self.failures.append(FailureText(text, line, operation, operations))
        self._broken_at = operations

    def _running(self, operations: int) -> int:
        """The operation that is running, -1 outside programs; one may run several programs, one after the other."""
        if not self._stack:
            return -1
        return self._resumed[1] if self._resumed[0] == operations else operations - 1

    def _start(self, name: str, operations: int, states: int, line: int, last_name: str) -> None:
        self._any_program = True
        calling = not last_name or last_name.startswith(_CALLERS) or self._resumed[0] == operations
        nests = 0 < len(self._stack) < NESTED_PROGRAMS and self._broken_at != operations and calling
        if not nests or self.programs[self._stack[0]].name == name:  # a program does not call itself: the next run
            self.close_all(operations, states)
        parent = self._stack[-1] if self._stack else -1
        caller = self._running(operations)
        first_state = states
        if parent < 0:
            if self._submit and self._submit[0] == operations:
                first_state = self._submit[1]
            run = self._runs
            self._runs += 1
        else:
            run = self.programs[parent].run
        self.programs.append(Program(name, parent, run, caller, operations, -1, False, line, first_state, -1))
        if parent < 0:
            self._top = len(self.programs) - 1
        self._stack.append(len(self.programs) - 1)
        self._open[name] += 1
        self.changes.append((operations, len(self.programs) - 1))
        self._broken_at = -1

    def _finish(self, name: str, operations: int, states: int) -> None:
        if not self._open[name]:
            return  # its start was not logged
        while True:
            ended = self._stack.pop()
            is_named = self.programs[ended].name == name
            self._close(ended, operations, states, finished=is_named)
            if is_named:
                break
        self._broken_at = -1
        self._resumed = (operations, self.programs[ended].caller)
        self.changes.append((operations, self._stack[-1] if self._stack else -1))

    def close_all(self, operations: int, states: int) -> None:
        """Whatever is still open was cut off."""
        while self._stack:
            self._close(self._stack.pop(), operations, states, finished=False)
            self.changes.append((operations, -1))
        self._broken_at = -1

    def _close(self, number: int, operations: int, states: int, *, finished: bool) -> None:
        self._open[self.programs[number].name] -= 1
        self.programs[number] = replace(
            self.programs[number], end_operation=operations, end_state=states, finished=finished
        )
