# SPDX-License-Identifier: Apache-2.0
"""Which tensors live when: SSA names per program, views, retained tensors, inputs freed by their user."""

from __future__ import annotations

import pytest

from support.log_lines import DEVICE, HOST_TWO_MB, ONE_MB, TWO_MB, Log, tensor
from ttmem.analysis.consumers import alive_at_peak
from ttmem.analysis.lifetimes import lifetimes
from ttmem.profile.model import Profile
from unit.readers.test_module_dumps import ALIASES, LOGURU

MIB = 1 << 20
FOUR_MB = tensor("3072x8192", "96x256")


def op(result: str, name: str, operands: str, types: str, result_type: str, *, more: str = "") -> str:
    return f'{result} = "ttnn.{name}"({operands}){more} : ({types}) -> {result_type} loc("{name}.{result[1:]}")'


def lives(profile: Profile, run: int | None = None) -> list[tuple]:
    """(name, producer, first, last, last use, MiB per bank)."""
    (timeline,) = profile.timelines
    return [
        (
            life.name,
            life.producer_index,
            life.first_index,
            life.last_index,
            life.last_use_index,
            life.bytes_per_bank / MIB,
        )
        for life in lifetimes(profile, timeline, run)
    ]


def parts(profile: Profile, memory: str = "DRAM") -> tuple[dict[str, float], float]:
    """The live set at the peak (name -> MiB per bank) and what is left over; they sum to the state's total."""
    live = alive_at_peak(profile, memory)
    assert live is not None
    attributed = sum(life.bytes_per_bank for life in live.tensors)
    assert attributed + live.unattributed_bytes_per_bank == live.total_bytes_per_bank
    assert len({life.name for life in live.tensors}) == len(live.tensors)
    return {life.name: life.bytes_per_bank / MIB for life in live.tensors}, live.unattributed_bytes_per_bank / MIB


def test_from_producer_to_deallocate() -> None:
    log = Log()
    log.start()
    log.op(DEVICE, 2.0)
    log.op(op("%1", "add", "%arg0, %arg0", f"{TWO_MB}, {TWO_MB}", TWO_MB), 2.0)
    log.free("%arg0", TWO_MB, 4.0)
    log.op(op("%2", "relu", "%1", TWO_MB, TWO_MB), 2.0)
    log.free("%1", TWO_MB, 4.0)
    log.finish()
    profile = log.profile()
    # THEN the argument was there before the run, and what no operation frees stays to its end
    assert lives(profile, 0) == [
        ("%arg0", None, 0, 2, 2, 2.0),
        ("%1", 1, 1, 4, 4, 2.0),
        ("%2", 3, 3, 4, None, 2.0),
    ]
    assert parts(profile) == ({"%arg0": 2.0, "%1": 2.0}, 0.0)


def test_names_are_looked_up_in_their_program() -> None:
    # GIVEN a const-eval function whose %0 and %1 are not main's
    log = Log()
    log.start()
    log.op(op("%1", "add", "%arg0, %arg0", f"{ONE_MB}, {ONE_MB}", ONE_MB), 1.0)
    log.op(f"%2 = ttcore.load_cached(@main_const_eval_0, [%arg1]) : ({HOST_TWO_MB}) -> {TWO_MB} loc(unknown)", 2.0)
    log.load_cached("main_const_eval_0", key="aa", hit=False)
    log.start("main_const_eval_0")
    log.op(DEVICE, 2.0)
    log.op(op("%1", "to_device", "%arg0, %0", f"{HOST_TWO_MB}, !ttnn.device", TWO_MB), 2.0)
    log.op(op("%2", "to_layout", "%1", TWO_MB, TWO_MB), 4.0)
    log.free("%1", TWO_MB, 6.0)
    log.finish("main_const_eval_0")
    log.free("%1", ONE_MB, 4.0)
    log.op(op("%3", "add", "%2, %2", f"{TWO_MB}, {TWO_MB}", TWO_MB), 3.0)
    log.finish()
    profile = log.profile()
    # THEN main's %1 is still main's, and the const-eval result lives on as a weight
    assert lives(profile, 0) == [
        ("%arg0", None, 0, 7, 0, 1.0),
        ("%1", 0, 0, 6, 6, 1.0),
        ("%1", 3, 3, 5, 5, 2.0),
        ("%2", 4, 4, 7, 7, 2.0),
        ("%3", 7, 7, 7, None, 2.0),
    ]
    live = alive_at_peak(profile)
    assert live is not None
    assert [(life.name, life.producer_index, life.weight) for life in live.tensors] == [
        ("%1", 3, False),
        ("%2", 4, True),
        ("%1", 0, False),
        ("%arg0", None, False),
    ]
    assert live.unattributed_bytes_per_bank == 0


