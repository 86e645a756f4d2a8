# SPDX-License-Identifier: Apache-2.0
"""Convolutions: out of L1 at once, out of DRAM at once or slice by slice, and those that are a product of matrices."""

from dataclasses import dataclass, replace

from ttmem._errors import BadInputError
from ttmem.allocator.operations.convolution_schemes import (
    HEIGHT,
    WIDTH,
    Chip,
    Convolution,
    Scheme,
    preferred_kind,
    scheme_of,
)
from ttmem.allocator.operations.halos import cut_out, deal, gather, keep_tables
from ttmem.allocator.operations.image_slices import Cut, cut_window, sliced
from ttmem.allocator.operations.matrix import product, product_spec
from ttmem.allocator.operations.movement import pad
from ttmem.allocator.operations.plan import Call, Plan, PlanWriter
from ttmem.allocator.operations.record import Argument, Choose, OperationRecord, Step
from ttmem.allocator.operations.reshaping import reshape
from ttmem.allocator.operations.sliding_window import Window, four_sides, pair, reader_table_width
from ttmem.allocator.operations.tilizing import tilize
from ttmem.allocator.operations.written import record_of
from ttmem.allocator.programs import CIRCULAR
from ttmem.hardware import DATA_TYPES, DRAM, L1, Memory
from ttmem.tensors import ROW_MAJOR, TILE, TensorSpec, round_up

_TABLE_TOO_WIDE = "Reader indices buffer page size {} exceeds worst-case CB size {} (config tensor layout changed?)"
"""What the library says of windows that break off more often than it expects."""


@dataclass(slots=True)
class _Parameters:
    """Weights and bias on the device: made by the first part of a convolution that needs them, there until its end."""

    weight: TensorSpec
    bias: TensorSpec | None
    slots: tuple[int, ...] = ()


def conv2d(call: Call, plan: PlanWriter) -> Plan:
    """An input in L1 stays there; one in DRAM goes through L1 at once if that fits, else in slices of the image."""
    source, made = call.inputs[0], _convolution(call)
    weight, bias = call.tensor("weight_tensor", 1), call.tensor("bias_tensor", 2)
    assert weight is not None
    parameters = _Parameters(weight, bias)
    if source.shard is not None:
        return plan.give_up("convolutions of sharded tensors")
    patches = 0
    if source.memory is DRAM and _is_patchwise(made.window):
        if source.layout is TILE:
            return plan.give_up("convolutions of tiles in DRAM whose windows do not overlap")
        patches, source = _fold(plan, made, source)
        made = _folded(made)
    if made.is_matmul:
        slot, spec = _multiply(plan, made, source, parameters)
        plan.free(patches, *parameters.slots)
        return _delivered(plan, slot, spec, call.memory)
    if source.memory is L1:
        slot, spec = convolve(plan, made, source, parameters)
        plan.free(*parameters.slots)
        return _delivered(plan, slot, spec, call.memory)
    return _through_l1(plan, made, source, parameters)


def _convolution(call: Call) -> Convolution:
    given, source = call.arguments, call.inputs[0]
    weight = call.tensor("weight_tensor", 1)
    if weight is None:
        raise BadInputError("a convolution needs weights")
    kernel, stride, dilation = (pair(given, name) for name in ("kernel_size", "stride", "dilation"))
    padding = four_sides(given["padding"])
    batch, height, width = (int(given[name]) for name in ("batch_size", "input_height", "input_width"))
    window = Window(batch, height, width, kernel, stride, padding, dilation)
    if min(window.output_height, window.output_width) < 1 or min(*kernel, *stride, *dilation) < 1:
        raise BadInputError(f"a kernel of {kernel[0]}x{kernel[1]} does not fit an image of {height}x{width}")
    out, has_bias = given.get("dtype"), call.tensor("bias_tensor", 2) is not None
    channels, out_channels = int(given["in_channels"]), int(given["out_channels"])
    return Convolution(
        window,
        channels,
        out_channels,
        has_bias,
        source.dtype,
        weight.dtype,
        source.dtype if out is None else DATA_TYPES.find(str(out)),
        source.layout,
        kernel == stride == dilation == (1, 1) and not any(padding),
        int(given["groups"]) == channels == out_channels and kernel[0] == window.height == 1 and not has_bias,
    )


