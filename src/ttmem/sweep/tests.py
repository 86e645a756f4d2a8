# SPDX-License-Identifier: Apache-2.0
"""A test as reports see it: one of our rows, or one result in another tool's log. Each stands for one execution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from ttmem.hardware import DATA_TYPES
from ttmem.operators import Case
from ttmem.sweep.rows import MEMORY_STATUSES, STATUSES, Row

FAIL, SKIPPED = "fail", "skipped"
TEST_STATUSES = (*STATUSES, FAIL, SKIPPED)
"""Other tools know two more: a wrong result, and a test that was not run for a reason that is not its memory."""
_ELEMENT_BYTES = {"float32": 4, "int32": 4, "uint32": 4, "uint16": 2, "uint8": 1, "int64": 8, "float64": 8}
_DEFAULT_ELEMENT_BYTES = 2  # bfloat16


@dataclass(frozen=True, slots=True)
class Test:
    """One executed (or skipped) test."""

    __test__ = False  # pytest would take the name for a test class

    operator: str
    name: str
    """Unique within the operator: a node id, or case, board, memory and layout."""
    status: str
    shapes: tuple[tuple[int, ...], ...] = ()
    dtype: str = ""
    board: str = ""
    memory: str = ""
    """Where its tensors were; empty: the source does not say."""
    layout: str = ""
    failed_memory: str = ""
    """Where it failed, as the message says; empty when it does not."""
    needed_bytes: int | None = None
    bytes_per_bank: int | None = None
    banks: int | None = None
    padded_bytes: int | None = None
    """Of the first tensor in the layout that ran, where it is known without a message."""
    message: str = ""
    failure_class: str = ""
    models: tuple[str, ...] = ()
    calls: int = 1
    source: str = ""
    """The file that tells of it."""
    confidence: str = "real"
    seconds: float | None = None
    case: Case | None = None

    @property
    def is_memory_failure(self) -> bool:
        return self.status in MEMORY_STATUSES

    @property
    def is_failure(self) -> bool:
        return self.status not in ("pass", SKIPPED)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.shapes[0] if self.shapes else ()

    @property
    def logical_bytes(self) -> int | None:
        """Of the first tensor: elements times their size, without any padding."""
        if not self.shapes:
            return None
        return prod(self.shape) * _ELEMENT_BYTES.get(self.dtype, _DEFAULT_ELEMENT_BYTES)

    @property
    def device_bytes(self) -> int | None:
        """What the device was asked for: the allocation that failed, else the padded tensor."""
        return self.needed_bytes if self.needed_bytes is not None else self.padded_bytes


def from_rows(rows: Iterable[Row], cases: Mapping[str, Case], float_dtype: str | None = "bfloat16") -> list[Test]:
    """Our own rows as tests."""
    found = []
    for row in rows:
        case = cases.get(row.id)
        shapes = tuple(tensor.shape for tensor in case.tensors) if case else _shapes_of_id(row.id, row.op)
        recorded = case.tensors[0].dtype if case and case.tensors else "bfloat16"
        is_float = recorded in ("float32", "bfloat16", "float16", "float64")
        dtype = float_dtype if is_float and float_dtype else recorded
        found.append(
            Test(
                operator=row.op,
                name=" ".join((row.id, row.board, row.memory, row.layout)),
                status=row.status,
                shapes=shapes,
                dtype=dtype,
                board=row.board,
                memory=row.memory,
                layout=row.layout,
                failed_memory=row.failed_memory or "",
                needed_bytes=row.needed_bytes,
                bytes_per_bank=row.bytes_per_bank,
                banks=_banks(row),
                padded_bytes=_padded(row, shapes, dtype),
                message=row.message,
                failure_class=row.failure_class,
                models=case.models if case else (),
                calls=case.count if case else 1,
                source=f"{row.engine} engine",
                confidence=row.confidence,
                seconds=row.seconds,
                case=case,
            )
        )
    return found


def _padded(row: Row, shapes: tuple[tuple[int, ...], ...], dtype: str) -> int | None:
    """Of the first tensor. The row's figure is of all inputs, so it serves only where there is one."""
    if not shapes:
        return None
    known = DATA_TYPES.find(dtype) if dtype in {one.name for one in DATA_TYPES} else None
    if known is None or row.logical_bytes == known.logical_bytes(prod(shapes[0])):
        return row.padded_bytes
    if row.layout != "tile":
        return known.logical_bytes(prod(shapes[0]))
    *outer, height, width = (1, 1, *shapes[0])
    return prod(outer) * -(-height // 32) * -(-width // 32) * known.tile_bytes()


def _banks(row: Row) -> int | None:
    """From the sentence itself: banks differ from board to board."""
    _, found, rest = row.message.partition(" buffer across ")
    number = rest.partition(" banks")[0] if found else ""
    return int(number) if number.isdigit() else None


def _shapes_of_id(identity: str, op: str) -> tuple[tuple[int, ...], ...]:
    """A results.jsonl alone has no cases, but their ids carry the shapes."""
    middle = identity.removeprefix(f"{op}-").rpartition("-")[0]
    found = []
    for word in middle.split("_"):
        parts = word.split("x")
        if all(part.isdigit() for part in parts):
            found.append(tuple(map(int, parts)))
    return tuple(found)
