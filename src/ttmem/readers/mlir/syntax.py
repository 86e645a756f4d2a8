# SPDX-License-Identifier: Apache-2.0
"""Operations, tensor types and properties as MLIR prints them.

An executed operation is one line without aliases. Types end the text and locations follow them, so it is read from the
right, without a scan of the properties, which may hold anything. Where a location could fool that (a quote inside a
name), a scanner that knows strings and brackets takes over.

Storage follows the memref, not the element type: a bfloat8_b tensor prints bf16 elements over bfp_bf8 tiles, and the
memref of a sharded tensor is one shard. Both layout grammars (before and after 2026-05) are read.

Properties, ``<{dim = 3 : si32, keep_dim = true}>``, become plain values. An attribute of a dialect becomes its content:
``#ttcore.supportedDataTypes<bf16>`` is ``"bf16"``, ``#ttnn.shape<1x32>`` is ``[1, 32]``, ``#ttnn.conv2d_config<a = 1>``
is ``{"a": 1}``.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from ttmem.base.limits import NUMBER_DIGITS, RESULTS_OF_OPERATION
from ttmem.engines.worker.graph_nodes import parse_memory
from ttmem.hardware import DATA_TYPES, DataType, Tile
from ttmem.profile.tensor_type import TensorType, count_pages

_STORED = rb"((?:\d{1,15}x){0,64})(?:!tt(?:core)?\.tile<([1-9]\d{0,3})x([1-9]\d{0,3}), ?(\w{1,32})>|([A-Za-z]\w{0,31}))"
_ELEMENT = re.compile(rb"tensor<" + _STORED)
_COMPLEX = re.compile(rb"complex<(\w{1,16})>")
_MEMREF = re.compile(rb"memref<" + _STORED + rb", ?#(?:(?:ttnn\.)?buffer_type<)?(\w+)")
_GRID = re.compile(rb"(?:\), <|nd_layout<<?)(\d{1,6}(?:x\d{1,6}){0,8})[,>]")
_PLACEMENT = re.compile(rb"<(interleaved|height_sharded|width_sharded|block_sharded|nd_sharded)>")

_MOST_ELEMENTS = 1 << 50
"""More than any machine holds: such a shape is a damaged line, and its bytes would not fit a column."""

_CORES = re.compile(rb"core_range<\((\d{1,4}), ?(\d{1,4})\), ?\((\d{1,4}), ?(\d{1,4})\)>")
_COLUMNS = re.compile(rb"<\d+x\d+, \(d0, d1\) -> \(0, d[01] floordiv (\d{1,4}), ")


def parse_dimensions(text: bytes) -> tuple[int, ...]:
    """``b"1x32x"`` -> ``(1, 32)``."""
    return tuple(int(part) for part in text.split(b"x") if part)


@lru_cache(maxsize=256)
def find_storage_type(text: bytes) -> tuple[str, DataType | None]:
    """The dtype's ttnn name and what is known of it; an unknown one keeps its spelling and counts no bytes."""
    spelling = text.decode("ascii", "replace")
    known = DATA_TYPES.get(spelling)
    return (known.name if known else spelling), known


