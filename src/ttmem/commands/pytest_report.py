# SPDX-License-Identifier: Apache-2.0
"""The report of ``pytest --ttmem-board``: the answer of ``ttmem test``, inside the user's own pytest."""

import json
from pathlib import Path
from typing import Any

import pytest

from ttmem.analysis.findings import parse_kinds
from ttmem.base.atomic_files import require_writable, write_text
from ttmem.base.errors import TtmemError
from ttmem.commands.test import Suite, choose_suite_name, format_limits, judge_suite, read_baseline
from ttmem.engines.run_tests import format_board_label, read_suite
from ttmem.engines.workspace import Workspace
from ttmem.profile import store
from ttmem.reports import profile_files
from ttmem.reports import suite as suite_report

_EVENTS = "ttmem_events"
"""The key under which xdist's workers find the folder that all processes of the run write to."""


class ReportPlugin:
    """The report of one session; in a worker of xdist it only names the folder."""

    def __init__(self, config: Any, place: Workspace) -> None:
        """Check the options before a test is run."""
        option = config.getoption
        self._config = config
        self._place = place
        self._is_worker = hasattr(config, "workerinput")
        self._suite: Suite | None = None
        self._problem = ""
        self.label = format_board_label(place.board)
        self.limits = format_limits(max_dram=option("--ttmem-max-dram"), max_l1=option("--ttmem-max-l1"))
        self._fail_on = parse_kinds(option("--ttmem-fail-on")) if option("--ttmem-fail-on") else None
        self.events = config.workerinput[_EVENTS] if self._is_worker else str(place.folder / "events")
        if self._is_worker:
            return
        Path(self.events).mkdir()
        self._name = option("--ttmem-name") and store.check_name(option("--ttmem-name"))
        for name in ("--ttmem-json", "--ttmem-html"):
            if option(name):
                require_writable(Path(option(name)))
        baseline = option("--ttmem-baseline")
        self._baseline = read_baseline(baseline, option("--ttmem-max-growth")) if baseline else None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Name the folder to a worker of xdist before it starts."""
        node.workerinput[_EVENTS] = self.events

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: Any) -> None:
        """Judge the suite; a test that outgrew the baseline makes pytest's status 1."""
        if self._is_worker:
            return
        arguments = list(session.config.args)
        board = self._place.board
        recorded = read_suite(
            Path(self.events),
            name=self._name or choose_suite_name(arguments),
            source=" ".join(arguments),
            engine="mock" if board else "card",
            board=board.name if board else "",
            timed_out=False,
        )
        try:
            self._suite = judge_suite(
                int(session.exitstatus), self.label, recorded, baseline=self._baseline, fail_on=self._fail_on
            )
            session.exitstatus = self._suite.status
            self._write(self._suite, arguments)
        except (TtmemError, OSError) as error:
            self._problem = str(error)
            session.exitstatus = session.exitstatus or pytest.ExitCode.INTERNAL_ERROR

    def _write(self, suite: Suite, arguments: list[str]) -> None:
        if path := self._config.getoption("--ttmem-json"):
            write_text(Path(path), json.dumps(suite.to_json(), indent=2) + "\n")
        if path := self._config.getoption("--ttmem-html"):
            write_text(Path(path), profile_files.render_html(suite.profile, tests=suite.document))
        if self._name:
            suite.keep(arguments, name=self._name)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table in pytest's own report."""
        if self._problem:
            terminalreporter.write_line(f"ttmem: {self._problem}", red=True)
        elif self._suite is not None:
            width = terminalreporter._tw.fullwidth
            for line in suite_report.render_terminal(self._suite.document, width=width).splitlines():
                terminalreporter.write_line(line)
