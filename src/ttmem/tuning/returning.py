# SPDX-License-Identifier: Apache-2.0
"""Functions that hand a tensor on to their caller: is it a new one in every run, whichever ``return`` is taken?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ttmem.tuning.source import Place, Source, place_of, source_of
from ttmem.tuning.syntax import FUNCTIONS

_MAY_RETURN_INPUT = frozenset(
    {
        "identity",
        "move",
        "permute",
        "reallocate",
        "reshape",
        "slice",
        "squeeze",
        "to_device",
        "to_dtype",
        "to_layout",
        "to_memory_config",
        "transpose",
        "typecast",
        "unsqueeze",
        "unsqueeze_to_4D",
        "view",
    }
)
"""Operations of ttnn that hand on what they are given where there is nothing to do."""
_HARMLESS_DECORATORS = ("staticmethod", "classmethod", "property", "no_grad", "inference_mode")


def hands_on_its_own(path: tuple[str, ...]) -> bool:
    """Of the calls from a statement to the operation that makes its tensor, as the recorder saw them."""
    return all(_returns_new(place_of(step)) for step in path[1:])


def _returns_new(place: Place) -> bool:
    source = source_of(place.file)
    statement = source.statement_of(place) if source is not None else None
    function = source.function_of(statement) if source is not None and statement is not None else None
    if source is None or not isinstance(function, (ast.FunctionDef, ast.Lambda)):
        return False
    if isinstance(function, ast.Lambda):
        return _is_new(source, function.body, place)
    words = [ast.unparse(one).partition("(")[0].rpartition(".")[2] for one in function.decorator_list]
    if any(word not in _HARMLESS_DECORATORS for word in words):
        return False  # lru_cache hands on the same tensor again
    return all(_is_new(source, one.value, place) for one in _returns(function))


def _returns(function: ast.FunctionDef) -> Iterator[ast.Return]:
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Return):
            yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            todo += ast.iter_child_nodes(node)


def _is_new(source: Source, value: ast.expr | None, place: Place) -> bool:
    """Whether an expression always makes a tensor; the one that was seen to make it does."""
    if isinstance(value, (ast.BinOp, ast.UnaryOp)):
        return True
    if isinstance(value, ast.IfExp):
        return _is_new(source, value.body, place) and _is_new(source, value.orelse, place)
    if isinstance(value, (ast.Tuple, ast.List)):
        return all(_is_new(source, one, place) for one in value.elts)
    if not isinstance(value, ast.Call):
        return False
    if value is source.expression_at(place):
        return True
    if place.span is None and value.lineno <= place.line <= (value.end_lineno or value.lineno):
        return True
    root: ast.expr = value.func
    while isinstance(root, ast.Attribute):
        root = root.value
    is_ttnn = isinstance(root, ast.Name) and root.id == source.ttnn
    return is_ttnn and getattr(value.func, "attr", "") not in _MAY_RETURN_INPUT
