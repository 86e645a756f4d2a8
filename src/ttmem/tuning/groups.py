# SPDX-License-Identifier: Apache-2.0
"""Groups of tensors as users name them: all that a statement made under one name, and the variable for them."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from ttmem.base.errors import BadInputError
from ttmem.engines.worker.call_sites import PASSED_ON, find_target_names
from ttmem.tuning.captured_run import BufferLifetime, CapturedRun, remember
from ttmem.tuning.edits import CHUNK, Edit
from ttmem.tuning.source import PythonSource, SourcePlace, open_source, parse_place
from ttmem.tuning.syntax import FUNCTIONS, list_targets

_BY_NUMBER = "#"
_ALL_WEIGHTS = "weights"
"""Means all weights, unless a tensor has this name."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The buffers that a statement made under one name, or as a part of several objects (``*.wqkv``)."""

    name: str
    site: SourcePlace
    """The statement that names them; empty if unknown."""
    lives: tuple[BufferLifetime, ...]
    is_lasting: bool = False
    """Objects keep it between calls: weights, caches."""

    @property
    def bytes_per_bank(self) -> int:
        """Bytes of the largest."""
        return max(life.bytes_per_bank for life in self.lives)


@remember
def list_groups(run: CapturedRun) -> list[Group]:
    """List all tensors that operations left behind, in the order in which the program first made them."""
    found: dict[tuple[SourcePlace, object], list[BufferLifetime]] = {}
    for life in run.lives:
        if life.name and life.type is not None:
            site = find_site(run, life)
            place: object = run.made_by[life.producer].index(life.number) if site.file else life.name
            found.setdefault((site, place), []).append(life)
    groups = []
    for (site, position), lives in found.items():
        name = _choose_common_name(site, position, {life.name for life in lives})
        groups.append(Group(name, site, tuple(lives), any(life.is_lasting for life in lives)))
    return groups


def _choose_common_name(site: SourcePlace, place: object, names: set[str]) -> str:
    """Choose one name for tensors with several: objects name their own, the statement has one."""
    if len(names) == 1:
        return next(iter(names))
    source = open_source(site.file) if site.file else None
    targets = find_targets(source, site) if source is not None else ()
    parts = {name.rpartition(".")[2] for name in names}
    if len(parts) == 1:
        return f"*{parts.pop()}"
    if isinstance(place, int) and place < len(targets):
        return targets[place]
    return min(names, key=lambda name: (len(name), name))


def find_targets(source: PythonSource, site: SourcePlace) -> tuple[str, ...]:
    """Return the names for the result of a call."""
    node = source.find_expression(site)
    if node is not None:
        found = find_target_names(node, source.parent)
        return () if found is PASSED_ON else found
    statement = source.find_statement_on_line(site.line)
    return list_targets(statement) if statement is not None else ()


@remember
def name_group(run: CapturedRun, group: Group) -> tuple[str, str]:
    """Return the name and, if ambiguous, the line by which an edit names a group."""
    name = "".join("?" if letter in "@=[]" else letter for letter in group.name)
    if not group.site.file:
        return name, ""
    same_line = _index_groups_by_line(run)[group.site.line]
    is_clear = sum(fnmatchcase(other.name, name) for other in same_line) <= 1
    return name, str(group.site.line if is_clear else group.site)


@remember
def _index_groups_by_line(run: CapturedRun) -> dict[int, list[Group]]:
    lines: dict[int, list[Group]] = {}
    for group in list_groups(run):
        lines.setdefault(group.site.line, []).append(group)
    return lines


def find_groups(run: CapturedRun, edit: Edit) -> list[Group]:
    if edit.target.startswith(_BY_NUMBER):
        index = edit.target[1:]
        if not index.isdigit() or int(index) >= len(run.operations):
            last = len(run.operations) - 1
            raise BadInputError(f"'{edit}': there is no operation {edit.target}", hint=f"they are #0 to #{last}")
        lives = [life for life in run.results(int(index)) if life.type is not None]
        return [Group(life.name, find_site(run, life), (life,)) for life in lives]
    groups = list_groups(run)
    found = [group for group in groups if _is_named(group, edit.target) and _is_at(run, group, edit.line)]
    if not found and edit.kind == CHUNK:
        found = [group for group in groups if _is_result_of(run, group, edit)]
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


def _is_result_of(run: CapturedRun, group: Group, edit: Edit) -> bool:
    """Return whether ``gelu@47`` means a group: an operation by its name and line."""
    operation = run.operations[group.lives[0].producer]
    names = (operation.name, operation.name.removeprefix("ttnn."), operation.name.rpartition(".")[2])
    return edit.target in names and _is_at(run, group, edit.line)


