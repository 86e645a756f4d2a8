# SPDX-License-Identifier: Apache-2.0
"""From cases to the steps that a worker does, by hand-made examples of each kind of rule."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest

from ttmem.operators.bound_case import CannotRunError
from ttmem.operators.case import Case, CaseTensor
from ttmem.operators.case_program import lower_case
from ttmem.operators.catalogue_entries import catalogue


def case(op: str, *shapes: tuple[int, ...], dtype: str = "float32", **args: Any) -> Case:
    return Case(op, tuple(CaseTensor(shape, dtype) for shape in shapes), args)


def call(op: str, *shapes: tuple[int, ...], **args: Any) -> dict[str, Any]:
    """The last call of the case's recipe."""
    steps = lower_case(case(op, *shapes, **args)).steps
    return [step for step in steps if "call" in step][-1]


def test_whole_steps_of_a_unary_operator() -> None:
    recipe = lower_case(case("silu", (1, 3, 8, 8)), memory="L1", layout="row_major")
    assert recipe.steps == (
        {"alloc": "self", "shape": [1, 3, 8, 8], "dtype": "bfloat16", "layout": "row_major", "memory": "L1"},
        {
            "call": "ttnn.silu",
            "args": [{"tensor": "self"}],
            "kwargs": {"memory_config": {"memory": "L1"}},
            "out": "result",
        },
    )
    assert recipe.assumed == ()


def test_whole_steps_of_a_composite_free_their_temporaries() -> None:
    steps = lower_case(case("select", (4, 32, 64), dim=0, index=-1)).steps
    memory = {"memory_config": {"memory": "DRAM"}}
    assert steps[1:] == (
        {
            "call": "ttnn.slice",
            "args": [{"tensor": "self"}, [3, 0, 0], [4, 32, 64], [1, 1, 1]],
            "kwargs": memory,
            "out": "temporary.1",
        },
        {"call": "ttnn.squeeze", "args": [{"tensor": "temporary.1"}, 0], "kwargs": {}, "out": "result"},
        {"free": "temporary.1", "force": False},
    )


def test_whole_steps_of_a_convolution() -> None:
    steps = lower_case(
        case(
            "convolution",
            (2, 3, 16, 8),
            (32, 3, 3, 3),
            stride=[2, 2],
            padding=[1, 1],
            dilation=[1, 1],
            transposed=False,
            output_padding=[0, 0],
            groups=1,
            bias=None,
        )
    ).steps
    assert steps == (
        {"alloc": "input", "shape": [1, 1, 256, 3], "dtype": "bfloat16", "layout": "row_major", "memory": "DRAM"},
        {"host": "weight", "shape": [32, 3, 3, 3], "dtype": "bfloat16", "layout": "row_major"},
        {
            "call": "ttnn.conv2d",
            "args": [],
            "kwargs": {
                "input_tensor": {"tensor": "input"},
                "weight_tensor": {"tensor": "weight"},
                "device": {"device": 0},
                "in_channels": 3,
                "out_channels": 32,
                "batch_size": 2,
                "input_height": 16,
                "input_width": 8,
                "kernel_size": [3, 3],
                "stride": [2, 2],
                "padding": [1, 1],
                "dilation": [1, 1],
                "groups": 1,
            },
            "out": "result",
        },
    )


