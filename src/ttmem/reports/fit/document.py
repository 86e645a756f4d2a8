# SPDX-License-Identifier: Apache-2.0
"""The document of ``ttmem fit --json``."""

from collections.abc import Sequence

from ttmem.analysis.failure import RunFailure, failure, run_end
from ttmem.analysis.programs_l1 import programs_peak
from ttmem.analysis.states import OperationPlace
from ttmem.prediction.advice import RequestChange
from ttmem.prediction.request import find_demands
from ttmem.prediction.request import Capacity, OperationCounts, Prediction
from ttmem.reports.kit.documents import UNSET, Document, UnsetType
from ttmem.reports.profile.document_parts import FAILURE_FIGURES, FailureFacts, RunEndEntry


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


class FitDocument(Document, frozen=True, tag_field="schema", tag="ttmem.fit/1"):
    """The prediction whether a model fits a board."""

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
    ended: RunEndEntry | None
    """Of a script that did not come to its end. When that was not for memory, it fits as far as it ran."""
    advice: tuple[RequestChange, ...]
    """What would change it, each applied and fitted again; the smallest change that fits first."""
    assumed: tuple[str, ...]
    operations: OperationCounts
    engine: str
    error_bound_percent: float | None
    """How far the DRAM peak may be from that of a real port, as measured; null where nobody has measured it."""
    interval_bytes: tuple[int, int] | None
    """Of the DRAM peak per chip, where placement is the author's own choice."""
    as_loaded_bytes: int
    """On top of that: what a loader leaves on the device that uploads kernels and norms as torch has them."""
    max: dict[str, int] | UnsetType = UNSET
    """The largest that fits, where that was searched."""
    capacity: Capacity | UnsetType = UNSET
    """Of a language model laid out by a recipe: how many users of how long a context would fit."""


class FitBoards(Document, frozen=True, tag_field="schema", tag="ttmem.fit-boards/1"):
    """The same model on several boards."""

    boards: list[FitDocument]


class FitPoint(Document, frozen=True):
    """One combination of a sweep."""

    at: dict[str, int]
    fits: bool
    peak_bytes_per_bank: int
    """Of DRAM."""
    peak_percent: float | None
    weights_bytes: int
    activations_peak_bytes: int
    failure_class: str | None


class FitSweep(Document, frozen=True, tag_field="schema", tag="ttmem.fit-sweep/1"):
    """The same model over a range of batches, sizes or contexts."""

    name: str
    board: str
    engine: str
    points: list[FitPoint]


def sweep_document(found: Sequence[tuple[dict[str, int], Prediction]]) -> FitSweep:
    """From the predictions of every combination."""
    listed = []
    for place, prediction in found:
        dram, failed = find_demands(prediction)["DRAM"], failure(prediction.profile)
        listed.append(FitPoint.of(prediction, dram, at=place, failure_class=failed.failure_class if failed else None))
    first = found[0][1]
    return FitSweep(name=first.profile.name, board=first.request.board, engine=first.engine, points=listed)


def document(
    prediction: Prediction,
    advice: Sequence[RequestChange] = (),
    maximum: dict[str, int] | None = None,
    capacity: Capacity | None = None,
) -> FitDocument:
    """From a prediction, and what was searched beside it."""
    failed = None if prediction.fits else failure(prediction.profile)
    end = run_end(prediction.profile)
    return FitDocument.of(
        prediction,
        prediction.request,
        name=prediction.profile.name,
        peak=fit_peaks(prediction),
        first_failure=_failure(failed),
        ended=end and RunEndEntry.of(end),
        advice=tuple(advice),
        max=UNSET if maximum is None else maximum,
        capacity=capacity or UNSET,
    )


def fit_peaks(prediction: Prediction) -> dict[str, FitPeak]:
    """By memory; DRAM and L1 alone, the two that a model can be too large for."""
    programs = programs_peak(prediction.profile)
    return {
        memory: FitPeak.of(
            one,
            at=ModelPlace(index=one.index, name=one.name, module=one.module),
            peak_with_programs_bytes_per_core=programs.total_bytes_per_core if programs and memory == "L1" else UNSET,
        )
        for memory, one in find_demands(prediction).items()
        if memory in ("DRAM", "L1")
    }


def _failure(item: RunFailure | None) -> FailureFacts | None:
    if item is None:
        return None
    at = item.operation_index
    return FailureFacts.of(
        item,
        operation=None if at is None else OperationPlace(at, item.operation_name, item.operation_location),
        **{name: item.numbers.get(name) for name in FAILURE_FIGURES},
    )
