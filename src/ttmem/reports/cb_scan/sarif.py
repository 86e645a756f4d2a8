# SPDX-License-Identifier: Apache-2.0
"""Findings of a scan as SARIF 2.1.0, which code scanning shows beside the code."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any
from urllib.parse import quote

import msgspec

from ttmem._version import __version__
from ttmem.circular_buffers.scan import RULES, Finding, Rule, Scan
from ttmem.reports.kit.units import one_line

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(scan: Scan) -> str:
    """Every rule is described, every finding is a result."""
    rules = list(RULES)
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "ttmem",
                        "version": __version__,
                        "rules": [_rule(rule) for rule in RULES.values()],
                    }
                },
                "results": [_result(one, rules.index(one.rule)) for one in scan.findings],
            }
        ],
    }
    return msgspec.json.format(msgspec.json.encode(log), indent=2).decode() + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.identifier,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": f"{rule.why}."},
        "help": {"text": f"{rule.fix}."},
    }


def _result(finding: Finding, rule_index: int) -> dict[str, Any]:
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": finding.severity,
        "message": {"text": one_line(f"{finding.message}. Why: {finding.why}. Fix: {finding.fix}.")},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(finding.file)},
                    "region": {"startLine": max(finding.line, 1)},
                }
            }
        ],
    }


def _uri(file: str) -> str:
    """A path as a URI reference; viewers resolve it against the checkout."""
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix(), errors="surrogateescape")
