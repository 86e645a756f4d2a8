# SPDX-License-Identifier: Apache-2.0
"""Max and average pooling: a window that slides over shards of sticks, like a convolution without weights."""

from dataclasses import replace
from math import prod
from typing import Any

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.hardware import BFLOAT4_B, BFLOAT8_B, BFLOAT16, DATA_TYPES, DRAM, FLOAT32, L1
from ttmem.twin.operations.call_syntax import build_record, format_call
from ttmem.twin.operations.conv_config import HEIGHT, WIDTH, read_kind
from ttmem.twin.operations.conv_parallelization import ChipGrid
from ttmem.twin.operations.conv_steps import move_result
from ttmem.twin.operations.global_avg_pool import average, is_summed
from ttmem.twin.operations.halo import cut_out, deal, gather, keep_tables
from ttmem.twin.operations.image_slices import Cut, choose_slices, cut_window
from ttmem.twin.operations.memory_config import to_memory_config
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder
from ttmem.twin.operations.pool_parallelization import (
    Pooling,
    PoolingScheme,
    choose_pooling_kind,
    choose_pooling_scheme,
    compute_ceiling,
    count_divisors,
    read_pooling_scheme,
)
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.reshape import reshape
from ttmem.twin.operations.sliding_window import Window, compute_reader_table_width, read_padding, read_pair
from ttmem.twin.programs import CIRCULAR
from ttmem.twin.tensor_spec import LAYOUTS, ROW_MAJOR, TILE, Shard, TensorSpec

_TILE, _FACE = 32, 16
_MOST_READ_BYTES = 4096
_TOO_THIN = (
    "Cannot fit Pool2D operation in L1 memory with DRAM slicing. The smallest input slice (size={}) in the {} "
    "dimension is smaller than the effective kernel size ({}). Kernel: {}x{}, Stride: {}x{}, Dilation: {}x{}, "
    "Num slices: {}, Slicing dimension: {}. Input shape: {}x{}, Output shape: {}x{}, Channels: {}. "
    "This means the tensor cannot be processed even with DRAM slicing. Consider: (1) reducing kernel size, "
    "(2) reducing dilation, (3) increasing stride, or (4) if possible, increasing available L1 memory to reduce "
    "the number of slices needed."
)
_TOO_MUCH_PADDING = "Pool2D: Padding ({}, {}, {}) should not exceed half of kernel size ({}, {})"
_TOO_LARGE = "Pool2D: Effective kernel size ({}, {}) cannot exceed padded input size ({}, {})"
_UNEVEN_SHARDS = "For width and block sharding, input channels ({}) should be divisible by num_shards ({})"
_NO_SLICES_OF_SHARDS = "padded_slice does not support sharded inputs."
_WRONG_HEIGHT = "Shard height {} must match physical height {} for width sharded"
_BY_COLUMN = "Only row major orientation is supported."
_SCHEME_OF_SHARDS = "A sharding scheme should not be specified for a sharded input tensor."
_WRONG_RESULT = "Currently only BFLOAT16, BFLOAT8_B, and BFLOAT4_B output data formats are supported"
_BLOCKS_AS_ROWS = "BFLOAT8_B/BFLOAT4_B output data format is not supported with ROW_MAJOR layout"
_WRONG_TYPE = "Only BFLOAT16 supported for now"


