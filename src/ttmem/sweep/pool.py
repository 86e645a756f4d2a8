# SPDX-License-Identifier: Apache-2.0
"""Several workers of the real library at once: a thread each, which hands out cases in small lots."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ttmem.results import Result
from ttmem.sweep.asking import Asker
from ttmem.sweep.plan import Point, Settings, in_chunks

_MOST_CASES_PER_LOT = 64
_LOTS_PER_WORKER = 4
"""Cases go out in lots, because each lot costs a copy of the worker's process; enough lots that none waits long."""


class _Pool:
    def __init__(self, points: Sequence[Point], settings: Settings, workers: int) -> None:
        each = -(-len(points) // (workers * _LOTS_PER_WORKER))
        lots = list(in_chunks(points, max(min(each, _MOST_CASES_PER_LOT), 1)))
        self._lots: queue.SimpleQueue[list[Point]] = queue.SimpleQueue()
        for lot in lots:
            self._lots.put(lot)
        self._answers: queue.SimpleQueue[Result | BaseException | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._settings = settings
        count = max(min(workers, len(lots)), 1 if lots else 0)
        self._threads = [threading.Thread(target=self._work, name=f"sweep-{i}", daemon=True) for i in range(count)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def results(self) -> Iterator[list[Result]]:
        """As they come; several at once when they came faster than they were taken."""
        working = len(self._threads)
        while working:
            block: list[Result] = []
            answer = self._answers.get()
            while True:
                if isinstance(answer, Result):
                    block.append(answer)
                elif answer is None:
                    working -= 1
                else:
                    if block:
                        yield block
                    raise answer
                try:
                    answer = self._answers.get_nowait()
                except queue.Empty:
                    break
            if block:
                yield block

    def _work(self) -> None:
        asker = Asker(self._settings)
        try:
            while not self._stop.is_set():
                try:
                    lot = self._lots.get_nowait()
                except queue.Empty:
                    break
                for result in asker.ask(lot):
                    self._answers.put(result)
                    if self._stop.is_set():
                        break
        except BaseException as error:
            self._answers.put(error)
        finally:
            asker.close()
            self._answers.put(None)


@contextmanager
def pool(points: Sequence[Point], settings: Settings, workers: int) -> Iterator[Iterator[list[Result]]]:
    """Results of all points in the order in which workers finish them."""
    working = _Pool(points, settings, workers)
    working.start()
    try:
        yield working.results()
    finally:
        working.stop()
