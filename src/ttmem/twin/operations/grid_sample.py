# SPDX-License-Identifier: Apache-2.0
"""`grid_sample`: an image read at points that a second tensor names."""

from dataclasses import replace
from math import prod

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT16, BLACKHOLE, DRAM, FLOAT32, L1
from ttmem.twin.operations.call_syntax import record_of, write_call
from ttmem.twin.operations.conv_parallelization import row_by_row
from ttmem.twin.operations.elementwise import has_longer_rows
from ttmem.twin.operations.kernel_config import KERNEL_CONFIG, adds_in_float32
from ttmem.twin.operations.plan import Call, Plan, PlanWriter
from ttmem.twin.operations.record import Argument
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import ROW_MAJOR, InvalidSpecError, NdShard, Shard, TensorSpec

_TILE, _FACE = 32, 16
_TILES_AT_ONCE = 8
NUMBERS_OF_A_POINT = {("bilinear", False): 2, ("bilinear", True): 6, ("nearest", True): 2}
_SHARDS_OF_DRAM = "Only L1 buffers can have an associated circular buffer!"
_OTHER_CUT = "{} tensor must have INTERLEAVED or HEIGHT_SHARDED memory layout"
_FEW_CHANNELS = 224
"""Up to so many channels both readers of a Blackhole core read the image."""


def grid_sample(call: Call, plan: PlanWriter) -> Plan:
    """Rows of channels for every point; several points of a row of the grid widen the result or its channels."""
    image, grid = call.inputs[:2]
    mode, is_prepared = str(call.arguments["mode"]), bool(call.arguments["use_precomputed_grid"])
    numbers = NUMBERS_OF_A_POINT.get((mode, is_prepared))
    if numbers is None or not _is_plain(image) or not _is_plain(grid) or call.arguments["padding_mode"] != "zeros":
        return plan.give_up("grid_sample of this mode, of other types or of other layouts")
    points = grid.shape[-1] // numbers
    if grid.shape[-1] % numbers:
        raise InvalidSpecError(f"the grid's last dimension must be a multiple of {numbers}, but got {grid.shape[-1]}")
    if not points or image.shape[0] != grid.shape[0] or image.shape[-1] % _TILE:
        return plan.give_up("grid_sample of other batches, or of channels that fill no tiles")
    joins = bool(call.arguments["batch_output_channels"])
    if joins and points == 1:
        return plan.give_up("grid_sample that joins the channels of single points")
    shape = (*grid.shape[:3], image.shape[-1])
    shape = (*shape[:3], shape[3] * points) if joins else (*shape[:2], shape[2] * points, shape[3])
    result = TensorSpec(shape, image.dtype, ROW_MAJOR, call.memory or grid.memory)
    if has_longer_rows(image):
        if call.shard is not None:
            return plan.give_up("grid_sample of channels that shards round up, into shards of the caller's")
        result = replace(result, alignment=(1, _channels(image) * (points if joins else 1)))
    if call.shard is not None or isinstance(grid.shard, Shard) or mode == "nearest":
        # The grid's shards are the result's too, whatever is wished; else shards are where they are wished.
        memory = call.memory if call.shard is not None and grid.shard is None else None
        shard = _shard(call, plan, image, grid, points if not joins else -points)
        result = replace(result, memory=memory or L1, shard=shard)
    slot = plan.allocate(result)
    wanted = call.shard if call.memory is not None else grid.shard
    for name, cut in (("Input", image.shard), ("Grid", grid.shard), ("Output", wanted)):
        if isinstance(cut, Shard) and cut.kind != "height":
            plan.refuse(_OTHER_CUT.format(name))
    written_in_place = [grid, result] if mode == "nearest" else [grid]
    if any(spec.shard is not None and spec.memory is DRAM for spec in written_in_place):
        plan.refuse(_SHARDS_OF_DRAM)
    plan.launch((_nearest if mode == "nearest" else _bilinear)(call, plan, result), CIRCULAR)
    return plan.finish(slot, result)


