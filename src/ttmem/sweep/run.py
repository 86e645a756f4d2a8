# SPDX-License-Identifier: Apache-2.0
"""Run a sweep into a folder: what the journal lacks is asked, every result is committed as it comes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ttmem._errors import BadInputError
from ttmem.results import Result
from ttmem.sweep.journal import Journal
from ttmem.sweep.plan import Plan, Point, Settings
from ttmem.sweep.progress import Finished, Progress

_COMMIT_RESULTS = 4096
"""The twin's results come faster than commits: they are written in blocks of at most so many, or every half second."""
_COMMIT_SECONDS = 0.5


Watch = Callable[[Progress], None]


def run_sweep(
    plan: Plan,
    folder: Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    watch: Watch | None = None,
    **facts: object,
) -> Finished:
    """Ask everything that the folder's journal has no result for. Interrupted or not, ``results.jsonl`` is written."""
    started = time.monotonic()
    with Journal(folder) as journal:
        missing = journal.begin(plan, boards=list(plan.boards), **facts)
        progress = Progress(len(plan), len(plan) - len(missing))
        if watch:
            watch(progress)
        if missing and plan.settings.engine != "twin" and scheduler is None:
            journal.note(ttnn=_ttnn_version(plan.settings))
        try:
            with _answers(missing, plan.settings, workers, scheduler) as answers:
                _keep(journal, answers, progress, watch)
        finally:
            results = journal.write_results()
    return Finished(folder, results, len(plan), progress.done_now, progress.done_before, time.monotonic() - started)


def _keep(journal: Journal, answers: Iterator[list[Result]], progress: Progress, watch: Watch | None) -> None:
    block: list[Result] = []
    due = time.monotonic() + _COMMIT_SECONDS
    try:
        for results in answers:
            block += results
            for result in results:
                progress.count(result)
            is_due = time.monotonic() >= due
            # The real library's results are dear: none waits for others.
            if is_due or len(block) >= _COMMIT_RESULTS or results[-1].engine != "twin":
                journal.add(block)
                block = []
                due = time.monotonic() + _COMMIT_SECONDS
            if watch:
                watch(progress)
    finally:
        journal.add(block)


@contextmanager
def _answers(
    points: Sequence[Point], settings: Settings, workers: int | None, scheduler: str | None
) -> Iterator[Iterator[list[Result]]]:
    if scheduler is not None:
        from ttmem.sweep.distribute import distributed

        with distributed(points, settings, scheduler) as answers:
            yield answers
    elif settings.engine == "twin":
        from ttmem.sweep.batch import ask_in_batches

        yield ask_in_batches(points, settings)
    else:
        from ttmem.sweep.pool import pool

        with pool(points, settings, worker_count(settings, workers)) as answers:
            yield answers


def _ttnn_version(settings: Settings) -> str:
    """Which library answered: limits move from release to release."""
    from ttmem.engines.interpreters import find_interpreter

    return find_interpreter(settings.python).ttnn_version


def worker_count(settings: Settings, workers: int | None) -> int:
    """As asked, else one per processor; a card is opened by one process at a time."""
    if workers is not None and workers < 1:
        raise BadInputError("a sweep needs at least one worker")
    if settings.engine == "card":
        return 1
    return workers or len(os.sched_getaffinity(0)) or 1
