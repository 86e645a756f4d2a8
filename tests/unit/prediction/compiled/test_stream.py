# SPDX-License-Identifier: Apache-2.0
"""A compiled module as a stream: what the module says is what is played."""

from __future__ import annotations

import random
import re
from contextlib import suppress

import pytest

from support.compiled_modules import function, height_shards, linear_layer, module, rows_of, tiles
from ttmem import TtmemError
from ttmem.base.errors import BadInputError
from ttmem.prediction.compiled import build_module_stream
from ttmem.prediction.request import Request
from ttmem.prediction.stream import INPUT, WEIGHT, Stream
from ttmem.readers.mlir.functions import read_modules


def stream(text: str, **settings: str) -> Stream:
    return build_module_stream(text.encode(), Request("layer.mlir", settings=settings))


def steps(made: Stream) -> list[dict[str, object]]:
    return [dict(step) for call in made.calls for step in call.steps]


def test_what_a_module_says_is_what_is_played() -> None:
    made = stream(linear_layer())
    assert [(one.name, one.role) for one in made.residents] == [("args_0", INPUT)]  # the weight is on the host
    assert [call.name for call in made.calls] == [
        *("ttcore.load_cached", "ttnn.get_device", "ttnn.to_device", "ttnn.to_layout", "ttnn.deallocate"),
        *("ttnn.deallocate", "ttnn.matmul", "ttnn.deallocate", "ttnn.deallocate"),
        *("ttnn.to_memory_config", "ttnn.deallocate"),
    ]
    done = [next(iter(step)) for step in steps(made)]
    assert done == ["alloc", "call", "free", "call", "free", "call", "free"]
    assert not made.unsupported


def test_const_eval_results_and_parameters_stay_inputs_go() -> None:
    freed = [step["free"] for step in steps(stream(linear_layer())) if "free" in step]
    assert freed == ["main_const_eval_0 %1", "args_0", "%1"]


def test_a_call_says_where_its_result_goes_and_what_it_is() -> None:
    *_, last = [step for step in steps(stream(linear_layer())) if "call" in step]
    shard = {"kind": "height", "shape": [32, 256], "ranges": [[0, 0, 1, 0]]}
    assert last["kwargs"] == {"memory_config": {"memory": "L1", "shard": shard}}
    form = {"shape": [64, 256], "dtype": "bfloat16", "layout": "tile", "memory": "L1", "shard": shard}
    assert last["makes"] == [form]


def test_locations_are_those_of_the_table_behind_the_module() -> None:
    places = {call.name: call.module for call in stream(linear_layer()).calls}
    assert places["ttnn.matmul"] == "dot.3"
    assert places["ttnn.to_memory_config"] == "dot.3_workaround"
    assert places["ttcore.load_cached"] == "layer.mlir:22"


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        (height_shards(64 * 61, 64, 61, grid_map=", (d0, d1) -> (0, d0 floordiv 8, d0 mod 8)"), None),
        (height_shards(64 * 61, 64, 61), None),
        (height_shards(64 * 8, 64, 8, "#ttnn.core_range<(0,0), (3,1)>"), [[0, 0, 3, 1]]),
    ],
)
def test_shards_of_both_grammars(text: str, ranges: list[list[int]] | None) -> None:
    rows = 64 * (61 if ranges is None else 8)
    argument = f"%arg0: tensor<{rows}x64xbf16, #l>"
    body = [f'%0 = "ttnn.relu"(%arg0) : (tensor<{rows}x64xbf16, #l>) -> tensor<{rows}x64xbf16, #l>', "return %0 : t"]
    made = stream(module({"l": text}, [function("forward", argument, "t", body)]))
    shard = made.residents[0].step["shard"]
    assert shard["shape"] == [64, 64]
    assert shard["ranges"] == (ranges or [[0, 0, 7, 6], [0, 7, 4, 7]])


def test_without_deallocations_tensors_go_after_their_last_use() -> None:
    kind = "tensor<64x64xbf16, #l>"
    body = [
        f'%0 = "ttnn.relu"(%arg0) : ({kind}) -> {kind}',
        f'%1 = "ttnn.exp"(%0) : ({kind}) -> {kind}',
        f'%2 = "ttnn.add"(%0, %1) : ({kind}, {kind}) -> {kind}',
        f"return %2 : {kind}",
    ]
    made = stream(module({"l": tiles(64, 64)}, [function("forward", f"%arg0: {kind}", kind, body)]))
    assert [call.frees for call in made.calls] == [(), (), ("%0", "%1")]
    assert any("last use" in sentence for sentence in made.assumed)


def test_people_write_statements_over_lines_with_comments_and_names() -> None:
    kind = "tensor<64x64xbf16, #l>"
    body = f"""\
    // CHECK: "ttnn.topk"(
    %values, %indices = "ttnn.topk"(%arg0)
        <{{ k = 2 : i32,  // how many
            dim = -1 : i32 }}>
        : ({kind}) -> ({kind}, {kind})
    %odd = "ttnn.frobnicate"(%values) : ({kind}) -> {kind}
    func.return %odd : {kind}"""
    made = stream(module({"l": tiles(64, 64)}, [function("forward", f"%arg0: {kind}", kind, [body])]))
    first, second = made.calls
    assert first.steps[0]["out"] == ["%values", "%indices"]
    assert first.steps[0]["args"] == [{"tensor": "%arg0"}, 2, -1]
    assert second.unsupported == "no call is known for ttnn.frobnicate"
    assert second.steps[0] == {
        "alloc": "%odd",
        "shape": [64, 64],
        "dtype": "bfloat16",
        "layout": "tile",
        "memory": "DRAM",
    }


