# SPDX-License-Identifier: Apache-2.0
"""``ttmem diff``: Compare two profiles: what grew, and which operation caused it."""

from pathlib import Path
from typing import Any

import click

from ttmem.commands._options import file_option, jobs_option, json_option, output_option, quiet_option, source_argument
from ttmem.commands._output import emit, json_text, looks, note
from ttmem.commands._runner import verb


@verb("""
ttmem diff before.log after.log
ttmem diff nightly today.log --fail-on 5%
ttmem diff before.log after.log --json -o diff.json
ttmem diff before.log after.log --html compare.html
""")
@source_argument("a")
@source_argument("b")
@json_option
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
    a: str, b: str, as_json: bool, html_path: Path | None, output: Path | None, quiet: bool, **settings: Any
) -> int:
    """Compare A and B: which memory and which tensors grew, and the operation that made each.

    A and B are sources as for 'ttmem profile': logs, saved profiles or names of stored reports. Nothing is stored.
    """
    import ttmem
    from ttmem.commands import _profiles
    from ttmem.commands._progress import progress_bar
    from ttmem.reports.diff import terminal

    _profiles.protect(a, b, outputs=(output, html_path))
    with progress_bar(f"reading {a} and {b}", quiet=quiet) as progress:
        found = ttmem.diff(a, b, progress=progress, **settings)
    if html_path:
        emit(found.to_html(), html_path)
    emit(json_text(found.to_json()) if as_json else terminal.render(found.changes, **looks(output)), output)
    if html_path:
        note(f"wrote {html_path}", quiet=quiet)
    if found.regression:
        note(f"regression: a peak grew by more than {found.limit}", quiet=quiet)
    return 1 if found.regression else 0