def pool2d(call: Call, plan: PlanBuilder) -> Plan:
    """Pool an image; one in DRAM passes through L1 at once if it fits, else in slices."""
    source, made, chip = call.inputs[0], _read_pooling(call), ChipGrid.read(plan.memory_map)
    chosen = read_kind(call.arguments.get("applied_shard_scheme"))
    if not chosen and is_summed(made, source):
        return average(call, plan, made)
    if source.memory is DRAM:
        if min(made.window.output_height, made.window.output_width) < 1:
            return plan.unknown("windows larger than an image in DRAM: the library's sizes overflow")
        # The library computes slices as if the input had the result's type.
        kind = chosen or choose_pooling_kind(replace(made, dtype=made.out_dtype), chip)
        parts = choose_slices(
            *(made.window, lambda cut: _build_slice(made, kind, cut, chip).slice_bytes, plan.l1_bytes_free),
            tiled=made.out_layout is TILE,
        )
        if isinstance(parts, str):
            plan.refuse(parts)
        if len(parts) > 1:
            _check_slices(plan, made, parts)
            rows = not source.is_tiled
            if rows and isinstance(source.shard, Shard) and source.shard.width == source.shape[-1]:
                plan.refuse(_NO_SLICES_OF_SHARDS)
            if made.is_tiled or made.out_layout is TILE or source.shard is not None or made.out_dtype is not BFLOAT16:
                return plan.unknown("pooling of tiles or shards in slices")
            return _pool_slices(plan, made, [_build_slice(made, kind, cut, chip) for cut in parts])
    _check_type(plan, made)
    _check_window(plan, made.window)
    if source.shard is not None:
        if chosen:
            plan.refuse(_SCHEME_OF_SHARDS)
        return _pool_shards(call, plan, made, chip)
    scheme = choose_pooling_scheme(
        *(chosen or choose_pooling_kind(made, chip), made, chip), made.stick_unit if chosen else _TILE
    )
    flat = 0
    if made.out_dtype.is_block_float and scheme.channels_per_core * scheme.cores_across > source.shape[-1]:
        return plan.unknown("pooling to block floats of channels that are padded for it")
    if prod(source.shape[:-2]) > 1:
        flat, source, scheme = _flatten(plan, source, scheme)
    slot, dealt = deal(plan, scheme.dealing, source)
    plan.free(flat)
    goes = source.memory is DRAM or bool(call.arguments.get("deallocate_input"))
    made_slot, result, gathered = _pool(plan, scheme, slot, dealt, frees_input=goes, moves=_moves_halo(call))
    finished = _deliver(call, plan, made_slot, result)
    plan.free(gathered, *([] if goes else [slot]))
    return plan.finish_all(finished.results) if finished.results else finished


def _moves_halo(call: Call) -> bool:
    return bool(call.arguments.get("reallocate_halo_output", True))


def _deliver(call: Call, plan: PlanBuilder, slot: int, spec: TensorSpec) -> Plan:
    """Move the result to the caller's memory and shards."""
    if (call.memory, call.shard) == (spec.memory, spec.shard):
        return plan.finish(slot, spec)
    if call.shard is None:
        return plan.finish(*move_result(plan, slot, spec, call.memory))
    made = to_memory_config(Call("", (spec,), {}, call.memory, shard=call.shard), plan)
    plan.free(slot)
    return made


def _flatten(plan: PlanBuilder, source: TensorSpec, scheme: PoolingScheme) -> tuple[int, TensorSpec, PoolingScheme]:
    """Flatten the images to one list of sticks; the shards are computed from the original tiles."""
    shape = (1, 1, prod(source.shape[:-1]), source.shape[-1])
    ((flat, sticks),) = reshape(Call("reshape", (source,), {"shape": shape}), plan).results
    if source.is_tiled:
        high, rows = scheme.cores_high, prod(source.shape[:-2]) * round_up(source.shape[-2], _TILE)
        height = round_up(rows, high * _TILE) // high
        if scheme.kind == WIDTH and height != round_up(shape[2], _TILE):
            plan.refuse(_WRONG_HEIGHT.format(height, round_up(shape[2], _TILE)))
        scheme = replace(scheme, given=scheme.dealing.make_shard(height))
    return flat, sticks, scheme


def _pool_shards(call: Call, plan: PlanBuilder, made: Pooling, chip: ChipGrid) -> Plan:
    """Pool an input in its shards; the result is on the same cores."""
    source, shard = call.inputs[0], call.inputs[0].shard
    if not isinstance(shard, Shard) or prod(source.shape[:-2]) > 1:
        return plan.unknown("pooling of ND shards")
    if shard.by_column:
        plan.refuse(_BY_COLUMN)
    if source.memory is DRAM:
        return plan.unknown("pooling of shards in DRAM: the library refuses it, or has no room for its tables")
    scheme = read_pooling_scheme(made, chip, shard)
    across = scheme.cores_across
    if made.channels < shard.width and across > 1 and not shard.width % across and made.dtype is not FLOAT32:
        return plan.unknown("pooling of shards of which one holds all channels: the library crashes")
    goes, moves = bool(call.arguments.get("deallocate_input")), _moves_halo(call)
    made_slot, result, gathered = _pool(plan, scheme, -1, source, frees_input=goes, moves=moves)
    finished = _deliver(call, plan, made_slot, result)
    plan.free(gathered)
    return plan.finish_all(finished.results) if finished.results else finished


