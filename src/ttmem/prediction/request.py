# SPDX-License-Identifier: Apache-2.0
"""Requests to ``fit`` and their predictions. Searches and advice change a request and ask again."""

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
    """A model in one form on one board."""

    target: str
    board: str = "n150"
    inputs: str = ""
    engine: str = AUTO
    """``mock`` if the real library is installed, else ``twin``."""
    chips: int | None = None
    """Number of chips for a language model; None: all of the board."""
    batch: int = 1
    size: tuple[int, int] | None = None
    sequence: int | None = None
    dtype: str = "bfloat16"
    weights: Mapping[str, str] = field(default_factory=dict)
    """Kind of weight -> data type; the empty kind means all. The recipe decides the rest."""
    attention: str = FUSED
    liveness: str = LAST_USE
    phase: str | None = None
    users: int | None = None
    context: int | None = None
    kv_cache: str | None = None
    recipe: str = "generic"
    prefill_chunk: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """``--set key=value``: changes of the model's configuration."""
    l1_small_bytes: int = L1_SMALL_BYTES
    trace_region_bytes: int = 0
    python: str | None = None
    """The interpreter with ttnn."""
    torch_python: str | None = None


@dataclass(frozen=True, slots=True)
class OperationCounts:
    """Number of operations by certainty."""

    exact: int = 0
    bounded: int = 0
    unknown: int = 0
    unsupported: tuple[str, ...] = ()
    """``aten name (module path): reason``."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """The answer to a request."""

    request: Request
    profile: Profile
    """Of kind ``predicted``; its failure is the first one."""
    fits: bool
    engine: str
    chips: int
    weights_bytes: int
    """Per chip, over all banks, like the two below."""
    kv_cache_bytes: int
    activations_peak_bytes: int
    operations: OperationCounts
    constants_bytes: int = 0
    """Tables and buffers that stay, without weights and cache."""
    reserve_bytes: int = 0
    """Memory that a recipe keeps free, and trace regions."""
    assumed: tuple[str, ...] = ()
    error_bound_percent: float | None = None
    interval_bytes: tuple[int, int] | None = None
    as_loaded_bytes: int = 0
    """Added to the interval's upper end by a loader that uploads weights as torch stores them."""
    """Of the DRAM peak per chip, where placement is the author's and a point would be a guess."""


@dataclass(frozen=True, slots=True)
class CapacityPoint:
    """The largest context for a number of users; 0: the smallest does not fit."""

    users: int
    context: int
    is_limit: bool
    """False: the model has no more positions."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Largest numbers of users and lengths of context on a board."""

    users: int
    context: int
    """As requested."""
    largest_users: int
    """For that context."""
    largest_context: int
    """For those users."""
    points: tuple[CapacityPoint, ...]


@dataclass(frozen=True, slots=True)
class Demand:
    """Peak demand of one memory per bank. Over the bank's size after a failure: then it is a lower bound."""

    peak_bytes_per_bank: int
    bytes_per_bank: int
    banks: int
    index: int | None
    """The operation at the peak; None: before the first one."""
    name: str
    module: str

    @property
    def peak_percent(self) -> float | None:
        return round(100 * self.peak_bytes_per_bank / self.bytes_per_bank, 4) if self.bytes_per_bank else None


def find_demands(prediction: Prediction) -> dict[str, Demand]:
    """Return the demand by memory, including requests that failed."""
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
    """Sum what stays on the device, even if not all of it could be allocated."""
    staying = prediction.weights_bytes + prediction.kv_cache_bytes + prediction.constants_bytes
    return staying + prediction.reserve_bytes + prediction.activations_peak_bytes


def _add_failed_request(held: Demand, failed: RunFailure, known: int) -> Demand:
    numbers = failed.numbers
    wanted = max(numbers.get("allocated", 0) + numbers.get("bytes_per_bank", 0), known)
    if "bytes_per_bank" not in numbers or wanted <= held.peak_bytes_per_bank:
        return held
    place = failed.operation_index, failed.operation_name, failed.operation_location
    return Demand(wanted, held.bytes_per_bank, held.banks, *place)
