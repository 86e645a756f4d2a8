# SPDX-License-Identifier: Apache-2.0
"""Tilize and untilize as operations of their own; `to_layout` chooses among them."""

from dataclasses import replace

from ttmem.hardware import BFLOAT4_B, BFLOAT16, DATA_TYPES, L1, UINT8
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import (
    PADDED_SHARD_ROWS,
    compute_aligned_page_bytes,
    fill_padding,
    has_padded_shard_rows,
    has_tile_padding,
    has_whole_shards,
    result_spec,
)
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder
from ttmem.twin.operations.record import Argument, Step
from ttmem.twin.operations.to_layout import change_layout, fits_whole_rows, tilize, untilize, untilize_plainly
from ttmem.twin.placement import compute_paging
from ttmem.twin.tensor_spec import TILE, NdShard, Shard, TensorSpec

_PADDED = "tilize_with_zero_padding"
_ODD_SHARDS = "ND shards, shards of tensors of high rank, or of types without a row-major form"


def tilize_by_name(call: Call, plan: PlanBuilder) -> Plan:
    """Tilize whole tiles, with an optional type conversion."""
    source = call.inputs[0]
    dtype = call.arguments.get("dtype")
    result = replace(result_spec(call, source), layout=TILE)
    if dtype is not None:
        result = replace(result, dtype=DATA_TYPES.find(str(dtype)))
    if source.shard is not None:
        return _tilize_shards(call, plan, result)
    if call.name != _PADDED:
        for word, size in zip(("width", "height"), (1, 1, *source.shape)[:-3:-1], strict=True):
            if size % 32:
                plan.allocate(result)
                plan.refuse(f"Input tensor {word} ({size}) must be divisible by tile {word} (32)")
    if result.shard is not None and not fits_whole_rows(plan, source, result):
        return plan.unknown("interleaved rows that are tilized into shards block by block")
    return plan.finish(tilize(plan, source, result, may_pad=call.name == _PADDED), result)


