# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem whatif --json`` says."""

from collections.abc import Sequence

import msgspec

from ttmem.failures import find_failures
from ttmem.profile.model import MEMORIES
from ttmem.reports.kit.documents import Document
from ttmem.reports.profile.document_parts import FAILURE_FIGURES, FailureFacts
from ttmem.tuning.edited_run import Applied
from ttmem.tuning.edited_run import Draft
from ttmem.tuning.figures import Figures, Limiting


class DramFigures(Document, frozen=True):
    """DRAM at its fullest."""

    peak_bytes_per_bank: int


class L1Figures(Document, frozen=True):
    """L1 at its fullest, without and with what programs need there."""

    peak_bytes_per_bank: int
    peak_with_programs_bytes_per_core: int


class RunFigures(Document, frozen=True):
    """A run as it was, or as it would be."""

    fits: bool
    """Nothing fails for want of memory, as far as the run is known: up to the end of the call that failed."""
    ended: str
    """How the run ended where that had another reason than memory (``the script ended with AssertionError at ...``);
    empty when it came to its end or memory ended it."""
    dram: DramFigures = msgspec.field(name="DRAM")
    l1: L1Figures = msgspec.field(name="L1")
    limits: list[Limiting]
    """DRAM and L1, the fuller one first, and the operation at which each is fullest: what becomes the limit next."""


class AppliedEdit(Document, frozen=True):
    """One edit, and how certain what is said of it is."""

    edit: str
    kind: str
    tensors: int
    """How many buffers of the run it means."""
    confidence: str
    """``exact``: to the byte. ``bounded``: the run takes at most what ``after`` says, see ``why_bounded``. ``unknown``:
    no bound is known, and ``after`` is a guess."""
    why_bounded: str


class WhatIfDocument(Document, frozen=True, tag_field="schema", tag="ttmem.whatif/1"):
    """A captured run before and after some edits."""

    name: str
    board: str
    """Of the run after the edits."""
    before: RunFigures
    after: RunFigures
    edits: list[AppliedEdit]
    first_failure: FailureFacts | None
    """The first thing that does not fit after the edits."""
    programs_doubt: str
    """Why ``peak_with_programs_bytes_per_core`` is not certain; empty when it is as certain as the edits."""


def run_figures(found: Figures) -> RunFigures:
    """Both verbs say them alike."""
    return RunFigures(
        fits=found.fits,
        ended=found.ended,
        dram=DramFigures(peak_bytes_per_bank=found.dram_peak_bytes_per_bank),
        l1=L1Figures(
            peak_bytes_per_bank=found.l1_peak_bytes_per_bank,
            peak_with_programs_bytes_per_core=found.l1_peak_with_programs_bytes_per_core,
        ),
        limits=list(found.limits),
    )


def first_failure(draft: Draft, found: Figures) -> FailureFacts | None:
    """In the words of the library, with its figures."""
    short = found.shortfall
    if short is None:
        return None
    operations = draft.history.operations
    place = operations[short.operation] if 0 <= short.operation < len(operations) else None
    known = next(iter(find_failures(short.message)), None)
    numbers = dict(known.numbers) if known else {}
    pool = draft.pools[MEMORIES.index(short.memory)]
    told = {"bank_bytes": pool[2], "banks": pool[0], "bytes_per_bank": short.needed_bytes_per_bank}
    return msgspec.convert(
        {
            "class": known.failure_class if known else "none",
            "memory": short.memory,
            "message": short.message,
            "operation": {"index": place.index, "name": place.name, "location": place.location} if place else None,
            **{name: numbers.get(name, told.get(name)) for name in FAILURE_FIGURES},
        },
        FailureFacts,
    )


def document(
    before: Figures, after: Figures, applied: Sequence[Applied], draft: Draft, programs_doubt: str = ""
) -> WhatIfDocument:
    """The answer."""
    return WhatIfDocument(
        name=draft.history.profile.name,
        board=draft.memory_map.board_name if draft.memory_map else "",
        before=run_figures(before),
        after=run_figures(after),
        edits=[
            AppliedEdit(
                edit=str(one.edit),
                kind=one.edit.kind,
                tensors=len(one.change),
                confidence=one.confidence,
                why_bounded=one.why_bounded,
            )
            for one in applied
        ],
        first_failure=first_failure(draft, after),
        programs_doubt=programs_doubt,
    )
