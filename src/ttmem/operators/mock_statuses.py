# SPDX-License-Identifier: Apache-2.0
"""Statuses of cases on the real library with a mock board: examples in every cell, predictions for generated tests."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.engines.ttnn import TtnnEngine
from ttmem.operators.case import Case
from ttmem.operators.case_program import CaseProgram, lower_case
from ttmem.operators.catalogue_entries import DEVICE, catalogue
from ttmem.operators.mapping import CELLS, Cells
from ttmem.operators.pytest_files import MEMORIES, Predictions, recipes_of

L1_SMALL_BYTES = 32768
"""The L1_SMALL region of sweeps: convolutions and pools need one."""
Progress = Callable[[int, int], None]


def run_on_mock(
    programs: Sequence[CaseProgram], *, board: str, python: str | None, progress: Progress | None
) -> tuple[list[str], Any]:
    """Return the status of every program, and the pools of the board that was opened."""
    found: list[str] = []
    with TtnnEngine(board=board, python=python, l1_small_bytes=L1_SMALL_BYTES, measure_programs=False) as engine:
        for outcome in engine.ask_all([program.steps for program in programs], stop=True):
            found.append(outcome.status)
            if progress:
                progress(len(found), len(programs))
        return found, engine.device["pools"]


def try_examples(
    wanted: Collection[str] | None, *, board: str, python: str | None, progress: Progress | None
) -> dict[str, Cells]:
    """Try the example of every wanted operator in every memory and layout."""
    asked = [
        (operator, cell)
        for operator in catalogue().operators.values()
        if operator.support == DEVICE and (wanted is None or operator.aten in wanted)
        for cell in CELLS
    ]
    programs = [
        lower_case(operator.example_case(), memory=memory, layout=layout) for operator, (memory, layout) in asked
    ]
    statuses, _ = run_on_mock(programs, board=board, python=python, progress=progress)
    tried: dict[str, dict[tuple[str, str], str]] = {}
    for (operator, cell), program, status in zip(asked, programs, statuses, strict=True):
        tried.setdefault(operator.aten, {})[cell] = _describe_cell(status, program, cell[1])
    return dict(tried)


def _describe_cell(status: str, program: CaseProgram, layout: str) -> str:
    """Return the status; a call whose inputs must have the other layout was not tried in this one."""
    layouts = {tensor.layout for tensor in program.inputs if not tensor.on_host}
    if layouts and layout not in layouts:
        return "tile only" if layout == "row_major" else "row-major only"
    return status


def choose_most_used(cases: Sequence[Case], operators: Collection[str], most: int | None) -> list[Case]:
    """Return the ``most`` most used cases of each of these operators (none: of all)."""
    known = {case.op for case in cases}
    for name in operators:
        if name not in known:
            raise BadInputError(f"no case of '{name}'", hint=f"there are {', '.join(sorted(known))}")
    kept = [case for case in cases if not operators or case.op in operators]
    most_used: dict[str, list[int]] = defaultdict(list)
    for index in sorted(range(len(kept)), key=lambda index: -kept[index].count):
        most_used[kept[index].op].append(index)
    return [kept[index] for index in sorted(index for indices in most_used.values() for index in indices[:most])]


def predict_on_boards(
    cases: Sequence[Case], boards: Sequence[str], run: Callable[[Sequence[CaseProgram], str], tuple[list[str], Any]]
) -> Predictions:
    """Predict every case in both memories of every board; ``run`` is ``run_on_mock`` for a board."""
    asked = [(program.case, memory) for program in recipes_of(cases)[0] for memory in MEMORIES]
    programs = [lower_case(case, memory=memory) for case, memory in asked]
    outcomes: dict[str, dict[str, dict[str, str]]] = {}
    devices: dict[str, dict[str, tuple[int, int]]] = {}
    for board in boards:
        statuses, pools = run(programs, board)
        devices[board] = {memory: (pools[memory][0], pools[memory][2]) for memory in MEMORIES}
        for (case, memory), status in zip(asked, statuses, strict=True):
            outcomes.setdefault(case.id, {}).setdefault(board, {})[memory] = status
    return Predictions(outcomes, devices)
