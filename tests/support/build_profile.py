# SPDX-License-Identifier: Apache-2.0
"""Hand-made profiles for tests: says what a log would say, one call per line of it.

    build = ProfileBuilder("tiny")
    with build.program("main"):
        build.operation("ttnn.matmul", results={"%1": tensor(64, 64)}, operands={"%0": tensor(64, 64)}, dram=0)
        build.operation("ttnn.deallocate", operands={"%1": tensor(64, 64)}, dram=8192)
    profile = build.build()

A figure such as ``dram=8192`` is the state printed *before* that operation; an operation without any figure
has no block. Free and largest free default to what is left of the bank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from ttmem.profile.model import (
    AFTER_SUBMIT,
    BEFORE_OPERATION,
    BEFORE_SUBMIT,
    MEMORIES,
    SNAPSHOT,
    CacheLookup,
    FailureText,
    GraphArgument,
    Profile,
    Program,
    Source,
    Timeline,
)
from ttmem.profile.operation_forms import OperationForms
from ttmem.profile.tensor_type import TensorType

MIB = 1 << 20
BANKS = {"DRAM": 12, "L1": 64, "L1_SMALL": 64, "TRACE": 12}
TOTALS = {"DRAM": 1000 * MIB, "L1": 1 * MIB, "L1_SMALL": 32768, "TRACE": 0}

_TILE_BYTES = {"bfloat16": 2048, "float32": 4096, "int32": 4096, "uint32": 4096, "bfloat8_b": 1088, "bfloat4_b": 576}

State = int | tuple[int, int] | tuple[int, int, int]
"""Allocated; or allocated and largest free; or allocated, free and largest free (bytes per bank)."""


def tensor(*shape: int, dtype: str = "bfloat16", memory: str = "DRAM", shard_bytes: int = 0) -> TensorType:
    """A tiled tensor type with the byte figures that its shape gives."""
    *outer, rows, columns = (1, 1, *shape)
    tiles = prod(outer) * -(-rows // 32) * -(-columns // 32)
    tile_bytes = _TILE_BYTES[dtype]
    return TensorType(
        shape=tuple(shape),
        dtype=dtype,
        layout="tile",
        memory=memory,
        placement="height_sharded" if shard_bytes else "interleaved",
        logical_bytes=prod(shape) * tile_bytes // 1024,
        padded_bytes=tiles * tile_bytes,
        page_bytes=tile_bytes,
        shard_bytes=shard_bytes,
    )


@dataclass
class _Rank:
    rank: int
    form: list[int] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    program: list[int] = field(default_factory=list)
    state_kind: list[int] = field(default_factory=list)
    state_operation: list[int] = field(default_factory=list)
    state_cause: list[int] = field(default_factory=list)
    state_view: list[list[int]] = field(default_factory=list)
    state_line: list[int] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)
    stack: list[int] = field(default_factory=list)
    lookups: list[CacheLookup] = field(default_factory=list)
    retained: set[int] = field(default_factory=set)
    failures: list[FailureText] = field(default_factory=list)
    seen_at_last_block: int = 0


class ProfileBuilder:
    """Collects what happened and turns it into a Profile."""

    def __init__(
        self,
        name: str = "hand-made",
        *,
        banks: Mapping[str, int] = BANKS,
        totals: Mapping[str, int] = TOTALS,
        error_bytes: int = 0,
        kind: str = "tt-mlir-log",
        warnings: Sequence[str] = (),
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self._banks = dict(banks)
        self._totals = {**TOTALS, **totals}
        self._source = Source(
            kind=kind,
            name=f"{name}.log",
            bytes=1000,
            lines=100,
            warnings=tuple(warnings),
            state_error_bytes=error_bytes,
        )
        self._facts = dict(facts or {})
        self._types: dict[TensorType, int] = {}
        self._forms: dict[tuple[Any, ...], int] = {}
        self._views: dict[tuple[int, ...], int] = {}
        self._arguments: list[GraphArgument] = []
        self._ranks: list[_Rank] = []
        self._line = 0

    # What the source says ----------------------------------------------------------------------------------------

    def rank(self, rank: int) -> ProfileBuilder:
        """The lines that follow come from this MPI rank."""
        self._ranks.append(_Rank(rank))
        return self

    def operation(
        self,
        name: str,
        *,
        results: Mapping[str, TensorType | None] | None = None,
        operands: Mapping[str, TensorType | None] | None = None,
        location: str = "",
        callee: str = "",
        frees_input: bool = False,
        retained: bool = False,
        **state: State,
    ) -> int:
        """One executed operation and the state before it; returns its index."""
        rank = self._now
        index = len(rank.form)
        self._line += 1
        rank.form.append(self._form(name, results or {}, operands or {}, location, callee, frees_input))
        rank.line.append(self._line)
        rank.program.append(rank.stack[-1] if rank.stack else -1)
        if retained:
            rank.retained.add(index)
        if state:
            self._block(BEFORE_OPERATION, index, state, executed=index)
        return index

    def before_submit(self, **state: State) -> None:
        self._block(BEFORE_SUBMIT, -1, state, executed=len(self._now.form))

    def after_submit(self, **state: State) -> None:
        """The state after the run that just ended, which owns it."""
        rank = self._now
        self._block(AFTER_SUBMIT, -1, state, executed=len(rank.form))
        for index, program in reversed(list(enumerate(rank.programs))):
            if program.parent < 0:
                rank.programs[index] = replace(program, end_state=len(rank.state_kind))
                break

    def snapshot(self, **state: State) -> None:
        self._block(SNAPSHOT, -1, state, executed=len(self._now.form))

    @contextmanager
    def program(self, name: str, *, finished: bool = True) -> Iterator[None]:
        """A program that runs while the block is open; the operation before it is its caller when it is nested."""
        rank = self._now
        parent = rank.stack[-1] if rank.stack else -1
        self._line += 1
        run = rank.programs[parent].run if parent >= 0 else sum(program.parent < 0 for program in rank.programs)
        started = len(rank.form)
        first_state = len(rank.state_kind)
        if parent < 0 and rank.state_kind and rank.state_kind[-1] == BEFORE_SUBMIT:
            first_state -= 1
        rank.programs.append(
            Program(
                name=name,
                parent=parent,
                run=run,
                caller=started - 1 if parent >= 0 else -1,
                first_operation=started,
                end_operation=started,
                finished=finished,
                line=self._line,
                first_state=first_state,
                end_state=first_state,
            )
        )
        index = len(rank.programs) - 1
        rank.stack.append(index)
        yield
        rank.stack.pop()
        self._line += 1
        rank.programs[index] = replace(
            rank.programs[index], end_operation=len(rank.form), end_state=len(rank.state_kind)
        )

    def lookup(self, function: str, *, hit: bool, key: str = "") -> None:
        """What the load_cached just executed found."""
        rank = self._now
        rank.lookups.append(CacheLookup(operation=len(rank.form) - 1, function=function, key=key or function, hit=hit))

    def fail(self, text: str, *, outside: bool = False) -> None:
        rank = self._now
        self._line += 1
        started = len(rank.form)
        operation = -1 if outside else started - 1
        rank.failures.append(FailureText(text=text, line=self._line, operation=operation, next_operation=started))

    def argument(
        self,
        name: str,
        *shape: int,
        kind: str = "parameter",
        dtype: str = "bfloat16",
        graph: str = "main",
        on_device: bool | None = None,
        kv_cache: bool = False,
        logical_bytes: int | None = None,
    ) -> None:
        position = sum(argument.graph == graph for argument in self._arguments)
        if logical_bytes is None:
            logical_bytes = prod(shape) * _TILE_BYTES[dtype] // 1024
        self._arguments.append(
            GraphArgument(graph, position, name, tuple(shape), dtype, kind, logical_bytes, on_device, kv_cache)
        )

    def build(self) -> Profile:
        views = np.array(list(self._views), dtype=np.int64).reshape(-1, 5)
        return Profile(
            name=self.name,
            source=self._source,
            tensor_types=tuple(self._types),
            forms=_columns(list(self._forms)),
            views=views,
            timelines=tuple(map(_timeline, self._ranks or [_Rank(-1)])),
            arguments=tuple(self._arguments),
            facts=self._facts,
        )

    # How it is kept ----------------------------------------------------------------------------------------------

    @property
    def _now(self) -> _Rank:
        if not self._ranks:
            self._ranks.append(_Rank(-1))
        return self._ranks[-1]

    def _type(self, type_: TensorType | None) -> int:
        return -1 if type_ is None else self._types.setdefault(type_, len(self._types))

    def _form(
        self,
        name: str,
        results: Mapping[str, TensorType | None],
        operands: Mapping[str, TensorType | None],
        location: str,
        callee: str,
        frees_input: bool,
    ) -> int:
        key = (
            name,
            tuple(results),
            tuple(operands),
            tuple(map(self._type, operands.values())),
            tuple(map(self._type, results.values())),
            location,
            (callee, frees_input),
        )
        return self._forms.setdefault(key, len(self._forms))

    def _block(self, kind: int, operation: int, state: Mapping[str, State], *, executed: int) -> None:
        rank = self._now
        self._line += 1
        ran_since = executed > rank.seen_at_last_block
        rank.state_kind.append(kind)
        rank.state_operation.append(operation)
        rank.state_cause.append(executed - 1 if ran_since else -1)
        rank.state_line.append(self._line)
        rank.state_view.append([self._view(memory, state.get(memory.lower())) for memory in MEMORIES])
        rank.seen_at_last_block = executed

    def _view(self, memory: str, state: State | None) -> int:
        if state is None:
            return -1
        total = self._totals[memory]
        figures = (state,) if isinstance(state, int) else state
        allocated = figures[0]
        free = figures[1] if len(figures) == 3 else total - allocated
        largest = figures[-1] if len(figures) > 1 else free
        return self._views.setdefault((self._banks[memory], total, allocated, free, largest), len(self._views))


def _columns(forms: list[tuple[Any, ...]]) -> OperationForms:
    names: dict[str, int] = {}
    signatures: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    notes: dict[tuple[str, bool], int] = {("", False): 0}
    name, signature, note = [], [], []
    ssa_end, location_end = [], []
    ssa_pool, location_pool = bytearray(), bytearray()
    for op, results, operands, operand_types, result_types, location, annotation in forms:
        name.append(names.setdefault(op, len(names)))
        signature.append(signatures.setdefault((operand_types, result_types), len(signatures)))
        note.append(notes.setdefault(annotation, len(notes)))
        ssa_pool += f"{' '.join(results)}={' '.join(operands)}".encode()
        ssa_end.append(len(ssa_pool))
        location_pool += location.encode()
        location_end.append(len(location_pool))
    return OperationForms(
        name=np.array(name, dtype=np.int32),
        names=tuple(names),
        signature=np.array(signature, dtype=np.int32),
        signatures=tuple(signatures),
        ssa_end=np.array(ssa_end, dtype=np.int64),
        ssa_pool=bytes(ssa_pool),
        location_end=np.array(location_end, dtype=np.int64),
        location_pool=bytes(location_pool),
        note=np.array(note, dtype=np.int32),
        notes=tuple(notes),
    )


def _timeline(rank: _Rank) -> Timeline:
    return Timeline(
        rank=rank.rank,
        first_index=0,
        form=np.array(rank.form, dtype=np.int32),
        line=np.array(rank.line, dtype=np.int64),
        program=np.array(rank.program, dtype=np.int32),
        state_kind=np.array(rank.state_kind, dtype=np.int8),
        state_operation=np.array(rank.state_operation, dtype=np.int32),
        state_cause=np.array(rank.state_cause, dtype=np.int32),
        state_view=np.array(rank.state_view, dtype=np.int32).reshape(-1, 4),
        state_line=np.array(rank.state_line, dtype=np.int64),
        programs=tuple(rank.programs),
        lookups=tuple(rank.lookups),
        retained=frozenset(rank.retained),
        failures=tuple(rank.failures),
    )
