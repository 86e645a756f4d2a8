# SPDX-License-Identifier: Apache-2.0
"""``ttmem diff``: What grew from one profile to another, and which operation did it."""

from __future__ import annotations

from pathlib import Path

import click

from ttmem.commands._options import jobs_option, output_option, quiet_option, refuse_overwriting, source_argument
from ttmem.commands._output import emit, json_text, note
from ttmem.commands._runner import verb

_EXAMPLES = """
ttmem diff before.log after.log
ttmem diff nightly today.log --fail-on 5%
ttmem diff before.log after.log --json -o diff.json
"""


@verb("diff", examples=_EXAMPLES)
@source_argument("a")
@source_argument("b")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option(
    "--fail-on",
    metavar="GROWTH",
    help="Exit 1 when the peak of any memory grew by more than this: 5%, 0.05 or 20MiB per bank.",
)
@output_option
@jobs_option
@quiet_option
def command(
    a: str, b: str, as_json: bool, fail_on: str | None, output: Path | None, jobs: int | None, quiet: bool
) -> int:
    """What grew from A to B: which memory, which tensor, and the operation that made it.

    A and B are sources as for 'ttmem profile': logs, saved profiles or names of stored reports. Nothing is stored.
    """
    from ttmem.analysis.budget import PERCENT, parse_limit
    from ttmem.analysis.diff import diff
    from ttmem.commands import _reading
    from ttmem.library import sources as _sources
    from ttmem.reports.diff import document as diff_document
    from ttmem.reports.diff import terminal as diff_terminal

    limit = parse_limit(fail_on) if fail_on is not None else None
    for source in (a, b):
        refuse_overwriting(_sources.locate(source).path, output)
    before, after = (_reading.read(source, jobs=jobs, quiet=quiet) for source in (a, b))
    found = diff(before, after)
    regression = limit is not None and found.grows_over(limit.amount, in_percent=limit.unit == PERCENT)
    answer = json_text(diff_document.document(found, regression)) if as_json else diff_terminal.render(found)
    emit(answer, output)
    if regression:
        note(f"regression: a peak grew by more than {limit}", quiet=quiet)
    return 1 if regression else 0
