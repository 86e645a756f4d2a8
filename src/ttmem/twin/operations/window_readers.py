# SPDX-License-Identifier: Apache-2.0
"""Whether one kernel of a core gathers the windows of a convolution, or two: the library's model of their cost."""

from dataclasses import dataclass

from ttmem.hardware import BLACKHOLE, Architecture, DataType


@dataclass(frozen=True, slots=True)
class _Rates:
    """Cost model of the library: bytes per cycle at the least transfer and at the peak, which it reaches at a size."""

    local: tuple[int, float, float]
    dram: tuple[int, float, float]
    multicast: tuple[int, float, float]
    clock: float
    tilize_cycles: dict[tuple[str, str, bool], int]


_LEAST_TRANSFER_BYTES = 16
_WORMHOLE_RATES = _Rates(
    (1024, 0.868, 27.84),
    (2048, 0.436, 28.411),
    (65536, 0.318, 25.345),
    1.0,
    {
        ("float32", "float32", False): 107,
        ("float32", "float32", True): 128,
        ("float32", "bfloat16", False): 74,
        ("float32", "bfloat16", True): 74,
        ("float32", "bfloat8_b", False): 74,
        ("float32", "bfloat8_b", True): 70,
        ("bfloat16", "float32", False): 92,
        ("bfloat16", "float32", True): 117,
        ("bfloat16", "bfloat16", False): 61,
        ("bfloat16", "bfloat16", True): 68,
        ("bfloat16", "bfloat8_b", False): 40,
        ("bfloat16", "bfloat8_b", True): 43,
    },
)
_BLACKHOLE_RATES = _Rates(
    (4096, 1.124, 80.48),
    (2048, 0.671, 80.885),
    (65536, 0.182, 57.677),
    1.35,
    {
        ("float32", "float32", False): 132,
        ("float32", "float32", True): 132,
        ("float32", "bfloat16", False): 132,
        ("float32", "bfloat16", True): 80,
        ("float32", "bfloat8_b", False): 132,
        ("float32", "bfloat8_b", True): 77,
        ("bfloat16", "float32", False): 105,
        ("bfloat16", "float32", True): 128,
        ("bfloat16", "bfloat16", False): 72,
        ("bfloat16", "bfloat16", True): 72,
        ("bfloat16", "bfloat8_b", False): 60,
        ("bfloat16", "bfloat8_b", True): 60,
    },
)


def _rate(size: int, curve: tuple[int, float, float]) -> float:
    full, least, peak = curve
    clamped = min(max(size, _LEAST_TRANSFER_BYTES), full)
    return least + (peak - least) / (full - _LEAST_TRANSFER_BYTES) * (clamped - _LEAST_TRANSFER_BYTES)


@dataclass(frozen=True, slots=True)
class Gathering:
    """What the decision depends on; sizes in tiles, ``channels`` of a stick."""

    dtype: DataType
    """Of the sticks."""
    out_dtype: DataType
    weight_tile_bytes: int
    high: int
    deep: int
    wide: int
    channels: int
    kernel_width: int
    is_dilated: bool
    sums_in_float32: bool


def halves_pay(work: Gathering, architecture: Architecture) -> bool:
    """Whether two gathering kernels are done sooner than one, although the second also brings the weights."""
    rates = _BLACKHOLE_RATES if architecture is BLACKHOLE else _WORMHOLE_RATES
    stick = work.dtype.mantissa_bits // 8 * work.channels
    gathered = stick * work.high * 32 * work.kernel_width
    gather = rates.clock * gathered / _rate(stick * (1 if work.is_dilated else work.kernel_width), rates.local)
    weights = work.weight_tile_bytes * work.wide * work.deep
    weigh = (
        rates.clock * weights * (1 / _rate(work.weight_tile_bytes, rates.dram) + 1 / _rate(weights, rates.multicast))
    )
    cycles = rates.tilize_cycles[work.dtype.name, work.out_dtype.name, work.sums_in_float32]
    tilize = cycles * work.deep * work.high
    return gather / 2 + max(weigh, tilize) < max(gather + tilize, weigh)
