# SPDX-License-Identifier: Apache-2.0
"""Verdicts as SARIF 2.1.0, which code scanning shows beside the code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

import msgspec

from ttmem._version import __version__
from ttmem.analysis.budget import Verdict
from ttmem.reports.kit.units import one_line

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RULES = {
    "max-dram": "The DRAM peak stays within its limit.",
    "max-l1": "The L1 peak stays within its limit.",
    "max-l1-small": "The L1_SMALL peak stays within its limit.",
    "max-trace": "The TRACE peak stays within its limit.",
    "max-padding": "Tile padding of the tensors alive at the DRAM peak stays within its limit.",
    "max-growth-dram": "The DRAM peak does not outgrow the baseline.",
    "max-growth-l1": "The L1 peak does not outgrow the baseline.",
    "max-growth-l1-small": "The L1_SMALL peak does not outgrow the baseline.",
    "max-growth-trace": "The TRACE peak does not outgrow the baseline.",
    "run-failed": "The run finishes.",
}


def render(verdicts: Sequence[Verdict], source_name: str) -> str:
    """One result per verdict; the physical location is the operation's line in the log."""
    rules = list(dict.fromkeys(verdict.rule for verdict in verdicts))
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "ttmem",
                        "version": __version__,
                        "rules": [{"id": rule, "shortDescription": {"text": _RULES.get(rule, rule)}} for rule in rules],
                    }
                },
                "results": [_result(verdict, rules.index(verdict.rule), source_name) for verdict in verdicts],
            }
        ],
    }
    return msgspec.json.format(msgspec.json.encode(log), indent=2).decode() + "\n"


def _result(verdict: Verdict, rule_index: int, source_name: str) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(source_name)},
            "region": {"startLine": max(verdict.line or 1, 1)},
        }
    }
    if verdict.operation_name:
        location["logicalLocations"] = [
            {
                "name": one_line(verdict.operation_name),
                "fullyQualifiedName": one_line(verdict.location) or one_line(verdict.operation_name),
                "kind": "function",
            }
        ]
    return {
        "ruleId": verdict.rule,
        "ruleIndex": rule_index,
        "kind": "pass" if verdict.ok else "fail",
        "level": "none" if verdict.ok else "error",
        "message": {"text": one_line(verdict.message)},
        "locations": [location],
    }


def _uri(source_name: str) -> str:
    """A path as a URI reference; viewers resolve it against the checkout."""
    path = PurePath(source_name)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix(), errors="surrogateescape")
