# SPDX-License-Identifier: Apache-2.0
"""Write edits as a unified diff of the user's source, which stays unchanged.

Only plain text becomes part of it: a line after a statement, an option of a call whose every run the edit means. Of
what does not, the answer gives the reason.
"""

from __future__ import annotations

import ast
import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ttmem.base.errors import BadInputError
from ttmem.profile.model import MEMORIES
from ttmem.tuning import edits
from ttmem.tuning.apply_edit import LAST, parse_shard
from ttmem.tuning.captured_run import CapturedRun, RunOperation
from ttmem.tuning.edited_run import AppliedEdit
from ttmem.tuning.free_points import FreePoint, find_free_point
from ttmem.tuning.groups import Group, is_as_captured
from ttmem.tuning.proposals import find_call_site, find_overwritten_input
from ttmem.tuning.source import PythonSource, open_source
from ttmem.tuning.upload_order import find_move

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
"""Position of an option in calls that are often made without keywords."""
_TYPES = ("float32", "bfloat16", "bfloat8_b", "bfloat4_b", "uint8", "uint16", "uint32", "int32")


class Replacement(NamedTuple):
    """A replacement of text; columns count bytes, like the parser's."""

    line: int
    column: int
    end_line: int
    end_column: int
    order: int
    """Among those at the same place."""
    text: str


