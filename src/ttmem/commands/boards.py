# SPDX-License-Identifier: Apache-2.0
"""``ttmem boards``: List the boards with their banks and memories, per ttnn release."""

from pathlib import Path
from typing import Any

import click

from ttmem.commands.options import bytes_option, json_option, output_option, release_option
from ttmem.commands.output import emit, json_text, looks
from ttmem.commands.command_line import verb


@verb("""
ttmem boards
ttmem boards n150 p150
ttmem boards --l1-small 32768 --release 0.75.0
ttmem boards --json
""")
@click.argument("names", nargs=-1, metavar="[BOARD]...")
@release_option
@bytes_option("--l1-small", "l1_small_size per bank.", default=0)
@bytes_option("--trace-region", "trace_region_size.", default=0)
@json_option
@output_option
def command(names: tuple[str, ...], as_json: bool, output: Path | None, **opening: Any) -> None:
    """List the memories of every BOARD that ttnn opens, per chip: banks, bytes per bank, compute grid.

    The sizes are those of the published ttnn wheels. A build of your own differs a little: 'ttmem tensor --like' and
    'ttmem replay --like' take them from a log or an error message.
    """
    from ttmem.commands.library.boards import boards
    from ttmem.reports.boards import terminal

    found = boards(*names, **opening)
    emit(json_text(found) if as_json else terminal.render(found, **looks(output)), output)
