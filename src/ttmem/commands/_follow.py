# SPDX-License-Identifier: Apache-2.0
"""Watching a log grow: one line on the terminal says where memory stands."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ttmem._errors import BadInputError
from ttmem.commands._output import note

if TYPE_CHECKING:
    from ttmem.library.sources import Located
    from ttmem.profile import Profile

_CLEAR_LINE = "\r\x1b[K"


def follow_to_the_end(located: Located, *, name: str | None, idle_seconds: float | None, quiet: bool) -> Profile:
    """The profile of a growing log when it has stopped growing, or when the user has seen enough."""
    from ttmem.readers import default_name
    from ttmem.readers.runtime_log._follow import follow

    if located.stored or located.path == "-":
        raise BadInputError("--follow needs a log file", hint="standard input is read to its end without --follow")
    watched = not quiet and sys.stderr.isatty()
    note(f"following {located.path}; Ctrl-C ends with the answer", quiet=quiet)
    profile = follow(
        located.path,
        name=name or default_name(located.path),
        on_update=_show_state if watched else None,
        idle_seconds=idle_seconds,
    )
    if watched:
        print(_CLEAR_LINE, end="", file=sys.stderr, flush=True)
    return profile


def _show_state(profile: Profile) -> None:
    from ttmem.analysis.amounts import megabytes, percent
    from ttmem.analysis.peaks import peaks

    parts = [f"{sum(map(len, profile.timelines)):,} operations"]
    parts += [
        f"{memory} {megabytes(peak.end_bytes_per_bank)} per bank, peak {megabytes(peak.peak_bytes_per_bank)}"
        f" ({percent(peak.peak_percent)})"
        for memory, peak in peaks(profile).items()
        if memory in ("DRAM", "L1")
    ]
    print(f"{_CLEAR_LINE}{' | '.join(parts)}", end="", file=sys.stderr, flush=True)
