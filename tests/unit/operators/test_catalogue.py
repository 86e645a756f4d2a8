# SPDX-License-Identifier: Apache-2.0
"""The catalogue is complete, consistent, and its names are found under all their spellings."""

from __future__ import annotations

import ast
import json

import pytest

from support.operator_fixtures import DATA
from ttmem.operators.argument_rules import RULES, SHAPE_RULES
from ttmem.operators.case_program import lower_case, parse_catalogue_call
from ttmem.operators.catalogue_entries import DEVICE, FREE, HOST, NONE, Operator, catalogue

KNOWN = json.loads((DATA / "known_operators.json").read_text())
OPERATORS = list(catalogue().operators.values())
IDS = [operator.aten for operator in OPERATORS]
SURROUNDINGS = {"memory", "device", "layout", "ttnn"}


@pytest.mark.parametrize("entry", KNOWN["operators"], ids=lambda entry: entry["aten"])
def test_every_known_operator_has_an_entry(entry: dict[str, object]) -> None:
    found = catalogue().find(str(entry["aten"]))
    assert found is not None
    # a function that the study found is in the entry's own text or in one of its calls
    function = str(entry["ttnn"] or "").split(" ")[0].split("(")[0].split("+")[0]
    told = " ".join([found.ttnn, *(variant.call for variant in found.variants)])
    if found.variants:
        assert function.removeprefix("ttnn.").split(".")[-1] in told
    else:
        assert entry["lowering"] in ("noop", "host") or entry["kind"] in ("unsupported", "matmul")


@pytest.mark.parametrize("operator", OPERATORS, ids=IDS)
def test_every_name_in_a_call_means_something(operator: Operator) -> None:
    for variant in operator.variants:
        names = {node.id for node in ast.walk(parse_catalogue_call(variant.call)) if isinstance(node, ast.Name)}
        known = SURROUNDINGS | set(operator.tensor_names) | set(operator.args) | set(RULES)
        assert names <= known, names - known
        assert not variant.when or variant.when in RULES
    assert not operator.variants or not operator.variants[-1].when, "the last way to call needs no condition"
    assert not operator.requires or operator.requires in RULES
    assert set(operator.missing_tensors.values()) <= set(RULES)
    assert {form.shape for form in operator.inputs.values()} <= {"", *SHAPE_RULES}
    assert set(operator.inputs) <= set(operator.tensor_names)
    assert {told[1:] for told in operator.missing.values() if isinstance(told, str) and told[:1] == "="} <= set(RULES)


@pytest.mark.parametrize("operator", [o for o in OPERATORS if o.support == DEVICE], ids=lambda o: o.aten)
def test_every_operator_that_runs_has_an_example_without_assumptions_about_tensors(operator: Operator) -> None:
    recipe = lower_case(operator.example_case())
    assert not recipe.is_free
    assert not [note for note in recipe.assumed if "a tensor of" in note]


def test_supports_are_what_they_say() -> None:
    assert catalogue().operators["silu"].support == DEVICE
    assert catalogue().operators["alias"].support == FREE
    assert catalogue().operators["linspace"].support == HOST
    assert catalogue().operators["flip"].support == NONE


@pytest.mark.parametrize(("name", "aten"), KNOWN["seed_name_alias"].items())
def test_the_names_of_the_first_studies_are_known(name: str, aten: str) -> None:
    assert catalogue().aten_name(name) == aten
    assert aten in catalogue().operators


@pytest.mark.parametrize(
    ("name", "aten"),
    [
        ("aten.add.Tensor", "add"),
        ("aten::_softmax", "_softmax"),
        ("model.0.act.SiLU", "silu"),
        ("geluactivation", "gelu"),
        ("something_else", "something_else"),
    ],
)
def test_other_spellings(name: str, aten: str) -> None:
    assert catalogue().aten_name(name) == aten


def test_no_two_rules_or_arguments_share_a_name() -> None:
    """A rule would hide an argument of the same name: only those that mean the argument itself may."""
    arguments = {name for operator in OPERATORS for name in operator.args}
    assert arguments & set(RULES) == {"kernel_size"}