def _read_pooling(call: Call) -> Pooling:
    given, source = call.arguments, call.inputs[0]
    batch, height, width, channels = (int(given[name]) for name in ("batch_size", "input_h", "input_w", "channels"))
    kernel, stride = read_pair(given, "kernel_size"), read_pair(given, "stride")
    dilation = read_pair(given, "dilation") if "dilation" in given else (1, 1)
    window = Window(batch, height, width, kernel, stride, read_padding(given["padding"]), dilation)
    if given["ceil_mode"]:
        window = replace(window, ceiling=compute_ceiling(window))
    is_average = call.name == "avg_pool2d"
    counts_padding = bool(given.get("count_include_pad", True))
    ceils = bool(given["ceil_mode"])
    by_pixels = is_average and given.get("divisor_override") is None
    return Pooling(
        *(window, channels, is_average, by_pixels, ceils, counts_padding, source.dtype, source.is_tiled),
        out_dtype=DATA_TYPES.find(str(given.get("dtype", "bfloat16"))),
        out_layout=LAYOUTS.find(str(given.get("output_layout", "row_major")).lower().removeprefix("ttnn.")),
    )


def _pool(
    plan: PlanBuilder,
    scheme: PoolingScheme,
    slot: int,
    dealt: TensorSpec,
    *,
    frees_input: bool = True,
    moves: bool = True,
) -> tuple[int, TensorSpec, int]:
    """Gather the halo and pool; return the sharded result and the slot of the halo."""
    made, dealing = scheme.pooling, scheme.dealing
    gathered, halo = gather(plan, dealing, slot, dealt, moves=False)
    if frees_input:
        plan.free_input(0) if slot < 0 else plan.free(slot)
    if moves:
        plan.free(gathered)
        gathered = plan.allocate(halo)
    shape = (1, 1, made.window.outputs, made.channels)
    result = TensorSpec(shape, made.out_dtype, made.out_layout, L1, scheme.out_shard)
    made_slot = plan.allocate(result)
    if halo.dtype is not BFLOAT16:
        plan.refuse(_WRONG_TYPE)
    if scheme.kind != HEIGHT and halo.shape[-1] % scheme.cores_across:
        plan.refuse(_UNEVEN_SHARDS.format(halo.shape[-1], scheme.cores_across))
    width = compute_reader_table_width(made.window, scheme.cores_high, scheme.outputs_per_core, ())
    uneven = [3 * count_divisors(made, scheme.cores_high, scheme.outputs_per_core)] if made.has_uneven_windows else []
    keep_tables(plan, dealing, ("pool", made, halo), (width + width % 2, *uneven))
    plan.launch(scheme.static_bytes, CIRCULAR)
    return made_slot, result, gathered


def _build_slice(made: Pooling, kind: str, cut: Cut, chip: ChipGrid) -> PoolingScheme:
    """Build the scheme of one slice. Tiled results have whole rows of tiles: the image is padded on the right."""
    window, excess, width = cut_window(made.window, cut, tiled=False), 0, cut.right - cut.left
    if made.out_layout is TILE and width % _TILE:
        top, bottom, left, _ = window.padding
        reach = window.dilation[1] * (window.kernel[1] - 1) + 1
        after = (round_up(width, _TILE) - 1) * window.stride[1] - window.width + reach
        window, excess = (
            replace(window, padding=(top, bottom, left, after - left), ceiling=(window.ceiling[0], 0)),
            left,
        )
    return choose_pooling_scheme(kind, replace(made, window=window, excess=excess), chip, made.stick_unit)


def _pool_slices(plan: PlanBuilder, made: Pooling, parts: list[PoolingScheme]) -> Plan:
    window = made.window
    shape = (window.batch, window.output_height, window.output_width, made.channels)
    result = TensorSpec(shape, BFLOAT16, ROW_MAJOR, DRAM)
    place = plan.allocate(result)
    for scheme in parts:
        slot, dealt = cut_out(plan, scheme.dealing, made.dtype)
        pooled, spec, gathered = _pool(plan, scheme, slot, dealt)
        plan.free(gathered)
        if scheme.kind == WIDTH:
            pooled = _write_rows(plan, pooled, replace(spec, shard=None))
        plan.free(pooled)
    return plan.finish(place, result)