class NotWritableError(Exception):
    """An edit cannot be written as a change of the source."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """An edit as a change of a file."""

    file: str = ""
    replacements: tuple[Replacement, ...] = ()
    why_not: str = ""
    """Reason if it is not in the diff."""
    inserted: str = ""
    """The lines to add after ``line``, if nothing else changes."""
    line: int = 0

    def text(self) -> str:
        """Return the hunks of a unified diff with one line of context."""
        if not self.replacements:
            return ""
        return format_hunks(*_apply_replacements(self.file, self.replacements), context=1)


@dataclass(frozen=True, slots=True)
class Patch:
    """A diff, and the hunk of each edit."""

    text: str
    hunks: Mapping[str, Hunk]
    """Edit -> hunk; ``why_not`` says why one is not in the diff."""

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(edit for edit, hunk in self.hunks.items() if hunk.why_not)


def build_patch(run: CapturedRun, chosen: Sequence[AppliedEdit]) -> Patch:
    """Build a diff with paths relative to the current folder."""
    changes: dict[str, list[Replacement]] = {}
    hunks = {str(applied.edit): Hunk() for applied in chosen}
    names: dict[str, str] = {}
    for applied in sorted(
        chosen, key=lambda one: one.edit.kind == edits.ORDER
    ):  # a moved statement may not contain other changes
        found = _build_hunk(run, applied, chosen)
        if not found.why_not:
            known = changes.setdefault(found.file, [])
            names[found.file], why_not = _relative_path(found.file)
            if any(_is_conflict(one, other) for one in found.replacements for other in known):
                found = Hunk(why_not="another edit changes the same text")
            elif why_not:
                found = replace(found, why_not=why_not)
            else:
                known += [one for one in found.replacements if one not in known]
        hunks[str(applied.edit)] = found
    text = "".join(
        format_diff(names[file], *_apply_replacements(file, replacements))
        for file, replacements in sorted(changes.items())
        if replacements
    )
    return Patch(text, hunks)


def _is_conflict(one: Replacement, other: Replacement) -> bool:
    """Return whether two different replacements change the same text."""
    return one != other and one[:2] < other[2:4] and other[:2] < one[2:4]


def _build_hunk(run: CapturedRun, applied: AppliedEdit, chosen: Sequence[AppliedEdit]) -> Hunk:
    try:
        if applied.edit.kind == edits.FREE:
            return _build_free(find_free_point(run, _require_one_group(applied)), applied, chosen)
        if applied.edit.kind == edits.ORDER:
            return _build_move(run, _require_one_group(applied), applied.edit.value)
        file, replacement = _build_replacement(run, applied)
    except (NotWritableError, BadInputError) as error:
        return Hunk(why_not=str(error))
    return Hunk(file, (replacement,))


def _require_one_group(applied: AppliedEdit) -> Group:
    if len(applied.groups) != 1:
        raise NotWritableError("it means tensors of several lines")
    return applied.groups[0]


def _build_free(point: FreePoint, applied: AppliedEdit, chosen: Sequence[AppliedEdit]) -> Hunk:
    """Add a line after a statement; split ``return f(x)`` into three; add a line before ``x = f(x)``."""
    if not point.can_be_written:
        raise NotWritableError(point.why_not)
    shared = {number for one in chosen for pair in one.written_over.items() for number in pair}
    if shared.intersection(number for number, _ in point.after):
        raise NotWritableError("another edit writes over it")
    source = open_source(point.place.file)
    assert source is not None
    behind = point.place.line + 1

    def line(order: int, text: str) -> Replacement:
        return Replacement(behind, 0, behind, 0, order, f"{point.indent}{text}\n")

    found = [line(0, point.code)]
    if point.kept is not None:
        number, text = point.kept
        found.append(Replacement(number, 0, number, 0, 0, f"{point.indent}{text}\n"))
    elif point.returned is not None:
        number, column = point.returned
        begins = len(point.indent.encode())
        result = source.find_unused_name(_RESULT)
        found += [Replacement(number, begins, number, column, 0, f"{result} = "), line(1, f"return {result}")]
    else:
        return Hunk(point.place.file, tuple(found), "", f"{point.indent}{point.code}", point.place.line)
    return Hunk(point.place.file, tuple(found))


def _build_move(run: CapturedRun, group: Group, where: str) -> Hunk:
    """Move a statement down to the first use of its tensor."""
    if where != LAST:
        raise NotWritableError("its statement cannot move up by itself")
    move = find_move(run, group)
    if isinstance(move, str):
        raise NotWritableError(move)
    away = Replacement(move.line, 0, move.end_line + 1, 0, 0, "")
    return Hunk(group.site.file, (away, Replacement(move.before, 0, move.before, 0, 0, move.text)))


def _build_replacement(run: CapturedRun, applied: AppliedEdit) -> tuple[str, Replacement]:
    edit = applied.edit
    if edit.kind == edits.REGION:
        return _replace_region_size(run, applied)
    if edit.kind == edits.CHUNK:
        raise NotWritableError("it takes more than one line")
    if edit.kind == edits.BOARD:
        raise NotWritableError("it is no change of the source")
    group = _require_one_group(applied)
    if edit.kind == edits.INPLACE:
        over = find_overwritten_input(run, group)
        if over.why_not:
            raise NotWritableError(over.why_not)
        return _set_call_option(run, group, "output_tensor", over.name)
    if edit.kind == edits.MEMORY:
        return _set_call_option(run, group, "memory_config", f"{edit.value.upper()}_MEMORY_CONFIG")
    if edit.kind == edits.DTYPE:
        return _set_call_option(run, group, "dtype", edit.value)
    return _set_call_option(
        run,
        group,
        "memory_config",
        _format_memory_config(edit, MEMORIES[applied.change[group.lives[0].number].memory]),
    )


def _format_memory_config(edit: edits.Edit, memory: str) -> str:
    """Format a memory configuration; shards in DRAM have no short form."""
    shard = parse_shard(edit)
    if shard is None:
        return f"{memory}_MEMORY_CONFIG"
    if memory != "L1":
        raise NotWritableError("shards in DRAM have no short form")
    columns, rows = shard["grid"]
    strategy = f"ttnn.ShardStrategy.{str(shard['kind']).upper()}"
    words = f"{tuple(shard['shape'])}, ttnn.CoreGrid(x={columns}, y={rows}), {strategy}"
    return f"create_sharded_memory_config({words}, use_height_and_width_as_shard_shape=True)"


def _set_call_option(run: CapturedRun, group: Group, option: str, value: str) -> tuple[str, Replacement]:
    """Set an option of the call that makes the tensors, if the edit means all of its results."""
    producers = {life.producer for life in group.lives}
    places = {_find_call_position(run.operations[producer]) for producer in producers if producer >= 0}
    if len(places) != 1 or -1 in producers:
        raise NotWritableError(
            "several calls make it" if places else "the capture does not show the call that makes it"
        )
    (step,) = places
    others = [one.index for one in run.operations if _find_call_position(one) == step and one.index not in producers]
    if option == "output_tensor":  # calls that already write in place make nothing
        others = [index for index in others if run.results(index)]
    place = find_call_site(run, group)
    name = f"{Path(place.file).name}:{place.line}"
    if others:
        raise NotWritableError(f"the call at {name} makes other tensors, too")
    source = open_source(place.file)
    operation = run.operations[next(iter(producers))]
    call = source.find_call(place, operation.name) if source is not None else None
    if source is None or not is_as_captured(run, place.file):
        raise NotWritableError(f"{Path(place.file).name} is not here as it was captured")
    if call is None:
        raise NotWritableError(f"more than one call of {operation.name} may be meant at {name}")
    if option != "output_tensor":
        if not source.ttnn:
            raise NotWritableError(f"{Path(place.file).name} does not import ttnn at its top")
        value = f"{source.ttnn}.{value.replace('ttnn.', f'{source.ttnn}.')}"
    found = _replace_option(call, option, value, operation.name.rpartition(".")[2], len(operation.inputs))
    if found is None:
        raise NotWritableError(f"the call at {name} may set {option} in an unknown way")
    return place.file, found


def _find_call_position(operation: RunOperation) -> str:
    """Return the position of the call if its columns are known, else its line."""
    return operation.path[-1] if operation.path else operation.location


def _replace_option(call: ast.Call, option: str, value: str, name: str, inputs: int) -> Replacement | None:
    """Replace or add the option; None if the call may set it in an unknown way."""
    words = {word.arg: word.value for word in call.keywords}
    if None in words or "spec" in words or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    given = words.get(option) or next((argument for argument in call.args if _is_option_value(argument, option)), None)
    if given is None and option != "output_tensor":
        place = _PLACES.get(name, {}).get(option)
        if place is not None:
            given = call.args[place] if place < len(call.args) else None
            if name == _ALLOCATES and len(call.args) + len(words) < _LEAST_OF_ALLOCATES:
                return None  # a specification sets all options
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
    """Return whether an argument is a number or a shape, so neither memory configuration nor data type."""
    if isinstance(argument, (ast.Tuple, ast.List)):
        return all(map(_is_plain, argument.elts))
    return isinstance(argument, (ast.Constant, ast.UnaryOp, ast.BinOp))


def _is_option_value(argument: ast.expr, option: str) -> bool:
    """Return whether an argument is a value of the option: ``ttnn.bfloat16``, ``ttnn.L1_MEMORY_CONFIG``."""
    word = argument.attr if isinstance(argument, ast.Attribute) else ""
    return word in _TYPES if option == "dtype" else option == "memory_config" and word.endswith("_MEMORY_CONFIG")


def _replace_region_size(run: CapturedRun, applied: AppliedEdit) -> tuple[str, Replacement]:
    """Replace the size of a region, if the script opens its device in one place."""
    option = "l1_small_size" if applied.edit.target.upper() == "L1_SMALL" else "trace_region_size"
    file = run.profile.source.name
    source = open_source(file)
    if source is None:
        raise NotWritableError("the script is not here")
    statements = [node for node in ast.walk(source.tree) if isinstance(node, ast.stmt)]
    calls = {id(call): call for one in statements for name in _OPENING for call in source.find_calls(one, name)}
    if len(calls) != 1:
        raise NotWritableError("the script does not open its device in just one place")
    found = _replace_option(next(iter(calls.values())), option, applied.edit.value, "", 0)
    if found is None:
        raise NotWritableError(f"the call that opens the device may set {option} in an unknown way")
    return file, found


def _relative_path(file: str) -> tuple[str, str]:
    """Return the path from the current folder, as tools that apply a patch expect, and why it is unusable."""
    relative = os.path.relpath(Path(file).resolve()).replace(os.sep, "/")
    name = Path(file).name
    if relative.startswith("../") or os.path.isabs(relative):  # noqa: PTH117 - of text
        return relative, f"{name} is outside of the current folder"
    return relative, ""


def _apply_replacements(file: str, replacements: Sequence[Replacement]) -> tuple[str, str]:
    source = open_source(file)
    assert source is not None
    before = source.mark + "".join(source.lines)
    lines = [line.encode() for line in source.lines]
    if lines and not lines[-1].endswith((b"\n", b"\r")) and any(one.line > len(lines) for one in replacements):
        lines[-1] += source.newline.encode()
    for one in sorted(replacements, reverse=True):
        text = one.text.replace("\n", source.newline).encode()
        if one.line > len(lines):
            lines.append(text)
            continue
        head = lines[one.line - 1][: one.column]
        tail = lines[one.end_line - 1][one.end_column :]
        lines[one.line - 1 : one.end_line] = [head + text + tail]
    after = source.mark + b"".join(lines).decode()
    PythonSource(after)  # raises an error unless the result is valid Python
    return before, after


_NO_END = "\\ No newline at end of file\n"


def format_diff(name: str, before: str, after: str) -> str:
    """Format a diff with the paths ``a/name`` and ``b/name``."""
    body = format_hunks(before, after)
    return f"--- {_quote_path(f'a/{name}')}\n+++ {_quote_path(f'b/{name}')}\n{body}" if body else ""


def _quote_path(name: str) -> str:
    """Quote a path for both tools: C escapes for control characters, a tab after a name with spaces."""
    if any(letter < " " or letter == "\x7f" for letter in name):
        plain = name.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(one if one >= " " and one != "\x7f" else f"\\{ord(one):03o}" for one in plain) + '"'
    return f"{name}\t" if " " in name else name


def format_hunks(before: str, after: str, *, context: int = 3) -> str:
    lines = list(difflib.unified_diff(_split_lines(before), _split_lines(after), n=context))[2:]
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_END}" for line in lines)


def _split_lines(text: str) -> list[str]:
    """Split at line feeds only, unlike Python."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
