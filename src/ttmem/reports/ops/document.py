# SPDX-License-Identifier: Apache-2.0
"""The answers of ``ttmem ops map``, ``extract`` and ``tests`` with ``--json``."""

from ttmem.reports.kit.documents import UNSET, Document, UnsetType


class TwinCoverage(Document, frozen=True):
    """The share of many models' calls that the twin covers, as last compared with the mock."""

    models: int
    calls: int
    """On one board and in one memory."""
    exact_percent: float
    """Rounded down, as all of these."""
    bounded_percent: float
    unknown_percent: float
    exact_percent_by_place: dict[str, float]
    """Board and memory -> per cent."""


class MapStatistics(Document, frozen=True):
    """Operators by what is supported."""

    total_operators: int
    supported: int
    """They run on the device."""
    unsupported: int
    meta_operations: int
    """No-ops on the device."""
    by_category: dict[str, int]
    calls: int
    covered_calls: int


class MappedOperator(Document, frozen=True, kw_only=True):
    """An aten operator and its ttnn call; what the catalogue does not know is left out."""

    ttnn_function: str | None
    torch_function: str
    num_inputs: int | str
    """A number, ``variable`` or ``unknown``."""
    category: str
    supported: bool
    support: str | UnsetType = UNSET
    twin: str | UnsetType | None = UNSET
    """The confidence of the twin for plain calls: ``exact``, ``bounded`` or ``none``; null when nothing is called."""
    model_calls: int | UnsetType = UNSET
    """The number of calls by the models of ``twin``; left out when none does."""
    exact_percent: float | UnsetType = UNSET
    """The share of those calls."""
    lowering: str | UnsetType = UNSET
    tensors: tuple[str, ...] | UnsetType = UNSET
    arguments: tuple[str, ...] | UnsetType = UNSET
    expressions: tuple[str, ...] | UnsetType = UNSET
    note: str | UnsetType = UNSET
    tried: dict[str, str] | UnsetType = UNSET
    """The example of the operator on a mock board, by memory and layout."""
    cases: int
    calls: int
    unique_shapes: int
    runnable_cases: int
    cannot_run: dict[str, int]
    """Reason -> cases."""
    models: tuple[str, ...]


class OpsMap(Document, frozen=True, tag_field="schema", tag="ttmem.ops-map/1"):
    """The catalogue, or the operators of a file of cases."""

    statistics: MapStatistics
    twin: TwinCoverage
    operators: dict[str, MappedOperator]


class ExtractedSource(Document, frozen=True):
    """The result of one target (at one size)."""

    target: str
    model: str
    size: str
    kind: str
    """``model``, or the format of a list."""
    status: str
    """``ok`` or ``refused``."""
    calls: int
    operators: int
    cases: int
    parameters: int | None
    seconds: float
    refusal: str | None
    remarks: tuple[str, ...]


class OpsExtraction(Document, frozen=True, tag_field="schema", tag="ttmem.ops-extract/1"):
    """The cases that models are made of."""

    attention: str
    """It decides the memory of transformers."""
    cases: int
    operators: int
    calls: int
    sources: tuple[ExtractedSource, ...]


class LeftOut(Document, frozen=True):
    """A case that is not tested, and why."""

    id: str
    reason: str


class OpsTests(Document, frozen=True, tag_field="schema", tag="ttmem.ops-tests/1"):
    """The pytest files that were written."""

    folder: str
    files: tuple[str, ...]
    tests: dict[str, int]
    """By operator."""
    predicted_on: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
