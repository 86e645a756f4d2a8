# SPDX-License-Identifier: Apache-2.0
"""Small parts: what an answer means, limits, comparisons, peaks of a stretch, a capture put together by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.analysis.failure import failure
from ttmem.engines.ttnn import build_outcome
from ttmem.engines.worker.pytest_plugin import PeakCounter, compute_allowed_bytes
from ttmem.failures.outcome import STATUSES, Outcome
from ttmem.profile.builder import ProfileBuilder
from ttmem.profile.model import BEFORE_OPERATION, SNAPSHOT, WITHIN_OPERATION
from ttmem.profile.tables import find_largest_free_block
from ttmem.profile.tensor_type import decode_tensor_type

# --- outcomes -----------------------------------------------------------------------------------------------------


def answered(error: str, kind: str = "RuntimeError") -> Outcome:
    told = {"answers": [{"ok": True}, {"ok": False, "error": error, "kind": kind}], "finished": True}
    return build_outcome(told, 2)


OUT_OF_MEMORY = "TT_FATAL @ a.cpp:1: x\ninfo:\nOut of Memory: Not enough space to allocate 64 B DRAM buffer"
CLASH = (
    "Statically allocated circular buffers in program 38 clash with L1 buffers on core range [0-0 - 7-7]. "
    "L1 buffer allocated at 875008 and static circular buffer region ends at 949664"
)
OVERFLOW = (
    "Statically allocated dataflow buffers on core range [0-0 - 7-7] grow to 2334048 B which is beyond max L1 size of "
    "1499136 B"
)
REFUSED = "TT_FATAL @ b.cpp:2: y\ninfo:\nHeight sharded inputs are not supported."


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (OUT_OF_MEMORY, "RuntimeError", "oom"),
        (CLASH, "RuntimeError", "clash"),
        (OVERFLOW, "RuntimeError", "overflow"),
        (REFUSED, "RuntimeError", "invalid"),
        ("incompatible function arguments", "TypeError", "invalid"),
        ("module 'ttnn' has no attribute 'x'", "AttributeError", "unsupported"),
        ("", "MemoryError", "error"),
    ],
)
def test_errors_have_a_status(error: str, kind: str, status: str) -> None:
    assert answered(error, kind).status == status
    assert status in STATUSES


def test_a_process_that_said_nothing_more_crashed() -> None:
    assert build_outcome({"answers": [{"ok": True}], "signal": 11}, 2).message == "the process was ended by SIGSEGV"
    assert build_outcome({"answers": [], "timed_out": True}, 1).status == "timeout"
    assert build_outcome({"answers": [], "finished": False}, 1).status == "crash"


# --- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "allowed"), [("90%", 900), ("0.5%", 5), ("64 B", 64), ("1.5KiB", 1536), ("2kb", 2000), ("1MiB", 1 << 20)]
)
def test_limits(text: str, allowed: int) -> None:
    assert compute_allowed_bytes(text, 1000) == allowed


@pytest.mark.parametrize("text", ["90", "much", "", "-3%", 5, None, "1 furlong"])
def test_a_limit_without_a_unit_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is not a limit"):
        compute_allowed_bytes(text, 1000)


# --- messages -----------------------------------------------------------------------------------------------------

POOLS = {"DRAM": [12, 1000, 10_000], "L1": [64, 0, 4096], "L1_SMALL": [0, 0, 0], "TRACE": [12, 0, 0]}


def state(dram: int, l1: int = 0) -> list[list[int]]:
    return [
        [12, 10_000, dram, 10_000 - dram, 10_000 - dram],
        [64, 4096, l1, 4096 - l1, 4096 - l1],
        [0, 0, 0, 0, 0],
        [12, 0, 0, 0, 0],
    ]


def started(index: int, name: str, dram: int, **more: Any) -> dict[str, Any]:
    told = {"start": index, "name": name, "file": "/x/model.py", "line": 3 + index, "state": state(dram)}
    return {**told, "came": [], "gone": [], "uses": [], "tensors": [], **more}


def ended(index: int, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"end": index, "born": [], "gone": [], "fullest": {}, "l1": [0, 0, 0, 0, 1], "names": []}
    return {**told, "tensors": [], **more}


MESSAGES: list[dict[str, Any]] = [
    {"hello": 1, "ttnn": "0.81.1"},
    {"device": {"arch": "wormhole_b0", "grid": [8, 8], "chips": 1, "mesh": [1, 1], "pools": POOLS}},
    started(0, "ttnn.a", 0),
    ended(0, born=[[0, 0, 1000, 320, 3840]], names=[[0, "x"]], fullest={"DRAM": [320, [0], [], 9680]}),
    started(1, "ttnn.b", 320, uses=[0]),
    ended(
        1,
        born=[[1, 0, 1320, 640, 7680], [2, 0, 1960, 32, 384]],
        gone=[1],
        fullest={"DRAM": [992, [1, 2], [], 9008]},
        l1=[0, 4096, 0, 16, 1],
    ),
    started(2, "ttnn.c", 32, gone=[0], uses=[2]),
    ended(2, error=OUT_OF_MEMORY),
    {"closed": True, "state": state(32), "came": [], "gone": []},
    {"exit": 1, "error": f"RuntimeError: {OUT_OF_MEMORY}"},
]


def test_messages_become_rows_buffers_and_failures() -> None:
    # GIVEN what a recorder tells: x is made, b makes a temporary and a result, x is dropped, c fails
    capture = ProfileBuilder()
    for message in MESSAGES:
        capture.add(message)
    capture.end_process()
    profile = capture.build(name="model", script="/x/model.py", engine="mock", board="n150")
    timeline = profile.timelines[0]
    # THEN there is one row before each operation, one for the temporary, one at the end
    assert timeline.state_kind.tolist() == [
        BEFORE_OPERATION, BEFORE_OPERATION, WITHIN_OPERATION, BEFORE_OPERATION, SNAPSHOT
    ]  # fmt: skip
    assert timeline.state_operation.tolist() == [0, 1, 1, 2, -1]
    assert timeline.state_cause.tolist() == [-1, 0, 1, 1, 2]
    assert [int(profile.views[view, 2]) for view in timeline.state_view[:, 0]] == [0, 320, 992, 32, 32]
    assert profile.views[timeline.state_view[2, 0]].tolist() == [12, 10_000, 992, 9008, 9008]
    # AND each buffer knows in which of them it is
    buffers = timeline.buffers
    assert buffers is not None
    rows = {
        buffers.names[name]: (first, last, producer, use)
        for name, first, last, producer, use in zip(
            buffers.name.tolist(),
            buffers.first_state.tolist(),
            buffers.last_state.tolist(),
            buffers.producer.tolist(),
            buffers.last_use.tolist(),
            strict=True,
        )
    }
    assert rows == {"x": (1, 2, 0, 1), "temporary of ttnn.b": (2, 2, 1, -1), "kept by ttnn.b": (2, 4, 1, 2)}
    # AND the failure is told once, with its operation
    found = failure(profile)
    assert found is not None
    assert (found.failure_class, found.operation_index, found.line) == ("oom/unknown", 2, 5)
    assert len(timeline.failures) == 1
    assert timeline.programs_l1 is not None
    assert timeline.programs_l1.scratchpads.tolist() == [0, 16, 0]
    assert profile.facts["engine"] == "mock"


@pytest.mark.parametrize("cut", range(len(MESSAGES)))
def test_a_recording_that_breaks_off_anywhere_is_a_profile(cut: int) -> None:
    capture = ProfileBuilder()
    for message in MESSAGES[:cut]:
        capture.add(message)
    capture.end_process(signal_number=11)
    profile = capture.build(name="model", script="/x/model.py", engine="mock", board="n150")
    document = profile.to_json()
    assert document["operations"]["executed"] == sum("start" in message for message in MESSAGES[:cut])
    assert document["failures"][-1]["class"] == "crash"
    running = MESSAGES[cut - 1] if cut else {}
    if "start" in running:
        assert document["failures"][-1]["operation"]["index"] == running["start"]


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 20)), max_size=12))
def test_the_largest_free_block_is_what_a_picture_of_the_bank_shows(taken: list[tuple[int, int]]) -> None:
    bank = bytearray(120)
    for address, size in taken:
        bank[address : address + size] = b"x" * size
    expected = max(len(free) for free in bytes(bank).split(b"x"))
    assert find_largest_free_block(0, 120, taken) == expected


def test_peaks_of_a_stretch() -> None:
    peaks = PeakCounter()
    for message in MESSAGES:
        peaks.add(message)
    assert (peaks.allocated["DRAM"], peaks.l1_with_programs, peaks.operations) == (992, 4112, 3)
    peaks.reset()
    assert peaks.allocated == {}
    assert peaks.bank_bytes["DRAM"] == 10_000


def test_a_tensor_type_has_the_librarys_pages_and_our_padding() -> None:
    told = {
        "shape": [1, 40, 40],
        "padded": [1, 64, 64],
        "dtype": "bfloat8_b",
        "layout": "tile",
        "memory": "L1",
        "placement": "height_sharded",
        "page_bytes": 1088,
        "pages": 4,
        "shard": [32, 64],
        "shard_cores": 2,
    }
    found = decode_tensor_type(told)
    assert (found.logical_bytes, found.padded_bytes, found.shard_bytes) == (1600 * 1088 // 1024, 4352, 2176)
    # AND a format that our tables do not know yet is judged by its pages
    assert decode_tensor_type({**told, "dtype": "float6_x"}).logical_bytes == 4352 * 1600 // 4096
