# SPDX-License-Identifier: Apache-2.0
"""Operation texts: MLIR's own print of one operation (log-formats 3.4, 3.6, 3.7)."""

from __future__ import annotations

import pytest

from support.log_lines import ONE_MB, TWO_MB, Log, tensor
from support.profile_questions import forms, only
from ttmem.profile.model import Profile
from ttmem.profile.operation_forms import OperationForm
from ttmem.profile.tensor_type import TensorType

L = tensor("32x32", "1x1")
HEAD = "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<1x1x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<dram>>"


def parsed(text: str) -> tuple[Profile, OperationForm]:
    """One operation line, and that nothing about it was odd."""
    log = Log()
    log.op(text)
    profile = log.profile()
    assert profile.source.unrecognised_lines == 0, profile.source.warnings
    (form,) = forms(profile)
    return profile, form


def shapes(profile: Profile, numbers: tuple[int, ...]) -> list[tuple[int, ...] | None]:
    return [profile.tensor_types[number].shape if number >= 0 else None for number in numbers]


@pytest.mark.parametrize(
    ("text", "name", "results", "operands", "operand_shapes", "result_shapes", "location", "callee"),
    [
        pytest.param(
            '%0 = "ttnn.get_device"() <{mesh_shape = #ttnn<mesh_shape 1x1>}> : () -> !ttnn.device '
            'loc("test_ttir_ops.py:657:id(0)")',
            "ttnn.get_device",
            ["%0"],
            [],
            [],
            [None],
            "test_ttir_ops.py:657:id(0)",
            "",
            id="get_device",
        ),
        pytest.param(
            f'%72 = "ttnn.add"(%69, %71) : ({L}, {ONE_MB}) -> {TWO_MB} loc("add.72")',
            "ttnn.add",
            ["%72"],
            ["%69", "%71"],
            [(32, 32), (1536, 4096)],
            [(3072, 4096)],
            "add.72",
            "",
            id="no properties",
        ),
        pytest.param(
            f'"ttnn.deallocate"(%3) <{{force = false}}> : ({L}) -> () loc("compare.11")',
            "ttnn.deallocate",
            [],
            ["%3"],
            [(32, 32)],
            [],
            "compare.11",
            "",
            id="no result",
        ),
        pytest.param(
            f"%0 = ttcore.load_cached(@main_const_eval_0, []) : () -> {L} loc(unknown)",
            "ttcore.load_cached",
            ["%0"],
            [],
            [],
            [(32, 32)],
            "",
            "main_const_eval_0",
            id="load_cached without arguments",
        ),
        pytest.param(
            f"%0:2 = ttcore.load_cached(@forward_const_eval_0, [%arg1, %arg2]) : ({L}, {ONE_MB}) -> ({ONE_MB}, {L}) "
            "loc(unknown)",
            "ttcore.load_cached",
            ["%0#0", "%0#1"],
            ["%arg1", "%arg2"],
            [(32, 32), (1536, 4096)],
            [(1536, 4096), (32, 32)],
            "",
            "forward_const_eval_0",
            id="load_cached with two results",
        ),
        pytest.param(
            f"%2 = func.call @cpu_hoisted_stablehlo_convert_c1b2a3(%1) {{ttir.cpu_hoisted_call}} : ({L}) -> {L} "
            'loc("convert.4")',
            "func.call",
            ["%2"],
            ["%1"],
            [(32, 32)],
            [(32, 32)],
            "convert.4",
            "cpu_hoisted_stablehlo_convert_c1b2a3",
            id="func.call",
        ),
        pytest.param(
            f'%4 = ttnn.tt_lang_op(%0, %1) {{kernel = "k"}} : ({L}, {L}) -> ({L}) loc("k.1")',
            "ttnn.tt_lang_op",
            ["%4"],
            ["%0", "%1"],
            [(32, 32), (32, 32)],
            [(32, 32)],
            "k.1",
            "",
            id="tt_lang_op",
        ),
        pytest.param(
            '%5:2 = "ttnn.sort"(%4) <{descending = true, dim = 1 : si8, stable = false}> : '
            f'({L}) -> ({L}, {tensor("32x32", "1x1", element="si32")}) loc("sort.5")',
            "ttnn.sort",
            ["%5#0", "%5#1"],
            ["%4"],
            [(32, 32)],
            [(32, 32), (32, 32)],
            "sort.5",
            "",
            id="two results",
        ),
        pytest.param(
            f'%6 = "ttnn.add"(%5#1, %5#0) : ({L}, {L}) -> {L} loc("add.6")',
            "ttnn.add",
            ["%6"],
            ["%5#1", "%5#0"],
            [(32, 32), (32, 32)],
            [(32, 32)],
            "add.6",
            "",
            id="use of the second result",
        ),
        pytest.param(
            f'"ttnn.paged_update_cache"(%4, %0, %1) <{{share_cache = false}}> : ({TWO_MB}, {L}, {L}) -> () loc("u.1")',
            "ttnn.paged_update_cache",
            [],
            ["%4", "%0", "%1"],
            [(3072, 4096), (32, 32), (32, 32)],
            [],
            "u.1",
            "",
            id="in place",
        ),
        pytest.param(
            f'%15 = "ttnn.reduce_scatter"(%14, %0) <{{reduce_type = #ttcore.reduce_type<sum>}}> : ({L}, !ttnn.device) '
            f'-> {L} loc("rs")',
            "ttnn.reduce_scatter",
            ["%15"],
            ["%14", "%0"],
            [(32, 32), None],
            [(32, 32)],
            "rs",
            "",
            id="a device among the operands",
        ),
        pytest.param(
            '%1 = "ttnn.capture_or_execute_trace"(%0, %arg0) <{allocate_slots_callee = @allocate_slots_trace_0_main, '
            "capture_callee = @run_and_capture_trace_0_main, execute_callee = @execute_trace_0_main, "
            f"operandSegmentSizes = array<i32: 1, 1, 0>}}> : (!ttnn.device, {L}) -> {L} loc(unknown)",
            "ttnn.capture_or_execute_trace",
            ["%1"],
            ["%0", "%arg0"],
            [None, (32, 32)],
            [(32, 32)],
            "",
            "",
            id="trace",
        ),
        pytest.param(
            '%1 = "ttnn.begin_trace_capture"(%0) <{cq_id = 0 : ui32}> : (!ttnn.device) -> '
            'tensor<ui32, #ttnn.trace_id> loc("t")',
            "ttnn.begin_trace_capture",
            ["%1"],
            ["%0"],
            [None],
            [()],
            "t",
            "",
            id="an encoding that is no layout",
        ),
        pytest.param(
            f'%1 = "ttnn.full"(%0) <{{fill_value = 1.0 : f32, shape = #ttnn.shape<32x32>}}> : (!ttnn.device) -> {L} '
            'loc("f")',
            "ttnn.full",
            ["%1"],
            ["%0"],
            [None],
            [(32, 32)],
            "f",
            "",
            id="creation",
        ),
        pytest.param(
            '%1 = "ttnn.constant"(%0) <{value = dense_resource<__elided__> : tensor<8x8xf32>}> : (!ttnn.device) -> '
            f'{L} loc("c")',
            "ttnn.constant",
            ["%1"],
            ["%0"],
            [None],
            [(32, 32)],
            "c",
            "",
            id="elided constant",
        ),
        pytest.param(
            f'%6 = "ttnn.add"(%2, %4, %5) <{{operandSegmentSizes = array<i32: 2, 1>}}> : ({L}, {L}, {L}) -> {L} '
            'loc("a")',
            "ttnn.add",
            ["%6"],
            ["%2", "%4", "%5"],
            [(32, 32)] * 3,
            [(32, 32)],
            "a",
            "",
            id="destination passing style",
        ),
        pytest.param(
            f'%6 = "ttnn.add"(%2) <{{note = "a -> (b) : (%9) }}> loc(\\22x\\22)"}}> '
            f'{{hint = "%8 : (tensor<1xf32>) -> tensor<2xf32>", map = {{a = [1, 2]}}}} : ({L}) -> {L} loc("a")',
            "ttnn.add",
            ["%6"],
            ["%2"],
            [(32, 32)],
            [(32, 32)],
            "a",
            "",
            id="strings full of brackets and arrows",
        ),
        pytest.param(
            f'%6 = "ttnn.add"(%2) {{hint = "%8", ssa = "%9#1"}} : ({L}) -> {L} loc("a")',
            "ttnn.add",
            ["%6"],
            ["%2"],
            [(32, 32)],
            [(32, 32)],
            "a",
            "",
            id="discardable attributes without properties",
        ),
        pytest.param(
            f'%3 = "ttnn.mesh_shard"(%arg0, %2) <{{shard_dims = array<i64: -1, 0>, shard_type = '
            f'#ttcore.shard_type<identity>}}> : ({TWO_MB}, !ttnn.device) -> {ONE_MB} loc("m")',
            "ttnn.mesh_shard",
            ["%3"],
            ["%arg0", "%2"],
            [(3072, 4096), None],
            [(1536, 4096)],
            "m",
            "",
            id="mesh_shard",
        ),
    ],
)
def test_operation_text(
    text: str,
    name: str,
    results: list[str],
    operands: list[str],
    operand_shapes: list[tuple[int, ...] | None],
    result_shapes: list[tuple[int, ...] | None],
    location: str,
    callee: str,
) -> None:
    profile, form = parsed(text)
    assert form.name == name
    assert list(form.results) == results
    assert list(form.operands) == operands
    assert shapes(profile, form.operand_types) == operand_shapes
    assert shapes(profile, form.result_types) == result_shapes
    assert profile.forms.location(0) == location
    assert form.callee == callee
    assert form.frees_input is False


