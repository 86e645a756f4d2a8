# SPDX-License-Identifier: Apache-2.0
"""Programs nest, restart their numbering, hit caches, are replayed from traces, and are cut off by exceptions."""

from __future__ import annotations

import pytest

from support.log_lines import DEVICE, HOST_TWO_MB, ONE_MB, TWO_MB, WORMHOLE, Log
from support.profile_questions import names, only, program_of_each_operation, programs, states
from ttmem.profile.model import CacheLookup
from ttmem.profile.runs import count_runs, find_runs

ADD = f'%1 = "ttnn.add"(%arg0, %arg0) : ({TWO_MB}, {TWO_MB}) -> {TWO_MB} loc("add.1")'
LOAD = f"%0 = ttcore.load_cached(@main_const_eval_0, [%arg1]) : ({HOST_TWO_MB}) -> {TWO_MB} loc(unknown)"
TO_DEVICE = f'%1 = "ttnn.to_device"(%arg0, %0) : ({HOST_TWO_MB}, !ttnn.device) -> {TWO_MB} loc("w")'
OUT_OF_MEMORY = (
    "2026-05-14 01:00:31.755 | critical |          Always | TT_FATAL: Out of Memory: Not enough space to allocate "
    "3294625792 B DRAM buffer across 12 banks, where each bank needs to store 274686208 B, but bank size is "
    "1071821792 B (allocated: 784847680 B, free: 286974112 B, largest free block: 216504544 B) (assert.hpp:104)"
)


def const_eval_miss(log: Log, *, key: str = "aa11", before: float = 0.0) -> None:
    """A load_cached that has to run its function first."""
    log.op(LOAD, before, kind="LoadCachedOp")
    log.load_cached("main_const_eval_0", key=key, hit=False)
    log.start("main_const_eval_0")
    log.op(DEVICE, before)
    log.op(TO_DEVICE, before)
    log.finish("main_const_eval_0")
    log.record("Always", "DEBUG", "executed sub-func: main_const_eval_0")


def test_const_eval_miss_then_hit() -> None:
    # GIVEN a first run that fills the cache and a second that finds it filled
    log = Log()
    log.start()
    const_eval_miss(log)
    log.op(ADD, 2.0)
    log.finish()
    log.start()
    log.op(LOAD, 4.0, kind="LoadCachedOp")
    log.load_cached("main_const_eval_0", key="aa11", hit=True)
    log.op(ADD, 4.0)
    log.finish()
    profile = log.profile()
    # THEN the nested program belongs to the operation that called it and to its run
    assert programs(profile) == [
        ("main", -1, 0, -1, 0, 4, True),
        ("main_const_eval_0", 0, 0, 0, 1, 3, True),
        ("main", -1, 1, -1, 4, 6, True),
    ]
    assert program_of_each_operation(profile) == [
        "main",
        "main_const_eval_0",
        "main_const_eval_0",
        "main",
        "main",
        "main",
    ]
    assert only(profile).lookups == (
        CacheLookup(0, "main_const_eval_0", "aa11", hit=False),
        CacheLookup(4, "main_const_eval_0", "aa11", hit=True),
    )
    assert count_runs(profile) == 2


def test_the_same_const_eval_name_with_another_hash_is_another_function() -> None:
    log = Log()
    for key in ("aa11", "bb22"):
        log.start()
        const_eval_miss(log, key=key)
        log.finish()
    assert [(lookup.key, lookup.hit) for lookup in only(log.profile()).lookups] == [("aa11", False), ("bb22", False)]


def test_an_old_runtime_prints_no_hash() -> None:
    log = Log()
    log.start()
    log.op(LOAD, 0.0)
    log.record("Always", "DEBUG", "Cache hit for function: main_const_eval_0")
    assert only(log.profile()).lookups == (CacheLookup(0, "main_const_eval_0", "main_const_eval_0", hit=True),)


def test_a_retained_deallocation_is_marked() -> None:
    log = Log()
    log.start()
    log.op(ADD, 2.0)
    log.free("%arg1", TWO_MB, 4.0)
    log.retained()
    log.free("%1", TWO_MB, 4.0)
    assert only(log.profile()).retained == frozenset({1})


