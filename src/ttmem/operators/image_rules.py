# SPDX-License-Identifier: Apache-2.0
"""Rules for images: convolutions, pools and resizing, which want their channels last."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ttmem.operators.bound import Bound, CannotRunError


def sizes(value: Any, name: str) -> list[int]:
    """Numbers, or the reason that they are none."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(v, int) for v in value):
        raise CannotRunError(f"'{name}' is not known as numbers: {value!r}")
    return list(value)


def spread(value: Any, dimensions: int, name: str) -> list[int]:
    """torch takes one number, or a list of one, for all dimensions."""
    found = [value] if isinstance(value, int) else sizes(value, name)
    return found * dimensions if len(found) == 1 else found


def image(bound: Bound) -> tuple[int, int, int, int]:
    """N, C, H, W; a signal [N, C, L] is an image of height 1, and torch takes both also without N."""
    shape = bound.first.shape
    if bound.operator.kind == "conv" and bound.has("weight"):
        spatial = len(bound.tensor("weight").shape) - 2
    else:
        spatial = 2
    if spatial not in (1, 2) or len(shape) not in (spatial + 1, spatial + 2):
        raise CannotRunError(f"only images [N, C, H, W] and signals [N, C, L], not {list(shape)}")
    full = shape if len(shape) == spatial + 2 else (1, *shape)
    return (full[0], full[1], 1, full[2]) if spatial == 1 else (full[0], full[1], full[2], full[3])


def channels_last_rows_of(bound: Bound, shape: Sequence[int]) -> list[int]:
    batch, channels, height, width = image(bound)
    return [1, 1, batch * height * width, channels]


def channels_last_of(bound: Bound, shape: Sequence[int]) -> list[int]:
    batch, channels, height, width = image(bound)
    return [batch, height, width, channels]


def channels_last_samples_of(bound: Bound, shape: Sequence[int]) -> list[int]:
    batch, channels, *spatial = bound.first.shape
    return [batch, 1, prod(spatial), channels]


def is_transposed_2d(bound: Bound) -> bool:
    return bool(bound.argument("transposed"))


def is_one_dimensional(bound: Bound) -> bool:
    return len(bound.tensor("weight").shape) == 3


def is_flat_convolution(bound: Bound) -> None:
    dimensions = len(bound.tensor("weight").shape) - 2
    if dimensions not in (1, 2):
        raise CannotRunError(f"a convolution over {dimensions} dimensions has no form here")
    if bound.argument("transposed") and dimensions == 1:
        raise CannotRunError("a transposed convolution over one dimension has no form here")


def kernel(bound: Bound) -> list[int]:
    return list(bound.tensor("weight").shape[2:])


def pool_kernel(bound: Bound) -> list[int]:
    return spread(bound.argument("kernel_size"), 2, "kernel_size")


def pool_stride(bound: Bound) -> list[int]:
    """torch: without a stride, the kernel's size."""
    stride = bound.argument("stride")
    return pool_kernel(bound) if stride in (None, []) else spread(stride, 2, "stride")


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


def doubled_size(bound: Bound) -> list[int]:
    _, _, height, width = image(bound)
    return [2 * height, 2 * width]