@pytest.mark.parametrize(
    ("loc", "location"),
    [
        ('"add.8"', "add.8"),
        ('"gather.17_workaround"("gather.17")', "gather.17_workaround"),
        ('"a"("b"("c"))', "a"),
        ('"model.py":27:4', "model.py:27:4"),
        ('"model.py":27:4 to :19', "model.py:27:4"),
        ('"dot"("model.py":27:4)', "dot"),
        ("unknown", ""),
        ('fused["add.1", "mul.2"]', "add.1"),
        ('fused<"CSE">["add.1", "mul.2"]', "add.1"),
        ('fused<{pass = "a[0]"}>["add.1", "mul.2"]', "add.1"),
        ("fused[unknown, unknown]", ""),
        ('callsite("jit(main)/dot" at "model.py":10:1)', "jit(main)/dot"),
        ('callsite("jit(main)/dot"("a.py":1:2) at callsite("f" at "b.py":3:4))', "jit(main)/dot"),
        ('callsite(callsite("inner" at "x") at "y")', "inner"),
        (
            '"0|FirstModule[m1]|/repo/example.py:27|forward|28|aten__mm"',
            "0|FirstModule[m1]|/repo/example.py:27|forward|28|aten__mm",
        ),
        ('"-1|unknown|unknown|-1|aten__view"', "-1|unknown|unknown|-1|aten__view"),
        ('"a loc(b) : (c) -> (d)"', "a loc(b) : (c) -> (d)"),
        ('"say \\22hi\\22"', 'say "hi"'),
        ('"dir\\\\"("child")', "dir\\"),
        ('"café ✓"', "café ✓"),
        ('""', ""),
    ],
)
def test_location(loc: str, location: str) -> None:
    profile, form = parsed(f'%72 = "ttnn.add"(%69, %71) : ({L}, {L}) -> {L} loc({loc})')
    assert profile.forms.location(0) == location
    assert shapes(profile, form.operand_types) == [(32, 32), (32, 32)]
    assert shapes(profile, form.result_types) == [(32, 32)]


