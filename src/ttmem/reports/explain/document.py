# SPDX-License-Identifier: Apache-2.0
"""The JSON of ``ttmem explain``: a contract. Keys may be added, never renamed or removed.

The answer is a list of explanations, one per failure in the order of the text, so each carries the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from ttmem.explain import Diagnosis, Remedy
from ttmem.reports.explain.sentences import thread_url
from ttmem.reports.kit.documents import Document

_MOST_LIVE = 100
_MOST_CANDIDATES = 20


class Thread(Document, frozen=True, kw_only=True):
    """An issue or pull request that showed it."""

    thread: str
    url: str


class RemedyEntry(Document, frozen=True, kw_only=True):
    """What to change; ``saves_bytes`` counts all banks of a chip, or one core where static buffers are concerned."""

    do: str
    why: str
    saves_bytes: int | None
    saves_bytes_per_bank: int | None
    solves: bool | None
    caution: str | None
    evidence: list[Thread]
    id: str

    @classmethod
    def of_remedy(cls, remedy: Remedy) -> RemedyEntry:
        """With the addresses of its threads."""
        return cls.of(remedy, caution=remedy.caution or None, evidence=_threads(remedy.evidence))


class TensorGuessEntry(Document, frozen=True, kw_only=True):
    """Which tensor it may have been."""

    confidence: str
    text: str
    shape: list[int] | None
    dtype: str | None
    layout: str | None
    page_bytes: int | None
    pages: int | None
    page_candidates: list[int]
    padding_ratio: float | None


class FigureEntry(Document, frozen=True, kw_only=True):
    """A step of the arithmetic."""

    label: str
    value: int
    note: str


class FindingEntry(Document, frozen=True, kw_only=True):
    """What the figures say."""

    id: str
    text: str
    evidence: list[Thread]


class BoardGuessEntry(Document, frozen=True, kw_only=True):
    """Which board and build it was, and from what."""

    architecture: str | None
    boards: list[str]
    confidence: str
    reasons: list[str]
    build: list[str]
    numbers: dict[str, int]


class ContextEntry(Document, frozen=True, kw_only=True):
    """What else the text names."""

    operation: str | None
    test: str | None
    settings: dict[str, int]
    frames: list[str]


class LiveTensorEntry(Document, frozen=True, kw_only=True):
    """A tensor that was alive."""

    tensor: str
    memory: str
    bytes_per_bank: int
    shape: list[int]
    dtype: str
    layout: str
    weight: bool
    idle: bool
    producer: str
    address: int | None


class StretchEntry(Document, frozen=True, kw_only=True):
    """A part of a bank or core, by addresses."""

    kind: str
    start: int
    end: int
    label: str


class PictureEntry(Document, frozen=True, kw_only=True):
    """A bank or core to scale; ``schematic`` says that sizes are known and places are not."""

    title: str
    end: int
    schematic: bool
    stretches: list[StretchEntry]
    request: StretchEntry | None


class NearestTemplate(Document, frozen=True, kw_only=True):
    """The known message that comes nearest to an unknown one."""

    template: str
    text: str
    failure_class: str = msgspec.field(name="class")
    share: float


class Explanation(Document, frozen=True, kw_only=True):
    """One failure. Byte figures of the allocator are per bank."""

    schema: Literal["ttmem.explanation/1"] = "ttmem.explanation/1"
    failure_class: str = msgspec.field(name="class")
    memory: str | None
    numbers: dict[str, int]
    diagnosis: str
    tensor_guess: TensorGuessEntry | None
    remedies: list[RemedyEntry]
    line: int
    headline: str
    confidence: str
    message: str
    template: str | None
    texts: dict[str, str]
    is_warning: bool
    derived: dict[str, int]
    arithmetic: list[FigureEntry]
    findings: list[FindingEntry]
    board_guess: BoardGuessEntry
    context: ContextEntry
    alive: list[LiveTensorEntry]
    picture: PictureEntry | None
    nearest_template: NearestTemplate | None


def document(diagnoses: Sequence[Diagnosis]) -> list[Explanation]:
    """One entry per failure."""
    return [_explanation(diagnosis) for diagnosis in diagnoses]


def _explanation(diagnosis: Diagnosis) -> Explanation:
    failure, guess, picture, context = diagnosis.failure, diagnosis.tensor, diagnosis.picture, diagnosis.context
    largest = sorted(diagnosis.live, key=lambda tensor: -tensor.bytes_per_bank)[:_MOST_LIVE]
    return Explanation.of(
        diagnosis,
        **{name: getattr(failure, name) for name in ("failure_class", "memory", "line", "message", "texts")},
        numbers=failure.numbers,
        is_warning=failure.is_warning,
        template=failure.template or None,
        diagnosis=diagnosis.text,
        tensor_guess=guess
        and TensorGuessEntry.of(
            guess,
            page_candidates=guess.page_candidates[:_MOST_CANDIDATES],
            padding_ratio=round(guess.padding_ratio, 4) if guess.padding_ratio is not None else None,
        ),
        remedies=[RemedyEntry.of_remedy(remedy) for remedy in diagnosis.remedies],
        findings=[FindingEntry.of(finding, evidence=_threads(finding.evidence)) for finding in diagnosis.findings],
        board_guess=diagnosis.board,
        context=ContextEntry.of(context, operation=context.operation or None, test=context.test or None),
        alive=[
            LiveTensorEntry.of(tensor, tensor=tensor.name, weight=tensor.is_weight, idle=tensor.is_idle)
            for tensor in largest
        ],
        picture=picture and PictureEntry.of(picture, schematic=picture.is_schematic),
        nearest_template=diagnosis.nearest,
    )


def _threads(threads: Iterable[str]) -> list[Thread]:
    return [Thread(thread=thread, url=thread_url(thread)) for thread in threads]
