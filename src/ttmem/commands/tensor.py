# SPDX-License-Identifier: Apache-2.0
"""``ttmem tensor``: Compute what a tensor needs on each board: pages, padding, bytes per bank."""

import sys
from pathlib import Path
from typing import Any

import click

from ttmem.commands.options import json_option, opening_options, output_option
from ttmem.commands.output import color_wanted, emit, json_text, warn
from ttmem.commands.command_line import verb


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
    from ttmem.commands.library.tensor import tensor
    from ttmem.reports.tensor import terminal

    cost = tensor(shape, **spec)
    for text in cost.warnings:
        warn(text)
    emit(json_text(cost) if as_json else terminal.render(cost, color=color_wanted(sys.stdout)), output)
    return 0 if cost.fits else 1
