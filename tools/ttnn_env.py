# SPDX-License-Identifier: Apache-2.0
"""Make (or find) an interpreter that has the pinned ttnn, and print its path.

    python tools/ttnn_env.py            # prints .../device/bin/python, installs on the first call
    python tools/ttnn_env.py --check    # prints the path if it is there already, else exits 3

The same as `ttmem device install`, for the Makefile and for tests: it needs ttmem's sources beside it, not installed.
Exit 0: the path is on stdout. Exit 3: no suitable interpreter, or the install failed; see stderr.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from ttmem import TtmemError
from ttmem.engines.install import find_installed, install
from ttmem.engines.interpreters import PINNED_TTNN, locate_managed_folder


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=f"An interpreter with ttnn {PINNED_TTNN}: find it or make it.")
    parser.add_argument("--check", action="store_true", help="only look, do not install")
    options = parser.parse_args()
    if options.check:
        found = find_installed()
        if found is None:
            say(f"no ttnn {PINNED_TTNN} in {locate_managed_folder()}; 'python tools/ttnn_env.py' installs it")
            return 3
    else:
        try:
            found = install(say=say).interpreter
        except TtmemError as error:
            say(f"{error}\n  hint: {error.hint}" if error.hint else str(error))
            return error.exit_code
    print(found.path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
