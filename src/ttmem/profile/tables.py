# SPDX-License-Identifier: Apache-2.0
"""Tables for captured profiles, built one entry at a time, and the timelines that point into them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ttmem.profile.model import (
    MEMORIES,
    VIEW_LARGEST_FREE,
    BufferTable,
    EventTable,
    FailureText,
    GraphArgument,
    Profile,
    ProgramsL1,
    Source,
    Timeline,
)
from ttmem.profile.operation_forms import OperationForms
from ttmem.profile.tensor_type import TensorType

View = tuple[int, int, int, int, int]
"""Banks, then bytes per bank: total, allocated, free, largest free."""


class ProfileTables:
    """Distinct tensor types, memory views and operation forms, numbered in order."""

    def __init__(self) -> None:
        self._types: dict[TensorType, int] = {}
        self._views: dict[View, int] = {}
        self._names: dict[str, int] = {}
        self._signatures: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        self._notes: dict[tuple[str, bool], int] = {("", False): 0}
        self._forms: dict[tuple[int, int, str, str, int], int] = {}

    def add_type(self, type_: TensorType | None) -> int:
        """Return the number of a type, -1 for none."""
        return -1 if type_ is None else self._types.setdefault(type_, len(self._types))

    def add_views(self, views: Mapping[int, View]) -> list[int]:
        """Return the numbers of a state's views, by memory; -1 for a memory without one."""
        numbers = self._views
        stated = (views.get(memory) for memory in range(len(MEMORIES)))
        return [-1 if view is None else numbers.setdefault(view, len(numbers)) for view in stated]

    def banks(self, numbers: Iterable[int]) -> int:
        """Return the largest number of banks in these views."""
        wanted = set(numbers)
        return max((view[0] for view, number in self._views.items() if number in wanted), default=0)

    def add_form(
        self,
        name: str,
        *,
        location: str = "",
        operand_types: Sequence[int] = (),
        result_types: Sequence[int] = (),
        values: str = "=",
        note: tuple[str, bool] = ("", False),
    ) -> int:
        """Return the number of an operation's form; ``values`` names its results and operands (``%5=%3 %4``), if known.

        ``note`` is the function it calls, and whether it frees its input.
        """
        signature = (tuple(operand_types), tuple(result_types))
        key = (
            self._names.setdefault(name, len(self._names)),
            self._signatures.setdefault(signature, len(self._signatures)),
            values,
            location,
            self._notes.setdefault(note, len(self._notes)),
        )
        return self._forms.setdefault(key, len(self._forms))

    def build(
        self,
        timelines: Sequence[Timeline],
        *,
        name: str,
        source: Source,
        facts: Mapping[str, Any] | None = None,
        arguments: Sequence[GraphArgument] = (),
    ) -> Profile:
        return Profile(
            name=name,
            source=source,
            tensor_types=tuple(self._types),
            forms=self._build_forms(),
            views=np.array(list(self._views), np.int64).reshape(-1, VIEW_LARGEST_FREE + 1),
            timelines=tuple(timelines),
            arguments=tuple(arguments),
            facts=dict(facts or {}),
        )

    def _build_forms(self) -> OperationForms:
        values = [form[2].encode("ascii", "replace") for form in self._forms]
        locations = [form[3].encode("utf-8", "surrogateescape") for form in self._forms]
        return OperationForms(
            name=np.array([form[0] for form in self._forms], np.int32),
            names=tuple(self._names),
            signature=np.array([form[1] for form in self._forms], np.int32),
            signatures=tuple(self._signatures),
            ssa_end=np.cumsum([len(text) for text in values], dtype=np.int64),
            ssa_pool=b"".join(values),
            location_end=np.cumsum([len(text) for text in locations], dtype=np.int64),
            location_pool=b"".join(locations),
            note=np.array([form[4] for form in self._forms], np.int32),
            notes=tuple(self._notes),
        )


@dataclass(slots=True)
class States:
    """Memory states in order, as the columns of a timeline."""

    kind: list[int] = field(default_factory=list)
    operation: list[int] = field(default_factory=list)
    cause: list[int] = field(default_factory=list)
    views: list[Sequence[int]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.kind)

    def add(self, kind: int, operation: int, cause: int, views: Sequence[int]) -> None:
        """Add a state with the numbers of its views, one per memory (``ProfileTables.view_numbers``)."""
        self.kind.append(kind)
        self.operation.append(operation)
        self.cause.append(cause)
        self.views.append(views)


class BufferEntry(NamedTuple):
    """A row of a ``BufferTable``, in the order of its columns."""

    address: int
    memory: int
    bytes_per_bank: int
    total_bytes: int
    first_state: int
    last_state: int
    producer: int = -1
    last_use: int = -1
    tensor_type: int = -1
    name: str = ""


_BUFFER_COLUMN_TYPES = (np.int64, np.int8, np.int64, np.int64, *[np.int32] * 6)


def build_buffer_table(entries: Sequence[BufferEntry]) -> BufferTable:
    names: dict[str, int] = {}
    rows = [(*entry[:-1], names.setdefault(entry.name, len(names))) for entry in entries]
    columns = np.array(rows, np.int64).reshape(-1, len(_BUFFER_COLUMN_TYPES)).T
    typed = zip(BufferEntry._fields, columns, _BUFFER_COLUMN_TYPES, strict=True)
    return BufferTable(**{name: column.astype(type_) for name, column, type_ in typed}, names=tuple(names))


def build_programs_l1(needs: Sequence[Sequence[int]]) -> ProgramsL1:
    """Build the table from bytes of tensors, circular buffers, dataflow buffers and scratchpads, and whether all is
    known."""
    columns = np.array(needs, np.int64).reshape(-1, 5)
    tensors, circular_buffers, dataflow_buffers, scratchpads = (columns[:, part].copy() for part in range(4))
    return ProgramsL1(tensors, circular_buffers, dataflow_buffers, scratchpads, columns[:, 4].astype(np.int8))


def build_timeline(
    forms: Sequence[int],
    states: States,
    *,
    lines: Sequence[int] = (),
    rank: int = -1,
    failures: Sequence[FailureText] = (),
    needs: ProgramsL1 | None = None,
    buffers: BufferTable | None = None,
    events: EventTable | None = None,
) -> Timeline:
    """Build the timeline of a process from its operations (forms, and lines where the source has some) and states."""
    lines = lines or [0] * len(forms)
    return Timeline(
        rank=rank,
        first_index=0,
        form=np.array(forms, np.int32),
        line=np.array(lines, np.int64),
        program=np.full(len(forms), -1, np.int32),
        state_kind=np.array(states.kind, np.int8),
        state_operation=np.array(states.operation, np.int32),
        state_cause=np.array(states.cause, np.int32),
        state_view=np.array(states.views, np.int32).reshape(-1, len(MEMORIES)),
        state_line=np.array([lines[at] if at >= 0 else 0 for at in states.operation], np.int64),
        failures=tuple(failures),
        programs_l1=needs,
        buffers=buffers,
        events=events,
    )


def find_largest_free_block(base_address: int, bytes_per_bank: int, taken: Iterable[tuple[int, int]]) -> int:
    """Return the largest free block of a bank while (address, bytes) are allocated; blocks outside do not count."""
    largest, end = 0, base_address
    for address, size in sorted(taken):
        largest = max(largest, address - end)
        end = max(end, address + size)
    return max(largest, base_address + bytes_per_bank - end)
