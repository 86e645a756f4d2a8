# SPDX-License-Identifier: Apache-2.0
"""The answer of ``ttmem tune``: the edits to make, as JSON, text and SARIF."""

from collections.abc import Sequence

import msgspec

from ttmem.analysis.findings import KINDS, Finding
from ttmem.base.formatting import flatten_text, format_mib
from ttmem.reports.kit import sarif
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.documents import Document
from ttmem.reports.kit.tables import Table
from ttmem.reports.profile_document import FailureFacts
from ttmem.reports.profile_tables import list_findings
from ttmem.reports.suite_document import TestFinding
from ttmem.reports.whatif import (
    PEAKS,
    RunFigures,
    build_peak_rows,
    build_run_figures,
    describe_verdict,
    find_first_failure,
)
from ttmem.tuning.edited_run import UNKNOWN_BECAUSE, EditedRun
from ttmem.tuning.figures import Figures, FrontierPoint
from ttmem.tuning.instructions import build_instruction, is_repeated
from ttmem.tuning.patch import Hunk, Patch
from ttmem.tuning.search import SearchStep
from ttmem.tuning.verify import DroppedEdit, Verification


class TunedEdit(Document, frozen=True):
    """An edit, ready to be made."""

    edit: str
    """In the syntax of ``ttmem whatif``."""
    kind: str
    """``free``, ``inplace``, ``memory``, ``dtype``, ``shard``, ``chunk``, ``order`` or ``region``."""
    tensor: str
    memory: str
    """The memory that it relieves."""
    location: str
    """The line to change, or after which to add ``code``."""
    code: str | None
    """Lines to add after ``location``, as they are; null where adding lines there is not enough."""
    change: str
    """The change in words."""
    hunk: str
    """The edit as hunks of a unified diff of its file; empty where no text change makes it."""
    in_patch: bool
    why_not_in_patch: str
    saves_bytes_per_bank: int
    """At the moment that was too full; without a target, at the peak."""
    confidence: str
    why_bounded: str
    cost: str
    """The possible cost."""


class VerifiedRun(Document, frozen=True):
    """The run of the real library on the mock, with the edits made at the script's calls."""

    dram_peak_bytes_per_bank: int = msgspec.field(name="DRAM")
    l1_peak_bytes_per_bank: int = msgspec.field(name="L1")
    l1_peak_with_programs_bytes_per_core: int = msgspec.field(name="L1_with_programs")
    fits: bool
    agrees: bool | None
    """True when it matches the prediction: equal to the byte where all edits are exact, at most that otherwise.
    Null when nothing is proven; false when the script ended for another reason than memory: see ``reason``."""
    reason: str
    """The reason why ``agrees`` is not true; empty when it is."""
    dropped: Sequence[DroppedEdit]
    """Edits that were dropped, because the script ended differently with them."""
    promised_operations: int
    """The number of predicted operations: those up to the failure, where the captured run had failed."""
    not_made: Sequence[str]
    """Edits that cannot be made while the program runs: the run was without them."""


class TuneDocument(Document, frozen=True, tag_field="schema", tag="ttmem.tune/1"):
    """The smallest set of edits that was found."""

    name: str
    reached: bool
    """True when the target is reached; always true without a target."""
    before: RunFigures
    after: RunFigures
    patched: RunFigures | None
    """Like ``after``, with the edits of the patch only; null without ``--patch``."""
    edits: Sequence[TunedEdit]
    frontier: Sequence[FrontierPoint]
    """The peaks with the first edit, the first two, and so on."""
    findings: Sequence[Finding]
    """Findings that no edit resolves."""
    first_failure: FailureFacts | None
    """The first failure after the edits."""
    verified: VerifiedRun | None
    tried: int
    """Number of candidates that were evaluated."""
    proven_smallest: bool
    """True when no smaller set of the candidates reaches the target; false where not all sets were tried."""
    programs_doubt: str
    """The reason why ``peak_with_programs_bytes_per_core`` is uncertain; empty when it is as certain as the edits."""
    not_in_patch: Sequence[str]
    """Edits to make by hand; ``why_not_in_patch`` gives the reason of each."""


def build_document(
    *,
    reached: bool,
    before: Figures,
    after: Figures,
    steps: Sequence[SearchStep],
    frontier: Sequence[FrontierPoint],
    findings: Sequence[Finding],
    draft: EditedRun,
    verified: Verification | None,
    patch: Patch,
    tried: int,
    proven_smallest: bool,
    programs_doubt: str,
    patched: Figures | None = None,
) -> TuneDocument:
    """Build the document."""
    return TuneDocument(
        name=draft.history.profile.name,
        reached=reached,
        before=build_run_figures(before),
        after=build_run_figures(after),
        patched=None if patched is None else build_run_figures(patched),
        edits=[_describe_edit(draft, step, patch.hunks[str(step.applied.edit)]) for step in steps],
        frontier=list(frontier),
        findings=[one for one in findings if not any(is_repeated(draft.history, one, step.applied) for step in steps)],
        first_failure=find_first_failure(draft, after),
        verified=None
        if verified is None
        else VerifiedRun(
            dram_peak_bytes_per_bank=verified.dram_peak_bytes_per_bank,
            l1_peak_bytes_per_bank=verified.l1_peak_bytes_per_bank,
            l1_peak_with_programs_bytes_per_core=verified.l1_peak_with_programs_bytes_per_core,
            fits=verified.fits,
            agrees=verified.agrees,
            reason=verified.reason,
            dropped=verified.dropped,
            promised_operations=verified.promised_operations,
            not_made=verified.not_made,
        ),
        tried=tried,
        proven_smallest=proven_smallest,
        programs_doubt=programs_doubt,
        not_in_patch=list(patch.left_out),
    )


