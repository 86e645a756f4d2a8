# SPDX-License-Identifier: Apache-2.0
"""Whether the columns of a profile point where they may.

A digest only proves that a file is the one that was written, not that it was written well, and a column that points
outside another one would surface much later as an IndexError in some report. Both sides ask: what is saved can be
loaded. A ``ValueError`` here names the column.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttmem.profile.model import BLOCK_NAMES, MEMORIES, VIEW_LARGEST_FREE, Profile, Timeline
from ttmem.profile.operation_forms import OperationForms


def check_profile(profile: Profile) -> None:
    """Raise ``ValueError`` for the first claim that does not hold."""
    if profile.views.shape != (len(profile.views), VIEW_LARGEST_FREE + 1):
        raise ValueError("memory views have the wrong number of columns")
    _check_forms(profile.forms, len(profile.tensor_types))
    for timeline in profile.timelines:
        _check_timeline(timeline, forms=len(profile.forms), views=len(profile.views))
        _check_captured(timeline, tensor_types=len(profile.tensor_types))


def _check_forms(forms: OperationForms, tensor_types: int) -> None:
    columns = (forms.name, forms.signature, forms.ssa_end, forms.location_end, forms.note)
    _same_length("operation forms", columns)
    _within("operation name", forms.name, 0, len(forms.names))
    _within("signature", forms.signature, 0, len(forms.signatures))
    _within("note", forms.note, 0, len(forms.notes))
    _ends_of("operand text", forms.ssa_end, forms.ssa_pool)
    _ends_of("location", forms.location_end, forms.location_pool)
    for operand_types, result_types in forms.signatures:
        _within("tensor type", (*operand_types, *result_types), -1, tensor_types)


def _check_timeline(timeline: Timeline, *, forms: int, views: int) -> None:
    _same_length("operations", (timeline.form, timeline.line, timeline.program))
    blocks = (timeline.block_kind, timeline.block_operation, timeline.block_cause, timeline.block_line)
    _same_length("memory states", blocks)
    if timeline.block_view.shape != (len(timeline.block_kind), len(MEMORIES)):
        raise ValueError("memory states have the wrong number of memories")
    if timeline.first_index < 0:
        raise ValueError("the first index is negative")
    _within("operation form", timeline.form, 0, forms)
    _within("program", timeline.program, -1, len(timeline.programs))
    _within("kind of memory state", timeline.block_kind, 0, len(BLOCK_NAMES))
    _within("memory view", timeline.block_view, -1, views)
    # One past the end: a state may be tied to the operation that the source was cut off before.
    for what, column in (("operation", timeline.block_operation), ("cause", timeline.block_cause)):
        _within(f"memory state's {what}", column, -1, timeline.end_index + 1)
    for program in timeline.programs:
        _within("parent program", (program.parent,), -1, len(timeline.programs))
        _within("program's operations", (program.first_operation, program.end_operation), 0, timeline.end_index + 1)
        _within("program's caller", (program.caller,), -1, timeline.end_index + 1)
        _within("program's memory states", (program.first_block, program.end_block), 0, len(timeline.block_kind) + 1)


def _check_captured(timeline: Timeline, *, tensor_types: int) -> None:
    needs, buffers = timeline.programs_l1, timeline.buffers
    if needs is not None:
        _same_length("L1 needs of programs", (timeline.form, *needs.columns.values()))
    if buffers is None:
        return
    _same_length("buffers", buffers.columns.values())
    _within("buffer's memory", buffers.memory, 0, len(MEMORIES))
    _within("buffer's name", buffers.name, 0, len(buffers.names))
    _within("buffer's tensor type", buffers.tensor_type, -1, tensor_types)
    _within("buffer's producer", buffers.producer, -1, timeline.end_index)
    _within("buffer's last use", buffers.last_use, -1, timeline.end_index)
    for what, column in (("first", buffers.first_block), ("last", buffers.last_block)):
        _within(f"buffer's {what} memory state", column, 0, len(timeline.block_kind))
    if bool(np.any(buffers.first_block > buffers.last_block)):
        raise ValueError("a buffer ends before it begins")


def _same_length(what: str, columns: Iterable[NDArray[Any]]) -> None:
    if len({column.shape for column in columns}) != 1 or any(column.ndim != 1 for column in columns):
        raise ValueError(f"columns of {what} differ in length")


def _within(what: str, values: NDArray[Any] | tuple[int, ...], low: int, end: int) -> None:
    if not len(values):
        return
    smallest, largest = (values.min(), values.max()) if isinstance(values, np.ndarray) else (min(values), max(values))
    if smallest < low or largest >= end:
        raise ValueError(f"{what} points outside its table")


def _ends_of(what: str, ends: NDArray[Any], pool: bytes) -> None:
    if not len(ends):
        if pool:
            raise ValueError(f"{what} without an owner")
        return
    if int(ends[0]) < 0 or int(ends[-1]) != len(pool) or bool(np.any(ends[1:] < ends[:-1])):
        raise ValueError(f"{what} ends outside its pool")
