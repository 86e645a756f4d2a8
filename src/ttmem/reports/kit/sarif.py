# SPDX-License-Identifier: Apache-2.0
"""SARIF 2.1.0, which code scanning shows next to the code."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

import msgspec

from ttmem._version import __version__
from ttmem.base.formatting import flatten_text
from ttmem.base.text_safety import encode_json

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True, slots=True)
class SarifRule:
    """A rule that is checked."""

    identifier: str
    title: str
    why: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class SarifResult:
    """A result; level ``none`` when the rule holds."""

    rule: str
    level: str
    message: str
    file: str
    line: int | None
    operation_name: str = ""
    operation_location: str = ""
    kind: str = ""
    """``pass`` or ``fail``, where rules that hold are listed too."""


def render_log(rules: Sequence[SarifRule], results: Iterable[SarifResult]) -> str:
    """Render the log of one run of ttmem."""
    places = {rule.identifier: at for at, rule in enumerate(rules)}
    driver = {"name": "ttmem", "version": __version__, "rules": list(map(_describe_rule, rules))}
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_describe_result(one, places[one.rule]) for one in results]}],
    }
    return msgspec.json.format(encode_json(log), indent=2).decode() + "\n"


def _describe_rule(rule: SarifRule) -> dict[str, Any]:
    texts = {"shortDescription": rule.title, "fullDescription": rule.why, "help": rule.fix}
    return {"id": rule.identifier, **{key: {"text": text} for key, text in texts.items() if text}}


def _describe_result(result: SarifResult, rule_index: int) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": _format_uri(result.file)},
            "region": {"startLine": max(result.line or 1, 1)},
        }
    }
    if result.operation_name:
        called = flatten_text(result.operation_name)
        qualified = flatten_text(result.operation_location) or called
        location["logicalLocations"] = [{"name": called, "fullyQualifiedName": qualified, "kind": "function"}]
    return {
        "ruleId": result.rule,
        "ruleIndex": rule_index,
        **({"kind": result.kind} if result.kind else {}),
        "level": result.level,
        "message": {"text": flatten_text(result.message)},
        "locations": [location],
    }


def _format_uri(file: str) -> str:
    """Return a path as a URI reference; viewers resolve it against the checkout."""
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix(), errors="surrogateescape")
