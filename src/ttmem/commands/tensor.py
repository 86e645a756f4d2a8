# SPDX-License-Identifier: Apache-2.0
"""``ttmem tensor``: Compute what a tensor needs on each board: pages, padding, bytes per bank."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.base.errors import BadInputError
from ttmem.commands.command_line import verb
from ttmem.commands.options import json_option, opening_options, output_option
from ttmem.commands.output import color_wanted, emit, json_text, warn
from ttmem.commands.requested_board import open_requested_board

if TYPE_CHECKING:
    from ttmem.hardware import MemoryMap
    from ttmem.reports.tensor import TensorCost
    from ttmem.twin.placement import Placement
    from ttmem.twin.tensor_spec import TensorSpec


def tensor(
    shape: str | Sequence[int],
    dtype: str = "bfloat16",
    layout: str = "tile",
    memory: str | None = None,
    *,
    board: str | None = None,
    shard: str | None = None,
    **opening: Any,
) -> TensorCost:
    """Return the bytes per bank of a tensor, the padding in them, and whether an empty board could hold it.

    ``shape`` is ``"1x96x2176x1920"`` or a sequence; ``shard`` is ``"height:64x512@8x8"``, also ``width:``, ``block:``
    and ``nd:``; ``memory`` is DRAM, or L1 with a shard. Without ``board`` (or with ``"all"``) it is n150, and the
    others are listed next to it. ``opening`` are the arguments of ``open_requested_board``: ``release``, ``like``,
    ``l1_small``, .... A spec that the library would refuse raises ``TtmemError`` with the library's reason.
    """
    from ttmem.hardware import DATA_TYPES, MEMORIES
    from ttmem.reports.tensor import build_document
    from ttmem.twin.padding import explain_padding
    from ttmem.twin.placement import place
    from ttmem.twin.tensor_spec import LAYOUTS, TensorSpec, parse_shape, parse_shard

    chosen = None if board == "all" else board
    memory_map = open_requested_board(chosen, **opening)
    spec = TensorSpec(
        parse_shape(shape) if isinstance(shape, str) else tuple(shape),
        DATA_TYPES.find(dtype),
        LAYOUTS.find(layout),
        MEMORIES.find(memory or ("L1" if shard else "DRAM")),
        parse_shard(shard) if shard else None,
    )
    others = [] if chosen or opening.get("like") else list(_place_on_other_boards(spec, memory_map, opening))
    return build_document(place(spec, memory_map), explain_padding(spec, memory_map), memory_map, others, shard)


def _place_on_other_boards(
    spec: TensorSpec, here: MemoryMap, opening: dict[str, Any]
) -> Iterator[tuple[MemoryMap, Placement]]:
    """Yield the same tensor on every other board where it is legal."""
    from ttmem.hardware import BOARDS
    from ttmem.twin.placement import place

    for board in BOARDS:
        if board.name == here.board_name:
            continue
        try:
            memory_map = open_requested_board(board.name, **opening)
            yield memory_map, place(spec, memory_map)
        except BadInputError:  # no such dispatch there, not measured for the release, or a grid that is too large
            continue


@verb("""
ttmem tensor 1x96x2176x1920
ttmem tensor 160x100x512x1x1 --memory L1 --board p150
ttmem tensor 512x512 --shard height:64x512@8x8
ttmem tensor 1x1x33x70 --dtype bfloat8_b --json
ttmem tensor 1x1024x1024 --like "$(tail -50 failed.log)"
""")
@click.argument("shape")
@click.option("--dtype", default="bfloat16", show_default=True, help="Data type, as ttnn or MLIR spell it.")
@click.option("--layout", default="tile", show_default=True, help="tile or row_major.")
@click.option("--memory", help="DRAM, L1, L1_SMALL or TRACE (default DRAM; L1 with --shard).")
@click.option("--board", help="The board (default n150, with all others listed).")
@click.option(
    "--shard",
    metavar="SHARD",
    help="height:64x512@8x8[:col]: shard shape and grid; also width:, block: and nd:[..:grid_2d].",
)
@opening_options
@json_option
@output_option
def command(shape: str, as_json: bool, output: Path | None, **spec: Any) -> int:
    """Compute the bytes per bank of a tensor of SHAPE (1x96x2176x1920), its padding, and whether it fits.

    Exit 1 when an empty board could not hold it. A layout or permutation that takes less is named.
    """
    from ttmem.reports import tensor as tensor_report

    cost = tensor(shape, **spec)
    for text in cost.warnings:
        warn(text)
    emit(json_text(cost) if as_json else tensor_report.render_terminal(cost, color=color_wanted(sys.stdout)), output)
    return 0 if cost.fits else 1
