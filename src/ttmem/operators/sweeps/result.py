# SPDX-License-Identifier: Apache-2.0
"""A result: one case in one memory and layout of one board, or one test of another tool, and its outcome."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from ttmem.base.errors import BadInputError
from ttmem.base.limits import DOCUMENT_BYTES, LINE_BYTES
from ttmem.base.text_files import read_text
from ttmem.failures.outcome import REAL, STATUSES, Outcome
from ttmem.hardware import BFLOAT16, DATA_TYPES, DataType

_TEXTS = ("id", "op", "board", "engine", "memory", "layout", "status")
_PEAK = "peak_bytes_per_bank"
_NUMBERS = ("needed_bytes", "bytes_per_bank", _PEAK, "logical_bytes", "padded_bytes")
_MOST_BYTES = 1 << 63
_WRITTEN_LINE = re.compile(r"\S[^\n]*")
_BANKS = re.compile(r"\bacross (\d{1,9}) banks\b")


def tile_count(shape: Sequence[int]) -> int:
    """Tiles of 32x32 that a shape fills, in whole or in part."""
    *outer, height, width = (1, 1, *shape)
    return prod(outer) * -(-height // 32) * -(-width // 32)


def largest(shapes: Sequence[Sequence[int]]) -> int:
    """Return the shape with most elements, the first of equal ones."""
    if len(shapes) == 1:
        return 0  # as nearly always, and reports ask often
    sizes = [prod(shape) for shape in shapes]
    return sizes.index(max(sizes))


def pad_size(shape: Sequence[int], dtype: DataType, layout: str) -> int:
    """Bytes of all elements with the padding of their tiles; row-major tensors have none."""
    return tile_count(shape) * dtype.tile_bytes() if layout == "tile" else dtype.logical_bytes(prod(shape))


@lru_cache(1 << 17)
def _sizes(shapes: tuple[tuple[int, ...], ...], dtype: str, layout: str) -> tuple[int, int]:
    """Bytes of the largest tensor, without and with padding; cached, because reports ask often."""
    shape, known = shapes[largest(shapes)], DATA_TYPES.find(dtype)
    return known.logical_bytes(prod(shape)), pad_size(shape, known, layout)


class Result(NamedTuple):
    """A question and its outcome. Fields that a source lacks are empty."""

    id: str
    """Of the case; of another tool's test its node id, unique within the operator."""
    op: str
    outcome: Outcome
    board: str = ""
    engine: str = ""
    """Empty: another tool's test."""
    memory: str = ""
    """Where the tensors were put."""
    layout: str = ""
    logical_bytes: int | None = None
    """Input tensors, elements alone."""
    padded_bytes: int | None = None
    """The same in the layout that ran, tile padding included."""
    assumed: tuple[str, ...] = ()
    """Arguments that the source did not say."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """Of the tensors. A line of ``results.jsonl`` does not have these two: they are the case's."""
    dtype: str = ""
    """Of the largest tensor, on the device."""
    models: tuple[str, ...] = ()
    source: str = ""
    """The file of another tool that says it."""

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Identity among the results of a sweep."""
        return self.id, self.board, self.memory, self.layout

    @property
    def name(self) -> str:
        """Unique among all results of an operator."""
        return " ".join(self.place) if self.engine else self.id

    @property
    def origin(self) -> str:
        """Origin of the result."""
        return self.source or f"{self.engine} engine"

    @property
    def status(self) -> str:
        return self.outcome.status

    @property
    def message(self) -> str:
        return self.outcome.message

    @property
    def failed_memory(self) -> str | None:
        return self.outcome.memory

    @property
    def needed_bytes(self) -> int | None:
        return self.outcome.needed_bytes

    @property
    def bytes_per_bank(self) -> int | None:
        return self.outcome.bytes_per_bank

    @property
    def peak_bytes_per_bank(self) -> int | None:
        """Peak of the memory that holds the tensors."""
        return self.outcome.peak_bytes_per_bank.get(self.memory)

    @property
    def confidence(self) -> str:
        return self.outcome.confidence

    @property
    def is_memory_failure(self) -> bool:
        return self.outcome.is_memory_failure

    @property
    def is_judged(self) -> bool:
        return self.outcome.is_judged

    @property
    def banks(self) -> int | None:
        """From the sentence itself: banks differ from board to board."""
        match = _BANKS.search(self.message)
        return int(match[1]) if match else None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the largest tensor: the first one may be a bias."""
        return self.shapes[largest(self.shapes)] if self.shapes else ()

    @property
    def shape_logical_bytes(self) -> int | None:
        """Bytes of that tensor without padding; a tensor of another tool counts as bfloat16."""
        return _sizes(self.shapes, self.dtype or BFLOAT16.name, self.layout)[0] if self.shapes else None

    @property
    def device_bytes(self) -> int | None:
        """Requested bytes: the allocation that failed, else the largest tensor in the layout that ran."""
        if self.needed_bytes is not None or not (self.shapes and self.dtype and self.layout):
            return self.needed_bytes
        logical_bytes, padded_bytes = _sizes(self.shapes, self.dtype, self.layout)
        # The message is about the only tensor, in its device shape.
        return self.padded_bytes if self.logical_bytes == logical_bytes else padded_bytes

    def to_json(self) -> dict[str, Any]:
        """A line of ``results.jsonl``. ``isolated``: the case had the whole device to itself; how much of it a model
        leaves for an operation is another question."""
        outcome = self.outcome
        line: dict[str, Any] = {
            "id": self.id,
            "op": self.op,
            "board": self.board,
            "engine": self.engine,
            "memory": self.memory,
            "layout": self.layout,
            "status": outcome.status,
            "needed_bytes": outcome.needed_bytes,
            "bytes_per_bank": outcome.bytes_per_bank,
            _PEAK: outcome.peak_bytes_per_bank.get(self.memory),
            "message": outcome.message,
            "seconds": round(outcome.seconds or 0.0, 6),
            "isolated": True,
            "class": outcome.failure_class,
            "failed_memory": outcome.memory,
            "logical_bytes": self.logical_bytes,
            "padded_bytes": self.padded_bytes,
            "confidence": outcome.confidence,
        }
        if not outcome.is_judged:
            line["not_judged"] = True
        if outcome.doubt:
            line["doubt"] = outcome.doubt
        if self.assumed:
            line["assumed"] = list(self.assumed)
        return line

    @classmethod
    def from_json(cls, line: Any, *, where: str = "") -> Result:
        """The result of one line; ``BadInputError`` says which key is wrong."""
        if not isinstance(line, Mapping):
            raise BadInputError("a result is a JSON object", where=where)
        for name in _TEXTS:
            if not isinstance(line.get(name), str):
                raise BadInputError(f"'{name}' of a result must be a text", where=where)
        check_status(line["status"], where)
        for name in _NUMBERS:
            if line.get(name) is not None and not (type(line[name]) is int and 0 <= line[name] < _MOST_BYTES):
                raise BadInputError(f"'{name}' of a result must be a whole number of bytes or null", where=where)
        if not isinstance(line.get("assumed"), list | None):
            raise BadInputError("'assumed' of a result must be a list", where=where)
        memory, seconds, peak = (line.get(name) for name in ("failed_memory", "seconds", _PEAK))
        outcome = Outcome(
            line["status"],
            failure_class=str(line.get("class") or ""),
            memory=memory if isinstance(memory, str) else None,
            message=str(line.get("message") or ""),
            needed_bytes=line.get("needed_bytes"),
            bytes_per_bank=line.get("bytes_per_bank"),
            peak_bytes_per_bank={} if peak is None else {line["memory"]: peak},
            seconds=float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < _MOST_BYTES else 0.0,
            confidence=str(line.get("confidence") or REAL),
            doubt=str(line.get("doubt") or ""),
        )
        return cls(
            line["id"],
            line["op"],
            outcome,
            board=line["board"],
            engine=line["engine"],
            memory=line["memory"],
            layout=line["layout"],
            logical_bytes=line.get("logical_bytes"),
            padded_bytes=line.get("padded_bytes"),
            assumed=tuple(map(str, line.get("assumed") or ())),
        )


def check_status(status: str, where: str) -> None:
    """Refuse a word that is none of the contract's."""
    if status not in STATUSES:
        raise BadInputError(f"unknown status '{status}'", where=where, hint=f"known: {', '.join(STATUSES)}")


def json_lines(path: Path, noun: str) -> Iterator[tuple[str, Any]]:
    """Place and value of each line of a file that has one per line."""
    if path.is_dir():
        raise BadInputError(f"is a folder, not a file with one {noun} per line", where=str(path))
    text = read_text(path, most=DOCUMENT_BYTES, what=f"a file with one {noun} per line")
    number, counted = 1, 0
    for line in _WRITTEN_LINE.finditer(text):
        number, counted = number + text.count("\n", counted, line.start()), line.start()
        where = f"{path}:{number}"
        try:
            if len(line[0]) > LINE_BYTES:
                raise ValueError
            yield where, json.loads(line[0])
        except (ValueError, RecursionError) as error:
            too_much = "nested too deeply" if isinstance(error, RecursionError) else "the line is too long"
            problem = getattr(error, "msg", None) or too_much
            raise BadInputError(f"not JSON: {problem}", where=where, hint=f"one {noun} per line") from None
