# SPDX-License-Identifier: Apache-2.0
"""Behind which statement the tensors of a group can be freed, and what to write there."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import NamedTuple

from ttmem.tune.flow import Flow
from ttmem.tune.groups import Group, depth_of, files_of, is_as_captured, targets_at
from ttmem.tune.history import History, Life
from ttmem.tune.source import Place, Source, place_of, source_of, targets_of


@dataclass(frozen=True, slots=True)
class FreePoint:
    """Where the tensors of a group can be freed."""

    after: tuple[tuple[int, int], ...]
    """(number of the buffer, the operation after which nobody needs it)."""
    place: Place
    """The last line of the statement behind which the free stands; empty when it cannot be written down."""
    code: str
    """What to write there."""
    indent: str = ""
    returned: tuple[int, int] | None = None
    """Line and column of the value, where the statement is a ``return`` that has to be taken apart for it."""
    why_not: str = ""
    """Why it may not be written there, where only that is in the way."""

    @property
    def can_be_written(self) -> bool:
        """As a line of its own, without harm in any run."""
        return bool(self.code) and not self.why_not


def free_point(history: History, group: Group) -> FreePoint:
    """Right after the last use of each; as source where one statement is behind the last use of all of them."""
    points: dict[Group, FreePoint] = history.cache.setdefault("free points", {})
    if group not in points:
        plain = FreePoint(tuple((life.number, life.last_use) for life in group.lives), Place("", 0), "")
        points[group] = _written_point(history, group) or plain
    return points[group]


def _written_point(history: History, group: Group) -> FreePoint | None:
    source = source_of(group.site.file) if group.site.file else None
    made = source.statement_of(group.site) if source else None
    if source is None or made is None or not source.ttnn or not is_as_captured(history, group.site.file):
        return None
    named = _expression(history, source, made, group)
    last = _last_statement(history, source, made, group) if named is not None else None
    if named is None or last is None or not _mentions(made, last, named.expression):
        return None
    last = source.end_of_line(last)
    indent = source.indent(source.first_of_line(last))
    if indent is None or (isinstance(last, ast.Return) and source.first_of_line(last) is not last):
        return None
    end = last.end_lineno or last.lineno
    after = tuple((life.number, _last_within(history, life, end)) for life in group.lives)
    why_not = objection(history, group, made, named.expression, last)
    value = last.value if isinstance(last, ast.Return) else None
    returned = (value.lineno, value.col_offset) if value is not None else None
    if value is not None and value.lineno != last.lineno:
        return None
    return FreePoint(after, Place(group.site.file, end), named.code(source.ttnn), indent, returned, why_not)


def objection(
    history: History, group: Group, made: ast.stmt, expression: str, last: ast.stmt, *, overwrites: bool = False
) -> str:
    """Why the tensors of a group may not go behind a statement, in any run of the program; empty when they may."""
    source = source_of(group.site.file)
    if source is None:
        return "its source is not here"
    flow = flow_of(history, group, source, overwrites=overwrites)
    if overwrites and expression in targets_of(last):
        return flow.objection_to_reuse(made, expression)
    return flow.objection(made, expression, last)


def flow_of(history: History, group: Group, source: Source, *, overwrites: bool = False) -> Flow:
    """What the source does with the tensors of a group."""
    views = frozenset(
        place_of(operation.location).line
        for life in group.lives
        for operation in (history.operations[index] for index in life.uses)
        if not history.results(operation.index)
    )
    return Flow(source, [one for one in map(source_of, files_of(history)) if one], views, overwrites=overwrites)


class _Named(NamedTuple):
    """What a statement calls the tensors that it makes."""

    expression: str
    is_list: bool

    def code(self, library: str) -> str:
        if self.is_list:
            return f"for _kept in {self.expression}: {library}.deallocate(_kept)"
        return f"{library}.deallocate({self.expression})"


def _expression(history: History, source: Source, made: ast.stmt, group: Group) -> _Named | None:
    """A part of a tuple by its own name, an item of a list by its place; None when the statement names something else.

    ``y = ttnn.sum(ttnn.gelu(x))`` makes two tensors, and only the outer one is ``y``.
    """
    if (node := source.expression_at(group.site)) is not None:
        targets = targets_at(source, group.site)
        if len(targets) > 1:  # q, k, v = ttnn.split(x, 64)
            return _Named(group.name, False) if group.name in targets else None
        if len(targets) == 1:
            return _item_of(group, targets[0])
        made_into = source.parent(node)  # kept = [make() for _ in range(3)]
        targets = targets_of(made)
        if not isinstance(made_into, ast.ListComp) or made_into.elt is not node or len(targets) != 1:
            return None
        return _list_of(group, targets[0]) if made_into is getattr(made, "value", None) else None
    targets = targets_of(made)
    value: ast.expr | None = getattr(made, "value", None)
    if group.name in targets and not isinstance(value, (ast.ListComp, ast.List)):
        outer = value
        if isinstance(value, ast.Tuple) and _is_plain(value, len(targets)):
            outer = value.elts[targets.index(group.name)]
        return _Named(group.name, False) if _makes(history, group, outer) else None
    if len(targets) != 1 or not isinstance(made, (ast.Assign, ast.AnnAssign)):
        return None
    (target,) = targets
    if isinstance(value, ast.ListComp):
        return _list_of(group, target) if _makes(history, group, value.elt) else None
    named = _item_of(group, target)
    return named if named.expression != target or _makes(history, group, value) else None


def _item_of(group: Group, target: str) -> _Named:
    """The target itself, or a part of it where the call makes several tensors."""
    names = {life.name for life in group.lives}
    is_part = len(names) == 1 and next(iter(names)).startswith(f"{target}[")
    return _Named(next(iter(names)) if is_part else target, False)


def _list_of(group: Group, target: str) -> _Named | None:
    """All items of a list, where the group is just these."""
    each = {f"{target}[{place}]" for place in range(len(group.lives))}
    return _Named(target, True) if {life.name for life in group.lives} == each else None


def _is_plain(value: ast.Tuple, count: int) -> bool:
    return len(value.elts) == count and not any(isinstance(one, ast.Starred) for one in value.elts)


def _makes(history: History, group: Group, value: ast.expr | None) -> bool:
    """Whether the value of a statement is the very call that made the tensors, or one that hands them on."""
    if isinstance(value, (ast.BinOp, ast.UnaryOp)):
        return True
    if not isinstance(value, ast.Call):
        return False
    called = value.func
    word = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    is_only = sum(isinstance(node, ast.Call) for node in ast.walk(value)) == 1
    makers = {_maker(history, life) for life in group.lives}
    return all(maker == word or (is_only and maker != "") for maker in makers)


def _maker(history: History, life: Life) -> str:
    """The function that the naming statement called to get a tensor: the operation, or one of the program's."""
    operation = history.operations[life.producer]
    depth = depth_of(history, life) + 1
    if depth >= len(operation.path):
        return operation.name.rpartition(".")[2]
    place = place_of(operation.path[depth])
    source = source_of(place.file)
    statement = source.statement_of(place) if source is not None else None
    function = source.function_of(statement) if source is not None and statement is not None else None
    return getattr(function, "name", "?")


