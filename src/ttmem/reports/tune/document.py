# SPDX-License-Identifier: Apache-2.0
"""What ``ttmem tune --json`` says."""

from collections.abc import Sequence

import msgspec

from ttmem.analysis.findings import Finding
from ttmem.reports.kit.documents import Document
from ttmem.reports.profile.document_parts import FailureFacts
from ttmem.reports.whatif.document import RunFigures, first_failure, run_figures
from ttmem.tuning.edited_run import Draft
from ttmem.tuning.figures import Figures, FrontierPoint
from ttmem.tuning.instructions import instruction, is_repeated
from ttmem.tuning.patch import Hunk, Patch
from ttmem.tuning.search import Step
from ttmem.tuning.verify import Dropped, Verified


class TunedEdit(Document, frozen=True):
    """One edit, ready to be made."""

    edit: str
    """As ``ttmem whatif`` takes it."""
    kind: str
    """``free``, ``inplace``, ``memory``, ``dtype``, ``shard``, ``chunk``, ``order`` or ``region``."""
    tensor: str
    memory: str
    """In which it makes room."""
    location: str
    """The line to change, or after which to add ``code``."""
    code: str | None
    """Lines to add after ``location``, as they are; null where adding lines there is not enough."""
    change: str
    """What to do, in words."""
    hunk: str
    """The edit alone as hunks of a unified diff of its file; empty where no change of the text makes it."""
    in_patch: bool
    why_not_in_patch: str
    saves_bytes_per_bank: int
    """At the moment that was too full; without a target, of the peak."""
    confidence: str
    why_bounded: str
    cost: str
    """What it may cost."""


class VerifiedRun(Document, frozen=True):
    """What the real library said on the mock, with the edits made at the script's calls."""

    dram_peak_bytes_per_bank: int = msgspec.field(name="DRAM")
    l1_peak_bytes_per_bank: int = msgspec.field(name="L1")
    l1_peak_with_programs_bytes_per_core: int = msgspec.field(name="L1_with_programs")
    fits: bool
    agrees: bool | None
    """With what was promised before the run: equal to the byte where every edit is exact, not more than that otherwise.
    Null when nothing is proven, and false when the script ended for another reason than memory: see ``reason``."""
    reason: str
    """Why ``agrees`` is not true; empty when it is."""
    dropped: tuple[Dropped, ...]
    """Edits that were tried first and given up, for the script ended otherwise with them than without."""
    promised_operations: int
    """For how many operations there was a promise: those up to the failure, where the captured run had failed."""
    not_made: tuple[str, ...]
    """Edits that cannot be made while the program runs: this run is one without them."""


class TuneDocument(Document, frozen=True, tag_field="schema", tag="ttmem.tune/1"):
    """The smallest set of edits that was found."""

    name: str
    reached: bool
    """The target; without one, always true."""
    before: RunFigures
    after: RunFigures
    patched: RunFigures | None
    """As ``after``, for the edits of the patch alone; null without ``--patch``."""
    edits: list[TunedEdit]
    frontier: list[FrontierPoint]
    """How low the peaks are with the first edit, the first two, and so on."""
    findings: list[Finding]
    """Those that no edit takes care of."""
    first_failure: FailureFacts | None
    """What does not fit after the edits."""
    verified: VerifiedRun | None
    tried: int
    """Candidates that were judged."""
    proven_smallest: bool
    """No set of fewer of the edits that were looked at reaches the target; false where not all sets were tried."""
    programs_doubt: str
    """Why ``peak_with_programs_bytes_per_core`` is not certain; empty when it is as certain as the edits."""
    not_in_patch: list[str]
    """Edits that have to be made by hand; ``why_not_in_patch`` gives the reason of each."""


def document(
    *,
    reached: bool,
    before: Figures,
    after: Figures,
    steps: Sequence[Step],
    frontier: Sequence[FrontierPoint],
    findings: Sequence[Finding],
    draft: Draft,
    verified: Verified | None,
    patch: Patch,
    tried: int,
    proven_smallest: bool,
    programs_doubt: str,
    patched: Figures | None = None,
) -> TuneDocument:
    """The answer."""
    return TuneDocument(
        name=draft.history.profile.name,
        reached=reached,
        before=run_figures(before),
        after=run_figures(after),
        patched=None if patched is None else run_figures(patched),
        edits=[_edit(draft, step, patch.hunks[str(step.applied.edit)]) for step in steps],
        frontier=list(frontier),
        findings=[one for one in findings if not any(is_repeated(draft.history, one, step.applied) for step in steps)],
        first_failure=first_failure(draft, after),
        verified=None if verified is None else VerifiedRun.of(verified),
        tried=tried,
        proven_smallest=proven_smallest,
        programs_doubt=programs_doubt,
        not_in_patch=list(patch.left_out),
    )


def _edit(draft: Draft, step: Step, hunk: Hunk) -> TunedEdit:
    applied = step.applied
    told = instruction(draft, applied, hunk)
    return TunedEdit(
        edit=str(applied.edit),
        kind=applied.edit.kind,
        tensor=applied.groups[0].name if applied.groups else applied.edit.target,
        memory=step.memory,
        location=told.location,
        code=told.code,
        change=told.change,
        hunk=hunk.text(),
        in_patch=not hunk.why_not,
        why_not_in_patch=hunk.why_not,
        saves_bytes_per_bank=step.saves_bytes_per_bank,
        confidence=applied.confidence,
        why_bounded=applied.why_bounded,
        cost=told.cost,
    )
