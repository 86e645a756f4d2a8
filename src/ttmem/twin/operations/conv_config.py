# SPDX-License-Identifier: Apache-2.0
"""The options of a convolution: ``conv_config``, ``compute_config``, ``slice_config``."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ttmem.hardware import BFLOAT16, BLACKHOLE, DATA_TYPES, FLOAT32, Architecture, DataType
from ttmem.twin.operations.plan import NoRuleError

HEIGHT, BLOCK, WIDTH = "height", "block", "width"
_KINDS = {f"{kind.upper()}_SHARDED": kind for kind in (HEIGHT, BLOCK, WIDTH)}
_NEUTRAL_VALUES = {
    "activation": None,
    "config_tensors_in_dram": False,
    "override_sharding_config": False,
    "override_output_sharding_config": False,
    "core_grid": None,
    "transpose_shards": False,
    "enable_activation_reuse": False,
    "force_split_reader": None,
}
"""Fields without a rule, and the values with which they change nothing."""
_TILE = 32
_UNVERIFIED = "the convolution option {} is not verified"


@dataclass(frozen=True, slots=True)
class Choices:
    """The options that the caller set; the library chooses the others."""

    kind: str = ""
    """The kind of the shards."""
    block_rows: int = 0
    """Output tiles of a core per step; 0: all."""
    depth_divisor: int = 1
    """For width shards: the number of blocks of a core's share of the inner dimension."""
    takes_whole_kernel: bool = False
    """For block shards: whether all rows of the kernel are read at a time."""
    doubles_input: bool = False
    doubles_weights: bool = False
    gives_rows: bool = False
    frees_input: bool = False
    moves_halo: bool = True
    reshards: bool = False
    activates: bool = False
    weights: DataType | None = None
    sums_in_float32: bool | None = None
    sums_in_l1: bool = False
    kernel: tuple[tuple[str, str], ...] = ()
    """All fields of ``compute_config``: each value is another program."""
    may_fold: bool = True
    """Whether patches that do not overlap become channels of one pixel."""
    stays_in_l1: bool = False
    """Whether an image in DRAM is moved to L1 whole, whether it fits or not."""

    def partial_dtype(self, out: DataType, blocks: int, *, has_bias: bool) -> DataType:
        """Return the type of partial sums; sums in L1 have their own where several are added."""
        if not self.sums_in_l1 or blocks <= (1 if has_bias else 2):
            return out
        return FLOAT32 if self.sums_in_float32 else BFLOAT16

    def select_program_choices(self, *, sums_in_float32: bool) -> "Choices":
        """Return the options that select a program, without those for the steps before and after it."""
        plain = replace(self, kind="", frees_input=False, moves_halo=True, reshards=False, weights=None)
        return replace(plain, sums_in_float32=sums_in_float32, stays_in_l1=False)


NO_CHOICES = Choices()


def read_kind(layout: Any) -> str:
    """Parse ``ttnn.TensorMemoryLayout``; empty if the caller left it open."""
    return "" if layout is None else _KINDS[str(layout).rpartition(".")[2]]


def read_choices(arguments: Mapping[str, Any]) -> Choices:
    """Parse the options of a call; raise NoRuleError for one that is not verified."""
    given = dict(arguments.get("conv_config") or {})
    given.pop("new", None)
    sums = dict(arguments.get("compute_config") or {})
    activates = given.pop("activation", None) is not None
    dtype, layout, kind = (given.pop(name, None) for name in ("weights_dtype", "output_layout", "shard_layout"))
    folds = given.pop("enable_kernel_stride_folding", None)
    if folds:
        raise NoRuleError(_UNVERIFIED.format("enable_kernel_stride_folding"))
    slices = arguments.get("slice_config")
    if slices is not None and "L1Full" not in str(slices):
        raise NoRuleError(_UNVERIFIED.format("slice_config"))
    found = Choices(
        kind=read_kind(kind),
        block_rows=int(given.pop("act_block_h_override", 0)) // _TILE,
        depth_divisor=int(given.pop("act_block_w_div", 1)),
        takes_whole_kernel=bool(given.pop("full_inner_dim", False)),
        doubles_input=bool(given.pop("enable_act_double_buffer", False)),
        doubles_weights=bool(given.pop("enable_weights_double_buffer", False)),
        gives_rows=str(layout).lower().startswith(("row_major", "ttnn.row_major")),
        frees_input=bool(given.pop("deallocate_activation", False)),
        moves_halo=bool(given.pop("reallocate_halo_output", True)),
        reshards=bool(given.pop("reshard_if_not_optimal", False)),
        activates=activates,
        weights=None if dtype is None else DATA_TYPES.find(str(dtype)),
        sums_in_float32=bool(sums.get("fp32_dest_acc_en", False)) if sums else None,
        sums_in_l1=bool(sums.get("packer_l1_acc", False)),
        kernel=tuple(sorted((name, str(value)) for name, value in sums.items())),
        may_fold=folds is None,
        stays_in_l1=slices is not None,
    )
    for name, value in given.items():
        if name not in _NEUTRAL_VALUES or value != _NEUTRAL_VALUES[name]:
            raise NoRuleError(_UNVERIFIED.format(name))
    return found


@dataclass(frozen=True, slots=True)
class _Rates:
    """The library's cost model: bytes per cycle at the smallest transfer and at the peak, and the size at the peak."""

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


def _compute_rate(size: int, curve: tuple[int, float, float]) -> float:
    full, least, peak = curve
    clamped = min(max(size, _LEAST_TRANSFER_BYTES), full)
    return least + (peak - least) / (full - _LEAST_TRANSFER_BYTES) * (clamped - _LEAST_TRANSFER_BYTES)


@dataclass(frozen=True, slots=True)
class Gathering:
    """The facts that the decision depends on; sizes in tiles, ``channels`` of a stick."""

    dtype: DataType
    """The type of the sticks."""
    out_dtype: DataType
    weight_tile_bytes: int
    high: int
    deep: int
    wide: int
    channels: int
    kernel_width: int
    is_dilated: bool
    sums_in_float32: bool


def is_faster_with_two_readers(work: Gathering, architecture: Architecture) -> bool:
    """Return whether two gathering kernels are faster than one, although the second also reads the weights."""
    rates = _BLACKHOLE_RATES if architecture is BLACKHOLE else _WORMHOLE_RATES
    stick = work.dtype.mantissa_bits // 8 * work.channels
    gathered = stick * work.high * 32 * work.kernel_width
    gather = rates.clock * gathered / _compute_rate(stick * (1 if work.is_dilated else work.kernel_width), rates.local)
    weights = work.weight_tile_bytes * work.wide * work.deep
    weigh = (
        rates.clock
        * weights
        * (1 / _compute_rate(work.weight_tile_bytes, rates.dram) + 1 / _compute_rate(weights, rates.multicast))
    )
    cycles = rates.tilize_cycles[work.dtype.name, work.out_dtype.name, work.sums_in_float32]
    tilize = cycles * work.deep * work.high
    return gather / 2 + max(weigh, tilize) < max(gather + tilize, weigh)