def _is_named(group: Group, target: str) -> bool:
    names = {group.name, *(life.name for life in group.lives)}
    return target in names or any(fnmatchcase(name, target) for name in names)


def _is_at(run: CapturedRun, group: Group, line: str) -> bool:
    """Return whether it is made at a line: by the statement that names it, or by the call itself."""
    if not line:
        return True
    places = [group.site]
    producer = group.lives[0].producer
    if producer >= 0:
        places.append(parse_place(run.operations[producer].location))
    file, _, number = line.rpartition(":")
    return any(str(place.line) == number and place.file.endswith(file) for place in places)


def find_site(run: CapturedRun, life: BufferLifetime) -> SourcePlace:
    if life.producer < 0:
        return SourcePlace("", 0)
    operation = run.operations[life.producer]
    depth = count_naming_depth(run, life)
    return parse_place(operation.path[depth]) if 0 <= depth < len(operation.path) else parse_place(operation.location)


def count_naming_depth(run: CapturedRun, life: BufferLifetime) -> int:
    operation = run.operations[life.producer]
    return len(operation.path) - 1 - operation.named_at


@remember
def list_files(run: CapturedRun) -> tuple[str, ...]:
    """List the program's files with calls of operations."""
    steps = {step for operation in run.operations for step in operation.path}
    return tuple(sorted({parse_place(step).file for step in steps} - {""}))


def is_as_captured(run: CapturedRun, file: str) -> bool:
    """Return whether a file is unchanged since the run. Only the script's size is known."""
    told = run.profile.source
    try:
        return not Path(told.name).samefile(file) or not told.bytes or Path(file).stat().st_size == told.bytes
    except OSError:
        return False


_MAY_RETURN_INPUT = (
    *("identity", "move", "permute", "reallocate", "reshape", "slice", "squeeze", "to_device", "to_dtype"),
    *("to_layout", "to_memory_config", "transpose", "typecast", "unsqueeze", "unsqueeze_to_4D", "view"),
)
"""Operations that may return their input."""
_HARMLESS_DECORATORS = ("staticmethod", "classmethod", "property", "no_grad", "inference_mode")


def always_makes_new_tensor(path: tuple[str, ...]) -> bool:
    """Return whether the calls from a statement to the operation always return a new tensor."""
    return all(_always_returns_new(parse_place(step)) for step in path[1:])


def _always_returns_new(place: SourcePlace) -> bool:
    source = open_source(place.file)
    statement = source.find_statement(place) if source is not None else None
    function = source.find_function(statement) if source is not None and statement is not None else None
    if source is None or not isinstance(function, (ast.FunctionDef, ast.Lambda)):
        return False
    if isinstance(function, ast.Lambda):
        return _is_new(source, function.body, place)
    words = [ast.unparse(one).partition("(")[0].rpartition(".")[2] for one in function.decorator_list]
    if any(word not in _HARMLESS_DECORATORS for word in words):
        return False  # lru_cache returns the same tensor again
    return all(_is_new(source, one.value, place) for one in _list_returns(function))


def _list_returns(function: ast.FunctionDef) -> Iterator[ast.Return]:
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Return):
            yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            todo += ast.iter_child_nodes(node)


def _is_new(source: PythonSource, value: ast.expr | None, place: SourcePlace) -> bool:
    """Return whether an expression always makes a tensor; the captured one does."""
    if isinstance(value, (ast.BinOp, ast.UnaryOp)):
        return True
    if isinstance(value, ast.IfExp):
        return _is_new(source, value.body, place) and _is_new(source, value.orelse, place)
    if isinstance(value, (ast.Tuple, ast.List)):
        return all(_is_new(source, one, place) for one in value.elts)
    if not isinstance(value, ast.Call):
        return False
    if value is source.find_expression(place):
        return True
    if place.span is None and value.lineno <= place.line <= (value.end_lineno or value.lineno):
        return True
    root: ast.expr = value.func
    while isinstance(root, ast.Attribute):
        root = root.value
    is_ttnn = isinstance(root, ast.Name) and root.id == source.ttnn
    return is_ttnn and getattr(value.func, "attr", "") not in _MAY_RETURN_INPUT


class TensorVariable(NamedTuple):
    """The expression by which a statement names its tensors."""

    expression: str
    is_list: bool

    def code(self, library: str, item: str) -> str:
        if self.is_list:
            return f"for {item} in {self.expression}: {library}.deallocate({item})"
        return f"{library}.deallocate({self.expression})"


