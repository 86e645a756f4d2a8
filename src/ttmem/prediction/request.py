# SPDX-License-Identifier: Apache-2.0
"""What is asked of ``fit``, and what it answers. Searches and advice change a request and ask again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ttmem.analysis.failure import RunFailure, failure
from ttmem.analysis.peaks import peaks
from ttmem.hardware import DRAM
from ttmem.profile.model import Profile

L1_SMALL_BYTES = 32768
PREFILL, DECODE = "prefill", "decode"
LAST_USE, PYTHON = "last-use", "python"
FUSED, EAGER = "fused", "eager"
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Request:
    """One model in one form on one board. Frozen: ``dataclasses.replace`` makes the next one."""

    target: str
    board: str = "n150"
    inputs: str = ""
    engine: str = AUTO
    """``mock`` where the real library is installed, else ``twin``."""
    chips: int | None = None
    """Over how many chips a language model is split; None: as many as the board has."""
    batch: int = 1
    size: tuple[int, int] | None = None
    sequence: int | None = None
    dtype: str = "bfloat16"
    weights: Mapping[str, str] = field(default_factory=dict)
    """Kind of weight -> data type; the empty kind is all of them. What is not said is the recipe's."""
    attention: str = FUSED
    liveness: str = LAST_USE
    phase: str | None = None
    users: int | None = None
    context: int | None = None
    kv_cache: str | None = None
    recipe: str = "generic"
    prefill_chunk: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """``--set key=value``: of the model's configuration."""
    l1_small_bytes: int = L1_SMALL_BYTES
    trace_region_bytes: int = 0
    python: str | None = None
    """The interpreter with ttnn."""
    torch_python: str | None = None


@dataclass(frozen=True, slots=True)
class OperationCounts:
    """Operations by how certain what is said of them is."""

    exact: int = 0
    bounded: int = 0
    unknown: int = 0
    unsupported: tuple[str, ...] = ()
    """``aten name (module path): reason``."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a request came to."""

    request: Request
    profile: Profile
    """Of kind ``predicted``; its failure is the first one."""
    fits: bool
    engine: str
    chips: int
    weights_bytes: int
    """Per chip, over all banks, as are the two below."""
    kv_cache_bytes: int
    activations_peak_bytes: int
    operations: OperationCounts
    constants_bytes: int = 0
    """Tables and buffers that stay, and are neither weights nor cache."""
    reserve_bytes: int = 0
    """What a recipe keeps free, and trace regions."""
    assumed: tuple[str, ...] = ()
    error_bound_percent: float | None = None
    interval_bytes: tuple[int, int] | None = None
    as_loaded_bytes: int = 0
    """On top of the interval's upper end: what a loader leaves on the device that uploads weights as torch has them."""
    """Of the DRAM peak per chip, where placement is the author's and a point would be a guess."""


@dataclass(frozen=True, slots=True)
class CapacityPoint:
    """The largest context for so many users; 0: not one step of it fits."""

    users: int
    context: int
    is_limit: bool
    """False: the model has no more positions."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Of a model on a board."""

    users: int
    context: int
    """As asked for."""
    largest_users: int
    """For that context."""
    largest_context: int
    """For those users."""
    points: tuple[CapacityPoint, ...]


@dataclass(frozen=True, slots=True)
class Demand:
    """Of one memory, per bank. Over the bank's size when it failed there: then it is at least so much."""

    peak_bytes_per_bank: int
    bytes_per_bank: int
    banks: int
    index: int | None
    """The operation that made it so full; None: it was before the first one."""
    name: str
    module: str

    @property
    def peak_percent(self) -> float | None:
        return round(100 * self.peak_bytes_per_bank / self.bytes_per_bank, 4) if self.bytes_per_bank else None


def find_demands(prediction: Prediction) -> dict[str, Demand]:
    """By memory."""
    failed = failure(prediction.profile)
    found = {}
    for memory, peak in peaks(prediction.profile).items():
        held = Demand(
            peak.peak_bytes_per_bank,
            peak.bytes_per_bank,
            peak.banks,
            peak.caused_by_index,
            peak.caused_by_name,
            peak.caused_by_location,
        )
        if failed and failed.memory == memory:
            held = _add_failed_request(
                held, failed, _sum_known_bytes(prediction) // held.banks if memory == DRAM.name else 0
            )
        found[memory] = held
    return found


def _sum_known_bytes(prediction: Prediction) -> int:
    """What stays is known even where not all of it could be allocated."""
    staying = prediction.weights_bytes + prediction.kv_cache_bytes + prediction.constants_bytes
    return staying + prediction.reserve_bytes + prediction.activations_peak_bytes


def _add_failed_request(held: Demand, failed: RunFailure, known: int) -> Demand:
    numbers = failed.numbers
    wanted = max(numbers.get("allocated", 0) + numbers.get("bytes_per_bank", 0), known)
    if "bytes_per_bank" not in numbers or wanted <= held.peak_bytes_per_bank:
        return held
    place = failed.operation_index, failed.operation_name, failed.operation_location
    return Demand(wanted, held.bytes_per_bank, held.banks, *place)
