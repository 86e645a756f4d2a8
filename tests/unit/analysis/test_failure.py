# SPDX-License-Identifier: Apache-2.0
"""Which failure ended the run, among all that were printed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.build_profile import ProfileBuilder
from ttmem.analysis.failure import RunEnd, failure, failures, memory_failure, run_end
from ttmem.reports import profile_files

OOM = (
    "TT_FATAL: Out of Memory: Not enough space to allocate 4096 B L1 buffer across 8 banks, where each bank needs to "
    "store 512 B, but bank size is 1364928 B (allocated: 1364800 B, free: 128 B, largest free block: 128 B)"
)
OVERFLOW = (
    "TT_THROW: Statically allocated circular buffers on core range [0-0 - 1-1] grow to 2101768 B which is beyond max "
    "L1 size of 1572864 B"
)


def test_each_failure_once_with_its_first_operation() -> None:
    build = ProfileBuilder()
    with build.program("main", finished=False):
        build.operation("ttnn.matmul", location="dot.1")
        build.fail(OOM)
        build.fail(OOM)
    (found,) = failures(build.build())
    assert (found.failure_class, found.memory) == ("oom/capacity", "L1")
    assert (found.operation_index, found.operation_name, found.operation_location) == (0, "ttnn.matmul", "dot.1")
    assert dict(found.numbers) == {
        "requested_bytes": 4096,
        "banks": 8,
        "bytes_per_bank": 512,
        "bank_bytes": 1364928,
        "allocated": 1364800,
        "free": 128,
        "largest_free": 128,
    }


def test_the_first_after_which_nothing_ran_ended_the_run() -> None:
    build = ProfileBuilder()
    with build.program("main", finished=False):
        build.operation("ttnn.a")
        build.fail(OOM)
        build.operation("ttnn.b")
        build.fail(OVERFLOW)
        build.fail("RuntimeError: Error code: 13")
    found = failure(build.build())
    assert found is not None
    assert (found.failure_class, found.operation_index, found.survived) == ("buffers/overflow", 1, False)


def test_a_caught_failure_is_shown_when_nothing_else_happened() -> None:
    build = ProfileBuilder()
    with build.program("main"):
        build.operation("ttnn.a")
        build.fail(OOM)
        build.operation("ttnn.b")
    found = failure(build.build())
    assert found is not None
    assert (found.operation_index, found.survived) == (0, True)


def test_outside_any_program() -> None:
    build = ProfileBuilder()
    with build.program("main"):
        build.operation("ttnn.a")
    build.fail(OOM, outside=True)
    (found,) = failures(build.build())
    assert (found.operation_index, found.operation_name, found.operation_location) == (None, "", "")


def test_no_failure() -> None:
    assert failures(ProfileBuilder().build()) == []
    assert failure(ProfileBuilder().build()) is None


def test_ranks_keep_their_failures() -> None:
    build = ProfileBuilder()
    for rank in (0, 1):
        build.rank(rank).operation("ttnn.a")
        build.fail(OOM)
    assert [(item.rank, item.operation_index) for item in failures(build.build())] == [(0, 0), (1, 0)]


def test_a_run_that_memory_ended() -> None:
    build = ProfileBuilder()
    with build.program("main", finished=False):
        build.operation("ttnn.matmul", location="dot.1")
        build.fail(OVERFLOW)
    profile = build.build()
    ended = memory_failure(profile)
    assert ended is not None
    assert ended.failure_class == "buffers/overflow"
    assert run_end(profile) == RunEnd("", ended.message, "dot.1", is_for_memory=True)


@pytest.mark.parametrize("error", ["AssertionError", "KeyboardInterrupt", "ModuleNotFoundError", "SIGSEGV"])
def test_a_run_that_something_else_ended_fits_as_far_as_it_ran(error: str) -> None:
    build = ProfileBuilder()
    with build.program("main"):
        build.operation("ttnn.matmul")
    told = {"error": error, "message": "no", "location": "model.py:286"}
    profile = replace(build.build(), facts={"ended": told})
    assert memory_failure(profile) is None
    end = run_end(profile)
    assert end is not None
    assert end.sentence == f"the script ended with {error} at model.py:286 (not memory)"
    assert profile.to_json()["ended"] == {**told, "not_judged": False}


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("MemoryError", ""),
        (
            "_ArrayMemoryError",
            "Unable to allocate 8.00 TiB for an array with shape (1024, 1048576) and data type float64",
        ),
        ("RuntimeError", "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
    ],
)
def test_a_run_that_ended_for_want_of_host_memory(error: str, message: str) -> None:
    build = ProfileBuilder()
    with build.program("main"):
        build.operation("ttnn.matmul")
    told = {"error": error, "message": message, "location": "model.py:286"}
    profile = replace(build.build(), facts={"ended": told})
    end = run_end(profile)
    assert memory_failure(profile) is None
    assert end is not None
    assert end.sentence == f"the script ended with {error} at model.py:286 (not device memory)"
    assert profile_files.list_facts(profile)["status"] == f"{error} (not device memory)"


def test_a_log_that_ends_for_want_of_host_memory() -> None:
    build = ProfileBuilder()
    with build.program("main", finished=False):
        build.operation("ttnn.matmul", location="dot.1")
        build.fail("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 TiB for an array")
    end = run_end(build.build())
    assert end is not None
    assert end.sentence == "the run ended with _ArrayMemoryError at dot.1 (not device memory)"


def test_a_run_that_came_to_its_end() -> None:
    build = ProfileBuilder()
    with build.program("main"):
        build.operation("ttnn.matmul")
    assert run_end(build.build()) is None
    assert build.build().to_json()["ended"] is None
