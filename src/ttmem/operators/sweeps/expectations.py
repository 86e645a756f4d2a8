# SPDX-License-Identifier: Apache-2.0
"""Known failures for CI: a file of statuses, and deviations from it."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ttmem.base.atomic_files import write_bytes
from ttmem.base.errors import BadInputError
from ttmem.operators.sweeps.result import Result, check_status, json_lines

Key = tuple[str, str, str, str]
_KEYS = ("id", "board", "memory", "layout")


@dataclass(frozen=True, slots=True)
class Deviation:
    """A result that is not what it should be."""

    result: Result
    expected: str


def read(path: Path) -> dict[Key, str]:
    """Lines ``{"id", "board", "memory", "layout", "status"}``; a results.jsonl is such a file too."""
    expected: dict[Key, str] = {}
    for where, entry in json_lines(path, "expectation"):
        if not isinstance(entry, Mapping) or not all(isinstance(entry.get(name), str) for name in (*_KEYS, "status")):
            raise BadInputError(f"an expectation needs {', '.join(_KEYS)} and status", where=where)
        check_status(entry["status"], where)
        expected[entry["id"], entry["board"], entry["memory"], entry["layout"]] = entry["status"]
    return expected


def write(path: Path, results: Iterable[Result]) -> None:
    """Return the results that did not pass."""
    lines = (
        json.dumps({**{name: getattr(result, name) for name in _KEYS}, "op": result.op, "status": result.status}) + "\n"
        for result in results
        if result.status != "pass"
    )
    write_bytes(path, "".join(lines).encode())


def compare(results: Iterable[Result], expected: Mapping[Key, str] | None, *, strict: bool) -> list[Deviation]:
    """Listed results must have their status (an unexpected pass is a deviation too: the list is out of date).

    Results that are not listed must pass where a list is given or ``strict`` asks for it.
    """
    if expected is None and not strict:
        return []
    known = expected or {}
    return [
        Deviation(result, wanted) for result in results if result.status != (wanted := known.get(result.place, "pass"))
    ]