def test_a_cache_hit_shares_what_the_miss_made() -> None:
    # GIVEN the second run finds the first run's result, and its peak is the highest
    log = Log()
    load = f"%0 = ttcore.load_cached(@main_const_eval_0, [%arg1]) : ({HOST_TWO_MB}) -> {TWO_MB} loc(unknown)"
    log.start()
    log.op(load, 0.0)
    log.load_cached("main_const_eval_0", key="aa", hit=False)
    log.start("main_const_eval_0")
    log.op(DEVICE, 0.0)
    log.op(op("%1", "to_device", "%arg0, %0", f"{HOST_TWO_MB}, !ttnn.device", TWO_MB), 0.0)
    log.finish("main_const_eval_0")
    log.op(op("%1", "relu", "%0", TWO_MB, ONE_MB), 2.0)
    log.free("%1", ONE_MB, 3.0)
    log.finish()
    log.start()
    log.op(load, 2.0)
    log.load_cached("main_const_eval_0", key="aa", hit=True)
    log.op(op("%1", "relu", "%0", TWO_MB, TWO_MB), 2.0)
    log.free("%1", TWO_MB, 4.0)
    log.finish()
    profile = log.profile()
    assert parts(profile) == ({"%0": 2.0, "%1": 2.0}, 0.0)
    live = alive_at_peak(profile)
    assert live is not None
    assert [(life.producer_index, life.weight) for life in live.tensors] == [(2, True), (6, False)]
    assert live.unattributed_bytes_per_bank == 0


def test_the_same_function_name_with_another_hash_is_not_shared() -> None:
    log = Log()
    load = f"%0 = ttcore.load_cached(@main_const_eval_0, [%arg1]) : ({HOST_TWO_MB}) -> {TWO_MB} loc(unknown)"
    for key, before in (("aa", 0.0), ("bb", 2.0)):
        log.start()
        log.op(load, before)
        log.load_cached("main_const_eval_0", key=key, hit=False)
        log.start("main_const_eval_0")
        log.op(DEVICE, before)
        log.op(op("%1", "to_device", "%arg0, %0", f"{HOST_TWO_MB}, !ttnn.device", TWO_MB), before)
        log.finish("main_const_eval_0")
        log.op(op("%1", "relu", "%0", TWO_MB, ONE_MB), before + 2.0)
        log.free("%1", ONE_MB, before + 3.0)
        log.finish()
    live = alive_at_peak(log.profile())
    assert live is not None
    assert [(life.producer_index, life.weight, life.bytes_per_bank / MIB) for life in live.tensors] == [
        (2, True, 2.0),
        (7, True, 2.0),
        (8, False, 1.0),
    ]
    assert live.unattributed_bytes_per_bank == 0


def test_a_cached_result_from_before_the_log_was_there_all_along() -> None:
    log = Log()
    log.start()
    log.op(f"%0 = ttcore.load_cached(@main_const_eval_0, [%arg1]) : ({HOST_TWO_MB}) -> {TWO_MB} loc(unknown)", 2.0)
    log.load_cached("main_const_eval_0", key="aa", hit=True)
    log.op(op("%1", "relu", "%0", TWO_MB, ONE_MB), 2.0)
    log.free("%1", ONE_MB, 3.0)
    assert parts(log.profile()) == ({"%0": 2.0, "%1": 1.0}, 0.0)


def test_a_retained_deallocation_frees_nothing() -> None:
    log = Log()
    log.start()
    log.op(op("%1", "relu", "%arg0", TWO_MB, TWO_MB), 2.0)
    log.free("%arg0", TWO_MB, 4.0)
    log.retained()
    log.op(op("%2", "relu", "%1", TWO_MB, TWO_MB), 4.0)
    log.free("%2", TWO_MB, 6.0)
    assert parts(log.profile()) == ({"%arg0": 2.0, "%1": 2.0, "%2": 2.0}, 0.0)


