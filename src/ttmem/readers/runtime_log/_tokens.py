# SPDX-License-Identifier: Apache-2.0
"""Tokens of a runtime log: its lines, decoded but not yet put together.

A log is lexed line by line into tokens (a distinct line is understood once and then is a number), so the bulk of a
log is handled by numpy, halves of a file can be lexed side by side, and chunk borders cannot matter.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate, islice, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttmem.profile.model import MEMORIES
from ttmem.profile.operation_forms import OperationForms
from ttmem.profile.tensor_type import TensorType
from ttmem.readers.mlir.syntax import OperationText, parse_tensor_type, split_signature

# Everything but digits, dots and blanks goes, so that many views become one string of numbers.
_ONLY_NUMBERS = bytes(c for c in range(256) if chr(c) not in "0123456789. ")
_MIB = 1 << 20


class Kind(IntEnum):
    """The kind of a line."""

    FOREIGN = 0
    OPERATION = 1
    BEFORE_OPERATION = 2
    BEFORE_SUBMIT = 3
    AFTER_SUBMIT = 4
    VIEW_DRAM = 5
    VIEW_L1 = 6
    VIEW_L1_SMALL = 7
    VIEW_TRACE = 8
    EVENT = 9
    FAILURE = 10
    MODULE = 11


VIEW_KIND_OF_MEMORY = {name.encode(): Kind.VIEW_DRAM + i for i, name in enumerate(MEMORIES)}


class What(IntEnum):
    """The kind of an EVENT line."""

    STARTED = 0
    FINISHED = 1
    LOOKUP = 2
    HIT = 3
    MISS = 4
    RETAINED = 5
    GRID = 6
    MESH = 7
    SYSTEM = 8
    EXPECTED_BEGIN = 9
    EXPECTED_END = 10


@dataclass(frozen=True, slots=True)
class Event:
    """A line about programs, caches or the device."""

    what: What
    subject: str
    detail: str = ""


@dataclass(slots=True)
class Tables:
    """Meanings of the distinct lines. Grows while reading; a token is an index into ``kind``/``payload``/``rank``."""

    kind: array[int] = field(default_factory=lambda: array("b", [Kind.FOREIGN]))
    payload: array[int] = field(default_factory=lambda: array("i", [0]))
    rank: array[int] = field(default_factory=lambda: array("i", [-1]))

    form_name: array[int] = field(default_factory=lambda: array("i"))
    form_signature: array[int] = field(default_factory=lambda: array("i"))
    form_note: array[int] = field(default_factory=lambda: array("i"))
    ssa_end: array[int] = field(default_factory=lambda: array("q"))
    ssa_pool: bytearray = field(default_factory=bytearray)
    location_end: array[int] = field(default_factory=lambda: array("q"))
    location_pool: bytearray = field(default_factory=bytearray)
    names: dict[bytes, int] = field(default_factory=dict)
    notes: dict[tuple[bytes, bool], int] = field(default_factory=lambda: {(b"", False): 0})
    signatures: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)
    types: dict[TensorType, int] = field(default_factory=dict)

    view_parts: list[NDArray[np.int64]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Texts of failures; empty where the lines that followed showed that it was none."""
    modules: list[Any] = field(default_factory=list)

    def add_codes(self, codes: Sequence[tuple[int, int, int]]) -> None:
        """Kind, payload and rank of new lines; column by column, which is far cheaper than value by value."""
        kinds, payloads, ranks = zip(*codes, strict=True)
        self.kind.extend(kinds)
        self.payload.extend(payloads)
        self.rank.extend(ranks)

    def add_forms(self, forms: Sequence[tuple[OperationText, int]]) -> None:
        """New operations, each with the number of its signature."""
        texts, signatures = zip(*forms, strict=True)
        names, values, _, locations, callees, frees, _ = zip(*texts, strict=True)
        name_numbers, notes = self.names, self.notes
        self.form_signature.extend(signatures)
        self.form_name.extend([name_numbers.setdefault(name, len(name_numbers)) for name in names])
        self.form_note.extend(
            [notes.setdefault(note, len(notes)) for note in zip(callees, frees, strict=True)]
            if any(callees) or any(frees)
            else repeat(0, len(names))
        )
        _append_pool(self.ssa_pool, self.ssa_end, values)
        _append_pool(self.location_pool, self.location_end, locations)

    def add_views(self, bodies: Sequence[bytes]) -> None:
        """New memory views, converted together: one call instead of five conversions per view."""
        numbers = np.array(b" ".join(bodies).translate(None, _ONLY_NUMBERS).split(), np.float64)
        views = numbers.reshape(-1, 5)
        views[:, 1:] *= _MIB
        self.view_parts.append(np.rint(views).astype(np.int64))

    def views(self) -> NDArray[np.int64]:
        """Return the distinct views, in the order of their payload numbers."""
        return np.concatenate(self.view_parts) if self.view_parts else np.zeros((0, 5), np.int64)

    def forms(self) -> OperationForms:
        """The operation columns in their final shape."""
        return OperationForms(
            name=np.array(self.form_name, np.int32),
            names=tuple(name.decode("utf-8", "replace") for name in self.names),
            signature=np.array(self.form_signature, np.int32),
            signatures=tuple(self.signatures),
            ssa_end=np.array(self.ssa_end, np.int64),
            ssa_pool=bytes(self.ssa_pool),
            location_end=np.array(self.location_end, np.int64),
            location_pool=bytes(self.location_pool),
            note=np.array(self.form_note, np.int32),
            notes=tuple((callee.decode("utf-8", "replace"), frees) for callee, frees in self.notes),
        )


