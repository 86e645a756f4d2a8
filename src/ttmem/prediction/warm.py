# SPDX-License-Identifier: Apache-2.0
"""Engines and tracers that stay open between models: starting ttnn and torch takes longer than most answers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ttmem.engines.engine import Engine, EngineSettings, open_engine
from ttmem.operators.tracing import Tracers, close_tracers
from ttmem.prediction import run_stream
from ttmem.prediction.lowering import forget_graph
from ttmem.prediction.request import Request

_MOST_ENGINES = 4
"""Most boards that stay open: each is a process with the whole library."""


class Warm:
    """Engines and tracing processes of one thread."""

    def __init__(self, run: str = "") -> None:
        self.run = run
        """The run that opened it: files may have changed until the next run."""
        self.tracers: Tracers = {}
        self._engines: dict[tuple[str, EngineSettings], Engine] = {}
        forget_graph()

    def engine(self, request: Request) -> Engine:
        """Return the requested engine, opened if necessary."""
        key = run_stream.choose_engine(request), run_stream.engine_settings(request)
        self._engines[key] = self._engines.pop(key) if key in self._engines else open_engine(*key)
        while len(self._engines) > _MOST_ENGINES:
            self._engines.pop(next(iter(self._engines))).close()
        return self._engines[key]

    def close(self) -> None:
        close_tracers(self.tracers)
        while self._engines:
            self._engines.popitem()[1].close()


_own = threading.local()
_kept: dict[int, Warm] = {}
"""Warm engines by thread, on a worker of a cluster."""


@contextmanager
def use_warm() -> Iterator[Warm]:
    """Use this thread's engines, or new ones that are closed at the end."""
    found: Warm | None = getattr(_own, "warm", None)
    if found is not None:
        yield found
        return
    _own.warm = made = Warm()
    try:
        yield made
    finally:
        _own.warm = None
        made.close()


@contextmanager
def keep_warm(run: str) -> Iterator[Warm]:
    """Use this thread's engines for a run, until ``release_warm`` closes them."""
    thread = threading.get_ident()
    found = _kept.get(thread)
    if found is None or found.run != run:
        if found is not None:
            found.close()
        found = _kept[thread] = Warm(run)
    _own.warm = found
    try:
        yield found
    finally:
        _own.warm = None


def release_warm(run: str) -> None:
    """Close what was kept for a run, in all threads."""
    for thread in [thread for thread, found in _kept.items() if found.run == run]:
        _kept.pop(thread).close()
