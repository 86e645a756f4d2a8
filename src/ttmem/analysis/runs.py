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

    def run(number: int, program: str, operations: tuple[int, int], blocks: tuple[int, int], finished: bool) -> Run:
        return Run(timeline.rank, timeline_index, number, program, *operations, *blocks, finished)

    found = [
        run(
            program.run,
            program.name,
            (program.first_operation, program.end_operation),
            (program.first_block, program.end_block),
            program.finished,
        )
        for program in timeline.programs
        if program.parent < 0
    ]
    blocks = len(timeline.block_kind)
    if found or not (blocks or len(timeline)):
        return found
    # Old runtimes and INFO-only logs name no program: submit states separate runs, else all is one run.
    cuts = [0, *np.flatnonzero(timeline.block_kind == BEFORE_SUBMIT)[1:].tolist(), blocks]
    first = timeline.first_index
    for number, (first_block, end_block) in enumerate(pairwise(cuts)):
        last = int(timeline.block_operation[first_block:end_block].max(initial=-1))
        end = timeline.end_index if end_block == blocks else max(first, last + 1)
        found.append(run(number, "", (first, end), (first_block, end_block), True))
        first = end
    return found


def run_at(timeline: Timeline, operation: int, block: int = -1) -> int | None:
    """The run whose tensors a moment can show, by its operation or its state; between two runs, the last one.

    None where the source names no program.
    """
    tops = [program for program in timeline.programs if program.parent < 0]
    for program in tops:
        if (
            program.first_operation <= operation < program.end_operation
            or program.first_block <= block < program.end_block
        ):
            return program.run
    return tops[-1].run if tops else None


def counted_runs(profile: Profile) -> int:
    """How often the model ran: a last run that the source cuts off counts only when there is no other one.

    Ranks run the same programs, so the rank that got furthest tells.
    """
    return max((_counted(runs_of(timeline)) for timeline in profile.timelines), default=0)


def _counted(of_one_process: list[Run]) -> int:
    if len(of_one_process) > 1 and not of_one_process[-1].finished:
        return len(of_one_process) - 1
    return len(of_one_process)
