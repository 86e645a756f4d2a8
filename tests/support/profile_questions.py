# SPDX-License-Identifier: Apache-2.0
"""Short forms in which tests state what a profile should say."""

from __future__ import annotations

from ttmem.profile.model import MEMORIES, STATE_NAMES, VIEW_ALLOCATED, Profile, Timeline
from ttmem.profile.operation_forms import OperationForm

MIB = 1 << 20


def only(profile: Profile) -> Timeline:
    """The timeline of a source with one process."""
    (timeline,) = profile.timelines
    return timeline


def forms(profile: Profile, timeline: Timeline | None = None) -> list[OperationForm]:
    """The parsed operations in the order in which they ran."""
    return [profile.forms[int(form)] for form in (timeline or only(profile)).form]


def names(profile: Profile, timeline: Timeline | None = None) -> list[str]:
    return [form.name for form in forms(profile, timeline)]


def states(profile: Profile, memory: str = "DRAM", timeline: Timeline | None = None) -> list[tuple]:
    """(kind, operation it was printed before, operation whose after-state it is, MiB per bank) of every state."""
    timeline = timeline or only(profile)
    column = timeline.state_view[:, MEMORIES.index(memory)]
    return [
        (
            STATE_NAMES[kind],
            int(operation) if operation >= 0 else None,
            int(cause) if cause >= 0 else None,
            round(int(profile.views[view, VIEW_ALLOCATED]) / MIB, 3) if view >= 0 else None,
        )
        for kind, operation, cause, view in zip(
            timeline.state_kind, timeline.state_operation, timeline.state_cause, column, strict=True
        )
    ]


def programs(profile: Profile, timeline: Timeline | None = None) -> list[tuple]:
    """(name, parent, run, caller, first operation, one past the last, finished) of every program."""
    return [
        (p.name, p.parent, p.run, p.caller, p.first_operation, p.end_operation, p.finished)
        for p in (timeline or only(profile)).programs
    ]


def program_of_each_operation(profile: Profile, timeline: Timeline | None = None) -> list[str]:
    timeline = timeline or only(profile)
    return [timeline.programs[number].name if number >= 0 else "" for number in timeline.program]
