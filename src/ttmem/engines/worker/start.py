# SPDX-License-Identifier: Apache-2.0
"""Started as a file by any interpreter: loads this folder as the package ``ttmem_worker`` and runs one of its jobs.

It also loads the modules of ttmem that it needs: free lists and the library's error messages. No folder is put on
``sys.path``: a user's script may have modules of the same names.
"""

import builtins
import importlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

NAME = "ttmem_worker"
JOBS = ("server", "script", "pytest_plugin")


_BUILTINS = dict(vars(builtins))


class _Loader(importlib.machinery.SourceFileLoader):
    """Gives our modules builtins of their own: a script may replace ``len`` or ``open`` globally."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code; its functions keep these builtins."""
        vars(module)["__builtins__"] = _BUILTINS
        super().exec_module(module)


def load() -> None:
    """Make ``import ttmem_worker.x`` and the modules shared with ttmem work without their folders on the path."""
    folder = Path(__file__).resolve().parent
    ours = (_Loader, importlib.machinery.SOURCE_SUFFIXES)
    sys.path_importer_cache[str(folder)] = importlib.machinery.FileFinder(str(folder), ours)
    _load("ttmem_error_messages", folder.parents[1] / "twin" / "error_messages.py")
    _load("ttmem_free_list", folder.parents[1] / "twin" / "free_list.py")
    _load(NAME, folder / "__init__.py")


def _load(name: str, file: Path) -> None:
    """Load a module, or a package by its ``__init__``."""
    search = [str(file.parent)] if file.name == "__init__.py" else None
    loader = _Loader(name, str(file))
    spec = importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=search)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def main() -> int:
    job, *words = sys.argv[1:]
    if job not in JOBS:
        raise SystemExit(f"no job '{job}'")
    # Python puts the folder of the file that it runs there, except with PYTHONSAFEPATH.
    sys.path[:] = [place for place in sys.path if Path(place) != Path(__file__).resolve().parent]
    load()
    status: int = importlib.import_module(f"{NAME}.{job}").main(words)
    return status


if __name__ == "__main__":
    raise SystemExit(main())  # a script may have replaced sys.exit
