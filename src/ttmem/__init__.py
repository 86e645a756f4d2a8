# SPDX-License-Identifier: Apache-2.0
"""ttmem: the memory workbench for Tenstorrent hardware.

``ttmem.read("run.log")`` gives the ``Profile`` that every question and report works on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem._errors import TtmemError
from ttmem._version import __version__

if TYPE_CHECKING:
    from ttmem._sources import read
    from ttmem.profile import Profile

__all__ = ["Profile", "TtmemError", "__version__", "read"]

_HOMES = {"read": "ttmem._sources", "Profile": "ttmem.profile"}
"""Where the public names live that would pull in numpy: `import ttmem` stays cheap, also for a shell completion."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'ttmem' has no attribute '{name}'")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
