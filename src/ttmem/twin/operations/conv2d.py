# SPDX-License-Identifier: Apache-2.0
"""conv2d, conv1d and conv_transpose2d; a kernel of one pixel is a matrix multiplication."""

from dataclasses import replace
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.hardware import DATA_TYPES, DRAM, HOST, L1, Memory
from ttmem.twin.operations.call_syntax import build_record
from ttmem.twin.operations.conv_config import HEIGHT, WIDTH, Choices, read_choices
from ttmem.twin.operations.conv_parallelization import Convolution, Scheme
from ttmem.twin.operations.conv_steps import (
    Parameters,
    convolve,
    convolve_through_l1,
    fold,
    fold_window,
    is_patchwise,
    move_result,
    prepare,
    settle_scheme,
    shard_input,
)
from ttmem.twin.operations.matmul import build_product_spec, multiply
from ttmem.twin.operations.matmul_blocks import Sums
from ttmem.twin.operations.matmul_configs import GRID, LINE, Config, ConfiguredProduct
from ttmem.twin.operations.matmul_program_config import launch_configured
from ttmem.twin.operations.plan import Call, NoRuleError, Plan, PlanBuilder
from ttmem.twin.operations.record import Argument, Step
from ttmem.twin.operations.reshape import is_view
from ttmem.twin.operations.sliding_window import Window, read_padding, read_pair
from ttmem.twin.operations.to_layout import tilize
from ttmem.twin.tensor_spec import TILE, Shard, TensorSpec

_TILE = 32
_OTHER_GRID = "MatmulMultiCoreReuseMultiCast{}ProgramConfig: output shard grid {} must lie within extent {}-{}"


def multiply_pixels(
    plan: PlanBuilder, made: Convolution, source: TensorSpec, parameters: Parameters, memory: Memory | None = None
) -> tuple[int, TensorSpec]:
    """Multiply sticks by weights. The input is tilized before or after the weights are moved."""
    scheme = settle_scheme(plan, made, source)
    if made.choices.kind or source.shard is not None:
        return _multiply_in_shards(plan, scheme, source, parameters, memory)
    if made.choices.frees_input and source.memory is L1:
        raise NoRuleError("deallocating an interleaved input")
    tiles, is_early = replace(source, layout=TILE), scheme.kind != HEIGHT
    tiled = tilize(plan, source, tiles) if not source.is_tiled and is_early else 0
    weight = TensorSpec((1, 1, made.in_channels, made.out_channels), parameters.weight.dtype, TILE, DRAM)
    bias = None if parameters.bias is None else replace(weight, shape=(1, 1, 1, made.out_channels))
    parameters.move(plan, made.in_channels, made.out_channels)
    if not source.is_tiled and not is_early:
        tiled = tilize(plan, source, tiles)
    wanted = build_product_spec(tiles, weight, (False, False), None, made.out_dtype)
    sums = Sums(made.sums_in_float32, made.choices.sums_in_l1)
    slot, spec, copies = multiply(plan, tiles, weight, wanted, (False, False), bias, sums)
    plan.free(*copies)
    slot, spec = move_result(plan, slot, spec, memory)
    plan.free(tiled)
    return slot, spec


def _multiply_in_shards(
    plan: PlanBuilder, scheme: Scheme, source: TensorSpec, parameters: Parameters, memory: Memory | None
) -> tuple[int, TensorSpec]:
    """Multiply shards with a program config that follows from them."""
    made, early = scheme.convolution, 0
    goes = made.choices.frees_input and source.memory is L1
    if source.shard is None and not source.is_tiled and scheme.kind != HEIGHT:
        tiles = replace(source, layout=TILE)
        early = tilize(plan, source, tiles)
        if goes:
            raise NoRuleError("deallocating an interleaved input")
        source = tiles
    slot, dealt = shard_input(plan, scheme, source)
    plan.free(early)
    prepare(plan, scheme, parameters)
    if not dealt.is_tiled:
        if slot < 0 and made.window.outputs % _TILE:
            raise NoRuleError("row-major shards that end within a tile")
        tiles = replace(dealt, layout=TILE)
        if not _has_room_for_a_row(plan, tiles):
            raise NoRuleError("shards that are tilized through DRAM because L1 has no room for a row of tiles")
        tiled = plan.allocate(tiles)
        plan.free(slot)
        if slot < 0 and goes:
            plan.free_input(0)
            goes = False
        slot, dealt = tiled, tiles
    shape = (1, 1, made.window.outputs, made.out_channels)
    config = _make_product_config(scheme)
    _check_grid(plan, scheme)
    rows, columns = scheme.weight_shape
    weight = TensorSpec((1, 1, rows, columns), parameters.weight.dtype, TILE, DRAM)
    bias = None if parameters.bias is None else replace(weight, shape=(1, 1, 1, columns))
    first = replace(dealt, shape=(1, 1, made.window.outputs, rows))
    registers = 4 if made.sums_in_float32 else 8
    work = ConfiguredProduct(config, first, weight, bias, first.shape, weight.shape, False, registers)
    result = TensorSpec(shape, made.out_dtype, TILE, L1)
    sums = Sums(made.sums_in_float32, made.choices.sums_in_l1)
    made_slot, result = launch_configured(plan, work, result, scheme.out_shard, sums)
    if slot > 0:
        plan.free(slot)
    elif goes:
        plan.free_input(0)
    return move_result(plan, made_slot, result, memory)


