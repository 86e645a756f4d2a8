# SPDX-License-Identifier: Apache-2.0
"""What only a capture knows: the buffers themselves, and what programs need in L1 beside them.

Logs print neither, so both are optional parts of a ``Timeline``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ttmem.profile.operation_forms import Int32, Int64

L1_PARTS = ("tensors", "circular_buffers", "dataflow_buffers", "scratchpads")
"""Who holds L1 while a program runs: the columns of ``ProgramsL1`` that sum to a moment's total."""

_Table = TypeVar("_Table", bound="_Columns")


class _Columns:
    """A dataclass whose arrays are columns of one length."""

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """All columns by name, to be checked or cut alike."""
        named = {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in named.items() if isinstance(value, np.ndarray)}

    def rows(self: _Table, chosen: slice | NDArray[np.intp]) -> _Table:
        """The same table with some of its rows."""
        return replace(self, **{name: column[chosen] for name, column in self.columns.items()})  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class BufferTable(_Columns):
    """Every buffer that shows in a memory state, one row each.

    A buffer is alive in the states ``first_block`` ... ``last_block``, both included, so the buffers alive in a state
    sum to what that state says is allocated. What lived inside one operation and was not there at its fullest moment
    shows in no state and has no row.
    """

    address: Int64
    """Where it lies in every bank, as ``tensor.buffer_address()`` gives it."""
    memory: NDArray[np.int8]
    """Index into ``MEMORIES``."""
    bytes_per_bank: Int64
    """What the allocator took from each bank."""
    total_bytes: Int64
    """What was asked for, over all banks of one chip."""
    first_block: Int32
    last_block: Int32
    producer: Int32
    """The operation that allocated it, -1 when it came to be outside any."""
    last_use: Int32
    """The last operation that read it as an argument, -1 when none did."""
    tensor_type: Int32
    """Index into ``Profile.tensor_types``, -1 when no tensor that the program saw owns it."""
    name: Int32
    """Index into ``names``."""
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How many buffers there are."""
        return len(self.address)


@dataclass(frozen=True, eq=False)
class ProgramsL1(_Columns):
    """Per operation: bytes per core at its worst moment in L1, by who holds them; the parts sum to the moment's total.

    Tensors take the same part of every core (banks move in lock step); the program's own buffers count on the core
    that has most of them.
    """

    tensors: Int64
    """-1 when nothing is known of the operation (no device was open)."""
    circular_buffers: Int64
    dataflow_buffers: Int64
    scratchpads: Int64
    measured: NDArray[np.int8]
    """1 when the program parts are known (also when no program ran), 0 when only the tensors are."""

    def __len__(self) -> int:
        """How many operations there are."""
        return len(self.tensors)

    def parts(self, position: int) -> dict[str, int] | None:
        """Bytes per core at the worst moment of one operation, by who holds them; None when nothing is known of it."""
        if self.tensors[position] < 0:
            return None
        return {part: int(getattr(self, part)[position]) for part in L1_PARTS}
