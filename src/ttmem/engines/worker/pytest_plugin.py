# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: devices on a mock board (or a card), peak memory per test, limits, a table at the end.

Needs pytest beside ttnn. It comes in by two doors: ``ttmem test`` starts pytest with it, and where ttmem, pytest and
ttnn share an environment ``pytest --ttmem-board`` loads it (``ttmem.engines.pytest_plugin``).
"""

import importlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from .comparisons import Comparisons
from .devices import OpenOptions
from .environment import show
from .isolated_tests import FAILURE, OUTCOME, IsolatedTests
from .isolation import end_with
from .library import Library
from .limits import allowed_bytes
from .protocol import MEMORIES
from .recorder import Recorder

MARK = "ttmem(max_dram=..., max_l1=...): fail the test when its peak exceeds '90%' of a bank or an amount like '1.2MiB'"

SECONDS_PER_TEST = 300.0
NOT_COMPARED = "a mock board computes nothing: the test ended with an assertion on values, which is not judged"
_PREFIX = "ttmem_"
_LIMITED = {"max_dram": "DRAM", "max_l1": "L1", "max_l1_small": "L1_SMALL"}
_MOST_ROWS = 20
_COLUMNS = (
    ("  DRAM MB/bank", "dram_peak_bytes_per_bank", "dram_bank_bytes"),
    ("   L1 MB/bank", "l1_peak_bytes_per_bank", "l1_bank_bytes"),
    ("  L1 + programs", "l1_with_programs_bytes_per_core", "l1_bank_bytes"),
)
"""Of the table: title, figure, what it is a share of."""


def main(words: list[str]) -> int:
    """``pytest_plugin SETTINGS PYTEST-ARGUMENTS...`` with settings as JSON: run pytest with the plugin."""
    settings: dict[str, Any] = json.loads(words[0])
    end_with(settings.pop("parent"))
    tempfile.tempdir = settings.pop("temporary")
    importlib.import_module("ttnn")
    # 'python -m pytest' has the working folder first; last, tests find their neighbours there and nothing is shadowed.
    sys.path.append("")
    plugin = MemoryPlugin(options=settings.pop("open"), **settings)
    return int(pytest.main([*words[1:], "-p", "no:ttmem"], plugins=[plugin]))


class Peaks:
    """The fullest moments of a stretch of a recording, kept as its messages go by; ``reset`` begins a new one."""

    def __init__(self) -> None:
        self.bank_bytes: dict[str, int] = {}
        self.reset()

    def reset(self) -> None:
        """Forget the moments so far; a device that is open stays known."""
        self.allocated: dict[str, int] = {}
        """Bytes per bank by memory, moments inside operations included; a memory that was not seen is missing."""
        self.l1_with_programs = 0
        """Bytes per core: tensors and the programs' own buffers together."""
        self.operations = 0
        self.unmeasured_programs = 0
        self.failed: dict[str, Any] | None = None
        """The operation that raised last: index, name, location."""
        self.begun: dict[str, Any] = {}

    def hear(self, message: dict[str, Any]) -> None:
        """One message of the recorder."""
        if "state" in message:
            for memory, (_, total, allocated, _, _) in zip(MEMORIES, message["state"], strict=True):
                self.bank_bytes[memory] = total
                self._see(memory, allocated)
        if "start" in message:
            location = f"{message['file']}:{message['line']}" if message["file"] else ""
            self.begun = {"index": self.operations, "name": message["name"], "location": location}
            self.operations += 1
        self.unmeasured_programs += "unmeasured" in message
        if "end" in message:
            self.failed = self.begun if "error" in message else None
        for memory, top in message.get("fullest", {}).items():
            self._see(memory, top[0])
        if "l1" in message:
            self.l1_with_programs = max(self.l1_with_programs, sum(message["l1"][:-1]))

    def _see(self, memory: str, allocated: int) -> None:
        self.allocated[memory] = max(self.allocated.get(memory, 0), allocated)


