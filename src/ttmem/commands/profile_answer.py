# SPDX-License-Identifier: Apache-2.0
"""What the verbs that answer with a Profile share: reading with a progress bar, rendering, storing, the next step."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttmem.base.errors import BadInputError, TtmemError
from ttmem.commands import keep_profile
from ttmem.commands.options import refuse_overwriting
from ttmem.commands._progress import progress_bar
from ttmem.commands.output import color_wanted, columns, emit, json_text, note, say, warn
from ttmem.commands.read import read as _read
from ttmem.readers.sources import STDIN, Located, locate

if TYPE_CHECKING:
    from ttmem.profile.model import Profile
    from ttmem.profile.store import StoredReport

_FORMATS = {"llm": "markdown", "csv": "csv", "html": "html"}
_CLEAR_LINE = "\r\x1b[K"


def protect(*given: str | None, outputs: tuple[Path | None, ...]) -> None:
    """Find the sources, before anything is read, and refuse outputs that would land on one of them."""
    for source in given:
        if source is not None:
            refuse_overwriting(locate(source).path, *outputs)


def read(source: str, *, quiet: bool, **options: Any) -> Profile:
    """``ttmem.read`` with a progress bar."""
    with progress_bar(f"reading {source}", quiet=quiet) as progress:
        return _read(source, progress=progress, **options)


def follow_to_the_end(located: Located, *, name: str | None, idle_seconds: float | None, quiet: bool) -> Profile:
    """The profile of a growing log when it has stopped growing, or when the user has seen enough."""
    from ttmem.readers import default_name
    from ttmem.readers.runtime_log.tail import follow

    if located.stored or located.path == STDIN:
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
        say("", before=_CLEAR_LINE, end="")
    return profile


def _show_state(profile: Profile) -> None:
    """One line on the terminal says where memory stands."""
    from ttmem.analysis.peaks import peaks
    from ttmem.base.formatting import megabytes, percent

    parts = [f"{sum(map(len, profile.timelines)):,} operations"]
    parts += [
        f"{memory} {megabytes(peak.end_bytes_per_bank)} per bank, peak {megabytes(peak.peak_bytes_per_bank)}"
        f" ({percent(peak.peak_percent)})"
        for memory, peak in peaks(profile).items()
        if memory in ("DRAM", "L1")
    ]
    # A line that wraps cannot be cleared, and the next one would stand below it.
    say(" | ".join(parts)[: columns() - 1], before=_CLEAR_LINE, end="")


def render(profile: Profile, form: str | None, *, to_file: bool) -> str:
    """The profile in one of the formats; the terminal's own when none was asked for."""
    if form == "json":
        from ttmem.reports.profile.document import document

        return json_text(document(profile))  # not to_json: of hundreds of thousands of runs a copy less
    if form is not None:
        report = import_module(f"ttmem.reports.profile.{_FORMATS[form]}")
        text: str = report.render(profile)
        return text
    from ttmem.reports.profile import terminal

    return terminal.render(profile, width=columns(), color=not to_file and color_wanted(sys.stdout))


def deliver(
    profile: Profile,
    form: str | None,
    *,
    html_path: Path | None,
    output: Path | None,
    quiet: bool,
    store: Callable[[], StoredReport | None],
) -> StoredReport | None:
    """Print the answer and write the page; what cannot be rendered is not stored either."""
    answer = render(profile, form, to_file=output is not None)
    page = render(profile, "html", to_file=True) if html_path else ""
    kept = store()
    if html_path:
        emit(page, html_path)
    emit(answer, output)
    for path in filter(None, (output, html_path)):
        note(f"wrote {path}", quiet=quiet)
    return kept


def keep(profile: Profile, located: Located, *, name: str | None) -> StoredReport | None:
    """Store the profile. A home that cannot be written to costs the copy, not the answer."""
    try:
        return keep_profile.keep(profile, origin=located.origin, name=name)
    except (OSError, TtmemError) as error:
        warn(f"the report was not stored: {error}; TTMEM_HOME says where, --no-store switches it off")
        return None


def say_what_next(
    profile: Profile, report: StoredReport | None, *, quiet: bool, stored_now: bool = True, check: bool = False
) -> None:
    """Where the report went, and the command that one would type next."""
    if report is None:
        return
    if stored_now:
        note(f"stored as '{report.name}' in {report.folder}", quiet=quiet)
    from ttmem.analysis.failure import failure

    failed = failure(profile) if any(timeline.failures for timeline in profile.timelines) else None
    if failed is not None and failed.failure_class != "none":
        words = f"explain {report.name}"
    else:
        words = f"check {report.name} --max-dram 80%" if check else f"profile {report.name} --llm"
    note(f"next: ttmem {words}", quiet=quiet)
