# SPDX-License-Identifier: Apache-2.0
"""Tensors as a person names them: all that one statement made under one name, however often it ran."""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from ttmem._errors import BadInputError
from ttmem.tune.edits import CHUNK, Edit
from ttmem.tune.flow import Flow
from ttmem.tune.history import History, Life
from ttmem.tune.source import Place, Source, place_of, source_of, targets_of

_BY_NUMBER = "#"
_ALL_WEIGHTS = "weights"
"""Unless a tensor is called so."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The buffers that one statement made under one name, or as one part of several objects (``*.wqkv``)."""

    name: str
    site: Place
    """The statement that names them; empty when nothing tells."""
    lives: tuple[Life, ...]
    is_lasting: bool = False
    """Objects keep it from call to call: weights, caches."""

    @property
    def bytes_per_bank(self) -> int:
        """Of the largest."""
        return max(life.bytes_per_bank for life in self.lives)


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


def groups_of(history: History) -> list[Group]:
    """All tensors that an operation left behind, in the order in which the program made them first."""
    known: list[Group] | None = history.cache.get("groups")
    if known is None:
        found: dict[tuple[str, object], list[Life]] = {}
        for life in history.lives:
            if life.name and life.type is not None:
                site = str(_site(history, life))
                place: object = history.made_by[life.producer].index(life.number) if site else life.name
                found.setdefault((site, place), []).append(life)
        known = []
        for (site, position), lives in found.items():
            name = _common_name(place_of(site), position, {life.name for life in lives})
            is_lasting = any(life.is_lasting for life in lives)
            known.append(Group(name, place_of(site), tuple(lives), is_lasting))
        history.cache["groups"] = known
    return known


def _common_name(site: Place, place: object, names: set[str]) -> str:
    """What all of them are called; where objects keep them, each has a name of its own, and the statement has one."""
    if len(names) == 1:
        return next(iter(names))
    source = source_of(site.file) if site.file else None
    statement = source.statement_at(site.line) if source is not None else None
    targets = targets_of(statement) if statement is not None else ()
    parts = {name.rpartition(".")[2] for name in names}
    if len(parts) == 1:
        return f"*{parts.pop()}"
    if isinstance(place, int) and place < len(targets):
        return targets[place]
    return min(names, key=lambda name: (len(name), name))


def written(history: History, group: Group) -> tuple[str, str]:
    """How an edit names a group: its name, and the line where that is not clear without."""
    names: dict[Group, tuple[str, str]] = history.cache.setdefault("names", {})
    if group not in names:
        names[group] = _written(history, group)
    return names[group]


def _written(history: History, group: Group) -> tuple[str, str]:
    name = "".join("?" if letter in "@=[]" else letter for letter in group.name)
    same = [other for other in groups_of(history) if fnmatchcase(other.name, name)]
    if not group.site.file:
        return name, ""
    if sum(other.site.line == group.site.line for other in same) > 1:
        return name, str(group.site)
    return name, str(group.site.line)


def chosen(history: History, edit: Edit) -> list[Group]:
    """The groups that an edit means."""
    if edit.target.startswith(_BY_NUMBER):
        index = edit.target[1:]
        if not index.isdigit() or int(index) >= len(history.operations):
            last = len(history.operations) - 1
            raise BadInputError(f"'{edit}': there is no operation {edit.target}", hint=f"they are #0 to #{last}")
        lives = [life for life in history.results(int(index)) if life.type is not None]
        return [Group(life.name, _site(history, life), (life,)) for life in lives]
    groups = groups_of(history)
    found = [group for group in groups if _is_named(group, edit.target) and _is_at(history, group, edit.line)]
    if not found and edit.kind == CHUNK:
        found = [group for group in groups if _is_result_of(history, group, edit)]
    if not found and edit.target == _ALL_WEIGHTS and not edit.line:
        found = [group for group in groups if group.is_lasting]
    if not found:
        named = [group for group in groups if _is_named(group, edit.target)]
        if named:
            lines = ", ".join(sorted({str(group.site) or "?" for group in named})[:5])
            raise BadInputError(f"'{edit}': {edit.target} is not made at line {edit.line}", hint=f"it is at {lines}")
        near = difflib.get_close_matches(edit.target, {group.name for group in groups}, 3, 0.4)
        raise BadInputError(
            f"'{edit}': the run has no tensor {edit.target}",
            hint=f"did you mean {', '.join(near)}?" if near else "'ttmem profile SOURCE' lists the largest ones",
        )
    return found


def _is_result_of(history: History, group: Group, edit: Edit) -> bool:
    """``gelu@47``: an operation by its name, at the line that calls it."""
    operation = history.operations[group.lives[0].producer]
    names = (operation.name, operation.name.removeprefix("ttnn."), operation.name.rpartition(".")[2])
    return edit.target in names and _is_at(history, group, edit.line)


def _is_named(group: Group, target: str) -> bool:
    return group.name == target or any(fnmatchcase(name, target) for name in {life.name for life in group.lives})


def _is_at(history: History, group: Group, line: str) -> bool:
    """Made there: by the statement that names it, or by the call itself when a function hands it on."""
    if not line:
        return True
    places = [group.site]
    producer = group.lives[0].producer
    if producer >= 0:
        places.append(place_of(history.operations[producer].location))
    file, _, number = line.rpartition(":")
    return any(str(place.line) == number and place.file.endswith(file) for place in places)


def _site(history: History, life: Life) -> Place:
    if life.producer < 0:
        return Place("", 0)
    operation = history.operations[life.producer]
    depth = _depth(history, life)
    return place_of(operation.path[depth]) if 0 <= depth < len(operation.path) else place_of(operation.location)


