# SPDX-License-Identifier: Apache-2.0
"""Tokens -> timelines: the program of each operation, and the operation of each memory state.

Programs nest (const-eval, traces, calls) and restart their SSA numbers; an exception leaves them unfinished without a
line about it. A state is printed *before* its operation runs and nothing is printed after one, so an operation's effect
is in the next state of the same process, whatever operation that state belongs to.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttmem.base.limits import NESTED_PROGRAMS, RANKS
from ttmem.profile.model import BEFORE_OPERATION, MEMORIES, SNAPSHOT, CacheLookup, FailureText, Program, Timeline
from ttmem.readers.runtime_log._tokens import Event, Kind, LexedLog, Tables, What

_CALLERS = ("ttcore.load_cached", "tt.load_cached", "func.call", "ttnn.capture_or_execute_trace")


@dataclass(slots=True)
class ProgramTracker:
    """Follows the event lines of one process, in order."""

    programs: list[Program] = field(default_factory=list)
    lookups: list[CacheLookup] = field(default_factory=list)
    retained: set[int] = field(default_factory=set)
    failures: list[FailureText] = field(default_factory=list)
    changes: list[tuple[int, int]] = field(default_factory=list)
    """(operation index, program number) at each change of the innermost program; -1 outside."""
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
        """Close the programs that are still open: they were cut off."""
        while self._stack:
            self._close(self._stack.pop(), operations, states, finished=False)
            self.changes.append((operations, -1))
        self._broken_at = -1

    def _close(self, number: int, operations: int, states: int, *, finished: bool) -> None:
        self._open[self.programs[number].name] -= 1
        self.programs[number] = replace(
            self.programs[number], end_operation=operations, end_state=states, finished=finished
        )


Positions = NDArray[np.int64]
RANKS_LEFT_OUT = "ranks left out"
"""Among the facts: how many, where a log names more processes than are kept apart."""


class _Tokens(NamedTuple):
    """Tokens of one process, in parallel columns."""

    kinds: NDArray[np.int8]
    subject: NDArray[np.int32]
    """What each is about: its payload."""
    lines: NDArray[np.int32]


def assemble(log: LexedLog) -> tuple[list[Timeline], dict[str, str]]:
    """Build a timeline per process (MPI rank), and collect the log's facts about the device."""
    kinds = np.array(log.tables.kind, np.int8)[log.token]
    tokens = _Tokens(kinds, np.array(log.tables.payload, np.int32)[log.token], log.line)
    facts: dict[str, str] = {}
    if max(log.tables.rank) < 0:
        return [_timeline(log.tables, -1, tokens, facts)], facts
    ranks = np.array(log.tables.rank, np.int32)[log.token]
    device_ranks = np.unique(ranks[(kinds >= Kind.OPERATION) & (kinds <= Kind.VIEW_TRACE)]).tolist()
    if -1 in device_ranks and len(device_ranks) > 1:
        device_ranks.remove(-1)  # lines that lost their tag: no process owns them
    if len(device_ranks) > RANKS:
        facts[RANKS_LEFT_OUT] = f"{len(device_ranks) - RANKS:,}"
    timelines = []
    for number, rank in enumerate(device_ranks[:RANKS] or [-1]):
        mine = ranks == rank
        if not number:  # untagged failures (the launcher's own output) are reported once, with the first process
            mine |= (ranks == -1) & (kinds == Kind.FAILURE)
        if len(device_ranks) < 2:
            mine[:] = True
        timelines.append(_timeline(log.tables, rank, _Tokens(*(column[mine] for column in tokens)), facts))
    return timelines, facts


def _timeline(tables: Tables, rank: int, tokens: _Tokens, facts: dict[str, str]) -> Timeline:
    """Build the timeline of one process."""
    kinds, subject, lines = tokens
    operation_at = np.flatnonzero(kinds == Kind.OPERATION)
    form = subject[operation_at]
    state_at, state_kind = _states(kinds, operation_at)
    started = np.searchsorted(operation_at, state_at).astype(np.int32)  # operations before each state
    state_operation = _owners(state_kind, started)
    state_view = np.full((len(state_at), len(MEMORIES)), -1, np.int32)
    for memory in range(len(MEMORIES)):
        view_at = np.flatnonzero(kinds == Kind.VIEW_DRAM + memory)[::-1]  # reversed: the first of two wins
        state = np.searchsorted(state_at, view_at, side="right") - 1
        inside = state >= 0
        state_view[state[inside], memory] = subject[view_at[inside]]

    tracker = _track(tables, tokens, operation_at, state_at)
    facts.update({key: value for key, value in tracker.facts.items() if key not in facts})
    return Timeline(
        rank=rank,
        first_index=0,
        form=form,
        line=lines[operation_at].astype(np.int64),
        program=_program_column(tracker, len(form)),
        state_kind=state_kind,
        state_operation=state_operation,
        state_cause=_causes(state_operation, started),
        state_view=state_view,
        state_line=lines[state_at].astype(np.int64),
        programs=tuple(tracker.programs),
        lookups=tuple(tracker.lookups),
        retained=frozenset(tracker.retained),
        failures=tuple(tracker.failures),
    )


