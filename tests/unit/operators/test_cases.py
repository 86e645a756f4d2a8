# SPDX-License-Identifier: Apache-2.0
"""Cases: their identity, their files, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem import TtmemError
from ttmem.operators.case import (
    Case,
    CaseTensor,
    ModelUse,
    case_from_json,
    cases_text,
    merge_cases,
    read_cases,
    write_cases,
)

SILU = Case(
    "silu",
    (CaseTensor((1, 96, 544, 960), "float32", "self"),),
    {},
    (ModelUse("yolo", 12, "2176x3840", ("model.3.act",)),),
    (CaseTensor((1, 96, 544, 960), "float32"),),
)


def test_a_case_is_one_line_of_the_contract() -> None:
    assert SILU.to_json() == {
        "id": "silu-1x96x544x960-c2735e4c",
        "op": "silu",
        "tensors": [{"shape": [1, 96, 544, 960], "dtype": "float32", "name": "self"}],
        "args": {},
        "models": ["yolo"],
        "count": 12,
        "outputs": [{"shape": [1, 96, 544, 960], "dtype": "float32"}],
        "uses": [{"model": "yolo", "count": 12, "size": "2176x3840", "modules": ["model.3.act"]}],
    }


def test_identity_is_operator_shapes_types_and_scalars() -> None:
    same = Case("silu", (CaseTensor((1, 96, 544, 960), "float32", "self", is_parameter=True),))
    assert same.id == SILU.id
    others = [
        Case("relu", SILU.tensors),
        Case("silu", (CaseTensor((1, 96, 544, 961), "float32", "self"),)),
        Case("silu", (CaseTensor((1, 96, 544, 960), "bfloat16", "self"),)),
        Case("silu", SILU.tensors, {"inplace": True}),
    ]
    assert len({SILU.id, *(case.id for case in others)}) == 5


def test_equal_cases_become_one_with_all_their_uses() -> None:
    # GIVEN the same call from one model twice and from another
    again = Case("silu", SILU.tensors, {}, (ModelUse("yolo", 3, "2176x3840", ("model.3.act", "model.9.act")),))
    other = Case("silu", SILU.tensors, {}, (ModelUse("unet"),))
    # WHEN they are merged
    (merged,) = merge_cases([SILU, again, other])
    # THEN counts add up, modules are kept once
    assert merged.uses == (
        ModelUse("yolo", 15, "2176x3840", ("model.3.act", "model.9.act")),
        ModelUse("unet"),
    )
    assert (merged.count, merged.models, merged.outputs) == (16, ("yolo", "unet"), SILU.outputs)


sizes = st.lists(st.integers(0, 5000), max_size=5).map(tuple)
tensors = st.builds(CaseTensor, sizes, st.sampled_from(["float32", "int64", "bool"]), st.sampled_from(["", "self"]))
scalars = st.dictionaries(
    st.sampled_from(["dim", "size", "value"]), st.none() | st.integers() | st.lists(st.integers()) | st.text(max_size=5)
)
uses = st.lists(
    st.builds(ModelUse, st.text(min_size=1, max_size=4), st.integers(1, 9), st.just(""), st.just(())), max_size=3
).map(tuple)


@given(st.builds(Case, st.sampled_from(["silu", "_softmax"]), st.lists(tensors, max_size=3).map(tuple), scalars, uses))
def test_a_file_gives_back_what_was_written(case: Case) -> None:
    (line,) = cases_text([case]).splitlines()
    assert case_from_json(json.loads(line)) == case


def test_a_file_of_the_bare_contract_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(
        '{"op": "add", "tensors": [{"shape": [2, 3]}], "args": {"other": 1}, "models": ["a", "b"], "count": 5}\n\n'
    )
    (case,) = read_cases(path)
    assert case == Case("add", (CaseTensor((2, 3)),), {"other": 1}, (ModelUse("a", 3), ModelUse("b", 2)))
    write_cases(path, [case])
    assert read_cases(path) == [case]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no case"),
        ("{", ":1: not JSON"),
        ('{"op": "a"}\n[]', ":2: a case is a JSON object"),
        ('{"tensors": []}', "'op' must be an aten name"),
        ('{"op": "add.Tensor"}', "'op' must be an aten name"),
        ('{"op": "a", "tensors": {}}', "'tensors' must be a list"),
        ('{"op": "a", "tensors": [{"shape": [-1]}]}', "'shape' in 'tensors' must be a list of sizes"),
        ('{"op": "a", "tensors": [{"shape": [true]}]}', "'shape' in 'tensors' must be a list of sizes"),
        ('{"op": "a", "args": []}', "'args' must be an object"),
        ('{"op": "a", "count": "many"}', "'count' must be a number"),
        ('{"op": "a", "models": "vit"}', "'models' must be a list"),
        ('{"id": "x", "op": "a"}\n{"id": "x", "op": "b"}', "two different cases have the id 'x'"),
        ("\udcff", "is not a text file"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(TtmemError) as told:
        read_cases(path)
    assert problem in str(told.value)
    assert str(path) in str(told.value)
