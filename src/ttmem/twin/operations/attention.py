# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention over whole sequences."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf, sqrt
from typing import Any

from ttmem.base.arithmetic import ceil_div
from ttmem.hardware import BFLOAT8_B, BFLOAT16, BLACKHOLE, DATA_TYPES, DRAM
from ttmem.twin.operations.binary import binary
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import allocate_results, dtype_name, spec_like
from ttmem.twin.operations.plan import Call, NoRuleError, Plan, PlanBuilder
from ttmem.twin.operations.record import KERNEL_CONFIG, Argument, Step, choose_intermediate_dtype, has_float32_sums
from ttmem.twin.placement import compute_paging
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import TILE, TensorSpec

_CHUNK = 32
"""Rows of queries and of keys per step unless the caller sets them."""
_SUBBLOCKS = (
    (2, 4), (1, 8), (1, 7), (2, 3), (1, 6), (1, 5), (2, 2), (1, 4), (1, 3), (1, 2), (2, 1), (1, 1),
)  # fmt: skip
_COUNTER_BYTES = 96
_COUNTED_CHUNK = 64
_DEEPEST_COMPARED = 384
BFLOAT4_B = DATA_TYPES.find("bfloat4_b")
ATTENTION_TYPES = (BFLOAT16, BFLOAT8_B, BFLOAT4_B)
_REGISTERS = 8
"""The number of tiles that fit the registers."""


def attention(call: Call, plan: PlanBuilder) -> Plan:
    """Plan attention: chunks of queries are combined with all chunks of keys; a mask is divided by the scale first."""
    query, mask = call.inputs[0], call.tensor("attn_mask", 3)
    if any(len(spec.shape) > 4 for spec in call.inputs):
        return plan.unknown("attention of tensors of more than four dimensions")
    scaled, scale = 0, call.arguments["scale"]
    if mask is not None and (1 / sqrt(compute_paging(query).physical_width) if scale is None else scale) != 1.0:
        ((scaled, mask),) = binary(Call("multiply", (mask,), {"other": 0.5}), plan).results
    result = replace(spec_like(query, call.memory or DRAM), layout=TILE, shard=call.shard)
    (slot,) = allocate_results(plan, [result], _find_faults(call, mask))
    cores, there = count_cores(plan, call.arguments["program_config"] or {}), plan.memory_map.grid.cores
    if cores > there:
        plan.refuse(
            f"Provided grid must not contain more cores than the device. Got {cores} cores, expected at most {there} "
            "cores."
        )
    buffers = _list_buffers(plan, call, mask)
    is_deep = query.shape[-1] > _DEEPEST_COMPARED and call.arguments["is_causal"]
    if is_deep and plan.memory_map.architecture is BLACKHOLE:
        plan.estimate("counters of causal attention with heads this deep")
    plan.launch(buffers, CIRCULAR)
    plan.free(scaled)
    return plan.finish(slot, result)


def _find_faults(call: Call, mask: TensorSpec | None) -> Iterator[str]:
    """Yield the library's complaints in its order; it checks after it allocated the result."""
    query, key, value = call.inputs[:3]
    for spec in (query, key, value):
        yield "Inputs to SDPA must be tilized" if not spec.is_tiled else ""
        if spec.dtype not in ATTENTION_TYPES:
            yield "Data type of input tensor must be BFLOAT16, BFLOAT8_B, or BFLOAT4_B and is " + dtype_name(spec.dtype)
        yield "Operands to SDPA need to be DRAM/L1 interleaved" if spec.shard is not None else ""
    yield f"ShapeBase[] index out of range. 3 not in [-4, {len(query.shape)})" if len(query.shape) < 4 else ""
    if mask is not None:
        yield from _find_mask_faults(call, mask)
    yield from _find_shape_faults(call)
    yield "Padding is not supported on the head_dim dimension" if query.shape[-1] % 32 else ""


def _find_mask_faults(call: Call, mask: TensorSpec) -> Iterator[str]:
    query, key = call.inputs[:2]
    if call.arguments["is_causal"]:
        yield "is_causal and attn_mask cannot both be present. Got is_causal: true, attn_mask: true"
    yield "When mask is provided to SDPA, it must be tilized" if not mask.is_tiled else ""
    if mask.dtype not in ATTENTION_TYPES:
        yield "When mask is provided to SDPA, it must be in BF16, BFP8, or BFP4 dataformat"
    yield "When mask is provided to SDPA, it must be in DRAM" if mask.memory is not DRAM else ""
    if mask.shape[:1] not in ((1,), query.shape[:1]):
        yield "Mask batch dim must either be 1 (to be broadcasted across all batches) or must match Q batch dimension"
    if mask.shape[1:2] not in ((1,), query.shape[1:2]):
        yield "Mask num_heads must either be 1 (to be broadcasted across all heads) or must match Q heads dimension"
    if len(mask.shape) < 4 or mask.shape[2] != query.shape[2]:
        yield "Mask sequence length must match Q sequence length"
    yield "Mask sequence length must match K sequence length" if mask.shape[3] != key.shape[2] else ""


