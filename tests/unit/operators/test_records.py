# SPDX-License-Identifier: Apache-2.0
"""The catalogue against the records: what it calls is compared as it calls it, or said to have no record."""

from __future__ import annotations

import ast
import json
from functools import cache

import pytest

from oracle.draws import draw_call
from oracle.draws.choose import RandomChoose
from ttmem.commands.program import main
from ttmem.operators.case_program import parse_catalogue_call
from ttmem.operators.catalogue_entries import catalogue
from ttmem.twin.operations import NO_RECORD, RECORDS, combine_confidence

OPERATORS = [operator for operator in catalogue().operators.values() if operator.variants]


def calls_of(expression: str) -> list[tuple[str, ast.Call]]:
    nodes = [node for node in ast.walk(parse_catalogue_call(expression)) if isinstance(node, ast.Call)]
    return [(ast.unparse(node.func), node) for node in nodes]


@cache
def drawn_forms(name: str) -> tuple[frozenset[str], int]:
    """Keywords of random calls of an operation, and the most arguments that they give without a name."""
    record, choose = RECORDS.find(name), RandomChoose(name)
    drawn = [draw_call(record, choose)[-1] for _ in range(300)]
    return frozenset(word for call in drawn for word in call["kwargs"]), max(len(call["args"]) for call in drawn)


@pytest.mark.parametrize("aten", [operator.aten for operator in OPERATORS])
def test_the_oracle_draws_the_calls_that_the_catalogue_makes(aten: str) -> None:
    for variant in catalogue().operators[aten].variants:
        for function, call in calls_of(variant.call):
            if function in RECORDS:
                words, placed = drawn_forms(function)
                assert {str(word.arg) for word in call.keywords} <= words, function
                assert len(call.args) <= placed, function


def test_every_call_of_the_catalogue_has_a_record_or_is_said_to_have_none(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "map", "--json"]) == 0
    listed = json.loads(capfd.readouterr().out)["operators"]
    for operator in catalogue().operators.values():
        called = {function for variant in operator.variants for function, _ in calls_of(variant.call)}
        assert called == set(operator.called)
        lacking = [function for function in called if function not in RECORDS]
        assert listed[operator.aten]["twin"] == (combine_confidence(called) if called else None)
        assert (listed[operator.aten]["twin"] == NO_RECORD) == bool(lacking), operator.aten