def _last_statement(history: History, source: Source, made: ast.stmt, group: Group) -> ast.stmt | None:
    """The one behind which none of them is needed any more."""
    last: ast.stmt | None = None
    for life in group.lives:
        step = _step_of_use(history, life)
        used = source.statement_of(step) if step is not None and step.file == group.site.file else None
        if used is None or source.function_of(used) is not source.function_of(made):
            return None
        if used is made and life.uses:
            return None  # it came around a loop: the name means the next one already
        end = source.behind(made, used)
        if end is None:
            return None
        last = end if last is None or _end(end) > _end(last) else last
    return last


def _mentions(made: ast.stmt, last: ast.stmt, expression: str) -> bool:
    """Whether the name stands where it is said to be used: else it is used under another one."""
    if made is last:
        return True
    root = re.split(r"[.\[]", expression)[0]
    return any(isinstance(node, ast.Name) and node.id == root for node in ast.walk(last))


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _step_of_use(history: History, life: Life) -> Place | None:
    """The line of the naming function that was running when the tensor was used last."""
    depth = depth_of(history, life)
    made, used = history.operations[life.producer].path, history.operations[life.last_use].path
    if depth < 0 or len(used) <= depth or used[:depth] != made[:depth]:
        return None
    return place_of(used[depth])


def _last_within(history: History, life: Life, last_line: int) -> int:
    """The last operation before the program passes a line of the function that made the tensor."""
    depth = depth_of(history, life)
    made = history.operations[life.producer].path
    index = life.last_use
    file, begin = place_of(made[depth]).file, _begin(place_of(made[depth]))
    for operation in history.operations[life.last_use + 1 :]:
        path = operation.path
        if len(path) <= depth or path[:depth] != made[:depth]:
            break
        step = place_of(path[depth])
        if step.file != file or not (begin < _begin(step) and step.line <= last_line):
            break  # or it is made again: the next turn of a loop
        index = operation.index
    else:
        if (
            history.failure is not None
            and not history.failure.survived
            and not _has_passed(history, made, last_line, depth)
        ):
            return len(history.operations)  # the run ended before it came there: what it would have read is not known
    return index


def _begin(place: Place) -> tuple[int, int]:
    """Where it stands in its file."""
    return (place.line, -1) if place.span is None else place.span[:2]


def _has_passed(history: History, made: tuple[str, ...], last_line: int, depth: int) -> bool:
    """Whether the operation at which a run ended stands behind a line, or in another call."""
    path = history.operations[-1].path
    return len(path) <= depth or path[:depth] != made[:depth] or place_of(path[depth]).line > last_line
