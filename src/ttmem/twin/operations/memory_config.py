# SPDX-License-Identifier: Apache-2.0
"""Moves between memories, between pages and shards, and between shards."""

from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import DATA_TYPES, DRAM, L1
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call, format_height_shards
from ttmem.twin.operations.elementwise import (
    compute_aligned_page_bytes,
    copy_between,
    has_padded_shard_rows,
    result_spec,
)
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder
from ttmem.twin.operations.record import Argument, Step
from ttmem.twin.placement import place
from ttmem.twin.tensor_spec import InvalidSpecError, NdShard, Shard, TensorSpec

_READS_AT_ONCE = 4
"""The number of rows in flight while shards are filled."""
_NO_BLOCKS_IN_DRAM = "We don't support DRAM block sharding"


def to_memory_config(call: Call, plan: PlanBuilder) -> Plan:
    """Copy between memories or between shards and pages, unless the tensor is already there."""
    source, dtype = call.inputs[0], call.arguments.get("dtype")
    if dtype is not None and DATA_TYPES.find(str(dtype)) is not source.dtype:
        return plan.unknown("a type conversion during a move")
    result = result_spec(call, source)
    if (result.memory, result.shard) == (source.memory, source.shard):
        return plan.finish(-1, source)
    if source.shard is None and result.shard is None:
        return plan.finish(copy_between(plan, source, result), result)
    if result.shard is None:
        return _write_pages(plan, source, result, copies=True)
    if source.shard is not None:
        return _reshard(plan, source, result, goes_round=True)
    return _fill_shards(plan, source, result, copies_where_short=True)


def interleaved_to_sharded(call: Call, plan: PlanBuilder) -> Plan:
    source, result = call.inputs[0], _read_result_spec(call)
    refusal = ""
    if source.shard is not None or result.shard is None:
        refusal = "interleaved_to_sharded goes from pages to shards"
    elif not source.is_tiled and source.dtype is not result.dtype:
        refusal = "Input tensor layout must be TILE when dtype conversion is needed"
    if refusal:  # the library allocates the result before it checks
        plan.allocate(result)
        plan.refuse(refusal)
    return _fill_shards(plan, source, result)


def sharded_to_interleaved(call: Call, plan: PlanBuilder) -> Plan:
    """Read shards into DRAM or the caller's memory; an interleaved tensor stays."""
    source = call.inputs[0]
    if source.shard is None:
        return plan.finish(-1, source)
    result = replace(_read_result_spec(call), memory=call.memory or DRAM, shard=call.shard)
    if result.shard is not None:
        raise BadInputError("sharded_to_interleaved goes from shards to pages")
    return _write_pages(plan, source, result)


def reshard(call: Call, plan: PlanBuilder) -> Plan:
    source, result = call.inputs[0], result_spec(call, call.inputs[0])
    if source.shard is None or result.shard is None:
        raise BadInputError("reshard goes from shards to other shards")
    return _reshard(plan, source, result)


def _read_result_spec(call: Call) -> TensorSpec:
    dtype = call.arguments["output_dtype"]
    wanted = result_spec(call, call.inputs[0])
    return replace(wanted, dtype=DATA_TYPES.find(str(dtype))) if dtype is not None else wanted


