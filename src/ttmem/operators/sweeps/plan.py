# SPDX-License-Identifier: Apache-2.0
"""The questions of a sweep: each case on each board, in each memory and layout, small ones first."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product, starmap
from math import prod
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.engines.engine import ENGINES
from ttmem.failures.outcome import Outcome
from ttmem.hardware import BOARDS, DATA_TYPES, MEMORIES, TILE_32X32
from ttmem.operators.case import Case, distinct_cases
from ttmem.operators.case_program import CaseProgram
from ttmem.operators.sweeps.result import Result, pad_size, tile_count
from ttmem.twin.tensor_spec import LAYOUTS

SWEPT_MEMORIES = ("DRAM", "L1")
"""L1_SMALL and TRACE hold what the library puts there by itself; no case can be asked to run in them."""
DEFAULT_L1_SMALL_BYTES = 32768
"""Convolutions and pools need some; models open with this."""


@dataclass(frozen=True, slots=True)
class SweepSettings:
    """Settings of boards and cases; a journal holds the answers for one of them."""

    engine: str = "twin"
    l1_small_bytes: int = DEFAULT_L1_SMALL_BYTES
    trace_region_bytes: int = 0
    float_dtype: str | None = "bfloat16"
    """What the models' floats are on the device; None: as the model has them."""
    timeout_seconds: float = 60.0
    python: str | None = None
    """An interpreter that has ttnn; does not change answers."""

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise BadInputError(f"unknown engine '{self.engine}'", hint=f"known: {', '.join(ENGINES)}")
        if self.float_dtype is not None:
            DATA_TYPES.find(self.float_dtype)

    @property
    def identity(self) -> dict[str, Any]:
        """Settings that answers depend on: a journal of other settings is not continued."""
        names = ("engine", "l1_small_bytes", "trace_region_bytes", "float_dtype")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Point:
    """A question of a sweep."""

    case: Case
    board: str
    memory: str
    layout: str

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Identity among the questions of a sweep."""
        return self.case.id, self.board, self.memory, self.layout

    def result(self, engine: str, outcome: Outcome, recipe: CaseProgram | None = None) -> Result:
        """The question with its answer; ``recipe``: what was put on the device for it."""
        (logical, padded), assumed = ((None, None), ()) if recipe is None else (_input_bytes(recipe), recipe.assumed)
        asked = self.board, engine, self.memory, self.layout
        return Result(self.case.id, self.case.op, outcome, *asked, logical, padded, assumed)


def _input_bytes(recipe: CaseProgram) -> tuple[int, int]:
    """Bytes of the tensors on the device: elements alone, and in the layout that ran."""
    logical = padded = 0
    for tensor in recipe.inputs:
        if not tensor.on_host:
            dtype = DATA_TYPES.find(tensor.dtype)
            logical += dtype.logical_bytes(prod(tensor.shape))
            padded += pad_size(tensor.shape, dtype, tensor.layout)
    return logical, padded


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """Return the questions of a sweep, in order."""

    points: tuple[Point, ...]
    settings: SweepSettings

    def __len__(self) -> int:
        return len(self.points)

    @property
    def boards(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(point.board for point in self.points))


def make_plan(
    cases: Sequence[Case],
    *,
    settings: SweepSettings,
    boards: Sequence[str] = ("n150",),
    memories: Sequence[str] = SWEPT_MEMORIES,
    layouts: Sequence[str] = ("tile",),
) -> SweepPlan:
    """Small cases first, so that limits appear early; equal sizes stay in the order of the file."""
    board_names = tuple(dict.fromkeys(BOARDS.find(board).name for board in boards))
    memory_names = tuple(dict.fromkeys(_sweep_cases(memory) for memory in memories))
    layout_names = tuple(dict.fromkeys(LAYOUTS.find(layout).name for layout in layouts))
    if not (board_names and memory_names and layout_names):
        raise BadInputError("a sweep needs a board, a memory and a layout")
    ordered = sorted(distinct_cases(cases), key=padded_tile_elements)
    return SweepPlan(tuple(starmap(Point, product(ordered, board_names, memory_names, layout_names))), settings)


def _sweep_cases(memory: str) -> str:
    name = MEMORIES.find(memory).name
    if name not in SWEPT_MEMORIES:
        raise BadInputError(f"tensors of a case cannot be put into {name}", hint="sweep DRAM or L1")
    return name


def padded_tile_elements(case: Case) -> int:
    """The size that orders a sweep: elements of all tensors in tiles."""
    return sum(tile_count(tensor.shape) * TILE_32X32.elements for tensor in (*case.tensors, *case.outputs))


def fingerprint(case: Case) -> str:
    """Equal for equal questions, whatever the id says."""
    line = case.to_json()
    facts = [line["op"], line["tensors"], line["args"]]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def split_into_lots(points: Sequence[Point], most: int) -> Iterator[list[Point]]:
    """Neighbours of one board together: an engine is opened for one board."""
    by_board: dict[str, list[Point]] = {}
    for point in points:
        chunk = by_board.setdefault(point.board, [])
        chunk.append(point)
        if len(chunk) >= most:
            yield by_board.pop(point.board)
    yield from by_board.values()