def test_a_reshape_that_is_a_view_costs_nothing() -> None:
    # GIVEN states that show no growth over the reshape; the base is deallocated, its view lives on
    log = Log()
    log.start()
    log.op(op("%1", "relu", "%arg0", TWO_MB, TWO_MB), 2.0)
    log.op(op("%2", "reshape", "%1", TWO_MB, tensor("1x3072x4096", "96x128")), 4.0)
    log.free("%1", TWO_MB, 4.0)
    log.op(op("%3", "relu", "%2", tensor("1x3072x4096", "96x128"), TWO_MB), 4.0)
    log.free("%2", tensor("1x3072x4096", "96x128"), 6.0)
    profile = log.profile()
    assert parts(profile) == ({"%arg0": 2.0, "%1": 2.0, "%3": 2.0}, 0.0)
    assert ("%1", 0, 0, 4, 4, 2.0) in lives(profile, 0)


def test_a_reshape_that_allocates_counts() -> None:
    log = Log()
    log.start()
    log.op(op("%1", "relu", "%arg0", TWO_MB, TWO_MB), 2.0)
    log.op(op("%2", "reshape", "%1", TWO_MB, tensor("1x3072x4096", "96x128")), 4.0)
    log.free("%1", TWO_MB, 6.0)
    log.free("%2", TWO_MB, 4.0)
    assert parts(log.profile()) == ({"%arg0": 2.0, "%1": 2.0, "%2": 2.0}, 0.0)


def test_without_states_a_reshape_is_taken_for_a_view() -> None:
    # GIVEN the reshape's own block is missing: what it did cannot be seen
    log = Log()
    log.start()
    log.op(op("%1", "relu", "%arg0", TWO_MB, TWO_MB), 2.0)
    log.op(op("%2", "reshape", "%1", TWO_MB, tensor("1x3072x4096", "96x128")))
    log.free("%1", TWO_MB, 4.0)
    log.free("%2", TWO_MB, 4.0)
    assert parts(log.profile()) == ({"%arg0": 2.0, "%1": 2.0}, 0.0)


def test_any_operation_that_shows_no_growth_shares_its_input() -> None:
    # GIVEN a to_layout that had nothing to do
    log = Log()
    log.start()
    log.op(op("%1", "to_layout", "%arg0", TWO_MB, TWO_MB), 2.0)
    log.op(op("%2", "relu", "%1", TWO_MB, ONE_MB), 2.0)
    log.free("%2", ONE_MB, 3.0)
    assert parts(log.profile()) == ({"%arg0": 2.0, "%2": 1.0}, 0.0)


CONV = " <{conv2d_config = #ttnn.conv2d_config<deallocate_activation = true>}>"


def test_a_convolution_that_frees_its_input() -> None:
    # GIVEN input and weight as large as the result: the state does not move, yet the result is no view
    log = Log()
    log.start()
    log.op(op("%1", "relu", "%arg0", TWO_MB, TWO_MB), 4.0)
    log.op(op("%2", "conv2d", "%1, %arg1", f"{TWO_MB}, {TWO_MB}", TWO_MB, more=CONV), 6.0)
    log.op(op("%3", "relu", "%2", TWO_MB, ONE_MB), 6.0)
    log.free("%3", ONE_MB, 7.0)
    assert parts(log.profile()) == ({"%arg0": 2.0, "%arg1": 2.0, "%2": 2.0, "%3": 1.0}, 0.0)


def test_a_convolution_that_was_allowed_to_free_its_input_but_did_not() -> None:
    log = Log()
    log.start()
    log.op(op("%1", "relu", "%arg0", TWO_MB, TWO_MB), 4.0)
    log.op(op("%2", "conv2d", "%1, %arg1", f"{TWO_MB}, {TWO_MB}", TWO_MB, more=CONV), 6.0)
    log.free("%2", TWO_MB, 8.0)
    assert parts(log.profile()) == ({"%arg0": 2.0, "%arg1": 2.0, "%1": 2.0, "%2": 2.0}, 0.0)


