# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: devices on a mock board (or a card), a recording of every test, limits.

Needs pytest in the environment of ttnn. ``ttmem test`` starts pytest with it; where ttmem, pytest and ttnn share an
environment, ``pytest --ttmem-board`` loads it (``ttmem.commands.pytest_plugin``). It writes rows of tests and the
recordings of all processes to ``events``.
"""

import importlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from .comparisons import Comparisons
from .isolated_tests import CRASHED, FAILURE, OUTCOME, IsolatedTests
from .library import Library
from .open_devices import OpenOptions
from .peaks import PeakCounter, compute_allowed_bytes
from .process import die_with_parent, show_environment
from .protocol import RecordingFiles, escape_surrogates, format_typed_error
from .recorder import Recorder

MARK = "ttmem(max_dram=..., max_l1=...): fail the test when its peak exceeds '90%' of a bank or an amount like '1.2MiB'"

SECONDS_PER_TEST = 300.0
NOT_JUDGED = "not judged, because it failed after values were read from the device"
EXPECTED = "its comparison was not made, so the expected failure could not be seen"
_PREFIX = "ttmem_"
_OF_THE_PROCESS = ("temporary", "open", "parent", "install")
_LIMITED = {"max_dram": "DRAM", "max_l1": "L1", "max_l1_small": "L1_SMALL"}
_CRASHED_WORKER = "???"
"""The phase in pytest-xdist's report of a test whose worker died."""


def main(words: list[str]) -> int:
    """Run pytest with the plugin: ``pytest_plugin SETTINGS PYTEST-ARGUMENTS...`` with settings as JSON."""
    settings: dict[str, Any] = json.loads(words[0])
    die_with_parent(settings.pop("parent"))
    missing = MissingPlugins(settings.pop("install"))
    plugin = create_plugin(settings)
    # 'python -m pytest' has the working folder first; last, tests find their neighbours there and nothing is shadowed.
    sys.path += ["", str(Path(__file__).resolve().parent / "xdist")]
    return int(pytest.main([*words[1:], "-p", "no:ttmem", "-p", "ttmem_xdist_worker"], plugins=[plugin, missing]))


def create_plugin(settings: dict[str, Any]) -> "MemoryPlugin":
    """Create the plugin of a process, before anything else has loaded ttnn."""
    tempfile.tempdir = settings["temporary"]
    importlib.import_module("ttnn")
    options = {name: value for name, value in settings.items() if name not in _OF_THE_PROCESS}
    return MemoryPlugin(options=settings["open"], **options)


