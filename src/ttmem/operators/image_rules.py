# SPDX-License-Identifier: Apache-2.0
"""Rules for images: convolutions, pools and resizing, which want their channels last."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ttmem.operators.bound_case import Bound, CannotRunError, demand, sizes

Rule = Callable[[Bound], Any]
ShapeRule = Callable[[Bound, Sequence[int]], list[int]]


def spread(bound: Bound, name: str, dimensions: int = 2) -> list[int]:
    """torch takes one number, or a list of one, for all dimensions."""
    value = bound.argument(name)
    found = [value] if isinstance(value, int) else sizes(value, name)
    return found * dimensions if len(found) == 1 else found


def image(bound: Bound) -> tuple[int, int, int, int]:
    """N, C, H, W; a signal [N, C, L] is an image of height 1, and torch takes both also without N."""
    shape = bound.first.shape
    is_convolution = bound.operator.kind == "conv" and bound.has("weight")
    spatial = len(bound.tensor("weight").shape) - 2 if is_convolution else 2
    if spatial not in (1, 2) or len(shape) not in (spatial + 1, spatial + 2):
        raise CannotRunError(f"only images [N, C, H, W] and signals [N, C, L], not {list(shape)}")
    full = shape if len(shape) == spatial + 2 else (1, *shape)
    return (full[0], full[1], 1, full[2]) if spatial == 1 else (full[0], full[1], full[2], full[3])


def is_flat_convolution(bound: Bound) -> None:
    dimensions = len(bound.tensor("weight").shape) - 2
    demand(dimensions in (1, 2), f"a convolution over {dimensions} dimensions has no form here")
    flat = bound.argument("transposed") and dimensions == 1
    demand(not flat, "a transposed convolution over one dimension has no form here")


def pool_stride(bound: Bound) -> list[int]:
    """torch: without a stride, the kernel's size."""
    return spread(bound, "kernel_size" if bound.argument("stride") in (None, []) else "stride")


def pool_kernel(bound: Bound) -> list[int]:
    """torch takes windows that are larger than the image; the library does not, and they see no more."""
    _, _, *size = image(bound)
    kernel, padding = spread(bound, "kernel_size"), spread(bound, "padding")
    return [min(one, side + 2 * pad) for one, side, pad in zip(kernel, size, padding, strict=True)]


def _scales(bound: Bound) -> list[float]:
    _, _, height, width = image(bound)
    size = bound.argument("output_size")
    if size is None:
        factors = bound.case.args.get("scale_factors") or [bound.argument("scales_h"), bound.argument("scales_w")]
        if None in factors:
            raise CannotRunError("neither output_size nor scales are known")
        return [float(factor) for factor in factors]
    wanted = sizes(size, "output_size")
    return [wanted[0] / height, wanted[1] / width]


def scale_factors(bound: Bound) -> list[float]:
    """Whole numbers where they are, because the library has a faster way for those."""
    scales = _scales(bound)
    return [int(scale) for scale in scales] if all(scale == int(scale) for scale in scales) else scales


def whole_scale_factors(bound: Bound) -> list[int]:
    scales = _scales(bound)
    if any(scale != int(scale) or scale < 1 for scale in scales):
        raise CannotRunError(f"bilinear resizing takes whole scales only, not {scales}")
    return [int(scale) for scale in scales]


def _rows_of_channels(bound: Bound, shape: Sequence[int]) -> list[int]:
    batch, channels, height, width = image(bound)
    return [1, 1, batch * height * width, channels]


def _channels_last(bound: Bound, shape: Sequence[int]) -> list[int]:
    batch, channels, height, width = image(bound)
    return [batch, height, width, channels]


def _samples_of_channels(bound: Bound, shape: Sequence[int]) -> list[int]:
    batch, channels, *spatial = bound.first.shape
    return [batch, 1, prod(spatial), channels]


SHAPE_RULES: dict[str, ShapeRule] = {
    "channels_last_rows": _rows_of_channels,
    "channels_last": _channels_last,
    "channels_last_samples": _samples_of_channels,
}

RULES: dict[str, Rule] = {
    "batch_size": lambda bound: image(bound)[0],
    "in_channels": lambda bound: image(bound)[1],
    "input_height": lambda bound: image(bound)[2],
    "input_width": lambda bound: image(bound)[3],
    "out_channels": lambda bound: bound.tensor("weight").shape[0],
    "transposed_out_channels": lambda bound: bound.tensor("weight").shape[1] * bound.argument("groups"),
    "kernel_size": lambda bound: list(bound.tensor("weight").shape[2:]),
    "kernel_width": lambda bound: bound.tensor("weight").shape[-1],
    "is_transposed_2d": lambda bound: bool(bound.argument("transposed")),
    "is_one_dimensional": lambda bound: len(bound.tensor("weight").shape) == 3,
    "is_flat_convolution": is_flat_convolution,
    "stride_width": lambda bound: spread(bound, "stride", 1)[-1],
    "padding_width": lambda bound: spread(bound, "padding", 1)[-1],
    "dilation_width": lambda bound: spread(bound, "dilation", 1)[-1],
    "pool_kernel": pool_kernel,
    "conv_stride": lambda bound: spread(bound, "stride"),
    "conv_padding": lambda bound: spread(bound, "padding"),
    "conv_output_padding": lambda bound: spread(bound, "output_padding"),
    "conv_dilation": lambda bound: spread(bound, "dilation"),
    "pool_stride": pool_stride,
    "pool_padding": lambda bound: spread(bound, "padding"),
    "pool_dilation": lambda bound: spread(bound, "dilation"),
    "scale_factors": scale_factors,
    "whole_scale_factors": whole_scale_factors,
    "doubled_size": lambda bound: [2 * size for size in image(bound)[2:]],
}
