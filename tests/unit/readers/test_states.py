# SPDX-License-Identifier: Apache-2.0
"""Memory blocks: printed before an operation runs, so an operation's effect is in the next block."""

from __future__ import annotations

import pytest

from support.log_lines import BLACKHOLE, DEVICE, ONE_MB, TWO_MB, WORMHOLE, Log, view
from support.profile_questions import MIB, names, only, states
from ttmem.analysis.peaks import peaks
from ttmem.profile.model import VIEW_BANKS, VIEW_FREE, VIEW_LARGEST_FREE, VIEW_TOTAL

ADD = f'%1 = "ttnn.add"(%arg0, %arg0) : ({TWO_MB}, {TWO_MB}) -> {TWO_MB} loc("add.1")'
RELU = f'%2 = "ttnn.relu"(%1) : ({TWO_MB}) -> {TWO_MB} loc("relu.2")'


def small_run(log: Log) -> Log:
    """Two operations and the deallocate that shows what the second one left behind."""
    log.start()
    log.op(DEVICE, 2.0, kind="GetDeviceOp")
    log.op(ADD, 2.0)
    log.op(RELU, 4.0, kind="EltwiseUnaryOp")
    log.free("%1", TWO_MB, 6.0)
    log.finish()
    return log


SMALL_RUN_STATES = [
    ("before operation", 0, None, 2.0),
    ("before operation", 1, 0, 2.0),
    ("before operation", 2, 1, 4.0),
    ("before operation", 3, 2, 6.0),
]


@pytest.mark.parametrize("colours", [False, True], ids=["plain", "ansi"])
@pytest.mark.parametrize("state_level", ["INFO", "DEBUG"])
def test_a_block_is_the_state_before_its_operation(colours: bool, state_level: str) -> None:
    # GIVEN the same run as the runtime prints it, coloured or not, with blocks at today's or the old level
    profile = small_run(Log(colours=colours, state_level=state_level)).profile()
    # THEN every block belongs to its operation and is the after-state of the one before
    assert names(profile) == ["ttnn.get_device", "ttnn.add", "ttnn.relu", "ttnn.deallocate"]
    assert states(profile) == SMALL_RUN_STATES
    # AND the peak is in the deallocate's block, caused by the relu
    peak = peaks(profile)["DRAM"]
    assert (peak.at_index, peak.at_name) == (3, "ttnn.deallocate")
    assert (peak.caused_by_index, peak.caused_by_name, peak.caused_by_location) == (2, "ttnn.relu", "relu.2")
    assert profile.source.unrecognised_lines == 0
    assert profile.source.warnings == ()


def test_all_fields_of_a_view_are_kept() -> None:
    log = Log()
    log.start()
    log.op(ADD)
    log.block("before operation EltwiseBinaryOp", 12.5, l1=0.25, largest=1000.125)
    profile = log.profile()
    row = profile.views[only(profile).state_view[0, 0]]
    assert row[VIEW_BANKS] == 12
    assert row[VIEW_TOTAL] == 1024 * MIB
    assert row[VIEW_FREE] == 1011.5 * MIB
    assert row[VIEW_LARGEST_FREE] == 1000.125 * MIB
    assert states(profile, "L1") == [("before operation", 0, None, 0.25)]


def test_submit_blocks_are_states_of_their_own() -> None:
    # GIVEN level `any`: a block before and after the submission too
    log = Log()
    log.block("before submit", 2.0)
    small_run(log)
    log.block("after submit", 4.0)
    profile = log.profile()
    assert states(profile) == [
        ("before submit", None, None, 2.0),
        *SMALL_RUN_STATES,
        ("after submit", None, 3, 4.0),
    ]
    # AND the run owns both
    (program,) = only(profile).programs
    assert (program.first_state, program.end_state) == (0, 6)


def test_the_last_operation_is_judged_by_the_state_after_the_submission() -> None:
    log = Log()
    log.block("before submit", 2.0)
    log.start()
    log.op(ADD, 2.0)
    log.finish()
    log.block("after submit", 4.0)
    peak = peaks(log.profile())["DRAM"]
    assert (peak.at_index, peak.at_name, peak.caused_by_index) == (None, "after submit", 0)


def test_program_level_only_has_no_operations_but_runs() -> None:
    # GIVEN level `program` without DEBUG: nothing but submit blocks
    log = Log()
    for before, after in ((1.0, 3.0), (3.0, 5.0)):
        log.block("before submit", before)
        log.block("after submit", after)
    profile = log.profile()
    assert states(profile) == [
        ("before submit", None, None, 1.0),
        ("after submit", None, None, 3.0),
        ("before submit", None, None, 3.0),
        ("after submit", None, None, 5.0),
    ]
    assert [(p.run, p.first_state, p.end_state) for p in only(profile).programs] == [(0, 0, 2), (1, 2, 4)]
    assert peaks(profile)["DRAM"].peak_bytes_per_bank == 5 * MIB
    assert "TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG" in profile.source.warnings[0]


