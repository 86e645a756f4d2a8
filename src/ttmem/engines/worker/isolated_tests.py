# SPDX-License-Identifier: Apache-2.0
"""Isolation of tests: pytest runs them in a forked copy of the process that collected them, so that a crash costs one
test.

The copy begins before any device is open. It sends its reports, which this process passes to its plugins as its own.
When the copy dies, hangs or leaves with ``os._exit``, the running test has failed, and another copy continues with the
next one. Fixtures of a wider scope are set up again there. ``-x``, ``pytest.exit`` and ``KeyboardInterrupt`` end the
session as in plain pytest.
"""

import base64
import json
import marshal
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import pytest

from .process import ForkedProcess, Send
from .protocol import escape_surrogates

CRASHED, TIMED_OUT = "crashed", "timeout"
OUTCOME, FAILURE = "ttmem_outcome", "ttmem_failure"
"""User properties of a report: the outcome of a test that did not return, and the reason of a failure (JSON)."""
_DEEPEST = 50


class IsolatedTests:
    def __init__(
        self,
        seconds_per_test: float,
        *,
        begun: Callable[[], dict[str, Any]],
        in_copy: Callable[[], None] = lambda: None,
    ) -> None:
        """A test may be silent for ``seconds_per_test``, without an operation or an end. ``begun`` returns the last
        operation begun (index, name, location); ``in_copy`` is called when a copy starts."""
        self._seconds = seconds_per_test
        self._begun = begun
        self._in_copy = in_copy
        self._send: Send | None = None
        """Set in the copy: sends a message to the parent."""

    def report_progress(self, message: dict[str, Any]) -> None:
        """Send the begin or end of an operation from the copy, so that it is known if the copy dies."""
        if self._send is not None and "start" in message:
            self._send({"operation": self._begun()})
        elif self._send is not None and "end" in message:
            self._send({"ended": True})

    def pytest_runtestloop(self, session: Any) -> bool | None:
        """Replace pytest's own loop; None leaves it to pytest (or to xdist, whose workers are processes already)."""
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
        """Run these tests in a copy until it ends; return the number of tests done."""
        config = session.config
        fork = ForkedProcess(lambda send: self._work(session, items, send), own_group=True, silent=False)
        done, running, operation, began, broken = 0, "", _LastOperation(), time.monotonic(), ""
        for message in fork.read_messages(self._seconds):
            if "operation" in message:
                operation = _LastOperation(message["operation"])
            elif "ended" in message:
                operation = operation._replace(has_ended=True)
            elif "begin" in message:
                running, operation, began = message["begin"], _LastOperation(), time.monotonic()
                config.hook.pytest_runtest_logstart(nodeid=items[done].nodeid, location=items[done].location)
            elif "report" in message:
                data = unpack(message["report"])
                report = config.hook.pytest_report_from_serializable(config=config, data=data)
                config.hook.pytest_runtest_logreport(report=report)
            elif "warning" in message:
                _pass_warning(config, *unpack(message["warning"]))
            elif "end" in message:
                config.hook.pytest_runtest_logfinish(nodeid=items[done].nodeid, location=items[done].location)
                done, running = done + 1, ""
            elif "stop" in message:
                session.shouldfail, session.shouldstop = message["stop"]
                return done
            elif "exit" in message:
                _end_session(message["exit"])
            elif "broken" in message:
                broken = message["broken"]
            elif "all" in message:
                return len(items)
        lost = items[min(done, len(items) - 1)]
        if not running:  # between tests: the copy died when it took fixtures down
            config.hook.pytest_runtest_logstart(nodeid=lost.nodeid, location=lost.location)
        for report in _report_lost_test(lost, fork, operation, self._seconds, time.monotonic() - began, broken):
            config.hook.pytest_runtest_logreport(report=report)
        config.hook.pytest_runtest_logfinish(nodeid=lost.nodeid, location=lost.location)
        return done + 1

    def _work(self, session: Any, items: list[Any], send: Send) -> None:
        """Run all tests in the copy, until something ends it."""
        config = session.config
        self._send = send
        self._in_copy()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a test may send it; the terminal's goes elsewhere
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)  # threads of its pool are not there in a copy, and it would wait for them
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            config.pluginmanager.unregister(reporter)
        reports = _ReportSender(config, send)
        config.pluginmanager.register(reports, "ttmem-reports")
        reports.begun = True
        try:
            for item, following in zip(items, [*items[1:], None], strict=True):
                send({"begin": item.nodeid})
                config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                send({"end": True})
                if session.shouldfail or session.shouldstop:
                    session._setupstate.teardown_exact(None)  # wider fixtures, as at the end of a session
                    send({"stop": [session.shouldfail, session.shouldstop]})
                    return
            send({"all": True})
        except (KeyboardInterrupt, pytest.exit.Exception) as leaving:
            send({"exit": _describe_exit(leaving)})
        except BaseException as error:  # a plugin failed: plain pytest would lose all other tests
            last = "".join(traceback.format_exception_only(type(error), error))
            send({"broken": f"{last}{''.join(traceback.format_exception(error))}"})


