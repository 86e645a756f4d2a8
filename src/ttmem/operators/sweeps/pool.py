# SPDX-License-Identifier: Apache-2.0
"""Several workers of the real library at once: a thread each, which hands out cases in small lots."""

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress

from ttmem.operators.sweeps.ask_engine import Asker
from ttmem.operators.sweeps.plan import Point, Settings, in_chunks
from ttmem.operators.sweeps.result import Result

_MOST_CASES_PER_LOT = 64
_LOTS_PER_WORKER = 4
"""Cases go out in lots, because each lot costs a copy of the worker's process; enough lots that none waits long."""


@contextmanager
def pool(points: Sequence[Point], settings: Settings, workers: int) -> Iterator[Iterator[list[Result]]]:
    """Results of all points in the order in which workers finish them."""
    each = -(-len(points) // (workers * _LOTS_PER_WORKER))
    lots: queue.SimpleQueue[list[Point]] = queue.SimpleQueue()
    for lot in in_chunks(points, max(min(each, _MOST_CASES_PER_LOT), 1)):
        lots.put(lot)
    answers: queue.SimpleQueue[Result | BaseException | None] = queue.SimpleQueue()
    stop = threading.Event()

    def work() -> None:
        try:
            with closing(Asker(settings)) as asker, suppress(queue.Empty):
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
    """As they come; several at once when they came faster than they were taken. A worker that ends answers None."""
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
