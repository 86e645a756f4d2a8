# SPDX-License-Identifier: Apache-2.0
"""``ttmem.tensor``: what a tensor costs, why, and where it fits."""

from collections.abc import Iterator, Sequence
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.commands.requested_board import opened_board
from ttmem.hardware import BOARDS, DATA_TYPES, MEMORIES, MemoryMap
from ttmem.reports.tensor.document import TensorCost, document
from ttmem.twin.padding import explain_padding
from ttmem.twin.placement import Placement, place
from ttmem.twin.tensor_spec import LAYOUTS, TensorSpec
from ttmem.twin.tensor_text import parse_shape, parse_shard


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
    """What a tensor takes of every bank of a board, what of it is padding, and whether an empty board could hold it.

    ``shape`` is ``"1x96x2176x1920"`` or a sequence; ``shard`` is ``"height:64x512@8x8"``, also ``width:``, ``block:``
    and ``nd:``; ``memory`` is DRAM, or L1 with a shard. Without ``board`` (or with ``"all"``) it is n150, and the
    others are listed beside it. ``opening`` are the arguments of ``opened_board``: ``release``, ``like``,
    ``l1_small``, .... A spec that the library would refuse raises ``TtmemError`` with the library's reason.
    """
    chosen = None if board == "all" else board
    memory_map = opened_board(chosen, **opening)
    spec = TensorSpec(
        parse_shape(shape) if isinstance(shape, str) else tuple(shape),
        DATA_TYPES.find(dtype),
        LAYOUTS.find(layout),
        MEMORIES.find(memory or ("L1" if shard else "DRAM")),
        parse_shard(shard) if shard else None,
    )
    placement = place(spec, memory_map)
    elsewhere = [] if chosen or opening.get("like") else list(_elsewhere(spec, memory_map, opening))
    return document(placement, explain_padding(spec, memory_map), memory_map, elsewhere, shard)


def _elsewhere(spec: TensorSpec, here: MemoryMap, opening: dict[str, Any]) -> Iterator[tuple[MemoryMap, Placement]]:
    """The same tensor on the other boards, where it is legal at all."""
    for board in BOARDS:
        if board.name == here.board_name:
            continue
        try:
            memory_map = opened_board(board.name, **opening)
            yield memory_map, place(spec, memory_map)
        except BadInputError:  # no such dispatch there, not measured for the release, or a grid that is too large
            continue