def _is_plain(spec: TensorSpec) -> bool:
    if isinstance(spec.shard, NdShard):
        return False
    return len(spec.shape) == 4 and not spec.is_tiled and spec.dtype in (BFLOAT16, FLOAT32)


def _shard(call: Call, plan: PlanWriter, image: TensorSpec, grid: TensorSpec, points: int) -> Shard:
    """As the grid's shards lie, as was wished, or over all cores that have a point; negative: points join channels."""
    if isinstance(grid.shard, Shard):
        height, ranges, by_column = grid.shard.height, grid.shard.ranges, grid.shard.by_column
    elif isinstance(call.shard, Shard):
        return call.shard
    else:
        rows, chip = prod(grid.shape[:3]), plan.memory_map.grid
        cores = min(rows, chip.cores)
        height, ranges, by_column = ceil_div(rows, cores), row_by_row(cores, chip), False
    channels = _channels(image)
    if points < 0:
        return Shard("height", height, -points * channels, ranges, by_column)
    return Shard("height", height * points, channels, ranges, by_column)


def _channels(image: TensorSpec) -> int:
    """As many as lie in memory: shards may round them up."""
    return image.padded[-1]


def _row_of_grid(plan: PlanWriter, grid: TensorSpec) -> int:
    architecture = plan.memory_map.architecture
    alignment = architecture.dram_alignment_bytes if grid.memory is DRAM else architecture.l1_alignment_bytes
    return round_up(grid.shape[-1] * grid.element_bytes, alignment)


def _bilinear(call: Call, plan: PlanWriter, result: TensorSpec) -> list[int]:
    """A row of the grid; tiles of the image and a tile of weights, twice, and for two readers twice that; results."""
    image, grid = call.inputs[:2]
    element = image.element_bytes
    is_full = bool((call.arguments["compute_kernel_config"] or {}).get("dst_full_sync_en"))
    most = _TILES_AT_ONCE // 2 if adds_in_float32(call) and not is_full else _TILES_AT_ONCE
    read = 2 * min(image.shape[-1] // _TILE, most) * _TILE * _TILE * element
    weights = 2 * image.tile_bytes
    readers = 2 if grid.shard is not None and _reads_twice(call, plan) else 1
    sizes = [] if grid.shard is not None else [_row_of_grid(plan, grid)]
    sizes += [read] * readers + [weights] * readers
    if grid.shard is None:
        sizes.append(2 * ceil_div(result.shape[-1], _FACE) * _FACE * element)
    return sizes


def _reads_twice(call: Call, plan: PlanWriter) -> bool:
    image = call.inputs[0]
    if not call.arguments["use_precomputed_grid"]:
        return True
    if image.memory is DRAM:
        return False
    return plan.memory_map.architecture is not BLACKHOLE or image.shape[-1] <= _FEW_CHANNELS


def _nearest(call: Call, plan: PlanWriter, result: TensorSpec) -> list[int]:
    """Two readers with a row of the grid each, and a row of zeros."""
    grid = call.inputs[1]
    row = result.shape[-1] * result.element_bytes
    return [row] if grid.shard is not None else [_row_of_grid(plan, grid)] * 2 + [row]


_EXAMPLE = {"dtype": "bfloat16", "layout": "row_major", "memory": "DRAM"}

RECORDS = (
    record_of(
        write_call("grid_sample", [{"shape": [1, 8, 8, 32], **_EXAMPLE}, {"shape": [1, 4, 4, 2], **_EXAMPLE}]),
        grid_sample,
        Argument("mode", default="bilinear"),
        Argument("padding_mode", default="zeros"),
        *(Argument(name, default=False) for name in ("align_corners", "use_precomputed_grid", "batch_output_channels")),
        KERNEL_CONFIG,
        takes_shards=True,
    ),
)
