# SPDX-License-Identifier: Apache-2.0
"""One row per memory state, for spreadsheets and data frames; bytes per bank."""

from collections.abc import Iterator, Sequence

import numpy as np

from ttmem.profile.model import MEMORIES, STATE_NAMES, VIEW_ALLOCATED, VIEW_FREE, VIEW_LARGEST_FREE, Profile, Timeline
from ttmem.profile.runs import runs_of
from ttmem.reports.kit.tables import csv_line

_FIGURES = (("allocated", VIEW_ALLOCATED), ("free", VIEW_FREE), ("largest_free", VIEW_LARGEST_FREE))
HEADER = (
    *("index", "op", "location", "program", "run", "rank", "line"),
    *(f"{memory.lower()}_{figure}_bytes_per_bank" for memory in MEMORIES for figure, _ in _FIGURES),
    *("state", "caused_by_index"),
)


def render(profile: Profile) -> str:
    """Empty cells are unknown; a submit state has no operation of its own.

    A log repeats few operations and few states many times, so each distinct one is quoted once.
    """
    lines = [csv_line(HEADER)]
    views = [
        ",".join(str(row[column]) for _, column in _FIGURES)
        for row in profile.views.tolist()  # plain integers are quicker to print than numpy ones
    ]
    views.append(",,")  # a state without a line for this memory (-1)
    operations: dict[int, str] = {}
    for index, timeline in enumerate(profile.timelines):
        lines.extend(_rows(profile, timeline, index, views, operations))
    return "\n".join(lines) + "\n"


def _rows(
    profile: Profile, timeline: Timeline, timeline_index: int, views: Sequence[str], operations: dict[int, str]
) -> Iterator[str]:
    run_of_state = np.full(len(timeline.state_kind), -1, dtype=np.int64)
    for run in runs_of(timeline, timeline_index):
        run_of_state[run.first_state : run.end_state] = run.number
    program_names = [csv_line([program.name]) for program in timeline.programs]
    program_names.append("")  # outside any program (-1)
    rank = str(timeline.rank) if timeline.rank >= 0 else ""
    forms, programs, first = timeline.form.tolist(), timeline.program.tolist(), timeline.first_index
    for kind, operation, cause, run_number, line, (dram, l1, l1_small, trace) in zip(
        timeline.state_kind.tolist(),
        timeline.state_operation.tolist(),
        timeline.state_cause.tolist(),
        run_of_state.tolist(),
        timeline.state_line.tolist(),
        timeline.state_view.tolist(),
        strict=True,
    ):
        if operation >= 0:
            form = forms[operation - first]
            label = operations.get(form)
            if label is None:
                name, place = profile.forms.name_of(form), profile.forms.location(form)
                label = operations[form] = csv_line([name, place])
            head = f"{operation},{label},{program_names[programs[operation - first]]}"
        else:
            head = ",,,"
        yield (
            f"{head},{run_number if run_number >= 0 else ''},{rank},{line},"
            f"{views[dram]},{views[l1]},{views[l1_small]},{views[trace]},"
            f"{STATE_NAMES[kind]},{cause if cause >= 0 else ''}"
        )
