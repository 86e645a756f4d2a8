# SPDX-License-Identifier: Apache-2.0
"""What may stand around a record: colours, tags, times, bars, other records. None of it changes the profile."""

from __future__ import annotations

import pytest

from support.log_lines import DEVICE, TWO_MB, WORMHOLE, Log, view
from support.profile_questions import MIB, names, only, program_of_each_operation, programs, states
from ttmem.analysis.peaks import peaks
from unit.readers.test_states import ADD, RELU, SMALL_RUN_STATES, small_run


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-05-14T01:00:31.7551234Z ",
        "2026-05-14T01:00:31Z ",
        "2026-05-14T01:00:31.7551234Z 2026-05-14T01:00:31.75512Z ",
        "(EngineCore pid=57085) ",
        "[1,0]<stdout>:",
        "[gw0] ",
    ],
)
@pytest.mark.parametrize("colours", [False, True], ids=["plain", "ansi"])
def test_a_prefix_on_every_line(prefix: str, colours: bool) -> None:
    profile = small_run(Log(prefix=prefix, colours=colours)).profile()
    assert names(profile) == ["ttnn.get_device", "ttnn.add", "ttnn.relu", "ttnn.deallocate"]
    assert states(profile) == SMALL_RUN_STATES
    assert profile.source.unrecognised_lines == 0
    assert profile.source.warnings == ()


def test_ci_times_differ_on_every_line() -> None:
    # GIVEN a raw CI log: each line has another time, the first line has none
    plain = small_run(Log()).bytes().decode()
    timed = "##[group]Run tests\n" + "".join(
        f"2026-05-14T01:00:{i % 60:02d}.75{i:05d}Z {line}\n" for i, line in enumerate(plain.splitlines())
    )
    log = Log()
    log.raw(timed.encode())
    profile = log.profile()
    assert states(profile) == SMALL_RUN_STATES
    assert only(profile).line.tolist() == [3, 9, 15, 21]


def test_dos_line_ends() -> None:
    profile = small_run(Log(line_end="\r\n")).profile()
    assert states(profile) == SMALL_RUN_STATES
    assert program_of_each_operation(profile) == ["main"] * 4
    assert profile.source.unrecognised_lines == 0
    assert profile.source.lines == 26


@pytest.mark.parametrize("end", ["\r", ""], ids=["carriage-return", "glued"])
def test_a_progress_bar_drawn_before_a_record(end: str) -> None:
    # GIVEN tqdm bars in front of an operation, a header, a view and a program line
    bar = "\rdecode:  48%|####      | 234/1000 [00:01<00:09, 12.1it/s]" + end
    plain = small_run(Log()).bytes().decode().splitlines()
    for number in (0, 1, 7, 8, 15):
        plain[number] = bar + plain[number]
    log = Log()
    log.lines("\n".join(plain))
    profile = log.profile()
    assert states(profile) == SMALL_RUN_STATES
    assert program_of_each_operation(profile) == ["main"] * 4
    assert profile.source.unrecognised_lines == 0


def test_bytes_that_are_not_utf8() -> None:
    log = Log()
    log.raw(b"\xff\xfe caf\xe9 \x80\x81\n")
    log.start()
    log.op(DEVICE, 2.0)
    log.raw(b"step \xc3\x28 \xa0\xa1\n")
    log.raw(
        log.text_of("RuntimeTTNN", "DEBUG", "Executing operation: ").encode()
        + ADD.encode().replace(b"add.1", b"a\xff1")
    )
    log.raw(b"\n")
    log.block("before operation EltwiseBinaryOp", 2.0)
    profile = log.profile()
    assert names(profile) == ["ttnn.get_device", "ttnn.add"]
    assert profile.forms.location(int(only(profile).form[1])) == "a�1"
    assert profile.source.unrecognised_lines == 0


