# SPDX-License-Identifier: Apache-2.0
"""Ask engines for the results of points, in this process or in several."""

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import groupby, islice

from ttmem.engines.engine import CARD, TWIN, Engine, EngineSettings, open_engine
from ttmem.failures.outcome import REAL, UNSUPPORTED, Outcome
from ttmem.operators.bound_case import CannotRunError
from ttmem.operators.case_program import CaseProgram, lower_case
from ttmem.operators.sweeps.plan import Point, SweepSettings, split_into_lots
from ttmem.operators.sweeps.result import Result
from ttmem.twin.operations import EXACT

_LOT = 64
"""Recipes that are held at once: a sweep has hundreds of thousands."""


class CaseRunner:
    """Engines by board, opened when first needed; every case finds an empty device."""

    def __init__(self, settings: SweepSettings) -> None:
        self._settings = settings
        self._engines: dict[str, Engine] = {}

    def ask(self, points: Sequence[Point]) -> Iterator[Result]:
        """Yield a result per point, in order, as they arrive."""
        for board, group in groupby(points, key=lambda point: point.board):
            while lot := [(point, self._recipe(point)) for point in islice(group, _LOT)]:
                steps = [recipe.described_steps for _, recipe in lot if isinstance(recipe, CaseProgram)]
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

    def _recipe(self, point: Point) -> CaseProgram | str:
        """Return the case's program, or the reason why it cannot run."""
        try:
            return lower_case(
                point.case, memory=point.memory, layout=point.layout, float_dtype=self._settings.float_dtype
            )
        except CannotRunError as reason:
            return str(reason)

    def _result(self, point: Point, recipe: CaseProgram | str, outcomes: Iterator[Outcome]) -> Result:
        engine = self._settings.engine
        if isinstance(recipe, CaseProgram):
            return point.result(engine, next(outcomes).keep_memory(point.memory), recipe)
        confidence = EXACT if engine == TWIN else REAL
        return point.result(engine, Outcome(UNSUPPORTED, message=recipe, confidence=confidence))


_MOST_CASES_PER_LOT = 64
_LOTS_PER_WORKER = 4
"""Cases go out in lots, because each lot costs a copy of the worker's process; enough lots that none waits long."""


@contextmanager
def pool(points: Sequence[Point], settings: SweepSettings, workers: int) -> Iterator[Iterator[list[Result]]]:
    """Results of all points in the order in which workers finish them."""
    each = -(-len(points) // (workers * _LOTS_PER_WORKER))
    lots: queue.SimpleQueue[list[Point]] = queue.SimpleQueue()
    for lot in split_into_lots(points, max(min(each, _MOST_CASES_PER_LOT), 1)):
        lots.put(lot)
    answers: queue.SimpleQueue[Result | BaseException | None] = queue.SimpleQueue()
    stop = threading.Event()

    def work() -> None:
        try:
            with closing(CaseRunner(settings)) as asker, suppress(queue.Empty):
                while not stop.is_set():
                    for result in asker.ask(lots.get_nowait()):
                        answers.put(result)
                        if stop.is_set():
                            break
        except BaseException as error:
            answers.put(error)
        finally:
            answers.put(None)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(workers, lots.qsize()))]
    for thread in threads:
        thread.start()
    try:
        yield _results(answers, len(threads))
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _results(answers: queue.SimpleQueue[Result | BaseException | None], working: int) -> Iterator[list[Result]]:
    """Yield answers as they arrive, several at once when they queue up. A worker that ends answers None."""
    while working:
        block = [answers.get()]
        with suppress(queue.Empty):
            while True:
                block.append(answers.get_nowait())
        if results := [one for one in block if isinstance(one, Result)]:
            yield results
        for error in (one for one in block if isinstance(one, BaseException)):
            raise error
        working -= block.count(None)
