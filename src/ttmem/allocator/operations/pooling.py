# SPDX-License-Identifier: Apache-2.0
"""Max and average pooling: a window that slides over shards of sticks, as convolutions do, but without weights."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from ttmem._errors import BadInputError
from ttmem.allocator.operations.convolution_schemes import (
    BLOCK,
    HEIGHT,
    WIDTH,
    Chip,
    common_divisor,
    cores_for,
    divided,
    row_by_row,
)
from ttmem.allocator.operations.halos import Dealing, cut_out, deal, gather, keep_tables, stick_dtype
from ttmem.allocator.operations.image_slices import TOO_THIN, Cut, ThinSliceError, cut_window, sliced
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.sliding_window import Window, four_sides, halo_sticks, pair, reader_table_width
from ttmem.allocator.operations.written import record_of, write_call
from ttmem.allocator.programs import CIRCULAR
from ttmem.hardware import BFLOAT16, DRAM, FLOAT32, L1, DataType, Memory
from ttmem.tensors import ROW_MAJOR, CoreRange, Shard, TensorSpec, grid_of, paging_of, place, round_up

_TILE, _FACE = 32, 16
_STICK_UNIT = 8
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


@dataclass(frozen=True)
class Pooling:
    """What is to be pooled."""

    window: Window
    channels: int
    is_average: bool
    divides_by_pixels: bool
    """Whether an average is over the pixels that a window holds, not over a number that the caller gave."""
    goes_beyond: bool
    """Whether windows may reach beyond the padding (ceil mode)."""
    counts_padding: bool
    dtype: DataType
    """Of the input."""

    @property
    def has_uneven_windows(self) -> bool:
        """Whether windows of an average hold different numbers of pixels."""
        window = self.window
        return self.divides_by_pixels and (any(window.ceiling) or (any(window.padding) and not self.counts_padding))


@dataclass(frozen=True)
class _Scheme:
    """A pooling dealt over cores."""

    kind: str
    pooling: Pooling
    chip: Chip
    cores_high: int
    cores_across: int

    @property
    def ranges(self) -> tuple[CoreRange, ...]:
        if self.kind == BLOCK:
            return grid_of(self.cores_across, self.cores_high)
        return row_by_row(self.cores_high * self.cores_across, self.chip.grid)

    @property
    def channels_per_core(self) -> int:
        return round_up(self.pooling.channels, self.cores_across * _STICK_UNIT) // self.cores_across

    @property
    def outputs_per_core(self) -> int:
        return divided(self.pooling.window.outputs, self.cores_high)

    @property
    def dealing(self) -> Dealing:
        window = self.pooling.window
        sticks = divided(window.batch * window.height * window.width, self.cores_high)
        return Dealing(
            *(window, self.kind, self.ranges, self.cores_high, self.pooling.channels),
            *(self.channels_per_core, sticks, self.outputs_per_core),
        )

    def out_width(self, unit: int = _FACE) -> int:
        """Channels per core of the result."""
        return round_up(self.pooling.channels, self.cores_across * unit) // self.cores_across

    @property
    def out_shard(self) -> Shard:
        """A last tile of less than a face is padded to a whole one, unless it is the only one."""
        channels = divided(self.pooling.channels, self.cores_across)
        is_padded = 0 < channels % _TILE < _FACE < channels
        width = self.out_width(_TILE if is_padded else _FACE)
        return Shard(self.kind, self.outputs_per_core, width, self.ranges)

    @cached_property
    def static_bytes(self) -> list[int]:
        """The number to multiply with, what windows begin with, and two streams of windows, each double."""
        made, dtype = self.pooling, stick_dtype(self.pooling.dtype)
        pixels = made.window.kernel[0] * made.window.kernel[1]
        rest = made.channels // self.cores_across % _TILE
        is_large = pixels > (_TILE // 2 if 0 < rest <= _FACE else _TILE)
        tiles = min(divided(made.channels, self.cores_across * _TILE), 4 if made.is_average and is_large else 8)
        rows = pixels if pixels <= _FACE else _TILE
        windows = round_up(tiles * _TILE * rows, _TILE * _TILE) * dtype.mantissa_bits // 8
        numbers = [2 * dtype.tile_bytes()] * (2 if made.has_uneven_windows else 1)
        return [*numbers, dtype.tile_bytes(), 2 * windows, 2 * windows]

    def bytes_with_result(self, outputs_per_core: int, width: int) -> int:
        """What the program takes of a core, static buffers and result, as the library reckons."""
        element = stick_dtype(self.pooling.dtype).mantissa_bits // 8
        result = min(_FACE, width) * element * outputs_per_core * (width // _FACE)
        return sum(self.static_bytes) + round_up(result, self.chip.architecture.dram_alignment_bytes)

    @property
    def slice_bytes(self) -> int:
        """The same with the halo, or when that is gathered: by this slices are judged."""
        window, element = self.pooling.window, stick_dtype(self.pooling.dtype).mantissa_bits // 8
        width, sticks = self.channels_per_core, self.dealing.sticks_per_core
        # The halo's own windows: in ceil mode they are reckoned as if the slice were an image.
        alone = replace(window, ceiling=_ceiling(window) if self.pooling.goes_beyond else (0, 0))
        halo = halo_sticks(alone, self.cores_high, divided(alone.outputs, self.cores_high)) * width * element
        aligned = round_up(width * element, self.chip.architecture.l1_alignment_bytes)
        outputs = window.output_height * window.output_width // self.cores_high
        pooled = halo + self.bytes_with_result(outputs, width) + outputs * width * element
        return max(sticks * width * element + halo + 2 * aligned, pooled)


@lru_cache(maxsize=4096)
def _scheme_of(kind: str, made: Pooling, chip: Chip, unit: int = _TILE) -> _Scheme:
    """``unit``: of channels when rows and columns of cores share them."""
    outputs, faces, grid = made.window.outputs, divided(made.channels, _FACE), chip.grid
    if kind == HEIGHT:
        return _Scheme(kind, made, chip, cores_for(outputs, grid.cores), 1)
    if kind == WIDTH:
        return _Scheme(kind, made, chip, 1, common_divisor(faces, faces, grid.cores))
    across = common_divisor(faces, divided(made.channels, unit), grid.columns)
    return _Scheme(kind, made, chip, cores_for(outputs, grid.rows), across)


@lru_cache(maxsize=4096)
def _preferred_kind(made: Pooling, chip: Chip) -> str:
    """What takes least of L1; on a tie by height, then by width."""

    def needed(kind: str) -> int:
        scheme = _scheme_of(kind, made, chip)
        outputs = scheme.outputs_per_core if kind == WIDTH else round_up(scheme.outputs_per_core, _TILE)
        return scheme.bytes_with_result(outputs, scheme.out_width())

    return min((HEIGHT, WIDTH, BLOCK), key=needed)


def pool2d(call: Call, plan: PlanWriter) -> Plan:
    """An image in DRAM goes through L1 at once if that fits, else in slices; otherwise the result stays in L1."""
    source, made, chip = call.inputs[0], _pooling(call), Chip.of(plan.memory_map)
    if source.shard is not None or source.layout is not ROW_MAJOR:
        return plan.give_up("pooling of sharded tensors and of tiles")
    if made.is_average and _is_whole_image(made.window):
        return _average(call, plan, made)
    kind = _preferred_kind(made, chip)
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
    scheme = _scheme_of(kind, made, chip)
    slot, dealt = deal(plan, scheme.dealing, source)
    made_slot, result = _pool(plan, scheme, slot, dealt, frees_input=source.memory is DRAM)
    if source.memory is L1:
        plan.free(slot)
    if call.memory is None:
        return plan.finish(made_slot, result)
    wanted = replace(result, memory=call.memory, shard=None)
    delivered = plan.allocate(wanted)
    plan.free(made_slot)
    return plan.finish(delivered, wanted)


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
        window = replace(window, ceiling=_ceiling(window))
    if min(window.output_height, window.output_width) < 1:
        raise BadInputError(f"a window of {kernel[0]}x{kernel[1]} does not fit an image of {height}x{width}")
    is_average = call.name == "avg_pool2d"
    counts_padding = bool(given.get("count_include_pad", True))
    by_pixels = is_average and given.get("divisor_override") is None
    return Pooling(window, channels, is_average, by_pixels, bool(given["ceil_mode"]), counts_padding, source.dtype)


def _ceiling(window: Window) -> tuple[int, int]:
    """What is added so that windows reach the end of the image; none begins in the padding."""

    def along(size: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> int:
        reach = dilation * (kernel - 1) + 1
        outputs = divided(size + before + after - reach, stride) + 1
        if (outputs - 1) * stride >= size + before:
            outputs -= 1
        return max(stride * (outputs - 1) + reach - size - before - after, 0)

    top, bottom, left, right = window.padding
    return (
        along(window.height, window.kernel[0], window.stride[0], window.dilation[0], top, bottom),
        along(window.width, window.kernel[1], window.stride[1], window.dilation[1], left, right),
    )


def _pool(
    plan: PlanWriter, scheme: _Scheme, slot: int, dealt: TensorSpec, *, frees_input: bool = True
) -> tuple[int, TensorSpec]:
    made, dealing = scheme.pooling, scheme.dealing
    gathered, halo = gather(plan, dealing, slot, dealt, frees_input=frees_input)
    if halo.dtype is not BFLOAT16:
        plan.refuse(_WRONG_TYPE)
    result = TensorSpec((1, 1, made.window.outputs, made.channels), BFLOAT16, ROW_MAJOR, L1, scheme.out_shard)
    made_slot = plan.allocate(result)
    width = reader_table_width(made.window, scheme.cores_high, scheme.outputs_per_core, ())
    uneven = [3 * _most_divisors(made, scheme.cores_high, scheme.outputs_per_core)] if made.has_uneven_windows else []
    keep_tables(plan, dealing, ("pool", made, halo), (width + width % 2, *uneven))
    plan.launch(scheme.static_bytes, CIRCULAR)
    plan.free(gathered)
    return made_slot, result


@lru_cache(maxsize=1024)
def _most_divisors(made: Pooling, cores: int, outputs_per_core: int) -> int:
    """How often the number of pixels in a window changes among the outputs of one core, at most, counting the first."""
    import numpy as np

    window = made.window

    def lengths(size: int, outputs: int, kernel: int, stride: int, before: int, after: int) -> Any:
        start = np.arange(outputs) * stride - before
        end = np.minimum(start + kernel, size + after)
        if made.counts_padding:
            return end - start
        return np.maximum(np.minimum(end, size) - np.maximum(start, 0), 0)

    top, bottom, left, right = window.padding
    high = lengths(window.height, window.output_height, window.kernel[0], window.stride[0], top, bottom)
    wide = lengths(window.width, window.output_width, window.kernel[1], window.stride[1], left, right)
    image = np.outer(high, wide).ravel()
    most = done = first = 0
    for _ in range(cores):
        areas = image[(first + np.arange(outputs_per_core)) % image.size]
        most = max(most, 1 + int(np.count_nonzero(areas[1:] != areas[:-1])))
        done += outputs_per_core
        first = done
        if done // image.size == window.batch:  # the library begins anew, but counts on from what was too much
            done, first = done - image.size * window.batch, 0
    return most


def _part(made: Pooling, kind: str, cut: Cut, chip: Chip) -> _Scheme:
    return _scheme_of(kind, replace(made, window=cut_window(made.window, cut, tiled=False)), chip, _STICK_UNIT)


def _in_slices(plan: PlanWriter, made: Pooling, parts: list[_Scheme]) -> Plan:
    window = made.window
    shape = (window.batch, window.output_height, window.output_width, made.channels)
    result = TensorSpec(shape, BFLOAT16, ROW_MAJOR, DRAM)
    place = plan.allocate(result)
    for scheme in parts:
        slot, dealt = cut_out(plan, scheme.dealing, made.dtype)
        pooled, spec = _pool(plan, scheme, slot, dealt)
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