class MemoryPlugin:
    def __init__(
        self,
        *,
        label: str,
        values: bool,
        options: dict[str, Any] | None = None,
        measure: bool = True,
        events: str = "",
        limits: Mapping[str, str] | None = None,
        environment: Mapping[str, str | None] | None = None,
        seconds_per_test: float = SECONDS_PER_TEST,
    ) -> None:
        """``values`` keeps value comparisons on: right on a card, pointless on a mock. ``environment`` is what tests
        read, whatever the library needs. ``limits`` apply to all tests, like the mark's. Recordings and rows go to the
        folder ``events``."""
        self._label = label
        self._options = options or {}
        self._values = values
        self._measure = measure
        self._seconds = seconds_per_test
        self._process = os.getpid()
        self._writes_rows = True
        """False in a worker of xdist."""
        self._peaks = PeakCounter()
        self._isolated = IsolatedTests(seconds_per_test, begun=lambda: self._peaks.begun, in_copy=self._follow_here)
        # Before any test or conftest.py loads ttnn, so that what they import is the recorded one.
        self._library = Library()
        self._comparisons = Comparisons(self._library.ttnn, lambda skipped: self._events.write({"skipped": skipped}))
        self._events = RecordingFiles(events, self._library.version)
        self._limits = dict(limits or {})
        show_environment(environment or {})
        self._recorder: Recorder | None = None
        self._rows: dict[str, dict[str, Any]] = {}
        self._running_test = ""
        """The test that began last and has not ended."""
        self._fixtures_that_read: set[str] = set()
        self._is_in_call = False
        """Between a test's fixtures: a report made now is a subtest's."""
        self._failed_subtests: dict[str, str] = {}
        """The first failed subtest of a test, until the test itself is reported."""

    def pytest_configure(self, config: Any) -> None:
        config.addinivalue_line("markers", MARK)
        self._writes_rows = not hasattr(config, "workerinput")
        self._recorder = Recorder(
            self._library, self._handle_message, options=OpenOptions(**self._options), measure_programs=self._measure
        )
        self._recorder.install()
        if not self._values:
            self._recorder.on_result = self._comparisons.reads.notice_call
            self._comparisons.install()
        config.pluginmanager.register(self._isolated, "ttmem-isolated-tests")

    def _follow_here(self) -> None:
        if self._recorder is not None:
            self._recorder.follow_here()

    def _handle_message(self, message: dict[str, Any]) -> None:
        self._events.write(message)
        self._peaks.add(message)
        self._isolated.report_progress(message)

    def pytest_unconfigure(self) -> None:
        self._comparisons.uninstall()
        if self._recorder is not None:
            self._recorder.uninstall()

    def pytest_report_header(self) -> str:
        return f"ttmem: {self._label}"

    @pytest.fixture
    def device_params(self, request: Any) -> dict[str, Any]:
        """Arguments for opening the device, as ttnn's own suites parametrise them."""
        return dict(getattr(request, "param", {}) or {})

    @pytest.fixture
    def device(self, device_params: dict[str, Any]) -> Iterator[Any]:
        """A device of one chip."""
        ttnn = self._library.ttnn
        device = ttnn.open_device(device_id=0, **device_params)
        yield device
        ttnn.close_device(device)

    @pytest.fixture
    def mesh_device(self, request: Any, device_params: dict[str, Any]) -> Iterator[Any]:
        """A mesh of all chips of the board, or of the shape that the test asks for."""
        ttnn = self._library.ttnn
        wanted = getattr(request, "param", None)
        shape = (1, wanted) if isinstance(wanted, int) else tuple(wanted) if wanted else None
        device = ttnn.open_mesh_device(ttnn.MeshShape(*shape) if shape else None, **device_params)
        yield device
        ttnn.close_mesh_device(device)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        """Count a test's own peaks, fixtures included."""
        self._peaks.reset()
        self._comparisons.begin_test(
            has_read=not self._fixtures_that_read.isdisjoint(getattr(item, "fixturenames", ()))
        )
        if not self._writes_rows:  # nothing else ends a test that hangs in a worker of xdist
            self._events.limit_silence(self._seconds)
        self._events.write({"test": item.nodeid})
        yield
        self._events.limit_silence(0.0)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Note reads in fixtures of several tests: all of these use the values."""
        reads = self._comparisons.reads
        before, reads.has_read = reads.has_read, False
        yield
        if reads.has_read:
            self._fixtures_that_read.add(fixturedef.argname)
        reads.has_read |= before

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Note that reports come from a test's call: those of subtests."""
        self._is_in_call = True
        yield
        self._is_in_call = False

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[None]:
        """Add peaks to the report (they pass xdist too); fail the test when it exceeds a limit."""
        outcome: Any = yield
        report = outcome.get_result()
        if report.failed and not self._values:
            self._excuse(report, call.excinfo)
        if report.when != "call" or self._is_in_call:
            if report.failed and call.excinfo:  # a fixture or a subtest
                report.user_properties.append((FAILURE, self._describe_failure(call.excinfo.value)))
            return
        measured = self._summarize_peaks().items()
        properties: list[tuple[str, object]] = [(f"{_PREFIX}{name}", value) for name, value in measured]
        if report.failed and call.excinfo:
            properties.append((FAILURE, self._describe_failure(call.excinfo.value)))
        report.user_properties += properties
        item.user_properties += properties  # 'pytest --junitxml' takes them from the report of the teardown
        broken = self._check_limits(item)
        if broken and report.passed:
            report.outcome = "failed"
            report.longrepr = "\n".join(broken)

    def _describe_failure(self, error: BaseException) -> str:
        return json.dumps({"text": format_typed_error(error), "operation": self._peaks.failed})

    def _excuse(self, report: Any, raised: Any) -> None:
        """Excuse a failure that only shows that no values were computed."""
        if raised and self._comparisons.excuse(raised.value):
            text = f"{NOT_JUDGED}: {raised.exconly()}"
            if report.when == "setup":  # the test itself does not run
                report.outcome, report.longrepr = "skipped", (report.location[0], report.location[1] or 0, text)
            else:
                report.outcome, report.longrepr = "passed", None
            report.sections.append(("ttmem", text))
            report.user_properties += [
                (f"{_PREFIX}not_judged", format_typed_error(raised.value)),
                (f"{_PREFIX}skipped_comparisons", self._comparisons.skipped),
            ]
        elif not raised and self._comparisons.skipped and str(report.longrepr).startswith("[XPASS(strict)]"):
            report.outcome, report.longrepr, report.wasxfail = "skipped", None, EXPECTED

    def _summarize_peaks(self) -> dict[str, int]:
        peaks = self._peaks
        measured = {f"{memory.lower()}_peak_bytes_per_bank": used for memory, used in peaks.allocated.items()}
        measured |= {f"{memory.lower()}_bank_bytes": total for memory, total in peaks.bank_bytes.items()}
        measured["l1_with_programs_bytes_per_core"] = peaks.l1_with_programs
        measured["operations"] = peaks.operations
        measured["unmeasured_programs"] = peaks.unmeasured_programs
        measured["skipped_comparisons"] = self._comparisons.skipped
        return measured

    def _check_limits(self, item: Any) -> list[str]:
        broken = []
        for name, limit in self._limits.items():
            broken += self._check_limit(_LIMITED[name], limit)
        for mark in item.iter_markers("ttmem"):
            unknown = set(mark.kwargs) - set(_LIMITED)
            if unknown or mark.args:
                words = ", ".join(sorted(unknown)) or "a limit without a name"
                broken.append(f"ttmem: the mark does not know {words}; it knows {', '.join(_LIMITED)}")
            for name, memory in _LIMITED.items():
                if name in mark.kwargs:
                    broken += self._check_limit(memory, mark.kwargs[name])
        return broken

    def _check_limit(self, memory: str, wanted: Any) -> list[str]:
        """Check one memory; L1 includes the programs' own buffers, because together they overflow."""
        bank = self._peaks.bank_bytes.get(memory, 0)
        try:
            allowed = compute_allowed_bytes(wanted, bank)
        except ValueError as error:
            return [f"ttmem: {error}"]
        used = self._peaks.allocated.get(memory, 0)
        if memory == "L1":
            used = max(used, self._peaks.l1_with_programs)
        if used <= allowed:
            return []
        share = f" ({100 * used / bank:.1f}%)" if bank else ""
        return [f"ttmem: test was limited to {wanted} of {memory} ({allowed} B per bank) but used {used} B{share}"]

    def pytest_runtest_logstart(self, nodeid: Any) -> None:
        self._running_test = escape_surrogates(str(nodeid))

    def pytest_runtest_logfinish(self) -> None:
        self._running_test = ""

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        """Record that the session ends, through the running test or from outside."""
        if self._running_test and self._writes_rows and os.getpid() == self._process:
            row = self._rows.setdefault(self._running_test, {"outcome": "passed", "seconds": 0.0})
            if row["outcome"] == "passed":
                failure = {"text": f"the session was ended: {excinfo.exconly()}", "operation": None}
                row |= {"outcome": "error", "failure": json.dumps(failure)}
            self._events.write({"row": {"test": self._running_test, **row}, "ended": True})

    def pytest_collectreport(self, report: Any) -> None:
        """Write a row for a file whose tests could not be collected."""
        if report.failed and self._writes_rows:
            lines = report.longreprtext.splitlines()
            error = "\n".join(line[1:].strip() for line in lines if line.startswith("E "))
            failure = json.dumps({"text": error, "operation": None}) if error else _encode_failure(report)
            row = {"outcome": "error", "seconds": 0.0, "failure": failure}
            self._events.write({"row": {"test": report.nodeid or "collection", **row}})

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Update a test's row, in the process that prints the table."""
        row = self._rows.setdefault(report.nodeid, {"outcome": "passed", "seconds": 0.0})
        properties = dict(report.user_properties)
        failure = properties.pop(FAILURE, None) or _encode_failure(report)
        row |= {name[len(_PREFIX) :]: value for name, value in properties.items() if name.startswith(_PREFIX)}
        context = getattr(report, "context", None)
        if hasattr(context, "kwargs"):  # a subtest
            if report.failed:
                self._failed_subtests.setdefault(report.nodeid, _name_subtest(failure, context))
            return
        row["seconds"] += getattr(report, "duration", 0.0)
        if report.when == "call":
            subtest = self._failed_subtests.pop(report.nodeid, "")
            row["failure"] = failure
            if OUTCOME not in properties:
                row |= {"outcome": "failed", "failure": subtest} if subtest else {"outcome": report.outcome}
        elif report.failed:
            row["outcome"] = CRASHED if report.when == _CRASHED_WORKER else "error"
            row["failure"] = failure
        elif report.skipped:
            row["outcome"] = "skipped"
        if hasattr(report, "wasxfail"):
            row["expected_failure"] = str(report.wasxfail)
        if self._writes_rows and os.getpid() == self._process:
            ended = report.when in ("teardown", _CRASHED_WORKER)
            self._events.write({"row": {"test": report.nodeid, **row}, "ended": ended})