class _ReportSender:
    """Sends reports and warnings from the copy to the process that prints them."""

    def __init__(self, config: Any, send: Send) -> None:
        self._config = config
        self._send = send
        self.begun = False
        """Warnings from before the fork are known already."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Send the report as text; pytest fails a test for its subtests when it asks for the status."""
        self._config.hook.pytest_report_teststatus(report=report, config=self._config)
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._send({"report": pack(data)})

    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: Any, location: Any) -> None:
        """Send text and location; the object itself may be of any class."""
        if self.begun:
            category = warning_message.category
            kind = (category.__module__, category.__qualname__)
            facts = (str(warning_message.message), kind, warning_message.filename, warning_message.lineno)
            self._send({"warning": pack((facts, when, str(nodeid), location))})


def _pass_warning(config: Any, message: tuple[str, tuple[str, str], str, int], *where: Any) -> None:
    text, (module, name), file, line = message
    category = getattr(sys.modules.get(module), name, None)
    if not (isinstance(category, type) and issubclass(category, Warning)):
        category = UserWarning
    # What is printed is the text: a class of the suite's own may want other arguments.
    passed = warnings.WarningMessage(UserWarning(text), category, file, line)
    when, nodeid, location = where
    facts = {"warning_message": passed, "when": when, "nodeid": nodeid, "location": location}
    config.hook.pytest_warning_recorded.call_historic(kwargs=facts)


def pack(data: Any) -> str:
    """Encode plain values as text; unlike JSON it keeps tuples, which pytest's plugins insist on."""
    return base64.b64encode(marshal.dumps(_simplify(data))).decode()


def unpack(text: str) -> Any:
    return marshal.loads(base64.b64decode(text))


def _simplify(value: Any, depth: int = 0) -> Any:
    """Convert to Python's own types; other objects become their text (``record_property`` takes any object)."""
    if value is None or type(value) in (bool, int, float, bytes):
        return value
    if isinstance(value, str):
        return escape_surrogates(str(value))
    if depth < _DEEPEST and isinstance(value, (list, tuple)):
        items = [_simplify(item, depth + 1) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if depth < _DEEPEST and isinstance(value, dict):
        return {_simplify(key, depth + 1): _simplify(item, depth + 1) for key, item in value.items()}
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    try:
        return escape_surrogates(str(value))
    except Exception as error:
        return f"<{type(value).__name__} without a text: {type(error).__name__}>"


def _describe_exit(error: BaseException) -> dict[str, Any]:
    """Describe the end of the session, with the line of the test that caused it."""
    lines = [
        f"{frame.f_code.co_filename}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_locals.get("__tracebackhide__")
    ]
    facts = {"reason": str(error), "status": getattr(error, "returncode", None)}
    return facts if isinstance(error, pytest.exit.Exception) else {**facts, "place": lines[-1] if lines else ""}


def _end_session(facts: dict[str, Any]) -> NoReturn:
    """End the session of this process as the test ended the copy's."""
    if "place" in facts:
        raise KeyboardInterrupt(f"{facts['reason']} {facts['place']}".strip())
    raise pytest.exit.Exception(facts["reason"], facts["status"])


class _LastOperation(NamedTuple):
    place: dict[str, Any] | None = None
    has_ended: bool = False


def _report_lost_test(
    item: Any, fork: ForkedProcess, operation: _LastOperation, seconds: float, lasted: float, broken: str
) -> list[Any]:
    """Build the reports of a test that did not return; 'pytest --junitxml' ends a test with its teardown report.

    ``lasted`` includes its fixtures, whose reports may have come before. ``broken`` is the traceback of a failed
    plugin.
    """
    where = ""
    if place := operation.place:
        location = f" ({place['location']})" if place["location"] else ""
        where = f" {'after' if operation.has_ended else 'in'} {place['name']}{location}"
    if broken:
        outcome, words = CRASHED, f"a plugin of pytest failed{where}: {broken}"
    elif fork.timed_out:
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