def test_all_results_of_an_operation_live_and_die_by_themselves() -> None:
    log = Log()
    log.start()
    log.op(
        f'%1:2 = "ttnn.sort"(%arg0) : ({TWO_MB}) -> ({TWO_MB}, {ONE_MB}) loc("sort.1")',
        2.0,
    )
    log.free("%1#0", TWO_MB, 5.0)
    log.op(op("%2", "relu", "%1#1", ONE_MB, FOUR_MB), 3.0)
    log.free("%1#1", ONE_MB, 7.0)
    log.free("%2", FOUR_MB, 6.0)
    profile = log.profile()
    assert parts(profile) == ({"%arg0": 2.0, "%1#1": 1.0, "%2": 4.0}, 0.0)
    assert ("%1#0", 0, 0, 1, 1, 2.0) in lives(profile, 0)


def test_an_operation_without_result_makes_nothing() -> None:
    log = Log()
    log.start()
    log.op(f'"ttnn.paged_update_cache"(%arg0, %arg1) : ({TWO_MB}, {ONE_MB}) -> () loc("u")', 3.0)
    log.free("%arg1", ONE_MB, 3.0)
    assert parts(log.profile()) == ({"%arg0": 2.0, "%arg1": 1.0}, 0.0)


def test_host_tensors_and_trace_ids_cost_nothing() -> None:
    log = Log()
    log.start()
    log.op(f'%1 = "ttnn.from_device"(%arg0) : ({TWO_MB}) -> {HOST_TWO_MB} loc("f")', 2.0)
    log.op('%2 = "ttnn.begin_trace_capture"(%0) : (!ttnn.device) -> tensor<ui32, #ttnn.trace_id> loc("b")', 2.0)
    log.free("%1", HOST_TWO_MB, 2.0)
    assert parts(log.profile()) == ({"%arg0": 2.0}, 0.0)


def test_what_a_called_function_leaves_behind_dies_with_it() -> None:
    # GIVEN a nested program with a temporary that nobody deallocates
    log = Log()
    log.start()
    log.op(f'%1 = func.call @gate(%arg0) : ({TWO_MB}) -> {ONE_MB} loc("call")', 2.0)
    log.start("gate")
    log.op(op("%0", "relu", "%arg0", TWO_MB, TWO_MB), 2.0)
    log.op(op("%1", "sum", "%0", TWO_MB, ONE_MB), 4.0)
    log.finish("gate")
    log.op(op("%2", "relu", "%1", ONE_MB, FOUR_MB), 3.0)
    log.free("%1", ONE_MB, 7.0)
    profile = log.profile()
    assert parts(profile) == ({"%arg0": 2.0, "%1": 1.0, "%2": 4.0}, 0.0)


def test_a_parameter_on_the_device_is_counted_once_over_runs() -> None:
    # GIVEN a device-resident parameter that run 0 also feeds to const-eval; the peak is in run 1
    log = Log()
    load = f"%0 = ttcore.load_cached(@main_const_eval_0, [%arg1]) : ({TWO_MB}) -> {ONE_MB} loc(unknown)"
    log.start()
    log.op(load, 2.0)
    log.load_cached("main_const_eval_0", key="aa", hit=False)
    log.start("main_const_eval_0")
    log.op(op("%0", "sum", "%arg0", TWO_MB, ONE_MB), 2.0)
    log.finish("main_const_eval_0")
    log.op(op("%1", "matmul", "%arg1, %0", f"{TWO_MB}, {ONE_MB}", ONE_MB), 3.0)
    log.finish()
    log.start()
    log.op(load, 3.0)
    log.load_cached("main_const_eval_0", key="aa", hit=True)
    log.op(op("%1", "matmul", "%arg1, %0", f"{TWO_MB}, {ONE_MB}", FOUR_MB), 3.0)
    log.free("%1", FOUR_MB, 7.0)
    log.finish()
    names, rest = parts(log.profile())
    assert sorted(names.values()) == [1.0, 2.0, 4.0]
    assert rest == 0.0


