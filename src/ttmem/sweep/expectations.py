# SPDX-License-Identifier: Apache-2.0
"""What is known to fail, for CI: a file of statuses, and what deviates from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttmem._atomic import write_bytes
from ttmem._errors import BadInputError
from ttmem.results import STATUSES, Result

Key = tuple[str, str, str, str]
_KEYS = ("id", "board", "memory", "layout")


@dataclass(frozen=True, slots=True)
class Deviation:
    """A row that is not what it should be."""

    row: Result
    expected: str

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self.row, name) for name in (*_KEYS, "op", "status", "message")},
            "expected": self.expected,
        }


def read(path: Path) -> dict[Key, str]:
    """Lines ``{"id", "board", "memory", "layout", "status"}``; a results.jsonl is such a file too."""
    expected: dict[Key, str] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            told = json.loads(line)
        except ValueError:
            raise BadInputError("not JSON", where=where, hint="one expectation per line") from None
        if not isinstance(told, Mapping) or not all(isinstance(told.get(name), str) for name in (*_KEYS, "status")):
            raise BadInputError(f"an expectation needs {', '.join(_KEYS)} and status", where=where)
        if told["status"] not in STATUSES:
            raise BadInputError(f"unknown status '{told['status']}'", where=where, hint=f"known: {', '.join(STATUSES)}")
        expected[told["id"], told["board"], told["memory"], told["layout"]] = told["status"]
    return expected


def write(path: Path, rows: Iterable[Result]) -> None:
    """What did not pass today."""
    lines = (
        json.dumps({**{name: getattr(row, name) for name in _KEYS}, "op": row.op, "status": row.status}) + "\n"
        for row in rows
        if row.status != "pass"
    )
    write_bytes(path, "".join(lines).encode())


def compare(rows: Iterable[Result], expected: Mapping[Key, str] | None, *, strict: bool) -> list[Deviation]:
    """Listed rows must have their status (an unexpected pass is a deviation too: the list is out of date).

    Rows that are not listed must pass where a list is given or ``strict`` asks for it.
    """
    if expected is None and not strict:
        return []
    known = expected or {}
    return [
        Deviation(row, wanted)
        for row in rows
        if row.status != (wanted := known.get((row.id, row.board, row.memory, row.layout), "pass"))
    ]
