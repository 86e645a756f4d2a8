# SPDX-License-Identifier: Apache-2.0
"""Which runs a source holds: a run is one top-level execution, nested programs belong to it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ttmem.profile import BEFORE_SUBMIT, Profile, Timeline


@dataclass(frozen=True, slots=True)
class Run:
    """One top-level execution of one process, with its share of the timeline."""

    rank: int
    timeline: int
    number: int
    program: str
    first_index: int
    end_index: int
    """One past its last operation."""
    first_block: int
    end_block: int
    """One past its last memory state; the submit states around a run are its own."""
    finished: bool


def runs(profile: Profile) -> list[Run]:
    """All runs of all ranks, in order."""
    return [run for index, timeline in enumerate(profile.timelines) for run in runs_of(timeline, index)]


def runs_of(timeline: Timeline, timeline_index: int = 0) -> list[Run]:
    """The runs of one process."""
    found = [
        Run(
            rank=timeline.rank,
            timeline=timeline_index,
            number=program.run,
            program=program.name,
            first_index=program.first_operation,
            end_index=program.end_operation,
            first_block=program.first_block,
            end_block=program.end_block,
            finished=program.finished,
        )
        for program in timeline.programs
        if program.parent < 0
    ]
    return found or _runs_without_program_lines(timeline, timeline_index)


def counted_runs(profile: Profile) -> int:
    """How often the model ran: a last run that the source cuts off counts only when there is no other one.

    Ranks run the same programs, so the rank that got furthest tells.
    """
    return max((_counted(runs_of(timeline)) for timeline in profile.timelines), default=0)


def _counted(of_one_process: list[Run]) -> int:
    if len(of_one_process) > 1 and not of_one_process[-1].finished:
        return len(of_one_process) - 1
    return len(of_one_process)


def _runs_without_program_lines(timeline: Timeline, timeline_index: int) -> list[Run]:
    """Old runtimes and INFO-only logs name no program: submit states separate runs, else all is one run."""
    blocks = len(timeline.block_kind)
    if not blocks and not len(timeline):
        return []
    cuts = [0, *np.flatnonzero(timeline.block_kind == BEFORE_SUBMIT)[1:].tolist(), blocks]
    first_index = timeline.first_index
    found = []
    for number, (first_block, end_block) in enumerate(pairwise(cuts)):
        operations = timeline.block_operation[first_block:end_block]
        last = end_block == blocks
        end_index = timeline.end_index if last else max(first_index, int(operations.max(initial=-1)) + 1)
        found.append(
            Run(
                rank=timeline.rank,
                timeline=timeline_index,
                number=number,
                program="",
                first_index=first_index,
                end_index=end_index,
                first_block=first_block,
                end_block=end_block,
                finished=True,
            )
        )
        first_index = end_index
    return found
