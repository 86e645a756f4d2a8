# SPDX-License-Identifier: Apache-2.0
"""A sweep over a Dask cluster: its workers, where ttmem must be installed too, get lots of cases and give results."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

from ttmem.base.errors import MissingPartError
from ttmem.base.extras import install_command
from ttmem.failures.outcome import CRASH, ERROR, Outcome
from ttmem.operators.sweeps.ask_engine import CaseRunner
from ttmem.operators.sweeps.plan import Point, SweepSettings, split_into_lots
from ttmem.operators.sweeps.result import Result

_LOT = 32
_LOTS_IN_FLIGHT_PER_THREAD = 2
"""One at work and one at hand; more would only be lost with a worker that dies."""
_CONNECT_SECONDS = 10.0
Remark = Callable[[str], None]
"""Called with what a person should know about how it went."""

_own = threading.local()


def answer_lot(settings: SweepSettings, lot: Sequence[Point]) -> list[Result]:
    """Answer a lot on a worker of the cluster. Its engines stay open for the next lot, one per thread."""
    if getattr(_own, "settings", None) != settings:
        previous: CaseRunner | None = getattr(_own, "asker", None)
        if previous is not None:
            previous.close()
        _own.asker, _own.settings = CaseRunner(settings), settings
    return list(_own.asker.ask(lot))


@contextmanager
def run_on_cluster(
    points: Sequence[Point], settings: SweepSettings, scheduler: str, remark: Remark | None = None
) -> Iterator[Iterator[list[Result]]]:
    """Results from the cluster of a scheduler, in the order in which its workers finish."""
    with connect(scheduler, "a sweep") as client:
        yield _results(client, points, settings, remark)


def as_finished(
    client: Any,
    function: Callable[..., Any],
    questions: Sequence[tuple[Any, ...]],
    sizes: Sequence[int],
    remark: Remark | None = None,
) -> Iterator[tuple[tuple[Any, ...], Any, BaseException | None]]:
    """Yield each question with its answer, or with the reason for none, as the cluster finishes them."""
    from distributed import as_completed

    asked = {client.submit(function, *question, pure=False): question for question in questions}
    cases = {future.key: size for future, size in zip(asked, sizes, strict=True)}
    for future in as_completed(list(asked), loop=client.loop):
        question = asked.pop(future)
        done = future.status == "finished"
        yield question, future.result() if done else None, None if done else future.exception()
    _report_lost_workers(client, cases, remark)


def _report_lost_workers(client: Any, cases: Mapping[str, int], remark: Remark | None) -> None:
    """Return a remark on lost workers whose tasks the scheduler gave to others."""
    lost, repeated = set(), set()
    with suppress(Exception):  # a scheduler that keeps no such record: the results are complete all the same
        for _, event in client.get_events("all"):
            if event.get("action") == "remove-worker":
                tasks = {*event.get("processing-tasks", ()), *event.get("lost-computed-tasks", ())} & cases.keys()
                lost |= {event.get("worker")} if tasks else set()
                repeated |= tasks
    if remark and lost:
        workers = "a worker was" if len(lost) == 1 else f"{len(lost)} workers were"
        remark(f"{workers} lost; cases that were repeated on another: {sum(map(cases.__getitem__, repeated)):,}")


@contextmanager
def connect(scheduler: str, what: str) -> Iterator[Any]:
    """A client of the cluster of a scheduler."""
    try:
        from distributed import Client
    except ImportError:
        raise MissingPartError(f"{what} over a cluster needs distributed", hint=install_command("dask")) from None
    try:
        client = Client(scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise MissingPartError(
            f"no scheduler answers: {' '.join(str(error).split())[:200]}",
            where=scheduler,
            hint="start one with 'dask scheduler' and workers with 'dask worker ADDRESS'",
        ) from None
    with client:
        yield client


def _results(
    client: Any, points: Sequence[Point], settings: SweepSettings, remark: Remark | None
) -> Iterator[list[Result]]:
    from distributed import as_completed

    threads = sum(worker["nthreads"] for worker in client.scheduler_info(n_workers=-1)["workers"].values())
    lots = split_into_lots(points, _LOT)
    asked: dict[Any, list[Point]] = {}
    cases: dict[str, int] = {}
    waiting = as_completed(loop=client.loop)

    def hand_out(lot: list[Point]) -> None:
        future = client.submit(answer_lot, settings, lot, pure=False)
        asked[future] = lot
        cases[future.key] = len(lot)
        waiting.add(future)

    for lot in islice(lots, max(threads, 1) * _LOTS_IN_FLIGHT_PER_THREAD):
        hand_out(lot)
    while asked:
        future = next(waiting)
        lot = asked.pop(future)
        if future.status == "finished":
            yield future.result()
        elif len(lot) > 1:  # a worker of the cluster died over it: find the case that did it
            for point in lot:
                hand_out([point])
        else:
            yield [_lost(lot[0], settings, future.exception())]
        for following in islice(lots, 1):
            hand_out(following)
    _report_lost_workers(client, cases, remark)


def _lost(point: Point, settings: SweepSettings, error: BaseException | None) -> Result:
    killed = type(error).__name__ == "KilledWorker"
    outcome = Outcome(
        CRASH if killed else ERROR,
        failure_class="crash" if killed else "none",
        message=" ".join(f"{type(error).__name__}: {error}".split())[:500],
    )
    return point.result(settings.engine, outcome)
