# SPDX-License-Identifier: Apache-2.0
"""Rotary embeddings of whole sequences and of one token."""

from collections.abc import Iterator
from dataclasses import replace

from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT8_B, BFLOAT16, L1
from ttmem.twin.operations.call_syntax import build_record, format_call
from ttmem.twin.operations.conv_parallelization import fill_rows
from ttmem.twin.operations.elementwise import allocate_results, memory_layout_name, result_spec
from ttmem.twin.operations.heads import padded_matrix
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, TensorHandle, apply
from ttmem.twin.operations.record import Argument, Step
from ttmem.twin.operations.to_layout import to_layout
from ttmem.twin.placement import compute_paging
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import Shard, TensorSpec


def rotary(call: Call, plan: PlanBuilder) -> Plan:
    """Rows of tiles of the tensor, of its rotated self, and of both tables, each twice; single tiles between.

    Of one token the tables' row is untilized, taken out and tilized again. Rows are made tiles first; shards of the
    tensor are worked on where they lie, those of the tables are read.
    """
    if len(call.inputs) != 3 or any(len(spec.shape) < 2 for spec in call.inputs):
        return plan.unknown("a rotary embedding of tensors of less than two dimensions")
    token = call.arguments["token_index"]
    _check_tables(call, token)
    held = [
        apply(plan, to_layout, TensorHandle(-place - 1, spec), layout="tile")
        if not spec.is_tiled
        else TensorHandle(0, spec)
        for place, spec in enumerate(call.inputs)
    ]
    source, cosine_table, sine_table = (one.spec for one in held)
    rows, width = padded_matrix(source)
    across = width // 32
    result = replace(result_spec(call, source), shape=(*source.shape[:-2], rows, width))
    if result.shard is not None:
        result = replace(result, shard=_shard_of_turned(plan, source, result))
    (slot,) = allocate_results(plan, [result], _faults(source, cosine_table, sine_table, result))
    own, cosine, sine = (spec.tile_bytes for spec in (source, cosine_table, sine_table))
    ahead, deep = 2 * across, (2 if token is None else 1) * across
    tables = [deep * cosine, deep * sine]
    first, last = ([] if spec.shard is not None else [ahead * own] for spec in (source, result))
    if across == 1:  # turned by a matrix of one tile
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
    """What is looked at before anything is done."""
    source, cosine, sine = call.inputs
    width, table = padded_matrix(source)[1], cosine.padded
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


def _shard_of_turned(plan: PlanBuilder, source: TensorSpec, result: TensorSpec) -> Shard:
    """The tensor's own shards; of pages as many as there are cores that can share them evenly."""
    assert isinstance(result.shard, Shard)
    if isinstance(source.shard, Shard):
        return replace(source.shard, kind=result.shard.kind)
    blocks, grid = compute_paging(source).physical_height // 32, plan.memory_map.grid
    cores = next(count for count in range(grid.cores, 0, -1) if blocks % count == 0)
    return Shard(result.shard.kind, blocks // cores * 32, padded_matrix(source)[1], fill_rows(cores, grid))


def _faults(source: TensorSpec, cosine: TensorSpec, sine: TensorSpec, result: TensorSpec) -> Iterator[str]:
    """In the library's words and order."""
    if cosine.dtype is not sine.dtype:
        yield "Cos and Sin dtypes must match"
    shard, wanted, width = source.shard, result.shard, padded_matrix(source)[1]
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
RECORDS = (
    build_record(
        format_call("experimental.rotary_embedding", [EXAMPLE_TABLE] * 3),
        rotary,
        Argument("token_index", 0, None),
        verified_with_shards=True,
        verified_low_rank_and_rare_types=True,
    ),
)
