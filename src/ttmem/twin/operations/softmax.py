# SPDX-License-Identifier: Apache-2.0
"""Softmax, interleaved and sharded."""

from collections.abc import Mapping

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT8_B, BFLOAT16, FLOAT32, L1
from ttmem.twin.operations.call_syntax import EXAMPLE_TENSOR, build_record, format_call
from ttmem.twin.operations.elementwise import dtype_name, result_spec
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder, dimension
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.reductions import choose_accumulator
from ttmem.twin.placement import compute_paging
from ttmem.twin.tensor_spec import InvalidSpecError, Shard, TensorSpec

_STREAMED_TILES = 80
"""The tiles read at a time if the rows do not fit a core."""
_MOST_BYTES_ALONG = 512 * 1024
SHARDED_CONFIG = "ttnn.SoftmaxShardedMultiCoreProgramConfig"


def softmax(call: Call, plan: PlanBuilder) -> Plan:
    """Keep a row of tiles for the last dimension, for others the tiles along the dimension."""
    source = call.inputs[0]
    rank = len(source.shape)
    result = result_spec(call, source)
    if not rank or not source.is_tiled:
        return plan.unknown("softmax of a scalar, or of row-major tensors")
    axis = dimension(call.arguments["dim"], rank)
    in_place = call.name == "softmax_in_place"
    if in_place and (rank, axis) != (4, 3):
        raise InvalidSpecError(f"Invalid dimension: {axis}. Currently softmax inplace supports dim -1.")
    if in_place and call.arguments["program_config"] is not None:
        return _softmax_shards(call, plan)
    slot = -1 if in_place else plan.allocate(result)
    if source.dtype not in (FLOAT32, BFLOAT16, BFLOAT8_B):
        plan.refuse(f"Input tensor must be FLOAT32, BFLOAT16, or BFLOAT8_B, got: {dtype_name(source.dtype)}")
    if axis == rank - 1 and rank <= 4:
        buffers = _compute_row_buffers(source, plan, stable=bool(call.arguments["numeric_stable"]))
    elif axis >= rank - 2:
        buffers = _compute_column_buffers(source, plan, ceil_div(source.shape[axis], 32))
    else:
        tile, wide = source.dtype.tile_bytes(source.tile), FLOAT32.tile_bytes()
        buffers = [2 * tile, 2 * tile, 4 * wide, tile, wide]
    plan.launch(buffers)
    if isinstance(result.shard, Shard) and source.shape[-1] % 32:
        padded = round_up(source.shape[-1], 32)
        if result.shard.width != padded:  # the 4-D result is padded and has to be sliced
            plan.refuse(
                "Changing the last dimension of a sharded tensor is not supported unless the shard width matches "
                "the input last dimension."
            )
    return plan.finish(slot, result)


def _compute_row_buffers(source: TensorSpec, plan: PlanBuilder, *, stable: bool) -> list[int]:
    """Return the buffers for rows; the stable form needs one tile more, and a padded row twice."""
    width = source.shape[-1] if source.shape else 1
    tiles = ceil_div(width, 32)
    blocks = ceil_div(tiles, 4)
    block = tiles // blocks if tiles % blocks == 0 else 4
    row = blocks * block
    tile = source.dtype.tile_bytes(source.tile)
    inner, plain = choose_accumulator(source.dtype).tile_bytes(), BFLOAT16.tile_bytes()
    is_padded = width % 32 != 0
    read = row * tile if stable and not is_padded else 2 * block * tile
    rows = row * inner * (2 if stable and is_padded else 1)
    # The library's own estimate counts five small buffers where there are more, and compares with 90 % of a core.
    if read + 2 * block * tile + rows + 5 * inner > 0.9 * plan.memory_map.architecture.l1_bytes_per_core:
        few = [_STREAMED_TILES * tile, 2 * block * tile, 2 * _STREAMED_TILES * inner, 2 * inner + 9 * plain]
        return [*few, inner] if stable else few
    return [read, 2 * block * tile, rows, (2 if stable else 1) * inner + 5 * plain]


def _compute_column_buffers(source: TensorSpec, plan: PlanBuilder, tiles: int) -> list[int]:
    """Return the buffers for all ``tiles`` at once if the library's estimate stays below half a megabyte."""
    tile, wide = source.dtype.tile_bytes(source.tile), FLOAT32.tile_bytes()
    inner = choose_accumulator(source.dtype).tile_bytes()
    estimate = plan.memory_map.l1_base_address + 2 * tiles * tile + 2 * inner + 2 * tiles * wide + 3 * wide
    if estimate > _MOST_BYTES_ALONG:
        return [2 * tile, 3 * inner, 2 * tile, 2 * wide, 4 * wide]
    return [tiles * tile, 3 * inner, tiles * tile, tiles * wide, 2 * wide, tiles * wide, wide]


def _count_shards(spec: TensorSpec, shard: Shard) -> int:
    paging = compute_paging(spec)
    return ceil_div(paging.physical_height, shard.height) * ceil_div(paging.physical_width, shard.width)


def _softmax_shards(call: Call, plan: PlanBuilder) -> Plan:
    """Compute softmax of each shard in place, row of tiles by row of tiles."""
    source, config = call.inputs[0], call.arguments["program_config"]
    shard = source.shard
    if (
        not isinstance(config, Mapping)
        or config.get("new") != SHARDED_CONFIG
        or not isinstance(shard, Shard)
        or source.memory is not L1
        or (config.get("block_h"), config.get("block_w")) != (shard.height // 32, shard.width // 32)
        or len(shard.ranges) > 1
        or _count_shards(source, shard) != shard.cores
        or source.dtype not in (FLOAT32, BFLOAT16, BFLOAT8_B)
    ):
        return plan.unknown("softmax in place with a config that does not match its shards")
    inner = choose_accumulator(source.dtype).tile_bytes()
    row = shard.width // 32 * inner
    plan.launch([inner, inner, row, inner, *([inner, row] if call.arguments["numeric_stable"] else [])])
    return plan.finish(-1, source)


_STABLE = Argument("numeric_stable", default=True, samples=(True, False))
RECORDS = (
    build_record(
        format_call("softmax", [EXAMPLE_TENSOR], dim=-1, numeric_stable=True),
        softmax,
        *(Argument("dim", default=-1), _STABLE),
        verified_low_rank_and_rare_types=True,
    ),
    build_record(
        format_call("softmax_in_place", [EXAMPLE_TENSOR]),
        softmax,
        *(Argument("dim", default=-1), Argument("program_config", default=None), _STABLE),
        family="softmax",
        verified_with_shards=False,
    ),
)