def test_two_ranks_interleaved_are_two_histories() -> None:
    # GIVEN two processes under Open MPI's --tag-output, their lines mixed line by line
    first = small_run(Log(prefix="[1,0]<stdout>:")).bytes().splitlines(keepends=True)
    second = Log(prefix="[1,1]<stdout>:")
    second.start()
    second.op(ADD, 100.0)
    second.op(RELU, 300.0)
    second.free("%2", TWO_MB, 302.0)
    others = second.bytes().splitlines(keepends=True)
    mixed = [line for pair in zip(first, others, strict=False) for line in pair] + first[len(others) :]
    log = Log()
    log.raw(b"launching 2 workers\n")
    log.raw(b"".join(mixed))
    profile = log.profile()
    # THEN each has its own indices and states
    rank_0, rank_1 = profile.timelines
    assert (rank_0.rank, rank_1.rank) == (0, 1)
    assert names(profile, rank_0) == ["ttnn.get_device", "ttnn.add", "ttnn.relu", "ttnn.deallocate"]
    assert states(profile, timeline=rank_0) == SMALL_RUN_STATES
    assert names(profile, rank_1) == ["ttnn.add", "ttnn.relu", "ttnn.deallocate"]
    assert states(profile, timeline=rank_1) == [
        ("before operation", 0, None, 100.0),
        ("before operation", 1, 0, 300.0),
        ("before operation", 2, 1, 302.0),
    ]
    assert programs(profile, rank_0) == [("main", -1, 0, -1, 0, 4, True)]
    assert programs(profile, rank_1) == [("main", -1, 0, -1, 0, 3, False)]
    # AND the worst rank's peak counts
    peak = peaks(profile)["DRAM"]
    assert (peak.rank, peak.peak_bytes_per_bank, peak.caused_by_index) == (1, 302 * MIB, 1)


def test_a_rank_number_that_cannot_be_one_is_no_rank() -> None:
    profile = small_run(Log(prefix="[1,99999999999999999999]<stdout>:")).profile()
    assert states(profile) == SMALL_RUN_STATES


def test_two_records_glued_on_one_line_are_two_records() -> None:
    # GIVEN two threads that wrote at once: program line + operation, operation + header, view + operation
    log = Log()
    log.line(
        log.text_of("RuntimeTTNN", "DEBUG", "Starting execution of program: main")
        + log.text_of("RuntimeTTNN", "DEBUG", f"Executing operation: {ADD}")
    )
    log.block("before operation EltwiseBinaryOp", 2.0)
    log.line(
        log.text_of("RuntimeTTNN", "DEBUG", f"Executing operation: {RELU}")
        + log.text_of("Always", "INFO", "Device memory state before operation EltwiseUnaryOp")
    )
    for memory, figure in (("DRAM", 4.0), ("L1", 0.0), ("L1_SMALL", 0.0)):
        log.view(memory, figure)
    free = f'"ttnn.deallocate"(%1) <{{force = false}}> : ({TWO_MB}) -> () loc("relu.2")'
    log.line(
        log.text_of("Always", "INFO", view("TRACE", 0.0, WORMHOLE))
        + log.text_of("RuntimeTTNN", "DEBUG", f"Executing operation: {free}")
    )
    log.block("before operation DeallocateOp", 6.0)
    log.line(
        log.text_of("RuntimeTTNN", "DEBUG", "Finished execution of program: main")
        + log.text_of("Always", "INFO", "Device memory state after submit")
    )
    log.view("DRAM", 4.0)
    profile = log.profile()
    assert names(profile) == ["ttnn.add", "ttnn.relu", "ttnn.deallocate"]
    assert states(profile) == [
        ("before operation", 0, None, 2.0),
        ("before operation", 1, 0, 4.0),
        ("before operation", 2, 1, 6.0),
        ("after submit", None, 2, 4.0),
    ]
    assert programs(profile) == [("main", -1, 0, -1, 0, 3, True)]
    assert only(profile).line.tolist() == [1, 7, 11]
    assert profile.source.unrecognised_lines == 0