def convolve(
    plan: PlanWriter, made: Convolution, source: TensorSpec, parameters: _Parameters, scheme: Scheme | None = None
) -> tuple[int, TensorSpec]:
    """One convolution in L1: dealt out, halos gathered, convolved. The result is in shards."""
    slot = 0
    if scheme is None:
        chip = Chip.of(plan.memory_map)
        scheme = scheme_of(preferred_kind(made, chip), made, chip)
        slot, dealt = deal(plan, scheme.dealing, source)
    _prepare(plan, scheme, parameters)
    slot, dealt = _gather(plan, scheme, slot, dealt)
    return _convolve(plan, scheme, slot, dealt)


def _prepare(plan: PlanWriter, scheme: Scheme, parameters: _Parameters) -> None:
    """Weights, then the bias, in the form that the scheme's kernels read; always in DRAM."""
    if parameters.slots:
        return
    shape = scheme.weight_shape
    slots = [plan.allocate(TensorSpec(shape, parameters.weight.dtype, TILE, DRAM))]
    if parameters.bias is not None:
        slots.append(plan.allocate(TensorSpec((1, 1, 32, shape[-1]), parameters.weight.dtype, TILE, DRAM)))
    parameters.slots = tuple(slots)


def _gather(plan: PlanWriter, scheme: Scheme, slot: int, dealt: TensorSpec) -> tuple[int, TensorSpec]:
    """Dealt by channels alone and without padding, every core has all that its windows touch."""
    made = scheme.convolution
    if scheme.kind == WIDTH and made.layout is ROW_MAJOR and not any(made.window.padding):
        return slot, dealt
    return gather(plan, scheme.dealing, slot, dealt)


def _convolve(plan: PlanWriter, scheme: Scheme, slot: int, halo: TensorSpec) -> tuple[int, TensorSpec]:
    made = scheme.convolution
    result = TensorSpec((1, 1, made.window.outputs, made.out_channels), made.out_dtype, TILE, L1, scheme.out_shard)
    made_slot = plan.allocate(result)
    readers = scheme.readers()
    width = reader_table_width(made.window, scheme.cores_high, scheme.outputs_per_core, readers)
    width += width % 2
    keep_tables(plan, scheme.dealing, ("convolution", made, halo), (width,))
    if width > scheme.outputs_per_core:
        plan.refuse(_TABLE_TOO_WIDE.format(2 * width, 2 * scheme.outputs_per_core))
    plan.launch(scheme.static_bytes(), CIRCULAR)
    plan.free(slot)
    return made_slot, result


def _delivered(plan: PlanWriter, slot: int, spec: TensorSpec, memory: Memory | None) -> Plan:
    if memory is None:
        return plan.finish(slot, spec)
    result = replace(spec, memory=memory, shard=None)
    made = plan.allocate(result)
    plan.free(slot)
    return plan.finish(made, result)


def _through_l1(plan: PlanWriter, made: Convolution, source: TensorSpec, parameters: _Parameters) -> Plan:
    """The result's place in DRAM is taken first, and given back when no slices are needed."""
    window, chip = made.window, Chip.of(plan.memory_map)
    shape = (window.batch, window.output_height, window.output_width, made.out_channels)
    image = TensorSpec(shape, made.out_dtype, TILE, DRAM)
    place = plan.allocate(image)
    parts = sliced(window, lambda cut: _bytes_needed(made, cut, chip), plan.l1_bytes_free, tiled=True)
    if isinstance(parts, str):
        plan.refuse(parts)
    if len(parts) > 1:
        kind = ""
        for cut in parts:
            part, kind = _part(made, cut, chip, kind)
            _convolve_slice(plan, scheme_of(kind, part, chip, is_sliced=True), parameters)
        return _flattened(plan, place, image, parameters)
    plan.free(place)
    slot, spec = convolve(plan, made, source, parameters)
    result = replace(spec, memory=DRAM, shard=None)
    delivered = plan.allocate(result)
    plan.free(slot, *parameters.slots)
    return plan.finish(delivered, result)


