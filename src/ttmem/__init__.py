# SPDX-License-Identifier: Apache-2.0
"""ttmem: the memory workbench for Tenstorrent hardware.

Every verb of the command line is one call here (docs/api.md): ``ttmem.read("run.log")`` gives the ``Profile`` that
every question and report works on, ``ttmem.explain``, ``diff``, ``check``, ``run``, ``sweep``, ... answer with small
results that have ``to_json()``. Whatever goes wrong is a ``TtmemError``.
"""

from __future__ import annotations

import sys

# 'python -m ttmem' looks for every module in the working folder first, and this file is the first of ours that it runs:
# a typing.py or numpy.py that lies there is not to be imported.
if sys.argv[:1] == ["-m"] and sys.orig_argv[1:3] == ["-m", "ttmem"] and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]

from typing import TYPE_CHECKING

from ttmem._version import __version__
from ttmem.base.errors import TtmemError
from ttmem.base.lazy import lazy_names

if TYPE_CHECKING:
    from ttmem.commands.library.boards import boards
    from ttmem.commands.library.check import check
    from ttmem.commands.library.diff import diff
    from ttmem.commands.library.explain import explain
    from ttmem.commands.library.export import export
    from ttmem.commands.library.fit import fit
    from ttmem.commands.library.replay import replay
    from ttmem.commands.library.run import run
    from ttmem.commands.library.sweep import sweep
    from ttmem.commands.library.tensor import tensor
    from ttmem.commands.library.test import test
    from ttmem.commands.library.tune import tune
    from ttmem.commands.library.whatif import whatif
    from ttmem.commands.read import read
    from ttmem.prediction.chunks import chunked
    from ttmem.prediction.guard import guard
    from ttmem.profile.model import Profile

__all__ = [
    "Profile",
    "TtmemError",
    "__version__",
    "boards",
    "check",
    "chunked",
    "diff",
    "explain",
    "export",
    "fit",
    "guard",
    "read",
    "replay",
    "run",
    "sweep",
    "tensor",
    "test",
    "tune",
    "whatif",
]

# Where the public names live that would pull in numpy: `import ttmem` stays cheap, also for a shell completion.
_HOMES = {
    "Profile": "profile.model",
    "chunked": "prediction.chunks",
    "guard": "prediction.guard",
    "read": "commands.read",
} | {
    name: f"commands.library.{name}"
    for name in (
        *("boards", "check", "diff", "explain", "export", "fit", "replay", "run", "sweep", "tensor", "test", "tune"),
        "whatif",
    )
}
__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
