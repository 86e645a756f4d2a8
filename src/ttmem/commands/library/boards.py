# SPDX-License-Identifier: Apache-2.0
"""``ttmem.boards``: the memories of every board."""

from ttmem.hardware import BOARDS, DEFAULT_RELEASE, RELEASES, OpenSettings, open_board
from ttmem.reports.boards.document import Boards, board_facts


def boards(*names: str, release: str | None = None, l1_small: int = 0, trace_region: int = 0) -> Boards:
    """The boards of these names, or all that ttnn opens, with the bank sizes of a published ttnn release.

    ``l1_small`` (bytes per bank) and ``trace_region`` (bytes) are what the device is opened with. A board that the
    release was not measured on has no ``memories``.
    """
    chosen = RELEASES.find(release) if release else DEFAULT_RELEASE
    settings = OpenSettings(l1_small_bytes=l1_small, trace_region_bytes=trace_region)
    measured = {name for name, _ in chosen.reserved}
    return Boards(
        chosen.name,
        tuple(
            board_facts(board, open_board(board, settings, chosen) if board.architecture.name in measured else None)
            for board in ([BOARDS.find(name) for name in names] or BOARDS)
        ),
    )
