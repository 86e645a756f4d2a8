# SPDX-License-Identifier: Apache-2.0
"""The real library as an engine of sweeps: the recipes' steps are asked of a worker, mock or card."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ttmem.engines.ttnn import EngineSettings, TtnnEngine
from ttmem.operators import CannotRunError, Recipe, recipe_of
from ttmem.results import Outcome, Result
from ttmem.sweep.plan import Point, Settings


class RealEngine:
    """Workers by board, started when first needed; one process asks one of them at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._workers: dict[str, TtnnEngine] = {}

    @property
    def ttnn_version(self) -> str:
        """Of the workers that were started; empty before."""
        return next((worker.ttnn_version for worker in self._workers.values() if worker.ttnn_version), "")

    def ask(self, points: Sequence[Point]) -> Iterator[Result]:
        """One row per point, in order and as they come; all must be of one board."""
        recipes: list[Recipe | str] = [self._recipe(point) for point in points]
        runnable = [recipe for recipe in recipes if isinstance(recipe, Recipe)]
        answers: Iterator[Outcome] = iter(())
        if runnable:
            worker = self._worker(points[0].board)
            answers = worker.ask_all([recipe.steps for recipe in runnable], stop=True)
        for point, recipe in zip(points, recipes, strict=True):
            if isinstance(recipe, str):
                yield point.result(self._settings.engine, Outcome("unsupported", message=recipe))
            else:
                yield point.result(self._settings.engine, next(answers), recipe)

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    def _recipe(self, point: Point) -> Recipe | str:
        try:
            return recipe_of(
                point.case, memory=point.memory, layout=point.layout, float_dtype=self._settings.float_dtype
            )
        except CannotRunError as reason:
            return str(reason)

    def _worker(self, board: str) -> TtnnEngine:
        if board not in self._workers:
            settings = self._settings
            self._workers[board] = TtnnEngine(
                EngineSettings(
                    board=board,
                    card=settings.engine == "card",
                    python=settings.python,
                    l1_small_bytes=settings.l1_small_bytes,
                    trace_region_bytes=settings.trace_region_bytes,
                    timeout_seconds=settings.timeout_seconds,
                    # Static buffers are checked by the library itself; measuring them would cost ten times the case.
                    measure_programs=False,
                )
            )
        return self._workers[board]