def _append_pool(pool: bytearray, ends: array[int], texts: Sequence[bytes]) -> None:
    ends.extend(islice(accumulate(map(len, texts), initial=len(pool)), 1, None))
    pool += b"".join(texts)


@dataclass(slots=True)
class LexedLog:
    """A whole log, or one part of it, as tokens."""

    tables: Tables
    token: NDArray[np.int32]
    line: NDArray[np.int32]
    """The source line of each token, from 1."""
    bytes: int
    lines: int
    damaged: list[tuple[int, str]]
    """(line, what is wrong) of lines that carry a marker but cannot be read; at most a few hundred are kept."""
    damaged_count: int
    unread: dict[str, list[int]]
    """The lines that hold figures of a memory which cannot be read; by memory, ``""`` where it is not known which."""
    saw_runtime: bool
    """Whether any line came from the tt-mlir runtime's logger at all: tells a wrong file from a quiet build."""
    saw_marker: bool
    """Whether an operation or memory line was there, even a damaged one."""
    unread_failures: int = 0
    """Lines in the middle that look like the beginning of a failure and were too many to be read as one."""


def merge(first: LexedLog, second: LexedLog) -> LexedLog:
    """Two consecutive parts of one log as one."""
    a, b = first.tables, second.tables
    shift = {
        Kind.OPERATION: len(a.form_name),
        Kind.EVENT: len(a.events),
        Kind.FAILURE: len(a.failures),
        Kind.MODULE: len(a.modules),
    }
    view_shift = sum(len(part) for part in a.view_parts)
    shift.update({Kind(k): view_shift for k in VIEW_KIND_OF_MEMORY.values()})
    first_new = len(a.kind) - 1  # code 0 of the second part is FOREIGN and never occurs among its tokens
    kinds = np.array(b.kind, np.int8)
    payloads = np.array(b.payload, np.int32)
    for kind, by in shift.items():
        payloads[kinds == kind] += by
    a.kind.extend(b.kind[1:])
    a.payload.extend(payloads[1:].tolist())
    a.rank.extend(b.rank[1:])

    name = np.array([a.names.setdefault(n, len(a.names)) for n in b.names], np.int32)
    note = np.array([a.notes.setdefault(n, len(a.notes)) for n in b.notes], np.int32)
    types = [a.types.setdefault(t, len(a.types)) for t in b.types]
    signature_shift = len(a.signatures)
    a.signatures.extend(
        tuple(tuple(types[t] if t >= 0 else -1 for t in side) for side in signature)  # type: ignore[misc]
        for signature in b.signatures
    )
    if len(b.form_name):
        a.form_name.extend(name[np.array(b.form_name, np.int32)].tolist())
        a.form_note.extend(note[np.array(b.form_note, np.int32)].tolist())
        a.form_signature.extend((np.array(b.form_signature, np.int32) + signature_shift).tolist())
        a.ssa_end.extend((np.array(b.ssa_end, np.int64) + len(a.ssa_pool)).tolist())
        a.location_end.extend((np.array(b.location_end, np.int64) + len(a.location_pool)).tolist())
    a.ssa_pool += b.ssa_pool
    a.location_pool += b.location_pool
    for listed in ("view_parts", "events", "failures", "modules"):
        getattr(a, listed).extend(getattr(b, listed))
    return LexedLog(
        tables=a,
        token=np.concatenate([first.token, second.token + np.int32(first_new)]),
        line=np.concatenate([first.line, second.line + np.int32(first.lines)]),
        bytes=first.bytes + second.bytes,
        lines=first.lines + second.lines,
        damaged=first.damaged + [(line + first.lines, text) for line, text in second.damaged],
        damaged_count=first.damaged_count + second.damaged_count,
        unread={
            memory: [*first.unread.get(memory, ()), *(line + first.lines for line in second.unread.get(memory, ()))]
            for memory in {**first.unread, **second.unread}
        },
        saw_runtime=first.saw_runtime or second.saw_runtime,
        saw_marker=first.saw_marker or second.saw_marker,
        unread_failures=first.unread_failures + second.unread_failures,
    )


_KNOWN_TEXTS = 50_000


class Signatures:
    """Numbers of signatures in a log's tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._numbers: dict[bytes, int] = {}
        self._type_numbers: dict[bytes, int] = {}

    def number(self, types: bytes) -> int:
        """The number of the signature that an operation's types make."""
        known = self._numbers.get(types)
        if known is not None:
            return known
        if len(self._numbers) > _KNOWN_TEXTS:
            self._numbers.clear()
        operands, results = split_signature(types)
        self._tables.signatures.append((tuple(map(self._type, operands)), tuple(map(self._type, results))))
        self._numbers[types] = len(self._tables.signatures) - 1
        return len(self._tables.signatures) - 1

    def _type(self, text: bytes) -> int:
        known = self._type_numbers.get(text)
        if known is not None:
            return known
        if len(self._type_numbers) > _KNOWN_TEXTS:
            self._type_numbers.clear()
        parsed: TensorType | None = parse_tensor_type(text)
        types = self._tables.types
        self._type_numbers[text] = number = -1 if parsed is None else types.setdefault(parsed, len(types))
        return number
