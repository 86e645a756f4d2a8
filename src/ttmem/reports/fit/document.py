# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem fit --json`` says."""

from collections.abc import Sequence

from ttmem.analysis.failure import RunFailure, failure
from ttmem.analysis.peaks import peaks
from ttmem.analysis.programs_l1 import programs_peak
from ttmem.analysis.states import OperationPlace
from ttmem.fit.request import Capacity, OperationCounts, Prediction
from ttmem.reports.kit.documents import UNSET, Document, UnsetType
from ttmem.reports.profile.document_parts import FAILURE_FIGURES, FailureFacts


class ModelPlace(Document, frozen=True):
    """An operation, and where in the model it is; the index is null for what is there before the first operation."""

    index: int | None
    name: str
    module: str


class FitPeak(Document, frozen=True, kw_only=True):
    """The fullest moment of one memory, what could not be allocated any more included: it may be over 100 percent."""

    peak_bytes_per_bank: int
    bytes_per_bank: int
    banks: int
    peak_percent: float | None
    at: ModelPlace
    peak_with_programs_bytes_per_core: int | UnsetType = UNSET
    """Of L1: the worst operation's tensors with its own buffers."""


class Advice(Document, frozen=True):
    """A change that was applied and fitted again."""

    do: str
    peak_bytes_per_bank: int
    """Of DRAM."""
    fits: bool
    saves_bytes: int
    """Of the DRAM peak, per chip over all banks; negative when it takes more."""


class FitDocument(Document, frozen=True, tag_field="schema", tag="ttmem.fit/1"):
    """Whether a model fits a board, said before it runs."""

    name: str
    target: str
    fits: bool
    board: str
    chips: int
    peak: dict[str, FitPeak]
    weights_bytes: int
    """Per chip, as are the two below."""
    kv_cache_bytes: int
    activations_peak_bytes: int
    constants_bytes: int
    """Tables and buffers that stay, and are neither weights nor cache."""
    reserve_bytes: int
    """What a recipe keeps free, and trace regions."""
    first_failure: FailureFacts | None
    advice: list[Advice]
    assumed: tuple[str, ...]
    operations: OperationCounts
    engine: str
    error_bound_percent: float | None
    """How far the DRAM peak may be from that of a real port, as measured; null where nobody has measured it."""
    interval_bytes: tuple[int, int] | None
    """Of the DRAM peak per chip, where placement is the author's own choice."""
    max: dict[str, int] | UnsetType = UNSET
    """The largest that fits, where that was searched."""
    capacity: Capacity | UnsetType = UNSET
    """Of a language model laid out by a recipe: how many users of how long a context would fit."""


class FitBoards(Document, frozen=True, tag_field="schema", tag="ttmem.fit-boards/1"):
    """The same model on several boards."""

    boards: list[FitDocument]


def document(
    prediction: Prediction,
    advice: Sequence[Advice] = (),
    maximum: dict[str, int] | None = None,
    capacity: Capacity | None = None,
) -> FitDocument:
    """From a prediction, and what was searched beside it."""
    failed = failure(prediction.profile)
    return FitDocument.of(
        prediction,
        prediction.request,
        name=prediction.profile.name,
        peak=fit_peaks(prediction, failed),
        first_failure=_failure(failed),
        advice=list(advice),
        max=UNSET if maximum is None else maximum,
        capacity=capacity or UNSET,
    )


def fit_peaks(prediction: Prediction, failed: RunFailure | None) -> dict[str, FitPeak]:
    """By memory; DRAM and L1 alone, the two that a model can be too large for."""
    found = {}
    programs = programs_peak(prediction.profile)
    for memory, peak in peaks(prediction.profile).items():
        if memory not in ("DRAM", "L1"):
            continue
        held = peak.peak_bytes_per_bank
        place = ModelPlace(index=peak.caused_by_index, name=peak.caused_by_name, module=peak.caused_by_location)
        if failed and failed.memory == memory and {"allocated", "bytes_per_bank"} <= failed.numbers.keys():
            wanted = failed.numbers["allocated"] + failed.numbers["bytes_per_bank"]
            if wanted > held:
                held = wanted
                place = ModelPlace(
                    index=failed.operation_index, name=failed.operation_name, module=failed.operation_location
                )
        found[memory] = FitPeak(
            peak_bytes_per_bank=held,
            bytes_per_bank=peak.bytes_per_bank,
            banks=peak.banks,
            peak_percent=round(100 * held / peak.bytes_per_bank, 4) if peak.bytes_per_bank else None,
            at=place,
            peak_with_programs_bytes_per_core=programs.total_bytes_per_core if programs and memory == "L1" else UNSET,
        )
    return found


def _failure(item: RunFailure | None) -> FailureFacts | None:
    if item is None:
        return None
    at = item.operation_index
    return FailureFacts.of(
        item,
        operation=None if at is None else OperationPlace(at, item.operation_name, item.operation_location),
        **{name: item.numbers.get(name) for name in FAILURE_FIGURES},
    )
