# SPDX-License-Identifier: Apache-2.0
"""From pages to shards, back, and from shards to other shards."""

from dataclasses import replace
from typing import Any

from ttmem._errors import BadInputError
from ttmem.allocator.operations import draws
from ttmem.allocator.operations.draws import EXAMPLE_TENSOR
from ttmem.allocator.operations.elementwise import wanted_like
from ttmem.allocator.operations.movement import copy_between
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.hardware import DATA_TYPES, DRAM, L1
from ttmem.tensors import TILE, Shard, TensorSpec, place, round_up

_READS_AT_ONCE = 4
"""Rows that are on their way while shards are filled."""


def to_memory_config(call: Call, plan: PlanWriter) -> Plan:
    """A copy between memories, or between shards and pages; nothing when the tensor is there already."""
    source = call.inputs[0]
    result = wanted_like(call, source)
    if (result.memory, result.shard) == (source.memory, source.shard):
        return plan.finish(-1, source)
    if source.shard is None and result.shard is None:
        return plan.finish(copy_between(plan, source, result), result)
    if result.shard is None:
        return _to_pages(plan, source, result)
    if source.shard is not None:
        return _to_other_shards(plan, source, result)
    return _to_shards(plan, source, result, copies_where_short=True)


def interleaved_to_sharded(call: Call, plan: PlanWriter) -> Plan:
    source, result = call.inputs[0], _wanted(call)
    if source.shard is not None or result.shard is None:
        raise BadInputError("interleaved_to_sharded goes from pages to shards")
    return _to_shards(plan, source, result)


def sharded_to_interleaved(call: Call, plan: PlanWriter) -> Plan:
    """Into DRAM unless the caller says where; what has no shards stays."""
    source = call.inputs[0]
    if source.shard is None:
        return plan.finish(-1, source)
    result = replace(_wanted(call), memory=call.memory or DRAM, shard=call.shard)
    if result.shard is not None:
        raise BadInputError("sharded_to_interleaved goes from shards to pages")
    return _to_pages(plan, source, result)


def reshard(call: Call, plan: PlanWriter) -> Plan:
    source, result = call.inputs[0], wanted_like(call, call.inputs[0])
    if source.shard is None or result.shard is None:
        raise BadInputError("reshard goes from shards to other shards")
    return _to_other_shards(plan, source, result)


def _wanted(call: Call) -> TensorSpec:
    dtype = call.arguments["output_dtype"]
    wanted = wanted_like(call, call.inputs[0])
    return replace(wanted, dtype=DATA_TYPES.find(str(dtype))) if dtype is not None else wanted


