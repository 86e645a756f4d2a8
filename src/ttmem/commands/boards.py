# SPDX-License-Identifier: Apache-2.0
"""``ttmem boards``: List the boards with their banks and memories, per ttnn release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.commands.command_line import verb
from ttmem.commands.options import bytes_option, json_option, output_option, release_option
from ttmem.commands.output import emit, json_text, looks

if TYPE_CHECKING:
    from ttmem.reports.boards import Boards


def boards(*names: str, release: str | None = None, l1_small: int = 0, trace_region: int = 0) -> Boards:
    """Return the named boards, or all that ttnn opens, with the bank sizes of a published ttnn release.

    ``l1_small`` (bytes per bank) and ``trace_region`` (bytes) are what the device is opened with. A board that the
    release was not measured on has no ``memories``.
    """
    from ttmem.hardware import BOARDS, DEFAULT_RELEASE, RELEASES, OpenSettings, open_board
    from ttmem.reports.boards import Boards, describe_board

    chosen = RELEASES.find(release) if release else DEFAULT_RELEASE
    settings = OpenSettings(l1_small_bytes=l1_small, trace_region_bytes=trace_region)
    measured = {name for name, _ in chosen.reserved}
    return Boards(
        chosen.name,
        tuple(
            describe_board(board, open_board(board, settings, chosen) if board.architecture.name in measured else None)
            for board in ([BOARDS.find(name) for name in names] or BOARDS)
        ),
    )


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
    from ttmem.reports import boards as boards_report

    found = boards(*names, **opening)
    emit(json_text(found) if as_json else boards_report.render_terminal(found, **looks(output)), output)