def _tilize_shards(call: Call, plan: PlanBuilder, result: TensorSpec) -> Plan:
    """Tilize shards: in place without buffers, else through a row of tiles of the whole tensor."""
    source, shard = call.inputs[0], call.inputs[0].shard
    after = result.shard
    is_odd = has_padded_shard_rows(source) or len(source.shape) > 4 or source.dtype is UINT8
    if not isinstance(shard, Shard) or isinstance(after, NdShard) or is_odd:
        return plan.unknown(PADDED_SHARD_ROWS if has_padded_shard_rows(source) else _ODD_SHARDS)
    if call.name == _PADDED and after is not None and shard.kind == after.kind == "width":
        return plan.unknown("row-major width shards that are padded")
    stays = call.name != _PADDED and _tilizes_in_place(shard, source, result)
    if stays and result.shard is not None:
        result = replace(result, shard=shard)
    tile_bytes = source.tile_bytes + result.tile_bytes
    is_short = plan.l1_space() <= source.tiles_across * (tile_bytes + source.tile_bytes // 32) + 128
    if is_short or not fits_whole_rows(plan, source, result):
        return plan.unknown("row-major shards that are tilized block by block, through pages")
    slot = plan.allocate(result)
    if call.name != _PADDED:
        for word, size in zip(("width", "height"), (1, 1, *source.shape)[:-3:-1], strict=True):
            if size % 32:
                plan.refuse(f"Input tensor {word} ({size}) must be divisible by tile {word} (32)")
    page = compute_paging(source).page_bytes
    if page != compute_aligned_page_bytes(plan, source) and (call.name != _PADDED or shard.kind != "height"):
        unit = " bytes" if call.name != _PADDED else ""
        plan.refuse(
            f"Input row-major shard width {shard.width}{unit} gives page size {page} bytes, which must be aligned to "
            f"{plan.memory_map.architecture.l1_alignment_bytes} bytes L1 SRAM buffer alignment requirement"
        )
    if stays:
        plan.launch([] if result.shard is not None else [shard.width // 32 * result.tile_bytes])
    else:
        across = source.tiles_across
        plan.launch([across * spec.tile_bytes for spec in (source, result)])
    return plan.finish(slot, result)


def _tilizes_in_place(shard: Shard, source: TensorSpec, result: TensorSpec) -> bool:
    """Return whether L1 shards of whole tiles go to shards of their kind, or height shards to pages of L1."""
    after = result.shard
    if source.memory is not L1 or result.memory is not L1:
        return False
    if shard.kind == "height":
        if shard.height % 32 or shard.width % 32:
            return False
        return not shard.by_column if after is None else isinstance(after, Shard) and after.kind == "height"
    return isinstance(after, Shard) and after.kind == shard.kind and not (after.height % 32 or after.width % 32)


def untilize_by_name(call: Call, plan: PlanBuilder) -> Plan:
    source = call.inputs[0]
    result = change_layout(result_spec(call, source), tiled=False)
    if source.shard is not None or result.shard is not None:
        return _untilize_shards(plan, source, result)
    plainly = source.dtype is BFLOAT16
    slot = (untilize_plainly if plainly else untilize)(plan, source, result)
    if len(source.shape) > 4 and has_tile_padding(source):
        # The library views the padded rows in a buffer for the unpadded ones.
        element = result.element_bytes
        page, size = element * source.padded[-1], element * source.elements
        plan.refuse(
            "MeshBuffer must be large enough to hold the tensor."
            if size % page == 0
            else f"For valid non-interleaved buffers page size {page} must equal buffer size {size}. For "
            "interleaved-buffers, buffer size should be divisible by the page size"
        )
    return plan.finish(slot, result)


def _untilize_shards(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> Plan:
    """Untilize shards by rows of tiles, in place if all are whole; the tile padding stays."""
    one, two = source.shard, result.shard
    if isinstance(one, NdShard) or isinstance(two, NdShard) or len(source.shape) > 4 or source.dtype is BFLOAT4_B:
        return plan.unknown(_ODD_SHARDS)
    if one is None or (one.height % 32 or one.width % 32):
        return plan.unknown("interleaved tiles untilized into shards")
    if has_tile_padding(source):
        if two is not None:
            return plan.unknown("padded tiles in shards untilized into shards")
        *_, height, width = 1, *replace(source, shard=None).padded
        result = replace(result, alignment=(height, width))
    slot = plan.allocate(result)
    if two is not None:
        row = two.width * result.element_bytes
        alignment = plan.memory_map.page_alignment_bytes(result.memory)
        if row % alignment:
            plan.refuse(
                f"Output shard row size {row} bytes must be aligned to {alignment} bytes buffer alignment requirement"
            )
        if one == two and source.memory is result.memory is L1:
            plan.launch([])
            return plan.finish(slot, result)
    tiles = one.width // 32 * (2 if one.height > 32 else 1)
    read = [] if has_whole_shards(source) and source.memory is L1 else [tiles * source.tile_bytes]
    plan.launch([*read, tiles * result.tile_bytes])
    return plan.finish(slot, result)


def _fill_padding(call: Call, plan: PlanBuilder) -> Plan:
    """Fill the tile padding in place, if there is any."""
    source = call.inputs[0]
    if not source.is_tiled or source.shard is not None or not source.shape:
        return plan.unknown("filling the padding of row-major tensors, shards or scalars")
    if call.memory not in (None, source.memory):
        return plan.unknown("filling the padding during a move to another memory")
    return plan.finish(fill_padding(plan, source), source)


_ROWS: Step = EXAMPLE_TENSOR | {"layout": "row_major"}
RECORDS = (
    build_record(format_call("tilize", [_ROWS]), tilize_by_name, Argument("dtype", default=None)),
    build_record(format_call(_PADDED, [_ROWS]), tilize_by_name),
    build_record(
        format_call("fill_implicit_tile_padding", [{**EXAMPLE_TENSOR, "shape": [1, 1, 60, 60]}], 0.0),
        _fill_padding,
        Argument("fill_value", 0),
        verified_with_shards=False,
    ),
    build_record(format_call("untilize", [EXAMPLE_TENSOR]), untilize_by_name),
)
