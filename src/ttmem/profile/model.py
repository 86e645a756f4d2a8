# SPDX-License-Identifier: Apache-2.0
"""The data model: operations x memory states x tensors x failures.

Everything that ttmem reads, captures or predicts becomes a ``Profile``, so one function answers each question, whatever
the evidence. Columns are numpy arrays; only what is few is an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ttmem.profile.operation_forms import Int32, Int64, OperationForms
from ttmem.profile.tensor_type import TensorType

MEMORIES = ("DRAM", "L1", "L1_SMALL", "TRACE")

BEFORE_OPERATION, BEFORE_SUBMIT, AFTER_SUBMIT, SNAPSHOT, WITHIN_OPERATION = range(5)
"""The last kind is the peak inside an operation. No log prints it; a capture has it where a memory was fuller then than
in the states around it. Its operation is its cause too, and it has a view only of those memories."""
STATE_NAMES = ("before operation", "before submit", "after submit", "snapshot", "within operation")

VIEW_BANKS, VIEW_TOTAL, VIEW_ALLOCATED, VIEW_FREE, VIEW_LARGEST_FREE = range(5)
"""Columns of ``Profile.views``; all but the first are bytes per bank."""


SUITE_KIND = "ttnn-tests"
"""Kind of a source whose runs are the tests of a suite."""

UNREAD = "unread"
"""A fact: figures of the source that could not be read, by memory (``""``: any)."""

L1_PARTS = ("tensors", "circular_buffers", "dataflow_buffers", "scratchpads")
"""Users of L1 while a program runs: the columns of ``ProgramsL1`` that sum to a moment's total."""

_Table = TypeVar("_Table", bound="_Columns")


@dataclass(frozen=True, slots=True)
class Program:
    """An execution of a function; const-eval, trace and called functions nest inside a run."""

    name: str
    parent: int
    """Index of the enclosing program, -1 at top level."""
    run: int
    """Top-level execution that it belongs to, counted from 0 in each process."""
    caller: int
    """Operation that started it (load_cached, call), -1 at top level or unknown."""
    first_operation: int
    end_operation: int
    """One past the last operation that ran while this program was open, nested ones included."""
    finished: bool
    """False when an exception, a new run or the end of the source cut it off."""
    line: int
    first_state: int = 0
    end_state: int = 0
    """One past the last memory state printed while this program was open (a run owns its submit states too)."""


@dataclass(frozen=True, slots=True)
class CacheLookup:
    """A lookup by ``load_cached``: const-eval results live as long as the process, keyed by the function's hash."""

    operation: int
    function: str
    key: str
    """The printed hash; names are reused by other graphs, hashes are not."""
    hit: bool


class _Columns:
    """A dataclass whose arrays are columns of one length."""

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        named = {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in named.items() if isinstance(value, np.ndarray)}

    def select_rows(self: _Table, chosen: slice | NDArray[np.intp]) -> _Table:
        return replace(self, **{name: column[chosen] for name, column in self.columns.items()})  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class BufferTable(_Columns):
    """The buffers that show in a memory state, one row each.

    A buffer is alive in the states ``first_state`` ... ``last_state``, both included, so the buffers alive in a state
    sum to the allocated bytes of that state. A buffer that lived inside one operation and not at its peak shows in no
    state and has no row.
    """

    address: Int64
    """Address in every bank, as ``tensor.buffer_address()`` gives it."""
    memory: NDArray[np.int8]
    """Index into ``MEMORIES``."""
    bytes_per_bank: Int64
    """Bytes that the allocator took from each bank."""
    total_bytes: Int64
    """Requested bytes, over all banks of one chip."""
    first_state: Int32
    last_state: Int32
    producer: Int32
    """Operation that allocated it, -1 outside operations."""
    last_use: Int32
    """Last operation that read it as an argument, -1 for none."""
    tensor_type: Int32
    """Index into ``Profile.tensor_types``, -1 when no known tensor owns it."""
    name: Int32
    """Index into ``names``."""
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.address)


TAKE, GIVE, LAUNCH, USE, START = range(5)
CLOSING = 2
GIVEN = {"memory_config": 1, "dtype": 2, "output_tensor": 4, "optional_output_tensor": 4}
"""Options that a call can give; the rest follows from its inputs."""


