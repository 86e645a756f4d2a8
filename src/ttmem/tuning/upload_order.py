# SPDX-License-Identifier: Apache-2.0
"""Move an upload: find its statement, and the later one before which it is safe in all runs."""

from __future__ import annotations

import ast
from typing import NamedTuple

from ttmem.tuning.captured_run import BufferLifetime, CapturedRun, remember
from ttmem.tuning.free_points import build_dataflow, find_call_step
from ttmem.tuning.groups import Group, count_naming_depth, find_targets, is_as_captured
from ttmem.tuning.names import walk_statements
from ttmem.tuning.source import PythonSource, SourcePlace, open_source, parse_place
from ttmem.tuning.syntax import list_targets


class StatementMove(NamedTuple):
    """Lines to move before another one."""

    line: int
    end_line: int
    before: int
    text: str


def find_move(run: CapturedRun, group: Group) -> StatementMove | str:
    """Return the move, or why not: other operations would move, or code in between may depend on it."""
    source = open_source(group.site.file) if group.site.file else None
    made = source.find_statement(group.site) if source is not None else None
    if source is None or made is None or not is_as_captured(run, group.site.file):
        return "its source is not here as it was captured"
    block, targets = source.find_block(made), list_targets(made)
    is_plain = isinstance(made, ast.Assign) and len(targets) == 1 and targets[0].isidentifier()
    if block is None or not is_plain or find_targets(source, group.site) != targets or not isinstance(made, ast.Assign):
        return f"line {made.lineno} does more than to give one tensor a name"
    used = {_find_first_use(run, source, group, life, block.statements) for life in group.lives}
    last = used.pop() if len(used) == 1 else None
    if last is None or block.statements.index(last) <= block.place + 1:
        return "its first use is in another block, or not the first operation of its statement"
    if source.first_on_line(made) is not made or source.last_on_line(made) is not made or source.indent(last) is None:
        return f"line {made.lineno} or {last.lineno} holds several statements"
    if not _is_alone(run, source, group, made):
        return f"line {made.lineno} runs other operations, too"
    between = block.statements[block.place + 1 : block.statements.index(last)]
    if _is_touched(between, made) or build_dataflow(run, group, source).is_read_elsewhere(made, targets[0]):
        return f"what is between line {made.lineno} and {last.lineno} may read it, or change its arguments"
    end = made.end_lineno or made.lineno
    return StatementMove(
        made.lineno, end, last.lineno, "".join(source.lines[made.lineno - 1 : end]).replace(source.newline, "\n")
    )


def _find_first_use(
    run: CapturedRun, source: PythonSource, group: Group, life: BufferLifetime, block: list[ast.stmt]
) -> ast.stmt | None:
    """Return the statement of the first use, if that use is its first operation."""
    step = find_call_step(run, life, life.uses[0]) if life.uses else None
    used = source.find_statement(step) if step is not None and step.file == group.site.file else None
    outer: ast.AST | None = used
    while outer is not None and outer not in block:
        outer = source.parent(outer)
    if not isinstance(outer, ast.stmt):
        return None
    before = find_call_step(run, life, life.uses[0] - 1) if life.uses[0] else None
    if before is not None and outer.lineno <= before.line <= (outer.end_lineno or outer.lineno):
        return None
    return source.first_on_line(outer)


def _is_alone(run: CapturedRun, source: PythonSource, group: Group, made: ast.stmt) -> bool:
    """Return whether the statement runs only the uploads of the group."""
    producers = {life.producer for life in group.lives}
    depth = count_naming_depth(run, group.lives[0])
    return _index_operations(run, source, group.site.file, depth).get(made, set()) <= producers


@remember
def _index_operations(run: CapturedRun, source: PythonSource, file: str, depth: int) -> dict[ast.stmt | None, set[int]]:
    """Index operations by their statement at a depth of the call path."""
    found: dict[ast.stmt | None, set[int]] = {}
    for operation in run.operations:
        place = parse_place(operation.path[depth]) if depth < len(operation.path) else SourcePlace("", 0)
        if place.file == file:
            found.setdefault(source.find_statement(place), set()).add(operation.index)
    return found


def _is_touched(between: list[ast.stmt], made: ast.Assign) -> bool:
    """Return whether statements in between mention the tensor or rebind its arguments."""
    own = {node.id for node in ast.walk(made) if isinstance(node, ast.Name)}
    names = {node.id for one in made.targets for node in ast.walk(one) if isinstance(node, ast.Name)}
    for statement in walk_statements(between):
        if isinstance(statement, (ast.Return, ast.Break, ast.Continue, ast.Global, ast.Nonlocal)):
            return True
    for node in (node for statement in between for node in ast.walk(statement)):
        if isinstance(node, ast.Name) and (node.id in names or (node.id in own and not isinstance(node.ctx, ast.Load))):
            return True
    return False
