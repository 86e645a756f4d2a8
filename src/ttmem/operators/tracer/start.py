# SPDX-License-Identifier: Apache-2.0
"""Started as a file by any interpreter: loads this folder as the package ``ttmem_tracer`` and answers jobs.

The folder must not be put on ``sys.path``: a user's model may have modules of the same names.
"""

import importlib
import importlib.util
import sys
from pathlib import Path

NAME = "ttmem_tracer"


def main() -> int:
    """Load the package and hand over."""
    sys.path.pop(0)  # our own folder, which Python puts there for the file it runs
    folder = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    spec.loader.exec_module(module)
    status: int = importlib.import_module(f"{NAME}.server").main()
    return status


if __name__ == "__main__":
    sys.exit(main())
