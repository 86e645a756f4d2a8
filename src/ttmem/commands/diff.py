# SPDX-License-Identifier: Apache-2.0
"""``ttmem diff``: Compare two profiles: what grew, and which operation caused it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.commands import options
from ttmem.commands.command_line import verb
from ttmem.commands.output import emit, json_text, looks, note, progress_bar
from ttmem.commands.profile_answer import protect_sources
from ttmem.commands.read import Progress, Source, read

if TYPE_CHECKING:
    from ttmem.analysis.budget import Amount, Limit
    from ttmem.analysis.diff import MemoryDiff
    from ttmem.profile.model import Profile


@dataclass(frozen=True, slots=True)
class Difference:
    """The changes, and whether they are more than was allowed."""

    changes: MemoryDiff
    limit: Limit | None
    """The growth that ``fail_on`` allows; None when any growth is fine."""
    before: Profile
    after: Profile

    @property
    def regression(self) -> bool:
        """True when the peak of any memory grew by more than the limit."""
        from ttmem.analysis.budget import PERCENT

        limit = self.limit
        return limit is not None and self.changes.grows_over(limit.amount, in_percent=limit.unit == PERCENT)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``ttmem diff --json``."""
        from ttmem.reports.diff import build_document

        return build_document(self.changes, self.regression).to_json()

    def to_html(self) -> str:
        """Return the page of ``ttmem diff --html``: both profiles over one another."""
        from ttmem.reports.diff import render_html

        return render_html(self.before, self.after, self.changes, regression=self.regression)


def diff(
    before: Source,
    after: Source,
    *,
    fail_on: Amount | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Difference:
    """Compare two sources: which memory grew, which tensor, and the operation that made it.

    ``fail_on`` is the growth of a peak from which on it is a regression: ``"5%"``, ``0.05`` or bytes per bank.
    """
    from ttmem.analysis import budget
    from ttmem.analysis.diff import diff as compare

    limit = None if fail_on is None else budget.parse_limit(fail_on)  # refused before minutes of reading
    first, second = (read(source, jobs=jobs, progress=progress) for source in (before, after))
    changes = compare(first, second)
    if limit is not None:
        in_percent = limit.unit == budget.PERCENT
        doubts = changes.doubts(limit.amount, in_percent=in_percent)
        if doubts and not changes.surely_grows_over(limit.amount, in_percent=in_percent):
            raise budget.find_undecided(doubts)
    return Difference(changes, limit, first, second)


@verb("""
ttmem diff before.log after.log
ttmem diff nightly today.log --fail-on 5%
ttmem diff before.log after.log --llm
ttmem diff before.log after.log --json -o diff.json
ttmem diff before.log after.log --html compare.html
""")
@options.source_argument("before")
@options.source_argument("after")
@options.json_option
@click.option("--llm", "as_llm", is_flag=True, help="Compact Markdown for an LLM agent, at most 8,000 tokens.")
@click.option(
    "--fail-on",
    metavar="GROWTH",
    help="Exit 1 when the peak of any memory grew by more than this: 5%, 0.05 or 20MiB per bank.",
)
@options.file_option("--html", "html_path", help="Also write both profiles over one another as one offline page.")
@options.output_option
@options.jobs_option
@options.quiet_option
def command(
    before: str,
    after: str,
    as_json: bool,
    as_llm: bool,
    html_path: Path | None,
    output: Path | None,
    quiet: bool,
    **settings: Any,
) -> int:
    """Compare BEFORE and AFTER: which memory and which tensors grew, and the operation that made each.

    BEFORE and AFTER are sources as for 'ttmem profile': logs, saved profiles or names of stored reports. Nothing is
    stored. With --fail-on the exit status is 2 where figures that could change the answer cannot be read.
    """
    from ttmem.reports import diff as report

    form = options.choose_one(json=as_json, llm=as_llm)
    protect_sources(before, after, outputs=(output, html_path))
    with progress_bar(f"reading {before} and {after}", quiet=quiet) as progress:
        found = diff(before, after, progress=progress, **settings)
    if html_path:
        emit(found.to_html(), html_path)
    if form == "json":
        emit(json_text(found.to_json()), output)
    elif form == "llm":
        emit(report.render_markdown(found.changes, regression=found.regression), output)
    else:
        emit(report.render_terminal(found.changes, **looks(output)), output)
    if html_path:
        note(f"wrote {html_path}", quiet=quiet)
    if found.regression:
        note(f"regression: a peak grew by more than {found.limit}", quiet=quiet)
    return 1 if found.regression else 0
