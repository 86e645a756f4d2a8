# SPDX-License-Identifier: Apache-2.0
"""58 operators on a mock n150, at two sizes and in seven ways to lie in memory: each ends as it was measured to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.engines.operator_cells import LETTERS, OPERATORS, Step
from ttmem.engines.ttnn import TtnnEngine
from ttmem.failures.outcome import Outcome

pytestmark = pytest.mark.oracle

STATED = json.loads((Path(__file__).parents[2] / "data" / "engines" / "operators_n150.json").read_text())["operators"]
REASONS = {"oom": "oom", "clash": "clash", "overflow": "max", "invalid": "val"}


def stated(text: str) -> dict[str, str]:
    """``Dd (LlHWB:in)`` -> what happens to each letter."""
    found = re.fullmatch(r"([DLdlHWB]*|-)\s*(?:\((.*)\))?", text)
    assert found, text
    outcomes = dict.fromkeys(found[1].strip("-"), "ok")
    for part in (found[2] or "").split():
        letters, reason = part.split(":")
        outcomes.update(dict.fromkeys(letters, reason))
    return outcomes


def ended(outcome: Outcome, steps: list[Step]) -> str:
    if outcome.ok:
        return "ok"
    failed = next((step for step, answer in zip(steps, outcome.answers, strict=False) if not answer["ok"]), {})
    if "alloc" in failed:
        return "in" if outcome.status == "oom" else outcome.status
    return REASONS.get(outcome.status, outcome.status)


def test_every_operator_is_stated() -> None:
    assert set(OPERATORS) == set(STATED)
    assert len(STATED) == 58


def test_operators_end_as_stated(engine: Callable[..., TtnnEngine]) -> None:
    # GIVEN every cell of the table
    cells = [(name, large, letter) for name in OPERATORS for large in (False, True) for letter in LETTERS]
    cases = [OPERATORS[name](large, letter) for name, large, letter in cells]
    worker = engine(l1_small_bytes=32768, measure_programs=False)
    # WHEN all are asked
    found = {
        (name, "large" if large else "small", letter): (ended(outcome, steps), outcome.message)
        for (name, large, letter), steps, outcome in zip(cells, cases, worker.ask_all(cases, stop=True), strict=True)
    }
    # THEN each ends as stated
    differing = {
        cell: (got, message[:200])
        for cell, (got, message) in found.items()
        if got != stated(STATED[cell[0]][cell[1]])[cell[2]]
    }
    assert differing == {}
    assert len(found) == 812
    assert worker.replaced == 0
