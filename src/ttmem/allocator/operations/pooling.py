# SPDX-License-Identifier: Apache-2.0
"""Max and average pooling: a window that slides over shards of sticks, as convolutions do, but without weights."""

from dataclasses import replace
from typing import Any

from ttmem._errors import BadInputError
from ttmem.allocator.operations.convolution_config import WIDTH
from ttmem.allocator.operations.convolution_schemes import Chip, divided
from ttmem.allocator.operations.convolving import delivered
from ttmem.allocator.operations.halos import cut_out, deal, gather, keep_tables
from ttmem.allocator.operations.image_slices import TOO_THIN, Cut, ThinSliceError, cut_window, sliced
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.allocator.operations.pooling_schemes import (
    STICK_UNIT,
    Pooling,
    PoolingScheme,
    ceiling_of,
    most_divisors,
    pooling_scheme_of,
    preferred_pooling_kind,
)
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.sliding_window import Window, four_sides, pair, reader_table_width
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.allocator.programs import CIRCULAR
from ttmem.hardware import BFLOAT16, DRAM, FLOAT32, L1, Memory
from ttmem.tensors import ROW_MAJOR, TensorSpec, paging_of, place, round_up

_TILE, _FACE = 32, 16
_MOST_READ_BYTES = 4096
_REDUCED_TILES, _TILES_AHEAD, _SUMMED_AT_ONCE, _LARGE_TILES = 7, 8, 13, 18
"""Of a sum over the image: tiles besides those that are read ahead, the most of these, the highest image (in tiles)
that was seen summed in one step, and all tiles of the largest program."""
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
_WRONG_TYPE = "Only BFLOAT16 supported for now"


def pool2d(call: Call, plan: PlanWriter) -> Plan:
    """An image in DRAM goes through L1 at once if that fits, else in slices; otherwise the result stays in L1."""
    source, made, chip = call.inputs[0], _pooling(call), Chip.of(plan.memory_map)
    if source.shard is not None or source.layout is not ROW_MAJOR:
        return plan.give_up("pooling of sharded tensors and of tiles")
    if made.is_average and _is_whole_image(made.window):
        return _average(call, plan, made)
    kind = preferred_pooling_kind(made, chip)
    if source.memory is DRAM:
        try:
            parts = sliced(
                made.window, lambda cut: _part(made, kind, cut, chip).slice_bytes, plan.l1_bytes_free, tiled=False
            )
        except ThinSliceError:
            return plan.give_up(TOO_THIN)
        if isinstance(parts, str):
            plan.refuse(parts)
        if len(parts) > 1:
            _check_slices(plan, made, parts)
            return _in_slices(plan, made, [_part(made, kind, cut, chip) for cut in parts])
    _check_window(plan, made.window)
    scheme = pooling_scheme_of(kind, made, chip)
    slot, dealt = deal(plan, scheme.dealing, source)
    made_slot, result, gathered = _pool(plan, scheme, slot, dealt, frees_input=source.memory is DRAM)
    made_slot, result = delivered(plan, made_slot, result, call.memory)
    plan.free(gathered, *([slot] if source.memory is L1 else []))
    return plan.finish(made_slot, result)


def _is_whole_image(window: Window) -> bool:
    is_plain = window.dilation == (1, 1) and not any(window.padding)
    return is_plain and window.kernel == (window.height, window.width)


def _average(call: Call, plan: PlanWriter, made: Pooling) -> Plan:
    """Over the whole image it is a sum of rows; a high image on few channels is summed in two steps."""
    source = call.inputs[0]
    memory = call.memory or source.memory
    result = replace(source, shape=(1, 1, made.window.batch, made.channels), memory=memory)
    copy = _copy_to(plan, source, memory) if memory is not source.memory else 0
    tile, tiles = source.dtype.tile_bytes(), divided(made.window.height * made.window.width, _TILE)
    buffers = (_REDUCED_TILES + min(max(tiles, 2), _TILES_AHEAD)) * tile
    why = "an average over a large image may be summed in two steps" if tiles > _SUMMED_AT_ONCE else ""
    if why:
        image = place(replace(source, memory=memory), plan.memory_map)
        plan.may_take(memory, image.taken_bytes_per_bank, why)
    slot = plan.allocate(result)
    plan.launch([buffers], at_least=why, at_most_bytes=_LARGE_TILES * FLOAT32.tile_bytes())
    plan.free(copy)
    return plan.finish(slot, result)


def _copy_to(plan: PlanWriter, source: TensorSpec, memory: Memory) -> int:
    """Rows in another memory."""
    slot = plan.allocate(replace(source, memory=memory))
    row = paging_of(source).page_bytes
    plan.launch([2 * round_up(row, plan.memory_map.page_alignment_bytes(memory)), row])
    return slot


def _pooling(call: Call) -> Pooling:
    given, source = call.arguments, call.inputs[0]
    batch, height, width, channels = (int(given[name]) for name in ("batch_size", "input_h", "input_w", "channels"))
    kernel, stride = pair(given, "kernel_size"), pair(given, "stride")
    dilation = pair(given, "dilation") if "dilation" in given else (1, 1)
    window = Window(batch, height, width, kernel, stride, four_sides(given["padding"]), dilation)
    if given["ceil_mode"]:
        window = replace(window, ceiling=ceiling_of(window))
    if min(window.output_height, window.output_width) < 1:
        raise BadInputError(f"a window of {kernel[0]}x{kernel[1]} does not fit an image of {height}x{width}")
    is_average = call.name == "avg_pool2d"
    counts_padding = bool(given.get("count_include_pad", True))
    by_pixels = is_average and given.get("divisor_override") is None
    return Pooling(window, channels, is_average, by_pixels, bool(given["ceil_mode"]), counts_padding, source.dtype)