def _fill_shards(
    plan: PlanBuilder, source: TensorSpec, result: TensorSpec, *, copies_where_short: bool = False
) -> Plan:
    """Fill shards: those in L1 in place, those in DRAM through L1. Row-major pages pass through a few aligned rows,
    a type conversion through a whole shard.
    """
    shard = result.shard
    if not isinstance(shard, Shard):
        if copies_where_short and source.dtype is result.dtype and _is_truly_nd(source, shard):
            return _copy(plan, source, result)
        plan.estimate("pages to ND shards")
        return plan.finish_with_program(result, [])
    if shard.kind == "block" and result.memory is DRAM:
        raise InvalidSpecError(_NO_BLOCKS_IN_DRAM)
    alignment = plan.memory_map.architecture.l1_alignment_bytes
    if not source.is_tiled and shard.width * source.element_bytes % alignment:
        if not copies_where_short:
            plan.allocate(result)
            plan.refuse("Shard page size must currently have L1 aligned page size")
        return _copy(plan, source, result)
    converted, passing = _compute_shard_buffers(plan, source, result, shard)
    if copies_where_short and _is_short(plan, source, result, shard):
        plan.estimate("shards are written in place, or through two pages where L1 is short")
        return plan.finish_with_program(result, [])
    return plan.finish_with_program(result, [converted] * bool(converted) + [passing] * (not source.is_tiled))


def _compute_shard_buffers(plan: PlanBuilder, source: TensorSpec, result: TensorSpec, shard: Shard) -> tuple[int, int]:
    """Return the bytes of the assembled shards and of the rows in flight; for tiles the latter is only an estimate."""
    unit, units = shard.width * source.element_bytes, shard.height
    if source.is_tiled:
        unit, units = source.tile_bytes, _count_tiles(shard)
    quantum = plan.memory_map.architecture.dram_alignment_bytes
    converted = 0 if source.dtype is result.dtype else units * unit
    if result.memory is DRAM:
        written = result.tile_bytes if source.is_tiled else unit
        converted += units * round_up(written, quantum)
    return converted, _READS_AT_ONCE * round_up(unit + quantum, quantum)


def _is_short(plan: PlanBuilder, source: TensorSpec, result: TensorSpec, shard: Shard) -> bool:
    left = plan.l1_space() - (place(result, plan.memory_map).taken_bytes_per_bank if result.memory is L1 else 0)
    return sum(_compute_shard_buffers(plan, source, result, shard)) >= left