def parse_tensor_type(text: bytes) -> TensorType | None:
    """The tensor type at the start of ``text``, or None when it is not a tensor (a device, a semaphore).

    Complex numbers are pairs: the compiler stores them with a last dimension of 2, and so they are given here.
    """
    element = _ELEMENT.match(text)
    if not element:
        return None
    shape = parse_dimensions(element[1])
    elements = prod(shape)
    if elements > _MOST_ELEMENTS:
        return None
    memref = _MEMREF.search(text, element.end())
    if not memref:
        if element[5] == b"complex":
            return _complex(text, element.start(5), shape)
        name, dtype = find_storage_type(element[4] or element[5])
        logical_bytes = dtype.logical_bytes(elements) if dtype else 0
        return TensorType(shape, name, "", "", "", logical_bytes, logical_bytes, 0, 0)
    name, dtype = find_storage_type(memref[4] or memref[5])
    memref_dims = parse_dimensions(memref[1])
    if memref[4]:
        layout = "tile"
        page_bytes = dtype.tile_bytes(Tile(int(memref[2]), int(memref[3]))) if dtype else 0
        memref_bytes = prod(memref_dims) * page_bytes
    else:
        layout = "row_major"
        page_bytes = dtype.logical_bytes(memref_dims[-1] if memref_dims else 1) if dtype else 0
        memref_bytes = prod(memref_dims[:-1]) * page_bytes
    placement = _PLACEMENT.search(text, memref.end())
    interleaved = not placement or placement[1] == b"interleaved"
    grid = _GRID.search(text, element.end())
    padded_bytes = memref_bytes * (prod(parse_dimensions(grid[1])) if grid else 1)
    if padded_bytes > memref_bytes and interleaved and memref[4]:
        # Old logs print interleaved tensors with a grid and the memref of one core, rounded up: the shape bounds it.
        padded_bytes = min(padded_bytes, count_pages(shape, int(memref[2]), int(memref[3])) * page_bytes)
    if padded_bytes > _MOST_ELEMENTS:
        return None
    return TensorType(
        shape=shape,
        dtype=name,
        layout=layout,
        memory=parse_memory(memref[6].decode("ascii", "replace")),
        placement=placement[1].decode() if placement else "",
        logical_bytes=dtype.logical_bytes(elements) if dtype else 0,
        padded_bytes=padded_bytes,
        page_bytes=page_bytes,
        shard_bytes=0 if interleaved else memref_bytes,
    )


def _complex(text: bytes, start: int, shape: tuple[int, ...]) -> TensorType:
    part = _COMPLEX.match(text, start)
    name, dtype = find_storage_type(part[1] if part else b"complex")
    logical_bytes = dtype.logical_bytes(2 * prod(shape)) if dtype else 0
    return TensorType((*shape, 2), name, "", "", "", logical_bytes, logical_bytes, 0, 0)


def parse_shard(text: bytes, columns: int) -> dict[str, Any] | None:
    """Parse the sharding of a tensor as steps of the engines write it; None when it is interleaved.

    Layouts name the cores since May 2026. Before, a one-dimensional grid goes along the rows of the device, of which
    the layout's own map says how many ``columns`` they have.
    """
    placement, memref, element = _PLACEMENT.search(text), _MEMREF.search(text), _ELEMENT.match(text)
    if not placement or not memref or not element or placement[1] == b"interleaved":
        return None
    kind = placement[1].decode().removesuffix("_sharded")
    shape = list(parse_dimensions(memref[1]))
    if memref[4]:
        shape[-2:] = [shape[-2] * int(memref[2]), shape[-1] * int(memref[3])]
    if kind != "nd":
        shape = [prod(shape[:-1]), shape[-1]]
    ranges = [[int(number) for number in found] for found in _CORES.findall(text, memref.end())]
    if not ranges:
        found, grid = _COLUMNS.search(text), _GRID.search(text, element.end())
        rows_columns = parse_dimensions(grid[1]) if grid else (1, 1)
        ranges = _ranges(rows_columns, kind, int(found[1]) if found else columns)
    more = {"distribution": "round_robin_1d"} if kind == "nd" else {}
    return {"kind": kind, "shape": shape, "ranges": ranges, **more}


def _ranges(grid: tuple[int, ...], kind: str, columns: int) -> list[list[int]]:
    """Rectangles of cores, ``[x0, y0, x1, y1]``."""
    cores = prod(grid)
    if kind == "block" or (kind == "height" and grid[-1] > 1) or columns < 1:
        return [[0, 0, grid[-1] - 1, grid[0] - 1]]
    whole, rest = divmod(cores, columns)
    full = [[0, 0, columns - 1, whole - 1]] if whole else []
    return [*full, [0, whole, rest - 1, whole]] if rest else full


