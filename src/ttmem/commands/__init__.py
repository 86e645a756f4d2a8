# SPDX-License-Identifier: Apache-2.0
"""The command line: a file per verb, with its public typed call and its command."""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run ttmem and return its exit code; imported on use, so that a call from Python loads one verb alone."""
    from ttmem.commands.program import main as run

    return run(argv)
