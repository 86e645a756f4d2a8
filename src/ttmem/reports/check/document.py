# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem check --json`` says."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ttmem.analysis.budget import Verdict
from ttmem.reports.kit.documents import Document
from ttmem.reports.profile.document_parts import OperationPlace


class VerdictEntry(Document, frozen=True):
    """One limit: its figures in ``unit``, and the operation to look at."""

    rule: str
    ok: bool
    memory: str | None
    measured: int | float | None
    limit: int | float
    unit: str
    message: str
    operation: OperationPlace | None
    line: int | None


class CheckDocument(Document, frozen=True, tag_field="schema", tag="ttmem.check/1"):
    """``ok`` is the answer: all limits hold."""

    ok: bool
    verdicts: list[VerdictEntry]


def document(verdicts: Sequence[Verdict]) -> CheckDocument:
    """Every verdict, in the order of the limits."""
    return CheckDocument(ok=all(verdict.ok for verdict in verdicts), verdicts=[_entry(verdict) for verdict in verdicts])


def _entry(verdict: Verdict) -> VerdictEntry:
    place = None
    if verdict.operation_index is not None:
        place = OperationPlace.of(verdict, index=verdict.operation_index, name=verdict.operation_name)
    return VerdictEntry.of(
        verdict,
        memory=verdict.memory or None,
        measured=verdict.measured if math.isfinite(verdict.measured) else None,
        operation=place,
    )
