# SPDX-License-Identifier: Apache-2.0
"""Options that mean the same in every verb."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ttmem.commands._known import SOURCE

_Function = TypeVar("_Function", bound=Callable[..., Any])


def writable_place(_: click.Context, __: click.Parameter, value: str | None) -> Path | None:
    """A callback for options that name a file to write: a place that cannot be is refused before the work is done."""
    if value is None or value == "-":
        return None
    from ttmem._atomic import check_target

    check_target(Path(value))
    return Path(value)


def product_place(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """The same for a file that is the verb's very purpose and not a copy of its answer: agents may name it too."""
    return writable_place(ctx, param, value)


def output_option(function: _Function) -> _Function:
    """``-o FILE``."""
    option = click.option(
        "-o",
        "--output",
        callback=writable_place,
        metavar="FILE",
        help="Write there, atomically, instead of to stdout (-).",
    )
    return option(function)


def quiet_option(function: _Function) -> _Function:
    """``-q``."""
    return click.option("-q", "--quiet", is_flag=True, help="No notes and no progress on stderr.")(function)


def jobs_option(function: _Function) -> _Function:
    """``--jobs N``."""
    option = click.option(
        "-j",
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Processes that read a large log (default: as pays).",
    )
    return option(function)


def source_argument(name: str) -> Callable[[_Function], _Function]:
    """A SOURCE: completed from files and stored reports."""
    return click.argument(name, metavar=name.upper(), type=SOURCE)


def refuse_overwriting(source: str | Path, *outputs: Path | None) -> None:
    """A log took hours of a card to make: no output may land on the source, nor two outputs on one file."""
    places = [Path(os.path.realpath(place)) for place in (source, *outputs) if place is not None and str(place) != "-"]
    doubled = next((place for place in places if places.count(place) > 1), None)
    if doubled and (doubled.is_file() or not doubled.exists()):  # /dev/null and pipes may be named twice
        raise click.UsageError(f"'{doubled}' would be overwritten by another output, or is the source itself")


def one_of(**flags: bool) -> str | None:
    """Which of several exclusive flags was given."""
    given = [name for name, wanted in flags.items() if wanted]
    if len(given) > 1:
        raise click.UsageError(f"choose one of {' and '.join('--' + name for name in given)}")
    return given[0] if given else None