def _write_rows(plan: PlanBuilder, shards: int, rows: TensorSpec) -> int:
    """Write shards of channels back through whole rows."""
    slot = plan.allocate(rows)
    plan.free(shards)
    row = round_up(rows.shape[-1] * 2, plan.memory_map.architecture.dram_alignment_bytes)
    per_core = round_up(ceil_div(rows.shape[-2], plan.memory_map.grid.cores), _TILE)
    at_once = max(
        count
        for count in range(1, per_core + 1)
        if per_core % count == 0 and (count == 1 or count * row <= _MOST_READ_BYTES)
    )
    plan.launch([2 * at_once * row], CIRCULAR)
    return slot


def _check_type(plan: PlanBuilder, made: Pooling) -> None:
    if made.out_dtype not in (BFLOAT16, BFLOAT8_B, BFLOAT4_B):
        plan.refuse(_WRONG_RESULT)
    if made.out_dtype.is_block_float and made.out_layout is ROW_MAJOR:
        plan.refuse(_BLOCKS_AS_ROWS)


def _check_window(plan: PlanBuilder, window: Window) -> None:
    """Refuse windows that the library refuses without slices."""
    top, bottom, left, right = window.padding
    if top > window.kernel[0] // 2 or bottom > window.kernel[0] // 2 or left > window.kernel[1] // 2:
        plan.refuse(_TOO_MUCH_PADDING.format(top, bottom, left, *window.kernel))
    high, wide = (dilation * (size - 1) + 1 for dilation, size in zip(window.dilation, window.kernel, strict=True))
    height, width = window.height + top + bottom, window.width + left + right
    if high > height or wide > width:
        plan.refuse(_TOO_LARGE.format(high, wide, height, width))


def _check_slices(plan: PlanBuilder, made: Pooling, parts: tuple[Cut, ...]) -> None:
    """Refuse slices whose input is smaller than a window; the library divides the result into equal parts here."""
    window, along_height = made.window, parts[0].right == made.window.output_width
    place, name = (0, "height") if along_height else (1, "width")
    kernel = window.dilation[place] * (window.kernel[place] - 1) + 1
    size, outputs = ((window.height, window.output_height), (window.width, window.output_width))[place]
    smallest = size
    for number in range(len(parts)):
        first, end = number * outputs // len(parts), (number + 1) * outputs // len(parts)
        start = first * window.stride[place] - window.padding[2 * place]
        stop = (end - 1) * window.stride[place] - window.padding[2 * place] + kernel
        smallest = min(smallest, min(size, stop) - max(0, start))
    if smallest < kernel:
        plan.refuse(
            _TOO_THIN.format(
                *(smallest, name, kernel, *window.kernel, *window.stride, *window.dilation, len(parts), name),
                *(window.height, window.width, window.output_height, window.output_width, made.channels),
            )
        )


_PLACED = ("batch_size", "input_h", "input_w", "channels", "kernel_size", "stride", "padding")


_EXAMPLE = {"shape": [1, 1, 64, 32], "dtype": "bfloat16", "layout": "row_major", "memory": "DRAM"}
_WINDOW: tuple[Any, ...] = (1, 8, 8, 32, [2, 2], [2, 2], [0, 0])

_CHOICES = (
    Argument("applied_shard_scheme", default=None),
    Argument("deallocate_input", default=False),
    Argument("reallocate_halo_output", default=True),
    Argument("dtype", default="bfloat16"),
    Argument("output_layout", default="row_major"),
)

RECORDS = (
    build_record(
        format_call("max_pool2d", [_EXAMPLE], *_WINDOW, [1, 1]),
        pool2d,
        *(Argument(name, position) for position, name in enumerate((*_PLACED, "dilation"))),
        Argument("ceil_mode", default=False),
        *_CHOICES,
        family="pool2d",
    ),
    build_record(
        format_call("avg_pool2d", [_EXAMPLE], *_WINDOW),
        pool2d,
        *(Argument(name, position) for position, name in enumerate(_PLACED)),
        Argument("ceil_mode", default=False),
        Argument("count_include_pad", default=True),
        Argument("divisor_override", default=None),
        *_CHOICES,
        family="pool2d",
    ),
)
