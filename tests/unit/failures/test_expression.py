# SPDX-License-Identifier: Apache-2.0
"""The language of conditions and figures, and of sentences with slots."""

from __future__ import annotations

import pytest

from ttmem.base.expression import ExpressionError, find_names
from ttmem.failures.knowledge.tables import Value, evaluate, fill, is_true

NAMES: dict[str, Value] = {"need": 350, "free": 400, "largest": 300, "memory": "L1", "cores": 1}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("need - largest", 50),
        ("free * 2 + 1", 801),
        ("ceil_div(free, 300)", 2),
        ("round_up(need, 32)", 352),
        ("percent(need, free)", 87.5),
        ("min(need, free, 7)", 7),
        ("memory == 'L1' and need <= free", True),
        ("memory in ('DRAM', 'L1')", True),
        ("300 <= largest < need", True),
        ("not memory == 'L1'", False),
        ("known(need, free)", True),
        ("known(absent)", False),
    ],
)
def test_values(expression: str, value: Value) -> None:
    assert evaluate(expression, NAMES) == value


@pytest.mark.parametrize(
    "expression", ["absent", "need - absent", "absent > 1", "not absent", "need // 0", "max(absent, 1)"]
)
def test_what_depends_on_an_unknown_figure_has_no_value(expression: str) -> None:
    assert evaluate(expression, NAMES) is None
    assert not is_true(expression, NAMES)


@pytest.mark.parametrize(
    ("condition", "verdict"),
    [
        ("absent > 1 or cores == 1", True),
        ("cores == 1 or absent > 1", True),
        ("absent > 1 or cores == 2", None),
        ("absent > 1 and cores == 2", False),
        ("absent > 1 and cores == 1", None),
    ],
)
def test_an_unknown_part_decides_only_when_it_must(condition: str, verdict: bool | None) -> None:
    assert evaluate(condition, NAMES) is verdict


def test_no_condition_always_holds() -> None:
    assert is_true("", {})


@pytest.mark.parametrize(
    "expression",
    ["need.real", "[need]", "need if free else 0", "open('x')", "need **2", "lambda: 1", "need +", "-need is free"],
)
def test_nothing_else_is_part_of_the_language(expression: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(expression, NAMES)


def test_names_leave_out_functions() -> None:
    assert find_names("max(a, round_up(b, 32)) + c") == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{free} of {memory}", "400 of L1"),
        ("{free * 1000}", "400,000"),
        ("{free * 1000:bytes}", "400,000 B"),
        ("{free * 1000:plain}", "400000"),
        ("{free * 1048576:mb}", "400.00 MiB"),
        ("{free:mb}", "400 B"),
        ("{percent(need, free):percent}", "87.5%"),
        ("{cores:of core} and {need:of L1 tensor}", "1 core and 350 L1 tensors"),
        ("nothing to fill", "nothing to fill"),
        ("{absent} is not known", None),
    ],
)
def test_sentences(text: str, filled: str | None) -> None:
    assert fill(text, NAMES) == filled


@pytest.mark.parametrize("text", ["{need:colour}", "{need", "need}", "{need:of }}"])
def test_sentences_that_cannot_be_filled_are_faults(text: str) -> None:
    with pytest.raises(ExpressionError):
        fill(text, NAMES)
