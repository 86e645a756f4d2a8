# SPDX-License-Identifier: Apache-2.0
"""``ttmem boards``: The boards, their banks and memories, per ttnn release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.commands._options import output_option
from ttmem.commands._output import emit, json_text
from ttmem.commands._runner import verb

if TYPE_CHECKING:
    from ttmem.hardware import Board, MemoryMap, Release

_EXAMPLES = """
ttmem boards
ttmem boards n150 p150
ttmem boards --l1-small 32768 --release 0.75.0
ttmem boards --json
"""
_MIB = 1 << 20


@verb("boards", examples=_EXAMPLES)
@click.argument("names", nargs=-1, metavar="[BOARD]...")
@click.option("--release", metavar="VERSION", help="Bank sizes of this ttnn release (default: the newest).")
@click.option("--l1-small", type=click.IntRange(min=0), default=0, metavar="BYTES", help="l1_small_size per bank.")
@click.option("--trace-region", type=click.IntRange(min=0), default=0, metavar="BYTES", help="trace_region_size.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@output_option
def command(
    names: tuple[str, ...],
    release: str | None,
    l1_small: int,
    trace_region: int,
    as_json: bool,
    output: Path | None,
) -> None:
    """The memories of every BOARD that ttnn opens, per chip: banks, bytes per bank, compute grid.

    The sizes are those of the published ttnn wheels. A build of your own differs a little: 'ttmem tensor --like' and
    'ttmem replay --like' take them from a log or an error message.
    """
    from ttmem.hardware import BOARDS, DEFAULT_RELEASE, RELEASES, OpenSettings, open_board

    chosen = RELEASES.find(release) if release else DEFAULT_RELEASE
    boards = [BOARDS.find(name) for name in names] or list(BOARDS)
    settings = OpenSettings(l1_small_bytes=l1_small, trace_region_bytes=trace_region)
    measured = {name for name, _ in chosen.reserved}
    maps = {b.name: open_board(b, settings, chosen) for b in boards if b.architecture.name in measured}
    if as_json:
        document = {"release": chosen.name, "boards": [_document(b, maps.get(b.name)) for b in boards]}
        emit(json_text(document), output)
    else:
        emit(_table(boards, maps, chosen), output)


def _document(board: Board, memory_map: MemoryMap | None) -> dict[str, Any]:
    architecture = board.architecture
    return {
        "name": board.name,
        "description": board.description,
        "architecture": architecture.name,
        "chips": board.chips,
        "mesh": list(board.mesh),
        "grid": [board.grid().columns, board.grid().rows],
        "dispatch": {name: [grid.columns, grid.rows] for name, grid in board.grids},
        "default_dispatch": board.default_dispatch,
        "dram_alignment_bytes": architecture.dram_alignment_bytes,
        "l1_alignment_bytes": architecture.l1_alignment_bytes,
        "allocation_quantum_bytes": architecture.quantum_bytes,
        "l1_bytes_per_core": architecture.l1_bytes_per_core,
        "max_circular_buffers_per_core": architecture.max_circular_buffers_per_core,
        "runs_operations": board.runs_operations,
        "memories": None
        if memory_map is None
        else {
            pool.memory.name: {
                "banks": pool.banks,
                "bytes_per_bank": pool.bytes_per_bank,
                "base_address": pool.base_address,
                "bytes": pool.total_bytes,
            }
            for pool in memory_map.pools
        },
    }


def _table(boards: list[Board], maps: dict[str, MemoryMap], release: Release) -> str:
    head = ("board", "chips", "grid", "DRAM per chip", "L1 per chip", "")
    rows = [head]
    for board in boards:
        memory_map = maps.get(board.name)
        if memory_map is None:
            rows.append((board.name, str(board.chips), str(board.grid()), "not measured", "", board.description))
            continue
        dram, l1 = memory_map.dram, memory_map.l1
        rows.append(
            (
                board.name,
                str(board.chips),
                str(memory_map.grid),
                f"{dram.banks:>2} x {dram.bytes_per_bank:>13,} B = {dram.total_bytes / _MIB:>9,.1f} MB",
                f"{l1.banks:>3} x {l1.bytes_per_bank:>9,} B = {l1.total_bytes / _MIB:>6,.1f} MB",
                board.description,
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", f"Bank sizes of {release}; MB is 2^20 bytes."])