def test_tensors_on_the_host_cost_the_device_nothing() -> None:
    device, host = "tensor<64x64xbf16, #l>", "tensor<64x64xbf16, #h>"
    body = [
        f'%0 = "ttnn.from_device"(%arg0) : ({device}) -> {host}',
        f'%1 = "ttnn.typecast"(%0) <{{dtype = #ttcore.supportedDataTypes<f32>}}> : ({host}) -> {host}',
        f"return %1 : {host}",
    ]
    layouts = {"l": tiles(64, 64), "h": rows_of(64, 64)}
    made = stream(module(layouts, [function("forward", f"%arg0: {device}", host, body)]))
    assert not steps(made)


def test_of_a_log_the_ttnn_stage_counts() -> None:
    end = "------------------ END OF MLIR MODULE ------------------"
    other = 'func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {\n%0 = "ttir.relu"(%arg0) : (t) -> t\nreturn %0\n}'
    log = f"x | 1| MLIR Module ttir:\n{other}\n{end}\nx | 1| MLIR Module ttnn:\n{linear_layer()}\n{end}\nmore\n"
    made = stream(log)
    assert made.name == "SyncTensorsGraph.7.main"
    assert [one.name for one in read_modules(log.encode())] == ["SyncTensorsGraph.7"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no TTNN module"),
        ('module { func.func @f(%a: t) -> t {\n "ttir.relu"(%a) : (t) -> t\nreturn } }', "no TTNN module"),
        (linear_layer().partition("    } loc(#loc)\n  }")[0].rpartition("return")[0], "ends inside @main"),
        (linear_layer().replace("(%arg0, %0) <{", "(%arg0, (%0) <{"), "not closed"),
    ],
)
def test_what_is_no_module_is_bad_input_with_its_place(text: str, says: str) -> None:
    with pytest.raises(TtmemError, match=says) as raised:
        stream(text)
    assert raised.value.exit_code == 2
    assert raised.value.where.startswith("layer.mlir")
    assert raised.value.hint


def test_a_wrong_choice_names_what_there_is() -> None:
    with pytest.raises(TtmemError, match="no function 'other'") as raised:
        stream(linear_layer(), function="other")
    assert "main" in raised.value.hint
    with pytest.raises(TtmemError, match="no graph '3'"):
        stream(linear_layer(), graph="3")


def test_parameters_on_the_device_are_weights() -> None:
    text = linear_layer().replace("#host = " + rows_of(128, 256), "#host = " + tiles(128, 256))
    assert [(one.name, one.role) for one in stream(text).residents] == [("args_0", INPUT), ("layer.weight", WEIGHT)]


def _damaged(text: bytes, choose: random.Random) -> bytes:
    made = bytearray(text)
    for _ in range(choose.randint(1, 5)):
        at, other = choose.randrange(len(made)), choose.randrange(len(made))
        match choose.randrange(4):
            case 0:
                made[at] = choose.randrange(256)
            case 1:
                del made[at : at + choose.randint(1, 40)]
            case 2:
                made[at:at] = made[other : other + choose.randint(1, 60)]
            case _:
                numbers = list(re.finditer(rb"\d+", made))
                found = choose.choice(numbers)
                made[found.start() : found.end()] = str(choose.choice([0, -1, 1 << 31, 1 << 63, 10**40])).encode()
    return bytes(made)


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_module_is_read_or_bad_input(seed: int) -> None:
    choose = random.Random(seed)
    text, read = linear_layer().encode(), 0
    for _ in range(60):
        with suppress(BadInputError):
            build_module_stream(_damaged(text, choose), Request("layer.mlir"))
            read += 1
    assert read  # most damage leaves something to play


PROGRAM = """\
#config = #ttnn.matmul_multi_core_reuse_multi_cast_1d_program_config<
  compute_with_storage_grid_size = #ttnn.core_coord<8, 2>, in0_block_w = 2,
  out_subblock_h = 1, out_subblock_w = 2, per_core_m = 2, per_core_n = 2, fuse_batch = true,
  fused_activation = #ttnn.unary_with_param<op_type = silu>, mcast_in0 = true, hop_cores = #ttnn.core_range_set<>
>
"""


def test_how_the_compiler_deals_a_program_out_is_passed_on() -> None:
    # GIVEN a product with a configuration that an alias of several lines stands for
    text = PROGRAM + linear_layer().replace(
        "transpose_b = false", "matmul_program_config = #config, compute_config = "
        "#ttnn.device_compute_kernel_config<math_fidelity = hifi4, fp32_dest_acc_en = true>, transpose_b = false"
    )  # fmt: skip
    (product,) = [step for step in steps(stream(text)) if step.get("call") == "ttnn.matmul"]
    given = product["kwargs"]
    assert isinstance(given, dict)
    # THEN the call is given the library's own objects
    assert given["program_config"]["new"] == "ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig"
    assert given["program_config"]["kwargs"] == {
        "compute_with_storage_grid_size": {"tuple": [8, 2]},
        "in0_block_w": 2,
        "out_subblock_h": 1,
        "out_subblock_w": 2,
        "per_core_M": 2,
        "per_core_N": 2,
        "fuse_batch": True,
        "mcast_in0": True,
        "fused_activation": {
            "new": "ttnn.UnaryWithParam",
            "args": [{"attribute": "ttnn.UnaryOpType.SILU"}],
            "kwargs": {},
        },
    }
    assert given["compute_kernel_config"] == {
        "new": "ttnn.WormholeComputeKernelConfig",
        "kwargs": {"math_fidelity": {"attribute": "ttnn.MathFidelity.HiFi4"}, "fp32_dest_acc_en": True},
    }