def _encode_failure(report: Any) -> str:
    return json.dumps({"text": report.longreprtext, "operation": None})


def _name_subtest(failure: str, context: Any) -> str:
    """Add the subtest's name to a failure; values are as pytest writes them, in quotes after a pipe."""
    loaded = json.loads(failure)
    values = ", ".join(f"{name}={str(value).strip(chr(39))}" for name, value in context.kwargs.items())
    name = " ".join(filter(None, (context.msg, values and f"({values})"))) or "without a name"
    return json.dumps({**loaded, "text": f"{loaded['text']}\nin subtest {name}"})


_OPTIONS = {
    "pytest-xdist": r"-n.*|--numprocesses|--maxprocesses|--dist|--tx",
    "pytest-timeout": r"--(session-)?timeout.*",
    "pytest-rerunfailures": r"--(only-)?rerun.*",
    "pytest-repeat": r"--count|--repeat-scope",
    "pytest-cov": r"--(no-)?cov.*",
    "pytest-html": r"--html|--self-contained-html",
    "pytest-json-report": r"--json-report.*",
    "pytest-benchmark": r"--benchmark.*",
    "pytest-asyncio": r"--asyncio.*",
    "pytest-random-order": r"--random-order.*",
    "pytest-split": r"--splits|--group|--store-durations",
    "pytest-forked": r"--forked",
}
"""Options on a command line, or in ``addopts`` of a suite's ini file."""


class MissingPlugins:
    """Refuses options of missing plugins, with the command that installs them."""

    def __init__(self, install: str) -> None:
        """``install`` is a command without the names of packages."""
        self._install = install

    @pytest.hookimpl(trylast=True)
    def pytest_load_initial_conftests(self, parser: Any, args: list[str]) -> None:
        """Check options after the suite's conftest.py files were loaded, which may define their own."""
        unknown = parser.parse_known_and_unknown_args(args)[1]
        if missing := dict(_find_missing(unknown)):
            words = "; ".join(f"{option} needs {package}" for package, option in missing.items())
            names = ("," if "--with" in self._install else " ").join(missing)
            raise pytest.UsageError(f"{words}; install it next to ttnn: {self._install}{names}")


def _find_missing(words: list[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        option = word.partition("=")[0]
        for package, pattern in _OPTIONS.items():
            if re.fullmatch(pattern, option):
                yield package, option
