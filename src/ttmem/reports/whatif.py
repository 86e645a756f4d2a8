# SPDX-License-Identifier: Apache-2.0
"""The answer of ``ttmem whatif``: a run before and after some edits."""

from collections.abc import Iterable, Sequence

import msgspec

from ttmem.analysis.states import OperationPlace
from ttmem.base.formatting import flatten_text, format_mib, format_percent
from ttmem.failures.text.find import find_failures
from ttmem.profile.model import MEMORIES
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.documents import Document
from ttmem.reports.kit.tables import Row, Table, name_column, number_column, text_column
from ttmem.reports.profile_document import FailureFacts, build_failure
from ttmem.tuning.edited_run import AppliedEdit, EditedRun
from ttmem.tuning.figures import Figures, FullestOperation


class DramFigures(Document, frozen=True):
    """The peak of DRAM."""

    peak_bytes_per_bank: int


class L1Figures(Document, frozen=True):
    """The peak of L1, without and with programs."""

    peak_bytes_per_bank: int
    peak_with_programs_bytes_per_core: int


class RunFigures(Document, frozen=True):
    """The figures of a run, recorded or edited."""

    fits: bool
    """True when no memory failure is known: up to the end of the call that failed."""
    ended: str
    """The end of a run that stopped for another reason than memory (``the script ended with AssertionError at ...``);
    empty when it completed or memory ended it."""
    dram: DramFigures = msgspec.field(name="DRAM")
    l1: L1Figures = msgspec.field(name="L1")
    limits: Sequence[FullestOperation]
    """DRAM and L1, the fuller one first, with the operation at which each is fullest."""


class AppliedEditDocument(Document, frozen=True):
    """An edit, and the certainty of its figures."""

    edit: str
    kind: str
    tensors: int
    """The number of buffers it affects."""
    confidence: str
    """``exact``: to the byte. ``bounded``: the run takes at most ``after``, see ``why_bounded``. ``unknown``:
    no bound is known, and ``after`` is a guess."""
    why_bounded: str


class WhatIfDocument(Document, frozen=True, tag_field="schema", tag="ttmem.whatif/1"):
    """A captured run before and after some edits."""

    name: str
    board: str
    """The board of the run after the edits."""
    before: RunFigures
    after: RunFigures
    edits: Sequence[AppliedEditDocument]
    first_failure: FailureFacts | None
    """The first failure after the edits."""
    programs_doubt: str
    """The reason why ``peak_with_programs_bytes_per_core`` is uncertain; empty when it is as certain as the edits."""


def build_run_figures(found: Figures) -> RunFigures:
    """Build the figures of a run."""
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


def find_first_failure(draft: EditedRun, found: Figures) -> FailureFacts | None:
    """Return the first failure in the library's words, with its figures."""
    short = found.shortfall
    if short is None:
        return None
    operations = draft.history.operations
    place = operations[short.operation] if 0 <= short.operation < len(operations) else None
    known = next(iter(find_failures(short.message)), None)
    numbers = dict(known.numbers) if known else {}
    pool = draft.pools[MEMORIES.index(short.memory)]
    numbers = {"bank_bytes": pool[2], "banks": pool[0], "bytes_per_bank": short.needed_bytes_per_bank, **numbers}
    operation = OperationPlace(place.index, place.name, place.location) if place else None
    return build_failure(known.failure_class if known else "none", short.memory, short.message, operation, numbers)


def build_document(
    before: Figures, after: Figures, applied: Sequence[AppliedEdit], draft: EditedRun, programs_doubt: str = ""
) -> WhatIfDocument:
    """Build the document."""
    return WhatIfDocument(
        name=draft.history.profile.name,
        board=draft.memory_map.board_name if draft.memory_map else "",
        before=build_run_figures(before),
        after=build_run_figures(after),
        edits=[
            AppliedEditDocument(
                edit=str(one.edit),
                kind=one.edit.kind,
                tensors=len(one.change),
                confidence=one.confidence,
                why_bounded=one.why_bounded,
            )
            for one in applied
        ],
        first_failure=find_first_failure(draft, after),
        programs_doubt=programs_doubt,
    )


PEAKS = (
    text_column("peak"),
    *(number_column(head, write=str) for head in ("before", "after", "saved", "of the bank after")),
)
_EDITS = (name_column("edit", whole=True), number_column("tensors"), name_column("certain"))


def render_terminal(answer: WhatIfDocument, *, width: int = 100, color: bool = False) -> str:
    """Render the peaks, the edits and the verdict."""
    report = TextReport(width, color=color)
    rows = [
        (one.edit, one.tensors, one.confidence + (f": {one.why_bounded}" if one.why_bounded else ""))
        for one in answer.edits
    ]
    report.print(Table(PEAKS, list(build_peak_rows(answer.before, answer.after))), "")
    if rows:
        report.print(Table(_EDITS, rows), "")
    report.print(*describe_verdict(answer.before, answer.after))
    if answer.first_failure is not None:
        place = answer.first_failure.operation
        at = f"#{place.index} {place.name} {place.location}: " if place else ""
        report.print(f"{at}{flatten_text(answer.first_failure.message)}")
    return report.render()


def build_peak_rows(before: RunFigures, after: RunFigures) -> Iterable[Row]:
    """Yield the rows of DRAM, L1, and L1 with programs."""
    banks = {limit.memory: limit.bank_bytes for limit in after.limits}
    figures = (
        ("DRAM", "DRAM", before.dram.peak_bytes_per_bank, after.dram.peak_bytes_per_bank),
        ("L1", "L1", before.l1.peak_bytes_per_bank, after.l1.peak_bytes_per_bank),
        (
            "L1 with programs",
            "L1",
            before.l1.peak_with_programs_bytes_per_core,
            after.l1.peak_with_programs_bytes_per_core,
        ),
    )
    for label, memory, old, new in figures:
        share = format_percent(100 * new / banks[memory]) if banks.get(memory) else "-"
        yield label, format_mib(old), format_mib(new), format_mib(old - new), share


def describe_verdict(before: RunFigures, after: RunFigures, *, is_proven: bool = False) -> Iterable[str]:
    """Yield whether it fits, and the next limit."""
    if not after.fits:
        yield "does not fit"
    elif after.ended:
        yield f"fits as far as it ran; {flatten_text(after.ended)}"
    else:
        known = "" if is_proven else ", as far as the run is known ('ttmem tune --verify' runs it to its end)"
        yield "fits" if before.fits else f"fits now{known}"
    limit = after.limits[0] if after.limits else None
    if limit is not None and limit.name:
        at = f" at {flatten_text(limit.location)}" if limit.location else ""
        share = format_percent(100 * limit.bytes_per_bank / limit.bank_bytes) if limit.bank_bytes else "-"
        yield f"next limit: {limit.memory}, {share} of a bank in #{limit.operation} {limit.name}{at}"
