# SPDX-License-Identifier: Apache-2.0
"""Convolutions in two dimensions, transposed ones, and those along a line."""

from dataclasses import replace
from typing import Any

from ttmem.base.errors import BadInputError
from ttmem.hardware import DATA_TYPES, DRAM, HOST, L1
from ttmem.twin.operations.call_syntax import record_of
from ttmem.twin.operations.conv_1x1 import multiply
from ttmem.twin.operations.conv_config import HEIGHT, WIDTH, Choices, UnknownChoiceError, choices_of
from ttmem.twin.operations.conv_parallelization import Convolution
from ttmem.twin.operations.conv_steps import Parameters, convolve, fold, folded, is_patchwise, through_l1
from ttmem.twin.operations.image_slices import TOO_THIN, ThinSliceError
from ttmem.twin.operations.plan import Call, Plan, PlanWriter
from ttmem.twin.operations.record import Argument, Step
from ttmem.twin.operations.reshape import is_view
from ttmem.twin.operations.sliding_window import Window, four_sides, pair
from ttmem.twin.tensor_spec import Shard, TensorSpec


def conv2d(call: Call, plan: PlanWriter) -> Plan:
    given = call.arguments
    height, width = int(given["input_height"]), int(given["input_width"])
    kernel, stride, dilation = (pair(given, name) for name in ("kernel_size", "stride", "dilation"))
    window = Window(int(given["batch_size"]), height, width, kernel, stride, four_sides(given["padding"]), dilation)
    return _convolution(call, plan, window)


def conv1d(call: Call, plan: PlanWriter) -> Plan:
    """A line is an image of height 1."""
    given = call.arguments
    length, kernel, stride, dilation = (
        int(given[name]) for name in ("input_length", "kernel_size", "stride", "dilation")
    )
    padding = given["padding"]
    left, right = (int(padding[0]), int(padding[-1])) if isinstance(padding, (list, tuple)) else (int(padding),) * 2
    batch = int(given["batch_size"])
    window = Window(batch, 1, length, (1, kernel), (1, stride), (0, 0, left, right), (1, dilation))
    return _convolution(call, plan, window)


def conv_transpose2d(call: Call, plan: PlanWriter) -> Plan:
    """A convolution with a stride of one over an image with zeros between its pixels."""
    given = call.arguments
    height, width = int(given["input_height"]), int(given["input_width"])
    kernel, stride, dilation = (pair(given, name) for name in ("kernel_size", "stride", "dilation"))
    down, across = dilation[0] * (kernel[0] - 1), dilation[1] * (kernel[1] - 1)
    top, bottom, left, right = four_sides(given["padding"])
    padding = down - top, down - bottom, across - left, across - right
    if min(padding) < 0:
        return plan.give_up("a transposed convolution with more padding than its kernel reaches")
    window = Window(
        *(int(given["batch_size"]), height, width, kernel),
        padding=padding,
        dilation=dilation,
        spread=stride,
        output_padding=pair(given, "output_padding"),
    )
    return _convolution(call, plan, window)


def _convolution(call: Call, plan: PlanWriter, window: Window) -> Plan:
    """An input in L1 stays there; one in DRAM goes through L1 at once if that fits, else in slices of the image."""
    source, weight = call.tensor("input_tensor", 0), call.tensor("weight_tensor", 1)
    bias = call.tensor("bias_tensor", 2)
    if source is None or weight is None:
        raise BadInputError(f"{call.name} needs an input and weights")
    try:
        choices = choices_of(call.arguments)
        return _chosen(call, plan, window, choices, source, weight, bias)
    except UnknownChoiceError as unknown:
        return plan.give_up(f"convolutions that were not compared: {unknown}")
    except ThinSliceError:
        return plan.give_up(TOO_THIN)


