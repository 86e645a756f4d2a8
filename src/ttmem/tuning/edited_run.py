# SPDX-License-Identifier: Apache-2.0
"""A run with edits: lifetimes and memories of its buffers, and how full that makes each memory.

Nothing is copied: only differences from the captured run are stored, so that a search can try thousands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttmem.hardware import DATA_TYPES, MemoryMap
from ttmem.hardware import MEMORIES as MEMORY_RECORDS
from ttmem.profile.model import MEMORIES
from ttmem.profile.tensor_type import TensorType
from ttmem.tuning.captured_run import CapturedRun, remember
from ttmem.tuning.edits import CHUNK, FREE, Edit
from ttmem.tuning.groups import Group
from ttmem.twin.tensor_spec import LAYOUTS, TensorSpec

if TYPE_CHECKING:
    from ttmem.tuning.chunking import OperationCut

L1_NUMBER = MEMORIES.index("L1")
BytesCurve = NDArray[np.int64]
"""Allocated bytes per bank after each event."""


class EditedBuffer(NamedTuple):
    """A buffer of an edited run; it exists from event ``take_at`` until just before event ``give_at``."""

    memory: int
    bytes_per_bank: int
    total_bytes: int
    type: TensorType | None
    take_at: int
    give_at: int

    @property
    def is_there(self) -> bool:
        """False for a buffer that an edit removed."""
        return self.bytes_per_bank > 0 and self.take_at < self.give_at


GONE = EditedBuffer(0, 0, 0, None, 0, 0)
Change = Mapping[int, EditedBuffer]
"""Number of a buffer -> the changed buffer."""


@dataclass(frozen=True, eq=False)
class EditedRun:
    """A captured run with changed buffers."""

    history: CapturedRun
    changed: Change = field(default_factory=dict)
    pools: tuple[tuple[int, int, int], ...] = ()
    memory_map: MemoryMap | None = None
    static_bytes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Operation -> changed sizes of its programs' static buffers."""
    written_over: Mapping[int, int] = field(default_factory=dict)
    """A tensor without its own buffer -> the buffer that it is written into."""

    cut: frozenset[int] = frozenset()
    """Operations that run in parts."""
    freed: frozenset[int] = frozenset()
    """Tensors that a line of the program frees, which may not be overwritten."""
    refused: frozenset[str] = frozenset()
    """Edits with which a run ended earlier than without."""

    def buffer_of(self, number: int) -> int:
        """Return the buffer of a tensor: its own, or the one that it overwrites."""
        while number in self.written_over:
            number = self.written_over[number]
        return number

    def is_shared(self, number: int) -> bool:
        """Return whether a tensor shares a buffer with another one."""
        return number in self.written_over or number in self.written_over.values()

    def buffer(self, number: int) -> EditedBuffer:
        found = self.changed.get(number)
        return found if found is not None else self._originals[number]

    @cached_property
    def _originals(self) -> list[EditedBuffer]:
        return list_captured_buffers(self.history)

    def numbers(self) -> Iterator[int]:
        """Yield all buffers, including those that edits added."""
        count = len(self.history.lives)
        yield from range(count)
        yield from (number for number in self.changed if number >= count)

    def next_number(self) -> int:
        return max([len(self.history.lives) - 1, *self.changed]) + 1

    def add_change(
        self,
        change: Change,
        written_over: Mapping[int, int] | None = None,
        cut: Iterable[int] = (),
        freed: Iterable[int] = (),
    ) -> EditedRun:
        over = {**self.written_over, **written_over} if written_over else self.written_over
        both = {**self.changed, **change}
        return replace(self, changed=both, written_over=over, cut=self.cut.union(cut), freed=self.freed.union(freed))

    def curves(self) -> list[BytesCurve]:
        """Compute the bytes in each memory after each event, as if all requests had succeeded."""
        curves = [curve.copy() for curve in compute_base_curves(self.history)]
        for number, piece in self.changed.items():
            if number < len(self.history.lives):
                _add(curves, self._originals[number], -1)
            _add(curves, piece, 1)
        return curves

    def compute_peaks_with(self, change: Change, curves: list[BytesCurve]) -> list[int]:
        """Return the peaks after one more change, without copying the run."""
        touched: dict[int, BytesCurve] = {}
        for number, piece in change.items():
            before = self.buffer(number) if number < len(self.history.lives) or number in self.changed else GONE
            for one, sign in ((before, -1), (piece, 1)):
                if one.is_there:
                    if one.memory not in touched:
                        touched[one.memory] = curves[one.memory].copy()
                    touched[one.memory][one.take_at : one.give_at] += sign * one.bytes_per_bank
        return [int(touched.get(memory, curve).max(initial=0)) for memory, curve in enumerate(curves)]

    def peaks_until(self, operation: int, *, inclusive: bool) -> tuple[int, int, int]:
        """Return the peaks of DRAM, L1, and L1 with programs until an operation begins or ends."""
        run = self.history
        end = run.ends[operation] + 1 if inclusive else run.starts[operation]
        curves = self.curves()
        dram, l1 = (int(curves[MEMORIES.index(memory)][:end].max(initial=0)) for memory in ("DRAM", "L1"))
        totals, _ = self.programs_curve(curves)
        at, _, _ = list_launch_columns(run)
        return dram, l1, int(totals[at < end].max(initial=l1))

    def programs_curve(self, curves: list[BytesCurve]) -> tuple[BytesCurve, NDArray[np.int32]]:
        """Return L1 with programs at each launch with known needs, and the operation."""
        at, operation, static = list_launch_columns(self.history)
        if self.static_bytes:
            static = static.copy()
            for number, sizes in self.static_bytes.items():
                rows = np.flatnonzero(operation == number)
                static[rows] = sizes[: len(rows)]
        return curves[L1_NUMBER][at] + static, operation


