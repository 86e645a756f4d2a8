# SPDX-License-Identifier: Apache-2.0
"""Findings of a scan as SARIF."""

from ttmem.circular_buffers.scan import RULES, Scan
from ttmem.reports.kit import sarif


def render(scan: Scan) -> str:
    """Every rule is described, every finding is a result."""
    rules = [sarif.SarifRule(one.identifier, one.title, f"{one.why}.", f"{one.fix}.") for one in RULES.values()]
    results = [
        sarif.SarifResult(one.rule, one.severity, f"{one.message}. Why: {one.why}. Fix: {one.fix}.", one.file, one.line)
        for one in scan.findings
    ]
    return sarif.render(rules, results)
