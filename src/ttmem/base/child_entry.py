# SPDX-License-Identifier: Apache-2.0
"""Started as a file by an isolated interpreter (``_children.own_command``): runs ``main`` of a module of ttmem.

Isolated, the interpreter has nothing but the standard library and its own packages on its path, until it gets the path
of the process that started it. The package is loaded by its place, so the folder around it need not be on the path.
"""

import contextlib
import ctypes
import importlib
import importlib.util
import json
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """``child_entry.py SETTINGS WORDS...``."""
    settings = json.loads(sys.argv[1])
    end_with_parent(settings["parent"])
    sys.path[:] = settings["path"]
    _load_ttmem()
    if settings["sandbox"] is not None:
        from ttmem.base import file_sandbox

        file_sandbox.FileSandbox.decode(settings["sandbox"]).activate()
    status: int = importlib.import_module(settings["module"]).main(sys.argv[2:])
    return status


def end_with_parent(parent: int) -> None:
    """End this process when the one that started it ends, however that ends: an orphan has no reader."""
    with contextlib.suppress(OSError, AttributeError):  # Linux has it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _load_ttmem() -> None:
    folder = Path(__file__).resolve().parents[1]
    spec = importlib.util.spec_from_file_location(
        "ttmem", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["ttmem"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    sys.exit(main())