def _has_room_for_a_row(plan: PlanBuilder, tiles: TensorSpec) -> bool:
    """Return whether L1 has room to tilize a row; without it the library uses DRAM and refuses partial tiles."""
    tile, across = tiles.tile_bytes, tiles.tiles_across
    return plan.l1_space() > across * (2 * tile + tile // _TILE) + 2 * plan.memory_map.quantum_bytes


def _check_grid(plan: PlanBuilder, scheme: Scheme) -> None:
    """Check the grid: a matmul counts cores from (0, 0) within the columns and rows of the shards."""
    ranges = scheme.out_shard.ranges
    columns, rows = (
        max(ends) - min(starts) + 1
        for starts, ends in (
            ([one.start_x for one in ranges], [one.end_x for one in ranges]),
            ([one.start_y for one in ranges], [one.end_y for one in ranges]),
        )
    )
    if any(one.end_x >= columns or one.end_y >= rows for one in ranges):
        shards = ", ".join(f"[{one.start_x}-{one.start_y} - {one.end_x}-{one.end_y}]" for one in ranges)
        kind = "1D" if scheme.kind == HEIGHT else ""
        plan.refuse(_OTHER_GRID.format(kind, f"{{{shards}}}", columns, rows))


def _make_product_config(scheme: Scheme) -> Config:
    """Return the library's program config for a convolution's shards."""
    high, wide = scheme.out_tiles_high, scheme.out_tiles_wide
    ranges = scheme.out_shard.ranges
    sub_height, sub_width = _choose_subblock(
        scheme.block_tiles_high, wide, 4 if scheme.convolution.sums_in_float32 else 8
    )
    return Config(
        LINE if scheme.kind == HEIGHT else GRID,
        scheme.block_tiles_wide,
        high,
        wide,
        max(one.end_x for one in ranges) + 1,
        max(one.end_y for one in ranges) + 1,
        sub_height=sub_height,
        sub_width=sub_width,
        height=high,
        width=wide,
        spreads_first=scheme.kind != HEIGHT,
        has_activation=scheme.convolution.choices.activates,
    )


_PARTS = (
    *((2, 4), (4, 2), (1, 8), (8, 1), (1, 7), (7, 1), (2, 3), (3, 2), (1, 6), (6, 1)),
    *((1, 5), (5, 1), (2, 2), (1, 4), (4, 1), (1, 3), (3, 1), (1, 2), (2, 1), (1, 1)),
)
"""Subblocks in the library's order of preference: height by width in tiles."""


def _choose_subblock(height: int, width: int, registers: int) -> tuple[int, int]:
    """Return the first subblock that divides the block, has its width or a height of 1, and fits the registers."""
    return next(
        (high, wide)
        for high, wide in _PARTS
        if high * wide <= registers and not height % high and not width % wide and (wide == width or high == 1)
    )


def conv2d(call: Call, plan: PlanBuilder) -> Plan:
    given = call.arguments
    height, width = int(given["input_height"]), int(given["input_width"])
    kernel, stride, dilation = (read_pair(given, name) for name in ("kernel_size", "stride", "dilation"))
    window = Window(int(given["batch_size"]), height, width, kernel, stride, read_padding(given["padding"]), dilation)
    return _convolve_window(call, plan, window)


def conv1d(call: Call, plan: PlanBuilder) -> Plan:
    """Plan conv1d as an image of height 1."""
    given = call.arguments
    length, kernel, stride, dilation = (
        int(given[name]) for name in ("input_length", "kernel_size", "stride", "dilation")
    )
    padding = given["padding"]
    left, right = (int(padding[0]), int(padding[-1])) if isinstance(padding, (list, tuple)) else (int(padding),) * 2
    batch = int(given["batch_size"])
    window = Window(batch, 1, length, (1, kernel), (1, stride), (0, 0, left, right), (1, dilation))
    return _convolve_window(call, plan, window)


def conv_transpose2d(call: Call, plan: PlanBuilder) -> Plan:
    """Plan a convolution of stride 1 over an image with zeros between its pixels."""
    given = call.arguments
    height, width = int(given["input_height"]), int(given["input_width"])
    kernel, stride, dilation = (read_pair(given, name) for name in ("kernel_size", "stride", "dilation"))
    down, across = dilation[0] * (kernel[0] - 1), dilation[1] * (kernel[1] - 1)
    top, bottom, left, right = read_padding(given["padding"])
    padding = down - top, down - bottom, across - left, across - right
    if min(padding) < 0:
        return plan.unknown("a transposed convolution whose padding exceeds its kernel")
    window = Window(
        *(int(given["batch_size"]), height, width, kernel),
        padding=padding,
        dilation=dilation,
        spread=stride,
        output_padding=read_pair(given, "output_padding"),
    )
    return _convolve_window(call, plan, window)


def _convolve_window(call: Call, plan: PlanBuilder, window: Window) -> Plan:
    """Plan a convolution: an input in L1 stays there; one in DRAM passes through L1 whole or in slices."""
    source, weight = call.tensor("input_tensor", 0), call.tensor("weight_tensor", 1)
    bias = call.tensor("bias_tensor", 2)
    if source is None or weight is None:
        raise BadInputError(f"{call.name} needs an input and weights")
    choices = read_choices(call.arguments)
    if weight.memory is HOST and choices.weights is not None:
        weight = replace(weight, dtype=choices.weights)
    made = _build_convolution(call, window, source, weight, choices, has_bias=bias is not None)
    parameters = Parameters(weight, bias, is_returned=bool(call.arguments.get("return_weights_and_bias")))
    if parameters.is_returned and not all(spec is None or spec.memory is HOST for spec in (weight, bias)):
        raise NoRuleError("returned weights that are prepared already")
    if source.memory is HOST:
        raise NoRuleError("convolutions of host tensors")
    is_sharded = source.shard is not None
    if is_sharded and (source.memory is DRAM or not isinstance(source.shard, Shard) or window.spread is not None):
        return plan.unknown("convolutions of DRAM or ND shards, and transposed convolutions of shards")
    if source.is_tiled and source.memory is DRAM and not made.is_matmul and not choices.stays_in_l1:
        return plan.unknown("convolutions of tiles in DRAM")
    if not all(spec is None or spec.memory is HOST or _is_prepared(spec, made) for spec in (weight, bias)):
        return plan.unknown("unprepared weights on the device")
    is_special = choices.frees_input or not choices.moves_halo or choices.takes_whole_kernel
    if window.spread is not None and (is_special or (source.memory is DRAM and choices.block_rows)):
        raise NoRuleError("transposed convolutions with these options")
    if not is_sharded and not is_view(source, flatten_shape(source)):
        return plan.unknown("tiled images that must be reshaped")
    if not is_sharded:
        source = replace(source, shape=flatten_shape(source))
    patches, are_patches = 0, choices.may_fold and is_patchwise(window)
    if are_patches and isinstance(source.shard, Shard) and source.shard.kind == HEIGHT:
        raise NoRuleError("height shards whose windows do not overlap")
    if source.memory is DRAM and are_patches:
        if choices.kind:
            raise NoRuleError("patches in shards")
        if made.is_row_depthwise:
            return plan.unknown("depthwise convolutions along a line whose windows do not overlap")
        patches, source = fold(plan, made, source)
        made = fold_window(made)
    if made.is_matmul:
        if choices.activates and not (is_sharded or choices.kind):
            raise NoRuleError("an activation after a matmul")
        slot, spec = multiply_pixels(plan, made, source, parameters, call.memory)
    elif source.memory is L1 or choices.stays_in_l1:
        slot, spec = convolve(plan, made, source, parameters, call.memory)
    else:
        if choices.gives_rows:
            raise NoRuleError("row-major output of slices")
        return convolve_through_l1(plan, made, source, parameters)
    plan.free(patches)
    return parameters.finish(plan, slot, spec)


def flatten_shape(image: TensorSpec) -> tuple[int, ...]:
    """Return the shape of all pixels as one list."""
    return (1, 1, image.elements // image.shape[-1], image.shape[-1])


def _is_prepared(spec: TensorSpec, made: Convolution) -> bool:
    """Return whether weights are tiles in DRAM, the result of `ttnn.prepare_conv_weights`."""
    is_matrix = len(spec.shape) == 4 and spec.shape[:2] == (1, 1) and spec.shape[3] >= made.out_channels
    return is_matrix and spec.is_tiled and spec.memory is DRAM and spec.shard is None


def _build_convolution(
    call: Call, window: Window, source: TensorSpec, weight: TensorSpec, choices: Choices, *, has_bias: bool
) -> Convolution:
    given, kernel = call.arguments, window.kernel
    if min(*kernel, *window.stride, *window.dilation) < 1 or min(window.output_height, window.output_width) < 1:
        # The library's sizes wrap around.
        raise NoRuleError(
            f"a kernel of {kernel[0]}x{kernel[1]} does not fit an image of {window.height}x{window.width}"
        )
    channels, out_channels, groups = (int(given[name]) for name in ("in_channels", "out_channels", "groups"))
    is_depthwise = groups == channels == out_channels and window.spread is None
    is_row_depthwise = is_depthwise and kernel[0] == window.height == 1 and not has_bias
    if is_row_depthwise and kernel == (1, 1) and channels != 32:
        raise NoRuleError("depthwise kernels of one pixel in conv1d")
    out = given["dtype"]
    return Convolution(
        *(window, channels, out_channels, has_bias, source.dtype, weight.dtype),
        out_dtype=source.dtype if out is None else DATA_TYPES.find(str(out)),
        is_tiled=source.is_tiled,
        is_matmul=kernel == window.stride == window.dilation == (window.spread or (1, 1)) == (1, 1)
        and not any((*window.padding, *window.output_padding))
        and choices.kind != WIDTH,
        is_row_depthwise=is_row_depthwise,
        choices=choices,
    )


def format_convolution(
    name: str,
    image: dict[str, int],
    channels: int,
    out: int,
    *,
    has_bias: bool = False,
    memory: str = "DRAM",
    dtype: str = "bfloat16",
    given: Step | None = None,
    **options: Any,
) -> list[Step]:
    """Return the steps of a call: row-major channels, weights and bias on the host; ``given`` overrides the input."""
    pixels = 1
    for size in image.values():
        pixels *= size
    kernel, groups = options["kernel_size"], options.get("groups", 1)
    matrix = [channels, out // groups] if name == "conv_transpose2d" else [out, channels // groups]
    host = {"dtype": dtype, "layout": "row_major"}
    steps: list[Step] = [
        {"alloc": "t0", "shape": [1, 1, pixels, channels], **host, "memory": memory, **(given or {})},
        {"host": "weight", "shape": [*matrix, *(kernel if isinstance(kernel, list) else [1, kernel])], **host},
    ]
    tensors: Step = {"input_tensor": {"tensor": "t0"}, "weight_tensor": {"tensor": "weight"}}
    if has_bias:
        steps.append({"host": "bias", "shape": [1, 1, 1, out], **host})
        tensors["bias_tensor"] = {"tensor": "bias"}
    sizes = {"device": {"device": 0}, "in_channels": channels, "out_channels": out}
    return [
        *steps,
        {"call": f"ttnn.{name}", "args": [], "kwargs": {**tensors, **sizes, **image, **options}, "out": "result"},
    ]


_SIZES = tuple(Argument(name) for name in ("in_channels", "out_channels", "batch_size"))
_REST = (Argument("groups", default=1), Argument("device"), Argument("dtype", default=None))
_CHOICES = (
    *(Argument(name, default=None) for name in ("conv_config", "compute_config", "slice_config")),
    *(Argument(name, default=False) for name in ("return_output_dim", "return_weights_and_bias")),
)
_IMAGE = tuple(Argument(name) for name in ("input_height", "input_width", "kernel_size"))
_WINDOW = tuple(Argument(name, default=[size, size]) for name, size in (("stride", 1), ("padding", 0), ("dilation", 1)))
_EXAMPLE_IMAGE = {"batch_size": 1, "input_height": 8, "input_width": 8}

RECORDS = (
    build_record(
        format_convolution("conv2d", _EXAMPLE_IMAGE, 32, 32, kernel_size=[3, 3], padding=[1, 1]),
        conv2d,
        *(*_SIZES, *_IMAGE, *_WINDOW, *_REST, *_CHOICES),
        takes_host_tensors=True,
        verified_with_shards=False,
    ),
    build_record(
        format_convolution("conv_transpose2d", _EXAMPLE_IMAGE, 32, 32, kernel_size=[2, 2], stride=[2, 2]),
        conv_transpose2d,
        *(*_SIZES, *_IMAGE, *_WINDOW, Argument("output_padding", default=[0, 0]), *_REST, *_CHOICES),
        Argument("mirror_kernel", default=True),
        takes_host_tensors=True,
        verified_with_shards=False,
    ),
    build_record(
        format_convolution("conv1d", {"batch_size": 1, "input_length": 64}, 32, 32, kernel_size=3, padding=1),
        conv1d,
        *(*_SIZES, Argument("input_length"), Argument("kernel_size")),
        *(Argument("stride", default=1), Argument("padding", default=0), Argument("dilation", default=1), *_REST),
        takes_host_tensors=True,
        verified_with_shards=False,
    ),
)
