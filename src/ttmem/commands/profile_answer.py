# SPDX-License-Identifier: Apache-2.0
"""Shared by the verbs that answer with a Profile: read it with a progress bar, render, store, print the next step."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttmem.base.errors import BadInputError, TtmemError
from ttmem.commands.options import refuse_overwriting
from ttmem.commands.output import columns, emit, json_text, looks, note, progress_bar, say, warn
from ttmem.commands.read import read

if TYPE_CHECKING:
    from ttmem.profile.model import Profile
    from ttmem.profile.store import StoredReport
    from ttmem.readers.sources import Located
    from ttmem.reports.suite_document import SuiteRun

_CLEAR_LINE = "\r\x1b[K"


def protect_sources(*sources: str | None, outputs: tuple[Path | None, ...]) -> None:
    """Find the sources before anything is read, and refuse outputs that would overwrite one of them."""
    from ttmem.readers.sources import locate

    for source in sources:
        if source is not None:
            refuse_overwriting(locate(source).path, *outputs)


def read_with_progress(source: str, *, quiet: bool, **options: Any) -> Profile:
    """Call ``ttmem.read`` with a progress bar."""
    with progress_bar(f"reading {source}", quiet=quiet) as progress:
        return read(source, progress=progress, **options)


def follow_log(located: Located, *, name: str | None, idle_seconds: float | None, quiet: bool) -> Profile:
    """Return the profile of a growing log when it has stopped growing or the user presses Ctrl-C."""
    from ttmem.readers import default_name
    from ttmem.readers.runtime_log.reader import follow
    from ttmem.readers.sources import STDIN

    if located.stored or located.path == STDIN:
        raise BadInputError("--follow needs a log file", hint="standard input is read to its end without --follow")
    watched = not quiet and sys.stderr.isatty()
    note(f"following {located.path}; Ctrl-C ends with the answer", quiet=quiet)
    profile = follow(
        located.path,
        name=name or default_name(located.path),
        on_update=_print_state if watched else None,
        idle_seconds=idle_seconds,
    )
    if watched:
        say("", before=_CLEAR_LINE, end="")
    return profile


def _print_state(profile: Profile) -> None:
    """Print one line with the current memory use."""
    from ttmem.analysis.peaks import peaks
    from ttmem.base.formatting import format_mib, format_percent

    parts = [f"{sum(map(len, profile.timelines)):,} operations"]
    parts += [
        f"{memory} {format_mib(peak.end_bytes_per_bank)} per bank, peak {format_mib(peak.peak_bytes_per_bank)}"
        f" ({format_percent(peak.peak_percent)})"
        for memory, peak in peaks(profile).items()
        if memory in ("DRAM", "L1")
    ]
    # A line that wraps cannot be cleared, and the next one would appear below it.
    say(" | ".join(parts)[: columns() - 1], before=_CLEAR_LINE, end="")


def render_profile(profile: Profile, form: str | None, output: Path | None = None) -> str:
    """Render the profile as ``json``, ``llm``, ``csv`` or ``html``; None is the terminal's own form."""
    if form == "json":
        from ttmem.reports.profile_document import build_document

        return json_text(build_document(profile))  # not to_json: of hundreds of thousands of runs a copy less
    if form is None:
        from ttmem.reports import profile_text

        return profile_text.render_terminal(profile, **looks(output))
    if form == "llm":
        from ttmem.reports.profile_text import render_markdown as render
    elif form == "csv":
        from ttmem.reports.profile_timeline import render_csv as render
    else:
        from ttmem.reports.profile_files import render_html as render
    return render(profile)


def print_answer(
    profile: Profile,
    form: str | None,
    *,
    html_path: Path | None,
    output: Path | None,
    quiet: bool,
    store: Callable[[], StoredReport | None],
) -> StoredReport | None:
    """Print the answer and write the page; what cannot be rendered is not stored either."""
    answer = render_profile(profile, form, output)
    page = render_profile(profile, "html") if html_path else ""
    kept = store()
    if html_path:
        emit(page, html_path)
    emit(answer, output)
    for path in filter(None, (output, html_path)):
        note(f"wrote {path}", quiet=quiet)
    return kept


def try_store(store: Callable[[], StoredReport | None]) -> StoredReport | None:
    """Store a report; when the home folder cannot be written to, warn and go on with the answer."""
    try:
        return store()
    except (OSError, TtmemError) as error:
        warn(f"the report was not stored: {error}; TTMEM_HOME says where, --no-store switches it off")
        return None


def store_profile(
    profile: Profile, *, origin: str, name: str | None = None, tests: SuiteRun | None = None
) -> StoredReport:
    """Store a profile with its reports; ``tests`` are the tests of a suite.

    ``origin`` is the resolved path that was read. With an empty origin, as of standard input, only equal content counts
    as the same source.
    """
    import hashlib

    from ttmem.profile import profile_file, store
    from ttmem.reports import profile_files

    if not origin:
        content = profile_file.encode(profile.rename(""))
        origin = f"content:{hashlib.blake2b(content, digest_size=16).hexdigest()}"
    return store.keep(
        lambda chosen: profile_files.build_files(profile.rename(chosen), tests),
        profile_files.list_facts(profile),
        origin=origin,
        suggested_name=profile.name,
        name=name,
    )


def print_next_command(
    profile: Profile, report: StoredReport | None, *, quiet: bool, stored_now: bool = True, check: bool = False
) -> None:
    """Print where the report was stored, and the command to run next."""
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