class MemoryPlugin:
    """One session's plugin object."""

    def __init__(
        self,
        *,
        label: str,
        values: bool,
        options: dict[str, Any] | None = None,
        measure: bool = True,
        json_path: str = "",
        environment: Mapping[str, str | None] | None = None,
        seconds_per_test: float = SECONDS_PER_TEST,
    ) -> None:
        """``values`` keeps value comparisons on: right on a card, pointless on a mock. ``environment`` is what tests
        shall read, whatever the library needs."""
        self._label = label
        self._options = options or {}
        self._values = values
        self._measure = measure
        self._json_path = json_path
        self._peaks = Peaks()
        self._isolated = IsolatedTests(seconds_per_test, begun=lambda: self._peaks.begun, in_copy=self._follow_here)
        self._comparisons = Comparisons()
        # Before any test or conftest.py loads ttnn, so that what they import is the recorded one.
        self._library = Library()
        show(environment or {})
        self._recorder: Recorder | None = None
        self._rows: dict[str, dict[str, Any]] = {}

    def pytest_configure(self, config: Any) -> None:
        """Put the recorder between the tests and the library."""
        config.addinivalue_line("markers", MARK)
        self._recorder = Recorder(
            self._library, self._hear, options=OpenOptions(**self._options), measure_programs=self._measure
        )
        self._recorder.install()
        config.pluginmanager.register(self._isolated, "ttmem-isolated-tests")

    def _follow_here(self) -> None:
        if self._recorder is not None:
            self._recorder.follow_here()

    def _hear(self, message: dict[str, Any]) -> None:
        self._peaks.hear(message)
        self._comparisons.heard(message)
        self._isolated.heard(message)

    def pytest_unconfigure(self) -> None:
        """Leave the library as it was."""
        if self._recorder is not None:
            self._recorder.uninstall()

    def pytest_report_header(self) -> str:
        """What the tests run on, and what that means for values."""
        values = "" if self._values else "; nothing is computed, so value comparisons are skipped"
        return f"ttmem: {self._label}{values}"

    @pytest.fixture
    def device_params(self, request: Any) -> dict[str, Any]:
        """Arguments for opening the device, as ttnn's own suites parametrise them."""
        return dict(getattr(request, "param", {}) or {})

    @pytest.fixture
    def device(self, device_params: dict[str, Any]) -> Iterator[Any]:
        """One chip."""
        ttnn = self._library.ttnn
        device = ttnn.open_device(device_id=0, **device_params)
        yield device
        ttnn.close_device(device)

    @pytest.fixture
    def mesh_device(self, request: Any, device_params: dict[str, Any]) -> Iterator[Any]:
        """All chips of the board, or the mesh that the test asks for."""
        ttnn = self._library.ttnn
        wanted = getattr(request, "param", None)
        shape = (1, wanted) if isinstance(wanted, int) else tuple(wanted) if wanted else None
        device = ttnn.open_mesh_device(ttnn.MeshShape(*shape) if shape else None, **device_params)
        yield device
        ttnn.close_mesh_device(device)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        """A test's peaks are its own, fixtures included."""
        self._peaks.reset()
        self._comparisons.begin()
        yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        """The test itself, with its comparisons off on a mock."""
        module = getattr(item, "module", None)
        with nullcontext() if self._values else self._comparisons.off(module):
            yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[None]:
        """Peaks go with the report (through xdist too); a limit that does not hold fails the test."""
        outcome: Any = yield
        report = outcome.get_result()
        if report.when != "call":
            return
        unjudged = not self._values and report.failed and call.excinfo
        if unjudged and self._comparisons.cannot_judge(call.excinfo.value, call.excinfo.tb):
            report.outcome, report.longrepr = "passed", None
            report.sections.append(("ttmem", f"{NOT_COMPARED}: {call.excinfo.exconly()}"))
        report.user_properties += [(f"{_PREFIX}{name}", value) for name, value in self._measured().items()]
        if report.failed and call.excinfo:
            failure = {"text": str(call.excinfo.value), "operation": self._peaks.failed}
            report.user_properties.append((FAILURE, json.dumps(failure)))
        broken = self._broken_limits(item)
        if broken and report.passed:
            report.outcome = "failed"
            report.longrepr = "\n".join(broken)

    def _measured(self) -> dict[str, int]:
        peaks = self._peaks
        measured = {f"{memory.lower()}_peak_bytes_per_bank": used for memory, used in peaks.allocated.items()}
        measured |= {f"{memory.lower()}_bank_bytes": total for memory, total in peaks.bank_bytes.items()}
        measured["l1_with_programs_bytes_per_core"] = peaks.l1_with_programs
        measured["operations"] = peaks.operations
        measured["unmeasured_programs"] = peaks.unmeasured_programs
        measured["skipped_comparisons"] = self._comparisons.skipped
        return measured

    def _broken_limits(self, item: Any) -> list[str]:
        broken = []
        for mark in item.iter_markers("ttmem"):
            unknown = set(mark.kwargs) - set(_LIMITED)
            if unknown or mark.args:
                words = ", ".join(sorted(unknown)) or "a limit without a name"
                broken.append(f"ttmem: the mark does not know {words}; it knows {', '.join(_LIMITED)}")
            for name, memory in _LIMITED.items():
                if name in mark.kwargs:
                    broken += self._over(memory, mark.kwargs[name])
        return broken

    def _over(self, memory: str, wanted: Any) -> list[str]:
        """L1 counts with the programs' own buffers: that is what overflows."""
        bank = self._peaks.bank_bytes.get(memory, 0)
        try:
            allowed = allowed_bytes(wanted, bank)
        except ValueError as error:
            return [f"ttmem: {error}"]
        used = self._peaks.allocated.get(memory, 0)
        if memory == "L1":
            used = max(used, self._peaks.l1_with_programs)
        if used <= allowed:
            return []
        share = f" ({100 * used / bank:.1f}%)" if bank else ""
        return [f"ttmem: test was limited to {wanted} of {memory} ({allowed} B per bank) but used {used} B{share}"]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """In the controlling process, where the table is printed."""
        row = self._rows.setdefault(report.nodeid, {"outcome": "passed", "seconds": 0.0})
        row["seconds"] += getattr(report, "duration", 0.0)
        if report.when == "call":
            properties = report.user_properties
            row |= {name[len(_PREFIX) :]: value for name, value in properties if name.startswith(_PREFIX)}
            row.setdefault("failure", json.dumps({"text": report.longreprtext, "operation": None}))
            if OUTCOME not in dict(properties):
                row["outcome"] = report.outcome
        elif report.failed:
            row["outcome"] = "error"
            row["failure"] = json.dumps({"text": report.longreprtext, "operation": None})
        elif report.skipped:
            row["outcome"] = "skipped"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The tests that need most, and what was not checked."""
        rows = sorted(self._rows.items(), key=lambda row: -_weight(row[1]))
        if self._json_path:
            Path(self._json_path).write_text(
                json.dumps({"board": self._label, "tests": [{"test": name, **row} for name, row in rows]})
            )
        rows = [(name, row) for name, row in rows if "operations" in row]
        if not rows:
            return
        terminalreporter.section(f"peak memory per test ({self._label})")
        terminalreporter.write_line("".join(title for title, _, _ in _COLUMNS) + "  test")
        for name, row in rows[:_MOST_ROWS]:
            cells = (_cell(row, used, bank).rjust(len(title)) for title, used, bank in _COLUMNS)
            terminalreporter.write_line(f"{''.join(cells)}  {name}")
        if len(rows) > _MOST_ROWS:
            terminalreporter.write_line(f"... and {len(rows) - _MOST_ROWS} more")
        skipped = sum(row["skipped_comparisons"] for _, row in rows)
        if skipped:
            tests = sum(bool(row["skipped_comparisons"]) for _, row in rows)
            terminalreporter.write_line(
                f"memory only: {skipped} value comparisons in {tests} tests were skipped (a mock computes nothing)"
            )


def _weight(row: dict[str, Any]) -> float:
    """The share of the fuller memory, so that the most dangerous test stands first."""
    return max((row.get(used, 0) / row[bank] for _, used, bank in _COLUMNS if row.get(bank)), default=0.0)


def _cell(row: dict[str, Any], used: str, bank: str) -> str:
    if used not in row:
        return "-"
    share = f" {100 * row[used] / row[bank]:3.0f}%" if row.get(bank) else ""
    return f"{row[used] / (1 << 20):.3f}{share}"
