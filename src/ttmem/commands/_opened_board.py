# SPDX-License-Identifier: Apache-2.0
"""Options that say which board is opened and how, for the verbs that ask the twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Function = TypeVar("_Function", bound=Callable[..., Any])
_BYTES = click.IntRange(min=0)


def opening_options(function: _Function) -> _Function:
    """`--release`, `--like` and the arguments of `open_device` that move memory; the defaults are the library's."""
    for option in reversed(
        (
            click.option("--release", metavar="VERSION", help="Bank sizes of this ttnn release (default: the newest)."),
            click.option(
                "--like",
                metavar="LOG|MESSAGE",
                help="Bank sizes as in this log, capture or out-of-memory message: builds differ.",
            ),
            click.option("--l1-small", type=_BYTES, metavar="BYTES", help="l1_small_size per bank (default 0)."),
            click.option("--trace-region", type=_BYTES, metavar="BYTES", help="trace_region_size (default 0)."),
            click.option("--worker-l1", type=_BYTES, metavar="BYTES", help="worker_l1_size (default: the release's)."),
            click.option(
                "--dispatch",
                type=click.Choice(["row", "col", "eth"]),
                help="Where dispatch runs (default: the board's).",
            ),
        )
    ):
        function = option(function)
    return function
