# SPDX-License-Identifier: Apache-2.0
"""Propose edits that free memory at one moment of a run."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttmem.base.errors import TtmemError
from ttmem.profile.model import MEMORIES
from ttmem.profile.tensor_type import TensorType
from ttmem.tuning import edits
from ttmem.tuning.apply_edit import LAST, TAKES_DTYPE, compute_effect, find_reusable_input
from ttmem.tuning.captured_run import CapturedRun, remember
from ttmem.tuning.edited_run import AppliedEdit, EditedRun
from ttmem.tuning.edits import Edit
from ttmem.tuning.free_points import find_free_point, find_groups_made, find_objection
from ttmem.tuning.groups import Group, list_groups, name_group
from ttmem.tuning.names import find_reaching_assignments
from ttmem.tuning.source import SourcePlace, open_source, parse_place
from ttmem.tuning.syntax import list_targets

_TILE = 32
MOST_GROUPS = 64
"""Largest groups that are tried for one moment."""
_NARROWER = {"float32": "bfloat16", "bfloat16": "bfloat8_b", "bfloat8_b": "bfloat4_b"}
_PARTS = ("2", "4", "8", "16", "32")
_FIRST_WORDS = ("input_tensor", "input_tensor_a", "input", "input_a")
_SHARD_GRID = (8, 8)
"""Grid of cores that every board has."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An edit to try."""

    applied: AppliedEdit
    group: Group | None

    is_in_source: bool = True
    """A free that can be written as a line of the source."""

    @property
    def edit(self) -> Edit:
        return self.applied.edit


def list_proposals(draft: EditedRun, memory: int, position: int, kinds: tuple[str, ...]) -> Iterator[Proposal]:
    """Yield edits of these kinds that save memory at one moment, except those that the source excludes."""
    for group in _find_largest_groups(draft, memory, position):
        for kind in kinds:
            if kind == edits.FREE and not _may_be_freed(draft.history, group, by_hand=edits.DTYPE in kinds):
                continue
            for value in _list_values(draft.history, kind, group, memory):
                name, line = name_group(draft.history, group)
                edit = Edit(kind, name, line, value)
                if kind == edits.CHUNK:
                    edit = Edit(kind, f"#{group.lives[0].producer}", "", value)
                try:
                    applied = compute_effect(draft, edit, (group,))
                except TtmemError:
                    continue
                if kind == edits.CHUNK and not applied.cuts:
                    continue  # it cannot be made
                if measure_saving(draft, applied, memory, position) > 0:
                    is_written = kind != edits.FREE or find_free_point(draft.history, group).can_be_written
                    yield Proposal(applied, group, is_written)


def _may_be_freed(run: CapturedRun, group: Group, *, by_hand: bool) -> bool:
    """Return whether a free is possible; one that needs other changes is not cheap."""
    point = find_free_point(run, group)
    return not point.is_forbidden and (point.can_be_written or by_hand or open_source(group.site.file) is None)


def measure_saving(draft: EditedRun, applied: AppliedEdit, memory: int, position: int) -> int:
    """Return the bytes per bank that an edit saves in a memory at one moment."""
    saved = 0
    for number, piece in applied.change.items():
        pairs = [(piece, -1)]
        if number < len(draft.history.lives) or number in draft.changed:
            pairs.append((draft.buffer(number), 1))
        for one, sign in pairs:
            if one.is_there and one.memory == memory and one.take_at <= position < one.give_at:
                saved += sign * one.bytes_per_bank
    return saved


def _find_largest_groups(draft: EditedRun, memory: int, position: int) -> list[Group]:
    """Return the groups with most memory at one moment."""
    run = draft.history
    number_of_group, (memories, taken, given, size) = _list_columns(run)
    if draft.changed:
        memories, taken, given, size = (column.copy() for column in (memories, taken, given, size))
        for number, piece in draft.changed.items():
            if number < len(run.lives):
                memories[number], size[number] = piece.memory, piece.bytes_per_bank
                taken[number], given[number] = piece.take_at, piece.give_at
    rows = np.flatnonzero((memories == memory) & (taken <= position) & (position < given) & (number_of_group >= 0))
    sums: dict[int, int] = {}
    for row in rows.tolist():
        sums[int(number_of_group[row])] = sums.get(int(number_of_group[row]), 0) + int(size[row])
    groups = list_groups(run)
    largest = sorted(sums, key=lambda number: (-sums[number], number))[:MOST_GROUPS]
    return [groups[number] for number in largest]


