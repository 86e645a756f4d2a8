# SPDX-License-Identifier: Apache-2.0
"""Heads of the new row of each user, split and concatenated: one user per core."""

from collections.abc import Iterator

from ttmem.base.arithmetic import round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT16, DRAM, FLOAT32, L1
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call, format_height_shards
from ttmem.twin.operations.conv_parallelization import fill_rows
from ttmem.twin.operations.elementwise import allocate_results, layout_name, memory_layout_name
from ttmem.twin.operations.heads import measure_padded_matrix
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder
from ttmem.twin.operations.record import Argument
from ttmem.twin.placement import compute_paging
from ttmem.twin.tensor_spec import TILE, CoreRange, Shard, TensorSpec

_MOST_USERS = 32
_NO_FORMAT = "Unsupported data format"


def split_new_heads(call: Call, plan: PlanBuilder) -> Plan:
    """Split queries, keys and values of the new row of each user: one user's heads on each core."""
    source = call.inputs[0]
    heads = int(call.arguments["num_heads"])
    key_heads = int(call.arguments["num_kv_heads"] or heads)
    apart = source.shard is not None and call.arguments["overlap_qk_coregrid"] is False
    if len(call.inputs) > 1 or len(source.shape) != 4:
        return plan.unknown("decode heads of a slice of the users, or not of rank 4")
    users, width, parts = source.shape[2], measure_padded_matrix(source)[1], heads + 2 * key_heads
    if width % parts:
        raise BadInputError(f"Input shape {width} must be divisible by num_heads + 2*num_kv_heads = {parts}")
    depth = width // parts
    grid = call.shard.ranges if call.shard is not None else fill_rows(plan.memory_map.grid.cores, plan.memory_map.grid)
    there = sum(part.cores for part in grid)
    if (needed := max(users, min(there, users) + apart)) > there:
        raise BadInputError(f"Target number of cores {needed} is greater than total available cores {there}")
    if apart and there < 2 * users:
        return plan.unknown("queries and keys on different cores of a too small grid")
    cores = _take_cores(grid, users)
    specs = [
        TensorSpec(
            (source.shape[0], users, count, depth),
            source.dtype,
            source.layout,
            L1,
            Shard("height", round_up(count, 32), depth, cores),
        )
        for count in (heads, key_heads, key_heads)
    ]
    slots = allocate_results(plan, specs, _find_split_faults(source, heads, key_heads, depth, apart=apart))
    alignment = plan.memory_map.architecture.dram_alignment_bytes
    line = 16 * source.element_bytes
    short = source.shard is None and source.memory is DRAM and line < alignment
    plan.launch([(depth // 32 + 1) * alignment] * 2 if short else [])
    return plan.finish_all(list(zip(slots, specs, strict=True)))


def _find_split_faults(source: TensorSpec, heads: int, key_heads: int, depth: int, *, apart: bool) -> Iterator[str]:
    """Yield the library's complaints in its order."""
    if source.dtype not in (BFLOAT16, FLOAT32):
        yield _NO_FORMAT
    yield "Only tile layout is supported for input tensor" if not source.is_tiled else ""
    if source.shape[3] % 32 or source.shape[2] > _MOST_USERS or source.shape[:2] != (1, 1):
        yield f"Unsupported input shape = Shape({list(source.shape)})"
    shard = source.shard
    if isinstance(shard, Shard):
        if shard.kind != "width":
            yield f"Current input memory layout is {memory_layout_name(source)}. It must be width sharded"
        yield "Shard shape must be correct" if shard.height != compute_paging(source).physical_height else ""
        yield "Shard orientation must be ROW_MAJOR" if shard.by_column else ""
        if apart and depth % shard.width:
            yield "We don't support partial heads in shards when q and k heads are not overlapping coregrid"
    yield f"num_q_heads={heads} must be greater than or equal to num_kv_heads={key_heads}" if heads < key_heads else ""


def _take_cores(grid: tuple[CoreRange, ...], wanted: int) -> tuple[CoreRange, ...]:
    """Return the first ``wanted`` cores, row by row in each range."""
    found: list[CoreRange] = []
    for part in grid:
        rows, rest = divmod(min(wanted, part.cores), part.columns)
        x, y = part.start_x, part.start_y
        found += [CoreRange(x, y, part.end_x, y + rows - 1)] if rows else []
        found += [CoreRange(x, y + rows, x + rest - 1, y + rows)] if rest else []
        wanted -= rows * part.columns + rest
    return tuple(found)


def concat_new_heads(call: Call, plan: PlanBuilder) -> Plan:
    """Concatenate the heads of each user, one head per core."""
    source, heads = call.inputs[0], int(call.arguments["num_heads"])
    shard = source.shard
    if len(source.shape) != 4:
        return plan.unknown("decode heads that are not of rank 4")
    if isinstance(shard, Shard) and (
        len(shard.ranges) > 1 or (shard.ranges[0].start_x, shard.ranges[0].start_y) != (0, 0)
    ):
        return plan.unknown("decode heads on other cores than the first ones")
    if heads > plan.memory_map.grid.cores:
        raise BadInputError(f"{heads} heads exceed the number of cores")
    batch, depth = max(source.shape[1], _MOST_USERS), measure_padded_matrix(source)[1]
    cores = fill_rows(heads, plan.memory_map.grid)
    shape = (source.shape[0], 1, batch, heads * depth)
    result = TensorSpec(shape, source.dtype, TILE, L1, Shard("width", batch, depth, cores))
    (slot,) = allocate_results(plan, [result], _find_concat_faults(source, heads))
    plan.launch([])
    return plan.finish(slot, result)


def _find_concat_faults(source: TensorSpec, heads: int) -> Iterator[str]:
    rows, depth = measure_padded_matrix(source)
    if source.dtype not in (BFLOAT16, FLOAT32):
        yield _NO_FORMAT
    yield f"Input tensor layout must be TILE but got {layout_name(source)}" if not source.is_tiled else ""
    yield "seqlen=1 for decode" if source.shape[0] != 1 else ""
    yield "currently only support less than 32 users" if source.shape[1] > _MOST_USERS else ""
    yield "head_dim must be multiple of TILE_WIDTH" if rows < heads else ""
    shard = source.shard
    if not isinstance(shard, Shard):
        yield "Input tensor must be sharded"
        return
    if shard.kind != "height":
        yield f"Input tensor memory layout must be HEIGHT_SHARDED but got {memory_layout_name(source)}"
    if shard.width != depth:
        yield f"Shard spec shape[1] ({shard.width}) must match input tensor padded shape[-1] ({depth})"
    if shard.height != rows:
        yield f"Shard spec shape[0] ({shard.height}) must match input tensor padded shape[-2] ({rows})"
    yield "Input core grid num_cores must be equal to num users" if shard.cores != source.shape[1] else ""


_SPLIT = format_call(
    "experimental.nlp_create_qkv_heads_decode", [{**EXAMPLE_TENSOR, "shape": [1, 1, 32, 768]}], num_heads=8
)
RECORDS = (
    build_record(
        [
            *_SPLIT[:-1],
            {**_SPLIT[-1], "kwargs": {"num_heads": 8, "num_kv_heads": 2}, "out": ["queries", "keys", "values"]},
        ],
        split_new_heads,
        Argument("num_heads"),
        *(Argument("num_kv_heads", default=None), Argument("overlap_qk_coregrid", default=None)),
    ),
    build_record(
        format_call(
            "experimental.nlp_concat_heads_decode",
            [{**EXAMPLE_TENSOR, "shape": [1, 1, 32, 64], **format_height_shards(1, 32, 64)}],
            num_heads=8,
        ),
        concat_new_heads,
        Argument("num_heads"),
        verified_with_shards=False,
    ),
)