def test_trace_slots_are_kept_and_counted_once() -> None:
    # GIVEN a capture in run 0 (slots, then warm-up and capture) and the peak in run 1
    capture = (
        '%1 = "ttnn.capture_or_execute_trace"(%0, %arg0) <{capture_callee = @run_and_capture_trace_0_main}> : '
        f"(!ttnn.device, {ONE_MB}) -> {FOUR_MB} loc(unknown)"
    )
    log = Log()
    log.start()
    log.op(DEVICE, 1.0)
    log.op(capture, 1.0)
    log.start("allocate_slots_trace_0_main")
    log.op(f'%0 = "ttnn.empty"(%arg0) : (!ttnn.device) -> {TWO_MB} loc("slot")', 1.0)
    log.finish("allocate_slots_trace_0_main")
    log.start("run_and_capture_trace_0_main")
    log.op(op("%0", "relu", "%arg1", ONE_MB, ONE_MB), 3.0)
    log.free("%0", ONE_MB, 4.0)
    log.finish("run_and_capture_trace_0_main")
    log.finish()
    log.start()
    log.op(DEVICE, 3.0)
    log.op(op("%2", "relu", "%arg0", ONE_MB, FOUR_MB), 3.0)
    log.free("%2", FOUR_MB, 7.0)
    log.finish()
    live = alive_at_peak(log.profile())
    assert live is not None
    assert [(life.producer_index, life.bytes_per_bank / MIB) for life in live.tensors] == [
        (6, 4.0),
        (2, 2.0),
        (None, 1.0),
    ]
    assert live.unattributed_bytes_per_bank == 0


def test_logs_without_program_lines_start_over_when_a_name_comes_back() -> None:
    # GIVEN two runs of an old log, nothing of the first deallocated by an operation; the peak is in the second
    log = Log()
    for peak in (4.0, 5.0):
        log.op(DEVICE, 2.0)
        log.op(op("%1", "relu", "%arg0", TWO_MB, TWO_MB), 2.0)
        log.op(op("%2", "relu", "%1", TWO_MB, ONE_MB), 4.0)
        log.free("%2", ONE_MB, peak)
    live = alive_at_peak(log.profile())
    assert live is not None
    assert sorted(life.bytes_per_bank / MIB for life in live.tensors) == [1.0, 2.0, 2.0]
    assert live.unattributed_bytes_per_bank == 0


def test_a_weight_carries_its_own_name() -> None:
    log = Log()
    log.line(LOGURU.format(0, "ttnn"))
    log.lines(ALIASES)
    log.line(
        "func.func @main(%arg0: tensor<3072x4096xbf16> {ttcore.argument_type = #ttcore.argument_type<parameter>, "
        'ttir.name = "fc.weight"}, %arg1: tensor<1536x4096xbf16> {ttcore.argument_type = '
        '#ttcore.argument_type<input>, ttir.name = "args_0"}) -> () {'
    )
    log.start()
    log.op(op("%1", "matmul", "%arg1, %arg0", f"{ONE_MB}, {TWO_MB}", ONE_MB), 3.0)
    log.free("%arg1", ONE_MB, 4.0)
    profile = log.profile()
    assert parts(profile) == ({"fc.weight": 2.0, "%arg1": 1.0, "%1": 1.0}, 0.0)
    live = alive_at_peak(profile)
    assert live is not None
    assert [life.weight for life in live.tensors] == [True, False, False]


def test_a_miss_for_a_hash_that_was_there_replaces_what_was_cached() -> None:
    # GIVEN inputs of another version: the runtime folds the same function again and drops the old result
    log = Log()
    load = f"%0 = ttcore.load_cached(@main_const_eval_0, [%arg1]) : ({HOST_TWO_MB}) -> {TWO_MB} loc(unknown)"
    for before in (0.0, 2.0):
        log.start()
        log.op(load, before)
        log.load_cached("main_const_eval_0", key="aa", hit=False)
        log.start("main_const_eval_0")
        log.op(DEVICE, before)
        log.op(op("%1", "to_device", "%arg0, %0", f"{HOST_TWO_MB}, !ttnn.device", TWO_MB), before)
        log.finish("main_const_eval_0")
        log.op(op("%1", "relu", "%0", TWO_MB, FOUR_MB), 2.0)
        log.free("%1", FOUR_MB, 6.0 + before / 2)
        log.finish()
    live = alive_at_peak(log.profile())
    assert live is not None
    assert [(life.producer_index, life.weight) for life in live.tensors] == [(8, False), (7, True)]


LOAD = f"%0 = ttcore.load_cached(@main_const_eval_0, [%arg1]) : ({HOST_TWO_MB}) -> {TWO_MB} loc(unknown)"
OOM = "TT_FATAL: Out of Memory: Not enough space to allocate 99 B DRAM buffer across 12 banks"