def _states(kinds: NDArray[np.int8], operation_at: Positions) -> tuple[Positions, NDArray[np.int8]]:
    """Return the positions and the kinds of memory states.

    A state begins with its header; a DRAM view without a header of its own (the header line was torn, or the file is
    a snapshot) begins one too.
    """
    header_at = np.flatnonzero((kinds >= Kind.BEFORE_OPERATION) & (kinds <= Kind.AFTER_SUBMIT))
    dram_at = np.flatnonzero(kinds == Kind.VIEW_DRAM)
    owner = np.searchsorted(header_at, dram_at) - 1
    headless = dram_at[(owner < 0) | (np.diff(owner, prepend=-1) == 0)]
    header_kind = kinds[header_at] - np.int8(Kind.BEFORE_OPERATION - BEFORE_OPERATION)  # listed in the same order
    if not headless.size:
        return header_at, header_kind
    # A headless state right after an operation that has none yet is that operation's.
    follows_operation = _last_before(operation_at, headless) > _last_before(header_at, headless)
    headless_kind = np.where(follows_operation, BEFORE_OPERATION, SNAPSHOT).astype(np.int8)
    at = np.concatenate([header_at, headless])
    order = np.argsort(at, kind="stable")
    return at[order], np.concatenate([header_kind, headless_kind])[order]


def _last_before(positions: Positions, at: Positions) -> Positions:
    """The last of ``positions`` before each of ``at``, -1 where there is none."""
    return np.concatenate([[-1], positions])[np.searchsorted(positions, at)]


def _owners(state_kind: NDArray[np.int8], started: NDArray[np.int32]) -> NDArray[np.int32]:
    """The operation each state was printed before: the last one started, if it has no state yet."""
    owner = np.where(state_kind == BEFORE_OPERATION, started - 1, -1).astype(np.int32)
    owned = np.flatnonzero(owner >= 0)
    repeated = owned[1:][owner[owned[1:]] == owner[owned[:-1]]]
    owner[repeated] = -1
    return owner


def _causes(state_operation: NDArray[np.int32], started: NDArray[np.int32]) -> NDArray[np.int32]:
    """The operation whose after-state each state is; -1 when nothing ran since the state before it."""
    last_done = np.where(state_operation >= 0, state_operation - 1, started - 1).astype(np.int32)
    cause: NDArray[np.int32] = last_done.copy()
    cause[1:][last_done[1:] == last_done[:-1]] = -1
    return cause


def _track(tables: Tables, tokens: _Tokens, operation_at: Positions, state_at: Positions) -> ProgramTracker:
    """Walk the few lines that are neither operations nor memory states."""
    kinds, subject, lines = tokens
    form = subject[operation_at]
    tracker = ProgramTracker()
    whats = np.array([int(event.what) for event in tables.events] or [-1], np.int8)
    event_at = np.flatnonzero(kinds == Kind.EVENT)
    what = whats[subject[event_at]]
    tracker.lookups = _lookups(tables.events, event_at, what, subject, operation_at)
    tracker.retained = set((np.searchsorted(operation_at, event_at[what == What.RETAINED]) - 1).tolist()) - {-1}
    walked = event_at[(what != What.LOOKUP) & (what != What.HIT) & (what != What.MISS) & (what != What.RETAINED)]
    others = (kinds == Kind.FAILURE) | (kinds == Kind.BEFORE_SUBMIT) | (kinds == Kind.AFTER_SUBMIT)
    at = np.sort(np.concatenate([walked, np.flatnonzero(others)]))
    operations = np.searchsorted(operation_at, at).tolist()
    states_before = np.searchsorted(state_at, at).tolist()
    names = [name.decode("utf-8", "replace") for name in tables.names]
    rows = zip(kinds[at].tolist(), subject[at].tolist(), lines[at].tolist(), operations, states_before, strict=True)
    for kind, number, line, done, states in rows:
        if kind == Kind.EVENT:
            last = names[tables.form_name[form[done - 1]]] if done else ""
            tracker.event(tables.events[number], operations=done, states=states, line=line, last_name=last)
        elif kind == Kind.FAILURE:
            tracker.failure(tables.failures[number], operations=done, line=line)
        elif kind == Kind.BEFORE_SUBMIT:
            tracker.before_submit(operations=done, states=states)
        else:
            tracker.after_submit(operations=done, states=states, line=line)
    tracker.close_all(len(form), len(state_at))
    return tracker


def _lookups(
    events: list[Event],
    event_at: Positions,
    what: NDArray[np.int8],
    subject: NDArray[np.int32],
    operation_at: Positions,
) -> list[CacheLookup]:
    """Return the results of load_cached. The hash is in the line before the verdict; older runtimes print none."""
    verdicts = np.flatnonzero((what == What.HIT) | (what == What.MISS))
    operations = (np.searchsorted(operation_at, event_at[verdicts]) - 1).tolist()
    before = np.maximum(verdicts - 1, 0)
    has_hash = ((what[before] == What.LOOKUP) & (verdicts > 0)).tolist()
    hashed = subject[event_at[before]].tolist()
    hits = (what[verdicts] == What.HIT).tolist()
    own = subject[event_at[verdicts]].tolist()
    return [
        CacheLookup(operation, events[mine].subject, events[key].detail if known else events[mine].subject, hit)
        for operation, mine, key, known, hit in zip(operations, own, hashed, has_hash, hits, strict=True)
        if operation >= 0
    ]


def _program_column(tracker: ProgramTracker, operations: int) -> NDArray[np.int32]:
    column = np.full(operations, -1, np.int32)
    if tracker.changes:
        starts = np.array([at for at, _ in tracker.changes], np.int64)
        numbers = np.array([number for _, number in tracker.changes], np.int32)
        # Of several changes before one operation the last counts, so a right-sided search picks it.
        found = np.searchsorted(starts, np.arange(operations), side="right") - 1
        inside = found >= 0
        column[inside] = numbers[found[inside]]
    return column
