# SPDX-License-Identifier: Apache-2.0
"""``ttmem tensor``: What a tensor needs on each board: pages, padding, bytes per bank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttmem.commands._opened_board import describe_opening, open_chosen, opening_document
from ttmem.commands._options import json_option, opening_options, output_option
from ttmem.commands._output import color_wanted, emit, json_text, warn
from ttmem.commands._runner import verb

if TYPE_CHECKING:
    from ttmem.hardware import MemoryMap
    from ttmem.tensors import PaddingExplanation, Placement, TensorSpec

_EXAMPLES = """
ttmem tensor 1x96x2176x1920
ttmem tensor 160x100x512x1x1 --memory L1 --board p150
ttmem tensor 512x512 --shard height:64x512@8x8
ttmem tensor 1x1x33x70 --dtype bfloat8_b --json
ttmem tensor 1x1024x1024 --like "$(tail -50 failed.log)"
"""
_MIB = 1 << 20
_BAR = 48
_PARTS = (("logical", "█", "32"), ("padding", "▓", "33"), ("alignment", "▒", "35"), ("lock step", "░", "36"))


@verb("tensor", examples=_EXAMPLES)
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
def command(
    shape: str,
    dtype: str,
    layout: str,
    memory: str | None,
    board: str | None,
    shard: str | None,
    as_json: bool,
    output: Path | None,
    **opening: Any,
) -> int:
    """What a tensor of SHAPE (1x96x2176x1920) takes of every bank, what of it is padding, and whether it fits.

    Exit 1 when an empty board could not hold it. A layout or permutation that takes less is named.
    """
    from ttmem.hardware import DATA_TYPES, MEMORIES
    from ttmem.tensors import LAYOUTS, TensorSpec, explain_padding, parse_shape, parse_shard, place

    chosen = None if board in (None, "all") else board
    memory_map = open_chosen(chosen, **opening)
    spec = TensorSpec(
        parse_shape(shape),
        DATA_TYPES.find(dtype),
        LAYOUTS.find(layout),
        MEMORIES.find(memory or ("L1" if shard else "DRAM")),
        parse_shard(shard) if shard else None,
    )
    placement = place(spec, memory_map)
    explanation = explain_padding(spec, memory_map)
    elsewhere = [] if chosen or opening["like"] else _elsewhere(spec, memory_map, **opening)
    for text in (*memory_map.warnings, *placement.warnings):
        warn(text)
    if as_json:
        emit(json_text(_document(placement, explanation, memory_map, elsewhere)), output)
    else:
        emit(_text(placement, explanation, memory_map, elsewhere), output)
    return 0 if placement.fits_empty else 1


def _elsewhere(spec: TensorSpec, here: MemoryMap, **opening: Any) -> list[tuple[MemoryMap, Placement]]:
    """The same tensor on the other boards, where it is legal at all."""
    from ttmem._errors import BadInputError
    from ttmem.hardware import BOARDS
    from ttmem.tensors import place

    found = []
    for board in BOARDS:
        if board.name == here.board_name:
            continue
        try:
            memory_map = open_chosen(board.name, **opening)
            found.append((memory_map, place(spec, memory_map)))
        except BadInputError:  # no such dispatch there, not measured for the release, or a grid that is too large
            continue
    return found


def _document(
    placement: Placement,
    explanation: PaddingExplanation,
    memory_map: MemoryMap,
    elsewhere: list[tuple[MemoryMap, Placement]],
) -> dict[str, Any]:
    spec = placement.spec
    return {
        **opening_document(memory_map),
        "shape": list(spec.shape),
        "dtype": spec.dtype.name,
        "layout": spec.layout.name,
        "memory": spec.memory.name,
        "logical_bytes": spec.logical_bytes,
        "padded_shape": list(placement.paging.padded_shape),
        "padded_bytes": placement.padded_bytes,
        "page_bytes": placement.paging.page_bytes,
        "aligned_page_bytes": placement.aligned_page_bytes,
        "pages": placement.paging.pages,
        "bytes_per_bank": placement.bytes_per_bank,
        "taken_bytes_per_bank": placement.taken_bytes_per_bank,
        "banks": placement.banks,
        "bank_bytes": memory_map.pool(spec.memory).bytes_per_bank,
        "total_bytes": placement.total_bytes,
        "padding_ratio": placement.padding_ratio,
        "fits": placement.fits_empty,
        "padding": {
            "aligned_bytes": explanation.aligned_bytes,
            "reserved_bytes": explanation.reserved_bytes,
            "dimensions": [
                {
                    "dimension": d.dimension,
                    "logical_size": d.logical_size,
                    "padded_size": d.padded_size,
                    "added_bytes": d.added_bytes,
                }
                for d in explanation.dimensions
            ],
        },
        "cheaper": [
            {
                "how": a.how,
                "shape": list(a.spec.shape),
                "order": None if a.order is None else list(a.order),
                "bytes_per_bank": a.bytes_per_bank,
                "saved_bytes_per_bank": a.saved_bytes_per_bank,
            }
            for a in explanation.alternatives
        ],
        "boards": [
            {
                "board": other.board_name,
                "bytes_per_bank": placed.bytes_per_bank,
                "banks": placed.banks,
                "bank_bytes": other.pool(spec.memory).bytes_per_bank,
                "fits": placed.fits_empty,
            }
            for other, placed in [(memory_map, placement), *elsewhere]
        ],
        "warnings": [*memory_map.warnings, *placement.warnings],
    }


def _text(
    placement: Placement,
    explanation: PaddingExplanation,
    memory_map: MemoryMap,
    elsewhere: list[tuple[MemoryMap, Placement]],
) -> str:
    spec, paging = placement.spec, placement.paging
    bank_bytes = memory_map.pool(spec.memory).bytes_per_bank
    share = 100 * placement.taken_bytes_per_bank / bank_bytes if bank_bytes else 0.0
    verdict = "fits an empty board" if placement.fits_empty else "DOES NOT FIT an empty board"
    padded = "x".join(map(str, paging.padded_shape))
    lines = [
        str(spec),
        _bar(explanation),
        "",
        f"padded shape    {padded}   ({placement.padding_ratio:,.2f} x the elements)",
        f"pages           {paging.pages:,} of {paging.page_bytes:,} B, {placement.aligned_page_bytes:,} B aligned",
        f"per bank        {placement.bytes_per_bank:,} B in {placement.banks} banks",
        f"of every bank   {placement.taken_bytes_per_bank:,} B of {bank_bytes:,} B: {share:.1f} %",
        f"{spec.memory.name:<15} {verdict}: {describe_opening(memory_map)}",
    ]
    lines += [
        f"dimension {d.dimension}    {d.logical_size} -> {d.padded_size} adds {_size(d.added_bytes)}"
        for d in explanation.dimensions
    ]
    for a in explanation.alternatives:
        how = f"permute {list(a.order)}" if a.order else {"row_major": "row_major layout"}.get(a.how, a.how)
        shape = "x".join(map(str, a.spec.shape))
        lines.append(f"cheaper         {how}: {shape} takes {a.bytes_per_bank:,} B per bank")
    if elsewhere:
        lines += ["", "on other boards"]
        for other, placed in elsewhere:
            bank = other.pool(spec.memory).bytes_per_bank
            answer = "fits" if placed.fits_empty else "does not fit"
            lines.append(f"  {other.board_name:<17} {placed.bytes_per_bank:>15,} B of {bank:>13,} B per bank  {answer}")
    return "\n".join(lines)


def _size(amount_bytes: int) -> str:
    return f"{amount_bytes:,} B" if amount_bytes < _MIB else f"{amount_bytes / _MIB:,.2f} MB"


def _bar(explanation: PaddingExplanation) -> str:
    """Elements, padding of the shape, alignment of pages, and what banks in lock step reserve for nothing; to scale."""
    import sys

    edges = (explanation.logical_bytes, explanation.padded_bytes, explanation.aligned_bytes, explanation.reserved_bytes)
    whole = max(explanation.reserved_bytes, 1)
    colored = color_wanted(sys.stdout)
    bar, legend, drawn, below = "", [], 0, 0
    for (name, mark, color), edge in zip(_PARTS, edges, strict=True):
        amount, below = max(edge - below, 0), max(edge, below)
        cells = round(_BAR * below / whole) - drawn
        drawn += cells
        text = mark * cells
        bar += f"\x1b[{color}m{text}\x1b[0m" if colored and text else text
        if amount:
            legend.append(f"{mark} {name} {_size(amount)}")
    return f"{bar}  {'   '.join(legend)}"
