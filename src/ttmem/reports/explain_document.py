# SPDX-License-Identifier: Apache-2.0
"""The JSON document of ``ttmem explain``: a list of explanations, one per failure in the order of the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ttmem.failures.diagnosis.board_guess import BoardGuess
from ttmem.failures.diagnosis.diagnose import Diagnosis, Figure, Nearest
from ttmem.failures.diagnosis.memory_diagram import Picture, Stretch
from ttmem.failures.diagnosis.tensor_guess import TensorGuess
from ttmem.reports.explain import find_thread_url
from ttmem.reports.kit.documents import Document, round_floats

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
    evidence: Sequence[Thread]
    id: str
    is_general: bool = msgspec.field(name="general")
    """Advice for the whole class, or for a kind of operations that the text does not name; listed last."""


class TensorGuessEntry(Document, frozen=True):
    """The tensor that was probably allocated."""

    confidence: str
    text: str
    shape: Sequence[int] | None
    dtype: str | None
    layout: str | None
    page_bytes: int | None
    pages: int | None
    page_candidates: Sequence[int]
    padding_ratio: float | None


class FindingEntry(Document, frozen=True):
    """A conclusion from the figures."""

    id: str
    text: str
    evidence: Sequence[Thread]


class ContextEntry(Document, frozen=True):
    """The operation, test, settings and frames that the text names."""

    operation: str | None
    test: str | None
    settings: Mapping[str, int]
    frames: Sequence[str]


class LiveTensorEntry(Document, frozen=True):
    """A tensor that was alive."""

    name: str = msgspec.field(name="tensor")
    memory: str
    bytes_per_bank: int
    shape: Sequence[int]
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
    stretches: Sequence[Stretch]
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
    numbers: Mapping[str, int]
    diagnosis: str
    tensor_guess: TensorGuessEntry | None
    remedies: Sequence[RemedyEntry]
    line: int | None
    headline: str
    confidence: str
    message: str
    template: str | None
    texts: Mapping[str, str]
    is_warning: bool
    derived: Mapping[str, int | bool]
    arithmetic: Sequence[Figure]
    findings: Sequence[FindingEntry]
    board: BoardGuess = msgspec.field(name="board_guess")
    context: ContextEntry
    alive: Sequence[LiveTensorEntry]
    picture: PictureEntry | None
    nearest: NearestTemplate | None = msgspec.field(name="nearest_template")


def build_document(diagnoses: Sequence[Diagnosis]) -> list[Explanation]:
    return [_explain(diagnosis) for diagnosis in diagnoses]


def _explain(diagnosis: Diagnosis) -> Explanation:
    failure, guess, context = diagnosis.failure, diagnosis.tensor, diagnosis.context
    return Explanation(
        failure_class=failure.failure_class,
        memory=failure.memory,
        operation=context.operation or None,
        numbers=failure.numbers,
        diagnosis=diagnosis.text,
        tensor_guess=_describe_guess(guess) if guess else None,
        remedies=list_remedies(diagnosis),
        line=failure.line,
        headline=diagnosis.headline,
        confidence=diagnosis.confidence,
        message=failure.message,
        template=failure.template or None,
        texts=failure.texts,
        is_warning=failure.is_warning,
        derived=diagnosis.derived,
        arithmetic=diagnosis.arithmetic,
        findings=[
            FindingEntry(id=finding.id, text=finding.text, evidence=_link_threads(finding.evidence))
            for finding in diagnosis.findings
        ],
        board=diagnosis.board,
        context=ContextEntry(
            operation=context.operation or None,
            test=context.test or None,
            settings=context.settings,
            frames=context.frames,
        ),
        alive=list_live_tensors(diagnosis),
        picture=_describe_picture(diagnosis.picture) if diagnosis.picture else None,
        nearest=_describe_nearest(diagnosis.nearest) if diagnosis.nearest else None,
    )


def _describe_guess(guess: TensorGuess) -> TensorGuessEntry:
    return TensorGuessEntry(
        confidence=guess.confidence,
        text=guess.text,
        shape=guess.shape,
        dtype=guess.dtype,
        layout=guess.layout,
        page_bytes=guess.page_bytes,
        pages=guess.pages,
        page_candidates=guess.page_candidates[:_MOST_CANDIDATES],
        padding_ratio=round_floats(guess.padding_ratio, 4),
    )


def _describe_picture(picture: Picture) -> PictureEntry:
    return PictureEntry(
        title=picture.title,
        end=picture.end,
        is_schematic=picture.is_schematic,
        stretches=picture.stretches,
        request=picture.request,
    )


def _describe_nearest(nearest: Nearest) -> NearestTemplate:
    return NearestTemplate(
        template=nearest.template, text=nearest.text, failure_class=nearest.failure_class, share=nearest.share
    )


def list_remedies(diagnosis: Diagnosis) -> list[RemedyEntry]:
    """List the remedies with the URLs of their threads."""
    return [
        RemedyEntry(
            do=remedy.do,
            why=remedy.why,
            saves_bytes=remedy.saves_bytes,
            saves_bytes_per_bank=remedy.saves_bytes_per_bank,
            solves=remedy.solves,
            caution=remedy.caution or None,
            evidence=_link_threads(remedy.evidence),
            id=remedy.id,
            is_general=remedy.is_general,
        )
        for remedy in diagnosis.remedies
    ]


def list_live_tensors(diagnosis: Diagnosis) -> list[LiveTensorEntry]:
    """List the live tensors of the memory concerned, largest first."""
    largest = sorted(diagnosis.live, key=lambda tensor: -tensor.bytes_per_bank)[:_MOST_LIVE]
    return [
        LiveTensorEntry(
            name=tensor.name,
            memory=tensor.memory,
            bytes_per_bank=tensor.bytes_per_bank,
            shape=tensor.shape,
            dtype=tensor.dtype,
            layout=tensor.layout,
            is_weight=tensor.is_weight,
            is_idle=tensor.is_idle,
            is_input=tensor.is_input,
            is_output=tensor.is_output,
            producer=tensor.producer,
            producer_index=tensor.producer_index,
            location=tensor.location,
            line=tensor.line,
            address=tensor.address,
        )
        for tensor in largest
    ]


def _link_threads(threads: Iterable[str]) -> list[Thread]:
    return [Thread(thread=thread, url=find_thread_url(thread)) for thread in threads]