def test_a_wide_load_cached_has_all_its_results() -> None:
    # GIVEN `%0:106 = ttcore.load_cached(...)`, a line of tens of KB
    arguments = ", ".join(f"%arg{i}" for i in range(106))
    types = ", ".join([L] * 106)
    profile, form = parsed(
        f"%0:106 = ttcore.load_cached(@f_const_eval_0, [{arguments}]) : ({types}) -> ({types}) loc(unknown)"
    )
    assert form.results[105] == "%0#105"
    assert form.operands[105] == "%arg105"
    assert (len(form.result_types), len(form.operand_types)) == (106, 106)
    assert set(shapes(profile, form.result_types)) == {(32, 32)}


@pytest.mark.parametrize(
    ("config", "frees"),
    [
        ("deallocate_activation = true", True),
        ("deallocate_activation = false", False),
        ("weights_dtype = bf16", False),
    ],
)
def test_a_convolution_that_frees_its_input(config: str, frees: bool) -> None:
    _, form = parsed(
        f'%35 = "ttnn.conv2d"(%33, %34, %0) <{{batch_size = 8 : i32, conv2d_config = #ttnn.conv2d_config<{config}, '
        f"act_block_h_override = 32>, stride = array<i32: 1, 1>}}> : ({TWO_MB}, {L}, !ttnn.device) -> {TWO_MB} "
        'loc("conv.35")'
    )
    assert form.frees_input is frees


def test_repeated_lines_are_one_form_and_many_operations() -> None:
    log = Log()
    for _ in range(3):
        log.op(f'%1 = "ttnn.add"(%0, %0) : ({L}, {L}) -> {L} loc("add")')
        log.op(f'%2 = "ttnn.relu"(%1) : ({L}) -> {L} loc("relu")')
    profile = log.profile()
    assert only(profile).form.tolist() == [0, 1, 0, 1, 0, 1]
    assert len(profile.forms) == 2
    assert only(profile).line.tolist() == [1, 2, 3, 4, 5, 6]


def test_equal_types_are_one_type() -> None:
    log = Log()
    log.op(f'%1 = "ttnn.add"(%0, %0) : ({L}, {L}) -> {L} loc("add")')
    log.op(f'%2 = "ttnn.relu"(%1) : ({L}) -> {ONE_MB} loc("relu")')
    profile = log.profile()
    assert profile.tensor_types == (
        TensorType((32, 32), "bfloat16", "tile", "DRAM", "interleaved", 2048, 2048, 2048, 0),
        TensorType((1536, 4096), "bfloat16", "tile", "DRAM", "interleaved", 12582912, 12582912, 2048, 0),
    )
