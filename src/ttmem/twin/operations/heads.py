# SPDX-License-Identifier: Apache-2.0
"""Heads of whole sequences, split before attention and concatenated after it."""

from collections.abc import Iterator
from dataclasses import replace

from ttmem.base.arithmetic import round_up
from ttmem.base.errors import BadInputError
from ttmem.hardware import BFLOAT8_B, BFLOAT16, FLOAT32
from ttmem.twin.operations.call_syntax import build_record, format_call
from ttmem.twin.operations.conv_parallelization import fill_rows
from ttmem.twin.operations.elementwise import (
    allocate_results,
    describe_not_in_l1,
    layout_name,
    memory_layout_name,
    result_spec,
)
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, TensorHandle
from ttmem.twin.operations.record import Argument, Step
from ttmem.twin.operations.result_shards import bound_cores
from ttmem.twin.placement import compute_paging
from ttmem.twin.tensor_spec import TILE, Shard, TensorSpec

_TYPES = (FLOAT32, BFLOAT16, BFLOAT8_B)
_TILES_AHEAD = 4


def measure_padded_matrix(spec: TensorSpec) -> tuple[int, int]:
    """Return rows and width as stored."""
    rows = spec.shape[-2]
    return round_up(rows, 32) if spec.is_tiled else rows, compute_paging(spec).physical_width


def _find_tile_faults(source: TensorSpec) -> Iterator[str]:
    if source.dtype not in _TYPES:
        yield "Unsupported data format"
    if not source.is_tiled:
        yield f"Input tensor layout must be TILE but got {layout_name(source)}"


def concat_heads(call: Call, plan: PlanBuilder) -> Plan:
    """Concatenate heads side by side; shards that hold whole heads stay on their cores."""
    source = call.inputs[0]
    if call.name.endswith("concatenate_heads"):
        return _concatenate(call, plan, source)
    if len(source.shape) < 4:
        raise BadInputError(f"ShapeBase[] index out of range. 3 not in [-4, {len(source.shape)})")
    if len(source.shape) > 4:
        return plan.unknown("heads of more than four dimensions")
    result = _join_heads(plan, call, source)
    return plan.finish(*result) if result else plan.unknown("shards with parts of heads crash the library")


def _concatenate(call: Call, plan: PlanBuilder, source: TensorSpec) -> Plan:
    """Concatenate heads that are whole tiles; shards are first read into pages if the result is interleaved."""
    if len(source.shape) != 4:
        raise BadInputError(f"Input tensor must have rank 4. Shape: Shape({list(source.shape)})")
    if width := source.shape[-1] % 32 and source.shape[-1]:
        raise BadInputError(
            f"Head size must be a multiple of 32 but was found to be {width}. Update the matmul that uses the output "
            "of this operation to include padding in the weights."
        )
    if measure_padded_matrix(source)[1] != source.shape[-1]:
        raise BadInputError(
            f"Head size ({source.shape[-1]}) cannot have tile padding. Ensure that the head size is not padded."
        )
    held = TensorHandle(-1, source)
    if source.shard is not None and call.memory is not None and call.shard is None:
        held = plan.apply(to_memory_config, held, call.memory)
    made = _join_heads(plan, call, held.spec)
    if made is None:
        return plan.unknown("shards with parts of heads crash the library")
    plan.free(held.slot)
    slot, result = made
    batch, _, rows, width = result.shape
    return plan.finish(slot, replace(result, shape=(batch, rows, width)))


