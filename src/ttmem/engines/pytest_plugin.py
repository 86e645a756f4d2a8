# SPDX-License-Identifier: Apache-2.0
"""``pytest --ttmem-board n150``: the memory plugin where ttmem, pytest and ttnn share one environment.

Registered under ``pytest11``, so it is imported by every pytest run in that environment: it must cost nothing.
"""

import os
import sys
from contextlib import ExitStack
from typing import Any

_NAME = "ttmem-memory"


def pytest_addoption(parser: Any) -> None:
    """The options; without the first nothing happens."""
    group = parser.getgroup("ttmem", "memory of ttnn tests on a mock board (ttmem)")
    group.addoption("--ttmem-board", metavar="BOARD", help="run ttnn tests on a mock of this board, for their memory")
    group.addoption("--ttmem-card", action="store_true", help="run ttnn tests on the card, with their memory measured")
    group.addoption("--ttmem-json", metavar="FILE", default="", help="also write the peaks of all tests as JSON")
    group.addoption("--ttmem-values", action="store_true", help="keep value comparisons on, although a mock has none")
    group.addoption("--ttmem-no-programs", action="store_true", help="do not measure what programs need in L1 (faster)")


def pytest_configure(config: Any) -> None:
    """Set the surroundings up before anything loads ttnn, then register the plugin itself."""
    board, card = config.getoption("--ttmem-board"), config.getoption("--ttmem-card")
    config.addinivalue_line("markers", "ttmem(max_dram=..., max_l1=...): limits on a test's memory, with --ttmem-board")
    if not board and not card:
        return
    import pytest

    from ttmem._errors import TtmemError
    from ttmem.engines.interpreters import find_interpreter
    from ttmem.engines.workspace import workspace

    if "ttnn" in sys.modules:
        raise pytest.UsageError("--ttmem-board: ttnn was loaded already (by a plugin or 'python -c'); it must be first")
    surroundings = ExitStack()
    try:
        interpreter = find_interpreter(sys.executable)
        place = surroundings.enter_context(workspace(interpreter, board=board, card=card))
    except TtmemError as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise pytest.UsageError(f"--ttmem-board: {error}{hint}") from None
    environment, users_own = place.environment(os.environ), place.users_own
    for name in place.unset:
        os.environ.pop(name, None)
    os.environ.update(environment)
    config.add_cleanup(surroundings.close)

    from ttmem.engines.worker.pytest_plugin import MemoryPlugin

    plugin = MemoryPlugin(
        label="card" if card else f"mock {place.board}",
        values=card or config.getoption("--ttmem-values"),
        measure=not config.getoption("--ttmem-no-programs"),
        json_path=config.getoption("--ttmem-json"),
        environment=users_own,
    )
    config.pluginmanager.register(plugin, _NAME)
