# SPDX-License-Identifier: Apache-2.0
"""Values and calls as Python source, laid out to a line length: generated files are read by people."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.operators.case_program import CaseProgram, parse_catalogue_call
from ttmem.operators.catalogue_entries import Operator

LINE_COLUMNS = 120
_SURROUNDINGS = {"memory": "memory_config", "device": "device", "layout": "ttnn.TILE_LAYOUT"}


class Raw(str):
    """Source that is written as it is."""


@dataclass(frozen=True, slots=True)
class Built:
    """``Name(field=value, ...)``."""

    name: str
    fields: Mapping[str, Any]


def _items(value: Any) -> tuple[str, list[tuple[str, Any]], str] | None:
    """Return a value's opening text, its items with their prefixes, and its closing text; None: it has no items."""
    if isinstance(value, Built):
        return f"{value.name}(", [(f"{key}=", item) for key, item in value.fields.items()], ")"
    if isinstance(value, Mapping):
        return "{", [(f"{flat(key)}: ", item) for key, item in value.items()], "}"
    if isinstance(value, (list, tuple)):
        opening, closing = "[]" if isinstance(value, list) else "()"
        return opening, [("", item) for item in value], closing
    return None


def flat(value: Any) -> str:
    """Format a value on one line."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, str):
        return _quote(value)
    if found := _items(value):
        opening, items, closing = found
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"{opening}{', '.join(key + flat(item) for key, item in items)}{comma}{closing}"
    if isinstance(value, float):
        return repr(value).replace("e+", "e") if isfinite(value) else f'float("{value}")'
    return repr(value)


def _quote(text: str) -> str:
    if '"' in text or "\\" in text or not text.isprintable():
        return repr(text)
    return f'"{text}"'


def decode_wire(value: Any) -> Any:
    """A value of a recipe: the engines' notation for what is no plain data becomes source."""
    if isinstance(value, list):
        return [decode_wire(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if set(value) == {"dtype"}:
        return Raw(f"ttnn.{_name(value['dtype'])}")
    if set(value) == {"tuple"}:
        return tuple(value["tuple"])
    if "new" in value:
        options = ", ".join(f"{name}={flat(item)}" for name, item in value.get("kwargs", {}).items())
        return Raw(f"{value['new']}({options})")
    raise BadInputError(f"no source for {dict(value)}")


def _name(word: object) -> str:
    """Case files come from anywhere, and what is made of them is run: only a name is written as source."""
    if not str(word).isidentifier():
        raise BadInputError(f"{str(word)[:80]!r} is no name of a data type")
    return str(word)


def format_value(value: Any, indent: int, used: int = 0) -> str:
    """Format a value after ``key=``, with its items on lines of their own when one line is too short."""
    one_line, found = flat(value), _items(value)
    if indent + used + len(one_line) + 1 <= LINE_COLUMNS or found is None:
        return one_line
    opening, items, closing = found
    inner = " " * (indent + 4)
    lines = [f"{inner}{key}{format_value(item, indent + 4, len(key))}," for key, item in items]
    if isinstance(value, Built) and not any(isinstance(item, (Mapping, list)) for _, item in items):
        # Short fields share a line where they fit, as formatters do.
        joined = inner + ", ".join(key + flat(item) for key, item in items)
        lines = [joined] if len(joined) <= LINE_COLUMNS else lines
    return "\n".join([opening, *lines, f"{' ' * indent}{closing}"])


def call_source(recipe: CaseProgram) -> str:
    """The call of a recipe with ``tensors`` and ``arguments`` looked up by name."""
    names = {tensor.argument for tensor in recipe.inputs}
    node = _Renamed(recipe.operator, names, recipe.values).visit(ast.parse(recipe.variant.call, mode="eval").body)
    return _call_lines(ast.unparse(node), indent=4)


class _Renamed(ast.NodeTransformer):
    """Names of the catalogue as what the generated function knows them by."""

    def __init__(self, operator: Operator, tensors: set[str], values: Mapping[str, Any]) -> None:
        self._operator = operator
        self._tensors = tensors
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A tensor, an argument, or something of the surroundings; ``ttnn`` itself stays."""
        name = node.id
        if name == "ttnn":
            return node
        if name in _SURROUNDINGS:
            return parse_python(_SURROUNDINGS[name])
        if name in self._tensors and name not in self._operator.optional:
            return parse_python(f'tensors["{name}"]')
        value = self._values.get(name)
        if isinstance(value, Mapping) and "tensor" in value:
            argument, _, index = value["tensor"].partition(".")
            return parse_python(f'tensors["{argument}"][{index}]')
        if name in self._tensors or (name in self._operator.optional and name not in self._values):
            return parse_python(f'tensors.get("{name}")')
        return parse_python(f'arguments["{name}"]')


def parse_python(source: str) -> ast.expr:
    """A new node each time: the transformer must not share them."""
    return ast.parse(source, mode="eval").body


def _call_lines(source: str, indent: int) -> str:
    """``return call(...)`` with an argument per line where it is long."""
    source = source.replace("'", '"')
    if indent + len("return ") + len(source) <= LINE_COLUMNS:
        return f"{' ' * indent}return {source}"
    return f"{' ' * indent}return {_split(parse_catalogue_call(source), indent)}"


def _split(node: ast.expr, indent: int) -> str:
    source = ast.unparse(node).replace("'", '"')
    if indent + len(source) + 8 <= LINE_COLUMNS or not isinstance(node, (ast.Call, ast.List)):
        return source
    inner = " " * (indent + 4)
    if isinstance(node, ast.List):
        return "\n".join(["[", *(f"{inner}{_split(item, indent + 4)}," for item in node.elts), f"{' ' * indent}]"])
    lines = [f"{inner}{_split(item, indent + 4)}," for item in node.args]
    lines += [f"{inner}{word.arg}={_split(word.value, indent + 4)}," for word in node.keywords]
    return "\n".join([f"{ast.unparse(node.func)}(", *lines, f"{' ' * indent})"])
