# SPDX-License-Identifier: Apache-2.0
"""A crash costs one test: pytest's tests run in a forked copy of the process that collected them.

The copy begins before any device is open. It sends its reports, which this process hands to its own plugins as if it
had run the tests itself. When the copy dies, hangs or leaves with ``os._exit``, the test that was running has failed,
and another copy goes on with the next one. Fixtures of a wider scope are set up again there.
"""

import json
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from .isolation import Fork, Send

CRASHED, TIMED_OUT = "crashed", "timeout"
OUTCOME, FAILURE = "ttmem_outcome", "ttmem_failure"
"""User properties of a report: how a test ended which did not come back, and why one failed (JSON)."""


class IsolatedTests:
    """The loop over the tests of a session."""

    def __init__(
        self,
        seconds_per_test: float,
        *,
        begun: Callable[[], dict[str, Any]],
        in_copy: Callable[[], None] = lambda: None,
    ) -> None:
        """``seconds_per_test``: so long it may go without an operation or an end. ``begun`` is the operation that was
        begun last (index, name, location); ``in_copy`` is called when a copy begins its work."""
        self._seconds = seconds_per_test
        self._begun = begun
        self._in_copy = in_copy
        self._send: Send | None = None
        """In the copy: how it speaks."""

    def heard(self, message: dict[str, Any]) -> None:
        """In the copy: an operation begins or ends, so that it is known if the copy does not live to say it."""
        if self._send is not None and "start" in message:
            self._send({"operation": self._begun()})
        elif self._send is not None and "end" in message:
            self._send({"ended": True})

    def pytest_runtestloop(self, session: Any) -> bool | None:
        """Instead of pytest's own loop; None leaves it to that (or to xdist, whose workers are processes already)."""
        config = session.config
        if session.testsfailed and not config.option.continue_on_collection_errors:
            return None
        if config.option.collectonly or config.getoption("usepdb", False) or config.getoption("trace", False):
            return None
        if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
            return None
        left = list(session.items)
        while left:
            left = left[self._run_copy(session, left) :]
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        return True

    def _run_copy(self, session: Any, items: list[Any]) -> int:
        """How many of the tests are done when the copy has ended."""
        config = session.config
        fork = Fork(lambda send: self._work(session, items, send), own_group=True, silent=False)
        done, running, operation, began = 0, "", _Last(), time.monotonic()
        for message in fork.messages(self._seconds):
            if "operation" in message:
                operation = _Last(message["operation"])
            elif "ended" in message:
                operation = operation._replace(has_ended=True)
            elif "begin" in message:
                running, operation, began = message["begin"], _Last(), time.monotonic()
                config.hook.pytest_runtest_logstart(nodeid=running, location=items[done].location)
            elif "report" in message:
                report = config.hook.pytest_report_from_serializable(config=config, data=message["report"])
                config.hook.pytest_runtest_logreport(report=report)
            elif "end" in message:
                config.hook.pytest_runtest_logfinish(nodeid=running, location=items[done].location)
                done, running = done + 1, ""
                if session.shouldfail or session.shouldstop:
                    return done
            elif "all" in message:
                return len(items)
        lost = items[min(done, len(items) - 1)]
        if not running:  # between tests: the copy died when it took fixtures down
            config.hook.pytest_runtest_logstart(nodeid=lost.nodeid, location=lost.location)
        for report in _lost(lost, fork, operation, self._seconds, time.monotonic() - began):
            config.hook.pytest_runtest_logreport(report=report)
        config.hook.pytest_runtest_logfinish(nodeid=lost.nodeid, location=lost.location)
        return done + 1

    def _work(self, session: Any, items: list[Any], send: Send) -> None:
        """In the copy: all tests, until something ends it."""
        config = session.config
        self._send = send
        self._in_copy()
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)  # threads of its pool are not there in a copy, and it would wait for them
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            config.pluginmanager.unregister(reporter)
        config.pluginmanager.register(_Reports(config, send), "ttmem-reports")
        for place, item in enumerate(items):
            send({"begin": item.nodeid})
            following = items[place + 1] if place + 1 < len(items) else None
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            send({"end": item.nodeid})
        send({"all": True})


class _Reports:
    """In the copy: hands reports to the process that prints them."""

    def __init__(self, config: Any, send: Send) -> None:
        self._config = config
        self._send = send

    def pytest_runtest_logreport(self, report: Any) -> None:
        """As text, because it crosses a pipe."""
        self._send({"report": self._config.hook.pytest_report_to_serializable(config=self._config, report=report)})


class _Last(NamedTuple):
    """The operation that was begun last, if any was."""

    place: dict[str, Any] | None = None
    has_ended: bool = False


def _lost(item: Any, fork: Fork, operation: _Last, seconds: float, lasted: float) -> list[Any]:
    """The reports of a test that did not come back; 'pytest --junitxml' ends a test with that of its teardown.

    ``lasted``: since it was begun, its fixtures included, of which reports may have come before.
    """
    where = ""
    if place := operation.place:
        location = f" ({place['location']})" if place["location"] else ""
        where = f" {'after' if operation.has_ended else 'in'} {place['name']}{location}"
    if fork.timed_out:
        outcome, words = TIMED_OUT, f"the test did nothing for {seconds:g} s{where}"
    elif fork.signal:
        outcome, words = CRASHED, f"the process was killed by {signal.Signals(fork.signal).name}{where}"
    else:
        outcome, words = CRASHED, f"the process left with status {fork.status}{where}"
    failure = {"text": words, "operation": None if operation.has_ended else operation.place}
    properties = [(OUTCOME, outcome), (FAILURE, json.dumps(failure))]
    facts = {"nodeid": item.nodeid, "location": item.location, "keywords": {}, "user_properties": properties}
    return [
        pytest.TestReport(outcome="failed", longrepr=f"ttmem: {words}", when="call", duration=lasted, **facts),
        pytest.TestReport(outcome="passed", longrepr=None, when="teardown", **facts),
    ]
