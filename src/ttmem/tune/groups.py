# SPDX-License-Identifier: Apache-2.0
"""Tensors as a person names them: all that one statement made under one name, however often it ran."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ttmem._errors import BadInputError
from ttmem.tune.edits import Edit
from ttmem.tune.history import History, Life
from ttmem.tune.source import Place, place_of, source_of, targets_of

_BY_NUMBER = "#"


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
    expression: str
    """What the program calls the tensor there."""
    column: int = 0


def groups_of(history: History) -> list[Group]:
    """All tensors that an operation left behind, in the order in which the program made them first."""
    known: list[Group] | None = history.cache.get("groups")
    if known is None:
        lasting = {argument.name for argument in history.profile.arguments}
        found: dict[tuple[str, object], list[Life]] = {}
        for life in history.lives:
            if life.name and life.type is not None:
                site = str(_site(history, life))
                place: object = history.made_by[life.producer].index(life.number) if site else life.name
                found.setdefault((site, place), []).append(life)
        known = []
        for (site, position), lives in found.items():
            name = _common_name(place_of(site), position, {life.name for life in lives})
            is_lasting = any(life.name in lasting for life in lives)
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
    if source is None or made is None:
        return None
    expression = _expression(made, group.name)
    if expression is None:
        return None
    behind: ast.stmt | None = None
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
        behind = end if behind is None or _end(end) > _end(behind) else behind
    if behind is None or source.rebinds(expression, made.lineno, _end(behind), made):
        return None
    after = tuple((life.number, _last_within(history, life, made.lineno, _end(behind))) for life in group.lives)
    return FreePoint(after, Place(group.site.file, _end(behind)), expression, behind.col_offset)


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _expression(made: ast.stmt, name: str) -> str | None:
    """What the statement calls the tensor; a part of a tuple by its own name, an item of a list by its place."""
    targets = targets_of(made)
    if name in targets:
        return name
    if len(targets) == 1:
        place = name.rpartition("[")
        return name if place[0] == targets[0] and place[2] else targets[0]
    return None


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
    return index