def _chosen(
    call: Call,
    plan: PlanWriter,
    window: Window,
    choices: Choices,
    source: TensorSpec,
    weight: TensorSpec,
    bias: TensorSpec | None,
) -> Plan:
    if weight.memory is HOST and choices.weights is not None:
        weight = replace(weight, dtype=choices.weights)
    made = _described(call, window, source, weight, choices, has_bias=bias is not None)
    parameters = Parameters(weight, bias, is_returned=bool(call.arguments.get("return_weights_and_bias")))
    if parameters.is_returned and not all(spec is None or spec.memory is HOST for spec in (weight, bias)):
        raise UnknownChoiceError("prepared weights that are returned")
    if source.memory is HOST:
        raise UnknownChoiceError("images on the host")
    is_sharded = source.shard is not None
    if is_sharded and (source.memory is DRAM or not isinstance(source.shard, Shard) or window.spread is not None):
        return plan.give_up("convolutions of shards of DRAM or of many dimensions, and transposed ones of shards")
    if source.is_tiled and source.memory is DRAM and not made.is_matmul and not choices.stays_in_l1:
        return plan.give_up("convolutions of tiles in DRAM")
    if not all(spec is None or spec.memory is HOST or _is_prepared(spec, made) for spec in (weight, bias)):
        return plan.give_up("weights on the device that were not prepared are brought back first")
    is_special = choices.frees_input or not choices.moves_halo or choices.takes_whole_kernel
    if window.spread is not None and (is_special or (source.memory is DRAM and choices.block_rows)):
        raise UnknownChoiceError("transposed ones whose input goes, whose halo stays, or with blocks of their own")
    if not is_sharded and not is_view(source, as_sticks(source)):
        return plan.give_up("tiles of images, which are laid out anew as one list of sticks")
    if not is_sharded:
        source = replace(source, shape=as_sticks(source))
    patches, are_patches = 0, choices.may_fold and is_patchwise(window)
    if are_patches and isinstance(source.shard, Shard) and source.shard.kind == HEIGHT:
        raise UnknownChoiceError("shards whose windows do not overlap")
    if source.memory is DRAM and are_patches:
        if choices.kind:
            raise UnknownChoiceError("patches in shards")
        if made.is_row_depthwise:
            return plan.give_up("depthwise convolutions along a line whose windows do not overlap")
        patches, source = fold(plan, made, source)
        made = folded(made)
    if made.is_matmul:
        if choices.activates and not (is_sharded or choices.kind):
            raise UnknownChoiceError("an activation behind a product of matrices")
        slot, spec = multiply(plan, made, source, parameters, call.memory)
    elif source.memory is L1 or choices.stays_in_l1:
        slot, spec = convolve(plan, made, source, parameters, call.memory)
    else:
        if choices.gives_rows:
            raise UnknownChoiceError("rows out of slices")
        return through_l1(plan, made, source, parameters)
    plan.free(patches)
    return parameters.finish(plan, slot, spec)


def as_sticks(image: TensorSpec) -> tuple[int, ...]:
    """The shape of all pixels one after the other."""
    return (1, 1, image.elements // image.shape[-1], image.shape[-1])


def _is_prepared(spec: TensorSpec, made: Convolution) -> bool:
    """Tiles in DRAM, as `ttnn.prepare_conv_weights` makes them."""
    is_matrix = len(spec.shape) == 4 and spec.shape[:2] == (1, 1) and spec.shape[3] >= made.out_channels
    return is_matrix and spec.is_tiled and spec.memory is DRAM and spec.shard is None


def _described(
    call: Call, window: Window, source: TensorSpec, weight: TensorSpec, choices: Choices, *, has_bias: bool
) -> Convolution:
    given, kernel = call.arguments, window.kernel
    if min(*kernel, *window.stride, *window.dilation) < 1 or min(window.output_height, window.output_width) < 1:
        # The library's sizes wrap around.
        raise UnknownChoiceError(
            f"a kernel of {kernel[0]}x{kernel[1]} does not fit an image of {window.height}x{window.width}"
        )
    channels, out_channels, groups = (int(given[name]) for name in ("in_channels", "out_channels", "groups"))
    is_depthwise = groups == channels == out_channels and window.spread is None
    is_row_depthwise = is_depthwise and kernel[0] == window.height == 1 and not has_bias
    if is_row_depthwise and kernel == (1, 1) and channels != 32:
        raise UnknownChoiceError("depthwise kernels of one pixel along a line: their weights have another height")
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


def convolution_steps(
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
    """A call as the catalogue writes it: rows of channels, weights and bias on the host. ``given``: what the input is
    otherwise.
    """
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
    record_of(
        convolution_steps("conv2d", _EXAMPLE_IMAGE, 32, 32, kernel_size=[3, 3], padding=[1, 1]),
        conv2d,
        *(*_SIZES, *_IMAGE, *_WINDOW, *_REST, *_CHOICES),
        takes_host_tensors=True,
    ),
    record_of(
        convolution_steps("conv_transpose2d", _EXAMPLE_IMAGE, 32, 32, kernel_size=[2, 2], stride=[2, 2]),
        conv_transpose2d,
        *(*_SIZES, *_IMAGE, *_WINDOW, Argument("output_padding", default=[0, 0]), *_REST, *_CHOICES),
        Argument("mirror_kernel", default=True),
        takes_host_tensors=True,
    ),
    record_of(
        convolution_steps("conv1d", {"batch_size": 1, "input_length": 64}, 32, 32, kernel_size=3, padding=1),
        conv1d,
        *(*_SIZES, Argument("input_length"), Argument("kernel_size")),
        *(Argument("stride", default=1), Argument("padding", default=0), Argument("dilation", default=1), *_REST),
        takes_host_tensors=True,
    ),
)
