# SPDX-License-Identifier: Apache-2.0
"""Images in DRAM that do not fit L1 at once, cut along height or width into the fewest slices that fit."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ttmem.base.arithmetic import ceil_div, round_up
from ttmem.twin.operations.plan import NoRuleError
from ttmem.twin.operations.sliding_window import Window

_TILE = 32
_LAST_SLICES = 8
"""The number of last slices that crash the library if they are too thin."""
_NARROW = 200
"""Tiled results are cut by height when the image is narrower than this."""
_TALL = 3
"""Row-major results are cut by height when the image is more than this many times higher than wide."""

NO_SLICES = (
    "DRAM Auto slice could not find valid slice configuration. Tried up to {} slices for {}-slicing on output "
    "dimension {}. Available L1: {} bytes. Operation requires more memory than available even with maximum slicing."
)
"""The library's message if even the thinnest slices do not fit."""


_TOO_THIN = "slices thinner than a window, which crash the library"


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of the result's image, with exclusive ends."""

    top: int
    bottom: int
    left: int
    right: int


def cut_window(window: Window, cut: Cut, *, tiled: bool) -> Window:
    """Return the window over the part of the image that this part of the result needs.

    Tiled results have rows of whole tiles: the image is padded on the right.
    """
    part = (
        _cut_plain(window, cut, tiled=tiled) if window.spread is None else _cut_transposed(window, window.spread, cut)
    )
    short = replace(part, ceiling=(0, 0)) if any(part.ceiling) else part
    if part.height > 0 and part.width > 0 and min(short.output_height, short.output_width) < 1:
        raise NoRuleError(_TOO_THIN)
    if window.spread is not None and (
        part.output_height != cut.bottom - cut.top or part.output_width < cut.right - cut.left
    ):
        raise NoRuleError(_TOO_THIN)
    return part


def _cut_plain(window: Window, cut: Cut, *, tiled: bool) -> Window:
    top, bottom, above, below = _compute_reach(
        *(window.height, window.output_height, window.kernel[0], window.stride[0], window.dilation[0]),
        *(window.padding[0], window.padding[1], cut.top, cut.bottom),
    )
    left, right, before, after = _compute_reach(
        *(window.width, window.output_width, window.kernel[1], window.stride[1], window.dilation[1]),
        *(window.padding[2], window.padding[3], cut.left, cut.right),
    )
    if tiled and (bottom - top, right - left) != (window.height, window.width):
        width = cut.right - cut.left
        after += (round_up(width, _TILE) - width) * window.stride[1]
    ceiling = (
        window.ceiling[0] if cut.bottom == window.output_height else 0,
        window.ceiling[1] if cut.right == window.output_width else 0,
    )
    padding = (above, below, before, after)
    return replace(window, height=bottom - top, width=right - left, padding=padding, ceiling=ceiling)


def _compute_reach(
    size: int,
    outputs: int,
    kernel: int,
    stride: int,
    dilation: int,
    pad_before: int,
    pad_after: int,
    first: int,
    end: int,
) -> tuple[int, int, int, int]:
    """Return start and end of the input that the outputs along a dimension need, and the padding before and after."""
    start = first * stride - pad_before
    stop = (end - 1) * stride - pad_before + (kernel - 1) * dilation + 1
    before, after = max(0, -start), max(0, stop - size)
    start, stop = max(0, start), min(size, stop)
    if first == 0:
        start, before = 0, pad_before
    if end == outputs:
        stop, after = size, pad_after
    return start, stop, before, after


def _cut_transposed(window: Window, spread: tuple[int, int], cut: Cut) -> Window:
    top, bottom, above, below, more_below = _compute_spread_reach(
        *(window.height, window.output_height, window.dilation[0] * (window.kernel[0] - 1), spread[0]),
        *(window.padding[0], window.padding[1], window.output_padding[0], cut.top, cut.bottom),
    )
    left, right, before, after, more_after = _compute_spread_reach(
        *(window.width, window.output_width, window.dilation[1] * (window.kernel[1] - 1), spread[1]),
        *(window.padding[2], window.padding[3], window.output_padding[1], cut.left, cut.right),
    )
    if (bottom - top, right - left) != (window.height, window.width):
        width = cut.right - cut.left
        more_after += round_up(width, _TILE) - width
    return replace(
        window,
        height=bottom - top,
        width=right - left,
        padding=(above, below, before, after),
        output_padding=(more_below, more_after),
    )