@dataclass(frozen=True, eq=False)
class EventTable(_Columns):
    """The events of the device's memory, in order, one row each; a run can be replayed from them.

    An operation begins with ``START`` and a ``USE`` for every buffer that it reads; its allocations, frees and launches
    follow, temporaries included. Rows that are not ``inside`` happened before it, after the previous one.
    """

    kind: NDArray[np.int8]
    """``TAKE`` ... ``START``."""
    operation: Int32
    """Operation inside or before which it happened; one past the last for what came after all."""
    inside: NDArray[np.int8]
    """1 inside the operation, 0 before it, ``CLOSING`` before it because its device was closed."""
    buffer: Int32
    """``TAKE``, ``GIVE``, ``USE``: buffer, counted from 0 in the order of allocation. ``START``: index into
    ``call_paths``."""
    memory: NDArray[np.int8]
    """``TAKE``: index into ``MEMORIES``."""
    bytes_per_bank: Int64
    """``TAKE``: bytes that the allocator took. ``LAUNCH``: the program's static buffers in L1, per core, -1 when
    unknown. ``START``: the sum of ``GIVEN`` for the options that the call named."""
    total_bytes: Int64
    """``TAKE``: requested bytes, over all banks. ``START``: a number for the call's host tensor, equal for equal
    tensors; 0 without one."""
    address: Int64
    """``TAKE``: address. ``START``: number of calls further out at which the statement that names the results is."""
    row: Int32
    """``TAKE``: the buffer's row in the ``BufferTable``, -1 when it shows in no memory state."""
    pools: tuple[tuple[int, int, int], ...] = ()
    """Per memory: banks, first address, bytes per bank."""
    call_paths: tuple[str, ...] = ()
    """``main.py:12;block.py:40``: the lines of the user's program that led to an operation, outermost first."""

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, eq=False)
class ProgramsL1(_Columns):
    """Bytes per core at each operation's worst moment in L1, by user; the parts sum to the moment's total.

    Tensors take the same part of every core (banks move in lock step); the program's own buffers count on the core that
    has most of them.
    """

    tensors: Int64
    """-1 when nothing is known of the operation (no device was open)."""
    circular_buffers: Int64
    dataflow_buffers: Int64
    scratchpads: Int64
    measured: NDArray[np.int8]
    """1 when the program parts are known (also when no program ran), 0 when only the tensors are."""

    def __len__(self) -> int:
        return len(self.tensors)

    def parts(self, position: int) -> dict[str, int] | None:
        """Return an operation's bytes per core at its worst moment, by user; None when nothing is known of it."""
        if self.tensors[position] < 0:
            return None
        return {part: int(getattr(self, part)[position]) for part in L1_PARTS}


@dataclass(frozen=True, eq=False)
class Timeline:
    """The timeline of a process. Operation indices count all its operations from 0."""

    rank: int
    """MPI rank, -1 when the source does not name one."""
    first_index: int
    """Index of ``form[0]``: not 0 when the timeline was narrowed to one run."""
    form: Int32
    """Per operation: index into ``Profile.forms``."""
    line: Int64
    """Per operation: its line in the source, from 1."""
    program: Int32
    """Per operation: index into ``programs``, -1 outside any."""
    state_kind: NDArray[np.int8]
    """Per memory state: one of ``BEFORE_OPERATION`` ... ``WITHIN_OPERATION``."""
    state_operation: Int32
    """Per memory state: the operation it was printed before, -1 when there is none."""
    state_cause: Int32
    """Per memory state: the operation whose after-state it is, -1 when nothing ran since the state before it."""
    state_view: Int32
    """Memory states x memories: index into ``Profile.views``, -1 when that line is missing."""
    state_line: Int64
    programs: tuple[Program, ...] = ()
    lookups: tuple[CacheLookup, ...] = ()
    retained: frozenset[int] = frozenset()
    """Deallocate operations that freed nothing because the tensor was retained."""
    failures: tuple[FailureText, ...] = ()
    programs_l1: ProgramsL1 | None = None
    """L1 needs of programs; captures have it."""
    buffers: BufferTable | None = None
    """Known lifetimes of buffers; captures have it."""
    events: EventTable | None = None
    """Events in order; captures that ttmem made itself have it."""

    def __len__(self) -> int:
        return len(self.form)

    @property
    def end_index(self) -> int:
        """The index after the last operation."""
        return self.first_index + len(self.form)