def test_func_call_runs_a_nested_program() -> None:
    log = Log()
    log.start()
    log.op(DEVICE, 0.0)
    log.op(f'%2 = func.call @gate(%arg0) : ({TWO_MB}) -> {TWO_MB} loc("call")', 2.0, kind="FuncCallOp")
    log.start("gate")
    log.op(f'%0 = "ttnn.relu"(%arg0) : ({TWO_MB}) -> {TWO_MB} loc("relu")', 2.0)
    log.finish("gate")
    log.op(ADD, 4.0)
    log.finish()
    profile = log.profile()
    assert programs(profile) == [("main", -1, 0, -1, 0, 4, True), ("gate", 0, 0, 1, 2, 3, True)]
    assert program_of_each_operation(profile) == ["main", "main", "gate", "main"]


def trace_call(log: Log, dram: float) -> None:
    log.op(
        '%1 = "ttnn.capture_or_execute_trace"(%0, %arg0) <{capture_callee = @run_and_capture_trace_0_main, '
        f"execute_callee = @execute_trace_0_main}}> : (!ttnn.device, {TWO_MB}) -> {TWO_MB} loc(unknown)",
        dram,
        kind="CaptureOrExecuteTraceOp",
    )


def traced_body(log: Log, dram: float) -> None:
    log.op(f'%2 = func.call @trace_0_main(%arg1) : ({TWO_MB}) -> {TWO_MB} loc("t")', dram)
    log.start("trace_0_main")
    log.op(f'%0 = "ttnn.relu"(%arg0) : ({TWO_MB}) -> {TWO_MB} loc("relu")', dram)
    log.finish("trace_0_main")


def test_trace_capture_then_replay() -> None:
    # GIVEN a first run that captures (slots, warm-up, capture) and a second that replays
    log = Log(banks={**WORMHOLE, "TRACE": (12, 20.0)})
    log.start()
    log.op(DEVICE, 2.0)
    trace_call(log, 2.0)
    log.record("Always", "DEBUG", "Trace cache miss, allocating slots and capturing trace")
    log.start("allocate_slots_trace_0_main")
    log.op(f'%0 = "ttnn.empty"(%arg0) : (!ttnn.device) -> {TWO_MB} loc("slot")', 2.0)
    log.finish("allocate_slots_trace_0_main")
    log.start("run_and_capture_trace_0_main")
    traced_body(log, 4.0)
    log.op('%3 = "ttnn.begin_trace_capture"(%arg0) : (!ttnn.device) -> tensor<ui32, #ttnn.trace_id> loc("b")', 6.0)
    traced_body(log, 6.0)
    log.op('"ttnn.end_trace_capture"(%arg0, %3) : (!ttnn.device, tensor<ui32, #ttnn.trace_id>) -> () loc("e")', 6.0)
    log.op('"ttnn.execute_trace"(%arg0, %3) : (!ttnn.device, tensor<ui32, #ttnn.trace_id>) -> () loc("x")')
    log.block("before operation ExecuteTraceOp", 6.0, trace=1.5)
    log.finish("run_and_capture_trace_0_main")
    log.finish()
    log.start()
    log.op(DEVICE, 6.0)
    trace_call(log, 6.0)
    log.record("Always", "DEBUG", "Trace cache hit, executing trace directly")
    log.start("execute_trace_0_main")
    log.op('"ttnn.execute_trace"(%arg0, %arg1) : (!ttnn.device, tensor<ui32, #ttnn.trace_id>) -> () loc("x")', 6.0)
    log.finish("execute_trace_0_main")
    log.finish()
    profile = log.profile()
    # THEN all nested programs know the operation that called them, also the second one of the same call
    assert programs(profile) == [
        ("main", -1, 0, -1, 0, 10, True),
        ("allocate_slots_trace_0_main", 0, 0, 1, 2, 3, True),
        ("run_and_capture_trace_0_main", 0, 0, 1, 3, 10, True),
        ("trace_0_main", 2, 0, 3, 4, 5, True),
        ("trace_0_main", 2, 0, 6, 7, 8, True),
        ("main", -1, 1, -1, 10, 13, True),
        ("execute_trace_0_main", 5, 1, 11, 12, 13, True),
    ]
    assert [row[3] for row in states(profile, "TRACE")] == [0.0] * 9 + [1.5] + [0.0] * 3


def test_an_exception_inside_a_nested_program_then_a_new_run() -> None:
    # GIVEN an exception two programs deep; neither prints that it finished
    log = Log()
    log.start()
    log.op(LOAD, 0.0, kind="LoadCachedOp")
    log.load_cached("main_const_eval_0", key="aa11", hit=False)
    log.start("main_const_eval_0")
    log.op(DEVICE, 0.0)
    log.op(TO_DEVICE, 0.0)
    log.line(OUT_OF_MEMORY)
    # WHEN the same process runs again
    log.start()
    log.op(ADD, 0.0)
    log.finish()
    profile = log.profile()
    # THEN the second run is a run of its own
    assert programs(profile) == [
        ("main", -1, 0, -1, 0, 3, False),
        ("main_const_eval_0", 0, 0, 0, 1, 3, False),
        ("main", -1, 1, -1, 3, 4, True),
    ]
    assert only(profile).failures[0].operation == 2