@remember
def _list_columns(run: CapturedRun) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of each buffer, and rows with its memory, lifetime and size."""
    number_of_group = np.full(len(run.lives), -1, np.int64)
    for number, group in enumerate(list_groups(run)):
        number_of_group[[life.number for life in group.lives]] = number
    rows = [(life.memory, life.taken_at, life.given_at, life.bytes_per_bank) for life in run.lives]
    return number_of_group, np.array(rows, np.int64).reshape(-1, 4).T.copy()


def _list_values(run: CapturedRun, kind: str, group: Group, memory: int) -> tuple[str, ...]:
    """List the values to try for a kind of edit; empty if it makes no sense."""
    first = group.lives[0]
    if group.is_lasting and kind in (edits.FREE, edits.INPLACE, edits.ORDER):
        return ()  # the next call needs it again
    if kind == edits.FREE:
        return ("",)
    if kind == edits.INPLACE:
        is_possible = all(find_reusable_input(run, life) is not None for life in group.lives)
        return ("",) if is_possible and _may_be_overwritten(run, group) else ()
    if kind == edits.MEMORY:
        return ("DRAM",) if MEMORIES[memory] == "L1" else ()
    if kind == edits.DTYPE:
        return _list_narrower_types(run, group)
    if kind == edits.ORDER:
        return (LAST,) if _is_upload(run, group) and all(life.uses for life in group.lives) else ()
    if kind == edits.SHARD:
        return (
            (edits.INTERLEAVED, _choose_shards(first.type)) if first.type is not None and first.type.shard_bytes else ()
        )
    if kind == edits.CHUNK:
        return _PARTS if first.producer >= 0 and len(group.lives) == 1 else ()
    return ()


def _choose_shards(type_: TensorType) -> str:
    """Return height shards over all cores."""
    rows = math.ceil(math.prod(type_.shape[:-1]) / _TILE)
    columns = math.ceil((type_.shape or (1,))[-1] / _TILE) * _TILE
    wide, high = _SHARD_GRID
    return f"height:{math.ceil(rows / (wide * high)) * _TILE}x{columns}@{wide}x{high}"


def _is_upload(run: CapturedRun, group: Group) -> bool:
    return all(life.producer >= 0 and not run.operations[life.producer].inputs for life in group.lives)


def _list_narrower_types(run: CapturedRun, group: Group) -> tuple[str, ...]:
    """List narrower types for uploads in tiles. Block formats are for weights: results follow a first input."""
    type_ = group.lives[0].type
    if type_ is None or type_.layout != "tile" or not _is_upload(run, group):
        return ()
    if not all(run.operations[life.producer].name.rpartition(".")[2] in TAKES_DTYPE for life in group.lives):
        return ()
    narrower = _NARROWER.get(type_.dtype)
    if narrower is None:
        return ()
    if narrower != "bfloat16":
        for life in group.lives:
            if any(run.operations[index].inputs[:1] == (life.number,) for index in life.uses):
                return ()
    return (narrower,)


def find_call_site(run: CapturedRun, group: Group) -> SourcePlace:
    """Return the call that makes a tensor, with its columns if known."""
    producer = group.lives[0].producer
    if producer < 0:
        return group.site
    operation = run.operations[producer]
    inmost, told = parse_place(operation.path[-1] if operation.path else ""), parse_place(operation.location)
    return inmost if inmost.file == told.file else told


class OverwrittenInput(NamedTuple):
    """The value for ``output_tensor=`` in the source, or why there is none."""

    name: str = ""
    why_not: str = ""


def _may_be_overwritten(run: CapturedRun, group: Group) -> bool:
    """Return whether the source, if there is one, shows that the input is not read any more."""
    return open_source(find_call_site(run, group).file) is None or not find_overwritten_input(run, group).why_not


def find_overwritten_input(run: CapturedRun, group: Group) -> OverwrittenInput:
    """Find an input that no path of the program reads afterwards.

    That input may be freed after the statement, and nothing frees it later.
    """
    name = name_first_argument(run, group)
    inputs = {reused.number for life in group.lives if (reused := find_reusable_input(run, life)) is not None}
    place = find_call_site(run, group)
    source = open_source(place.file)
    statement = source.find_statement(place) if source is not None else None
    if not name or source is None or statement is None:
        return OverwrittenInput(why_not="no variable holds its input")
    before = find_reaching_assignments(source, statement, name) if name in list_targets(statement) else []
    unknown = next((one for one in before or () if not find_groups_made(run, source, one, name)), None)
    if before is None or unknown is not None:
        return OverwrittenInput(why_not=f"`{name}` may be a tensor that others use")
    inner, outer = statement, source.parent(statement)
    while isinstance(outer, (ast.With, ast.AsyncWith)) and outer.body[-1] is inner:
        inner, outer = outer, source.parent(outer)  # it is the last statement inside
    for other in list_groups(run):
        if inputs & {life.number for life in other.lives}:
            made = source.find_statement(other.site) if other.site.file == place.file else None
            if made is None or other not in find_groups_made(run, source, made, name):
                return OverwrittenInput(why_not=f"`{name}` is not made under that name")
            if source.find_function(made) is not source.find_function(statement):
                return OverwrittenInput(why_not=f"another function makes `{name}`")
            if name not in list_targets(statement) and source.find_release_statement(made, inner) is not inner:
                return OverwrittenInput(why_not=f"line {made.lineno}, which makes `{name}`, is in another block")
            found = find_objection(run, other, made, name, inner, overwrites=True)
            if found is not None:
                return OverwrittenInput(why_not=found.why)
    return OverwrittenInput(name)


def name_first_argument(run: CapturedRun, group: Group) -> str:
    """Return the source of the first argument of the call that makes a tensor, if it is a name."""
    producer = group.lives[0].producer
    if producer < 0:
        return ""
    place = find_call_site(run, group)
    source = open_source(place.file)
    call = source.find_call(place, run.operations[producer].name) if source is not None else None
    if call is None:
        return ""
    named = [word.value for word in call.keywords if word.arg in _FIRST_WORDS]
    first = next(iter((*call.args[:1], *named)), None)
    return ast.unparse(first) if isinstance(first, (ast.Name, ast.Attribute)) else ""
