# SPDX-License-Identifier: Apache-2.0
"""Changes with which a case passes: each is asked of the engine, never a rule of thumb.

For a case that ran out of memory: the other memory, a smaller data type, the other layout, and the smallest number of
chunks with the dimension to cut. A chunk is asked like any case, alone on an empty device: the rest of its tensor
waits in the other memory or on the host.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ttmem.failures.outcome import MEMORY_STATUSES
from ttmem.operators.case import Case
from ttmem.operators.sweeps.ask_engine import CaseRunner
from ttmem.operators.sweeps.plan import Point, SweepSettings
from ttmem.operators.sweeps.resize import main_shape, resizable, resize
from ttmem.operators.sweeps.result import Result

_SMALLER_TYPES = {"float32": ("bfloat16", "bfloat8_b"), "bfloat16": ("bfloat8_b", "bfloat4_b")}


@dataclass(frozen=True, slots=True)
class Chunks:
    """Number of parts along a dimension of the first tensor."""

    dim: int
    count: int
    length: int
    """Elements of a part along it; the last part may have fewer."""
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Advice:
    """A change that passes; ``result`` is the engine's own answer to it."""

    do: str
    result: Result
    chunks: Chunks | None = None
    kind: str = "chunks"
    """chunks, memory, dtype or layout."""

    def to_json(self) -> dict[str, Any]:
        advice: dict[str, Any] = {
            "do": self.do,
            "kind": self.kind,
            "engine": self.result.engine,
            "confidence": self.result.confidence,
            "memory": self.result.memory,
            "layout": self.result.layout,
            "peak_bytes_per_bank": self.result.peak_bytes_per_bank,
        }
        if self.chunks:
            advice |= {"chunks": self.chunks.count, "dim": self.chunks.dim, "chunk_shape": list(self.chunks.shape)}
        return advice


class Adviser:
    """Asks one engine; answers are kept, because models repeat shapes."""

    def __init__(self, settings: SweepSettings) -> None:
        self._settings = settings
        self._engines: dict[str | None, CaseRunner] = {}
        self._known: dict[tuple[Any, ...], Result] = {}

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()
        self._engines.clear()

    def advise(self, point: Point) -> Iterator[Advice]:
        """Return the changes that pass, the smallest first; empty when none passes."""
        if point.memory == "L1":
            result = self._ask(replace(point, memory="DRAM"))
            if result.outcome.ok:
                yield Advice("put its tensors into DRAM", result, kind="memory")
        now = self._settings.float_dtype or (point.case.tensors[0].dtype if point.case.tensors else "")
        if point.layout == "tile":
            smaller = ((dtype, self._ask(point, dtype)) for dtype in _SMALLER_TYPES.get(now, ()))
            for dtype, result in smaller:
                if result.outcome.ok:
                    yield Advice(f"make its tensors {dtype}", result, kind="dtype")
                    break
            result = self._ask(replace(point, layout="row_major"))
            if result.outcome.ok and result.padded_bytes is not None:
                yield Advice("keep it row-major: it has no tile padding then", result, kind="layout")
        chunks = self.fewest_chunks(point)
        if chunks is not None:
            yield chunks

    def fewest_chunks(self, point: Point) -> Advice | None:
        """The smallest number of chunks that passes, over all dimensions that can be cut; the outermost wins a tie."""
        best: tuple[Chunks, Result] | None = None
        for dim in resizable(point.case):
            size = main_shape(point.case)[dim]
            found = self._search_counts(point, dim, size, best[0].count if best else size + 1)
            if found is not None and (best is None or found[0].count < best[0].count):
                best = found
        if best is None:
            return None
        chunks, result = best
        do = (
            f"split dimension {chunks.dim} ({main_shape(point.case)[chunks.dim]}) into {chunks.count} chunks of "
            f"{chunks.length}: {list(chunks.shape)}"
        )
        return Advice(do, result, chunks)

    def _search_counts(self, point: Point, dim: int, size: int, below: int) -> tuple[Chunks, Result] | None:
        """Doubling until it passes, then bisection; only counts below the current best matter."""
        fails, passes = 1, 0
        answer: tuple[Case, Result] | None = None
        most = min(size, below - 1)
        while fails < most and answer is None:
            count = min(2 * fails, most)
            asked = self._chunk(point, dim, size, count)
            if asked is None or asked[1].status not in ("pass", *MEMORY_STATUSES):
                return None
            if asked[1].status == "pass":
                passes, answer = count, asked
            else:
                fails = count
        if answer is None:
            return None
        while passes - fails > 1:
            middle = (passes + fails) // 2
            asked = self._chunk(point, dim, size, middle)
            if asked is not None and asked[1].status == "pass":
                passes, answer = middle, asked
            else:
                fails = middle
        length = -(-size // passes)
        count = -(-size // length)  # equal parts may need fewer than asked for
        return Chunks(dim, count, length, main_shape(answer[0])), answer[1]

    def _chunk(self, point: Point, dim: int, size: int, count: int) -> tuple[Case, Result] | None:
        case = resize(point.case, dim, -(-size // count))
        return None if case is None else (case, self._ask(replace(point, case=case)))

    def _ask(self, point: Point, dtype: str | None = None) -> Result:
        key = (point.case.id, point.board, point.memory, point.layout, dtype)
        if key not in self._known:
            if dtype not in self._engines:
                changed = self._settings if dtype is None else replace(self._settings, float_dtype=dtype)
                self._engines[dtype] = CaseRunner(changed)
            self._known[key] = next(iter(self._engines[dtype].ask([point])))
        return self._known[key]
