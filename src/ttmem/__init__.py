# SPDX-License-Identifier: Apache-2.0
"""ttmem: the memory workbench for Tenstorrent hardware.

Every verb of the command line is one call here (docs/api.md): ``ttmem.read("run.log")`` gives the ``Profile`` that
every question and report works on, ``ttmem.explain``, ``diff``, ``check``, ``run``, ``sweep``, ... answer with small
results that have ``to_json()``. Whatever goes wrong is a ``TtmemError``.
"""

from __future__ import annotations

import sys

# 'python -m ttmem' looks for every module in the working folder first, and this file is the first of ours that it runs:
# a typing.py or numpy.py in it must not be imported.
if sys.argv[:1] == ["-m"] and sys.orig_argv[1:3] == ["-m", "ttmem"] and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]

from typing import TYPE_CHECKING

from ttmem._version import __version__
from ttmem.base.errors import TtmemError
from ttmem.base.lazy import lazy_names

if TYPE_CHECKING:
    from ttmem.commands.boards import boards
    from ttmem.commands.check import check
    from ttmem.commands.diff import diff
    from ttmem.commands.explain import explain
    from ttmem.commands.export import export
    from ttmem.commands.fit import fit
    from ttmem.commands.read import read
    from ttmem.commands.replay import replay
    from ttmem.commands.run import run
    from ttmem.commands.sweep import sweep
    from ttmem.commands.tensor import tensor
    from ttmem.commands.test import test
    from ttmem.commands.tune import tune
    from ttmem.commands.whatif import whatif
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

# The modules of the public names, most of which need numpy: `import ttmem` stays cheap, also for a shell completion.
_HOMES = {name: f"commands.{name}" for name in __all__} | {
    "Profile": "profile.model",
    "chunked": "prediction.chunks",
    "guard": "prediction.guard",
}
__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