_PROPERTY_TOKEN = re.compile(
    rf"""\s*(?:
        (?P<number>-?(?:0x[0-9A-Fa-f]{{1,{NUMBER_DIGITS}}}|\d{{1,{NUMBER_DIGITS}}}(?:\.\d{{1,40}})?(?:[eE][-+]?\d{{1,3}})?)(?![\w.]))
      | (?P<text>"[^"]*")
      | (?P<word>[@\#!]?[A-Za-z_$\d][\w.$\#-]*)
      | (?P<mark>->|::|.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_SIZES = re.compile(r"\d{1,15}(?:x\d{1,15})*")
_CLOSING = {"<": ">", "[": "]", "{": "}", "(": ")"}
_DEEPEST = 24
"""Brackets inside each other; real ones reach six."""
_END = ("", "")


def parse_properties(text: bytes, aliases: Mapping[bytes, bytes] | None = None) -> dict[str, Any]:
    """The properties that ``text`` holds, without the outer brackets; what cannot be read is left out."""
    return _Parser(text.decode("utf-8", "replace"), aliases or {}).entries()


class _Parser:
    """A pass over the tokens; every value finds its own end."""

    def __init__(self, text: str, aliases: Mapping[bytes, bytes], depth: int = 0) -> None:
        self._tokens = [(m.lastgroup or "", m[m.lastgroup or 0]) for m in _PROPERTY_TOKEN.finditer(text)]
        self._at = 0
        self._aliases = aliases
        self._depth = depth

    def _next(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _take(self, mark: str) -> bool:
        found = self._next()[1] == mark
        self._at += found
        return found

    def entries(self, closing: str = "") -> dict[str, Any]:
        """``a = 1, b`` up to the closing bracket, which is taken too."""
        found: dict[str, Any] = {}
        while self._next() != _END and not self._take(closing):
            _, key = self._next()
            self._at += 1
            found[key.strip('"')] = self._value() if self._take("=") else True
            self._skip_to_comma(closing)
        return found

    def _skip_to_comma(self, closing: str) -> None:
        """Skip the type after a value, ``: i32``."""
        while (token := self._next()) != _END and token[1] not in (",", closing):
            self._at += 1
            if token[1] in _CLOSING:
                self._skip_bracket(_CLOSING[token[1]])
        self._take(",")

    def _skip_bracket(self, closing: str) -> None:
        open_brackets = [closing]
        while open_brackets and self._next() != _END:
            mark = self._next()[1]
            self._at += 1
            if mark == open_brackets[-1]:
                open_brackets.pop()
            elif mark in _CLOSING:
                open_brackets.append(_CLOSING[mark])

    def _value(self) -> Any:
        kind, text = self._next()
        self._at += 1
        if kind == "number":
            return float(text) if not text.lstrip("-").isdigit() and "0x" not in text else int(text, 0)
        if kind == "text":
            return text[1:-1]
        if text == "[":
            return self._items("]")
        if text == "{":
            return self.entries("}") if self._deeper() else None
        if text == "<":
            return self._content()
        if kind == "word":
            return self._parse_word(text)
        return None

    def _deeper(self) -> bool:
        self._depth += 1
        return self._depth < _DEEPEST

    def _items(self, closing: str) -> list[Any]:
        found: list[Any] = []
        if not self._deeper():
            return found
        while self._next() != _END and not self._take(closing):
            found.append(self._value())
            self._skip_to_comma(closing)
        self._depth -= 1
        return found

    def _parse_word(self, word: str) -> Any:
        """``true``, ``bf16``, ``@callee``, an alias, or a name with its content in brackets."""
        if word in ("true", "false"):
            return word == "true"
        if word == "array" and self._take("<"):
            self._at += 1  # the elements' type
            self._take(":")
            return self._items(">")
        if self._take("<"):
            if word in ("dense", "dense_resource", "tensor", "memref"):
                self._skip_bracket(">")
                return None
            return self._content()
        target = self._aliases.get(word.removeprefix("#").encode()) if word.startswith("#") else None
        if target is not None and self._deeper():
            return _Parser(target.decode("utf-8", "replace"), self._aliases, self._depth)._value()
        return word.lstrip("@#")

    def _content(self) -> Any:
        """Parse the content between ``<`` and ``>``: sizes, one value, or entries."""
        if not self._deeper():
            return None
        begin = self._at
        if self._tokens[begin + 1 : begin + 2] and self._tokens[begin + 1][1] == "=":
            return self.entries(">")
        kind, word = self._next()
        if kind in ("word", "number") and self._tokens[begin + 1 : begin + 2] == [("mark", ">")]:
            self._at += 2
            if _SIZES.fullmatch(word):
                return [int(size) for size in word.split("x")]
            return word.lstrip("@#")
        items = self._items(">")
        return items[0] if len(items) == 1 else items


_HEAD = re.compile(
    rb'\s*(?:%(\w+)(?::(\d{1,6}))? = )?(?:"([\w.]+)(?:"|$)|([A-Za-z_]\w*(?:\.\w+)+|call\b))(?:[ ]*\(?@"?([\w.$-]+)"?)?'
)
_DEALLOCATE = b'"ttnn.deallocate"('
_SSA = re.compile(rb"%\w+(?:#\d+)?")
_SIMPLE_LOCATION = re.compile(rb'(?:"([^"\\]*)"(?:\("[^"\\]*"\))?|unknown)\)$')
_TOKEN = re.compile(rb'"[^"]*"?| loc\(|->|[()<>{}\[\]]')
_STRING = re.compile(rb'"([^"]*)"')
_ESCAPE = re.compile(rb"\\(\\|[0-9A-Fa-f]{2})")
_POSITION = re.compile(rb":\d+:\d+")
_TYPE_SPLIT = re.compile(rb", (?=tensor<|!|none\b)")


class OperationText(NamedTuple):
    """The parts of one operation text; texts stay bytes because most are only looked up."""

    name: bytes
    values: bytes
    """``%5#0 %5#1=%3 %4``: SSA names of the results, then of the operands."""
    types: bytes
    """``(operand types) -> result types`` without the first bracket, as printed."""
    location: bytes
    callee: bytes
    frees_input: bool
    complete: bool
    """False when the line was cut: the name is known, the types may not be."""


def parse_operation(text: bytes) -> OperationText | None:
    """The operation's parts, or None when the text does not begin like an operation."""
    if text.startswith(_DEALLOCATE) and (parsed := _parse_deallocate(text)):
        return parsed
    head = _HEAD.match(text)
    if not head:
        return None
    result, count, generic, custom, callee = head.groups()
    start = head.end()
    if result is None:
        values = b"="
    elif count is None:
        values = b"%" + result + b"="
    else:
        values = b" ".join(b"%%%s#%d" % (result, i) for i in range(min(int(count), RESULTS_OF_OPERATION))) + b"="
    location_at = text.rfind(b" loc(")
    simple = _SIMPLE_LOCATION.match(text, location_at + 5) if location_at >= 0 else None
    if simple:
        location = simple[1] or b""
    else:
        location_at = _location_after_types(text, start)
        location = read_location(text[location_at + 5 :]) if location_at >= 0 else b""
    body_end = location_at if location_at >= 0 else len(text)
    arrow = text.rfind(b") -> ", start, body_end)
    while arrow >= 0 and text.startswith((b"(d", b"(0"), arrow + 5):  # a layout's affine map, not the operation's type
        arrow = text.rfind(b") -> ", start, arrow)
    types_at = text.rfind(b" : (", start, arrow + 1) if arrow >= 0 else -1
    attributes_end = types_at if types_at >= 0 else body_end
    operands_end = text.find(b")", start, attributes_end)  # operands are names and a list of names: no bracket inside
    if operands_end < 0:
        operands_end = attributes_end
    frees_input = text.find(b"deallocate_activation = true", operands_end, attributes_end) >= 0
    return OperationText(
        generic or (b"func.call" if custom == b"call" else custom),
        values + b" ".join(_SSA.findall(text, start, operands_end)),
        text[types_at + 4 : body_end] if types_at >= 0 else b"",
        location,
        callee or b"",
        frees_input,
        arrow >= 0 and location_at >= 0,
    )


def _parse_deallocate(text: bytes) -> OperationText | None:
    """Nearly every second operation is this one; its ordinary form needs no regular expression but the location's."""
    operand_end = text.find(b") <{", len(_DEALLOCATE))
    types_at = text.find(b"}> : (", operand_end)
    location_at = text.rfind(b") -> () loc(")
    if operand_end < 0 or types_at < 0 or location_at < types_at:
        return None
    simple = _SIMPLE_LOCATION.match(text, location_at + 12)
    operand = text[len(_DEALLOCATE) : operand_end]
    if not simple or not operand.startswith(b"%") or b" " in operand:
        return None
    types = text[types_at + 6 : location_at + 7]
    return OperationText(b"ttnn.deallocate", b"=" + operand, types, simple[1] or b"", b"", False, True)


def split_signature(types: bytes) -> tuple[list[bytes], list[bytes]]:
    """The operand types and the result types of ``OperationText.types``."""
    arrow = types.rfind(b") -> ")
    while arrow >= 0 and types.startswith((b"(d", b"(0"), arrow + 5):
        arrow = types.rfind(b") -> ", 0, arrow)
    if arrow < 0:
        return ([], split_types(types[5:])) if types.startswith(b") -> ") else (split_types(types), [])
    return split_types(types[:arrow]), split_types(types[arrow + 5 :])


def split_types(text: bytes) -> list[bytes]:
    """The types of a list; layouts hold commas, but no comma that another type follows."""
    if text.startswith(b"(") and text.rstrip().endswith(b")"):
        text = text.strip()[1:-1]
    return _TYPE_SPLIT.split(text) if text else []


def read_location(text: bytes) -> bytes:
    """The name a person would look for: the outermost string of a location, with line and column if it has them.

    ``"gather.17_workaround"("gather.17")`` -> ``gather.17_workaround``; a callsite gives its callee's name, a fused
    location its first part, unknown gives nothing.
    """
    if text.startswith(b"unknown"):
        return b""
    name = _STRING.search(hide_escapes(text), text.find(b">[") if text.startswith(b"fused<") else 0)
    if not name:
        cut = text.find(b'"')  # the line ends inside the name
        return text[cut + 1 :].rstrip(b")") if cut >= 0 else b""
    position = _POSITION.match(text, name.end())
    return unescape(text[name.start(1) : name.end(1)]) + (position[0] if position else b"")


def hide_escapes(text: bytes) -> bytes:
    """The same bytes with nothing escaped in their strings, for a search that only asks where a string ends.

    A pattern that steps over escapes one by one keeps a way back for each: gigabytes for a line full of them.
    """
    return text.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in text else text


def unescape(text: bytes) -> bytes:
    """A string attribute without MLIR's escapes: quotes and all bytes beyond ASCII are printed as two hex digits."""
    return _ESCAPE.sub(_decode_escape, text) if b"\\" in text else text


def _decode_escape(found: re.Match[bytes]) -> bytes:
    if found[1] == b"\\":
        return b"\\"
    byte = bytes.fromhex(found[1].decode())
    return max(byte, b" ")  # a line break would break every table that shows the name


def _location_after_types(text: bytes, start: int) -> int:
    """Return the start of a callsite or fused location: types hold no `` loc(``, so the first one after them is it."""
    found = text.find(b" loc(", max(start, text.find(b" : (", start)))
    if found > 0 and text[found - 1] in b">)" and text.find(b" loc(", found + 5) < 0:
        return found
    return _scan_for_location(text)


def _scan_for_location(text: bytes) -> int:
    """Return the start of the operation's own ``loc(``: the last one outside strings and brackets, else -1."""
    depth = 0
    found = -1
    for token in _TOKEN.finditer(hide_escapes(text)):
        mark = token[0]
        first = mark[0]
        if first == 0x22 or mark == b"->":  # strings hide their content; an arrow's > closes nothing
            continue
        if mark == b" loc(":
            if depth == 0:
                found = token.start()
            depth += 1
        elif first in b"(<{[":
            depth += 1
        else:
            depth = max(0, depth - 1)
    return found
