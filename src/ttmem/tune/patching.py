# SPDX-License-Identifier: Apache-2.0
"""Edits as a unified diff of the user's source: nothing is written but the diff.

Only what is plain text becomes part of it: a line behind a statement, an option of a call whose every run the edit
means. What is not is left to the person, and said.
"""

from __future__ import annotations

import ast
import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ttmem.profile import MEMORIES
from ttmem.tune import edits
from ttmem.tune.applied import Applied
from ttmem.tune.applying import LAST, shard_words
from ttmem.tune.freeing import FreePoint, free_point
from ttmem.tune.groups import Group, is_as_captured
from ttmem.tune.history import History, Operation
from ttmem.tune.moving import moved
from ttmem.tune.proposals import call_site, overwritten
from ttmem.tune.source import Source, source_of

_RESULT = "_result"
_OPENING = ("open_device", "open_mesh_device", "CreateDevice")
_ALLOCATES, _LEAST_OF_ALLOCATES = "allocate_tensor_on_device", 4
_PLACES: dict[str, dict[str, int]] = {
    _ALLOCATES: {"dtype": 1, "memory_config": 4},
    "from_torch": {"dtype": 1, "memory_config": 9},
    "as_tensor": {"dtype": 1, "memory_config": 9},
    "to_device": {"memory_config": 2},
    "zeros": {"dtype": 1, "memory_config": 4},
    "ones": {"dtype": 1, "memory_config": 4},
    "empty": {"dtype": 1, "memory_config": 4},
    "full": {"dtype": 2, "memory_config": 5},
    "typecast": {"dtype": 1},
    "to_memory_config": {"memory_config": 1},
}
"""Which argument says an option, for calls that are often made without keywords; of others a plain argument may."""
_TYPES = ("float32", "bfloat16", "bfloat8_b", "bfloat4_b", "uint8", "uint16", "uint32", "int32")


class Replacement(NamedTuple):
    """Text in the place of text; columns count bytes, as the parser's do."""

    line: int
    column: int
    end_line: int
    end_column: int
    order: int
    """Among those at the same place."""
    text: str


@dataclass(frozen=True, slots=True)
class Patch:
    """The diff, and the edits that are not in it."""

    text: str
    left_out: tuple[str, ...]


def patch(history: History, chosen: Sequence[Applied]) -> Patch:
    """A diff with paths relative to the current folder."""
    changes: dict[str, list[Replacement]] = {}
    left_out: list[str] = []
    for applied in sorted(chosen, key=lambda one: one.edit.kind == edits.ORDER):  # no other text may be in what moves
        file, replacements = _replacements(history, applied)
        known = changes.setdefault(file, [])
        if any(_collides(one, other) for one in replacements for other in known):
            replacements = []
        if not replacements:
            left_out.append(str(applied.edit))
        known += [one for one in replacements if one not in known]
    text = "".join(_diff(file, replacements) for file, replacements in sorted(changes.items()) if replacements)
    return Patch(text, tuple(left_out))


def _collides(one: Replacement, other: Replacement) -> bool:
    """Whether two change the same text; the same change twice is one."""
    return one != other and one[:2] < other[2:4] and other[:2] < one[2:4]


def _replacements(history: History, applied: Applied) -> tuple[str, list[Replacement]]:
    """Of one edit, in one file; none where it cannot be written."""
    if applied.edit.kind == edits.FREE and len(applied.groups) == 1:
        return _free(free_point(history, applied.groups[0]))
    if applied.edit.kind == edits.ORDER and applied.edit.value == LAST and len(applied.groups) == 1:
        return _later(history, applied.groups[0])
    found = _replacement(history, applied)
    return (found[0], [found[1]]) if found is not None else ("", [])


def _free(point: FreePoint) -> tuple[str, list[Replacement]]:
    """A line behind a statement; ``return f(x)`` becomes three."""
    if not point.can_be_written:
        return "", []
    behind = point.place.line + 1

    def line(order: int, text: str) -> Replacement:
        return Replacement(behind, 0, behind, 0, order, f"{point.indent}{text}\n")

    found = [line(0, point.code)]
    if point.returned is not None:
        number, column = point.returned
        begins = len(point.indent.encode())
        found += [Replacement(number, begins, number, column, 0, f"{_RESULT} = "), line(1, f"return {_RESULT}")]
    return point.place.file, found


def _later(history: History, group: Group) -> tuple[str, list[Replacement]]:
    """A statement moves down, to where its tensor is used first."""
    move = moved(history, group)
    if move is None:
        return "", []
    away = Replacement(move.line, 0, move.end_line + 1, 0, 0, "")
    return group.site.file, [away, Replacement(move.before, 0, move.before, 0, 0, move.text)]


def _replacement(history: History, applied: Applied) -> tuple[str, Replacement] | None:
    edit = applied.edit
    if edit.kind == edits.REGION:
        return _region(history, applied)
    if len(applied.groups) != 1:
        return None
    (group,) = applied.groups
    if edit.kind == edits.INPLACE:
        value = overwritten(history, group)
        return _option(history, group, "output_tensor", value) if value else None
    if edit.kind == edits.MEMORY:
        return _option(history, group, "memory_config", f"{edit.value.upper()}_MEMORY_CONFIG")
    if edit.kind == edits.DTYPE:
        return _option(history, group, "dtype", edit.value)
    if edit.kind == edits.SHARD:
        value = _laid_out(edit, MEMORIES[applied.change[group.lives[0].number].memory])
        return _option(history, group, "memory_config", value) if value else None
    return None


