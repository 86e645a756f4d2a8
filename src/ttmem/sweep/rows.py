# SPDX-License-Identifier: Apache-2.0
"""A row: what one engine said of one case in one memory and layout of one board. The lines of ``results.jsonl``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ttmem._errors import BadInputError

STATUSES = ("pass", "oom", "clash", "overflow", "invalid", "unsupported", "crash", "timeout", "error")
"""The words of the contract; those of ``engines.outcome``, which this room's plain data must not import."""
MEMORY_STATUSES = ("oom", "clash", "overflow")
"""Failures that less memory would have prevented."""

EXACT, BOUNDED, UNKNOWN, REAL = "exact", "bounded", "unknown", "real"
"""How far a row can be trusted: the twin's own three words, or the real library said it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the results. All byte figures are of one chip."""

    id: str
    """The case's."""
    op: str
    board: str
    engine: str
    memory: str
    layout: str
    status: str
    needed_bytes: int | None = None
    """The allocation that failed, as the library names it; None when none did."""
    bytes_per_bank: int | None = None
    """What each bank needed for that allocation."""
    peak_bytes_per_bank: int | None = None
    """Of the memory that was swept, moments inside the operation included; None: the process did not live to tell."""
    message: str = ""
    seconds: float = 0.0
    failure_class: str = ""
    failed_memory: str | None = None
    """Where it failed, which need not be where the case's tensors are: a reshape in L1 keeps a table in DRAM."""
    logical_bytes: int | None = None
    """Input tensors, elements alone."""
    padded_bytes: int | None = None
    """The same in the layout that ran, tile padding included."""
    confidence: str = REAL
    doubt: str = ""
    """Why the confidence is not better."""
    assumed: tuple[str, ...] = ()
    """Arguments that the source did not say."""

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        return self.id, self.board, self.engine, self.memory, self.layout

    def to_json(self) -> dict[str, Any]:
        """A line of ``results.jsonl``. ``isolated``: the case had the whole device to itself; how much of it a model
        leaves for an operation is what ``ttmem fit`` answers."""
        told: dict[str, Any] = {
            "id": self.id,
            "op": self.op,
            "board": self.board,
            "engine": self.engine,
            "memory": self.memory,
            "layout": self.layout,
            "status": self.status,
            "needed_bytes": self.needed_bytes,
            "bytes_per_bank": self.bytes_per_bank,
            "peak_bytes_per_bank": self.peak_bytes_per_bank,
            "message": self.message,
            "seconds": round(self.seconds, 6),
            "isolated": True,
            "class": self.failure_class,
            "failed_memory": self.failed_memory,
            "logical_bytes": self.logical_bytes,
            "padded_bytes": self.padded_bytes,
            "confidence": self.confidence,
        }
        if self.doubt:
            told["doubt"] = self.doubt
        if self.assumed:
            told["assumed"] = list(self.assumed)
        return told

    def without_time(self) -> Row:
        """For comparisons: what may differ between two runs of the same sweep is how long a case took."""
        return replace(self, seconds=0.0)


_TEXTS = ("id", "op", "board", "engine", "memory", "layout", "status")
_NUMBERS = ("needed_bytes", "bytes_per_bank", "peak_bytes_per_bank", "logical_bytes", "padded_bytes")


def row_from_json(told: Any, *, where: str = "") -> Row:
    """The row of one line; ``BadInputError`` says which key is wrong."""
    if not isinstance(told, Mapping):
        raise BadInputError("a result is a JSON object", where=where)
    for name in _TEXTS:
        if not isinstance(told.get(name), str):
            raise BadInputError(f"'{name}' of a result must be a text", where=where)
    if told["status"] not in STATUSES:
        raise BadInputError(f"unknown status '{told['status']}'", where=where, hint=f"known: {', '.join(STATUSES)}")
    for name in _NUMBERS:
        if told.get(name) is not None and type(told[name]) is not int:
            raise BadInputError(f"'{name}' of a result must be a whole number or null", where=where)
    memory, seconds = told.get("failed_memory"), told.get("seconds", 0.0)
    known: dict[str, Any] = {name: told.get(name) for name in (*_TEXTS, *_NUMBERS)}
    return Row(
        **known,
        message=str(told.get("message") or ""),
        seconds=float(seconds) if isinstance(seconds, (int, float)) else 0.0,
        failure_class=str(told.get("class") or ""),
        failed_memory=memory if isinstance(memory, str) else None,
        confidence=str(told.get("confidence") or REAL),
        doubt=str(told.get("doubt") or ""),
        assumed=tuple(map(str, told.get("assumed") or ())),
    )