@remember
def list_captured_buffers(run: CapturedRun) -> list[EditedBuffer]:
    return [
        EditedBuffer(life.memory, life.bytes_per_bank, life.total_bytes, life.type, life.taken_at, life.given_at)
        for life in run.lives
    ]


@remember
def compute_base_curves(run: CapturedRun) -> list[BytesCurve]:
    steps = np.zeros((len(MEMORIES), run.length + 1), np.int64)
    for life in run.lives:
        steps[life.memory, life.taken_at] += life.bytes_per_bank
        steps[life.memory, min(life.given_at, run.length)] -= life.bytes_per_bank
    return list(np.cumsum(steps, axis=1)[:, :-1])


@remember
def list_launch_columns(run: CapturedRun) -> tuple[NDArray[np.int64], NDArray[np.int32], BytesCurve]:
    """Return launches with known needs as columns: position, operation, static bytes per core."""
    known = [launch for launch in run.launches if launch.static_bytes_per_core >= 0]
    return (
        np.array([launch.at for launch in known], np.int64),
        np.array([launch.operation for launch in known], np.int32),
        np.array([launch.static_bytes_per_core for launch in known], np.int64),
    )


def _add(curves: list[BytesCurve], piece: EditedBuffer, sign: int) -> None:
    if piece.is_there:
        curves[piece.memory][piece.take_at : piece.give_at] += sign * piece.bytes_per_bank


def start_edits(run: CapturedRun) -> EditedRun:
    """Return the run without edits."""
    return EditedRun(run, pools=run.pools, memory_map=run.memory_map)


EXACT = "exact"
"""Exact to the byte."""
BOUNDED = "bounded"
"""An upper bound."""
UNKNOWN = "unknown"
"""A guess without a promise."""
UNKNOWN_BECAUSE = "not bounded: "
"""Start of a doubt that excludes a promise."""


@dataclass(frozen=True, slots=True)
class AppliedEdit:
    """An applied edit, its effect and certainty."""

    edit: Edit
    change: Change
    groups: tuple[Group, ...]
    confidence: str
    why_bounded: str = ""
    written_over: Mapping[int, int] = field(default_factory=dict)
    cuts: Mapping[int, OperationCut] = field(default_factory=dict)
    """Operation -> how it runs in parts, if known."""

    @property
    def in_parts(self) -> frozenset[int]:
        """Operations that it cuts, even if unknown how."""
        lives = (life for group in self.groups for life in group.lives)
        return frozenset(life.producer for life in lives) if self.edit.kind == CHUNK else frozenset()

    @property
    def freed(self) -> frozenset[int]:
        return frozenset(self.change) if self.edit.kind == FREE else frozenset()

    def apply_to(self, draft: EditedRun) -> EditedRun:
        return draft.add_change(self.change, self.written_over, self.in_parts, self.freed)


def read_spec(type_: TensorType) -> TensorSpec | None:
    """Read a captured tensor type as a specification, without its shards, which are not fully known."""
    if type_.dtype not in DATA_TYPES or not type_.layout or type_.memory not in MEMORIES:
        return None
    return TensorSpec(
        type_.shape, DATA_TYPES.find(type_.dtype), LAYOUTS.find(type_.layout), MEMORY_RECORDS.find(type_.memory)
    )
