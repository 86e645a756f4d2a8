# SPDX-License-Identifier: Apache-2.0
"""``ttrt run --memory`` (and tt-mlir's builder): a JSON entry per operation with the memory views *after* it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from ttmem.base.errors import BadInputError
from ttmem.readers.byte_source import Head, OpenedSource

if TYPE_CHECKING:
    from ttmem.profile.model import Profile
    from ttmem.profile.tables import ProfileTables, View
    from ttmem.readers.registry import ReadOptions

KIND = "ttrt-memory"
TITLE = "memory results of ttrt (memory_results.json)"
_MARK = re.compile(rb'"debug_str"\s*:')
_HINT = "make it with 'ttrt run FILE --memory --save-artifacts' (memory_results.json)"

_FIGURES = (
    ("num_banks",),
    ("total_bytes_per_bank", "total_allocatable (bytes) : per bank"),
    ("total_bytes_allocated_per_bank", "total_allocated (bytes): per bank"),
    ("total_bytes_free_per_bank", "total_free (bytes) : per bank"),
    ("largest_contiguous_bytes_free_per_bank", "largest_free_block (bytes) : per bank"),
)
"""In the order of a view; the second spelling is that of December 2024."""
_WHOLE = "total_allocatable (bytes) : total_allocatable/bank * num_banks"


class _OperationEntry(TypedDict, total=False):
    loc: str
    debug_str: str
    dram: dict[str, Any]
    l1: dict[str, Any]
    l1_small: dict[str, Any]
    trace: dict[str, Any]


def sniff(head: Head) -> bool:
    """JSON with entries of operations in it."""
    return head.content.lstrip()[:1] in (b"{", b"[") and _MARK.search(head.content) is not None


def read(path: str | Path, options: ReadOptions) -> Profile:
    """The memory history in ttrt's memory results."""
    from ttmem.profile.model import BEFORE_OPERATION, MEMORIES, SNAPSHOT, Source
    from ttmem.profile.tables import ProfileTables, States, build_timeline

    with OpenedSource(path) as opened:
        content = opened.json_content()
    entries = _entries(content, str(path))
    if not entries:
        raise BadInputError("no operation in these memory results", where=str(path), hint=_HINT)
    tables, states = ProfileTables(), States()
    for number, entry in enumerate(entries, start=1):
        stated = (
            (column, _view(cast(Mapping[str, Any], entry).get(memory.lower(), {})))
            for column, memory in enumerate(MEMORIES)
        )
        views = tables.add_views({column: view for column, view in stated if view is not None})
        # The state after an operation is the one before the next; what was there before the first was not written.
        if number < len(entries):
            states.add(BEFORE_OPERATION, number, number - 1, views)
        else:
            states.add(SNAPSHOT, -1, number - 1, views)
    timeline = build_timeline([_form(entry, tables) for entry in entries], states)
    source = Source(kind=KIND, name=str(path), bytes=len(content), lines=0, warnings=tuple(_caveats(entries)))
    return tables.build([timeline], name=options.name, source=source)


def _entries(content: bytes, where: str) -> list[_OperationEntry]:
    """A list (the builder) or numbered entries (ttrt), in the order of execution."""
    import msgspec

    try:
        if content.lstrip()[:1] == b"[":
            return msgspec.json.decode(content, type=list[_OperationEntry])
        numbered = msgspec.json.decode(content, type=dict[str, _OperationEntry])
    except msgspec.ValidationError as error:
        raise BadInputError(f"not memory results of ttrt: {error}", where=where, hint=_HINT) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadInputError(f"the JSON is damaged or cut: {error}", where=where, hint=_HINT) from None
    return [entry for _, entry in sorted(numbered.items(), key=lambda item: _number(item[0]) or 0)]


def _form(entry: _OperationEntry, tables: ProfileTables) -> int:
    from ttmem.readers.mlir.syntax import parse_operation, parse_tensor_type, read_location, split_signature

    printed = entry.get("debug_str", "")
    parsed = parse_operation(printed.encode("utf-8", "replace"))
    location = read_location(entry.get("loc", "").removeprefix("loc(").encode("utf-8", "replace")).decode(
        "utf-8", "replace"
    )
    if parsed is None:
        return tables.add_form(printed.split("(")[0].strip()[:100] or "unknown", location=location)
    operands, results = (
        [tables.add_type(parse_tensor_type(part)) for part in side] for side in split_signature(parsed.types)
    )
    return tables.add_form(
        parsed.name.decode("ascii", "replace"),
        location=parsed.location.decode("utf-8", "replace") or location,
        operand_types=operands,
        result_types=results,
        values=parsed.values.decode("ascii", "replace"),
        note=(parsed.callee.decode("ascii", "replace"), parsed.frees_input),
    )


def _view(stated: Mapping[str, Any]) -> View | None:
    """The five figures of one memory; early files have a level of devices in between, of which the first is taken."""
    inner = next((value for value in stated.values() if isinstance(value, dict)), None)
    if inner is not None and not any(key in stated for spellings in _FIGURES for key in spellings):
        stated = inner
    figures = [next((_number(stated[key]) for key in spellings if key in stated), None) for spellings in _FIGURES]
    banks, total, allocated, free, largest = figures
    if total is None or allocated is None:
        return None
    if banks is None:
        whole = _number(stated.get(_WHOLE)) or 0
        banks = whole // total if total else 0
    free = total - allocated if free is None else free
    return banks, total, allocated, free, free if largest is None else largest


def _number(value: object) -> int | None:
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError):
        return None


def _caveats(entries: Sequence[_OperationEntry]) -> list[str]:
    caveats = [
        "a state was taken after each operation: what was held inside one, and the programs' own L1, do not show"
    ]
    devices = {key for entry in entries for key in entry.get("dram", {}) if key.startswith("device")}
    if len(devices) > 1:
        caveats.append(f"{len(devices)} devices are in the file; the first one is shown")
    return caveats
