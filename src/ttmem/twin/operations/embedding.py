# SPDX-License-Identifier: Apache-2.0
"""Rows of a table by their numbers: embedding."""

from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import round_up
from ttmem.hardware import BFLOAT16, UINT32
from ttmem.twin.operations.call_syntax import record_of, write_call
from ttmem.twin.operations.plan import Call, Plan, PlanWriter
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.to_layout import in_layout, tilize, untilize
from ttmem.twin.paging import paging_of
from ttmem.twin.tensor_spec import LAYOUTS, ROW_MAJOR, TILE, InvalidSpecError, TensorSpec

_NUMBERS_AT_ONCE = 8
_WIDEST_KNOWN_TILES = 32
"""Beyond, tiles are made in parts of a row whose size nobody worked out."""


def embedding(call: Call, plan: PlanWriter) -> Plan:
    """Rows of the table, one per number, in the table's layout unless another is wanted."""
    numbers, table = call.inputs
    if any(spec.shard is not None for spec in call.inputs) or numbers.is_tiled:
        return plan.give_up("an embedding of shards, or of numbers in tiles")
    wanted = call.arguments.get("layout")
    layout = table.layout if wanted is None else LAYOUTS.find(str(wanted).removeprefix("ttnn."))
    shape = (
        (*numbers.shape[:1], numbers.shape[-1], table.shape[-1])
        if len(numbers.shape) > 1
        else (
            *numbers.shape,
            table.shape[-1],
        )
    )
    rows, made = in_layout(table, tiled=False), 0
    if table.is_tiled:
        made = untilize(plan, table, rows)
    if rows.dtype is not BFLOAT16:
        raise InvalidSpecError("Weights tensor must have BFLOAT16 dtype")
    result = TensorSpec(shape, BFLOAT16, layout, call.memory or numbers.memory)
    if layout is TILE and not shape[-1] % 32 and not shape[-2] % 32:
        return _in_tiles(plan, result, made)
    flat = replace(result, layout=ROW_MAJOR)
    slot = plan.allocate(flat)
    alignment = plan.memory_map.page_alignment_bytes(numbers.memory)
    depth = 2 if prod(shape[:-1]) > plan.memory_map.grid.cores else 1
    plan.launch([depth * round_up(paging_of(flat).page_bytes, alignment), _NUMBERS_AT_ONCE * alignment])
    if layout is TILE:
        tiles = tilize(plan, flat, result)
        plan.free(slot)
        slot = tiles
    plan.free(made)
    return plan.finish(slot, result)


def _in_tiles(plan: PlanWriter, result: TensorSpec, made: int) -> Plan:
    """Whole tiles are made from the rows by the same program: two rows of tiles in, two out, and 32 numbers."""
    slot = plan.allocate(result)
    across, tile = result.shape[-1] // 32, BFLOAT16.tile_bytes()
    numbers = 32 * UINT32.tile_bytes() // 1024
    if across <= _WIDEST_KNOWN_TILES:
        plan.launch([2 * across * tile, 2 * across * tile, numbers])
    else:
        plan.estimate("wide rows are made into tiles in parts")
        plan.launch([4 * tile + numbers])
    plan.free(made)
    return plan.finish(slot, result)


RECORDS = (
    record_of(
        write_call(
            "embedding",
            [
                {"shape": [1, 32], "dtype": "uint32", "layout": "row_major", "memory": "DRAM"},
                {"shape": [64, 64], "dtype": "bfloat16", "layout": "row_major", "memory": "DRAM"},
            ],
        ),
        embedding,
        Argument("layout", default=None),
        is_drawn_odd=True,
    ),
)