def _join_heads(plan: PlanBuilder, call: Call, source: TensorSpec) -> tuple[int, TensorSpec] | None:
    """Read a row of tiles of all heads at a time, and the next one; sharded heads need no buffers."""
    batch, heads, rows, width = source.shape
    high, wide = measure_padded_matrix(source)
    result = replace(result_spec(call, source), shape=(batch, 1, rows, heads * width), layout=TILE)
    if isinstance(result.shard, Shard):
        if not isinstance(source.shard, Shard):
            raise BadInputError("bad optional access")
        together = source.shard.height // high
        if not together:
            return None
        own = source.shard
        cut = Shard(result.shard.kind, own.height // together, own.width * together, own.ranges, own.by_column)
        result = replace(result, shard=cut)
    (slot,) = allocate_results(plan, [result], _find_concat_faults(source, result, high, wide))
    plan.launch([] if source.shard is not None else [2 * heads * (wide // 32) * source.tile_bytes])
    return slot, result


def _find_concat_faults(source: TensorSpec, result: TensorSpec, high: int, wide: int) -> Iterator[str]:
    """Yield refusals with the library's text and in its order."""
    yield from _find_tile_faults(source)
    shard, wanted = source.shard, result.shard
    if not isinstance(shard, Shard):
        if isinstance(wanted, Shard):
            yield f"Output memory config layout must be INTERLEAVED but got {memory_layout_name(result)}"
        return
    if shard.kind == "width":
        yield f"Input tensor memory layout must not be WIDTH_SHARDED but got {memory_layout_name(source)}"
    if shard.width != wide:
        yield f"Input tensor shard width ({shard.width}) must equal padded width ({wide})"
    if shard.height % high:
        yield f"Input tensor shard height ({shard.height}) must be divisible by padded height ({high})"
    if source.shape[1] % (shard.height // high):
        yield (
            f"Input tensor padded height ({source.shape[1]}) must be divisible by shard height / padded height "
            f"({shard.height} / {high})"
        )
    if not isinstance(wanted, Shard):
        yield f"Sharded input requires a sharded output memory config but got {memory_layout_name(result)}"
    elif wanted.kind == "height":
        yield f"Output memory config layout must not be HEIGHT_SHARDED but got {memory_layout_name(result)}"
    yield from filter(None, (describe_not_in_l1("in0", "input", source), describe_not_in_l1("out0", "output", result)))


def split_heads(call: Call, plan: PlanBuilder) -> Plan:
    """Split one tensor into queries, keys and values; transposing the keys takes two more buffers."""
    source = call.inputs[0]
    heads = int(call.arguments["num_heads"])
    key_heads = int(call.arguments["num_kv_heads"] or heads)
    if call.arguments["num_kv_heads"] == 0:
        return plan.unknown("queries alone")
    is_nlp = call.name.endswith("nlp_create_qkv_heads")
    flips = bool(call.arguments["transpose_k_heads" if is_nlp else "transpose_key"])
    if len(call.inputs) > 1 or len(source.shape) < 2:
        return plan.unknown("heads of two tensors, or of less than three dimensions")
    parts, width = heads + 2 * key_heads, measure_padded_matrix(source)[1]
    if not is_nlp:
        _check_parts(source, parts)
    elif len(source.shape) != 4:
        return plan.unknown("heads of more or less than four dimensions")
    elif width % parts:
        raise BadInputError("Unsupported input shape")
    depth = width // parts
    if source.shard is not None and not is_nlp:
        return _split_blocks(call, plan, heads, key_heads, flips=flips)
    whole = round_up(depth, 32)
    shapes = _compute_shapes(source, heads, key_heads, whole, flips=flips)
    like = result_spec(call, source)
    if isinstance(like.shard, Shard):
        grid = plan.memory_map.grid
        if max(heads, key_heads) > grid.cores:
            raise BadInputError(f"{max(heads, key_heads)} heads are more than there are cores")
        cuts = [Shard(like.shard.kind, 32, depth, fill_rows(n, grid)) for n in (heads, key_heads, key_heads)]
        specs = [replace(like, shape=shape, shard=cut) for shape, cut in zip(shapes, cuts, strict=True)]
    else:
        specs = [replace(like, shape=shape, layout=TILE) for shape in shapes]
    slots = allocate_results(plan, specs, _find_split_faults(source, specs[0], heads, key_heads, depth, flips=flips))
    tile = source.tile_bytes
    if source.shard is not None:
        plan.launch([])
    elif flips:
        plan.launch([_TILES_AHEAD * tile] * 3)
    else:
        across = depth // 32
        plan.launch([(16 if across % 8 == 0 else 8 if across % 4 == 0 else _TILES_AHEAD) * tile])
    return plan.finish_all(list(zip(slots, specs, strict=True)))


def _check_parts(source: TensorSpec, parts: int) -> None:
    """Check the input as the library does before any allocation."""
    if len(source.shape) != 3:
        raise BadInputError(f"Invalid input tensor: expected 3 dimensions, but found {len(source.shape)}.")
    if not source.is_tiled:
        raise BadInputError("Invalid layout: input tensor must use TILE_LAYOUT, but found 0.")
    depth, whole = source.shape[-1] // parts, round_up(source.shape[-1], 32) // parts
    if depth % 32:
        raise BadInputError(
            f"Invalid head size: {depth}. The head size must be a multiple of the tile width (32). Please adjust the "
            "dimensions accordingly."
        )
    if whole != depth:
        raise BadInputError(
            f"Padding error: Head size {depth} should not include additional tile padding, but padded head size was "
            f"found to be {whole}. Ensure that no extra padding is applied."
        )
    if round_up(source.shape[-1], 32) % parts:
        raise BadInputError("Unsupported input shape")


def _compute_shapes(
    source: TensorSpec, heads: int, key_heads: int, depth: int, *, flips: bool
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    batch, rows = source.shape[0], source.shape[-2]
    keys = (batch, key_heads, depth, rows) if flips else (batch, key_heads, rows, depth)
    return (batch, heads, rows, depth), keys, (batch, key_heads, rows, depth)


def _find_split_faults(
    source: TensorSpec, queries: TensorSpec, heads: int, key_heads: int, depth: int, *, flips: bool
) -> Iterator[str]:
    """Yield refusals with the library's text and in its order."""
    yield from _find_tile_faults(source)
    if len(source.shape) == 4 and source.shape[1] != 1:
        yield f"Unsupported input sequence length {source.shape[1]} is not equal to 1"
    shard, wanted = source.shard, queries.shard
    if not isinstance(shard, Shard):
        if isinstance(wanted, Shard):
            yield f"Output memory config layout must be INTERLEAVED but got {memory_layout_name(queries)}"
        return
    if shard.height != (rows := compute_paging(source).physical_height):
        yield f"Shard spec shape[0] ({shard.height}) must equal physical volume / padded shape[-1] ({rows})"
    if not isinstance(wanted, Shard) or wanted.kind == "width":
        yield (
            "Output memory config must be sharded and not WIDTH_SHARDED but got memory_layout: "
            + memory_layout_name(queries)
        )
    if shard.by_column:
        yield "Input tensor shard orientation must be ROW_MAJOR but got ShardOrientation::COL_MAJOR"
    if heads < key_heads:
        yield f"Number of Q heads ({heads}) must be >= number of KV heads ({key_heads})"
    for name, count in (("Q", heads), ("KV", key_heads)):
        if count % shard.cores:
            yield f"Number of {name} heads ({count}) must be divisible by number of cores ({shard.cores})"
    if shard.width != (needed := (heads // key_heads + 2) * depth):
        yield f"Shard spec shape[1] ({shard.width}) must equal (num_q_heads / num_kv_heads + 2) * head_dim ({needed})"
    if flips:
        yield "Transpose K heads must be false"
    yield from filter(None, [describe_not_in_l1("q_out", "q", queries)])


def _split_blocks(call: Call, plan: PlanBuilder, heads: int, key_heads: int, *, flips: bool) -> Plan:
    """Split block shards with whole groups of heads on each core; the results stay on these cores."""
    source, shard = call.inputs[0], call.inputs[0].shard
    like = result_spec(call, source)
    if not isinstance(shard, Shard):
        return plan.unknown("heads in ND shards")
    batch, _, width = source.shape
    rows, depth = measure_padded_matrix(source)[0], width // (heads + 2 * key_heads)
    box = bound_cores(shard)
    across, down, cores = box.end_x + 1, box.end_y + 1, box.cores
    if shard.by_column:
        across, down = down, across
    specs = []
    for shape in _compute_shapes(replace(source, shape=(batch, rows, width)), heads, key_heads, depth, flips=flips):
        own = shape[0] * shape[1] * shape[2] // cores
        cut = (
            Shard(like.shard.kind, own, shape[3], shard.ranges, shard.by_column)
            if isinstance(like.shard, Shard)
            else None
        )
        specs.append(replace(like, shape=shape, shard=cut))
    faults = _find_block_faults(source, specs, heads, key_heads, down, across)
    slots = allocate_results(plan, specs, faults)
    if call.shard != specs[0].shard or rows != source.shape[-2]:
        return plan.unknown("heads of block shards into shards that the caller gives")
    tiles = rows // 32 * (depth // 32) * (key_heads // across)
    plan.launch([tiles * source.tile_bytes] if flips else [])
    return plan.finish_all(list(zip(slots, specs, strict=True)))


def _find_block_faults(
    source: TensorSpec, results: list[TensorSpec], heads: int, key_heads: int, down: int, across: int
) -> Iterator[str]:
    yield from _find_tile_faults(source)
    shard, wanted, width = source.shard, results[0].shard, source.shape[-1]
    assert isinstance(shard, Shard)
    if shard.kind != "block":
        yield f"Input tensor memory layout must be BLOCK_SHARDED but got {memory_layout_name(source)}"
    if heads % key_heads:
        yield f"Number of q heads {heads} must fit evenly into number of kv heads {key_heads}"
    if width % (across * 32):
        yield (
            f"Flattened hidden dimension {width} must be a multiple of width cores {across} * tile width 32 to ensure "
            "that each core gets an even amount of tiles"
        )
    if not isinstance(wanted, Shard) or wanted.kind != "height":
        yield f"Output memory config layout must be HEIGHT_SHARDED but got {memory_layout_name(results[0])}"
    if source.shape[0] != down:
        yield f"Batch size {source.shape[0]} must be equal to num cores {down}"
    if key_heads % across:
        yield f"number of groups {key_heads} must be a multiple of the number of width cores {across}"


def _write_example(name: str, shape: list[int], **options: object) -> list[Step]:
    steps = format_call(name, [{"shape": shape, "dtype": "bfloat16", "layout": "tile", "memory": "DRAM"}])
    steps[-1]["kwargs"] |= options
    return steps


RECORDS = (
    *(
        build_record(_write_example(name, [1, 8, 64, 64]), concat_heads, family="concat heads")
        for name in ("experimental.nlp_concat_heads", "transformer.concatenate_heads")
    ),
    build_record(
        _write_example("experimental.nlp_create_qkv_heads", [1, 1, 64, 768], num_heads=8, num_kv_heads=2),
        split_heads,
        Argument("num_heads"),
        *(Argument("num_kv_heads", default=None), Argument("transpose_k_heads", default=True)),
        family="split heads",
    ),
    build_record(
        _write_example("transformer.split_query_key_value_and_split_heads", [1, 64, 768], num_heads=4),
        split_heads,
        Argument("num_heads"),
        *(Argument("num_kv_heads", default=None), Argument("transpose_key", default=True)),
        family="split heads",
    ),
)