def _copy(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> Plan:
    """Copy page by page, the library's fallback."""
    return plan.finish(copy_between(plan, source, result), result)


def _is_truly_nd(spec: TensorSpec, shard: NdShard | None) -> bool:
    """Return whether ND shards cannot be expressed as height, width or block shards."""
    return shard is not None and len(shard.shape) > 2 and prod(shard.shape[:-2]) > 1 and prod(spec.shape[:-2]) > 1


def _count_tiles(shard: Shard) -> int:
    return ceil_div(shard.height, 32) * ceil_div(shard.width, 32)


def _write_pages(plan: PlanBuilder, source: TensorSpec, result: TensorSpec, *, copies: bool = False) -> Plan:
    """Read shards in place; a type conversion needs a shard more. With ``copies`` the library copies through two pages
    what it has no other way for."""
    shard = source.shard
    if not isinstance(shard, Shard) or source.memory is not L1:
        if copies and source.dtype is result.dtype and (isinstance(shard, Shard) or _is_truly_nd(source, shard)):
            return _copy(plan, source, result)
        return plan.unknown("shards in DRAM, or ND shards, to pages")
    if source.is_tiled:
        converted = _count_tiles(shard) * result.tile_bytes
        return plan.finish_with_program(result, [] if source.dtype is result.dtype else [converted])
    if shard.width * source.element_bytes % plan.memory_map.architecture.l1_alignment_bytes:
        if not copies:
            plan.allocate(result)
            alignment = plan.memory_map.architecture.l1_alignment_bytes
            plan.refuse(f"Shard page size must be aligned to {alignment}B for L1 Tensor")
        return _copy(plan, source, result)
    return plan.finish_with_program(result, [])


def _reshard(plan: PlanBuilder, source: TensorSpec, result: TensorSpec, *, goes_round: bool = False) -> Plan:
    """Assemble each shard in place; between DRAM banks a page passes through L1. With ``goes_round`` the library
    reads rows of another length into pages of DRAM first, and copies where L1 has no room for a page.
    """
    one, two = source.shard, result.shard
    in_dram = [spec.memory is DRAM for spec in (source, result)]
    page = source.tile_bytes if source.is_tiled else compute_aligned_page_bytes(plan, source)
    is_short = goes_round and all(in_dram) and page >= plan.l1_space()
    if not isinstance(one, Shard) or not isinstance(two, Shard):
        if not source.is_tiled:
            plan.estimate("row-major ND shards to other shards")
            return plan.finish_with_program(result, [])
    elif any(spec.memory is DRAM and cut.kind == "block" for spec, cut in ((source, one), (result, two))):
        raise InvalidSpecError(_NO_BLOCKS_IN_DRAM)
    if source.is_tiled and is_short:
        return _copy(plan, source, result)
    if source.is_tiled:
        return plan.finish_with_program(result, [page] if all(in_dram) else [])
    assert isinstance(one, Shard)
    assert isinstance(two, Shard)
    if has_padded_shard_rows(source) or has_padded_shard_rows(result):
        return plan.unknown("rows padded in their shards, to other shards: some of these crash the library")
    before, after = (cut.width * source.element_bytes for cut in (one, two))
    is_aligned = (
        before == compute_aligned_page_bytes(plan, source)
        and after % plan.memory_map.architecture.l1_alignment_bytes == 0
    )
    is_by_height = one.kind == two.kind == "height"
    if goes_round and ((one.width != two.width and one.kind != two.kind) or not (is_aligned or is_by_height)):
        return _reshard_through_pages(plan, source, result)
    if all(in_dram) and one.width == two.width:
        return _copy(plan, source, result) if is_short else plan.finish_with_program(result, [page])
    if not is_aligned or all(in_dram) or (in_dram[1] and one.kind != two.kind and one.width != two.width):
        plan.estimate("unaligned row-major shards, or rows of another length in DRAM")
    return plan.finish_with_program(result, [])


def _reshard_through_pages(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> Plan:
    """Move rows of another length through pages of DRAM, or copy them where that is not possible."""
    one, two = (spec.shard.width * spec.element_bytes for spec in (source, result) if spec.shard)
    alignment = plan.memory_map.architecture.l1_alignment_bytes
    if source.memory is L1 and one % alignment == 0:
        pages = replace(source, memory=DRAM, shard=None)
        if isinstance(result.shard, Shard) and _is_short(plan, pages, result, result.shard):
            return plan.unknown("rows of another length in shards where L1 is short: through DRAM or not")
        between = plan.allocate(pages)
        plan.launch([])
        if two % alignment == 0:
            made = _fill_shards(plan, pages, result, copies_where_short=True)
            plan.free(between)
            return plan.finish_all(made.results)
        plan.free(between)
    elif source.memory is DRAM:
        plan.estimate("row-major shards in DRAM to others")
        return plan.finish_with_program(result, [])
    return _copy(plan, source, result)


_PLACE = format_height_shards(2, 32, 64)
_SHARDED: Step = {**EXAMPLE_TENSOR, **_PLACE}
_TYPE = Argument("output_dtype", 0, None)
RECORDS = (
    build_record(
        format_call("to_memory_config", [EXAMPLE_TENSOR], {"memory": "L1"}),
        to_memory_config,
        Argument("dtype", 0, None),
        verified_low_rank_and_rare_types=True,
        verified_with_nd_shards=True,
    ),
    build_record(
        format_call("interleaved_to_sharded", [EXAMPLE_TENSOR], _PLACE),
        interleaved_to_sharded,
        _TYPE,
        verified_with_nd_shards=True,
        family="sharding",
    ),
    build_record(
        format_call("sharded_to_interleaved", [_SHARDED]),
        sharded_to_interleaved,
        _TYPE,
        verified_with_nd_shards=True,
        family="sharding",
    ),
    build_record(
        format_call("reshard", [_SHARDED], format_height_shards(1, 64, 64)),
        reshard,
        verified_with_nd_shards=True,
        family="sharding",
    ),
)
