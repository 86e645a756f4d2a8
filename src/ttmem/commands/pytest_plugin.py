# SPDX-License-Identifier: Apache-2.0
"""``pytest --ttmem-board n150``: the memory plugin where ttmem, pytest and ttnn share one environment.

Registered under ``pytest11``, so it is imported by every pytest run in that environment: it must cost nothing.
"""

import os
import sys
from contextlib import ExitStack
from typing import Any

_NAME = "ttmem-memory"
_OPTIONS = (
    ("board", "BOARD", "run ttnn tests on a mock of this board, for their memory"),
    ("max-dram", "LIMIT", "fail tests whose DRAM peak is higher: 80%%, or bytes per bank such as 700MiB"),
    ("max-l1", "LIMIT", "fail tests whose L1 peak, programs included, is higher"),
    ("baseline", "SOURCE", "compare the peaks with this stored report of the suite"),
    ("max-growth", "LIMIT", "how much a peak may exceed the baseline's (default 2%%)"),
    ("fail-on", "KIND[:BYTES],..", "fail the run on leaks and waste: leak,late-free:10MB (per bank)"),
    ("json", "FILE", "also write what 'ttmem test --json' answers"),
    ("html", "FILE", "also write the report as one offline page"),
    ("name", "NAME", "store the report under this name"),
)
_FLAGS = (
    ("card", "run ttnn tests on the card, with their memory measured"),
    ("values", "keep value comparisons on, although a mock has none"),
    ("no-programs", "do not measure what programs need in L1 (faster)"),
)


def pytest_addoption(parser: Any) -> None:
    """The options; without a board or a card nothing happens."""
    group = parser.getgroup("ttmem", "memory of ttnn tests on a mock board (ttmem)")
    for name, metavar, help_ in _OPTIONS:
        group.addoption(f"--ttmem-{name}", metavar=metavar, help=help_)
    for name, help_ in _FLAGS:
        group.addoption(f"--ttmem-{name}", action="store_true", help=help_)


def pytest_configure(config: Any) -> None:
    """Set the surroundings up before anything loads ttnn, then register the plugin itself."""
    board, card = config.getoption("--ttmem-board"), config.getoption("--ttmem-card")
    config.addinivalue_line("markers", "ttmem(max_dram=..., max_l1=...): limits on a test's memory, with --ttmem-board")
    if not board and not card:
        return
    import pytest

    from ttmem.base.errors import TtmemError
    from ttmem.commands.pytest_report import ReportPlugin
    from ttmem.engines.interpreters import find_interpreter
    from ttmem.engines.workspace import open_workspace

    if "ttnn" in sys.modules:
        raise pytest.UsageError("--ttmem-board: ttnn was loaded already (by a plugin or 'python -c'); it must be first")
    surroundings = ExitStack()
    try:
        interpreter = find_interpreter(sys.executable)
        place = surroundings.enter_context(open_workspace(interpreter, board=board, card=card))
        report = ReportPlugin(config, place)
    except TtmemError as error:
        surroundings.close()
        hint = f" ({error.hint})" if error.hint else ""
        raise pytest.UsageError(f"--ttmem-board: {error}{hint}") from None
    environment, users_own = place.build_environment(os.environ), place.user_variables
    for name in place.unset:
        os.environ.pop(name, None)
    os.environ.update(environment)
    config.add_cleanup(surroundings.close)

    from ttmem.engines.worker.pytest_plugin import MemoryPlugin

    plugin = MemoryPlugin(
        label=report.label,
        values=card or config.getoption("--ttmem-values"),
        measure=not config.getoption("--ttmem-no-programs"),
        events=report.events,
        limits=report.limits,
        environment=users_own,
    )
    config.pluginmanager.register(plugin, _NAME)
    config.pluginmanager.register(report, "ttmem-report")
