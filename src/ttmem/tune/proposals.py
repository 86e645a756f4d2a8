# SPDX-License-Identifier: Apache-2.0
"""Edits that could make room at one moment of a run, with the code to write and what it may cost."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ttmem._errors import TtmemError
from ttmem.analysis.amounts import megabytes
from ttmem.profile import MEMORIES, TensorType
from ttmem.tune import edits
from ttmem.tune.applied import Applied
from ttmem.tune.applying import LAST, TAKES_DTYPE, effect, reusable_input
from ttmem.tune.draft import Draft
from ttmem.tune.edits import Edit
from ttmem.tune.freeing import free_point, objection
from ttmem.tune.groups import Group, groups_of, written
from ttmem.tune.history import History
from ttmem.tune.source import Place, place_of, source_of, targets_of

_TILE = 32
MOST_GROUPS = 64
"""Tensors that are looked at for one moment, the largest first."""
_NARROWER = {"float32": "bfloat16", "bfloat16": "bfloat8_b", "bfloat8_b": "bfloat4_b"}
_PARTS = ("2", "4", "8", "16", "32")
_FIRST_WORDS = ("input_tensor", "input_tensor_a", "input", "input_a")
_SHARD_GRID = (8, 8)
"""Cores that every board has."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One edit that is worth a try."""

    applied: Applied
    group: Group | None

    @property
    def edit(self) -> Edit:
        return self.applied.edit


@dataclass(frozen=True, slots=True)
class Instruction:
    """An edit for the person who has to write it."""

    location: str
    """The line to change, or behind which to write."""
    code: str
    cost: str


def proposals(draft: Draft, memory: int, position: int, kinds: tuple[str, ...]) -> Iterator[Proposal]:
    """Edits of these kinds that leave less in a memory at one moment."""
    for group in _alive(draft, memory, position):
        for kind in kinds:
            if kind == edits.FREE and edits.MEMORY not in kinds and not _can_be_written(draft.history, group):
                continue
            for value in _values(draft.history, kind, group, memory):
                name, line = written(draft.history, group)
                edit = Edit(kind, name, line, value)
                if kind == edits.CHUNK:
                    edit = Edit(kind, f"#{group.lives[0].producer}", "", value)
                try:
                    applied = effect(draft, edit, (group,))
                except TtmemError:
                    continue
                if kind == edits.CHUNK and not applied.cuts:
                    continue  # nobody could make it
                if saved_at(draft, applied, memory, position) > 0:
                    yield Proposal(applied, group)


def _can_be_written(history: History, group: Group) -> bool:
    """A free that no line of the source can say is not cheap: something has to be rearranged for it."""
    return free_point(history, group).can_be_written or source_of(group.site.file) is None


def saved_at(draft: Draft, applied: Applied, memory: int, position: int) -> int:
    """How much less is in a memory at one moment."""
    saved = 0
    for number, piece in applied.change.items():
        pairs = [(piece, -1)]
        if number < len(draft.history.lives) or number in draft.changed:
            pairs.append((draft.piece(number), 1))
        for one, sign in pairs:
            if one.is_there and one.memory == memory and one.take_at <= position < one.give_at:
                saved += sign * one.bytes_per_bank
    return saved


def _alive(draft: Draft, memory: int, position: int) -> list[Group]:
    """The groups that hold most at that moment."""
    history = draft.history
    columns = history.cache.get("columns")
    if columns is None:
        number_of_group = np.full(len(history.lives), -1, np.int64)
        for number, group in enumerate(groups_of(history)):
            number_of_group[[life.number for life in group.lives]] = number
        told = [(life.memory, life.taken_at, life.given_at, life.bytes_per_bank) for life in history.lives]
        columns = history.cache["columns"] = (number_of_group, np.array(told, np.int64).reshape(-1, 4).T.copy())
    number_of_group, (memories, taken, given, size) = columns
    if draft.changed:
        memories, taken, given, size = (column.copy() for column in (memories, taken, given, size))
        for number, piece in draft.changed.items():
            if number < len(history.lives):
                memories[number], size[number] = piece.memory, piece.bytes_per_bank
                taken[number], given[number] = piece.take_at, piece.give_at
    rows = np.flatnonzero((memories == memory) & (taken <= position) & (position < given) & (number_of_group >= 0))
    sums: dict[int, int] = {}
    for row in rows.tolist():
        sums[int(number_of_group[row])] = sums.get(int(number_of_group[row]), 0) + int(size[row])
    groups = groups_of(history)
    largest = sorted(sums, key=lambda number: (-sums[number], number))[:MOST_GROUPS]
    return [groups[number] for number in largest]


def _values(history: History, kind: str, group: Group, memory: int) -> tuple[str, ...]:
    """With which values a kind of edit is tried on a group; none where it makes no sense."""
    first = group.lives[0]
    if group.is_lasting and kind in (edits.FREE, edits.INPLACE, edits.ORDER):
        return ()  # the next call needs it again
    if kind == edits.FREE:
        return ("",)
    if kind == edits.INPLACE:
        return ("",) if all(reusable_input(history, life) is not None for life in group.lives) else ()
    if kind == edits.MEMORY:
        return ("DRAM",) if MEMORIES[memory] == "L1" else ()
    if kind == edits.DTYPE:
        return _narrower(history, group)
    if kind == edits.ORDER:
        return (LAST,) if _is_upload(history, group) and all(life.uses for life in group.lives) else ()
    if kind == edits.SHARD:
        return (edits.INTERLEAVED, _spread(first.type)) if first.type is not None and first.type.shard_bytes else ()
    if kind == edits.CHUNK:
        return _PARTS if first.producer >= 0 and len(group.lives) == 1 else ()
    return ()


