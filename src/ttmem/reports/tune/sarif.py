# SPDX-License-Identifier: Apache-2.0
"""Leaks and waste as SARIF: one result per finding, at the line of the script that makes the tensor."""

from collections.abc import Sequence

from ttmem.analysis.findings import KINDS, Finding
from ttmem.reports.kit import sarif
from ttmem.reports.test.document import TestFinding

_TITLES = {
    "leak": "Tensors that are not read any more are never freed.",
    "late-free": "A tensor is freed long after its last use.",
    "double-upload": "The same host tensor is on the device twice.",
    "padding": "Padding takes at least as much as the elements.",
    "unused-region": "A region is set aside and never used.",
    "wide-dtype": "A wide data type where a narrower one would do.",
    "growth": "Tables grow with every new shape.",
}


def render(findings: Sequence[tuple[Finding | TestFinding, str]]) -> str:
    """A viewer shows them beside the code; each comes with the file to name where its own line is not known."""
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
    return sarif.render(rules, results)
