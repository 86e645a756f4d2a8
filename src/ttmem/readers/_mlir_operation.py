# SPDX-License-Identifier: Apache-2.0
"""One executed operation as the runtime prints it: MLIR's own text of one op, on one line, without aliases.

Types end the text and locations follow them, so reading from the right finds both without scanning the
properties, which may hold anything. Where a location could fool that (a quote inside a name), a scanner that
knows strings and brackets takes over.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_HEAD = re.compile(
    rb'\s*(?:%(\w+)(?::(\d+))? = )?(?:"([\w.]+)(?:"|$)|([A-Za-z_]\w*(?:\.\w+)+|call\b))(?:[ ]*\(?@"?([\w.$-]+)"?)?'
)
_SSA = re.compile(rb"%\w+(?:#\d+)?")
_SIMPLE_LOCATION = re.compile(rb'"[^"\\]*"(?:\("[^"\\]*"\))?\)$|unknown\)$|"[^"\\]*":\d+:\d+(?: to [\d:]+)?\)$')
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"?| loc\(|->|[()<>{}\[\]]')
_POSITION = re.compile(rb":\d+:\d+")
_TYPE_SPLIT = re.compile(rb", (?=tensor<|!|none\b)")


class OperationText(NamedTuple):
    """The parts of one operation text; texts stay bytes because most are only looked up."""

    name: bytes
    results: bytes
    """``%5`` or ``%5#0 %5#1``."""
    operands: bytes
    operand_types: bytes
    result_types: bytes
    location: bytes
    callee: bytes
    frees_input: bool
    complete: bool
    """False when the line was cut: the name is known, the types may not be."""


def parse_operation(text: bytes) -> OperationText | None:
    """The operation's parts, or None when the text does not begin like an operation."""
    head = _HEAD.match(text)
    if not head:
        return None
    name = head[3] or head[4]
    if name == b"call":
        name = b"func.call"
    result, count = head[1], head[2]
    if result is None:
        results = b""
    elif count is None:
        results = b"%" + result
    else:
        results = b" ".join(b"%%%s#%d" % (result, i) for i in range(min(int(count), 100_000)))
    location_at = text.rfind(b" loc(")
    if location_at < 0 or not _SIMPLE_LOCATION.match(text, location_at + 5):
        location_at = _scan_for_location(text)
    body = text if location_at < 0 else text[:location_at]
    arrow = body.rfind(b") -> ")
    while arrow >= 0 and body.startswith((b"(d", b"(0"), arrow + 5):  # a layout's affine map, not the operation's type
        arrow = body.rfind(b") -> ", 0, arrow)
    types_at = body.rfind(b" : (", 0, arrow + 1) if arrow >= 0 else -1
    operands_end = types_at if types_at >= 0 else len(body)
    frees_input = False
    properties_at = body.find(b"<{", head.end(), operands_end)
    if properties_at >= 0:
        operands_end = min(operands_end, properties_at)
        frees_input = body.find(b"deallocate_activation = true", properties_at) >= 0
    operands = b" ".join(_SSA.findall(body, head.end(), operands_end))
    return OperationText(
        name=name,
        results=results,
        operands=operands,
        operand_types=body[types_at + 4 : arrow] if types_at >= 0 else b"",
        result_types=body[arrow + 5 :] if arrow >= 0 else b"",
        location=location_text(text[location_at + 5 :]) if location_at >= 0 else b"",
        callee=head[5] or b"",
        frees_input=frees_input,
        complete=arrow >= 0 and location_at >= 0,
    )


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
    start = text.find(b'"', text.find(b"[") if text.startswith(b"fused<") else 0)
    if start < 0:
        return b""
    end = start + 1
    while True:
        end = text.find(b'"', end)
        if end < 0:
            return text[start + 1 :].rstrip(b")")
        if text[end - 1] != 0x5C:  # a backslash escapes the quote
            break
        end += 1
    position = _POSITION.match(text, end + 1)
    return text[start + 1 : end] + (position[0] if position else b"")


def _scan_for_location(text: bytes) -> int:
    """Where the operation's own ``loc(`` starts: the last one outside strings and brackets, -1 when there is none."""
    depth = 0
    found = -1
    for token in _TOKEN.finditer(text):
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