def test_blocks_without_operations_are_still_a_history() -> None:
    # GIVEN an INFO-only log (the variable did not reach the worker)
    log = Log()
    for figure in (1.0, 7.0, 3.0):
        log.block("before operation MatmulOp", figure)
    profile = log.profile()
    assert names(profile) == []
    assert states(profile) == [
        ("before operation", None, None, 1.0),
        ("before operation", None, None, 7.0),
        ("before operation", None, None, 3.0),
    ]
    peak = peaks(profile)["DRAM"]
    assert (peak.peak_bytes_per_bank, peak.at_index, peak.caused_by_index) == (7 * MIB, None, None)
    assert peak.end_bytes_per_bank == 3 * MIB
    assert len(profile.source.warnings) == 1
    assert "TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG" in profile.source.warnings[0]


def test_operations_without_blocks_say_which_variable_was_missing() -> None:
    log = Log()
    log.start()
    log.op(ADD)
    log.op(RELU)
    log.finish()
    profile = log.profile()
    assert names(profile) == ["ttnn.add", "ttnn.relu"]
    assert states(profile) == []
    assert peaks(profile) == {}
    assert "TT_RUNTIME_MEMORY_LOG_LEVEL=operation" in profile.source.warnings[0]


def test_an_operation_without_a_block_shares_the_next_state() -> None:
    log = Log()
    log.start()
    log.op(ADD, 2.0)
    log.op(RELU)
    log.free("%1", TWO_MB, 6.0)
    profile = log.profile()
    assert states(profile) == [("before operation", 0, None, 2.0), ("before operation", 2, 1, 6.0)]


def test_foreign_lines_between_an_operation_and_its_block_and_inside_it() -> None:
    # GIVEN other loggers that write between all lines of a block
    log = Log()
    log.start()
    log.op(DEVICE, 0.0)
    log.op(ADD)
    log.line("2026-05-14 01:00:00.003 | info     |           Metal | Program cache: 3587 entries (mesh_device.cpp:72)")
    log.record("Always", "INFO", "Device memory state before operation EltwiseBinaryOp")
    log.line("WARNING:root: a MemoryView of a host tensor = {not a device view}")
    log.view("DRAM", 2.0)
    log.line("decode:  6%|####      | 679/1000 [00:01<00:09, 12.1it/s]")
    log.view("L1", 0.5)
    log.view("L1_SMALL", 0.0)
    log.line("2026-05-14 01:00:00.017 (   0.018s) [        4F4456C0]  event_instance.cc:216      1| awaitReady")
    log.view("TRACE", 0.0)
    log.free("%arg0", TWO_MB, 4.0)
    profile = log.profile()
    assert states(profile) == [
        ("before operation", 0, None, 0.0),
        ("before operation", 1, 0, 2.0),
        ("before operation", 2, 1, 4.0),
    ]
    assert [row[3] for row in states(profile, "L1")] == [0.0, 0.5, 0.0]
    assert profile.source.unrecognised_lines == 0


def test_a_block_that_the_end_of_the_file_cuts_keeps_what_it_has() -> None:
    log = Log()
    log.start()
    log.op(ADD, 2.0)
    log.op(RELU)
    log.record("Always", "INFO", "Device memory state before operation EltwiseUnaryOp")
    log.view("DRAM", 4.0)
    profile = log.profile()
    assert states(profile) == [("before operation", 0, None, 2.0), ("before operation", 1, 0, 4.0)]
    assert [row[3] for row in states(profile, "L1")] == [0.0, None]
    assert profile.source.unrecognised_lines == 0


def test_a_header_alone_at_the_end_of_the_file_is_a_state_without_figures() -> None:
    log = Log()
    log.start()
    log.op(ADD, 2.0)
    log.op(RELU)
    log.record("Always", "INFO", "Device memory state before operation EltwiseUnaryOp")
    profile = log.profile()
    assert [row[3] for row in states(profile)] == [2.0, None]
    assert peaks(profile)["DRAM"].peak_bytes_per_bank == 2 * MIB


@pytest.mark.parametrize(
    ("keep", "what"),
    [
        ("Executing operation: ", "operation line is cut"),
        ("Executing operation: %2", "operation line is cut"),
        ('Executing operation: %2 = "ttnn.relu"(%1) : (tensor<3072x40', "operation ttnn.relu is cut"),
        ("Executing opera", "cut"),
        ("Starting execution of pro", "cut"),
        ("Finished execution of program: ", "cut"),
        ("Device memory state before oper", "memory"),
        ("Device memory state before operation ", "memory"),
        ("Device DRAM memory sta", "cut"),
        ("Device DRAM memory state: Memo", "memory line is cut"),
        ("Device DRAM memory state: MemoryView{numBanks: 12, totalBytesPerBank: 1024.0", "memory view of DRAM is cut"),
        (view("L1", 0.5, WORMHOLE)[:-1], "memory view of L1 is cut"),
    ],
)
def test_a_truncated_last_line_is_counted_and_named_with_its_line(keep: str, what: str) -> None:
    log = small_run(Log())
    before = log.profile()
    log.raw(log.text_of("Always", "DEBUG", keep).encode())
    profile = log.profile()
    assert profile.source.unrecognised_lines == 1
    (warning,) = [text for text in profile.source.warnings if text.startswith("line ")]
    assert warning.startswith(f"line {log.line_count + 1}: ")
    assert what in warning
    # AND nothing that was whole changed
    assert states(profile)[:4] == states(before)
    assert profile.source.lines == before.source.lines + 1


