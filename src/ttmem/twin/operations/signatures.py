# SPDX-License-Identifier: Apache-2.0
"""Whether an operation takes arguments of such names and kinds: what the library's Python layer decides first.

What it takes is ``signatures.toml``, which ``tools/signatures.py`` writes from the library itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ttmem.base import toml

QUEUE = "queue_id"
"""All operations take it; on which queue one waits says nothing of memory."""
Kind = str | tuple["Kind", ...]
"""Of a value: the name of its type, or, of a list, the kinds of what is in it."""
Form = tuple[tuple[Kind, ...], tuple[tuple[str, Kind], ...]]
"""Of a call: what it is given by position, then by name."""

_TENSOR, _OBJECT = "Tensor", "object"
_LIBRARY_TYPES = {"tensor": _TENSOR, "dtype": "DataType", "layout": "Layout", "memory": "MemoryConfig"}
_CONVERTED = {"bool": ("bool", "int", "float"), "int": ("int", "float"), "float": ("float",), "str": ("str",)}
"""Plain values, and the types that the binding makes of them."""
_PLAIN = frozenset({_TENSOR, "None", *_CONVERTED})


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    types: tuple[str, ...]
    may_be_left_out: bool
    is_only_named: bool

    def takes(self, kind: Kind) -> bool:
        return any(_takes(wanted, kind) for wanted in self.types)


def form_of(step: Mapping[str, Any]) -> Form:
    """Of a call step."""
    named = tuple((name, _kind(value)) for name, value in step.get("kwargs", {}).items() if name != QUEUE)
    return tuple(map(_kind, step.get("args", ()))), named


@cache
def misfit(operation: str, form: Form) -> str:
    """Why no overload of the operation takes a call of this form; empty: one does, or nobody knows the operation."""
    overloads = _overloads().get(operation, ())
    if not overloads or any(_fits(parameters, *form) for parameters in overloads):
        return ""
    taken = dict.fromkeys(parameter.name for parameters in overloads for parameter in parameters)
    strange = [name for name, _ in form[1] if name not in taken]
    why = f"there is no {', '.join(strange)}" if strange else f"it takes {', '.join(taken)}"
    return f"ttnn.{operation}(): incompatible function arguments: {why}"


def _kind(value: Any) -> Kind:
    if isinstance(value, Mapping):
        if "tuple" in value:
            return tuple(map(_kind, value["tuple"]))
        # The order is the worker's: where a tensor lies may be told with its layout.
        return next((_LIBRARY_TYPES[key] for key in ("memory", "tensor", "dtype", "layout") if key in value), _OBJECT)
    if isinstance(value, list | tuple):
        return tuple(map(_kind, value))
    return "None" if value is None else type(value).__name__


def _takes(wanted: str, kind: Kind) -> bool:
    if isinstance(kind, tuple):
        if not wanted.startswith("["):
            return wanted not in _PLAIN  # shapes and coordinates are made of lists
        return all(any(_takes(inner, one) for inner in wanted[1:-1].split("/")) for one in kind)
    if kind in _CONVERTED:
        # Of texts and numbers some of the library's own types are made too; a list of them is not told apart.
        return wanted in _CONVERTED[kind] or (kind == "str" and wanted not in _PLAIN)
    if kind == _OBJECT:
        return wanted not in _PLAIN
    return wanted == kind


def _fits(parameters: tuple[_Parameter, ...], given: tuple[Kind, ...], named: tuple[tuple[str, Kind], ...]) -> bool:
    by_name = dict(named)
    by_position = [parameter for parameter in parameters if not parameter.is_only_named]
    if len(given) > len(by_position):
        return False
    for number, parameter in enumerate(parameters):
        if number < len(given) and not parameter.is_only_named:
            if parameter.name in by_name or not parameter.takes(given[number]):
                return False
        elif parameter.name in by_name:
            if not parameter.takes(by_name.pop(parameter.name)):
                return False
        elif not parameter.may_be_left_out:
            return False
    return not by_name


@cache
def _overloads() -> Mapping[str, tuple[tuple[_Parameter, ...], ...]]:
    listed = toml.load_packaged(__package__, "signatures.toml")["signature"]
    return {name: tuple(map(_parameters, one["overloads"])) for one in listed for name in one["operations"]}


def _parameters(text: str) -> tuple[_Parameter, ...]:
    found: list[_Parameter] = []
    is_only_named = False
    for word in text.split(", "):
        if word == "*":
            is_only_named = True
            continue
        name, _, types = word.partition(": ")
        found.append(_Parameter(name.removesuffix("?"), tuple(types.split("|")), name.endswith("?"), is_only_named))
    return tuple(found)