@dataclass(frozen=True, slots=True)
class FailureText:
    """A failure as printed; ``ttmem.explain`` works out its meaning when asked."""

    text: str
    line: int
    operation: int
    """Operation that was running, -1 when no program was open (uploads happen outside programs)."""
    next_operation: int
    """Number of operations started when it was printed: later ones mean that the process continued."""
    is_exception: bool = False
    """It was raised or ended the process, so it is a failure in any case; a log's line may only mention one."""
    is_caught: bool = False
    """The program caught it and came to another end."""


@dataclass(frozen=True, slots=True)
class GraphArgument:
    """An argument of a compiled graph: an input, a parameter or a constant."""

    graph: str
    position: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str
    """``input``, ``parameter``, ``constant`` or ``unknown``."""
    bytes: int
    """Logical bytes on one chip (the local shape where the graph is sharded)."""
    on_device: bool | None
    """False for a parameter that only feeds const-eval: it stays on the host. None when no dump tells."""
    kv_cache: bool = False
    device_bytes: int | None = None
    """Bytes in the memory of one chip, padding included; None where the source has only its type."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a profile, and its oddities."""

    kind: str
    name: str
    bytes: int = 0
    lines: int = 0
    unrecognised_lines: int = 0
    """Damaged lines with a runtime marker; foreign lines do not count."""
    warnings: tuple[str, ...] = ()
    state_error_bytes: int = 0
    """Largest error of a printed bytes-per-bank figure (logs round to 0.001 MiB)."""


@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """The memory history of a run.

    Its methods are for people: ``to_json()`` is the contract, the others are for notebooks. They use higher rooms, so
    they import when called.
    """

    name: str
    source: Source
    tensor_types: tuple[TensorType, ...]
    forms: OperationForms
    views: Int64
    """Distinct memory views x (banks, total, allocated, free, largest free), bytes per bank."""
    timelines: tuple[Timeline, ...]
    arguments: tuple[GraphArgument, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    """The source's facts about the machine and its settings (grid, mesh, architecture), for display."""

    def to_json(self) -> dict[str, Any]:
        """Return the document of the ``ttmem.profile/1`` contract."""
        from ttmem.reports.profile_document import build_document  # the contract is rendered one room to the right

        return build_document(self).to_json()

    def rename(self, name: str) -> Profile:
        """Return the same history under another name, with the analyses that were made of it."""
        renamed = replace(self, name=name)
        vars(renamed).update({key: kept for key, kept in vars(self).items() if key not in vars(renamed)})
        return renamed

    def operations(self) -> Any:
        """Return a pyarrow table with one row per executed operation; ``.to_pandas()`` makes a frame of it."""
        return self._build_table("operations")

    def states(self) -> Any:
        """Return a pyarrow table with one row per memory state and memory: allocated and free bytes of each bank."""
        return self._build_table("states")

    def tensors(self) -> Any:
        """Return a pyarrow table with one row per tensor: bytes, producer, lifetime."""
        return self._build_table("tensors")

    def plot(self, memory: str = "DRAM") -> str:
        """Return one memory over the operations as SVG text; in a notebook
        ``IPython.display.SVG(profile.plot("L1"))``."""
        from ttmem.reports.profile_timeline import render_svg

        return render_svg(self, memory)

    def __repr__(self) -> str:
        count = sum(map(len, self.timelines))
        return f"<Profile {self.name!r}: {self.source.kind}, {count:,} operation{'s' * (count != 1)}>"

    def _repr_html_(self) -> str:
        from ttmem.reports.profile_files import render_notebook

        return render_notebook(self)

    def _build_table(self, name: str) -> Any:
        from ttmem.reports.exports import tables

        builders = {
            "operations": tables.build_operations,
            "states": tables.build_states,
            "tensors": tables.build_tensors,
        }
        return tables.build_arrow_table(builders[name](self), extra="notebook")
