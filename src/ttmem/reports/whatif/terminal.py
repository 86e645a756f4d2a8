# SPDX-License-Identifier: Apache-2.0
"""A run before and after some edits, for a person."""

from collections.abc import Iterable

from ttmem.base.formatting import megabytes, percent
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Row, Table, name_column, number_column, text_column
from ttmem.reports.kit.units import one_line
from ttmem.reports.whatif.document import RunFigures, WhatIfDocument

PEAKS = (
    text_column("peak"),
    *(number_column(head, write=str) for head in ("before", "after", "saved", "of the bank after")),
)
_EDITS = (name_column("edit", whole=True), number_column("tensors"), name_column("certain"))


def render(answer: WhatIfDocument, *, width: int = 100, color: bool = False) -> str:
    """The peaks, the edits, whether it fits."""
    report = TextReport(width, color=color)
    rows = [
        (one.edit, one.tensors, one.confidence + (f": {one.why_bounded}" if one.why_bounded else ""))
        for one in answer.edits
    ]
    report.print(Table(PEAKS, list(peak_rows(answer.before, answer.after))), "")
    if rows:
        report.print(Table(_EDITS, rows), "")
    report.print(*verdict(answer.before, answer.after))
    if answer.first_failure is not None:
        place = answer.first_failure.operation
        at = f"#{place.index} {place.name} {place.location}: " if place else ""
        report.print(f"{at}{one_line(answer.first_failure.message)}")
    return report.text()


def peak_rows(before: RunFigures, after: RunFigures) -> Iterable[Row]:
    """DRAM, L1, and L1 with what programs need."""
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
        share = percent(100 * new / banks[memory]) if banks.get(memory) else "-"
        yield label, megabytes(old), megabytes(new), megabytes(old - new), share


def verdict(before: RunFigures, after: RunFigures, *, is_proven: bool = False) -> Iterable[str]:
    """Whether it fits, and what limits it next."""
    if not after.fits:
        yield "does not fit"
    elif after.ended:
        yield f"fits as far as it ran; {one_line(after.ended)}"
    else:
        known = "" if is_proven else ", as far as the run is known ('ttmem tune --verify' runs it to its end)"
        yield "fits" if before.fits else f"fits now{known}"
    limit = after.limits[0] if after.limits else None
    if limit is not None and limit.name:
        at = f" at {one_line(limit.location)}" if limit.location else ""
        share = percent(100 * limit.bytes_per_bank / limit.bank_bytes) if limit.bank_bytes else "-"
        yield f"next limit: {limit.memory}, {share} of a bank in #{limit.operation} {limit.name}{at}"
