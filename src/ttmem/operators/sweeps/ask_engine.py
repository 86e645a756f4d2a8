# SPDX-License-Identifier: Apache-2.0
"""From points to results: the recipe's steps are asked of an engine, whichever it is."""

from collections.abc import Iterator, Sequence
from itertools import groupby, islice

from ttmem.engines.engine import CARD, TWIN, Engine, EngineSettings, open_engine
from ttmem.failures.outcome import REAL, UNSUPPORTED, Outcome
from ttmem.operators.bound_case import CannotRunError
from ttmem.operators.case_program import Recipe, recipe_of
from ttmem.operators.sweeps.plan import Point, Settings
from ttmem.operators.sweeps.result import Result
from ttmem.twin.operations import EXACT

_LOT = 64
"""Recipes that are held at once: a sweep has hundreds of thousands."""


class Asker:
    """Engines by board, opened when first needed; every case finds an empty device."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._engines: dict[str, Engine] = {}

    def ask(self, points: Sequence[Point]) -> Iterator[Result]:
        """One result per point, in order and as they come."""
        for board, group in groupby(points, key=lambda point: point.board):
            while lot := [(point, self._recipe(point)) for point in islice(group, _LOT)]:
                steps = [recipe.described_steps for _, recipe in lot if isinstance(recipe, Recipe)]
                outcomes = self.engine(board).ask_all(steps, stop=True) if steps else iter(())
                for point, recipe in lot:
                    yield self._result(point, recipe, outcomes)

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

    def _result(self, point: Point, recipe: Recipe | str, outcomes: Iterator[Outcome]) -> Result:
        engine = self._settings.engine
        if isinstance(recipe, Recipe):
            return point.result(engine, next(outcomes).in_memory(point.memory), recipe)
        confidence = EXACT if engine == TWIN else REAL
        return point.result(engine, Outcome(UNSUPPORTED, message=recipe, confidence=confidence))