def find_variable(run: CapturedRun, source: PythonSource, made: ast.stmt, group: Group) -> TensorVariable | None:
    """Find the variable: a part of a tuple, an item of a list; None if the statement names something else.

    ``y = ttnn.sum(ttnn.gelu(x))`` makes two tensors, and only the outer one is ``y``. A function may return
    another tensor in another run.
    """
    if not all(always_makes_new_tensor(path) for path in {_inner_path(run, life) for life in group.lives}):
        return None
    if (node := source.find_expression(group.site)) is not None:
        targets = find_targets(source, group.site)
        if any(isinstance(one, (ast.IfExp, ast.BoolOp)) for one in _list_enclosing(source, node, made)):
            return None  # the name may refer to another tensor
        if len(targets) > 1:  # q, k, v = ttnn.split(x, 64)
            return TensorVariable(group.name, False) if group.name in targets else None
        if len(targets) == 1:
            return _find_item(run, group, targets[0])
        made_into = source.parent(node)  # kept = [make() for _ in range(3)]
        targets = list_targets(made)
        if not isinstance(made_into, ast.ListComp) or made_into.elt is not node or len(targets) != 1:
            return None
        return _find_list(group, targets[0]) if made_into is getattr(made, "value", None) else None
    targets = list_targets(made)
    if isinstance(made, ast.AugAssign):  # x += y makes a new tensor
        whole = (made.lineno, made.col_offset, made.end_lineno, made.end_col_offset)
        return TensorVariable(group.name, False) if targets == (group.name,) and group.site.span == whole else None
    value: ast.expr | None = getattr(made, "value", None)
    if group.name in targets and not isinstance(value, (ast.ListComp, ast.List)):
        outer = value
        if isinstance(value, ast.Tuple) and _is_plain(value, len(targets)):
            outer = value.elts[targets.index(group.name)]
        return TensorVariable(group.name, False) if _is_made_by(run, group, outer) else None
    if len(targets) != 1 or not isinstance(made, (ast.Assign, ast.AnnAssign)):
        return None
    (target,) = targets
    if isinstance(value, ast.ListComp):
        return _find_list(group, target) if _is_made_by(run, group, value.elt) else None
    named = _find_item(run, group, target)
    return named if named is None or named.expression != target or _is_made_by(run, group, value) else None


def _list_enclosing(source: PythonSource, node: ast.AST, statement: ast.stmt) -> Iterator[ast.AST]:
    for above in source.ancestors(node):
        if above is statement:
            return
        yield above


def _find_item(run: CapturedRun, group: Group, target: str) -> TensorVariable | None:
    """Return the target, or a part of it if the call makes several tensors."""
    names = {life.name for life in group.lives}
    if len(names) == 1 and next(iter(names)).startswith(f"{target}["):
        return TensorVariable(next(iter(names)), False)
    made = {sum(one.type is not None for one in run.results(life.producer)) for life in group.lives}
    return TensorVariable(target, False) if made == {1} else None


def _find_list(group: Group, target: str) -> TensorVariable | None:
    """Return the list whose items are exactly the group."""
    each = {f"{target}[{place}]" for place in range(len(group.lives))}
    return TensorVariable(target, True) if {life.name for life in group.lives} == each else None


def _inner_path(run: CapturedRun, life: BufferLifetime) -> tuple[str, ...]:
    """Return the calls from the naming statement to the operation."""
    return run.operations[life.producer].path[count_naming_depth(run, life) :]


def _is_plain(value: ast.Tuple, count: int) -> bool:
    return len(value.elts) == count and not any(isinstance(one, ast.Starred) for one in value.elts)


def _is_made_by(run: CapturedRun, group: Group, value: ast.expr | None) -> bool:
    """Return whether the value of a statement is the call that made the tensors, or returns them."""
    if isinstance(value, (ast.BinOp, ast.UnaryOp)):
        return True
    if not isinstance(value, ast.Call):
        return False
    called = value.func
    word = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    is_only = sum(isinstance(node, ast.Call) for node in ast.walk(value)) == 1
    makers = {_find_maker(run, life) for life in group.lives}
    return all(maker == word or (is_only and maker != "") for maker in makers)


def _find_maker(run: CapturedRun, life: BufferLifetime) -> str:
    """Return the function that the naming statement called: the operation, or one of the program's."""
    operation = run.operations[life.producer]
    depth = count_naming_depth(run, life) + 1
    if depth >= len(operation.path):
        return operation.name.rpartition(".")[2]
    place = parse_place(operation.path[depth])
    source = open_source(place.file)
    statement = source.find_statement(place) if source is not None else None
    function = source.find_function(statement) if source is not None and statement is not None else None
    return getattr(function, "name", "?")