def _pool(
    plan: PlanWriter, scheme: PoolingScheme, slot: int, dealt: TensorSpec, *, frees_input: bool = True
) -> tuple[int, TensorSpec, int]:
    """The result in shards, and the halo that is still there."""
    made, dealing = scheme.pooling, scheme.dealing
    gathered, halo = gather(plan, dealing, slot, dealt, frees_input=frees_input)
    if halo.dtype is not BFLOAT16:
        plan.refuse(_WRONG_TYPE)
    result = TensorSpec((1, 1, made.window.outputs, made.channels), BFLOAT16, ROW_MAJOR, L1, scheme.out_shard)
    made_slot = plan.allocate(result)
    width = reader_table_width(made.window, scheme.cores_high, scheme.outputs_per_core, ())
    uneven = [3 * most_divisors(made, scheme.cores_high, scheme.outputs_per_core)] if made.has_uneven_windows else []
    keep_tables(plan, dealing, ("pool", made, halo), (width + width % 2, *uneven))
    plan.launch(scheme.static_bytes, CIRCULAR)
    return made_slot, result, gathered


def _part(made: Pooling, kind: str, cut: Cut, chip: Chip) -> PoolingScheme:
    return pooling_scheme_of(kind, replace(made, window=cut_window(made.window, cut, tiled=False)), chip, STICK_UNIT)


def _in_slices(plan: PlanWriter, made: Pooling, parts: list[PoolingScheme]) -> Plan:
    window = made.window
    shape = (window.batch, window.output_height, window.output_width, made.channels)
    result = TensorSpec(shape, BFLOAT16, ROW_MAJOR, DRAM)
    place = plan.allocate(result)
    for scheme in parts:
        slot, dealt = cut_out(plan, scheme.dealing, made.dtype)
        pooled, spec, gathered = _pool(plan, scheme, slot, dealt)
        plan.free(gathered)
        if scheme.kind == WIDTH:
            pooled = _rows(plan, pooled, replace(spec, shard=None))
        plan.free(pooled)
    return plan.finish(place, result)


def _rows(plan: PlanWriter, shards: int, rows: TensorSpec) -> int:
    """Shards of channels are written back by way of whole rows."""
    slot = plan.allocate(rows)
    plan.free(shards)
    row = round_up(rows.shape[-1] * 2, plan.memory_map.architecture.dram_alignment_bytes)
    per_core = round_up(divided(rows.shape[-2], plan.memory_map.grid.cores), _TILE)
    at_once = max(
        count
        for count in range(1, per_core + 1)
        if per_core % count == 0 and (count == 1 or count * row <= _MOST_READ_BYTES)
    )
    plan.launch([2 * at_once * row], CIRCULAR)
    return slot


def _check_window(plan: PlanWriter, window: Window) -> None:
    """Of a pooling that is done in one go."""
    top, bottom, left, right = window.padding
    if top > window.kernel[0] // 2 or bottom > window.kernel[0] // 2 or left > window.kernel[1] // 2:
        plan.refuse(_TOO_MUCH_PADDING.format(top, bottom, left, *window.kernel))
    high, wide = (dilation * (size - 1) + 1 for dilation, size in zip(window.dilation, window.kernel, strict=True))
    height, width = window.height + top + bottom, window.width + left + right
    if high > height or wide > width:
        plan.refuse(_TOO_LARGE.format(high, wide, height, width))


def _check_slices(plan: PlanWriter, made: Pooling, parts: tuple[Cut, ...]) -> None:
    """The library refuses slices whose input is smaller than a window; it looks at the plain division of the result."""
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


def _draw_pool2d(record: OperationRecord, choose: Choose) -> list[Step]:
    batch, height, width = choose.one_of((1, 1, 2)), choose.one_of((7, 14, 28, 33, 56)), choose.one_of((7, 14, 40, 56))
    channels, size = choose.one_of((3, 16, 32, 64, 100, 256, 290)), choose.one_of((2, 3, 3, 5))
    stride, padding = choose.one_of((1, 2, 2)), choose.one_of((0, size // 2))
    named: dict[str, Any] = {"ceil_mode": bool(choose.integer(0, 1))}
    last: list[Any] = [[choose.one_of((1, 1, 2))] * 2]
    if record.name == "avg_pool2d":
        last, named["count_include_pad"] = [], bool(choose.integer(0, 1))
        if not choose.integer(0, 3):  # the whole image
            size, stride, padding, width = height, 1, 0, height
    source = {
        "shape": [1, 1, batch * height * width, channels],
        "dtype": "bfloat16",
        "layout": "row_major",
        "memory": choose.one_of(("L1", "DRAM")),
    }
    places = [size] * 2, [stride] * 2, [padding] * 2
    return write_call(record.name, [source], batch, height, width, channels, *places, *last, **named)


_EXAMPLE = {"shape": [1, 1, 64, 32], "dtype": "bfloat16", "layout": "row_major", "memory": "DRAM"}
_WINDOW: tuple[Any, ...] = (1, 8, 8, 32, [2, 2], [2, 2], [0, 0])

RECORDS = (
    record_of(
        write_call("max_pool2d", [_EXAMPLE], *_WINDOW, [1, 1]),
        pool2d,
        _draw_pool2d,
        *(Argument(name, position) for position, name in enumerate((*_PLACED, "dilation"))),
        Argument("ceil_mode", default=False),
        family="pool2d",
    ),
    record_of(
        write_call("avg_pool2d", [_EXAMPLE], *_WINDOW),
        pool2d,
        _draw_pool2d,
        *(Argument(name, position) for position, name in enumerate(_PLACED)),
        Argument("ceil_mode", default=False),
        Argument("count_include_pad", default=True),
        Argument("divisor_override", default=None),
        family="pool2d",
    ),
)
