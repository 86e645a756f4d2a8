# SPDX-License-Identifier: Apache-2.0
"""The distinct operation texts of a run, parsed once each and kept as columns.

A decode loop prints the same line hundreds of times, a single long run never repeats one: columns with two text pools
keep both cheap (an operation costs a few dozen bytes, not a Python object).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


class OperationForm(NamedTuple):
    """A parsed operation text; a tuple, because a replay makes one per distinct operation."""

    name: str
    results: tuple[str, ...]
    """SSA names of the results: ``%5``, or ``%5#0 %5#1`` for several."""
    operands: tuple[str, ...]
    result_types: tuple[int, ...]
    """Indices into ``Profile.tensor_types``; -1 for what is not a tensor (a device, a semaphore)."""
    operand_types: tuple[int, ...]
    callee: str
    """Function that a load_cached, call or trace operation runs, else empty."""
    frees_input: bool
    """conv2d with ``deallocate_activation = true`` releases its input without a deallocate line."""


@dataclass(frozen=True, eq=False)
class OperationForms:
    """Columns over the distinct operation texts."""

    name: Int32
    names: tuple[str, ...]
    signature: Int32
    """Index into ``signatures``: the (operand types, result types) of the form."""
    signatures: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    ssa_end: Int64
    ssa_pool: bytes
    """``%5#0 %5#1=%3 %4`` of every form, one after the other; ``ssa_end[i]`` is where form i stops."""
    location_end: Int64
    location_pool: bytes
    note: Int32
    """Index into ``notes``: callee and flags that few forms have; 0 is none."""
    notes: tuple[tuple[str, bool], ...]

    def __len__(self) -> int:
        return len(self.name)

    def decode(self, chosen: Int32) -> list[OperationForm]:
        """Decode many forms at once: a replay of half a million distinct ones spends most of its time here."""
        ends = self.ssa_end[chosen].tolist()
        starts = np.where(chosen > 0, self.ssa_end[chosen - 1], 0).tolist() if len(chosen) else []
        columns = zip(
            starts,
            ends,
            self.name[chosen].tolist(),
            self.signature[chosen].tolist(),
            self.note[chosen].tolist(),
            strict=True,
        )
        return [self._decode_form(*row) for row in columns]

    def __getitem__(self, form: int) -> OperationForm:
        start = int(self.ssa_end[form - 1]) if form else 0
        end, name, signature, note = (
            int(column[form]) for column in (self.ssa_end, self.name, self.signature, self.note)
        )
        return self._decode_form(start, end, name, signature, note)

    def _decode_form(self, start: int, end: int, name: int, signature: int, note: int) -> OperationForm:
        results, _, operands = self.ssa_pool[start:end].decode("ascii", "replace").partition("=")
        operand_types, result_types = self.signatures[signature]
        return OperationForm(
            self.names[name],
            tuple(results.split()),
            tuple(operands.split()),
            result_types,
            operand_types,
            *self.notes[note],
        )

    def values(self, form: int) -> bytes:
        """Return ``%5#0 %5#1=%3 %4``: the SSA names of results and operands."""
        return self.ssa_pool[int(self.ssa_end[form - 1]) if form else 0 : int(self.ssa_end[form])]

    def location(self, form: int) -> str:
        """Return the operation's location in the user's program, as the compiler wrote it."""
        start = int(self.location_end[form - 1]) if form else 0
        return self.location_pool[start : int(self.location_end[form])].decode("utf-8", "replace")

    def name_of(self, form: int) -> str:
        """Return the operation's name, such as ``ttnn.matmul``."""
        return self.names[int(self.name[form])]
