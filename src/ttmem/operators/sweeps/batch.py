# SPDX-License-Identifier: Apache-2.0
"""Many cases at once on the twin: elementwise operations over numpy columns, everything else one by one.

An elementwise operation takes its inputs, a result of the same size, and static buffers that do not depend on the
shape. So which of thousands of shapes pass is a few comparisons of columns; the rules are those of the scalar twin,
and a test holds the two to the same rows.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ttmem.engines.twin import TwinEngine
from ttmem.failures import classify_oom
from ttmem.failures.outcome import Outcome
from ttmem.hardware import DATA_TYPES, L1, MEMORIES, TILE_32X32, DataType, Memory, MemoryMap
from ttmem.operators.bound_case import CannotRunError
from ttmem.operators.case import Case
from ttmem.operators.case_program import recipe_of
from ttmem.operators.sweeps.ask_engine import Asker
from ttmem.operators.sweeps.plan import Point, Settings
from ttmem.operators.sweeps.result import Result
from ttmem.twin import error_messages
from ttmem.twin.batch import place_table, table_of
from ttmem.twin.operations import EXACT, RECORDS, Launch, call_of, plan_call, read_call
from ttmem.twin.programs import end_of_stack
from ttmem.twin.tensor_spec import LAYOUTS, Layout, TensorSpec

if TYPE_CHECKING:
    IntColumn = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

PASS, OOM, CLASH = 0, 1, 2
_STATUSES = ("pass", "oom", "clash")
_WORTH_A_TABLE = 8
_BLOCK = 4096
_SINGLES = 32
_LIKE_FIRST = ": a tensor of "
"""How a recipe says that it made up an operand like the first one."""
_NO_PARTS: dict[str, int] = {}
"""Shared by all results: making one for each costs time."""
_SCALARS = (int, float, str, bool, type(None))
_MOST_ELEMENTS = 1 << 40
"""Larger shapes go one by one: the columns' arithmetic is made for what fits devices."""


@dataclass(frozen=True, slots=True)
class Family:
    """What the rows of a table share: all that decides about memory except the shape."""

    inputs: int
    dtype: DataType
    layout: Layout
    memory: Memory
    static_end_address: int
    """How far the static buffers reach on a core."""
    static_family: str
    assumed: tuple[str, ...] = ()


class Verdicts(NamedTuple):
    """Columns: PASS, OOM or CLASH, and the figures of a row."""

    status: IntColumn
    needed_bytes: IntColumn
    bytes_per_bank: IntColumn
    taken_bytes_per_bank: IntColumn
    fitting: IntColumn
    """How many of the tensors found a place."""
    peak_bytes_per_bank: IntColumn
    padded_bytes: IntColumn
    """Of all inputs."""
    logical_bytes: IntColumn


