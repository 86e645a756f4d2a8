# SPDX-License-Identifier: Apache-2.0
"""``ttmem diff``: Compare two profiles: what grew, and which operation caused it."""

from pathlib import Path
from typing import Any

import click

from ttmem.commands.options import file_option, jobs_option, json_option, one_of, output_option, quiet_option, source_argument
from ttmem.commands.output import emit, json_text, looks, note
from ttmem.commands.command_line import verb


@verb("""
ttmem diff before.log after.log
ttmem diff nightly today.log --fail-on 5%
ttmem diff before.log after.log --llm
ttmem diff before.log after.log --json -o diff.json
ttmem diff before.log after.log --html compare.html
""")
@source_argument("before")
@source_argument("after")
@json_option
@click.option("--llm", "as_llm", is_flag=True, help="Compact Markdown for an LLM agent, at most 8,000 tokens.")
@click.option(
    "--fail-on",
    metavar="GROWTH",
    help="Exit 1 when the peak of any memory grew by more than this: 5%, 0.05 or 20MiB per bank.",
)
@file_option("--html", "html_path", help="Also write both profiles over one another as one offline page.")
@output_option
@jobs_option
@quiet_option
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
    import ttmem
    from ttmem.commands import profile_answer
    from ttmem.commands._progress import progress_bar
    from ttmem.reports.diff import markdown, terminal

    form = one_of(json=as_json, llm=as_llm)
    profile_answer.protect(before, after, outputs=(output, html_path))
    with progress_bar(f"reading {before} and {after}", quiet=quiet) as progress:
        found = ttmem.diff(before, after, progress=progress, **settings)
    if html_path:
        emit(found.to_html(), html_path)
    if form == "json":
        emit(json_text(found.to_json()), output)
    elif form == "llm":
        emit(markdown.render(found.changes, regression=found.regression), output)
    else:
        emit(terminal.render(found.changes, **looks(output)), output)
    if html_path:
        note(f"wrote {html_path}", quiet=quiet)
    if found.regression:
        note(f"regression: a peak grew by more than {found.limit}", quiet=quiet)
    return 1 if found.regression else 0
