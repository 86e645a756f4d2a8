# SPDX-License-Identifier: Apache-2.0
"""What to change, for a person: the edits with their lines, what they bring, what was found besides."""

from ttmem.base.formatting import megabytes
from ttmem.reports.kit.console import TextReport
from ttmem.reports.kit.tables import Table
from ttmem.reports.kit.units import one_line
from ttmem.reports.profile.sentences import finding_lines
from ttmem.reports.tune.document import TuneDocument
from ttmem.reports.whatif.document import RunFigures
from ttmem.reports.whatif.terminal import PEAKS, peak_rows, verdict
from ttmem.tuning.edited_run import UNKNOWN_BECAUSE

_AGREES = {True: "as promised", False: "not as promised", None: "nothing is proven"}


def render(answer: TuneDocument, *, width: int = 100, color: bool = False) -> str:
    """Edits first: they are what was asked for."""
    report = TextReport(width, color=color)
    for number, edit in enumerate(answer.edits, 1):
        report.print(f"{number}. {one_line(edit.edit)}", style="bold")
        report.print(f"   {one_line(edit.change)}")
        for line in edit.hunk.split("\n")[:-1] if edit.code is None else ():
            report.print_whole(f"     {line}")
        saves = f"saves {megabytes(edit.saves_bytes_per_bank)} of {edit.memory} per bank"
        report.print(f"   {saves}; {certainty(edit.confidence, edit.why_bounded)}; cost: {one_line(edit.cost)}")
        if not edit.in_patch:
            report.print(f"   not in the patch ({one_line(edit.why_not_in_patch)}); edit by hand")
    if not answer.edits:
        report.print("no edit to make" if answer.reached else "no edit helps")
    report.print("", Table(PEAKS, list(peak_rows(answer.before, answer.after))), "")
    if answer.patched is not None:
        report.print(f"all edits: {_peaks(answer.after)}; the patch alone: {_peaks(answer.patched)}")
    report.print(
        *verdict(
            answer.before, answer.after, is_proven=answer.verified is not None and answer.verified.agrees is not None
        )
    )
    if not answer.reached:
        report.print("the target is not reached", style="bold red")
    if answer.verified is not None:
        proof = answer.verified
        words = f"DRAM {proof.dram_peak_bytes_per_bank:,} B, L1 {proof.l1_peak_bytes_per_bank:,} B per bank"
        why = f": {one_line(proof.reason)}" if proof.reason else ""
        report.print(f"on the mock: {words}, {_AGREES[proof.agrees]}{why}")
        for one in proof.dropped:
            report.print(f"not proposed: {one_line(one.edit)}; with it {one_line(one.reason)}")
        if proof.not_made:
            report.print(f"not made in that run, for it is no change of a call: {one_line(', '.join(proof.not_made))}")
    if answer.findings:
        report.print("", "Other findings:", *finding_lines(answer.findings))
    return report.text()


def certainty(confidence: str, why: str) -> str:
    """How certain an edit's figures are, and why they are not exact."""
    if why.startswith(UNKNOWN_BECAUSE):
        return one_line(why)
    return f"{confidence} ({one_line(why)})" if why else confidence


def _peaks(found: RunFigures) -> str:
    """Both memories in a few words."""
    sizes = f"DRAM {megabytes(found.dram.peak_bytes_per_bank)}, L1 {megabytes(found.l1.peak_bytes_per_bank)} per bank"
    return sizes if found.fits else f"{sizes}, does not fit"
