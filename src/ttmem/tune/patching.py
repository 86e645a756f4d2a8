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

from ttmem.tune import edits
from ttmem.tune.applied import Applied
from ttmem.tune.groups import FreePoint, Group, free_point, is_as_captured
from ttmem.tune.history import History
from ttmem.tune.proposals import overwritten
from ttmem.tune.source import Place, Source, place_of, source_of

_RESULT = "_result"
_OPENING = ("open_device", "open_mesh_device", "CreateDevice")
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
    for applied in chosen:
        file, replacements = _replacements(history, applied)
        if not replacements:
            left_out.append(str(applied.edit))
        known = changes.setdefault(file, [])
        known += [one for one in replacements if one not in known]
    text = "".join(_diff(file, replacements) for file, replacements in sorted(changes.items()) if replacements)
    return Patch(text, tuple(left_out))


def _replacements(history: History, applied: Applied) -> tuple[str, list[Replacement]]:
    """Of one edit, in one file; none where it cannot be written."""
    if applied.edit.kind == edits.FREE and len(applied.groups) == 1:
        return _free(free_point(history, applied.groups[0]))
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
    return None


def _option(history: History, group: Group, option: str, value: str) -> tuple[str, Replacement] | None:
    """An option of the call that makes the tensors, when all that this call ever makes is meant."""
    producers = {life.producer for life in group.lives}
    places = {history.operations[producer].location for producer in producers if producer >= 0}
    if len(places) != 1 or -1 in producers:
        return None
    (location,) = places
    others = [one.index for one in history.operations if one.location == location and one.index not in producers]
    if option == "output_tensor":  # turns of a loop that are written in place already make nothing
        others = [index for index in others if history.results(index)]
    if others:
        return None
    place = place_of(location)
    source = source_of(place.file)
    name = history.operations[next(iter(producers))].name
    call = _call(source, place, name)
    if source is None or call is None or not is_as_captured(history, place.file):
        return None
    if option != "output_tensor":
        if not source.ttnn:
            return None
        value = f"{source.ttnn}.{value}"
    return place.file, _set(call, option, value)


def _call(source: Source | None, place: Place, name: str) -> ast.Call | None:
    statement = source.statement_at(place.line) if source is not None else None
    if source is None or statement is None:
        return None
    calls = source.calls_in(statement, name)
    return calls[0] if len(calls) == 1 and not any(word.arg is None for word in calls[0].keywords) else None


def _set(call: ast.Call, option: str, value: str) -> Replacement:
    given = next((word.value for word in call.keywords if word.arg == option), None)
    given = given or next((argument for argument in call.args if _is(argument, option)), None)
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
    return file, _set(next(iter(calls.values())), option, applied.edit.value)


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
