# SPDX-License-Identifier: Apache-2.0
"""``ttmem sweep diff``: Compare two sweeps: which cases need more memory, newly fail or newly pass."""

from pathlib import Path

import click

from ttmem.commands.options import json_option, output_option
from ttmem.commands.output import emit, json_text, looks
from ttmem.commands.command_line import verb


@verb("""
ttmem sweep diff results-0.78.0 results
ttmem sweep diff before after --fail-on new-failure
ttmem sweep diff before after --fail-on growth:5% --json
""")
@click.argument("before", metavar="A", type=click.Path(path_type=Path))
@click.argument("after", metavar="B", type=click.Path(path_type=Path))
@click.option("--fail-on", metavar="WHAT", help="Exit 1 on new-failure, or on growth:5% of a peak (or a new failure).")
@json_option
@output_option
def command(before: Path, after: Path, fail_on: str | None, as_json: bool, output: Path | None) -> int:
    """Compare two folders of 'ttmem sweep run', case by case: which need more memory, newly fail or newly pass.

    Two releases of ttnn (sweep run --ttnn VERSION), two boards' builds, twin against mock, before and after a change.
    """
    from ttmem.commands.library.sweep_diff import sweep_diff
    from ttmem.reports.sweep_diff import terminal

    found = sweep_diff(before, after, fail_on=fail_on)
    emit(json_text(found) if as_json else terminal.render(found, **looks(output)), output)
    return 1 if found.regression else 0