def _laid_out(edit: edits.Edit, memory: str) -> str:
    """A memory configuration as one writes it; shards in DRAM have no short form."""
    shard = shard_words(edit)
    if shard is None:
        return f"{memory}_MEMORY_CONFIG"
    if memory != "L1":
        return ""
    columns, rows = shard["grid"]
    strategy = f"ttnn.ShardStrategy.{str(shard['kind']).upper()}"
    words = f"{tuple(shard['shape'])}, ttnn.CoreGrid(x={columns}, y={rows}), {strategy}"
    return f"create_sharded_memory_config({words}, use_height_and_width_as_shard_shape=True)"


def _option(history: History, group: Group, option: str, value: str) -> tuple[str, Replacement] | None:
    """An option of the call that makes the tensors, when all that this call ever makes is meant."""
    producers = {life.producer for life in group.lives}
    places = {_step(history.operations[producer]) for producer in producers if producer >= 0}
    if len(places) != 1 or -1 in producers:
        return None
    (step,) = places
    others = [one.index for one in history.operations if _step(one) == step and one.index not in producers]
    if option == "output_tensor":  # turns of a loop that are written in place already make nothing
        others = [index for index in others if history.results(index)]
    if others:
        return None
    place = call_site(history, group)
    source = source_of(place.file)
    operation = history.operations[next(iter(producers))]
    call = source.call_at(place, operation.name) if source is not None else None
    if source is None or call is None or not is_as_captured(history, place.file):
        return None
    if option != "output_tensor":
        if not source.ttnn:
            return None
        value = f"{source.ttnn}.{value.replace('ttnn.', f'{source.ttnn}.')}"
    found = _set(call, option, value, operation.name.rpartition(".")[2], len(operation.inputs))
    return (place.file, found) if found is not None else None


def _step(operation: Operation) -> str:
    """The very call, where its columns are known; else its line."""
    return operation.path[-1] if operation.path else operation.location


def _set(call: ast.Call, option: str, value: str, name: str, inputs: int) -> Replacement | None:
    """The option in its place; None where the call may say it in a way that is not seen here."""
    words = {word.arg: word.value for word in call.keywords}
    if None in words or "spec" in words or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    given = words.get(option) or next((argument for argument in call.args if _is(argument, option)), None)
    if given is None and option != "output_tensor":
        place = _PLACES.get(name, {}).get(option)
        if place is not None:
            given = call.args[place] if place < len(call.args) else None
            if name == _ALLOCATES and len(call.args) + len(words) < _LEAST_OF_ALLOCATES:
                return None  # of a specification, which says it all
        elif not all(map(_is_plain, call.args[max(inputs, 1) :])):
            return None
    if given is not None:
        return Replacement(given.lineno, given.col_offset, given.end_lineno or 0, given.end_col_offset or 0, 0, value)
    last = max(
        [*call.args, *(word.value for word in call.keywords)],
        key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0),
        default=None,
    )
    if last is None:
        line, column = call.end_lineno or 0, (call.end_col_offset or 1) - 1
        return Replacement(line, column, line, column, 0, f"{option}={value}")
    line, column = last.end_lineno or 0, last.end_col_offset or 0
    return Replacement(line, column, line, column, 0, f", {option}={value}")


def _is_plain(argument: ast.expr) -> bool:
    """A number, a shape: no memory configuration and no data type, whatever variables hold."""
    if isinstance(argument, (ast.Tuple, ast.List)):
        return all(map(_is_plain, argument.elts))
    return isinstance(argument, (ast.Constant, ast.UnaryOp, ast.BinOp))


def _is(argument: ast.expr, option: str) -> bool:
    """Whether a plain argument is what the option would say: ``ttnn.bfloat16``, ``ttnn.L1_MEMORY_CONFIG``."""
    word = argument.attr if isinstance(argument, ast.Attribute) else ""
    return word in _TYPES if option == "dtype" else option == "memory_config" and word.endswith("_MEMORY_CONFIG")


def _region(history: History, applied: Applied) -> tuple[str, Replacement] | None:
    """The size of a region, where the script opens its device itself, once."""
    option = "l1_small_size" if applied.edit.target.upper() == "L1_SMALL" else "trace_region_size"
    file = history.profile.source.name
    source = source_of(file)
    if source is None:
        return None
    statements = [node for node in ast.walk(source.tree) if isinstance(node, ast.stmt)]
    calls = {id(call): call for one in statements for name in _OPENING for call in source.calls_in(one, name)}
    if len(calls) != 1:
        return None
    found = _set(next(iter(calls.values())), option, applied.edit.value, "", 0)
    return (file, found) if found is not None else None


def _diff(file: str, replacements: Sequence[Replacement]) -> str:
    source = source_of(file)
    assert source is not None
    before = [source.mark + line if not number else line for number, line in enumerate(source.lines)]
    lines = [line.encode() for line in source.lines]
    if lines and not lines[-1].endswith(b"\n") and any(one.line > len(lines) for one in replacements):
        lines[-1] += source.newline.encode()
    for one in sorted(replacements, reverse=True):
        text = one.text.replace("\n", source.newline).encode()
        if one.line > len(lines):
            lines.append(text)
            continue
        head = lines[one.line - 1][: one.column]
        tail = lines[one.end_line - 1][one.end_column :]
        lines[one.line - 1 : one.end_line] = [head + text + tail]
    changed = Source(source.mark + b"".join(lines).decode())  # it is Python still, or this is a mistake of ours
    after = [changed.mark + line if not number else line for number, line in enumerate(changed.lines)]
    relative = os.path.relpath(Path(file).resolve()).replace(os.sep, "/")
    told = difflib.unified_diff(before, after, f"a/{relative}", f"b/{relative}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in told)
