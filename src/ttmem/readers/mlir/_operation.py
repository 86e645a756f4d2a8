# SPDX-License-Identifier: Apache-2.0
"""One executed operation as the runtime prints it: MLIR's own text of one op, on one line, without aliases.

Types end the text and locations follow them, so reading from the right finds both without scanning the
properties, which may hold anything. Where a location could fool that (a quote inside a name), a scanner that
knows strings and brackets takes over.
"""

import re
from typing import NamedTuple

from ttmem.base.limits import RESULTS_OF_OPERATION

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
        location = location_text(text[location_at + 5 :]) if location_at >= 0 else b""
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


def location_text(text: bytes) -> bytes:
    """The name a person would look for: the outermost string of a location, with line and column if it has them.

    ``"gather.17_workaround"("gather.17")`` -> ``gather.17_workaround``; a callsite gives its callee's name, a fused
    location its first part, unknown gives nothing.
    """
    if text.startswith(b"unknown"):
        return b""
    name = _STRING.search(without_escapes(text), text.find(b">[") if text.startswith(b"fused<") else 0)
    if not name:
        cut = text.find(b'"')  # the line ends inside the name
        return text[cut + 1 :].rstrip(b")") if cut >= 0 else b""
    position = _POSITION.match(text, name.end())
    return unescaped(text[name.start(1) : name.end(1)]) + (position[0] if position else b"")


def without_escapes(text: bytes) -> bytes:
    """The same bytes with nothing escaped in their strings, for a search that only asks where a string ends.

    A pattern that steps over escapes one by one keeps a way back for each: gigabytes for a line full of them.
    """
    return text.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in text else text


def unescaped(text: bytes) -> bytes:
    """A string attribute without MLIR's escapes: quotes and all bytes beyond ASCII are printed as two hex digits."""
    return _ESCAPE.sub(_escaped_byte, text) if b"\\" in text else text


def _escaped_byte(found: re.Match[bytes]) -> bytes:
    if found[1] == b"\\":
        return b"\\"
    byte = bytes.fromhex(found[1].decode())
    return max(byte, b" ")  # a line break would break every table that shows the name


def _location_after_types(text: bytes, start: int) -> int:
    """Where a callsite or fused location starts: types hold no `` loc(``, so the first one behind them is it."""
    found = text.find(b" loc(", max(start, text.find(b" : (", start)))
    if found > 0 and text[found - 1] in b">)" and text.find(b" loc(", found + 5) < 0:
        return found
    return _scan_for_location(text)


def _scan_for_location(text: bytes) -> int:
    """Where the operation's own ``loc(`` starts: the last one outside strings and brackets, -1 when there is none."""
    depth = 0
    found = -1
    for token in _TOKEN.finditer(without_escapes(text)):
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
