# SPDX-License-Identifier: Apache-2.0
"""Run a sweep into a folder: what the journal lacks is asked, every result is committed as it comes."""

import gc
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ttmem.base.errors import BadInputError
from ttmem.operators.sweeps.ask_engine import CaseRunner
from ttmem.operators.sweeps.distribute import Remark
from ttmem.operators.sweeps.journal import Journal
from ttmem.operators.sweeps.plan import Point, SweepPlan, SweepSettings
from ttmem.operators.sweeps.result import Result

_CASES_AT_ONCE = 32
_COMMIT_RESULTS = 4096
"""The twin's results come faster than commits: they are written in blocks of this size, or every half second."""
_COMMIT_SECONDS = 0.5


@dataclass(slots=True)
class Progress:
    """Progress of a sweep: the numbers of a live table."""

    total: int
    done_before: int
    """Results that were in the journal already."""
    done_now: int = 0
    statuses: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Results of this run by (board, memory, status)."""
    largest_pass: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """By (op, board, memory): padded bytes of the largest inputs that passed."""
    started: float = field(default_factory=time.monotonic)

    @property
    def rate_per_second(self) -> float:
        elapsed = time.monotonic() - self.started
        return self.done_now / elapsed if elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """None before there is a rate. Sweeps go from small to large, so the end comes rather later than this."""
        left, rate = self.total - self.done_before - self.done_now, self.rate_per_second
        return left / rate if rate else None

    def count(self, result: Result) -> None:
        self.done_now += 1
        self.statuses[result.board, result.memory, result.status] += 1
        if result.outcome.ok and result.padded_bytes is not None:
            key = result.op, result.board, result.memory
            self.largest_pass[key] = max(self.largest_pass.get(key, 0), result.padded_bytes)


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a sweep."""

    folder: Path
    results: Path
    total: int
    asked: int
    resumed: int
    """Results that were there before."""
    seconds: float


Watch = Callable[[Progress], None]


def run_sweep(
    plan: SweepPlan,
    folder: Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    watch: Watch | None = None,
    remark: Remark | None = None,
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
            from ttmem.engines.interpreters import find_interpreter

            # Which library answered: limits move from release to release.
            journal.note(ttnn=find_interpreter(plan.settings.python).ttnn_version)
        try:
            with _answers(missing, plan.settings, workers, scheduler, remark) as answers:
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
    points: Sequence[Point],
    settings: SweepSettings,
    workers: int | None,
    scheduler: str | None,
    remark: Remark | None,
) -> Iterator[Iterator[list[Result]]]:
    if scheduler is not None:
        from ttmem.operators.sweeps.distribute import run_on_cluster

        with run_on_cluster(points, settings, scheduler, remark) as answers:
            yield answers
    elif settings.engine == "twin":
        yield _ask_twin(points, settings)
    else:
        from ttmem.operators.sweeps.ask_engine import pool

        with pool(points, settings, worker_count(settings, workers)) as answers:
            yield answers


def _ask_twin(points: Sequence[Point], settings: SweepSettings) -> Iterator[list[Result]]:
    # Hundreds of thousands of points stay until the end: looking for garbage among them again and again costs a fifth.
    gc.freeze()
    try:
        with closing(CaseRunner(settings)) as asker:
            for start in range(0, len(points), _CASES_AT_ONCE):
                yield list(asker.ask(points[start : start + _CASES_AT_ONCE]))
    finally:
        gc.unfreeze()


def worker_count(settings: SweepSettings, workers: int | None) -> int:
    """Return the requested number of workers, else one per processor; one process at a time opens a card."""
    if workers is not None and workers < 1:
        raise BadInputError("a sweep needs at least one worker")
    if settings.engine == "card":
        return 1
    return workers or len(os.sched_getaffinity(0)) or 1
