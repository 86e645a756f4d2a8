# SPDX-License-Identifier: Apache-2.0
"""Unified diffs that both ``patch -p1`` and ``git apply`` take: lines end where these tools end them."""

from __future__ import annotations

import difflib
import re

_NO_END = "\\ No newline at end of file\n"


def unified(name: str, before: str, after: str) -> str:
    """A diff with the paths ``a/name`` and ``b/name``."""
    body = hunks_of(before, after)
    return f"--- {_quoted(f'a/{name}')}\n+++ {_quoted(f'b/{name}')}\n{body}" if body else ""


def _quoted(name: str) -> str:
    """As both tools read it: C's escapes for control characters, a tab at the end of a name with spaces."""
    if any(letter < " " or letter == "\x7f" for letter in name):
        plain = name.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(one if one >= " " and one != "\x7f" else f"\\{ord(one):03o}" for one in plain) + '"'
    return f"{name}\t" if " " in name else name


def hunks_of(before: str, after: str, *, context: int = 3) -> str:
    """The hunks alone."""
    lines = list(difflib.unified_diff(_lines(before), _lines(after), n=context))[2:]
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_END}" for line in lines)


def _lines(text: str) -> list[str]:
    """Only a line feed ends a line of a diff, whatever ends one of Python."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