def _compute_spread_reach(
    size: int,
    outputs: int,
    reach: int,
    spread: int,
    pad_before: int,
    pad_after: int,
    more_after: int,
    first: int,
    end: int,
) -> tuple[int, int, int, int, int]:
    """Do the same as `_compute_reach` for pixels with zeros between them; the last number is the output padding."""
    image_start, image_end = max(0, first - pad_before), end - pad_before + reach
    start, stop = max(0, ceil_div(first - pad_before, spread)), min(size, (image_end - 1) // spread + 1)
    before = max(0, pad_before - first, -image_start % spread)
    after = max(0, image_end - outputs, (image_end - 1) % spread if end < outputs else 0)
    more = 0
    if first == 0:
        start, before = 0, pad_before
    if end == outputs:
        stop, after, more = size, pad_after, more_after
    return start, stop, before, after, more


def iterate_cuts(window: Window, by_height: bool, count: int, *, tiled: bool) -> Iterator[Cut]:
    """Yield ``count`` parts of nearly equal numbers of rows (or, by width, columns of tiles), the larger ones first."""
    size = window.output_height if by_height else window.output_width
    unit = _TILE if tiled and not by_height else 1
    least, larger = divmod(ceil_div(size, unit), count)
    start = 0
    for number in range(count):
        if start >= size:
            return
        step = unit * (least + (number < larger))
        cut = _build_cut(window, by_height, start, min(size, start + step))
        part = cut_window(window, cut, tiled=tiled) if step else None
        if part is not None and part.height > 0 and part.width > 0:
            yield cut
            start += step


def _build_cut(window: Window, by_height: bool, start: int, end: int) -> Cut:
    return Cut(start, end, 0, window.output_width) if by_height else Cut(0, window.output_height, start, end)


def _check_last(window: Window, by_height: bool, count: int, *, tiled: bool, seen: set[tuple[int, int]]) -> None:
    """Check the last slices, which crash the library if too thin: it computes all before it refuses them.

    Those of the next count are often among the ``seen``.
    """
    size = window.output_height if by_height else window.output_width
    unit = _TILE if tiled and not by_height else 1
    least, end = max(ceil_div(size, unit) // count, 1) * unit, size
    last = min(count, _LAST_SLICES)
    if (least, last) in seen:
        return
    seen.add((least, last))
    for _ in range(last):
        start = max(end - ((end - 1) % unit + 1 if end == size and unit > 1 else least), 0)
        cut_window(window, _build_cut(window, by_height, start, end), tiled=tiled)
        end = start
        if end <= 0:
            return


def choose_slices(
    window: Window, bytes_needed: Callable[[Cut], int], bytes_free: int, *, tiled: bool
) -> tuple[Cut, ...] | str:
    """Return the fewest slices that each fit, or the library's refusal if there are none along either dimension."""
    if tiled:
        by_height = window.width < _NARROW or window.height > window.width
    else:
        by_height = window.height > window.width * _TALL
    for along_height in (by_height, not by_height):
        size = window.output_height if along_height else window.output_width
        most = ceil_div(size, _TILE) if tiled and not along_height else size
        seen: set[tuple[int, int]] = set()
        for count in range(1, most + 1):
            parts = []
            for cut in iterate_cuts(window, along_height, count, tiled=tiled):
                if bytes_needed(cut) > bytes_free:
                    if any(window.ceiling) or window.spread is not None:
                        _check_last(window, along_height, count, tiled=tiled, seen=seen)
                    break
                parts.append(cut)
            else:
                return tuple(parts)
    return NO_SLICES.format(most, "height" if along_height else "width", size, bytes_free)
