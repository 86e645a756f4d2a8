# SPDX-License-Identifier: Apache-2.0
"""Tilize and untilize by their own names: what `to_layout` picks from, asked for directly."""

from dataclasses import replace

from ttmem.allocator.operations import draws
from ttmem.allocator.operations.draws import EXAMPLE_TENSOR
from ttmem.allocator.operations.elementwise import result_like
from ttmem.allocator.operations.movement import has_tile_padding
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.tilizing import in_layout, tilize, untilize, untilize_plainly
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.hardware import BFLOAT16, DATA_TYPES
from ttmem.tensors import TILE

_OF_SHARDS = "tilize and untilize of shards by name"


def _tilize(call: Call, plan: PlanWriter) -> Plan:
    """Whole tiles alone; the type may change on the way."""
    source = call.inputs[0]
    if source.shard is not None or call.shard is not None:
        return plan.give_up(_OF_SHARDS)
    dtype = call.arguments.get("dtype")
    result = replace(result_like(source, call.memory), layout=TILE)
    if dtype is not None:
        result = replace(result, dtype=DATA_TYPES.find(str(dtype)))
    if call.name == "tilize":
        for word, size in zip(("width", "height"), (1, 1, *source.shape)[:-3:-1], strict=True):
            if size % 32:
                plan.allocate(result)
                plan.refuse(f"Input tensor {word} ({size}) must be divisible by tile {word} (32)")
    return plan.finish(tilize(plan, source, result), result)


def _untilize(call: Call, plan: PlanWriter) -> Plan:
    source = call.inputs[0]
    if source.shard is not None or call.shard is not None:
        return plan.give_up(_OF_SHARDS)
    result = in_layout(result_like(source, call.memory), tiled=False)
    plainly = source.dtype is BFLOAT16
    slot = (untilize_plainly if plainly else untilize)(plan, source, result)
    if len(source.shape) > 4 and has_tile_padding(source):
        plan.refuse("MeshBuffer must be large enough to hold the tensor.")
    return plan.finish(slot, result)


def _draw(record: OperationRecord, choose: Choose) -> list[Step]:
    source = draws.tensor(choose, integers=True)
    source["layout"] = "row_major" if record.name.startswith("tilize") else "tile"
    if choose.integer(0, 3):
        source["shape"][-2:] = [-(-size // 32) * 32 for size in source["shape"][-2:]]
    if not choose.integer(0, 2):
        source["shape"][-1] *= choose.one_of((4, 16, 40, 100))
        source["shape"][-2] *= choose.one_of((1, 1, 8, 20))
    return write_call(record.name, [source], memory=draws.wish(choose))


_ROWS: Step = EXAMPLE_TENSOR | {"layout": "row_major"}
RECORDS = (
    record_of(write_call("tilize", [_ROWS]), _tilize, _draw, Argument("dtype", default=None)),
    record_of(write_call("tilize_with_zero_padding", [_ROWS]), _tilize, _draw),
    record_of(write_call("untilize", [EXAMPLE_TENSOR]), _untilize, _draw),
)