def test_glued_records_of_a_tagged_line_keep_their_rank() -> None:
    log = Log(prefix="[1,1]<stdout>:")
    small_run(Log(prefix="[1,0]<stdout>:"))
    log.line(
        "[1,1]<stdout>:"
        + log.text_of("RuntimeTTNN", "DEBUG", "Starting execution of program: main")
        + log.text_of("RuntimeTTNN", "DEBUG", f"Executing operation: {ADD}")
    )
    log.block("before operation EltwiseBinaryOp", 2.0)
    log.raw(small_run(Log(prefix="[1,0]<stdout>:")).bytes())
    profile = log.profile()
    assert [timeline.rank for timeline in profile.timelines] == [0, 1]
    assert names(profile, profile.timelines[1]) == ["ttnn.add"]
    assert programs(profile, profile.timelines[1]) == [("main", -1, 0, -1, 0, 1, False)]


def test_a_long_operation_line_cut_by_stderr_text_is_counted_as_damaged() -> None:
    # GIVEN stderr text inside an operation line; the rest of the operation comes on a line of its own
    log = Log()
    log.start()
    log.op(DEVICE, 2.0)
    text = log.text_of("RuntimeTTNN", "DEBUG", f"Executing operation: {ADD}")
    number = log.line(text[:150] + "WARNING: something on stderr")
    log.line(text[150:])
    log.block("before operation EltwiseBinaryOp", 2.0)
    log.op(RELU, 4.0)
    profile = log.profile()
    assert names(profile) == ["ttnn.get_device", "ttnn.add", "ttnn.relu"]
    assert [row[1:] for row in states(profile)] == [(0, None, 2.0), (1, 0, 2.0), (2, 1, 4.0)]
    assert profile.source.unrecognised_lines == 1
    assert any(text.startswith(f"line {number}: operation ttnn.add") for text in profile.source.warnings)


@pytest.mark.parametrize(
    "text",
    [
        "INFO:root:Executing operation: torch.nn.functional.relu on the host",
        'print("Executing operation: " + name)',
        "assert 'Executing operation: ttnn.add' in captured.out",
        "2026-05-14 01:00:00.003 | info     |           Metal | Device memory state is fine (device.cpp:72)",
        "the execution of program: main was slow",
        "Cache hit for function: f, said the Python cache",
        "WARNING:root:step 408429 café ✓ MemoryView of host tensor = {not a device view}",
    ],
)
def test_text_that_only_talks_about_records_is_foreign(text: str) -> None:
    log = small_run(Log())
    log.line(text)
    profile = log.profile()
    assert len(names(profile)) == 4
    assert profile.source.unrecognised_lines == 0
    assert only(profile).lookups == ()


def test_a_record_pasted_without_its_prefix_still_counts() -> None:
    # GIVEN an excerpt as people paste it into an issue
    log = Log()
    log.line(f"Executing operation: {ADD}")
    log.line(f"  Executing operation: {RELU}")
    assert names(log.profile()) == ["ttnn.add", "ttnn.relu"]


@pytest.mark.parametrize("prefix", ["", "2026-05-14T01:00:31.7551234Z "])
def test_a_record_glued_behind_a_line_of_a_module_dump(prefix: str) -> None:
    # GIVEN stderr and stdout in one file: the dump's line end came late
    log = Log()
    log.start()
    record = log.text_of("RuntimeTTNN", "DEBUG", f"Executing operation: {ADD}")
    log.line(f'{prefix}      %0 = "ttnn.relu"(%arg0) : (tensor<64x64xbf16, #ttnn_layout>) -> ' + record)
    log.block("before operation EltwiseBinaryOp", 2.0)
    profile = log.profile()
    assert names(profile) == ["ttnn.add"]
    assert states(profile) == [("before operation", 0, None, 2.0)]
