# SPDX-License-Identifier: Apache-2.0
"""Adaptive pooling: an ordinary pooling whose window the library computes, or a refusal."""

from dataclasses import dataclass, replace
from itertools import pairwise

from ttmem.base.arithmetic import ceil_div
from ttmem.twin.operations.call_syntax import build_record, format_call
from ttmem.twin.operations.plan import Call, Plan, PlanBuilder
from ttmem.twin.operations.pool import pool2d
from ttmem.twin.operations.record import Argument
from ttmem.twin.operations.sliding_window import read_pair

CHOICES = ("applied_shard_scheme", "deallocate_input")
_NOT_UNIFORM = "middle elements not uniform, "
_LARGE_BORDERS = "border elements larger than middle (padding won't help), "
_UNEVEN = (
    "Calculated pooling parameters (kernel=[{}], stride=[{}], padding=[{}]) do not produce uniform pooling behavior, "
)
_UNSUPPORTED = (
    "Adaptive pooling configuration not supported. {}Correctable patterns require uniform middle kernels AND borders "
    "<= middle AND calculated pooling parameters must produce uniform behavior. Input shape: ({},{}), Output shape: "
    "({},{})."
)


@dataclass(frozen=True, slots=True)
class _PoolAxis:
    """A direction of the image: ``size`` pixels become ``wanted`` results."""

    name: str
    size: int
    wanted: int

    @property
    def kernels(self) -> list[int]:
        """The pixels of each result."""
        ends = (
            (number * self.size // self.wanted, ceil_div((number + 1) * self.size, self.wanted)) for number in self.all
        )
        return [end - start for start, end in ends]

    @property
    def all(self) -> range:
        return range(self.wanted)

    @property
    def plain(self) -> tuple[int, int, int, int]:
        """Kernel, stride, padding before and after."""
        return ceil_div(self.size, self.wanted), self.size // self.wanted, 0, 0

    def window(self) -> tuple[int, int, int, int]:
        """Return `plain` with padding where the first or the last kernel is smaller than the others."""
        kernels = self.kernels
        if len(kernels) < 3:
            return self.plain
        first, middle, last = kernels[0], kernels[1], kernels[-1]
        stride = middle - 1 if min(first, last) < middle else self.plain[1]
        return middle, stride, max(middle - first, 0), max(middle - last, 0)

    def moves_by(self, window: tuple[int, int, int, int]) -> bool:
        """Return whether the results begin where windows of this stride do."""
        starts = [number * self.size // self.wanted for number in self.all]
        starts[0] -= window[2]
        return all(after - before == window[1] for before, after in pairwise(starts))

    def complaint(self) -> str:
        """Return the reason why no window with padding gives these results; empty: one does."""
        kernels = self.kernels
        if len(kernels) <= 2:
            return ""
        why = _NOT_UNIFORM if len(set(kernels[1:-1])) > 1 else ""
        why += _LARGE_BORDERS if max(kernels[0], kernels[-1]) > kernels[1] else ""
        return f"{self.name} kernel pattern [{','.join(map(str, kernels))}] - {why}" if why else ""


def adaptive_pool2d(call: Call, plan: PlanBuilder) -> Plan:
    given = call.arguments
    wanted = read_pair(given, "output_size")
    axes = _PoolAxis("Height", int(given["input_h"]), wanted[0]), _PoolAxis("Width", int(given["input_w"]), wanted[1])
    if min(wanted) < 1 or any(axis.wanted > axis.size for axis in axes):
        return plan.unknown("adaptive pooling to more pixels than the input has")
    is_even = all(len(set(axis.kernels)) == 1 for axis in axes)
    windows = [axis.plain if is_even else axis.window() for axis in axes]
    kernel, stride, before, after = ([window[place] for window in windows] for place in range(4))
    padding = [before[0], after[0], before[1], after[1]]
    complaints = "".join(axis.complaint() for axis in axes)
    if not all(axis.moves_by(window) for axis, window in zip(axes, windows, strict=True)):
        sizes = (",".join(map(str, numbers)) for numbers in (kernel, stride, padding))
        complaints += _UNEVEN.format(*sizes)
    if complaints:
        plan.refuse(_UNSUPPORTED.format(complaints, *(axis.size for axis in axes), *wanted))
    arguments = {
        **{name: given[name] for name in ("batch_size", "input_h", "input_w", "channels")},
        "kernel_size": kernel,
        "stride": stride,
        "padding": padding,
        "ceil_mode": False,
        **{name: given[name] for name in CHOICES if name in given},
    }
    if call.name.endswith("max_pool2d"):
        return pool2d(replace(call, name="max_pool2d", arguments={**arguments, "dilation": [1, 1]}), plan)
    return pool2d(replace(call, name="avg_pool2d", arguments={**arguments, "count_include_pad": False}), plan)


_EXAMPLE = {"shape": [1, 1, 64, 32], "dtype": "bfloat16", "layout": "row_major", "memory": "DRAM"}
_PLACED = ("batch_size", "input_h", "input_w", "channels", "output_size")

RECORDS = tuple(
    build_record(
        format_call(name, [_EXAMPLE], 1, 8, 8, 32, [4, 4]),
        adaptive_pool2d,
        *(Argument(argument, position) for position, argument in enumerate(_PLACED)),
        Argument("applied_shard_scheme", default=None),
        Argument("deallocate_input", default=False),
        family="adaptive_pool2d",
    )
    for name in ("adaptive_avg_pool2d", "adaptive_max_pool2d")
)
