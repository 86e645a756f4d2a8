# SPDX-License-Identifier: Apache-2.0
"""Columns of memory states, shared by the questions that look at a run over time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttmem.profile.model import (
    MEMORIES,
    UNREAD,
    VIEW_ALLOCATED,
    VIEW_BANKS,
    VIEW_TOTAL,
    WITHIN_OPERATION,
    Profile,
    Timeline,
)
from ttmem.profile.operation_forms import Int64


@dataclass(frozen=True, slots=True)
class OperationRef:
    """An executed operation; the index is null for what no operation of the source did."""

    index: int | None
    name: str


@dataclass(frozen=True, slots=True)
class OperationPlace:
    """An executed operation and where its program's source has it."""

    index: int
    name: str
    location: str


def known(number: int) -> int | None:
    """An index or a rank; -1 means none in the columns of a profile."""
    return number if number >= 0 else None


@dataclass(frozen=True, slots=True)
class StateColumn:
    """A figure of a memory over the states of a timeline that show it."""

    state: NDArray[np.intp]
    """Positions in the timeline's columns of states."""
    value: Int64


def state_column(profile: Profile, timeline: Timeline, memory: str, view_column: int = VIEW_ALLOCATED) -> StateColumn:
    """The states that have a line for this memory; a state without that line is unknown, not zero."""
    views = timeline.state_view[:, MEMORIES.index(memory)]
    shown = np.flatnonzero(views >= 0)
    return StateColumn(state=shown, value=profile.views[views[shown], view_column])


def bank_size(profile: Profile, timeline: Timeline, memory: str) -> tuple[int, int]:
    """(banks, bytes per bank) of a memory, as its first state says; (0, 0) when none shows it."""
    views = timeline.state_view[:, MEMORIES.index(memory)]
    seen = views[views >= 0]
    return (int(profile.views[seen[0], VIEW_BANKS]), int(profile.views[seen[0], VIEW_TOTAL])) if len(seen) else (0, 0)


def change_per_operation(profile: Profile, timeline: Timeline, memory: str) -> Int64:
    """After-state minus before-state (bytes per bank) of every operation that has both, 0 for the others."""
    states = change_between_operations(timeline, state_column(profile, timeline, memory))
    change = np.zeros(len(timeline), dtype=np.int64)
    cause = timeline.state_cause[states.state[1:]]
    before = timeline.state_operation[states.state[:-1]]
    whole = (cause >= timeline.first_index) & (cause == before)
    change[cause[whole] - timeline.first_index] = np.diff(states.value)[whole]
    return change


def change_between_operations(timeline: Timeline, states: StateColumn) -> StateColumn:
    """Without the moments inside operations: those are neither before nor after."""
    kept = timeline.state_kind[states.state] != WITHIN_OPERATION
    return StateColumn(state=states.state[kept], value=states.value[kept])


def seen_memories(profile: Profile) -> tuple[str, ...]:
    """The memories with at least one state, in the order in which they are printed."""
    seen = np.zeros(len(MEMORIES), dtype=bool)
    for timeline in profile.timelines:
        if len(timeline.state_view):
            seen |= (timeline.state_view >= 0).any(axis=0)
    return tuple(memory for memory, present in zip(MEMORIES, seen, strict=True) if present)


def operation_line(timeline: Timeline, operation: int | None) -> int | None:
    """Return the line of the operation in the source."""
    if operation is None or not timeline.first_index <= operation < timeline.end_index:
        return None
    return int(timeline.line[operation - timeline.first_index])


@dataclass(frozen=True, slots=True)
class Unread:
    """Missing figures of a memory; false when none is missing."""

    text: str = ""
    """With the lines."""
    contradicts: bool = False
    """Figures that were read contradict each other. Else a peak that was read is a lower bound of the true one."""

    def __bool__(self) -> bool:
        return bool(self.text)


NOTHING_UNREAD = Unread()


def unread(profile: Profile, memory: str) -> Unread:
    """Return the figures of a memory that could not be read."""
    found = profile.facts.get(UNREAD)
    entries = [found[key] for key in (memory, "") if key in found] if isinstance(found, dict) else []
    entries = [entry for entry in entries if isinstance(entry, dict)]
    return Unread("; ".join(str(one.get("text")) for one in entries), any(one.get("contradicts") for one in entries))
