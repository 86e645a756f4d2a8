# SPDX-License-Identifier: Apache-2.0
"""The JSON document of ``ttmem explain``: a list of explanations, one per failure in the order of the text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ttmem.failures import BoardGuess, Diagnosis, Figure, Remedy, Stretch
from ttmem.reports.explain import find_thread_url
from ttmem.reports.kit.documents import Document

_MOST_LIVE = 100
_MOST_CANDIDATES = 20


class Thread(Document, frozen=True):
    """An issue or pull request with the same failure."""

    thread: str
    url: str


class RemedyEntry(Document, frozen=True):
    """A change to make; ``saves_bytes`` counts all banks of a chip, or one core for static buffers."""

    do: str
    why: str
    saves_bytes: int | None
    saves_bytes_per_bank: int | None
    solves: bool | None
    caution: str | None
    evidence: list[Thread]
    id: str
    is_general: bool = msgspec.field(name="general")
    """Advice for the whole class, or for a kind of operations that the text does not name; listed last."""

    @classmethod
    def of_remedy(cls, remedy: Remedy) -> RemedyEntry:
        """With the addresses of its threads."""
        return cls.of(remedy, caution=remedy.caution or None, evidence=_link_threads(remedy.evidence))


class TensorGuessEntry(Document, frozen=True):
    """The tensor that was probably allocated."""

    confidence: str
    text: str
    shape: list[int] | None
    dtype: str | None
    layout: str | None
    page_bytes: int | None
    pages: int | None
    page_candidates: list[int]
    padding_ratio: float | None


class FindingEntry(Document, frozen=True):
    """A conclusion from the figures."""

    id: str
    text: str
    evidence: list[Thread]


class ContextEntry(Document, frozen=True):
    """The operation, test, settings and frames that the text names."""

    operation: str | None
    test: str | None
    settings: dict[str, int]
    frames: list[str]


class LiveTensorEntry(Document, frozen=True):
    """A tensor that was alive."""

    name: str = msgspec.field(name="tensor")
    memory: str
    bytes_per_bank: int
    shape: list[int]
    dtype: str
    layout: str
    is_weight: bool = msgspec.field(name="weight")
    is_idle: bool = msgspec.field(name="idle")
    is_input: bool = msgspec.field(name="input")
    """The failing operation reads it."""
    is_output: bool = msgspec.field(name="output")
    """The failing operation made it."""
    producer: str
    producer_index: int | None
    location: str
    line: int | None
    address: int | None


class PictureEntry(Document, frozen=True):
    """A bank or core to scale; ``schematic`` when sizes are known and addresses are not."""

    title: str
    end: int | None
    """Null: the size is unknown, and the stretches have an order but no scale."""
    is_schematic: bool = msgspec.field(name="schematic")
    stretches: list[Stretch]
    request: Stretch | None


class NearestTemplate(Document, frozen=True):
    """The known message that is most similar to an unknown one."""

    template: str
    text: str
    failure_class: str = msgspec.field(name="class")
    share: float


class Explanation(Document, frozen=True, tag_field="schema", tag="ttmem.explanation/1"):
    """A failure explained. Byte figures of the allocator are per bank."""

    failure_class: str = msgspec.field(name="class")
    memory: str | None
    operation: str | None
    """The user's call (``ttnn.conv2d``), null when the text does not name it."""
    numbers: dict[str, int]
    diagnosis: str
    tensor_guess: TensorGuessEntry | None
    remedies: list[RemedyEntry]
    line: int | None
    headline: str
    confidence: str
    message: str
    template: str | None
    texts: dict[str, str]
    is_warning: bool
    derived: dict[str, int | bool]
    arithmetic: list[Figure]
    findings: list[FindingEntry]
    board: BoardGuess = msgspec.field(name="board_guess")
    context: ContextEntry
    alive: list[LiveTensorEntry]
    picture: PictureEntry | None
    nearest: NearestTemplate | None = msgspec.field(name="nearest_template")


def build_document(diagnoses: Sequence[Diagnosis]) -> list[Explanation]:
    return [_explain(diagnosis) for diagnosis in diagnoses]


def _explain(diagnosis: Diagnosis) -> Explanation:
    failure, guess, context = diagnosis.failure, diagnosis.tensor, diagnosis.context
    return Explanation.of(
        diagnosis,
        failure,
        template=failure.template or None,
        operation=context.operation or None,
        diagnosis=diagnosis.text,
        tensor_guess=guess
        and TensorGuessEntry.of(guess, decimals=4, page_candidates=guess.page_candidates[:_MOST_CANDIDATES]),
        remedies=[RemedyEntry.of_remedy(remedy) for remedy in diagnosis.remedies],
        findings=[FindingEntry.of(finding, evidence=_link_threads(finding.evidence)) for finding in diagnosis.findings],
        context=ContextEntry.of(context, operation=context.operation or None, test=context.test or None),
        alive=list_live_tensors(diagnosis),
    )


def list_live_tensors(diagnosis: Diagnosis) -> list[LiveTensorEntry]:
    """List the live tensors of the memory concerned, largest first."""
    largest = sorted(diagnosis.live, key=lambda tensor: -tensor.bytes_per_bank)[:_MOST_LIVE]
    return [LiveTensorEntry.of(tensor) for tensor in largest]


def _link_threads(threads: Iterable[str]) -> list[Thread]:
    return [Thread(thread=thread, url=find_thread_url(thread)) for thread in threads]
