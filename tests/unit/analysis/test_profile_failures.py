# SPDX-License-Identifier: Apache-2.0
"""Failures of profiles: what ended the run, and what the profile adds to its diagnosis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from support.build_profile import ProfileBuilder, tensor
from ttmem.analysis.failure import diagnose_failure, failure, failures
from ttmem.failures.diagnosis.diagnose import diagnose
from ttmem.failures.diagnosis.failure_state import LiveTensor
from ttmem.failures.text.find import find_failures
from ttmem.profile.model import BufferTable, Profile
from ttmem.reports import profile_files, profile_text

OOM = (
    "TT_FATAL: Out of Memory: Not enough space to allocate 117440512 B DRAM buffer across 12 banks, where each bank "
    "needs to store 9787392 B, but bank size is 1073741792 B (allocated: 976657856 B, free: 97083936 B, largest free "
    "block: 4587840 B)"
)
UNSAFE = "Allocating device buffers is unsafe due to the existence of an active trace. These buffers may be corrupted"
WRAPPER = "RuntimeError: Bad StatusOr access: INTERNAL: Error code: 13"


def test_a_wrapper_does_not_count_beside_a_real_failure_of_another_process() -> None:
    # GIVEN two ranks: one tells why, the other only that something failed
    build = ProfileBuilder()
    for rank, text in ((0, WRAPPER), (1, OOM)):
        build.rank(rank).operation("ttnn.linear")
        build.fail(text)
    # THEN only the reason is told
    assert [(item.rank, item.failure_class) for item in failures(build.build())] == [(1, "oom/fragmented")]


def test_a_wrapper_alone_is_all_there_is() -> None:
    build = ProfileBuilder()
    build.operation("ttnn.linear")
    build.fail(WRAPPER)
    found = failure(build.build())
    assert found is not None
    assert (found.failure_class, found.template) == ("none", "W1")


def test_a_warning_never_ends_a_run() -> None:
    # GIVEN a warning after which nothing more ran
    build = ProfileBuilder()
    build.operation("ttnn.linear")
    build.fail(UNSAFE)
    profile = build.build()
    # THEN it is told, but the run did not fail
    assert [(item.failure_class, item.is_warning) for item in failures(profile)] == [("trace/unsafe", True)]
    assert failure(profile) is None
    assert profile.to_json()["failure"] is None


def test_a_warning_before_a_failure_is_not_the_failure() -> None:
    build = ProfileBuilder()
    build.operation("ttnn.linear")
    build.fail(UNSAFE)
    build.fail(OOM)
    found = failure(build.build())
    assert found is not None
    assert found.failure_class == "oom/fragmented"


def failed_profile(*, survived: bool = False) -> Profile:
    weight, output, idle = tensor(8192, 8192), tensor(8192, 7168), tensor(320, 320)
    build = ProfileBuilder("failing", totals={"DRAM": 1073741792})
    with build.program("main", finished=survived):
        build.operation("ttnn.to_device", results={"%0": weight}, dram=0)
        build.operation("ttnn.full", results={"%1": idle}, dram=11_184_810)
        build.operation("ttnn.relu", results={"%2": tensor(32, 32)}, operands={"%1": idle}, dram=11_200_000)
        build.operation(
            "ttnn.linear", results={"%3": output}, operands={"%0": weight}, location="mlp.1", dram=976657856
        )
        build.fail(OOM)
        if survived:
            build.operation("ttnn.add", operands={"%0": weight}, dram=976657856)
    return build.build()


def test_the_tensor_that_did_not_fit_is_the_operations_result() -> None:
    profile = failed_profile()
    (found,) = failures(profile)
    diagnosis = diagnose_failure(profile, found)
    assert diagnosis.tensor is not None
    assert (diagnosis.tensor.confidence, diagnosis.tensor.shape) == ("certain", (8192, 7168))
    assert diagnosis.context.operation == "ttnn.linear"
    assert {item.name for item in diagnosis.live} == {"%0", "%1", "%2"}


def test_idle_tensors_are_known_only_where_the_run_went_on() -> None:
    for survived in (False, True):
        profile = failed_profile(survived=survived)
        diagnosis = diagnose_failure(profile, failures(profile)[0])
        ids = {remedy.id for remedy in diagnosis.remedies}
        assert ("free-idle-tensors" in ids) == survived


def test_a_failure_outside_any_program_is_an_upload() -> None:
    build = ProfileBuilder()
    with build.program("main"):
        build.operation("ttnn.a")
    build.fail(OOM, outside=True)
    profile = build.build()
    diagnosis = diagnose_failure(profile, failures(profile)[0])
    assert "while-uploading" in {finding.id for finding in diagnosis.findings}
    assert diagnosis.live == ()


def test_every_report_says_why_and_what_to_do() -> None:
    profile = failed_profile()
    headline = "DRAM is fragmented: 92.59 MiB per bank are free, enough for the 9.33 MiB wanted"
    advice = "Allocate the largest buffers first"
    assert headline.replace("MiB", "MB") in profile_text.render_markdown(
        profile
    )  # its fixed heading says MB, so all of it does
    assert headline in " ".join(profile_text.render_terminal(profile).split())
    page = profile_files.render_html(profile)  # its own words are packed; the Markdown that it offers to copy is not
    assert headline.replace("MiB", "MB") in page
    for text in (profile_text.render_terminal(profile), page, profile_text.render_markdown(profile)):
        assert advice in " ".join(text.split())
    document = profile.to_json()["failure"]
    assert document["diagnosis"].startswith(headline)
    assert document["remedies"][0]["do"].startswith(advice)


def captured_clash() -> Profile:
    """Two L1 tensors with their addresses, and a softmax whose buffers reach into the lower one."""
    build = ProfileBuilder(
        "captured", kind="ttnn-capture", facts={"board": "n150", "ttnn": "0.81.1", "system": "wormhole"}
    )
    build.operation("ttnn.full", l1=0)
    build.operation("ttnn.full", l1=500_000)
    build.operation("ttnn.softmax", l1=1_380_000)
    build.fail(
        "TT_THROW: Statically allocated dataflow buffers in program 0 clash with L1 buffers on core range [0-0 - 7-3]. "
        "L1 buffer allocated at 119136 and static dataflow buffer region ends at 267616"
    )
    build.snapshot(l1=0)
    profile = build.build()
    (timeline,) = profile.timelines

    def column(*values: int, kind: str = "int32") -> Any:
        return np.array(values, dtype=kind)

    buffers = BufferTable(
        address=column(999_136, 119_136, kind="int64"),
        memory=column(1, 1, kind="int8"),
        bytes_per_bank=column(500_000, 880_000, kind="int64"),
        total_bytes=column(32_000_000, 56_320_000, kind="int64"),
        first_state=column(1, 2),
        last_state=column(2, 2),
        producer=column(0, 1),
        last_use=column(-1, -1),
        tensor_type=column(-1, -1),
        name=column(0, 1),
        names=("keep", "more"),
    )
    return replace(profile, timelines=(replace(timeline, buffers=buffers),))


def test_a_capture_names_the_tensor_in_the_way() -> None:
    profile = captured_clash()
    diagnosis = diagnose_failure(profile, failures(profile)[0])
    # The board and the release are facts of a capture, so the L1 base is exact.
    assert (diagnosis.board.boards, diagnosis.board.numbers["l1_base_address"]) == (("n150",), 105_824)
    assert diagnosis.derived["static_bytes"] == 267_616 - 105_824
    # The state before the failing operation counts, not the one after it, when all is gone.
    assert [(item.name, item.address) for item in diagnosis.live] == [("keep", 999_136), ("more", 119_136)]
    first = diagnosis.remedies[0]
    assert (first.id, first.saves_bytes_per_bank, first.solves) == ("tensor-to-dram", 880_000, True)
    assert "'more'" in first.do
    # The picture shows both where they lie.
    assert diagnosis.picture is not None
    assert [(item.kind, item.start, item.end) for item in diagnosis.picture.stretches] == [
        ("reserved", 0, 105_824),
        ("buffers", 105_824, 119_136),
        ("overlap", 119_136, 267_616),
        ("tensors", 267_616, 999_136),
        ("tensors", 999_136, 1_499_136),
    ]


L1_OOM = (
    "TT_FATAL: Out of Memory: Not enough space to allocate 33554432 B L1 buffer across 64 banks, where each bank needs "
    "to store 524288 B, but bank size is 1393312 B (allocated: 1081344 B, free: 311968 B, largest free block: 311968 B)"
)


def l1_run() -> Profile:
    """A log that ends for want of L1: an L1 tensor in the way, and one of DRAM that is not."""
    large, small = tensor(4096, 4096, memory="L1"), tensor(1024, 1024, memory="L1")
    build = ProfileBuilder("l1", error_bytes=0)
    with build.program("main", finished=False):
        build.operation("ttnn.relu", results={"%1": large}, location="model.py:7", dram=0, l1=0)
        build.operation("ttnn.exp", results={"%2": small}, location="model.py:8", dram=0, l1=524_288)
        build.operation("ttnn.full", results={"%3": tensor(64, 64)}, dram=0, l1=557_056)
        build.operation("ttnn.add", operands={"%2": small}, location="model.py:9", dram=4096, l1=557_056)
        build.fail(L1_OOM)
    return build.build()


def test_a_failure_in_l1_lists_what_was_in_l1_with_who_made_it_and_where() -> None:
    profile = l1_run()
    (told,) = (diagnose_failure(profile, item) for item in failures(profile))
    assert [(item.name, item.memory, item.producer_index, item.location) for item in told.live] == [
        ("%1", "L1", 0, "model.py:7"),
        ("%2", "L1", 1, "model.py:8"),
    ]
    alive = profile.to_json()["failure"]["alive"]
    assert [(item["tensor"], item["producer"], item["location"], item["line"]) for item in alive] == [
        ("%1", "ttnn.relu", "model.py:7", told.live[0].line),
        ("%2", "ttnn.exp", "model.py:8", told.live[1].line),
    ]
    shown = " ".join(profile_text.render_terminal(profile, width=200).split())
    assert "Alive in L1 when it failed: - %1 4096x4096 (bf16), 524,288 B per bank, from #0 ttnn.relu at model" in shown
    assert (
        "- Alive in L1 when it failed: %1 4096x4096 (bf16), 524,288 B per bank, from #0"
        in profile_text.render_markdown(profile)
    )


def test_a_remedy_that_is_enough_by_itself_is_marked() -> None:
    profile = l1_run()
    (told,) = (diagnose_failure(profile, item) for item in failures(profile))
    move = next(remedy for remedy in told.remedies if remedy.id == "live-tensor-to-dram")
    # THEN the tensor whose part of a bank is large enough is named, not the small one
    assert "'%1' of ttnn.relu at model.py:7" in move.do
    assert (move.saves_bytes_per_bank, move.solves) == (524_288, True)


def test_neighbours_of_a_tensor_count_where_addresses_are_known() -> None:
    def live(name: str, address: int, size: int, **more: Any) -> LiveTensor:
        return LiveTensor(name, "L1", size, address=address, **more)

    # GIVEN 300,000 B on both sides of a small tensor: alone it is too small, with its neighbours it is not
    others = [live("low", 200_000, 100_000), live("small", 600_000, 32_768), live("high", 932_768, 500_000)]
    (found,) = find_failures(L1_OOM.replace("311968", "700000"))
    told = diagnose(found, board="n150", live=others)
    move = next(remedy for remedy in told.remedies if remedy.id == "live-tensor-to-dram")
    assert "'small'" in move.do
    assert move.solves


def test_an_input_of_the_operation_cannot_leave_dram() -> None:
    (found,) = find_failures(OOM.replace("free: 97083936", "free: 8083936"))
    alive = [LiveTensor("input", "DRAM", 99_000_000, is_input=True), LiveTensor("old", "DRAM", 1_000)]
    told = diagnose(found, live=alive)
    (less,) = (remedy for remedy in told.remedies if remedy.id == "one-live-tensor-less")
    assert "'old'" in less.do
    assert less.solves is False


def test_what_was_left_is_listed_for_a_failure_outside_any_program() -> None:
    build = ProfileBuilder("upload")
    with build.program("main"):
        build.operation("ttnn.relu", results={"%1": tensor(4096, 4096)}, location="model.py:7", dram=0)
        build.operation("ttnn.get_device", dram=3_000_000)
    build.fail(OOM, outside=True)
    profile = build.build()
    (told,) = (diagnose_failure(profile, item) for item in failures(profile))
    assert [item.name for item in told.live] == ["%1"]
