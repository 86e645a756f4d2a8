# SPDX-License-Identifier: Apache-2.0
"""ttmem: the memory workbench for Tenstorrent hardware.

``ttmem.read("run.log")`` gives the ``Profile`` that every question and report works on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem._errors import TtmemError
from ttmem._lazy import lazy_names
from ttmem._version import __version__

if TYPE_CHECKING:
    from ttmem.library.sources import read
    from ttmem.profile import Profile

__all__ = ["Profile", "TtmemError", "__version__", "read"]

# Where the public names live that would pull in numpy: `import ttmem` stays cheap, also for a shell completion.
__getattr__ = lazy_names(__name__, {"read": "library.sources", "Profile": "profile"})


def __dir__() -> list[str]:
    return sorted(__all__)
