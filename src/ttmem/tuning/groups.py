# SPDX-License-Identifier: Apache-2.0
"""Tensors as a person names them: all that one statement made under one name, however often it ran."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from ttmem.base.errors import BadInputError
from ttmem.engines.worker.call_sites import HANDED_ON, given_to
from ttmem.tuning.captured_run import History, Life
from ttmem.tuning.edits import CHUNK, Edit
from ttmem.tuning.source import Place, Source, place_of, source_of
from ttmem.tuning.syntax import targets_of

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


def groups_of(history: History) -> list[Group]:
    """All tensors that an operation left behind, in the order in which the program made them first."""
    known: list[Group] | None = history.cache.get("groups")
    if known is None:
        found: dict[tuple[Place, object], list[Life]] = {}
        for life in history.lives:
            if life.name and life.type is not None:
                site = site_of(history, life)
                place: object = history.made_by[life.producer].index(life.number) if site.file else life.name
                found.setdefault((site, place), []).append(life)
        known = []
        for (site, position), lives in found.items():
            name = _common_name(site, position, {life.name for life in lives})
            is_lasting = any(life.is_lasting for life in lives)
            known.append(Group(name, site, tuple(lives), is_lasting))
        history.cache["groups"] = known
    return known


def _common_name(site: Place, place: object, names: set[str]) -> str:
    """What all of them are called; where objects keep them, each has a name of its own, and the statement has one."""
    if len(names) == 1:
        return next(iter(names))
    source = source_of(site.file) if site.file else None
    targets = targets_at(source, site) if source is not None else ()
    parts = {name.rpartition(".")[2] for name in names}
    if len(parts) == 1:
        return f"*{parts.pop()}"
    if isinstance(place, int) and place < len(targets):
        return targets[place]
    return min(names, key=lambda name: (len(name), name))


def targets_at(source: Source, site: Place) -> tuple[str, ...]:
    """The names that what is made at a place gets."""
    node = source.expression_at(site)
    if node is not None:
        found = given_to(node, source.parent)
        return () if found is HANDED_ON else found
    statement = source.statement_at(site.line)
    return targets_of(statement) if statement is not None else ()


def written(history: History, group: Group) -> tuple[str, str]:
    """How an edit names a group: its name, and the line where that is not clear without."""
    names: dict[Group, tuple[str, str]] = history.cache.setdefault("names", {})
    if group not in names:
        names[group] = _written(history, group)
    return names[group]


def _written(history: History, group: Group) -> tuple[str, str]:
    name = "".join("?" if letter in "@=[]" else letter for letter in group.name)
    if not group.site.file:
        return name, ""
    if (
        sum(other.site.line == group.site.line and fnmatchcase(other.name, name) for other in _on_line(history, group))
        > 1
    ):
        return name, str(group.site)
    return name, str(group.site.line)


def _on_line(history: History, group: Group) -> list[Group]:
    """The groups of all files that are made on a line of this number."""
    lines: dict[int, list[Group]] = history.cache.setdefault("groups on lines", {})
    if not lines:
        for other in groups_of(history):
            lines.setdefault(other.site.line, []).append(other)
    return lines[group.site.line]


def chosen(history: History, edit: Edit) -> list[Group]:
    """The groups that an edit means."""
    if edit.target.startswith(_BY_NUMBER):
        index = edit.target[1:]
        if not index.isdigit() or int(index) >= len(history.operations):
            last = len(history.operations) - 1
            raise BadInputError(f"'{edit}': there is no operation {edit.target}", hint=f"they are #0 to #{last}")
        lives = [life for life in history.results(int(index)) if life.type is not None]
        return [Group(life.name, site_of(history, life), (life,)) for life in lives]
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
    names = {group.name, *(life.name for life in group.lives)}
    return target in names or any(fnmatchcase(name, target) for name in names)


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


def site_of(history: History, life: Life) -> Place:
    if life.producer < 0:
        return Place("", 0)
    operation = history.operations[life.producer]
    depth = depth_of(history, life)
    return place_of(operation.path[depth]) if 0 <= depth < len(operation.path) else place_of(operation.location)


def depth_of(history: History, life: Life) -> int:
    operation = history.operations[life.producer]
    return len(operation.path) - 1 - operation.named_at


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