@pytest.mark.parametrize(
    ("made", "function", "arguments"),
    [
        (call("view", (2, 6), size=[3, -1]), "ttnn.reshape", [[3, 4]]),
        (call("expand", (1, 4), size=[3, -1, -1]), "ttnn.expand", [[3, 1, 4]]),
        (call("permute", (2, 3, 4), dims=[0, -1, -2]), "ttnn.permute", [[0, 2, 1]]),
        (
            call("slice", (4, 8), dim=1, start=-3, end=9223372036854775807, step=2),
            "ttnn.slice",
            [[0, 5], [4, 8], [1, 2]],
        ),
        (call("squeeze", (1, 4, 1), dim=None), "ttnn.reshape", [[4]]),
        (call("squeeze", (1, 4, 1), dim=[0]), "ttnn.reshape", [[4, 1]]),
        (call("pow", (4, 4), exponent=2), "ttnn.pow", [2]),
        (call("add", (4, 4), other=1.5, alpha=1), "ttnn.add", [1.5]),
        (call("masked_fill", (4, 4), (4, 4), value="-inf"), "ttnn.where", [-3.3895313892515355e38, {"tensor": "self"}]),
        (call("upsample_nearest2d", (1, 3, 8, 8), output_size=[16, 24]), "ttnn.upsample", [[2, 3]]),
        (call("split", (4, 8), split_size=3, dim=1), "ttnn.split", [3, 1]),
        (call("roll", (4, 8), shifts=[1], dims=[0]), "ttnn.roll", [[1], [0]]),
    ],
)
def test_arguments_follow_from_the_case(made: dict[str, Any], function: str, arguments: list[Any]) -> None:
    assert (made["call"], made["args"][1:]) == (function, arguments)


@pytest.mark.parametrize(
    ("pads", "layout_change", "pairs"),
    [
        ([0, 1, 0, 2], False, [(0, 0), (0, 2), (0, 1)]),
        ([1, 1], True, [(0, 0), (0, 0), (1, 1)]),
    ],
)
def test_padding_in_front_needs_rows(pads: list[int], layout_change: bool, pairs: list[tuple[int, int]]) -> None:
    steps = lower_case(case("constant_pad_nd", (2, 3, 4), pad=pads, value=0.0)).steps
    calls = [step for step in steps if "call" in step]
    assert [step["call"] for step in calls] == (["ttnn.to_layout", "ttnn.pad"] if layout_change else ["ttnn.pad"])
    assert calls[-1]["args"][1] == [{"tuple": list(pair)} for pair in pairs]


@pytest.mark.parametrize(
    ("given", "function"),
    [
        (case("max", (4, 4)), ["ttnn.max"]),
        (case("max", (4, 4), dim=1, keepdim=False), ["ttnn.max", "ttnn.argmax"]),
        (case("max", (4, 4), (4, 4)), ["ttnn.maximum"]),
        (case("add", (4, 4), (4, 4), alpha=2), ["ttnn.multiply", "ttnn.add"]),
        (case("_to_copy", (4, 4), dtype_="", dtype="bfloat16"), []),
        (case("bitwise_and", (4, 4), (4, 4), dtype="bool"), ["ttnn.logical_and"]),
        (case("bitwise_and", (4, 4), (4, 4), dtype="int64"), ["ttnn.bitwise_and"]),
        (case("cat", (4, 4), (0,), dim=0), ["ttnn.concat"]),
    ],
)
def test_the_way_to_call_depends_on_the_case(given: Case, function: list[str]) -> None:
    recipe = lower_case(Case(given.op, given.tensors, {k: v for k, v in given.args.items() if k != "dtype_"}))
    assert [step["call"] for step in recipe.steps if "call" in step] == function


@pytest.mark.parametrize(
    ("dtype", "float_dtype", "on_device"),
    [
        ("float32", "bfloat16", "bfloat16"),
        ("float32", None, "float32"),
        ("float64", "bfloat16", "bfloat16"),
        ("bfloat8_b", "bfloat16", "bfloat8_b"),
        ("int64", "bfloat16", "int32"),
        ("bool", "bfloat16", "bfloat16"),
        ("uint8", "bfloat16", "uint8"),
    ],
)
def test_types_on_the_device(dtype: str, float_dtype: str | None, on_device: str) -> None:
    recipe = lower_case(case("relu", (4, 4), dtype=dtype), float_dtype=float_dtype)
    assert recipe.inputs[0].dtype == on_device