def _folding_run(log: Log, before: float, key: str, result: str = FOUR_MB, *, dies: bool = False) -> None:
    """A run that folds a weight of 2 MB (``before`` is what DRAM held), then makes a result; it may die of it."""
    log.start()
    log.op(LOAD, before)
    log.load_cached("main_const_eval_0", key=key, hit=False)
    log.start("main_const_eval_0")
    log.op(DEVICE, before)
    log.op(op("%1", "to_device", "%arg0, %0", f"{HOST_TWO_MB}, !ttnn.device", TWO_MB), before)
    log.finish("main_const_eval_0")
    log.op(op("%1", "add", "%0, %0", f"{TWO_MB}, {TWO_MB}", result), before + 2)
    if dies:
        log.line(f"2026-05-14 01:00:31.755 | critical |          Always | {OOM} (assert.hpp:104)")
    else:
        log.free("%1", result, before + (6 if result == FOUR_MB else 4))
        log.finish()


def test_a_run_that_died_leaves_nothing_once_a_state_shows_empty_memory() -> None:
    # GIVEN two attempts that die after folding their weight, and a third that lives: each finds empty memory
    log = Log()
    _folding_run(log, 0.0, "aa", TWO_MB, dies=True)
    _folding_run(log, 0.0, "bb", TWO_MB, dies=True)
    _folding_run(log, 0.0, "cc")
    # THEN its own weight and result are there, and nothing of the dead
    assert parts(log.profile()) == ({"%0": 2.0, "%1": 4.0}, 0.0)


def test_what_a_survived_error_left_is_still_there() -> None:
    log = Log()
    _folding_run(log, 0.0, "aa", TWO_MB, dies=True)
    _folding_run(log, 2.0, "bb")
    profile = log.profile()
    live = alive_at_peak(profile)
    assert live is not None
    assert sorted(life.bytes_per_bank / MIB for life in live.tensors) == [2.0, 2.0, 4.0]
    assert live.unattributed_bytes_per_bank == 0


def test_of_several_left_behind_the_older_ones_are_gone_when_a_state_has_no_room_for_all() -> None:
    # GIVEN weights of three runs, but the last one found only as much as one of them takes
    log = Log()
    _folding_run(log, 0.0, "aa", TWO_MB)
    _folding_run(log, 2.0, "bb", TWO_MB, dies=True)
    _folding_run(log, 2.0, "cc")
    live = alive_at_peak(log.profile())
    assert live is not None
    assert [life.producer_index for life in live.tensors] == [12, 7, 11]
    assert live.unattributed_bytes_per_bank == 0


def test_without_program_lines_a_state_tells_that_a_process_began_anew() -> None:
    log = Log()
    log.op(DEVICE, 0.0)
    log.op(op("%1", "full", "%0", "!ttnn.device", FOUR_MB), 0.0)
    log.op(op("%2", "relu", "%1", FOUR_MB, FOUR_MB), 4.0)
    log.line(OOM)
    log.op(DEVICE, 0.0)
    log.op(op("%5", "full", "%0", "!ttnn.device", FOUR_MB), 0.0)
    log.op(op("%6", "relu", "%5", FOUR_MB, FOUR_MB), 4.0)
    log.free("%6", FOUR_MB, 8.0)
    assert parts(log.profile()) == ({"%5": 4.0, "%6": 4.0}, 0.0)


@pytest.mark.parametrize("blocks", [True, False], ids=["with states", "without states of its own"])
def test_an_argument_that_came_sharded_counts_one_part(blocks: bool) -> None:
    # GIVEN a JAX graph: its argument has the type of the whole, a chip holds half of it
    log = Log()
    log.start()
    log.op(DEVICE, 2.0)
    shard = '"ttnn.mesh_shard"(%arg0, %0) <{shard_direction = #ttcore.shard_direction<full_to_shard>}>'
    log.op(f'%1 = {shard} : ({FOUR_MB}, !ttnn.device) -> {TWO_MB} loc("shard")', 2.0 if blocks else None)
    log.op(op("%2", "relu", "%1", TWO_MB, TWO_MB), 2.0)
    log.free("%2", TWO_MB, 4.0)
    log.finish()
    assert parts(log.profile()) == ({"%arg0": 2.0, "%2": 2.0}, 0.0)
