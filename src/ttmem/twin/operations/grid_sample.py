# SPDX-License-Identifier: Apache-2.0
"""`grid_sample`: reads an image at the points of a second tensor."""

from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT16, BLACKHOLE, DRAM, FLOAT32, L1
from ttmem.twin.operations.call_syntax import build_record, format_call
from ttmem.twin.operations.conv_parallelization import fill_rows
from ttmem.twin.operations.elementwise import has_padded_shard_rows
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder
from ttmem.twin.operations.record import KERNEL_CONFIG, Argument, has_float32_sums
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import ROW_MAJOR, InvalidSpecError, NdShard, Shard, TensorSpec

_TILE, _FACE = 32, 16
_TILES_AT_ONCE = 8
NUMBERS_OF_A_POINT = {("bilinear", False): 2, ("bilinear", True): 6, ("nearest", True): 2}
_SHARDS_OF_DRAM = "Only L1 buffers can have an associated circular buffer!"
_OTHER_CUT = "{} tensor must have INTERLEAVED or HEIGHT_SHARDED memory layout"
_FEW_CHANNELS = 224
"""The most channels for which both readers of a Blackhole core read the image."""


def grid_sample(call: Call, plan: PlanBuilder) -> Plan:
    """Plan a row of channels for each point; several points per grid row widen the result or its channels."""
    image, grid = call.inputs[:2]
    mode, is_prepared = str(call.arguments["mode"]), bool(call.arguments["use_precomputed_grid"])
    numbers = NUMBERS_OF_A_POINT.get((mode, is_prepared))
    if numbers is None or not _is_plain(image) or not _is_plain(grid) or call.arguments["padding_mode"] != "zeros":
        return plan.unknown("grid_sample of this mode, of other types or of other layouts")
    points = grid.shape[-1] // numbers
    if grid.shape[-1] % numbers:
        raise InvalidSpecError(f"the grid's last dimension must be a multiple of {numbers}, but got {grid.shape[-1]}")
    if not points or image.shape[0] != grid.shape[0] or image.shape[-1] % _TILE:
        return plan.unknown("grid_sample of different batches, or of channels in partial tiles")
    joins = bool(call.arguments["batch_output_channels"])
    if joins and points == 1:
        return plan.unknown("grid_sample that joins the channels of single points")
    shape = (*grid.shape[:3], image.shape[-1])
    shape = (*shape[:3], shape[3] * points) if joins else (*shape[:2], shape[2] * points, shape[3])
    result = TensorSpec(shape, image.dtype, ROW_MAJOR, call.memory or grid.memory)
    if has_padded_shard_rows(image):
        if call.shard is not None:
            return plan.unknown("grid_sample of padded channels into the caller's shards")
        result = replace(result, alignment=(1, _count_channels(image) * (points if joins else 1)))
    if call.shard is not None or isinstance(grid.shard, Shard) or mode == "nearest":
        # A sharded grid decides the result's shards; otherwise the caller does.
        memory = call.memory if call.shard is not None and grid.shard is None else None
        shard = _choose_shard(call, plan, image, grid, points if not joins else -points)
        result = replace(result, memory=memory or L1, shard=shard)
    slot = plan.allocate(result)
    wanted = call.shard if call.memory is not None else grid.shard
    for name, cut in (("Input", image.shard), ("Grid", grid.shard), ("Output", wanted)):
        if isinstance(cut, Shard) and cut.kind != "height":
            plan.refuse(_OTHER_CUT.format(name))
    written_in_place = [grid, result] if mode == "nearest" else [grid]
    if any(spec.shard is not None and spec.memory is DRAM for spec in written_in_place):
        plan.refuse(_SHARDS_OF_DRAM)
    plan.launch((_list_nearest_buffers if mode == "nearest" else _list_bilinear_buffers)(call, plan, result), CIRCULAR)
    return plan.finish(slot, result)


def _is_plain(spec: TensorSpec) -> bool:
    if isinstance(spec.shard, NdShard):
        return False
    return len(spec.shape) == 4 and not spec.is_tiled and spec.dtype in (BFLOAT16, FLOAT32)


def _choose_shard(call: Call, plan: PlanBuilder, image: TensorSpec, grid: TensorSpec, points: int) -> Shard:
    """Return the grid's shards, the caller's, or shards on all cores with a point; negative ``points`` join."""
    if isinstance(grid.shard, Shard):
        height, ranges, by_column = grid.shard.height, grid.shard.ranges, grid.shard.by_column
    elif isinstance(call.shard, Shard):
        return call.shard
    else:
        rows, chip = prod(grid.shape[:3]), plan.memory_map.grid
        cores = min(rows, chip.cores)
        height, ranges, by_column = ceil_div(rows, cores), fill_rows(cores, chip), False
    channels = _count_channels(image)
    if points < 0:
        return Shard("height", height, -points * channels, ranges, by_column)
    return Shard("height", height * points, channels, ranges, by_column)


def _count_channels(image: TensorSpec) -> int:
    """Return the channels in memory: shards may pad them."""
    return image.padded[-1]


def _compute_grid_row_bytes(plan: PlanBuilder, grid: TensorSpec) -> int:
    architecture = plan.memory_map.architecture
    alignment = architecture.dram_alignment_bytes if grid.memory is DRAM else architecture.l1_alignment_bytes
    return round_up(grid.shape[-1] * grid.element_bytes, alignment)


def _list_bilinear_buffers(call: Call, plan: PlanBuilder, result: TensorSpec) -> list[int]:
    """Return a grid row, tiles of the image and a tile of weights twice (four times for two readers), and results."""
    image, grid = call.inputs[:2]
    element = image.element_bytes
    is_full = bool((call.arguments["compute_kernel_config"] or {}).get("dst_full_sync_en"))
    most = _TILES_AT_ONCE // 2 if has_float32_sums(call) and not is_full else _TILES_AT_ONCE
    read = 2 * min(image.shape[-1] // _TILE, most) * _TILE * _TILE * element
    weights = 2 * image.tile_bytes
    readers = 2 if grid.shard is not None and _has_two_readers(call, plan) else 1
    sizes = [] if grid.shard is not None else [_compute_grid_row_bytes(plan, grid)]
    sizes += [read] * readers + [weights] * readers
    if grid.shard is None:
        sizes.append(2 * ceil_div(result.shape[-1], _FACE) * _FACE * element)
    return sizes


def _has_two_readers(call: Call, plan: PlanBuilder) -> bool:
    image = call.inputs[0]
    if not call.arguments["use_precomputed_grid"]:
        return True
    if image.memory is DRAM:
        return False
    return plan.memory_map.architecture is not BLACKHOLE or image.shape[-1] <= _FEW_CHANNELS


def _list_nearest_buffers(call: Call, plan: PlanBuilder, result: TensorSpec) -> list[int]:
    """Return a grid row for each of two readers, and a row of zeros."""
    grid = call.inputs[1]
    row = result.shape[-1] * result.element_bytes
    return [row] if grid.shard is not None else [_compute_grid_row_bytes(plan, grid)] * 2 + [row]


_EXAMPLE = {"dtype": "bfloat16", "layout": "row_major", "memory": "DRAM"}

RECORDS = (
    build_record(
        format_call("grid_sample", [{"shape": [1, 8, 8, 32], **_EXAMPLE}, {"shape": [1, 4, 4, 2], **_EXAMPLE}]),
        grid_sample,
        Argument("mode", default="bilinear"),
        Argument("padding_mode", default="zeros"),
        *(Argument(name, default=False) for name in ("align_corners", "use_precomputed_grid", "batch_output_channels")),
        KERNEL_CONFIG,
    ),
)
