# SPDX-License-Identifier: Apache-2.0
"""The log generator against itself and against the description of the formats.

The logs are read back by `loggen.audit`, which is deliberately naive and shares nothing with the rest of the package.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loggen import GenerationError, OptionError, Options, generate
from loggen.__main__ import main
from loggen.audit import ANSI, OOM, OP, VIEW, Replay, check_counts_and_peaks, messages, names, of_rank
from loggen.chips import CHIPS
from loggen.options import FEATURES
from loggen.pools import Pool
from loggen.tensors import TypeFactory
from support.examples import examples

pytestmark = pytest.mark.slow


@lru_cache(maxsize=64)
def make(**changes: Any) -> tuple[bytes, dict[str, Any]]:
    stream = io.BytesIO()
    truth = generate(Options(**changes), stream)
    return stream.getvalue(), truth


LOOKS: dict[str, dict[str, Any]] = {
    "default": {},
    "blackhole ansi": {"arch": "blackhole", "ansi": True},
    "plain": {"without": frozenset(FEATURES)},
    "debug blocks and submit": {"debug_blocks": True, "submit": True},
    "ops off": {"ops_off": True},
    "ops off, submit": {"ops_off": True, "submit": True},
    "blocks off": {"blocks_off": True},
    "disturbed": {"interleave": 0.3, "noise": 0.3, "bad_utf8": True, "ansi": True},
    "ci crlf vllm": {"crlf": True, "ci_prefix": True, "vllm_prefix": True, "noise": 0.2},
    "pytest": {"pytest_capture": True, "noise": 0.1},
    "jax": {"jax": True, "seed": 3},
    "mesh": {"local_shape": True, "seed": 4},
    "retained": {"retained": True},
    "trace": {"trace": True, "retained": True, "runs": 4},
    "bfp8": {"bfp8": True, "seed": 5},
    "old grammar": {"old_grammar": "tt", "bfp8": True},
    "exact grid": {"old_grammar": "exact-grid"},
    "graphs": {"graphs": 3, "runs": 8},
    "leak": {"leak_bytes_per_bank_per_run": 50_000, "runs": 6},
    "leak below the printed digits": {"seed": 4, "leak_bytes_per_bank_per_run": 32, "runs": 5},
    "exception": {"exception_then_run": True},
    "unique": {"unique_ops": True, "layers": 9},
    "fragmented": {"oom": "v3", "oom_cause": "fragmented"},
}


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_truth_equals_plain_counting(look: str) -> None:
    log, truth = make(**LOOKS[look])
    assert truth["log_bytes"] == len(log)
    assert truth["log_lines"] == log.count(b"\n")
    assert truth["sha256"] == hashlib.sha256(log).hexdigest()
    check_counts_and_peaks(of_rank(log, 0), truth)


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_samples_and_runs_point_into_the_log(look: str) -> None:
    log, truth = make(**LOOKS[look])
    ops = [line for line in of_rank(log, 0) if OP.match(line)]
    assert truth["samples"] or not ops
    for sample in truth["samples"]:
        line = ANSI.sub("", log[sample["byte_offset"] :].partition(b"\n")[0].decode(errors="replace")).rstrip("\r")
        assert line.endswith(ops[sample["index"]])
        assert line.endswith(f"loc({sample['loc_text']})")
        assert sample["loc"] in sample["loc_text"].replace('"', "")
    for run in truth["runs"]:
        part = of_rank(log[run["byte_start"] : run["byte_end"]], 0)
        if ops:
            assert names(part) == names(ops[run["first_index"] : run["last_index"] + 1])
            assert part.count("Finished execution of program: main") == run["finished"]
    assert truth["n_runs"] == len(truth["runs"])


@pytest.mark.parametrize(
    "look", ["default", "blackhole ansi", "plain", "disturbed", "mesh", "retained", "bfp8", "exact grid", "old grammar"]
)
def test_every_printed_block_follows_from_the_op_texts(look: str) -> None:
    # GIVEN a log, and the bytes that were on the device before the first op line
    log, truth = make(**LOOKS[look])
    chip = CHIPS[truth["arch"]]
    replay = Replay(chip.dram_banks, chip.quantum_bytes)
    before = truth["samples"][0]["dram_bytes"]
    # WHEN its op lines are replayed
    checked = 0
    for line in of_rank(log, 0):
        if match := VIEW.match(line):
            if match[1] not in ("DRAM", "L1"):
                continue
            expected = replay.used[match[1]] + (before if match[1] == "DRAM" else 0)
            # THEN each block shows the state before its op, to the printed digit
            assert match[4] == f"{expected / 2**20:.3f}", replay.pending
            checked += 1
        elif not line.startswith("Device memory state"):
            replay.feed(line)
    assert checked == 2 * truth["blocks"]["before operation"]
    assert truth["end_bytes_per_bank"]["DRAM"] == before + replay.used["DRAM"]


def test_same_options_same_bytes() -> None:
    stream = io.BytesIO()
    options = Options(seed=9, noise=0.2, interleave=0.2, graphs=2)
    truth = generate(options, stream)
    again = io.BytesIO()
    assert generate(options, again) == truth
    assert again.getvalue() == stream.getvalue()
    assert make(seed=10, noise=0.2, interleave=0.2, graphs=2)[0] != stream.getvalue()


def test_sizes() -> None:
    log, truth = make(mb=2.0)
    last = truth["runs"][-1]
    assert len(log) >= 2_000_000 > last["byte_start"]
    assert make(runs=5)[1]["n_runs"] == 5
    truth = make(ops=1000)[1]
    assert truth["op_count"] >= 1000 > truth["runs"][-1]["first_index"]
    assert abs(len(make(unique_ops=True, mb=3.0)[0]) / 3e6 - 1) < 0.05
    assert abs(make(unique_ops=True, ops=3000)[1]["op_count"] / 3000 - 1) < 0.05


def test_the_whole_line_is_as_described() -> None:
    first = make(ansi=True, modules="none")[0].decode().split("\n")
    green, bold, grey, blue, normal = "\x1b[32m", "\x1b[1m", "\x1b[38;5;240m", "\x1b[38;5;69m", "\x1b[0m"
    always, ttnn = f"{green}                 Always{normal} | ", f"{green}            RuntimeTTNN{normal} | "
    debug, info = f"{bold}{grey}   DEBUG{normal} | ", f"{bold}{blue}    INFO{normal} | "
    assert first[1] == f"{always}{debug}Device grid size = {{ 8, 8 }}"
    assert first[2] == f"{ttnn}{debug}Starting execution of program: main"
    assert first[4] == f"{always}{info}Device memory state before operation GetDeviceOp"


PRESENT = {
    "sharded layouts": ({}, [r"<61x1>, memref<13x2x!ttcore", r"<block_sharded>, core_ranges = <\[#ttnn.core_range<"]),
    "multi-result": ({}, [r"%\d+:3 = ", r"\(%\d+#0, %\d+#1\)", r"%\d+:2 = \"ttnn.sort"]),
    "rank 0": ({}, [r"tensor<bf16, #ttnn.ttnn_layout<\(\) -> \(0, 0\)"]),
    "host": ({}, [r"#ttnn.buffer_type<system_memory>>>>"]),
    "in place": ({"graphs": 2}, [r"ttnn.paged_update_cache\".*-> \(\) loc", r"ttnn.fill_cache"]),
    "calls": ({}, [r"func.call @gate_fn_0\(%\d+\) : ", r"\{ttir.cpu_hoisted_call\} : ", r"before operation CpuOp"]),
    "cached": (
        {},
        [r"load_cached\(@main_const_eval_\d+, \[\]\)", r"with hash: [0-9a-f]{64}\n", r"executed sub-func: "],
    ),
    "conv": ({}, [r"deallocate_activation = true", r"before operation Pool2dOp"]),
    "locations": ({"layers": 12}, [r"loc\(unknown\)", r"loc\(fused\[", r'"\("', r"\|aten__", r'modeling.py":\d+:\d+']),
    "jax": (
        {"jax": True, "layers": 6},
        [r"func.func public @main", r"loc\(callsite\(", r"loc\(fused<", r"module @jit_"],
    ),
    "mesh": (
        {"local_shape": True},
        [r"ttcore.local_shape = #ttcore<local_shape", r"mesh_shard", r"all_gather", r"<=\[2\]"],
    ),
    "trace": (
        {"trace": True},
        [r"Trace cache miss, ", r"Trace cache hit, ", r"#ttnn.trace_id", r"execute_trace_0_main"],
    ),
    "bfp8": ({"bfp8": True}, [r"x\d+xbf16, [^>]*> \(|tile<32x32, bfp_bf8>", r"tensor<\d+x\d+xbf16, .{60,90}bfp_bf8"]),
    "old": (
        {"old_grammar": "tt", "bfp8": True},
        [r"!tt.tile<", r"d0 floordiv 8, d0 mod 8\)>", r"tensor<\d+x\d+x!tt.tile<"],
    ),
    "exact grid": ({"old_grammar": "exact-grid"}, [r"<height_sharded>, exactGrid = true"]),
    "debug blocks": ({"debug_blocks": True}, [r"Always \|    DEBUG \| Device DRAM memory state"]),
    "ci": ({"ci_prefix": True}, [r"(?m)^2026-05-14T\d\d:\d\d:\d\d\.\d{7}Z  +RuntimeTTNN"]),
    "vllm": ({"vllm_prefix": True}, [r"(?m)^\(EngineCore pid=\d+\) Got output"]),
    "noise": (
        {"noise": 0.9, "interleave": 0.9},
        [r"\r", r"MemoryView of a host", r"UserWarning", r"\| info     \| +Metal"],
    ),
    "dense": ({"dense_mb": 1.5}, [r'dense<"0x[0-9A-F]{1000000}']),
    "kv cache": ({}, [r"ttcore.kv_cache", r"#ttcore.argument_type<constant>"]),
}


@pytest.mark.parametrize("what", PRESENT, ids=str)
def test_what_was_asked_for_is_there(what: str) -> None:
    changes, patterns = PRESENT[what]
    text = make(**changes)[0].decode()
    for pattern in patterns:
        assert re.search(pattern, text), pattern


def test_blocks_are_five_lines_in_order() -> None:
    lines = of_rank(make()[0], 0)
    for i, line in enumerate(lines):
        if line.startswith("Device memory state before operation"):
            kinds = [match[1] for match in map(VIEW.match, lines[i + 1 : i + 5]) if match]
            assert kinds == ["DRAM", "L1", "L1_SMALL", "TRACE"]


@pytest.mark.parametrize("kind", ["v1", "v2", "v3", "dep", "outside"])
@pytest.mark.parametrize("cause", ["too-big", "capacity", "fragmented"])
def test_out_of_memory_prints_the_account(kind: str, cause: str) -> None:
    log, truth = make(oom=kind, oom_cause=cause, runs=1, modules="ttnn")
    found = {match.groups() for match in OOM.finditer(log.decode())}
    assert len(found) == 1
    assert len(OOM.findall(log.decode())) >= 2
    size, memory, banks, per_bank, per_bank_dep, *rest = found.pop()
    oom = truth["oom"]
    assert (int(size), memory, int(banks)) == (oom["requested_bytes"], oom["buffer"], oom["num_banks"])
    assert int(per_bank or per_bank_dep) == oom["bytes_per_bank"]
    printed = [None if n is None else int(n) for n in rest]
    full = [oom["bank_size"], oom["allocated_per_bank"], oom["free_per_bank"], oom["largest_free_per_bank"]]
    assert printed == {"v1": [None] * 4, "v2": [full[0], None, None, None]}.get(kind, full)
    assert oom["allocated_per_bank"] + oom["free_per_bank"] == oom["bank_size"]
    lines = of_rank(log, 0)
    if kind == "outside":
        assert (oom["op"], oom["index"]) == (None, None)
        assert lines[-1] == "Finished execution of program: main"
    else:
        assert oom["cause"] == cause
        assert names(lines)[-1] == oom["op"] == "ttnn.repeat"
        assert oom["index"] == truth["op_count"] - 1
        assert not truth["runs"][-1]["finished"]


@pytest.mark.parametrize("kind", ["clash", "clash-df", "overflow", "fatal"])
def test_other_failures(kind: str) -> None:
    log, truth = make(oom=kind, runs=1, modules="none")
    failure = truth["failure"]
    assert truth["oom"] is None
    assert log.decode().count(failure["message"]) == (1 if kind == "fatal" else 2)
    assert all(str(number) in failure["message"] for number in failure["numbers"].values())
    assert names(of_rank(log, 0))[-1] == failure["op"]
    assert make(oom="clash", old_grammar="tt", modules="none")[1]["failure"]["core_range"] == "[(x=0,y=0) - (x=7,y=7)]"


def test_exception_in_a_nested_program_then_a_new_run() -> None:
    log, truth = make(exception_then_run=True)
    (exception,) = truth["exceptions"]
    failed = truth["runs"][0]
    assert (failed["finished"], failed["last_index"]) == (False, exception["index"])
    lines = of_rank(log, 0)
    assert lines.count("Starting execution of program: main") == lines.count("Finished execution of program: main") + 1
    # everything the failed run allocated is gone, except what was already cached or came with the graph
    assert truth["runs"][1]["dram_bytes_before"] < truth["runs"][2]["dram_bytes_before"]


def test_no_op_text_repeats() -> None:
    ops = [line for line in of_rank(make(unique_ops=True, layers=40)[0], 0) if OP.match(line)]
    assert len(ops) > 1500
    assert len(set(ops)) == len(ops)


def test_dumps_carry_the_weights_and_the_op_sequence() -> None:
    log, truth = make(graphs=2, runs=2)
    text = log.decode()
    stages = re.findall(r"MLIR Module (\w+):\n", text)
    early = ["vhlo", "shlo", "shlo_frontend", "shlo_compiler", "shlo_set_mesh_attr", "shlo_compiler_cleaned"]
    assert stages == [*early, "ttir", "ttnn", "ttnn_runtime"] * 2
    assert text.count("------------------ END OF MLIR MODULE ------------------\n") == 18
    dumps = re.findall(r"MLIR Module ttnn:\n(.*?)-{18} END", text, re.DOTALL)
    argument = r"tensor<([\dx]+)x(\w+), #ttnn_layout\d*> \{ttcore.argument_type = "
    argument += (
        r"#ttcore.argument_type<(?:parameter|constant)>, ttcore.shard_status = #ttcore.shard_status<unsharded>, "
    )
    argument += r'ttir.name = "([^"]+)"'
    found = [match for dump in dumps for match in re.findall(argument, dump)]
    assert len(found) == truth["weights"]["count"]
    shapes = {(name, tuple(map(int, dims.split("x"))), dtype) for dims, dtype, name in found}
    assert shapes == {(w["name"], tuple(w["shape"]), w["dtype"]) for w in truth["weights"]["entries"]}
    assert len(shapes) == truth["weights"]["distinct_count"] < truth["weights"]["count"]
    assert len({name for name, _, _ in shapes}) < len(shapes)
    assert {w["argument_type"] for w in truth["weights"]["entries"]} == {"parameter", "constant"}
    # every alias that is used is defined, before or after the module
    for dump in dumps:
        for alias in ("loc", "ttnn_layout"):
            used, defined = set(re.findall(rf"#{alias}\d*\b", dump)), set(re.findall(rf"(?m)^(#{alias}\d*) = ", dump))
            assert used == defined
    # the ops of `main` in the dump are those the run executed outside nested programs
    executed = [[], []]
    depth, run = 0, -1
    for line in of_rank(log, 0):
        if line.startswith("Starting execution"):
            depth += 1
            run += depth == 1
        elif line.startswith("Finished execution"):
            depth -= 1
        elif depth == 1 and (match := OP.match(line)):
            executed[run].append((match[1], match[3]))
    for dump, ops in zip(dumps, executed, strict=True):
        main_text = dump.partition("func.func @main(")[2]
        assert [
            (m[1], m[3])
            for m in re.finditer(r'(?m)^ +(?:(%\d+)(?::(\d+))? = )?"?((?:ttnn|ttcore|func)\.\w+)"?', main_text)
        ] == ops
    # the same function name means another function in another graph
    hashes = re.findall(r"function (main_const_eval_0) with hash: (\w+)", text)
    assert len(set(hashes)) == 2


def test_ranks_are_interleaved_and_separate() -> None:
    log, truth = make(ranks=3, noise=0.1, interleave=0.1, oom="v3", runs=2)
    assert [t["rank"] for t in truth["ranks"]] == [0, 1, 2]
    order = [rank for rank, _, _ in messages(log)]
    assert sum(a != b for a, b in pairwise(order)) > len(order) / 4
    for rank, of_one in enumerate(truth["ranks"]):
        check_counts_and_peaks(of_rank(log, rank), of_one)
    assert truth["op_count"] == sum(t["op_count"] for t in truth["ranks"])
    assert [t["oom"] is not None for t in truth["ranks"]] == [False, False, True]
    assert all(re.match(rb"\[1,[012]\]<std(out|err)>:", line) for line in log.split(b"\n")[:-1])


def test_pytest_capture_puts_the_dumps_last() -> None:
    text = make(pytest_capture=True, oom="v1", runs=1)[0].decode()
    places = [
        text.index(part)
        for part in (
            "E       Out of Memory",
            "Captured stdout",
            "Executing operation",
            "Captured stderr",
            "MLIR Module ttnn:",
        )
    ]
    assert places == sorted(places)
    assert text.rindex("Executing operation") < text.index("Captured stderr")


def test_leak_and_growth() -> None:
    truth = make(leak_bytes_per_bank_per_run=50_000, runs=6, submit=True)[1]
    before = truth["growth"]["dram_bytes_before_run"]
    assert {b - a for a, b in pairwise(before[1:])} == {50_016}
    assert truth["growth"]["leak_bytes_per_bank_per_run"] == 50_016
    assert truth["peak_observed"]["DRAM"]["unattributed_bytes_per_bank"] == 5 * 50_016


@pytest.mark.parametrize("percent", [5, 40])
def test_a_planted_regression_lifts_the_peak(percent: int) -> None:
    before, after = make(seed=2)[1], make(seed=2, regress_pct=percent)[1]
    planted = after["regress"]
    grown = after["peak_observed"]["DRAM"]["bytes"] / before["peak_observed"]["DRAM"]["bytes"] - 1
    assert abs(grown * 100 - percent) < 2.5
    assert after["peak_observed"]["DRAM"]["caused_by_op"] == planted["op"] == "ttnn.softmax"
    assert after["peak_observed"]["DRAM"]["caused_by_loc"] == planted["loc"]
    assert planted["shape"][0] > planted["baseline_shape"][0]
    assert planted["shape"][1:] == planted["baseline_shape"][1:]
    assert after["op_histogram"] == before["op_histogram"]


def test_types_agree_with_known_figures() -> None:
    wormhole = TypeFactory(CHIPS["wormhole"], "head")
    # figures of public failure texts and logs
    assert wormhole.dram((8192, 201088), tiled=False).bytes_per_bank == 274_686_208
    assert wormhole.dram((1, 134720 * 32, 32), storage="bfp_bf8").bytes_per_bank == 12_214_976
    conv = wormhole.sharded((1, 1, 25088, 64), "height_sharded")
    assert "<61x1>, memref<13x2x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<l1>>, <height_sharded>" in conv.text
    assert (conv.bytes_per_bank, conv.padded_bytes) == (13 * 2 * 2048, 61 * 13 * 2 * 2048)
    packed = wormhole.dram((100, 32), storage="bfp_bf8")
    assert (packed.logical_sixteenths / 16, packed.padded_bytes) == (3400.0, 4 * 1088)
    assert wormhole.dram(()).text == (
        "tensor<bf16, #ttnn.ttnn_layout<() -> (0, 0), <1x1>, "
        "memref<1x1x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<dram>>, <interleaved>>>"
    )


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9)), max_size=60), st.booleans())
@examples(200)
def test_pool_is_first_fit_by_address(steps: list[tuple[bool, int]], top_down: bool) -> None:
    # GIVEN a pool and a bitmap of the same 40 units
    pool = Pool("DRAM", banks=1, size=40, quantum=1, top_down=top_down)
    cells, held = [False] * 40, []
    for allocate, n in steps:
        if allocate:
            starts = [a for a in range(41 - n) if not any(cells[a : a + n])]
            expected = None if not starts else (starts[-1] if top_down else starts[0])
            # THEN every address is the extreme one that fits
            assert pool.allocate(n) == expected
            if expected is not None:
                cells[expected : expected + n] = [True] * n
                held.append((expected, n))
        elif held:
            address, length = held.pop(n % len(held))
            pool.release(address, length)
            cells[address : address + length] = [False] * length
        runs = "".join(".#"[cell] for cell in cells).split("#")
        assert (pool.allocated, pool.largest_free) == (sum(cells), max(map(len, runs)))


FLAGS = ("ansi", "submit", "debug_blocks", "ops_off", "bad_utf8", "crlf", "ci_prefix", "vllm_prefix", "pytest_capture")
FLAGS += ("jax", "local_shape", "retained", "bfp8", "exception_then_run", "warmup")


@given(
    st.sets(st.sampled_from(FLAGS)),
    st.sets(st.sampled_from(FEATURES)),
    st.sampled_from([None, "v2", "v3", "outside", "overflow"]),
    st.integers(0, 10**6),
)
@examples(30)
def test_any_combination_keeps_its_truth(flags: set[str], without: set[str], oom: str | None, seed: int) -> None:
    stream = io.BytesIO()
    options = Options(
        **dict.fromkeys(flags, True),  # type: ignore[arg-type]
        seed=seed,
        without=frozenset(without),
        oom=oom,
        graphs=1 + seed % 2,
        arch=("wormhole", "blackhole")[seed % 3 % 2],
        old_grammar=("", "tt", "exact-grid")[seed % 3],
        noise=seed % 5 / 10,
        interleave=seed % 7 / 10,
        modules="ttnn",
    )
    truth = generate(options, stream)
    check_counts_and_peaks(of_rank(stream.getvalue(), 0), truth)


def test_command_line(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    log, truth = tmp_path / "a.log", tmp_path / "a.json"
    assert main(["-o", str(log), "--truth", str(truth), "--runs", "2", "--cut", "4321"]) == 0
    assert log.stat().st_size == 4321 == json.loads(truth.read_text())["log_bytes"]
    assert main(["-o", str(tmp_path / "b.log"), "--runs", "1", "--mb", "3"]) == 2
    assert "choose one of" in capsys.readouterr().err
    assert not (tmp_path / "b.log").exists()


def test_impossible_wishes_are_refused() -> None:
    with pytest.raises(OptionError, match="unique ops means one long run"):
        make(unique_ops=True, graphs=2)
    with pytest.raises(OptionError, match="unknown failure 'v9'"):
        make(oom="v9")
    with pytest.raises(GenerationError, match="device is full"):
        make(layers=3, leak_bytes_per_bank_per_run=400_000_000, modules="none")