def _part(made: Convolution, cut: Cut, chip: Chip, kind: str = "") -> tuple[Convolution, str]:
    """A slice for itself, and how it is dealt out unless the first slice settled that.

    The library reckons with the whole image's padding there.
    """
    part = replace(made, window=cut_window(made.window, cut, tiled=True))
    return part, kind or preferred_kind(part, chip, replace(part.window, padding=made.window.padding))


def _bytes_needed(made: Convolution, cut: Cut, chip: Chip) -> int:
    part, kind = _part(made, cut, chip)
    return scheme_of(kind, part, chip, is_sliced=part.window != made.window).estimated_peak_bytes


def _convolve_slice(plan: PlanWriter, scheme: Scheme, parameters: _Parameters) -> None:
    """Cut out of DRAM into shards, convolved, written back."""
    slot, dealt = cut_out(plan, scheme.dealing, scheme.convolution.stick_dtype)
    _prepare(plan, scheme, parameters)
    slot, dealt = _gather(plan, scheme, slot, dealt)
    slot, _ = _convolve(plan, scheme, slot, dealt)
    plan.free(slot)


def _flattened(plan: PlanWriter, place: int, image: TensorSpec, parameters: _Parameters) -> Plan:
    """The images as one list of sticks: a copy unless their rows are whole tiles."""
    shape = (1, 1, image.elements // image.shape[-1], image.shape[-1])
    (slot, spec), *_ = reshape(Call("reshape", (image,), {"shape": shape}), plan).results
    if slot < 0:
        slot = place
    else:
        plan.free(place)
    plan.free(*parameters.slots)
    return plan.finish(slot, spec)


def _is_patchwise(window: Window) -> bool:
    """Windows that do not overlap and leave nothing over."""
    fits = window.padded_height % window.stride[0] == 0 == window.padded_width % window.stride[1]
    return window.kernel == window.stride != (1, 1) == window.dilation and fits


def _folded(made: Convolution) -> Convolution:
    """The same with all pixels of a window as channels of one."""
    window, (down, across) = made.window, made.window.kernel
    pixels = Window(window.batch, window.padded_height // down, window.padded_width // across, (1, 1))
    return replace(made, window=pixels, in_channels=made.in_channels * down * across, is_matmul=True)


def _fold(plan: PlanWriter, made: Convolution, source: TensorSpec) -> tuple[int, TensorSpec]:
    """Pixels of a window are brought together in DRAM; an image with padding is copied with it first."""
    window, padded = made.window, 0
    if any(window.padding):
        top, bottom, left, right = window.padding
        image = replace(source, shape=(window.batch, window.height, window.width, made.in_channels))
        padding = ((0, 0), (top, bottom), (left, right), (0, 0))
        (padded, _), *_ = pad(Call("pad", (image,), {"padding": padding, "value": 0.0}), plan).results
    folded = _folded(made)
    spec = replace(source, shape=(1, 1, folded.window.outputs, folded.in_channels))
    slot = plan.allocate(spec)
    stick, pixels = made.in_channels * made.stick_bytes, window.kernel[0] * window.kernel[1]
    aligned = round_up(stick, plan.memory_map.architecture.dram_alignment_bytes)
    plan.launch([2 * aligned * pixels, *([stick * pixels] if stick != aligned else [])])
    plan.free(padded)
    return slot, spec


def _multiply(
    plan: PlanWriter, made: Convolution, source: TensorSpec, parameters: _Parameters
) -> tuple[int, TensorSpec]:
    """A kernel of one pixel: sticks times weights. The input becomes tiles, before or after the weights are moved."""
    chip = Chip.of(plan.memory_map)
    scheme = scheme_of(preferred_kind(made, chip), made, chip)
    tiles, is_early = replace(source, layout=TILE), scheme.kind != HEIGHT
    tiled = tilize(plan, source, tiles) if source.layout is not TILE and is_early else 0
    weight = TensorSpec((1, 1, made.in_channels, made.out_channels), parameters.weight.dtype, TILE, DRAM)
    bias = None if parameters.bias is None else replace(weight, shape=(1, 1, 1, made.out_channels))
    parameters.slots = tuple(plan.allocate(spec) for spec in (weight, bias) if spec is not None)
    if source.layout is not TILE and not is_early:
        tiled = tilize(plan, source, tiles)
    wanted = product_spec(tiles, weight, (False, False), None, made.out_dtype)
    slot, spec, copies = product(plan, tiles, weight, wanted, (False, False), bias)
    plan.free(*copies, tiled)
    return slot, spec


def _draw_conv2d(record: OperationRecord, choose: Choose) -> list[Step]:
    batch, height, width = (
        choose.one_of((1, 1, 1, 2, 3)),
        choose.one_of((7, 14, 28, 33, 56)),
        choose.one_of((7, 14, 28, 40, 56)),
    )
    channels, out = choose.one_of((3, 16, 32, 64, 100, 256)), choose.one_of((8, 32, 64, 72, 256, 512))
    size = choose.one_of((1, 3, 3, 5, 7))
    stride, padding = choose.one_of((1, 1, 2)), choose.one_of((0, size // 2))
    return convolution_steps(
        record.name,
        batch,
        height,
        width,
        channels,
        out,
        [size, size],
        [stride, stride],
        [padding, padding],
        has_bias=bool(choose.integer(0, 1)),
        memory=choose.one_of(("L1", "DRAM")),
    )


def convolution_steps(
    name: str,
    batch: int,
    height: int,
    width: int,
    channels: int,
    out: int,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    *,
    dilation: int = 1,
    groups: int = 1,
    has_bias: bool = False,
    memory: str = "DRAM",
    dtype: str = "bfloat16",
) -> list[Step]:
    """A call as the catalogue writes it: rows of channels, weights and bias on the host."""
    source = {
        "shape": [1, 1, batch * height * width, channels],
        "dtype": dtype,
        "layout": "row_major",
        "memory": memory,
    }
    weight = {"host": "weight", "shape": [out, channels // groups, *kernel], "dtype": dtype, "layout": "row_major"}
    bias = {"host": "bias", "shape": [1, 1, 1, out], "dtype": dtype, "layout": "row_major"}
    options = {
        "input_tensor": {"tensor": "t0"},
        "weight_tensor": {"tensor": "weight"},
        "device": {"device": None},
        "in_channels": channels,
        "out_channels": out,
        "batch_size": batch,
        "input_height": height,
        "input_width": width,
        "kernel_size": kernel,
        "stride": stride,
        "padding": padding,
        "dilation": [dilation, dilation],
        "groups": groups,
    }
    if has_bias:
        options["bias_tensor"] = {"tensor": "bias"}
    return [
        {"alloc": "t0", **source},
        weight,
        *([bias] if has_bias else []),
        {"call": f"ttnn.{name}", "args": [], "kwargs": options, "out": "result"},
    ]


_NUMBERS = ("in_channels", "out_channels", "batch_size", "input_height", "input_width", "kernel_size")

RECORDS = (
    record_of(
        convolution_steps("conv2d", 1, 8, 8, 32, 32, [3, 3], [1, 1], [1, 1]),
        conv2d,
        _draw_conv2d,
        *(Argument(name) for name in _NUMBERS),
        *(
            Argument("stride", default=(1, 1)),
            Argument("padding", default=(0, 0)),
            Argument("dilation", default=(1, 1)),
        ),
        *(Argument("groups", default=1), Argument("device", default=None), Argument("dtype", default=None)),
        takes_host_tensors=True,
    ),
)
