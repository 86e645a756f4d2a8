# SPDX-License-Identifier: Apache-2.0
"""The parts of the document ``ttmem.profile/1``, each a contract like the whole."""

import msgspec

from ttmem.analysis.states import OperationPlace, OperationRef
from ttmem.reports.explain.document import LiveTensorEntry, RemedyEntry
from ttmem.reports.kit.documents import UNSET, Document, UnsetType


class OperationCounts(Document, frozen=True):
    """Executed operations; compute leaves out deallocate and get_device."""

    executed: int
    compute: int
    by_name: dict[str, int] | UnsetType = UNSET


class ProgramEntry(Document, frozen=True):
    """One distinct program; ``operations`` are its own, not those of programs it calls."""

    name: str
    executions: int
    operations: int
    const_eval: bool


class RunEntry(Document, frozen=True):
    """One top-level execution of a program."""

    run: int
    rank: int | None
    program: str
    first_index: int | None
    last_index: int | None
    operations: int
    finished: bool
    peak_dram_bytes_per_bank: int | None


class _TensorEntry(Document, frozen=True):
    tensor: str
    name: str
    shape: list[int]
    dtype: str
    layout: str
    producer: OperationRef
    location: str


class Consumer(_TensorEntry, frozen=True):
    """A tensor alive at the peak of its memory, from its first to its last operation."""

    padded_bytes: int = msgspec.field(name="bytes")
    bytes_per_bank: int
    alive: tuple[int, int]
    last_use_index: int | None = msgspec.field(name="last_use")
    weight: bool
    program: str
    distribution: str | UnsetType = UNSET


class ConsumersNotListed(Document, frozen=True):
    """The smaller ones together."""

    count: int
    bytes_per_bank: int


class MemoryPeak(Document, frozen=True, kw_only=True):
    """The fullest moment of one memory.

    ``peak_bytes_per_bank`` is the allocator's own figure, as logs print it; a captured profile adds the programs' own
    buffers for L1 (``peak_with_programs_*``).
    """

    banks: int
    bytes_per_bank: int
    peak_bytes_per_bank: int
    peak_percent: float | None
    peak_at: OperationRef
    peak_within_operation: bool | UnsetType = UNSET
    caused_by: OperationPlace | None
    free_bytes_at_peak: int
    largest_free_bytes_at_peak: int
    end_bytes_per_bank: int
    error_bytes: int = msgspec.field(name="error_bytes_per_bank")
    rank: int | None
    total_bytes_per_core: int | UnsetType = msgspec.field(default=UNSET, name="peak_with_programs_bytes_per_core")
    parts: dict[str, int] | UnsetType = UNSET
    peak_with_programs_at: OperationPlace | UnsetType = UNSET
    unmeasured_operations: int | UnsetType = msgspec.field(default=UNSET, name="operations_with_unmeasured_programs")
    consumers: list[Consumer] | UnsetType = UNSET
    """The tensors alive at this peak, largest first; absent for a rank and where they were not determined."""
    consumers_not_listed: ConsumersNotListed | UnsetType = UNSET
    unattributed_bytes_per_bank: int | UnsetType = UNSET


class RankEntry(Document, frozen=True):
    """One process's own figures."""

    rank: int | None
    operations: OperationCounts
    memories: dict[str, MemoryPeak]


class PaddedTensor(_TensorEntry, frozen=True):
    """A tensor alive at the DRAM peak and what its padding costs on the device."""

    logical_bytes: int
    padded_bytes: int
    padding_bytes: int
    overhead_percent: float | None


class PaddingEntry(Document, frozen=True):
    """All DRAM tensors alive at the DRAM peak; null where the source does not list them."""

    logical_bytes: int | None
    padded_bytes: int | None
    overhead_percent: float | None
    top: list[PaddedTensor]


FAILURE_FIGURES = ("requested_bytes", "bytes_per_bank", "bank_bytes", "banks", "allocated", "free", "largest_free")


class FailureFacts(Document, frozen=True):
    """A failure and its figures; ``bytes_per_bank`` is what each bank needed."""

    failure_class: str = msgspec.field(name="class")
    memory: str | None
    message: str
    operation: OperationPlace | None
    requested_bytes: int | None
    bytes_per_bank: int | None
    bank_bytes: int | None
    banks: int | None
    allocated: int | None
    free: int | None
    largest_free: int | None


class FailureEntry(FailureFacts, frozen=True):
    """A failure that the source reports.

    ``diagnosis`` and ``remedies`` go with the one that ended the run; ``ttmem explain`` gives the whole of it.
    """

    numbers: dict[str, int]
    texts: dict[str, str]
    line: int
    rank: int | None
    survived: bool
    is_warning: bool
    alive: list[LiveTensorEntry] | UnsetType = UNSET
    """The live tensors of the memory concerned, largest first; only for the failure that ended the run."""
    diagnosis: str | UnsetType = UNSET
    remedies: list[RemedyEntry] | UnsetType = UNSET


class RunEndEntry(Document, frozen=True):
    """The error, signal or time limit that ended the run, memory or not."""

    error: str
    message: str
    location: str
    not_judged: bool
    """An assertion of the script's own failed after it had read values from the device: a mock computes none."""