def judge(shapes: Sequence[Sequence[int]] | IntColumn, family: Family, memory_map: MemoryMap) -> Verdicts:
    """Every shape on an empty device."""
    table = table_of(shapes, family.dtype, family.layout, family.memory)
    placed = place_table(table, memory_map)
    taken, bank = placed.taken_bytes_per_bank, memory_map.pool(family.memory).bytes_per_bank
    wanted = family.inputs + 1  # and the result
    fitting = np.minimum(bank // np.maximum(taken, 1), wanted)
    fitting = np.where(taken == 0, wanted, fitting)
    status = np.where(fitting < wanted, OOM, PASS)
    if family.memory is L1:
        top = memory_map.l1.base_address + memory_map.l1.bytes_per_bank
        lowest = np.where(taken > 0, top - taken * wanted, top + (1 << 40))
        status = np.where((status == PASS) & (family.static_end_address > lowest), CLASH, status)
    padded = placed.pages * placed.page_bytes * family.inputs
    logical = table.shapes.prod(axis=1) * family.dtype.tile_bytes() // TILE_32X32.elements * family.inputs
    return Verdicts(status, placed.total_bytes, placed.bytes_per_bank, taken, fitting, fitting * taken, padded, logical)


def family_of(point: Point, settings: Settings, memory_map: MemoryMap) -> Family | None:
    """The family of a point, None when its shape decides about more than sizes."""
    try:
        recipe = recipe_of(point.case, memory=point.memory, layout=point.layout, float_dtype=settings.float_dtype)
    except CannotRunError:
        return None
    if recipe.operator.requires:
        return None
    *made, call = recipe.steps
    if recipe.operator.kind not in ("unary", "binary", "copy") or "call" not in call or len(made) != len(recipe.inputs):
        return None
    shapes = {tensor.shape for tensor in recipe.inputs}
    kinds = {(t.dtype, t.layout, t.memory, t.on_host) for t in recipe.inputs}
    if len(shapes) != 1 or len(kinds) != 1 or any(t.shape != t.model_shape for t in recipe.inputs):
        return None
    if not all(isinstance(value, _SCALARS) for value in recipe.values.values()):
        return None
    dtype, layout, memory, on_host = next(iter(kinds))
    written = read_call(call)
    record = RECORDS.get(written.function)
    if record is None or record.is_sized_by_elements is None or on_host or written.memory is None:
        return None
    spec = TensorSpec(next(iter(shapes)), DATA_TYPES.find(dtype), LAYOUTS.find(layout), MEMORIES.find(memory))
    if not record.is_sized_by_elements(spec):
        return None
    plan = plan_call(call_of(record, written, [spec] * len(written.tensors)), memory_map)
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    if plan.confidence != EXACT or len(launches) != 1:
        return None
    return Family(
        inputs=len(recipe.inputs),
        dtype=spec.dtype,
        layout=spec.layout,
        memory=spec.memory,
        static_end_address=end_of_stack(launches[0].buffer_bytes, memory_map),
        static_family=launches[0].family,
        assumed=tuple(
            text.partition(_LIKE_FIRST)[0] + _LIKE_FIRST if _LIKE_FIRST in text else text for text in recipe.assumed
        ),
    )


def ask_in_batches(points: Sequence[Point], settings: Settings) -> Iterator[list[Result]]:
    """Results of the points, the same as the scalar twin's, in the order in which they are done."""
    # Hundreds of thousands of points stay until the end: looking for garbage among them again and again costs a fifth.
    gc.freeze()
    try:
        yield from _in_blocks(points, settings)
    finally:
        gc.unfreeze()


def _in_blocks(points: Sequence[Point], settings: Settings) -> Iterator[list[Result]]:
    asker = Asker(settings)
    families: dict[Any, Family | None] = {}
    for start in range(0, len(points), _BLOCK):
        groups: dict[Any, list[Point]] = {}
        for point in points[start : start + _BLOCK]:
            groups.setdefault(_group_key(point), []).append(point)
        alone = groups.pop(None, [])
        for key, group in groups.items():
            if len(group) < _WORTH_A_TABLE:
                alone += group
                continue
            if key not in families:
                families[key] = family_of(group[0], settings, _map(asker, group[0]))
            family = families[key]
            if family is None:
                alone += group
            else:
                yield _batch_results(group, family, _map(asker, group[0]), settings)
        for first in range(0, len(alone), _SINGLES):
            yield list(asker.ask(alone[first : first + _SINGLES]))


def _group_key(point: Point) -> Any:
    """Points of one key differ in the shape alone; None: a case that is not a plain elementwise one."""
    case = point.case
    tensors = case.tensors
    if not tensors or len(tensors) > 2:
        return None
    first = tensors[0]
    shape, dtype, name = first.shape, first.dtype, first.name
    if not 0 < prod(shape) < _MOST_ELEMENTS or not 2 <= len(shape) <= 8:
        return None
    if len(tensors) == 2 and (tensors[1].shape != shape or tensors[1].dtype != dtype):
        return None
    args = repr(case.args) if case.args else ""
    return case.op, len(tensors), dtype, name, args, point.board, point.memory, point.layout


def _map(asker: Asker, point: Point) -> MemoryMap:
    engine = asker.engine(point.board)
    assert isinstance(engine, TwinEngine)
    return engine.device.memory_map


def _batch_results(points: list[Point], family: Family, memory_map: MemoryMap, settings: Settings) -> list[Result]:
    started = time.perf_counter()
    shapes = [point.case.tensors[0].shape for point in points]
    columns = [column.tolist() for column in judge(shapes, family, memory_map)]
    share = (time.perf_counter() - started) / len(points)
    writer = _ResultWriter(family, memory_map, points[0], settings.engine, share)
    return [writer.result(point.case, *figures) for point, *figures in zip(points, *columns, strict=True)]


class _ResultWriter:
    """Figures to results, in the library's words where something failed. Their points differ in the shape alone."""

    def __init__(self, family: Family, memory_map: MemoryMap, point: Point, engine: str, seconds: float) -> None:
        self._family = family
        self._map = memory_map
        self._pool = memory_map.pool(family.memory)
        self._memory = point.memory
        self._asked = point.board, engine, point.memory, point.layout
        self._seconds = seconds

    def result(
        self,
        case: Case,
        status: int,
        total: int,
        per_bank: int,
        taken: int,
        fitting: int,
        peak: int,
        padded: int,
        logical: int,
    ) -> Result:
        family = self._family
        needed, each, message, failure_class, memory = None, None, "", "", None
        if status == OOM:
            needed, each, memory = total, per_bank, family.memory.name
            message, failure_class = self._out_of_memory(total, per_bank, fitting * taken)
        elif status == CLASH:
            message, failure_class, memory = self._clash(taken), "buffers/clash", L1.name
        outcome = Outcome(
            _STATUSES[status], failure_class, memory, message, needed, each, {self._memory: peak}, _NO_PARTS, "",
            self._seconds, EXACT,
        )  # fmt: skip
        assumed = self._assumed(case) if family.assumed else ()
        return Result(case.id, case.op, outcome, *self._asked, logical, padded, assumed)

    def _out_of_memory(self, total: int, per_bank: int, allocated: int) -> tuple[str, str]:
        pool, name = self._pool, self._family.memory.name
        size, free = pool.bytes_per_bank, pool.bytes_per_bank - allocated
        sentence = error_messages.out_of_memory(total, name, pool.banks, per_bank, size, allocated, free, free)
        end = "." if self._map.release.full_stop_after_oom else ""
        return sentence + end, classify_oom(per_bank, size, allocated, free, free, name)

    def _clash(self, taken: int) -> str:
        family = self._family
        lowest = self._map.l1.base_address + self._map.l1.bytes_per_bank - taken * (family.inputs + 1)
        return error_messages.clash(family.static_family, lowest, family.static_end_address)

    def _assumed(self, case: Case) -> tuple[str, ...]:
        """A second operand that the source did not list is named by its shape, which differs from case to case."""
        shape = str(list(case.tensors[0].shape))
        texts = self._family.assumed
        if len(texts) == 1 and texts[0].endswith(_LIKE_FIRST):
            return (texts[0] + shape,)
        return tuple([text + shape if text.endswith(_LIKE_FIRST) else text for text in texts])
