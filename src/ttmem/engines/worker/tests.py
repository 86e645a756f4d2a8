# SPDX-License-Identifier: Apache-2.0
"""Runs pytest with the memory plugin, in the interpreter that has ttnn."""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from typing import Any

from .isolation import end_with


def main(words: list[str]) -> int:
    """``tests SETTINGS PYTEST-ARGUMENTS...`` with settings as JSON."""
    settings: dict[str, Any] = json.loads(words[0])
    end_with(settings["parent"])
    if settings.get("temporary"):
        tempfile.tempdir = settings["temporary"]
    pytest: Any = importlib.import_module("pytest")
    plugin: Any = importlib.import_module(".pytest_plugin", __package__)
    sys.path.insert(0, "")  # as 'python -m pytest' has it
    memory = plugin.MemoryPlugin(
        label=settings["label"],
        options=settings["open"],
        values=settings["values"],
        measure=settings["measure"],
        json_path=settings.get("json", ""),
    )
    return int(pytest.main([*words[1:], "-p", "no:ttmem"], plugins=[memory]))
