# SPDX-License-Identifier: Apache-2.0
"""Rotary embeddings: by cosine and sine tables, and by a transformation matrix (llama)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ttmem.base.arithmetic import ceil_div
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT8_B, BFLOAT16, L1
from ttmem.twin.operations.call_syntax import build_record, format_call, format_height_shards
from ttmem.twin.operations.conv_parallelization import fill_rows
from ttmem.twin.operations.elementwise import allocate_results, describe_not_in_l1, memory_layout_name, result_spec
from ttmem.twin.operations.heads import measure_padded_matrix
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, TensorHandle
from ttmem.twin.operations.record import KERNEL_CONFIG, Argument, Step, has_float32_sums
from ttmem.twin.operations.to_layout import to_layout
from ttmem.twin.placement import compute_paging
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import Shard, TensorSpec


def rotary(call: Call, plan: PlanBuilder) -> Plan:
    """Rotate by tables: double-buffered rows of tiles of the tensor, the rotated tensor and both tables.

    For one token the tables' row is untilized, extracted and tilized again. Row-major inputs are tilized first; shards
    of the tensor are used in place, those of the tables are read.
    """
    if len(call.inputs) != 3 or any(len(spec.shape) < 2 for spec in call.inputs):
        return plan.unknown("a rotary embedding of tensors of less than two dimensions")
    token = call.arguments["token_index"]
    _check_tables(call, token)
    held = [
        plan.apply(to_layout, TensorHandle(-place - 1, spec), layout="tile")
        if not spec.is_tiled
        else TensorHandle(0, spec)
        for place, spec in enumerate(call.inputs)
    ]
    source, cosine_table, sine_table = (one.spec for one in held)
    rows, width = measure_padded_matrix(source)
    across = width // 32
    result = replace(result_spec(call, source), shape=(*source.shape[:-2], rows, width))
    if result.shard is not None:
        result = replace(result, shard=_choose_result_shard(plan, source, result))
    (slot,) = allocate_results(plan, [result], _find_faults(source, cosine_table, sine_table, result))
    own, cosine, sine = (spec.tile_bytes for spec in (source, cosine_table, sine_table))
    ahead, deep = 2 * across, (2 if token is None else 1) * across
    tables = [deep * cosine, deep * sine]
    first, last = ([] if spec.shard is not None else [ahead * own] for spec in (source, result))
    if across == 1:  # rotated by a matrix of one tile
        matrix = own if source.dtype is BFLOAT8_B else BFLOAT16.tile_bytes()
        buffers = [*first, matrix, *tables, *[own] * 3, *last]
    else:
        buffers = [*first, ahead * own, *tables, BFLOAT16.tile_bytes(), own, cosine, sine, *last]
    if token is not None:
        plain = across * BFLOAT16.tile_bytes()
        buffers += [plain, plain, across * cosine, across * sine]
    plan.launch(buffers, CIRCULAR)
    plan.free(*(one.slot for one in reversed(held)))
    return plan.finish(slot, result)


def _check_tables(call: Call, token: int | None) -> None:
    """Check the tables as the library does before any allocation."""
    source, cosine, sine = call.inputs
    width, table = measure_padded_matrix(source)[1], cosine.padded
    if width != 32 and width % 64:
        raise BadInputError(
            f"Input X dimension ({width}) must be either 32 (single tile) or divisible by 64 (rotate_half midpoint "
            "must align with a tile boundary)."
        )
    if cosine.shape != sine.shape:
        raise BadInputError(
            f"Cosine and Sine cache dimensions must match. Cos cache dimensions: Shape({list(table)}), Sin cache "
            f"dimensions: Shape({list(sine.padded)})."
        )
    if (*table[:2], table[-1]) != (1, 1, width):
        raise BadInputError(
            f"Cosine cache dimensions must match input dimensions. Expected (1, 1, {width}), but got "
            f"Shape({list(table)})."
        )
    if token is not None and (first := source.padded[0]) != 1:
        raise BadInputError(
            f"When token index is provided, sequence length must be 1. Current sequence length: {first}."
        )
    rows, there = source.shape[-2], cosine.shape[-2]
    if token is not None and there <= int(token):
        raise BadInputError(
            f"Cosine cache must cover the token index. Token index: {token}, Cos cache sequence length: {there}."
        )
    if token is None and there < rows:
        raise BadInputError(
            f"Cosine cache must cover the input sequence length. Input sequence length: {rows}, Cos cache sequence "
            f"length: {there}."
        )


def _choose_result_shard(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> Shard:
    """Return the tensor's own shards; for pages, shards on the most cores that share the rows evenly."""
    assert isinstance(result.shard, Shard)
    if isinstance(source.shard, Shard):
        return replace(source.shard, kind=result.shard.kind)
    blocks, grid = compute_paging(source).physical_height // 32, plan.memory_map.grid
    cores = next(count for count in range(grid.cores, 0, -1) if blocks % count == 0)
    return Shard(result.shard.kind, blocks // cores * 32, measure_padded_matrix(source)[1], fill_rows(cores, grid))


def _find_faults(source: TensorSpec, cosine: TensorSpec, sine: TensorSpec, result: TensorSpec) -> Iterator[str]:
    """Yield refusals with the library's text and in its order."""
    if cosine.dtype is not sine.dtype:
        yield "Cos and Sin dtypes must match"
    shard, wanted, width = source.shard, result.shard, measure_padded_matrix(source)[1]
    if isinstance(shard, Shard):
        if shard.kind == "width":
            yield f"Input tensor memory layout must not be WIDTH_SHARDED but got {memory_layout_name(source)}"
        if shard.width != width:
            yield f"Input tensor shard width ({shard.width}) must equal padded width ({width})"
        if compute_paging(source).physical_height % shard.height:
            yield "Error"
    if isinstance(wanted, Shard) and wanted.kind == "width":
        yield f"Output memory config layout must not be WIDTH_SHARDED but got {memory_layout_name(result)}"
    if any(spec.shard is not None and spec.memory is not L1 for spec in (source, result)):
        yield "Only L1 buffers can have an associated circular buffer!"


EXAMPLE_TABLE: Step = {"shape": [1, 1, 64, 64], "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}


_ROWS_OF_TABLES_KEPT = 8
"""The most rows of tiles whose tables stay in L1; for more they are read again."""
_MOST_USERS = 32
_WIDEST = 256
_WIDEST_IN_FLOAT32 = 128


def rotary_llama(call: Call, plan: PlanBuilder) -> Plan:
    """Rotate by a matrix that swaps pairs: a sequence on all cores, or each user's new row on its own core."""
    source, cosine, _, matrix = call.inputs
    if any(len(spec.shape) != 4 for spec in call.inputs):
        return plan.unknown("a rotary embedding of tensors that are not of four dimensions")
    of_users = bool(call.arguments["is_decode_mode"])
    result = result_spec(call, source)
    (slot,) = allocate_results(plan, [result], _find_llama_faults(call, plan, result, of_users=of_users))
    tile, across = BFLOAT16.tile_bytes(), source.tiles_across
    if of_users:  # inputs and result are used in place; only intermediates need buffers
        plan.launch([across * tile] * 3)
        return plan.finish(slot, result)
    batch, heads, rows, _ = source.shape
    down, cores = ceil_div(rows, 32), plan.memory_map.grid.cores
    own = deep = ceil_div(down, min(cores // min(batch, cores), down))
    if deep * heads > _ROWS_OF_TABLES_KEPT or cosine.shape[1] == heads or cosine.shard is not None:
        deep = 1
    ahead, between = 2 * across * tile, across * tile
    # Tables with a shard on every core are used in place.
    in_place = own == 1 and down <= cosine.tiles_down and _count_shard_cores(cosine) == cores
    tables = [] if in_place else [deep * ahead] * 2
    swapped = [] if _count_shard_cores(matrix) == cores else [tile]
    plan.launch([deep * ahead, *tables, *swapped, *[between] * 3, ahead, between])
    return plan.finish(slot, result)


def _count_shard_cores(spec: TensorSpec) -> int:
    """Return the number of cores with shards of a tensor."""
    return spec.shard.cores if isinstance(spec.shard, Shard) else 0


_ONLY_HEIGHT = (
    "Sharded inputs for RoPE must be HEIGHT_SHARDED.",
    "cos tensor for RoPE must be HEIGHT_SHARDED.",
    "sin tensor for RoPE must be HEIGHT_SHARDED.",
    "transformation matrix for RoPE must be HEIGHT_SHARDED.",
)
_NOT_TILES = ("input tensor", "cos tensor", "sin tensor", "transformation matrix")


def _find_llama_faults(call: Call, plan: PlanBuilder, result: TensorSpec, *, of_users: bool) -> Iterator[str]:
    """Yield refusals with the library's text and in its order."""
    source, cosine, sine, _ = call.inputs
    for spec, name in zip(call.inputs, _NOT_TILES, strict=True):
        if not spec.is_tiled:
            yield f"{name} to rotary embedding must be tilized"
    width = source.shape[-1]
    # These kernels accumulate in float32 by default.
    precise = call.arguments["compute_kernel_config"] is None or has_float32_sums(call)
    if precise and width > _WIDEST_IN_FLOAT32:
        yield "If head_dim is > 128, fp32_dest_acc_en must be False"
    if width > _WIDEST:
        yield "Head dim must be less than 256"
    if any(spec.dtype is not BFLOAT16 for spec in call.inputs):
        yield "All input tensors must have dtype = bfloat16"
    if memory_layout_name(source) != memory_layout_name(result):
        yield "Input tensor and output tensor must have same memory layout"
    if cosine.shape != sine.shape:
        yield "Cos and Sin dims must match"
    yield from (_find_decode_faults(call, plan, result) if of_users else _find_prefill_faults(call))


def _find_decode_faults(call: Call, plan: PlanBuilder, result: TensorSpec) -> Iterator[str]:
    source, cosine, _, matrix = call.inputs
    users, width = source.shape[1], source.shape[-1]
    if width % 32:
        yield "Head dim must be a multiple of TILE_WIDTH in decode mode"
    if source.shape[0] != 1:
        yield (
            "rotary_embedding_llama currently only supports sharded inputs in decode mode, and therefore, seq_len (in "
            "dim 0) must be 1."
        )
    for spec, why in zip(call.inputs, _ONLY_HEIGHT, strict=True):
        if not isinstance(spec.shard, Shard) or spec.shard.kind != "height":
            yield why
    assert isinstance(cosine.shard, Shard)
    assert isinstance(matrix.shard, Shard)
    if users > plan.memory_map.grid.cores:
        yield (
            "In decode mode, RoPE is parallelized over batch dimension, and therefore, batch size must be less than or "
            "equal to the number of cores"
        )
    if users != cosine.shape[1]:
        yield "Cos and Sin must have the same batch size as the input"
    if cosine.shard.height != 32:
        yield "In decode mode, RoPE only supports n_heads (shard_shape[0]) less than equal to TILE_HEIGHT"
    if matrix.shape[:2] != (1, 1):
        yield "Transformation matrix must have 1st & 2nd dim equal to 1"
    if matrix.shard.height != 32:
        yield "Transformation matrix must have 3rd dim equal to TILE_HEIGHT"
    if matrix.shard.width != 32:
        yield "Transformation matrix must have 4th dim equal to TILE_WIDTH"
    names = zip((*call.inputs, result), ("input", "cos", "sin", "trans_mat", "output"), strict=True)
    yield from filter(None, (describe_not_in_l1(name, name, spec) for spec, name in names))


def _find_prefill_faults(call: Call) -> Iterator[str]:
    source, cosine, sine, matrix = call.inputs
    heads, width = source.shape[1], source.shape[-1]
    if source.shard is not None:
        yield "Input tensor must be interleaved in prefill mode"
    cuts = [memory_layout_name(spec) for spec in (cosine, sine, matrix)]
    by_height = [cut.endswith("HEIGHT_SHARDED") for cut in cuts]
    if by_height[0] != by_height[1]:
        yield "Cos and sin must both be HEIGHT_SHARDED or both be INTERLEAVED for prefill RoPE"
    if not by_height[0] and cosine.shard is not None:
        yield "Cos tensor must be either INTERLEAVED or HEIGHT_SHARDED for prefill RoPE"
    if cosine.shape[0] != 1 or cosine.shape[-1] != width:
        yield f"Cos dims must match input dims: cos.shape = Shape({list(cosine.shape)}), head_dim = {width}"
    if cosine.shape[1] not in (1, heads):
        yield (
            f"Num heads in cos/sin must match input tensor num heads or be 1. Expected {heads}, got {cosine.shape[1]}"
        )
    if by_height[0]:
        yield from _find_table_faults(source, cosine, sine)
    if not by_height[2] and matrix.shard is not None:
        yield "Transformation matrix must be either INTERLEAVED or HEIGHT_SHARDED for prefill RoPE"
    if matrix.shape[:2] != (1, 1):
        yield "Transformation matrix must have 1st & 2nd dim equal to 1"
    if matrix.shape[-1] != 32:
        yield "Transformation matrix must have 4th dim equal to TILE_WIDTH"
    if isinstance(matrix.shard, Shard) and matrix.shard.height != 32:
        yield "HEIGHT_SHARDED trans_mat shard height must equal TILE_HEIGHT for prefill RoPE"
    if matrix.shard is None and matrix.shape[-2] != 32:
        yield "Transformation matrix must have 3rd dim equal to TILE_HEIGHT"


def _find_table_faults(source: TensorSpec, *tables: TensorSpec) -> Iterator[str]:
    if tables[0].shape[1] != 1:
        yield (
            "HEIGHT_SHARDED cos/sin in prefill RoPE requires head-broadcast (cos.shape[1]==1), got "
            f"{tables[0].shape[1]}"
        )
    width = measure_padded_matrix(source)[1]
    for name, spec in zip(("cos", "sin"), tables, strict=True):
        assert isinstance(spec.shard, Shard)
        if spec.shard.height != 32:
            yield f"HEIGHT_SHARDED {name} shard height must equal TILE_HEIGHT for prefill RoPE"
        if spec.shard.width != width:
            yield (
                f"HEIGHT_SHARDED {name} shard width must equal padded head_dim ({width}) for prefill RoPE, got "
                f"{spec.shard.width}"
            )


def rotary_llama_both(call: Call, plan: PlanBuilder) -> Plan:
    """Rotate queries and keys of new rows at once, on different cores."""
    query, key = call.inputs[:2]
    if any(len(spec.shape) != 4 for spec in call.inputs) or len(call.inputs) != 5:
        return plan.unknown("a rotary embedding of tensors that are not of four dimensions")
    slots = allocate_results(plan, [query, key], _find_fused_faults(call))
    plan.launch([query.shape[-1] // 32 * BFLOAT16.tile_bytes()] * 3)
    return plan.finish_all(list(zip(slots, (query, key), strict=True)))


def _find_fused_faults(call: Call) -> Iterator[str]:
    """Yield refusals with the library's text and in its order."""
    query, key, cosine, sine, matrix = call.inputs
    for spec, name in zip(call.inputs, ("Q input", "K input", "Cos", "Sin", "Trans mat"), strict=True):
        if not isinstance(spec.shard, Shard) or spec.shard.kind != "height":
            yield f"{name} tensor must be HEIGHT_SHARDED."
        if spec.dtype is not BFLOAT16:
            yield f"{name} tensor must be bfloat16"
    for spec, name in zip(call.inputs, ("Q input", "K input", "cos", "sin"), strict=False):
        if not spec.is_tiled:
            yield f"{name} tensor must be in layout Layout::TILE"
    if (query.shape[0], key.shape[0]) != (1, 1):
        yield "rotary_embedding_llama_fused_qk currently only supports decode mode with seq_len=1."
    width, users = query.shape[-1], query.shape[1]
    if width != key.shape[-1]:
        yield "Q input tensor and K input tensor must have same head dimensions"
    if width > _WIDEST_IN_FLOAT32 and (call.arguments["compute_kernel_config"] is None or has_float32_sums(call)):
        yield "If head_dim is > 128, fp32_dest_acc_en must be False"
    if width % 32:
        yield "Head dim must be a multiple of TILE_WIDTH"
    if users != key.shape[1]:
        yield "Q and K must have the equal batch size"
    if users > _MOST_USERS:
        yield "Q and K must have batch size less than or equal to 32, due to parallelization over core-grid of 64"
    shards = [spec.shard for spec in (query, key, matrix) if isinstance(spec.shard, Shard)]
    used = shards[0].cores + shards[1].cores
    if used > 2 * _MOST_USERS:
        yield "Q and K must not exceed max core grid size of 64"
    if any(one.intersects(two) for one in shards[0].ranges for two in shards[1].ranges):
        yield "Q and K must not overlap"
    if cosine.shape != sine.shape:
        yield "Cos and Sin dims must match"
    if cosine.shape[1] != 2 * users:
        yield (
            "Cos and Sin are repeated for Q and K, so they must have the same batch size as the sum of Q and K batch "
            "sizes"
        )
    if not matrix.is_tiled:
        yield "transformation matrix must be tilized"
    if shards[2].cores < used:
        yield "Transformation matrix is repeated for Q and K must be sharded over core grid of Q and K"
    if (shards[2].height, shards[2].width) != (32, 32):
        yield "Transformation matrix must be sharded to single tile of shape (32, 32)"


def write_fused_call(name: str, query: Step, key_heads: int, **named: Any) -> list[Step]:
    _, users, _, width = query["shape"]
    rows = ceil_div(users, 8)
    key = {**query, "shape": [1, users, key_heads, width], **format_height_shards(users, 32, width, first_row=rows)}
    ranges = [*query["shard"]["ranges"], *key["shard"]["ranges"]]
    shard = {**query["shard"], "ranges": ranges}
    table = {**query, "shape": [1, 2 * users, 1, width], "shard": shard}
    matrix = {**query, "shape": [1, 1, 64 * users, 32], "shard": {**shard, "shape": [32, 32]}}
    *made, call = format_call(name, [query, key, table, table, matrix], **named)
    return [*made, {**call, "out": ["queries", "keys"]}]


_QUERY: Step = {**EXAMPLE_TABLE, "shape": [1, 1, 8, 64], **format_height_shards(1, 32, 64)}
_LLAMA = "experimental.rotary_embedding_llama"
RECORDS = (
    build_record(
        format_call("experimental.rotary_embedding", [EXAMPLE_TABLE] * 3),
        rotary,
        Argument("token_index", 0, None),
        verified_low_rank_and_rare_types=True,
    ),
    build_record(
        format_call(_LLAMA, [EXAMPLE_TABLE] * 3 + [{**EXAMPLE_TABLE, "shape": [1, 1, 32, 32]}]),
        rotary_llama,
        *(Argument("is_decode_mode", default=False), KERNEL_CONFIG),
    ),
    build_record(
        write_fused_call(f"{_LLAMA}_fused_qk", _QUERY, 1),
        rotary_llama_both,
        KERNEL_CONFIG,
        verified_with_shards=False,
    ),
)
