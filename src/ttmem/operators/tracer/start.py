# SPDX-License-Identifier: Apache-2.0
"""Started as a file by any interpreter: loads this folder as the package ``ttmem_tracer`` and answers jobs.

The folder must not be put on ``sys.path``: a user's model may have modules of the same names.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

NAME = "ttmem_tracer"


def main() -> int:
    """Load the package and hand over."""
    folder = Path(__file__).resolve().parent
    # Python puts the folder of the file that it runs there, unless PYTHONSAFEPATH forbids it.
    sys.path[:] = [place for place in sys.path if Path(place) != folder]
    _load("ttmem_child_start", folder.parents[1] / "base/child_entry.py", None).end_with_parent(int(sys.argv[1]))
    _load(NAME, folder / "__init__.py", [str(folder)])
    status: int = importlib.import_module(f"{NAME}.server").main()
    return status


def _load(name: str, file: Path, search: list[str] | None) -> Any:
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=search)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
