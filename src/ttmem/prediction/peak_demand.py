# SPDX-License-Identifier: Apache-2.0
"""What a prediction asks of a memory at its fullest moment, what could not be allocated any more included."""

from dataclasses import dataclass

from ttmem.analysis.failure import RunFailure, failure
from ttmem.analysis.peaks import peaks
from ttmem.hardware import DRAM
from ttmem.prediction.request import Prediction


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


def demands(prediction: Prediction) -> dict[str, Demand]:
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
            held = _with_failed(held, failed, _known_bytes(prediction) // held.banks if memory == DRAM.name else 0)
        found[memory] = held
    return found


def _known_bytes(prediction: Prediction) -> int:
    """What stays is known even where not all of it could be allocated."""
    staying = prediction.weights_bytes + prediction.kv_cache_bytes + prediction.constants_bytes
    return staying + prediction.reserve_bytes + prediction.activations_peak_bytes


def _with_failed(held: Demand, failed: RunFailure, known: int) -> Demand:
    numbers = failed.numbers
    wanted = max(numbers.get("allocated", 0) + numbers.get("bytes_per_bank", 0), known)
    if "bytes_per_bank" not in numbers or wanted <= held.peak_bytes_per_bank:
        return held
    place = failed.operation_index, failed.operation_name, failed.operation_location
    return Demand(wanted, held.bytes_per_bank, held.banks, *place)