def test_another_program_after_an_exception_is_a_new_run() -> None:
    log = Log()
    log.start("prefill")
    log.op(LOAD, 0.0)
    log.line(OUT_OF_MEMORY)
    log.start("decode")
    log.op(ADD, 0.0)
    log.finish("decode")
    assert programs(log.profile()) == [("prefill", -1, 0, -1, 0, 1, False), ("decode", -1, 1, -1, 1, 2, True)]


@pytest.mark.parametrize("with_submit", [False, True])
def test_a_run_that_died_without_a_word_then_a_new_run(with_submit: bool) -> None:
    log = Log()
    log.start()
    log.op(ADD, 2.0)
    if with_submit:
        log.block("before submit", 2.0)
    log.start()
    log.op(ADD, 2.0)
    log.finish()
    assert programs(log.profile()) == [("main", -1, 0, -1, 0, 1, False), ("main", -1, 1, -1, 1, 2, True)]


def test_a_failure_that_was_caught_does_not_end_the_program() -> None:
    # GIVEN an operation that fails inside, falls back and goes on
    log = Log()
    log.start()
    log.op(ADD, 2.0)
    log.line(OUT_OF_MEMORY)
    log.op(f'%2 = "ttnn.relu"(%1) : ({TWO_MB}) -> {TWO_MB} loc("relu.2")', 4.0)
    const_eval_miss(log)
    log.op(ADD, 4.0)
    log.finish()
    assert programs(log.profile()) == [
        ("main", -1, 0, -1, 0, 6, True),
        ("main_const_eval_0", 0, 0, 2, 3, 5, True),
    ]


def test_a_log_cut_inside_nested_programs() -> None:
    log = Log()
    log.start()
    log.op(LOAD, 0.0)
    log.load_cached("main_const_eval_0", key="aa11", hit=False)
    log.start("main_const_eval_0")
    log.op(DEVICE, 0.0)
    assert programs(log.profile()) == [
        ("main", -1, 0, -1, 0, 2, False),
        ("main_const_eval_0", 0, 0, 0, 1, 2, False),
    ]


def test_a_log_that_begins_inside_a_program() -> None:
    # GIVEN the tail of a log: an end without its start
    log = Log()
    log.op(ADD, 2.0)
    log.finish("main")
    log.start()
    log.op(ADD, 2.0)
    log.finish()
    profile = log.profile()
    assert programs(profile) == [("main", -1, 0, -1, 1, 2, True)]
    assert program_of_each_operation(profile) == ["", "main"]


def test_logs_older_than_program_lines() -> None:
    # GIVEN operations alone, as before 2025-05
    log = Log()
    log.op(DEVICE, 0.0)
    log.op(ADD, 2.0)
    log.free("%1", TWO_MB, 4.0)
    profile = log.profile()
    assert names(profile) == ["ttnn.get_device", "ttnn.add", "ttnn.deallocate"]
    assert programs(profile) == []
    assert only(profile).program.tolist() == [-1, -1, -1]
    assert [(run.first_index, run.end_index) for run in find_runs(profile)] == [(0, 3)]
    assert count_runs(profile) == 1


def test_runs_of_other_entry_names() -> None:
    log = Log()
    for name in ("forward", "decode_step"):
        log.start(name)
        log.op(ADD, 2.0)
        log.finish(name)
    assert [run.program for run in find_runs(log.profile())] == ["forward", "decode_step"]


def test_what_the_log_says_about_the_device() -> None:
    log = Log()
    log.record("Always", "DEBUG", "Device grid size = { 8, 8 }")
    log.record("Always", "INFO", "remapped mesh device shape [1, 2]")
    log.line(
        "#system_desc = #ttcore.system_desc<[{role = host}], [{arch = <blackhole>, grid = 10x13, l1_size = 1572864}]>"
    )
    log.start()
    log.op(f'%1 = "ttnn.relu"(%arg0) : ({ONE_MB}) -> {ONE_MB} loc("relu.2")', 1.0)
    assert log.profile().facts == {"grid": "8x8", "mesh": "1x2", "system": "blackhole"}
