# SPDX-License-Identifier: Apache-2.0
"""An edit: a change of a program, as written on the command line and in answers."""

import re
from dataclasses import dataclass

from ttmem.base.errors import BadInputError

FREE, INPLACE, MEMORY, DTYPE, SHARD = "free", "inplace", "memory", "dtype", "shard"
CHUNK, ORDER, REGION, BOARD = "chunk", "order", "region", "board"
KINDS = (FREE, INPLACE, MEMORY, DTYPE, SHARD, CHUNK, ORDER, REGION, BOARD)
"""Cheapest for the user first, except the last, which changes no program."""
INTERLEAVED = "interleaved"
_NEEDS_VALUE = (MEMORY, DTYPE, SHARD, CHUNK, ORDER, REGION, BOARD)
_HINT = "write free:x@41, memory:q@12=DRAM, dtype:*.weight=bfloat8_b, chunk:#47=4 or board=p150"
_FORM = re.compile(r"(?P<kind>[a-z]+)(?::(?P<target>.*?)(?:@(?P<line>[^@=]+))?)?(?:=(?P<value>[^=]*))?", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """``kind:target@line=value``."""

    kind: str
    target: str = ""
    """A tensor's name in the report (a pattern with ``*`` may name several), or ``#INDEX`` for an operation."""
    line: str = ""
    """``41`` or ``model.py:41``: where it is made, if the name alone is ambiguous."""
    value: str = ""

    def __str__(self) -> str:
        target = f":{self.target}" if self.target else ""
        line = f"@{self.line}" if self.line else ""
        return f"{self.kind}{target}{line}" + (f"={self.value}" if self.value else "")


def parse_edit(text: str) -> Edit:
    form = _FORM.fullmatch(text)
    if form is None or form["kind"] not in KINDS:
        raise BadInputError(f"'{text}' is not an edit", hint=_HINT)
    edit = Edit(form["kind"], form["target"] or "", form["line"] or "", form["value"] or "")
    if edit.kind in _NEEDS_VALUE and not edit.value:
        raise BadInputError(f"'{text}' does not say into what", hint=_HINT)
    if edit.kind != BOARD and not edit.target:
        raise BadInputError(f"'{text}' does not say of what", hint=_HINT)
    return edit