def test_what_a_list_does_not_say_is_assumed_and_told() -> None:
    assert lower_case(case("add", (2, 3))).assumed == ("other: a tensor of [2, 3]", "alpha=1")
    assert lower_case(case("mm", (27, 256))).inputs[1].shape == (256, 27)
    assert lower_case(case("topk", (4, 64))).assumed == ("k=32", "dim=-1", "largest=True", "sorted=True")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (case("no_such_op", (2,)), "not in the catalogue"),
        (case("flip", (2,)), "does not run on the device"),
        (case("view", (2, 3), size=[4]), "[2, 3] has 6 elements, [4] has 4"),
        (case("convolution", (1, 3, 4, 4, 4), (3, 3, 1, 1, 1)), "3 dimensions"),
        (case("native_layer_norm", (2, 3, 4), normalized_shape=[3, 4]), "only the last one"),
        (case("relu", (2, 0)), "without elements"),
        (case("relu", (2,), (2,)), "more than relu takes"),
        (case("slice", (4, 4), dim=7), "dimension 7 does not exist"),
        (case("slice", (4, 4), dim=0, start=4), "the slice is empty"),
        (case("constant_pad_nd", (4,), pad=[-1, 0]), "negative padding"),
        (case("upsample_bilinear2d", (1, 1, 4, 4), output_size=[6, 6]), "whole scales only"),
        (case("linalg_vector_norm", (4, 4), ord=1), "order 1"),
        (case("convolution"), "tensor 'input' is not in the case"),
        (case("empty"), "argument 'size' is not in the case"),
        (Case("relu", (CaseTensor((2,), name="input"),)), "takes no tensor 'input'"),
    ],
)
def test_a_case_without_a_call_says_why(given: Case, why: str) -> None:
    with pytest.raises(CannotRunError) as told:
        lower_case(given)
    assert why in str(told.value)


def test_the_weight_of_a_linear_layer_is_given_as_the_product_needs_it() -> None:
    recipe = lower_case(case("linear", (1, 64, 32), (96, 32), (96,)))
    assert [tensor.shape for tensor in recipe.inputs] == [(1, 64, 32), (32, 96), (1, 96)]


def test_a_tensor_that_the_call_does_not_take_is_never_allocated() -> None:
    recipe = lower_case(case("new_zeros", (7, 7), size=[32, 64]))
    assert recipe.inputs == ()
    assert [tensor.shape for tensor in recipe.not_called] == [(7, 7)]
    assert [next(iter(step)) for step in recipe.steps] == ["call"]


def test_a_value_that_is_a_tensor_of_one_element_is_a_number_on_both_sides() -> None:
    filled = Case("fill_", (CaseTensor((8, 4), name="self"), CaseTensor((), name="value")))
    recipe = lower_case(filled)
    assert recipe.steps[-1]["kwargs"]["fill_value"] == 0.0
    assert recipe.reference == {"value": 0.0}


@pytest.mark.parametrize("op", sorted(catalogue().operators))
def test_no_shape_is_more_than_a_case_that_cannot_run(op: str) -> None:
    """Lists of other tools hold anything: tensors without dimensions, three where there should be one."""
    for rank in range(6):
        for count in (1, 2, 3):
            with contextlib.suppress(CannotRunError):
                lower_case(case(op, *[(3, 32, 1, 64, 2)[:rank]] * count))


def test_calls_say_what_they_make_where_the_case_knows_it() -> None:
    # GIVEN an elementwise operator of two calls, and another with recorded results
    scaled = lower_case(case("add", (4, 32), (4, 32), alpha=2))
    split = lower_case(replace(case("split", (8, 32), split_size=4), outputs=(CaseTensor((4, 32)),) * 2))
    # THEN every call of the first makes tensors like its inputs, and the last of the second what was recorded
    assert [step["makes"] for step in scaled.described_steps if "call" in step] == ["elementwise"] * 2
    assert [step["makes"] for step in split.described_steps if "call" in step] == [[[4, 32], [4, 32]]]
    assert not any("makes" in step for step in scaled.steps)