def test_two_views_on_one_line_are_two_views() -> None:
    log = Log()
    log.start()
    log.op(ADD)
    log.record("Always", "INFO", "Device memory state before operation EltwiseBinaryOp")
    glued = log.text_of("Always", "INFO", view("DRAM", 2.0, WORMHOLE))
    log.line(glued + log.text_of("Always", "INFO", view("L1", 0.25, WORMHOLE)))
    profile = log.profile()
    assert [row[3] for row in states(profile)] == [2.0]
    assert [row[3] for row in states(profile, "L1")] == [0.25]


def test_a_view_with_foreign_text_inside_is_damage_not_a_figure() -> None:
    log = Log()
    log.start()
    log.op(ADD)
    log.record("Always", "INFO", "Device memory state before operation EltwiseBinaryOp")
    broken = view("DRAM", 2.0, WORMHOLE).replace("Allocated", "Allo[1mInfo] step 3cated")
    number = log.record("Always", "INFO", broken)
    log.view("L1", 0.25)
    profile = log.profile()
    assert [row[3] for row in states(profile)] == [None]
    assert [row[3] for row in states(profile, "L1")] == [0.25]
    assert profile.source.unrecognised_lines == 1
    assert any(text.startswith(f"line {number}: memory view of DRAM") for text in profile.source.warnings)


def test_a_block_whose_header_was_torn_still_belongs_to_its_operation() -> None:
    log = Log()
    log.start()
    log.op(ADD, 2.0)
    log.op(RELU)
    number = log.line(
        "                 Always |     INFO | Device memory st [stderr] ate before operation EltwiseUnaryOp"
    )
    log.view("DRAM", 4.0)
    log.view("L1", 0.0)
    profile = log.profile()
    assert states(profile) == [("before operation", 0, None, 2.0), ("before operation", 1, 0, 4.0)]
    assert profile.source.unrecognised_lines == 1
    assert any(text.startswith(f"line {number}: ") for text in profile.source.warnings)


def test_a_lost_operation_line_does_not_move_later_blocks() -> None:
    # GIVEN the line of the second operation was lost, its block was not
    log = Log()
    log.start()
    log.op(ADD, 2.0)
    log.block("before operation EltwiseUnaryOp", 4.0)
    log.free("%1", TWO_MB, 6.0)
    profile = log.profile()
    assert states(profile) == [
        ("before operation", 0, None, 2.0),
        ("before operation", None, 0, 4.0),
        ("before operation", 1, None, 6.0),
    ]


def test_blackhole_bank_counts() -> None:
    profile = small_run(Log(banks=BLACKHOLE)).profile()
    dram, l1 = peaks(profile)["DRAM"], peaks(profile)["L1"]
    assert (dram.banks, dram.bytes_per_bank) == (8, 4075 * MIB)
    assert (l1.banks, l1.bytes_per_bank) == (110, 1363149)


def test_a_memory_of_no_size_has_no_percentage() -> None:
    trace = peaks(small_run(Log()).profile())["TRACE"]
    assert (trace.bytes_per_bank, trace.peak_bytes_per_bank, trace.peak_percent) == (0, 0, None)


def test_a_snapshot_file_is_a_log_of_one_state() -> None:
    # GIVEN the file that debug.memory_snapshot writes: four views, no prefix, no header
    figures = {"DRAM": 12.5, "L1": 0.5, "L1_SMALL": 0.0, "TRACE": 0.0}
    log = Log()
    for memory, allocated in figures.items():
        log.line(view(memory, allocated, WORMHOLE))
    profile = log.profile()
    assert states(profile) == [("snapshot", None, None, 12.5)]
    assert {memory: peak.peak_bytes_per_bank / MIB for memory, peak in peaks(profile).items()} == figures
    assert peaks(profile)["DRAM"].at_name == "snapshot"


def test_the_snapshot_operation_itself_is_an_ordinary_operation() -> None:
    log = Log()
    log.start()
    text = f'"debug.memory_snapshot"(%0) <{{file_path = "memory_dump.txt"}}> : ({ONE_MB}) -> () loc("snap")'
    log.op(text, 1.0, kind="MemorySnapshotOp")
    profile = log.profile()
    assert names(profile) == ["debug.memory_snapshot"]
    assert states(profile) == [("before operation", 0, None, 1.0)]


def test_equal_figures_the_first_state_wins() -> None:
    log = Log()
    log.start()
    log.op(ADD, 5.0)
    log.op(RELU, 8.0)
    log.free("%1", TWO_MB, 8.0)
    log.free("%2", TWO_MB, 1.0)
    peak = peaks(log.profile())["DRAM"]
    assert (peak.at_index, peak.caused_by_index, peak.peak_bytes_per_bank) == (1, 0, 8 * MIB)
    assert peak.end_bytes_per_bank == 1 * MIB
