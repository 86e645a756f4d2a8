# SPDX-License-Identifier: Apache-2.0
"""An interpreter with the ttnn that the tables under test are of, and processes of it that open mock boards.

    python tests/oracle/real.py BOARD SCRIPT [ARGUMENTS]

runs a script of ttnn on a mock board, under that interpreter.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ttmem import TtmemError
from ttmem.engines.interpreters import PINNED_TTNN, Interpreter, find_interpreter
from ttmem.engines.workspace import open_workspace


@functools.cache
def find_ttnn() -> tuple[Interpreter | None, str]:
    """The interpreter, or the reason why there is none."""
    try:
        found = find_interpreter()
    except TtmemError as error:
        return None, error.message
    if found.ttnn_version != PINNED_TTNN:
        return (
            None,
            f"{found.path} has ttnn {found.ttnn_version}, the bank tables under test are those of {PINNED_TTNN}",
        )
    return found, ""


@contextmanager
def mock_environment(interpreter: Interpreter, board: str) -> Iterator[dict[str, str]]:
    """Variables with which a process of that interpreter opens the mock of a board."""
    with open_workspace(interpreter, board=board) as place:
        yield place.build_environment(os.environ)


def main(board: str, *script: str) -> int:
    interpreter, reason = find_ttnn()
    if interpreter is None:
        sys.exit(reason)
    with mock_environment(interpreter, board) as environment:
        return subprocess.run([interpreter.path, *script], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