def _spread(type_: TensorType) -> str:
    """Height shards over all cores."""
    rows = math.ceil(math.prod(type_.shape[:-1]) / _TILE)
    columns = math.ceil((type_.shape or (1,))[-1] / _TILE) * _TILE
    wide, high = _SHARD_GRID
    return f"height:{math.ceil(rows / (wide * high)) * _TILE}x{columns}@{wide}x{high}"


def _is_upload(history: History, group: Group) -> bool:
    return all(life.producer >= 0 and not history.operations[life.producer].inputs for life in group.lives)


def _narrower(history: History, group: Group) -> tuple[str, ...]:
    """For uploads in tiles. A block format is for weights: what is computed from a first input would follow it."""
    type_ = group.lives[0].type
    if type_ is None or type_.layout != "tile" or not _is_upload(history, group):
        return ()
    if not all(history.operations[life.producer].name.rpartition(".")[2] in TAKES_DTYPE for life in group.lives):
        return ()
    narrower = _NARROWER.get(type_.dtype)
    if narrower is None:
        return ()
    if narrower != "bfloat16":
        for life in group.lives:
            if any(history.operations[index].inputs[:1] == (life.number,) for index in life.uses):
                return ()
    return (narrower,)


def instruction(draft: Draft, applied: Applied) -> Instruction:
    """What to write where."""
    edit, history = applied.edit, draft.history
    group = applied.groups[0] if applied.groups else None
    if edit.kind == edits.REGION:
        option = "l1_small_size" if edit.target.upper() == "L1_SMALL" else "trace_region_size"
        return Instruction("", f"ttnn.open_device(..., {option}={edit.value})", "none, while nobody uses the region")
    if edit.kind == edits.BOARD or group is None:
        return Instruction("", f"--board {edit.value}", "another card")
    made = _call_place(history, group)
    if edit.kind == edits.FREE:
        point = free_point(history, group)
        last = max((one for _, one in point.after if one < len(history.operations)), default=-1)
        place = str(point.place) or (history.operations[last].location if last >= 0 else made)
        cost = f"none, if {point.why_not} does not hold" if point.why_not else "none"
        return Instruction(place, point.code or f"ttnn.deallocate({group.name})", cost)
    if edit.kind == edits.INPLACE:
        other = reusable_input(history, group.lives[0])
        name = other.name if other is not None else "its input"
        return Instruction(made, f"output_tensor={first_argument(history, group) or name}", f"{name} is overwritten")
    if edit.kind == edits.MEMORY:
        size = megabytes(sum(life.total_bytes for life in group.lives))
        where = edit.value.upper()
        code = f"memory_config=ttnn.{where}_MEMORY_CONFIG"
        return Instruction(made, code, f"{size} are read and written in {where} instead")
    if edit.kind == edits.DTYPE:
        return Instruction(made, f"dtype=ttnn.{edit.value}", "fewer bits for every value")
    if edit.kind == edits.ORDER:
        use = history.operations[group.lives[0].uses[0]].location if group.lives[0].uses else ""
        when = f"right before its first use at {use}" if edit.value == LAST else "before everything else"
        return Instruction(made, f"make {group.name} {when}", "none, if it is needed once")
    if edit.kind == edits.SHARD:
        return Instruction(made, f"memory_config: {edit.value}", "operations may need a copy in another form")
    name = history.operations[group.lives[0].producer].name
    code = f"ttmem.chunked({name}, dim=...), in {edit.value} parts"
    return Instruction(made, code, f"{edit.value} launches and copies of the parts")


def _call_place(history: History, group: Group) -> str:
    """The call that makes it, which may stand further in than the statement that names it."""
    producer = group.lives[0].producer
    return history.operations[producer].location if producer >= 0 else str(group.site)


def call_site(history: History, group: Group) -> Place:
    """The same with its columns, where the recorder knew them."""
    producer = group.lives[0].producer
    if producer < 0:
        return group.site
    operation = history.operations[producer]
    inmost, told = place_of(operation.path[-1] if operation.path else ""), place_of(operation.location)
    return inmost if inmost.file == told.file else told


def overwritten(history: History, group: Group) -> str:
    """What ``output_tensor=`` may say in the source: an input that no path of the program reads afterwards, else empty.

    That input may be freed behind the very statement, and nothing frees it later.
    """
    name = first_argument(history, group)
    inputs = {reused.number for life in group.lives if (reused := reusable_input(history, life)) is not None}
    place = call_site(history, group)
    source = source_of(place.file)
    statement = source.statement_of(place) if source is not None else None
    if not name or source is None or statement is None:
        return ""
    outer = source.parent(statement)
    while isinstance(outer, (ast.With, ast.AsyncWith)) and outer.body[-1] is statement:
        statement, outer = outer, source.parent(outer)  # nothing inside comes behind it
    for other in groups_of(history):
        if inputs & {life.number for life in other.lives}:
            made = source.statement_of(other.site) if other.site.file == place.file else None
            if made is None or name not in targets_of(made):
                return ""
            if source.function_of(made) is not source.function_of(statement):
                return ""
            if name not in targets_of(statement) and source.behind(made, statement) is not statement:
                return ""
            if objection(history, other, made, name, statement, overwrites=True):
                return ""
    return name


def first_argument(history: History, group: Group) -> str:
    """What the program calls the first argument of the call that makes a tensor; empty when that is not plain."""
    producer = group.lives[0].producer
    if producer < 0:
        return ""
    place = call_site(history, group)
    source = source_of(place.file)
    call = source.call_at(place, history.operations[producer].name) if source is not None else None
    if call is None:
        return ""
    named = [word.value for word in call.keywords if word.arg in _FIRST_WORDS]
    first = next(iter((*call.args[:1], *named)), None)
    return ast.unparse(first) if isinstance(first, (ast.Name, ast.Attribute)) else ""
