# SPDX-License-Identifier: Apache-2.0
"""Module dumps: the registry of weights, from every graph, wherever the dump stands (log-formats 4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.log_lines import Log
from ttmem.analysis.weights import weights
from ttmem.base.errors import BadInputError
from ttmem.profile.model import GraphArgument, Profile
from ttmem.readers import read
from unit.readers.test_states import small_run

LOGURU = "2026-05-14 01:00:0{}.033 (   0.033s) [        4F4456C0]    module_builder.cc:1087      1| MLIR Module {}:"
END = "------------------ END OF MLIR MODULE ------------------"
_MAP = "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<"
ALIASES = f"""\
#dram = #ttnn.buffer_type<dram>
#loc = loc(unknown)
#system_memory = #ttnn.buffer_type<system_memory>
#ttnn_layout = {_MAP}2x2x!ttcore.tile<32x32, bf16>, #dram>, <interleaved>>
#ttnn_layout1 = {_MAP}64x64xbf16, #system_memory>>
#ttnn_layout2 = {_MAP}2x2x!ttcore.tile<32x32, bfp_bf8>, #dram>, <interleaved>>
"""


def argument(
    position: int, type_: str, kind: str | None = None, name: str | None = None, *, more: str = "", loc: str = ""
) -> str:
    """One argument of a signature."""
    keys = [f"ttcore.argument_type = #ttcore.argument_type<{kind}>"] if kind else []
    keys += [more] if more else []
    keys += [f'ttir.name = "{name}"'] if name is not None else []
    attributes = f" {{{', '.join(keys)}}}" if keys else ""
    return f"%arg{position}: {type_}{attributes}" + (f" loc({loc})" if loc else "")


def module(
    *arguments: str,
    stage: str = "ttnn",
    name: str = "SyncTensorsGraph.19",
    head: str = "func.func @main",
    aliases: str = ALIASES,
    second: int = 0,
) -> str:
    """A dump with its header and END line."""
    return f"""{LOGURU.format(second, stage)}
{aliases}module @{name} attributes {{mhlo.is_dynamic = false, ttcore.meshes = #ttcore.meshes<[<"mesh" = 1x1>]>}} {{
  ttcore.device_module {{
    builtin.module @{name} attributes {{mhlo.is_dynamic = false}} {{
      {head}({", ".join(arguments)}) -> (tensor<64x64xbf16, #ttnn_layout>) {{
        %0 = "ttnn.relu"(%arg0) : (tensor<64x64xbf16, #ttnn_layout>) -> tensor<64x64xbf16, #ttnn_layout> loc(#loc)
        return %0 : tensor<64x64xbf16, #ttnn_layout> loc(#loc)
      }} loc(#loc)
    }} loc(#loc)
  }} loc(#loc)
}} loc(#loc)
#loc1 = loc("gather.17")
{END}
"""


ON_DEVICE = "tensor<64x64xbf16, #ttnn_layout>"
ON_HOST = "tensor<64x64xbf16, #ttnn_layout1>"
BFP8 = "tensor<64x64xbf16, #ttnn_layout2>"


def log_with(*dumps: str, after_the_run: bool = False, prefix: str = "") -> Log:
    """A log with these dumps before or after its run."""
    log = Log(prefix=prefix)
    if after_the_run:
        small_run(log)
        log.line("----------------------------- Captured stderr call -----------------------------")
    for dump in dumps:
        for line in dump.strip("\n").split("\n"):
            log.line(prefix.replace("stdout", "stderr") + line)
    if not after_the_run:
        small_run(log)
    return log


def registered(profile: Profile) -> list[tuple[str, str, tuple[int, ...], str, int, bool | None]]:
    return [(a.name, a.kind, a.shape, a.dtype, a.bytes, a.on_device) for a in profile.arguments]


THREE = (
    argument(0, ON_DEVICE, "input", "args_0", loc='"p0.1"'),
    argument(1, ON_HOST, "parameter", "l__self___w", loc='"p1.15"'),
    argument(2, BFP8, "constant", "rope", more="ttcore.kv_cache"),
)
THREE_REGISTERED = [
    ("args_0", "input", (64, 64), "bfloat16", 8192, True),
    ("l__self___w", "parameter", (64, 64), "bfloat16", 8192, False),
    ("rope", "constant", (64, 64), "bfloat8_b", 4352, True),
]


@pytest.mark.parametrize("after_the_run", [False, True], ids=["before the run", "pytest capture"])
def test_arguments_of_a_graph(after_the_run: bool) -> None:
    profile = log_with(module(*THREE), after_the_run=after_the_run).profile()
    assert registered(profile) == THREE_REGISTERED
    assert [argument.position for argument in profile.arguments] == [0, 1, 2]
    assert [argument.kv_cache for argument in profile.arguments] == [False, False, True]
    assert [(w.name, w.bytes, w.where) for w in weights(profile).entries] == [
        ("l__self___w", 8192, "host"),
        ("rope", 4352, "device"),
    ]
    assert profile.source.unrecognised_lines == 0


@pytest.mark.parametrize("prefix", ["2026-05-14T01:00:31.7551234Z ", "[1,0]<stdout>:", "(EngineCore pid=57085) "])
def test_a_prefix_on_every_line_of_a_dump(prefix: str) -> None:
    log = log_with(module(*THREE), prefix=prefix)
    if "pid" in prefix:  # vLLM marks Python lines only; the dump itself is raw
        log = log_with(module(*THREE))
    assert registered(log.profile()) == THREE_REGISTERED


def test_ci_times_that_begin_late_still_come_off_a_dump() -> None:
    # GIVEN a log whose first half has no times: the splitter cannot decide by its head
    log = small_run(Log())
    for line in module(*THREE).strip("\n").split("\n"):
        log.line("2026-05-14T01:00:31.7551234Z " + line)
    assert registered(log.profile()) == THREE_REGISTERED


def test_all_stages_of_one_graph_are_one_graph() -> None:
    # GIVEN the stages of a graph: only the last one knows layouts, early ones know no kinds
    plain = [argument(0, "tensor<64x64xbf16>", loc='"p0.1"'), argument(1, "tensor<64x64xbf16>", loc='"p1.15"')]
    annotated = [
        argument(0, "tensor<64x64xbf16>", "input", "args_0"),
        argument(1, "tensor<64x64xbf16>", "parameter", "l__self___w"),
    ]
    stages = [
        module(*plain, stage="vhlo", aliases=""),
        module(*plain, stage="shlo", aliases=""),
        module(*annotated, stage="shlo_frontend", aliases=""),
        module(*annotated, stage="shlo_compiler", aliases=""),
        module(*annotated, stage="ttir", aliases=""),
        module(*THREE[:2], stage="ttnn"),
        module(*THREE[:2], stage="ttnn_runtime"),
    ]
    assert registered(log_with(*stages).profile()) == THREE_REGISTERED[:2]
    # AND without the ttnn stages the ttir stage tells the weights, but not where they lie
    assert registered(log_with(*stages[:5]).profile()) == [
        ("args_0", "input", (64, 64), "bfloat16", 8192, None),
        ("l__self___w", "parameter", (64, 64), "bfloat16", 8192, None),
    ]


@pytest.mark.parametrize("second", [0, 7], ids=["equal headers", "other time"])
def test_two_graphs_with_two_dumps_share_their_weights(second: int) -> None:
    # GIVEN prefill and decode: the second dump repeats the aliases and a weight of the first
    prefill = module(*THREE[:2], name="SyncTensorsGraph.19")
    decode = module(
        argument(0, ON_DEVICE, "input", "args_0"),
        argument(1, ON_HOST, "parameter", "l__self___w", loc='"p1.15"'),
        argument(2, ON_DEVICE, "parameter", "lm_head"),
        name="SyncTensorsGraph.33",
        second=second,
    )
    profile = log_with(prefill, decode).profile()
    assert registered(profile) == [
        *THREE_REGISTERED[:2],
        *THREE_REGISTERED[:2],
        ("lm_head", "parameter", (64, 64), "bfloat16", 8192, True),
    ]
    graphs = [argument.graph for argument in profile.arguments]
    assert len(set(graphs)) == 2
    assert graphs[0] == graphs[1] != graphs[2] == graphs[4]
    found = weights(profile)
    assert (found.count, found.bytes) == (2, 16384)


@pytest.mark.parametrize("second", [0, 7], ids=["equal headers", "other time"])
def test_the_same_graph_dumped_twice_keeps_its_layouts(second: int) -> None:
    # GIVEN a recompilation: every line of the second dump was seen before
    profile = log_with(module(*THREE), module(*THREE, second=second)).profile()
    assert registered(profile) == THREE_REGISTERED + THREE_REGISTERED
    assert weights(profile).count == 2


def test_two_ranks_dump_the_same_graph_line_by_line() -> None:
    log = Log()
    for line in module(*THREE).strip("\n").split("\n"):
        log.line("[1,0]<stderr>:" + line)
        log.line("[1,1]<stderr>:" + line)
    log.raw(small_run(Log(prefix="[1,0]<stdout>:")).bytes())
    log.raw(small_run(Log(prefix="[1,1]<stdout>:")).bytes())
    profile = log.profile()
    assert registered(profile) == THREE_REGISTERED + THREE_REGISTERED
    assert weights(profile).count == 2


def test_jax_has_a_public_main_and_often_no_names() -> None:
    # GIVEN arguments named by their location, by nothing, or not marked at all
    dump = module(
        argument(0, ON_DEVICE, "input", loc='"args[0]"'),
        argument(1, ON_DEVICE, "parameter", loc="unknown"),
        argument(2, ON_DEVICE, loc='"state"'),
        name="jit_f",
        head="func.func public @main",
    )
    profile = log_with(dump).profile()
    assert registered(profile) == [
        ("args[0]", "input", (64, 64), "bfloat16", 8192, True),
        ("%arg1", "parameter", (64, 64), "bfloat16", 8192, True),
        ("state", "unknown", (64, 64), "bfloat16", 8192, True),
    ]
    assert profile.arguments[0].graph.startswith("jit_f")


def test_repeated_names_are_told_apart_by_shape() -> None:
    dump = module(
        argument(0, ON_DEVICE, "parameter", "w"),
        argument(1, ON_DEVICE, "parameter", "w"),
        argument(2, "tensor<64x32xbf16, #ttnn_layout1>", "parameter", "w"),
    )
    found = weights(log_with(dump).profile())
    assert [(weight.name, weight.shape, weight.bytes) for weight in found.entries] == [
        ("w", (64, 64), 8192),
        ("w", (64, 32), 4096),
    ]


@pytest.mark.parametrize(
    "key",
    [
        "ttcore.local_shape = #ttcore<local_shape local_shape = tensor<64x16xbf16>>, ttcore.shard_status = <pre>",
        "ttcore.runtime_tensor_sharding = #ttcore<runtime_tensor_sharding s = <u>, local_shape = tensor<64x16xbf16>>",
    ],
    ids=["local_shape", "runtime_tensor_sharding"],
)
def test_a_sharded_argument_counts_its_part_on_one_chip(key: str) -> None:
    profile = log_with(module(argument(0, ON_DEVICE, "parameter", "w", more=key))).profile()
    assert registered(profile) == [("w", "parameter", (64, 16), "bfloat16", 2048, True)]


def test_a_sharded_bfp8_argument_counts_as_it_is_stored() -> None:
    key = "ttcore.local_shape = #ttcore<local_shape local_shape = tensor<64x32xbf16>>"
    profile = log_with(module(argument(0, BFP8, "parameter", "w", more=key))).profile()
    assert registered(profile) == [("w", "parameter", (64, 32), "bfloat8_b", 2176, True)]


@pytest.mark.parametrize(
    ("type_", "local", "shape", "byte_count"),
    [
        # A rotary table of a JAX model: complex numbers are pairs on the device, the annotation keeps its old type.
        ("tensor<16x8x2xf32>", "tensor<16x8xcomplex<f32>>", (16, 8, 2), 1024),
        ("tensor<16x8x2xf32>", "tensor<8x8xcomplex<f32>>", (8, 8, 2), 512),
        ("tensor<16x8xcomplex<f32>>", "tensor<8x8xcomplex<f32>>", (8, 8, 2), 512),
        ("tensor<16x8xcomplex<f32>>", "tensor<16x8xcomplex<f32>>", (16, 8, 2), 1024),
        ("tensor<16xsi32>", "tensor<16xi64>", (16,), 64),
        # A type that is the chip's own already, and an annotation that fits nothing.
        ("tensor<8x8xf32>", "tensor<16x8xf32>", (8, 8), 256),
        ("tensor<9x8xf32>", "tensor<5x8xf32>", (9, 8), 288),
    ],
)
def test_a_sharded_constant_of_a_jax_module_counts_what_a_chip_holds(
    type_: str, local: str, shape: tuple[int, ...], byte_count: int
) -> None:
    key = f"ttcore.local_shape = #ttcore<local_shape local_shape = {local}>, ttcore.shard_status = <presharded>"
    text = argument(0, type_, "constant", more=key, loc='"freqs"')
    (found,) = weights(
        log_with(module(text, stage="ttir", head="func.func public @main", name="jit_f")).profile()
    ).entries
    assert (found.name, found.kind, found.shape, found.bytes) == ("freqs", "constant", shape, byte_count)


def test_attributes_with_commas_braces_and_arrows_inside() -> None:
    dump = module(
        argument(0, ON_DEVICE, "input", "a", more='mhlo.sharding = "{devices=[1,2]<=[2]}"'),
        argument(
            1, ON_DEVICE, "parameter", "b, c {d} (e) %arg9: x", more='sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>'
        ),
        argument(2, ON_DEVICE, "parameter", "say \\22hi\\22, caf\\C3\\A9"),
    )
    assert [a.name for a in log_with(dump).profile().arguments] == ["a", "b, c {d} (e) %arg9: x", 'say "hi", café']


def test_the_spelling_before_2025_06() -> None:
    dump = module(
        "%arg0: tensor<64x64xbf16, #ttnn_layout> {tt.argument_type = #tt.argument_type<parameter>, "
        'ttir.name = "l__self___conv1_conv_bias"} loc("p0.1")',
        head="func.func @forward",
    )
    assert registered(log_with(dump).profile()) == [
        ("l__self___conv1_conv_bias", "parameter", (64, 64), "bfloat16", 8192, True)
    ]


@pytest.mark.parametrize(
    "other",
    [
        "func.func private @main_const_eval_0({0}) -> {1} attributes {{const_eval}} {{",
        "func.func @main_const_eval_0({0}) -> {1} attributes {{const_eval}} {{",
        'func.func private @main_const_eval_0({0}) -> {1} attributes {{tt.function_type = "const_eval"}} {{',
        'func.func @main_const_eval_0({0}) -> {1} attributes {{tt.function_type = "const_eval"}} {{',
        'func.func @run_and_capture_trace_0_main({0}) -> {1} attributes {{tt.function_type = "trace"}} {{',
        'func.func @renamed({0}) -> {1} attributes {{tt.function_type = "const_eval"}} {{',
        "func.func @cpu_hoisted_stablehlo_convert_c1b2a3({0}) -> {1} {{",
        "func.func private @trace_0_main({0}) -> {1} {{",
    ],
)
def test_functions_that_the_entry_calls_have_no_weights_of_their_own(other: str) -> None:
    # GIVEN a called function whose arguments carry the annotations of the entry's
    called = other.format(argument(0, ON_HOST, "parameter", "copied"), ON_DEVICE)
    dump = module(*THREE).replace(
        "      func.func @main", f"      {called}\n      }} loc(#loc)\n      func.func @main", 1
    )
    assert registered(log_with(dump).profile()) == THREE_REGISTERED


def test_a_dump_without_its_end_line_ends_with_the_next_record() -> None:
    dump = module(*THREE).replace(END + "\n", "")
    assert registered(log_with(dump).profile()) == THREE_REGISTERED


def test_a_signature_that_the_file_cuts_keeps_the_arguments_before_the_cut() -> None:
    content = small_run(Log()).bytes() + module(*THREE).encode()
    log = Log()
    log.raw(content[: content.index(b"%arg2: ") + 9])
    assert registered(log.profile())[:2] == THREE_REGISTERED[:2]


def test_a_module_file_of_its_own(tmp_path: Path) -> None:
    # GIVEN what export_path writes: the module without log lines
    text = "\n".join(module(*THREE).split("\n")[1:-2])
    path = tmp_path / "ttnn_resnet_1716.mlir"
    path.write_text(text)
    profile = read(path)
    assert registered(profile) == THREE_REGISTERED
    assert (profile.name, profile.source.kind, profile.timelines) == ("ttnn_resnet_1716", "mlir-module", ())
    # AND it can stand beside a log that has no dumps
    log = tmp_path / "run.log"
    log.write_bytes(small_run(Log()).bytes())
    assert registered(read(log, mlir=[path])) == THREE_REGISTERED


def test_a_module_file_without_annotations_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "shlo.mlir"
    path.write_text("module @m {\n  func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {\n  }\n}\n")
    with pytest.raises(BadInputError) as refused:
        read(path)
    assert "ttir or ttnn stage" in refused.value.hint


def test_the_graph_number_is_part_of_an_argument() -> None:
    profile = log_with(module(THREE[0])).profile()
    assert profile.arguments == (
        GraphArgument("SyncTensorsGraph.19#0", 0, "args_0", (64, 64), "bfloat16", "input", 8192, True, False),
    )


IR_DUMP = "// -----// IR Dump After {} (ttnn-{}) ('builtin.module' operation: @SyncTensorsGraph.19) //----- //"


def ir_dump(name: str, *arguments: str) -> str:
    """What VERBOSE prints for every pass: a module without the logger's header and without an END line."""
    body = "\n".join(module(*arguments).split("\n")[1:-2])
    return f"{IR_DUMP.format(name, name.lower())}\n{body}\n"


def test_dumps_of_every_pass_between_the_stages_count_nothing() -> None:
    # GIVEN VERBOSE: many more modules than stages, with arguments in all states of annotation
    half_done = argument(0, ON_DEVICE, "parameter", "half_done")
    dumps = [
        ir_dump("Canonicalizer", half_done),
        module(*THREE, stage="ttir"),
        ir_dump("TTNNLayout", half_done),
        ir_dump("TTNNDeallocate", half_done),
        module(*THREE, stage="ttnn", second=3),
        ir_dump("Final", half_done),
    ]
    assert registered(log_with(*dumps).profile()) == THREE_REGISTERED


def test_dumps_of_every_pass_after_stages_without_end_lines() -> None:
    old = module(*THREE).replace(END + "\n", "")
    assert registered(log_with(old, ir_dump("Final", argument(0, ON_DEVICE, "parameter", "x"))).profile()) == (
        THREE_REGISTERED
    )


def test_a_file_of_pass_dumps_tells_its_last_state(tmp_path: Path) -> None:
    # GIVEN what --mlir-print-ir-after-all prints, saved to a file
    path = tmp_path / "passes.mlir"
    path.write_text(ir_dump("First", argument(0, ON_DEVICE, "parameter", "early")) + ir_dump("Last", *THREE))
    assert registered(read(path)) == THREE_REGISTERED


def test_two_entries_of_one_module_both_count() -> None:
    second = f"func.func @decode({argument(0, ON_DEVICE, 'parameter', 'only_decode')}) -> () {{"
    dump = module(*THREE[:1]).replace(
        "      func.func @main", f"      {second}\n      }} loc(#loc)\n      func.func @main", 1
    )
    assert [a.name for a in log_with(dump).profile().arguments] == ["only_decode", "args_0"]
