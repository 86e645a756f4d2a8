# SPDX-License-Identifier: Apache-2.0
"""Verdicts as SARIF: one result per verdict, at the operation's line in the log."""

from collections.abc import Sequence

from ttmem.analysis.budget import Verdict
from ttmem.reports.kit import sarif

_OTHER_RULES = {
    "max-padding": "Tile padding of the tensors alive at the DRAM peak stays within its limit.",
    "run-failed": "The run finishes.",
}


def render(verdicts: Sequence[Verdict], source_name: str) -> str:
    """Limits that hold are results too: a viewer shows what was checked."""
    rules = {verdict.rule: sarif.SarifRule(verdict.rule, _title(verdict)) for verdict in verdicts}
    results = [
        sarif.SarifResult(
            verdict.rule,
            "none" if verdict.ok else "error",
            verdict.message,
            source_name,
            verdict.line,
            verdict.operation.name if verdict.operation else "",
            verdict.operation.location if verdict.operation else "",
            kind="pass" if verdict.ok else "fail",
        )
        for verdict in verdicts
    ]
    return sarif.render(list(rules.values()), results)


def _title(verdict: Verdict) -> str:
    if verdict.rule in _OTHER_RULES:
        return _OTHER_RULES[verdict.rule]
    if verdict.rule.startswith("max-growth-"):
        return f"The {verdict.memory} peak does not outgrow the baseline."
    return f"The {verdict.memory} peak stays within its limit." if verdict.memory else verdict.rule