def _describe_edit(draft: EditedRun, step: SearchStep, hunk: Hunk) -> TunedEdit:
    applied = step.applied
    told = build_instruction(draft, applied, hunk)
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


_AGREES = {True: "as promised", False: "not as promised", None: "nothing is proven"}


def render_terminal(answer: TuneDocument, *, width: int = 100, color: bool = False) -> str:
    """Render the edits, their effect on the peaks, and other findings."""
    report = TextReport(width, color=color)
    for number, edit in enumerate(answer.edits, 1):
        report.print(f"{number}. {flatten_text(edit.edit)}", style="bold")
        report.print(f"   {flatten_text(edit.change)}")
        for line in edit.hunk.split("\n")[:-1] if edit.code is None else ():
            report.print_whole(f"     {line}")
        saves = f"saves {format_mib(edit.saves_bytes_per_bank)} of {edit.memory} per bank"
        report.print(
            f"   {saves}; {describe_certainty(edit.confidence, edit.why_bounded)}; cost: {flatten_text(edit.cost)}"
        )
        if not edit.in_patch:
            report.print(f"   not in the patch ({flatten_text(edit.why_not_in_patch)}); edit by hand")
    if not answer.edits:
        report.print("no edit to make" if answer.reached else "no edit helps")
    report.print("", Table(PEAKS, list(build_peak_rows(answer.before, answer.after))), "")
    if answer.patched is not None:
        report.print(f"all edits: {_describe_peaks(answer.after)}; the patch alone: {_describe_peaks(answer.patched)}")
    report.print(
        *describe_verdict(
            answer.before, answer.after, is_proven=answer.verified is not None and answer.verified.agrees is not None
        )
    )
    if not answer.reached:
        report.print("the target is not reached", style="bold red")
    if answer.verified is not None:
        proof = answer.verified
        words = f"DRAM {proof.dram_peak_bytes_per_bank:,} B, L1 {proof.l1_peak_bytes_per_bank:,} B per bank"
        why = f": {flatten_text(proof.reason)}" if proof.reason else ""
        report.print(f"on the mock: {words}, {_AGREES[proof.agrees]}{why}")
        for one in proof.dropped:
            report.print(f"not proposed: {flatten_text(one.edit)}; with it {flatten_text(one.reason)}")
        if proof.not_made:
            report.print(
                f"not applied in that run, because it changes no call: {flatten_text(', '.join(proof.not_made))}"
            )
    if answer.findings:
        report.print("", "Other findings:", *list_findings(answer.findings))
    return report.render()


def describe_certainty(confidence: str, why: str) -> str:
    """Describe how certain an edit's figures are, and why they are not exact."""
    if why.startswith(UNKNOWN_BECAUSE):
        return flatten_text(why)
    return f"{confidence} ({flatten_text(why)})" if why else confidence


def _describe_peaks(found: RunFigures) -> str:
    """Describe both peaks in one line."""
    sizes = f"DRAM {format_mib(found.dram.peak_bytes_per_bank)}, L1 {format_mib(found.l1.peak_bytes_per_bank)} per bank"
    return sizes if found.fits else f"{sizes}, does not fit"


_TITLES = {
    "leak": "Tensors that are not read any more are never freed.",
    "late-free": "A tensor is freed long after its last use.",
    "double-upload": "The same host tensor is on the device twice.",
    "padding": "Padding takes at least as much as the elements.",
    "unused-region": "A region is set aside and never used.",
    "wide-dtype": "A wide data type where a narrower one would do.",
    "growth": "Tables grow with every new shape.",
}


def render_sarif(findings: Sequence[tuple[Finding | TestFinding, str]]) -> str:
    """Render the findings; each comes with the file to name where its own line is unknown."""
    rules = [sarif.SarifRule(kind, _TITLES[kind]) for kind in KINDS]
    results = []
    for one, source_name in findings:
        file, _, line = one.location.rpartition(":")
        size = f"{one.bytes_per_bank:,} B of {one.memory} per bank"
        test = f"{one.test}: " if isinstance(one, TestFinding) else ""
        text = f"{test}{one.tensor or one.memory}: {size}; {one.message}"
        known = line.isdigit()
        results.append(
            sarif.SarifResult(one.kind, "warning", text, file if known else source_name, int(line) if known else None)
        )
    return sarif.render_log(rules, results)