def _to_shards(plan: PlanWriter, source: TensorSpec, result: TensorSpec, *, copies_where_short: bool = False) -> Plan:
    """Shards are written in their place. Rows pass through a few aligned ones, another type through a whole shard."""
    shard = result.shard
    if not isinstance(shard, Shard) or result.memory is not L1:
        return plan.one_program(result, [], at_least="shards of DRAM, or of many dimensions")
    quantum = plan.memory_map.architecture.dram_alignment_bytes
    if source.layout is TILE:
        unit, units = source.dtype.tile_bytes(), -(-shard.height // 32) * -(-shard.width // 32)
        passing: list[int] = []
    else:
        unit, units = shard.width * (source.dtype.element_bytes or 0), shard.height
        passing = [_READS_AT_ONCE * round_up(unit + quantum, quantum)]
        if unit % plan.memory_map.architecture.l1_alignment_bytes:
            return plan.one_program(result, [], at_least="rows of shards that are not aligned")
    converted = [] if source.dtype is result.dtype else [units * unit]
    left = plan.l1_space() - place(result, plan.memory_map).taken_bytes_per_bank
    if copies_where_short and _READS_AT_ONCE * round_up(unit + quantum, quantum) + sum(converted) >= left:
        why = "shards are written in place, or through two pages where L1 is short"
        return plan.one_program(result, [], at_least=why, at_most_bytes=max(2 * unit, *passing, 0))
    return plan.one_program(result, [*converted, *passing])


def _to_pages(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> Plan:
    """The shards themselves are read; another type takes a shard of its own."""
    shard = source.shard
    if not isinstance(shard, Shard) or source.memory is not L1:
        return plan.one_program(result, [], at_least="shards of DRAM, or of many dimensions")
    if source.layout is TILE:
        converted = -(-shard.height // 32) * -(-shard.width // 32) * result.dtype.tile_bytes()
        return plan.one_program(result, [] if source.dtype is result.dtype else [converted])
    if shard.width * (source.dtype.element_bytes or 0) % plan.memory_map.architecture.l1_alignment_bytes:
        return plan.one_program(result, [], at_least="rows of shards that are not aligned")
    if result.shape[-1] % shard.width:
        return plan.one_program(result, [], at_least="rows that are longer in their shards")
    return plan.one_program(result, [])


def _to_other_shards(plan: PlanWriter, source: TensorSpec, result: TensorSpec) -> Plan:
    """Each shard is put together in its place."""
    legacy = isinstance(source.shard, Shard) and isinstance(result.shard, Shard)
    if source.layout is TILE and legacy and source.memory is result.memory is L1:
        return plan.one_program(result, [])
    return plan.one_program(result, [], at_least="shards of rows, of DRAM, or of many dimensions to other shards")


def _draw_to_memory_config(record: OperationRecord, choose: Choose) -> list[Step]:
    if not choose.integer(0, 3):
        return write_call(record.name, [draws.sharded_tensor(choose)], {"memory": choose.one_of(draws.MEMORIES)})
    if not choose.integer(0, 3):
        source = draws.sharded_tensor(choose)
        return write_call(record.name, [source], {"memory": "L1", "shard": draws.shard_of(choose, source["shape"])})
    if not choose.integer(0, 2):
        return _draw_to_shards(record, choose)
    source = draws.tensor(choose, integers=True, odd=True)
    return write_call(record.name, [source], {"memory": choose.one_of(draws.MEMORIES)})


def _draw_to_shards(record: OperationRecord, choose: Choose) -> list[Step]:
    source = {**draws.sharded_tensor(choose), "shard": None, "memory": choose.one_of(draws.MEMORIES)}
    shard = draws.shard_of(choose, source["shape"])
    if not choose.integer(0, 2):
        source |= {"layout": "row_major", "dtype": choose.one_of(("bfloat16", "float32", "uint32"))}
    return write_call(record.name, [source], {"memory": "L1", "shard": shard}, **_draw_type(record, choose, source))


def _draw_type(record: OperationRecord, choose: Choose, source: Step) -> dict[str, Any]:
    if not record.arguments or source["layout"] != "tile" or choose.integer(0, 3):
        return {}
    return {"output_dtype": {"dtype": choose.one_of(("bfloat16", "float32", "bfloat8_b"))}}


def _draw_to_pages(record: OperationRecord, choose: Choose) -> list[Step]:
    source = draws.sharded_tensor(choose)
    if not choose.integer(0, 3):
        source |= {"layout": "row_major", "dtype": "bfloat16"}
    return write_call(record.name, [source], memory=draws.wish(choose), **_draw_type(record, choose, source))


def _draw_reshard(record: OperationRecord, choose: Choose) -> list[Step]:
    source = draws.sharded_tensor(choose)
    return write_call(record.name, [source], {"memory": "L1", "shard": draws.shard_of(choose, source["shape"])})


_PLACE = draws.height_shards(2, 32, 64)
_SHARDED: Step = {**EXAMPLE_TENSOR, **_PLACE}
_TYPE = Argument("output_dtype", default=None)
RECORDS = (
    record_of(
        write_call("to_memory_config", [EXAMPLE_TENSOR], {"memory": "L1"}),
        to_memory_config,
        _draw_to_memory_config,
        is_drawn_odd=True,
        takes_shards=True,
    ),
    record_of(
        write_call("interleaved_to_sharded", [EXAMPLE_TENSOR], _PLACE),
        interleaved_to_sharded,
        _draw_to_shards,
        _TYPE,
        takes_shards=True,
        family="sharding",
    ),
    record_of(
        write_call("sharded_to_interleaved", [_SHARDED]),
        sharded_to_interleaved,
        _draw_to_pages,
        _TYPE,
        takes_shards=True,
        family="sharding",
    ),
    record_of(
        write_call("reshard", [_SHARDED], draws.height_shards(1, 64, 64)),
        reshard,
        _draw_reshard,
        takes_shards=True,
        family="sharding",
    ),
)