def _depth(history: History, life: Life) -> int:
    operation = history.operations[life.producer]
    return len(operation.path) - 1 - operation.named_at


def free_point(history: History, group: Group) -> FreePoint:
    """Right after the last use of each; as source where one statement is behind the last use of all of them."""
    points: dict[Group, FreePoint] = history.cache.setdefault("free points", {})
    if group not in points:
        plain = FreePoint(tuple((life.number, life.last_use) for life in group.lives), Place("", 0), "")
        points[group] = _written_point(history, group) or plain
    return points[group]


def _written_point(history: History, group: Group) -> FreePoint | None:
    source = source_of(group.site.file) if group.site.file else None
    made = source.statement_at(group.site.line) if source else None
    if source is None or made is None or not source.ttnn or not is_as_captured(history, group.site.file):
        return None
    named = _expression(history, source, made, group)
    last = _last_statement(history, source, made, group) if named is not None else None
    if named is None or last is None or not source.is_alone_at_its_end(last):
        return None
    indent = source.indent(last)
    if indent is None or not _mentions(source, made, last, named.expression):
        return None
    end = last.end_lineno or last.lineno
    after = tuple((life.number, _last_within(history, life, made.lineno, end)) for life in group.lives)
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
    views = frozenset(
        place_of(operation.location).line
        for life in group.lives
        for operation in (history.operations[index] for index in life.uses)
        if not history.results(operation.index)
    )
    flow = Flow(source, [one for one in map(source_of, files_of(history)) if one], views, overwrites=overwrites)
    if overwrites and expression in targets_of(last):
        return flow.objection_to_reuse(made, expression)
    return flow.objection(made, expression, last)


def files_of(history: History) -> tuple[str, ...]:
    """The program's own files, as far as its operations were called from them."""
    known: tuple[str, ...] | None = history.cache.get("files")
    if known is None:
        steps = {step for operation in history.operations for step in operation.path}
        known = history.cache["files"] = tuple(sorted({place_of(step).file for step in steps} - {""}))
    return known


def is_as_captured(history: History, file: str) -> bool:
    """Whether a file is still the one that ran: lines of another one mean other things. Only the script is known."""
    told = history.profile.source
    try:
        return not Path(told.name).samefile(file) or not told.bytes or Path(file).stat().st_size == told.bytes
    except OSError:
        return False


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
    names = {life.name for life in group.lives}
    if isinstance(value, ast.ListComp):
        each = {f"{target}[{place}]" for place in range(len(group.lives))}
        return _Named(target, True) if names == each and _makes(history, group, value.elt) else None
    if len(names) == 1 and next(iter(names)).startswith(f"{target}["):
        return _Named(next(iter(names)), False)
    return _Named(target, False) if _makes(history, group, value) else None


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
    depth = _depth(history, life) + 1
    if depth >= len(operation.path):
        return operation.name.rpartition(".")[2]
    place = place_of(operation.path[depth])
    source = source_of(place.file)
    statement = source.statement_at(place.line) if source is not None else None
    function = source.function_of(statement) if source is not None and statement is not None else None
    return getattr(function, "name", "?")


def _last_statement(history: History, source: Source, made: ast.stmt, group: Group) -> ast.stmt | None:
    """The one behind which none of them is needed any more."""
    last: ast.stmt | None = None
    for life in group.lives:
        step = _step_of_use(history, life)
        used = source.statement_at(step.line) if step is not None and step.file == group.site.file else None
        if used is None or source.function_of(used) is not source.function_of(made):
            return None
        if used is made and life.uses:
            return None  # it came around a loop: the name means the next one already
        end = source.behind(made, used)
        if end is None:
            return None
        last = end if last is None or _end(end) > _end(last) else last
    return last


def _mentions(source: Source, made: ast.stmt, last: ast.stmt, expression: str) -> bool:
    """Whether the name stands where it is said to be used: else it is used under another one."""
    if made is last:
        return True
    root = re.split(r"[.\[]", expression)[0]
    return any(isinstance(node, ast.Name) and node.id == root for node in ast.walk(last))


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _step_of_use(history: History, life: Life) -> Place | None:
    """The line of the naming function that was running when the tensor was used last."""
    depth = _depth(history, life)
    made, used = history.operations[life.producer].path, history.operations[life.last_use].path
    if depth < 0 or len(used) <= depth or used[:depth] != made[:depth]:
        return None
    return place_of(used[depth])


def _last_within(history: History, life: Life, first_line: int, last_line: int) -> int:
    """The last operation before the program passes a line of the function that made the tensor."""
    depth = _depth(history, life)
    made = history.operations[life.producer].path
    index = life.last_use
    file = place_of(made[depth]).file
    for operation in history.operations[life.last_use + 1 :]:
        path = operation.path
        if len(path) <= depth or path[:depth] != made[:depth]:
            break
        step = place_of(path[depth])
        if step.file != file or not first_line < step.line <= last_line:
            break
        index = operation.index
    else:
        if (
            history.failure is not None
            and not history.failure.survived
            and not _has_passed(history, made, last_line, depth)
        ):
            return len(history.operations)  # the run ended before it came there: what it would have read is not known
    return index


def _has_passed(history: History, made: tuple[str, ...], last_line: int, depth: int) -> bool:
    """Whether the operation at which a run ended stands behind a line, or in another call."""
    path = history.operations[-1].path
    return len(path) <= depth or path[:depth] != made[:depth] or place_of(path[depth]).line > last_line