def _find_shape_faults(call: Call) -> Iterator[str]:
    query, key, value = (spec.shape for spec in call.inputs[:3])
    if call.arguments["is_causal"] and query[2] != key[2]:
        yield f"Causal SDPA requires Q and K to have the same sequence length. Got Q: {query[2]}, K: {key[2]}"
    for place, what in enumerate(("batch", "num_heads", "sequence length", "hidden dim")):
        if len(key) <= place or len(value) <= place:
            yield f"ShapeBase[] index out of range. {place} not in [-4, {min(len(key), len(value))})"
        wanted = (
            {query[place], key[place], value[place]} if what in ("batch", "hidden dim") else {key[place], value[place]}
        )
        yield f"K and V {what} must match. Got K: {key[place]}, V: {value[place]}" if len(wanted) > 1 else ""
    if query[1] % key[1]:
        yield (
            "Q num_heads must be >= K num_heads and divisible by K num_heads, and K num_heads must be greater than 0. "
            f"Got Q: {query[1]}, K: {key[1]}"
        )
    config = call.arguments["program_config"] or {}
    for name in ("q_chunk_size", "k_chunk_size"):
        if (size := int(config.get(name, _CHUNK))) % 32 or size < 32:
            yield f"{name} must be a positive multiple of TILE_SIZE. Got {name}: {size}, TILE_SIZE: 32"


def _deals_in_pairs(query: TensorSpec, config: Mapping[str, Any]) -> bool:
    """Return whether a core gets a light and a heavy chunk of a causal sequence."""
    return ceil_div(query.shape[-2], int(config.get("q_chunk_size", _CHUNK))) % 2 == 0


def _list_buffers(plan: PlanBuilder, call: Call, mask: TensorSpec | None) -> list[int]:
    query, key, value = call.inputs[:3]
    config, is_causal = call.arguments["program_config"] or {}, bool(call.arguments["is_causal"])
    batch, heads, rows, depth = query.shape
    keys = key.shape[-2]
    chunk, key_chunk = (int(config.get(name, _CHUNK)) for name in ("q_chunk_size", "k_chunk_size"))
    cores = count_cores(plan, config)
    high, wide, deep = chunk // 32, key_chunk // 32, depth // 32
    total = batch * heads * ceil_div(rows, chunk)
    # Causal work is distributed in pairs of a light and a heavy chunk.
    pairs = is_causal and _deals_in_pairs(query, config)
    most = 2 * ceil_div(total // 2, cores) if pairs else ceil_div(total, cores)
    plain, between = BFLOAT16.tile_bytes(), choose_intermediate_dtype(call).tile_bytes()
    flows = not has_float32_sums(call)
    """Rows are written as soon as they are done unless kernels accumulate in float32."""
    buffers = [
        high * deep * (2 if most > 1 else 1) * query.tile_bytes,
        2 * wide * deep * key.tile_bytes,
        2 * wide * deep * value.tile_bytes,
    ]
    if pairs and plan.memory_map.architecture is BLACKHOLE and cores >= _count_cores_with_counters(key, chunk, flows):
        buffers.append(_COUNTER_BYTES)
    if mask is not None:
        buffers.append(2 * high * wide * mask.tile_bytes)
    elif is_causal or (flows and (rows % chunk or keys % key_chunk)):
        buffers.append((1 + is_causal + (not is_causal and keys % 32 > 0)) * plain)
    elif rows % chunk or keys % key_chunk:
        buffers.append(2 * high * wide * BFLOAT4_B.tile_bytes())
    buffers += [plain] * (3 if flows else 2)
    largest, summed = [high * plain] * 2, [high * between] * 2
    buffers += [high * wide * between, high * deep * plain, high * deep * plain, *largest, *summed, high * plain]
    finished = 2 * _count_output_rows(high, deep) if flows else high
    return [*buffers, finished * deep * query.tile_bytes]


def count_cores(plan: PlanBuilder, config: Mapping[str, Any]) -> int:
    grid = plan.memory_map.grid
    columns, rows = config.get("compute_with_storage_grid_size", (grid.columns, grid.rows))
    if columns > grid.columns or rows > grid.rows:
        raise NoRuleError("attention on more cores than the chip has")
    return int(columns * rows)


def _count_cores_with_counters(key: TensorSpec, chunk: int, flows: bool) -> float:
    """Return the number of cores from which Blackhole counts chunks: where keys are read more slowly than used."""
    if chunk > _COUNTED_CHUNK or key.shape[-1] > _DEEPEST_COMPARED or (key.dtype.is_block_float and not flows):
        return inf
    return 32 if flows and not key.dtype.is_block_float and key.shape[-1] >= 128 else 64


def _count_output_rows(high: int, deep: int) -> int:
    """Return the rows of tiles that are written together: those of the largest subblock that divides the chunk."""
    height, width = next(block for block in _SUBBLOCKS if high % block[0] == 0 and deep % block[1] == 0)
    return 2 if height == 1 and 2 * width <= _REGISTERS and high >= 2 else height


_HEADS: Step = {**EXAMPLE_TENSOR, "shape": [1, 2, 64, 64]}

ATTENTION_ARGUMENTS = (
    Argument("is_causal", default=True),
    Argument("scale", default=None),
    Argument("program_config", default=None),
    KERNEL_CONFIG,
)

RECORDS = (
    build_record(
        format_call("transformer.scaled_dot_product_attention", [_HEADS] * 3, is_causal=False),
        attention,
        *ATTENTION_ARGUMENTS,
        family="attention",
        verified_low_rank_and_rare_types=True,
    ),
)
