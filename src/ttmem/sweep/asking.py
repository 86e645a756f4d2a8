# SPDX-License-Identifier: Apache-2.0
"""From points to rows: the recipe's steps are asked of an engine, and what it says is a row, whichever engine it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from ttmem.engines import Engine, EngineSettings, open_engine
from ttmem.engines.engine import CARD, TWIN
from ttmem.engines.outcome import Outcome
from ttmem.operators import CannotRunError, Recipe, recipe_of
from ttmem.sweep.plan import Point, Settings
from ttmem.sweep.rows import EXACT, REAL, Row
from ttmem.sweep.sizes import bytes_of


class Asker:
    """Engines by board, opened when first needed; every case finds an empty device."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._engines: dict[str, Engine] = {}

    def ask(self, points: Sequence[Point]) -> Iterator[Row]:
        """One row per point, in order and as they come."""
        for board, group in groupby(points, key=lambda point: point.board):
            asked = [(point, self._recipe(point)) for point in group]
            steps = [recipe.described_steps for _, recipe in asked if isinstance(recipe, Recipe)]
            outcomes = self.engine(board).ask_all(steps, stop=True) if steps else iter(())
            for point, recipe in asked:
                yield self._row(point, recipe, next(outcomes) if isinstance(recipe, Recipe) else None)

    def close(self) -> None:
        """End the engines."""
        for engine in self._engines.values():
            engine.close()
        self._engines.clear()

    def engine(self, board: str) -> Engine:
        """The engine of a board."""
        if board not in self._engines:
            settings = self._settings
            self._engines[board] = open_engine(
                settings.engine,
                EngineSettings(
                    board=board,
                    card=settings.engine == CARD,
                    python=settings.python,
                    l1_small_bytes=settings.l1_small_bytes,
                    trace_region_bytes=settings.trace_region_bytes,
                    timeout_seconds=settings.timeout_seconds,
                    # Static buffers are checked by the library itself; measuring them would cost ten times the case.
                    measure_programs=False,
                ),
            )
        return self._engines[board]

    def _recipe(self, point: Point) -> Recipe | str:
        """How the case is run, or why it cannot be."""
        try:
            return recipe_of(
                point.case, memory=point.memory, layout=point.layout, float_dtype=self._settings.float_dtype
            )
        except CannotRunError as reason:
            return str(reason)

    def _row(self, point: Point, recipe: Recipe | str, outcome: Outcome | None) -> Row:
        engine = self._settings.engine
        common: dict[str, Any] = {
            "id": point.case.id,
            "op": point.case.op,
            "board": point.board,
            "engine": engine,
            "memory": point.memory,
            "layout": point.layout,
        }
        if outcome is None or isinstance(recipe, str):
            confidence = EXACT if engine == TWIN else REAL
            return Row(**common, status="unsupported", message=str(recipe), confidence=confidence)
        memory = outcome.memory
        if memory is None and outcome.status in ("clash", "overflow"):
            memory = "L1"  # static buffers live there; the message does not say it
        common |= bytes_of(recipe)
        return Row(
            **common,
            status=outcome.status,
            needed_bytes=outcome.needed_bytes,
            bytes_per_bank=outcome.bytes_per_bank,
            peak_bytes_per_bank=outcome.peak_bytes_per_bank.get(point.memory),
            message=outcome.message,
            seconds=outcome.seconds,
            failure_class=outcome.failure_class,
            failed_memory=memory,
            confidence=outcome.confidence,
            doubt=outcome.doubt,
            assumed=recipe.assumed,
        )
