# SPDX-License-Identifier: Apache-2.0
"""Find the statement after which the tensors of a group can be freed, and the code to write there."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from ttmem.tuning.captured_run import BufferLifetime, CapturedRun, remember
from ttmem.tuning.dataflow import DataFlow, Objection
from ttmem.tuning.groups import (
    Group,
    TensorVariable,
    count_naming_depth,
    find_variable,
    is_as_captured,
    list_files,
    list_groups,
)
from ttmem.tuning.names import find_bindings, find_reaching_assignments
from ttmem.tuning.source import PythonSource, SourcePlace, open_source, parse_place
from ttmem.tuning.syntax import list_targets

_ITEM, _PREVIOUS = "_kept", "previous_{}"


@dataclass(frozen=True, slots=True)
class FreePoint:
    """A place to free the tensors of a group."""

    after: tuple[tuple[int, int], ...]
    """(number of the buffer, the last operation that needs it)."""
    place: SourcePlace
    """The last line of the statement before the free; empty if the source does not show one."""
    code: str
    """What to write there."""
    indent: str = ""
    returned: tuple[int, int] | None = None
    """Line and column of the value if the statement is a ``return``, which has to be split."""
    kept: tuple[int, str] | None = None
    """For ``x = f(x)``: the line before which the old value gets its own name, and the code for it."""
    why_not: str = ""
    """Why the free cannot be written."""
    is_forbidden: bool = False
    """The source shows that it would be an error."""

    @property
    def can_be_written(self) -> bool:
        """True if the free can be written as lines of its own, safely in all runs."""
        return bool(self.code) and not self.why_not


@remember
def find_free_point(run: CapturedRun, group: Group) -> FreePoint:
    """Find the point after the last use of each tensor; with code if one statement follows all last uses."""
    found = _find_writable_point(run, group)
    if isinstance(found, FreePoint):
        return found
    after = tuple((life.number, life.last_use) for life in group.lives)
    return FreePoint(after, SourcePlace("", 0), "", why_not=found.why, is_forbidden=found.is_read)


def _find_writable_point(run: CapturedRun, group: Group) -> FreePoint | Objection:
    if not group.site.file:
        return Objection("the capture does not show which line makes it")
    source = open_source(group.site.file)
    name = Path(group.site.file).name
    made = source.find_statement(group.site) if source else None
    if source is None or made is None or not is_as_captured(run, group.site.file):
        return Objection(f"{name} is not here as it was captured")
    if not source.ttnn:
        return Objection(f"{name} does not import ttnn at its top")
    named = find_variable(run, source, made, group)
    if named is None:
        return Objection("no variable holds just this tensor in every run")
    used = _find_last_uses(run, source, made, group, named)
    if isinstance(used, Objection):
        return used
    if again := [one for one in used if one is not made or any(life.uses for life in group.lives)]:
        rebinding = [one for one in again if find_bindings(source, named.expression, one, scope=one)]
        if len(rebinding) == 1 and (named.expression in list_targets(rebinding[0]) or rebinding[0] is made):
            return _find_point_of_rebinding(run, source, group, named, rebinding[0])
    last = _find_last_statement(source, made, used)
    if isinstance(last, Objection):
        return last
    if not _has_mention(made, last, named.expression):
        return Objection(f"line {last.lineno} reads it under another name than `{named.expression}`")
    last = source.last_on_line(last)
    indent = source.indent(source.first_on_line(last))
    value = last.value if isinstance(last, ast.Return) else None
    is_split = value is not None and (value.lineno != last.lineno or source.first_on_line(last) is not last)
    if indent is None or is_split:
        return Objection(f"line {last.lineno} has no room for another statement")
    why_not = find_objection(run, group, made, named.expression, last)
    if why_not is not None:
        return why_not
    end = last.end_lineno or last.lineno
    after = tuple((life.number, _find_release(run, life, end)) for life in group.lives)
    for life, (_, operation) in zip(group.lives, after, strict=True):
        if life.last_use > operation:
            return Objection(f"{_describe_last_use(run, life)} reads it after that", is_read=True)
    returned = (value.lineno, value.col_offset) if value is not None else None
    code = named.code(source.ttnn, source.find_unused_name(_ITEM))
    return FreePoint(after, SourcePlace(group.site.file, end), code, indent, returned)


def _find_point_of_rebinding(
    run: CapturedRun, source: PythonSource, group: Group, named: TensorVariable, statement: ast.stmt
) -> FreePoint | Objection:
    """Free the old value of ``x = f(x)``: it gets another name before, and is freed after.

    That frees whatever ``x`` held, so all statements that may have made it have to make a new tensor.
    """
    expression = named.expression
    rebound = Objection(f"`{expression}` is rebound on line {statement.lineno}")
    if not expression.isidentifier() or not isinstance(statement, ast.Assign) or not source.ttnn or named.is_list:
        return rebound
    if list_targets(statement) != (expression,) or len(statement.targets) != 1:
        return rebound
    before = find_reaching_assignments(source, statement, expression)
    if not before:
        return Objection(f"{rebound.why}, and may be a tensor of the caller there")
    held = [life for one in before for other in find_groups_made(run, source, one, expression) for life in other.lives]
    unknown = next((one for one in before if not find_groups_made(run, source, one, expression)), None)
    if unknown is not None:
        return Objection(f"{rebound.why}, and line {unknown.lineno} may give it a tensor that others use")
    if (why_not := build_dataflow(run, group, source).find_objection_to_reuse(statement, expression)) is not None:
        return Objection(f"{rebound.why}, and {why_not.why}", why_not.is_read)
    made = [life for one in find_groups_made(run, source, statement, expression) for life in one.lives]
    after = _find_releases(run, source, held, statement, made)
    if isinstance(after, Objection):
        return after
    indent = source.indent(source.first_on_line(statement))
    if indent is None or source.last_on_line(statement) is not statement:
        return rebound
    previous = source.find_unused_name(_PREVIOUS.format(expression.lstrip("_")))
    end = statement.end_lineno or statement.lineno
    place = SourcePlace(group.site.file, end)
    kept = (source.first_on_line(statement).lineno, f"{previous} = {expression}")
    return FreePoint(after, place, f"{source.ttnn}.deallocate({previous})", indent, None, kept)


@remember
def find_groups_made(run: CapturedRun, source: PythonSource, statement: ast.stmt, name: str) -> list[Group]:
    """Return the tensors that a statement makes under this name; empty if the name may refer to others."""
    found = []
    for group in _index_groups(run, source).get(statement, []):
        named = find_variable(run, source, statement, group)
        if named is not None and named.expression == name and not named.is_list:
            found.append(group)
    return found


@remember
def _index_groups(run: CapturedRun, source: PythonSource) -> dict[ast.stmt | None, list[Group]]:
    """Index the groups of a file by the statement that names them."""
    found: dict[ast.stmt | None, list[Group]] = {}
    for group in list_groups(run):
        if group.site.file and open_source(group.site.file) is source:
            found.setdefault(source.find_statement(group.site), []).append(group)
    return found


def _find_releases(
    run: CapturedRun, source: PythonSource, held: list[BufferLifetime], statement: ast.stmt, made: list[BufferLifetime]
) -> tuple[tuple[int, int], ...] | Objection:
    """Return (number, the operation that makes the next value) for each tensor that the name held."""
    ends = sorted(life.producer for life in made)
    after = []
    for life in held:
        steps = [(use, find_call_step(run, life, use)) for use in life.uses]
        here = [use for use, step in steps if step is not None and source.find_statement(step) is statement]
        if not here:
            continue
        if len(here) != len([use for use in life.uses if use >= here[0]]):
            return Objection(f"{_describe_last_use(run, life)} reads it after line {statement.lineno}", is_read=True)
        end = next((one for one in ends if one >= life.last_use), -1)
        if end < 0:
            if run.failure is None or run.failure.survived:
                return Objection(f"line {statement.lineno} does not make the next value itself")
            end = len(run.operations)  # the run ended there
        if any(one < end for one in ends if one >= here[0]):
            return Objection(
                f"`{life.name}` is still read after it is rebound on line {statement.lineno}", is_read=True
            )
        after.append((life.number, end))
    return tuple(after) or Objection(f"line {statement.lineno} does not read it")


def find_objection(
    run: CapturedRun, group: Group, made: ast.stmt, expression: str, last: ast.stmt, *, overwrites: bool = False
) -> Objection | None:
    """Return why the tensors of a group may not be freed after a statement in all runs; None if they may."""
    source = open_source(group.site.file)
    if source is None:
        return Objection("its source is not here")
    flow = build_dataflow(run, group, source, overwrites=overwrites)
    if overwrites and expression in list_targets(last):
        return flow.find_objection_to_reuse(last, expression)
    return flow.find_objection(made, expression, last)


def build_dataflow(run: CapturedRun, group: Group, source: PythonSource, *, overwrites: bool = False) -> DataFlow:
    failed = run.failure.operation_index if run.failure is not None else None  # it made nothing
    views = frozenset(
        parse_place(operation.location).line
        for life in group.lives
        for operation in (run.operations[index] for index in life.uses)
        if not run.results(operation.index) and operation.index != failed
    )
    others = [one for one in map(open_source, list_files(run)) if one]
    aliases = run.cache.setdefault("aliases", {})
    return DataFlow(source, others, views, overwrites=overwrites, known_aliases=aliases)


def _find_last_uses(
    run: CapturedRun, source: PythonSource, made: ast.stmt, group: Group, named: TensorVariable
) -> list[ast.stmt] | Objection:
    """Return the statements, in the function that made the tensors, of their last uses."""
    found: list[ast.stmt] = []
    for life in group.lives:
        step = find_call_step(run, life, life.last_use)
        used = source.find_statement(step) if step is not None and step.file == group.site.file else None
        if used is None or source.find_function(used) is not source.find_function(made):
            is_kept = not named.expression.isidentifier()
            why = f"`{named.expression}` keeps it" if is_kept else "the function that makes it hands it on"
            return Objection(f"{why}: {_describe_last_use(run, life)} reads it", is_read=is_kept)
        found.append(used)
    return list(dict.fromkeys(found))


def _find_last_statement(source: PythonSource, made: ast.stmt, used: list[ast.stmt]) -> ast.stmt | Objection:
    """Return the statement after which none of them is needed."""
    last: ast.stmt | None = None
    for one in used:
        end = source.find_release_statement(made, one)
        if end is None:
            return Objection(f"no statement comes after line {one.lineno} whenever line {made.lineno} ran")
        last = end if last is None or _last_line(end) > _last_line(last) else last
    assert last is not None
    return last


def _has_mention(made: ast.stmt, last: ast.stmt, expression: str) -> bool:
    """Return whether the statement mentions the name; if not, it uses another name."""
    if made is last:
        return True
    root = re.split(r"[.\[]", expression)[0]
    return any(isinstance(node, ast.Name) and node.id == root for node in ast.walk(last))


def _last_line(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def find_call_step(run: CapturedRun, life: BufferLifetime, operation: int) -> SourcePlace | None:
    """Return the line of the naming function during an operation; None outside of that function."""
    depth = count_naming_depth(run, life)
    made, used = run.operations[life.producer].path, run.operations[operation].path
    if depth < 0 or len(used) <= depth or used[:depth] != made[:depth]:
        return None
    return parse_place(used[depth])


def _describe_last_use(run: CapturedRun, life: BufferLifetime) -> str:
    place = parse_place(run.operations[life.last_use].location)
    return f"{Path(place.file).name}:{place.line}" if place.file else f"operation {life.last_use}"


def _find_release(run: CapturedRun, life: BufferLifetime, last_line: int) -> int:
    """Return the last operation before the program passes a line of the function that made the tensor."""
    depth = count_naming_depth(run, life)
    made = run.operations[life.producer].path
    index = life.producer
    file, begin = parse_place(made[depth]).file, _position_in_file(parse_place(made[depth]))
    for operation in run.operations[life.producer + 1 :]:
        path = operation.path
        if len(path) <= depth or path[:depth] != made[:depth]:
            break
        step = parse_place(path[depth])
        if step.file != file or not (begin < _position_in_file(step) and step.line <= last_line):
            break  # or it is made again in the next turn of a loop
        index = operation.index
    else:
        if run.failure is not None and not run.failure.survived and not _has_passed(run, made, last_line, depth):
            return len(run.operations)  # the run ended before: later reads are unknown
    return index


def _position_in_file(place: SourcePlace) -> tuple[int, int]:
    return (place.line, -1) if place.span is None else place.span[:2]


def _has_passed(run: CapturedRun, made: tuple[str, ...], last_line: int, depth: int) -> bool:
    """Return whether the last operation of a failed run is after a line, or in another call."""
    path = run.operations[-1].path
    return len(path) <= depth or path[:depth] != made[:depth] or parse_place(path[depth]).line > last_line
