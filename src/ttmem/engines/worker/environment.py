# SPDX-License-Identifier: Apache-2.0
"""The user's environment is the user's: variables that we set for the library alone are not shown to the program."""

import os
from collections.abc import Mapping
from typing import Any


def show(variables: Mapping[str, str | None]) -> None:
    """Let the program read these values (None: not set). The library's C++ code, which reads them too, sees ours.

    Python keeps a copy of the environment; only a change through the mapping itself reaches the process's own.
    """
    copied: Any = os.environ
    for name, value in variables.items():
        if value is None:
            copied._data.pop(copied.encodekey(name), None)
        else:
            copied._data[copied.encodekey(name)] = copied.encodevalue(value)
