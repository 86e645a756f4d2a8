# SPDX-License-Identifier: Apache-2.0
"""The memory plugin in the workers of pytest-xdist, which are processes of their own and load plugins by name.

Its folder holds nothing else, so that it can be put on ``sys.path``. It does nothing in the process that starts the
workers, which has the plugin already.
"""

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

_WORKER = Path(__file__).resolve().parents[1]
_SETTINGS = Path(os.environ.get("TT_METAL_LOGS_PATH", "")) / "suite.json"


def _create_plugin() -> Any:
    spec = importlib.util.spec_from_file_location("ttmem_worker_start", _WORKER / "start.py")
    assert spec is not None
    assert spec.loader is not None
    start = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(start)
    start.load()
    return importlib.import_module("ttmem_worker.pytest_plugin").create_plugin(json.loads(_SETTINGS.read_text()))


# When this is imported no conftest.py has been: what they import is the recorded library.
_MADE = _create_plugin() if "PYTEST_XDIST_WORKER" in os.environ and _SETTINGS.is_file() else None


def pytest_configure(config: Any) -> None:
    if _MADE is not None and hasattr(config, "workerinput"):
        config.pluginmanager.register(_MADE, "ttmem-memory")
