# SPDX-License-Identifier: Apache-2.0
"""One classification: the same text has the same status, whoever prints it."""

from __future__ import annotations

import pytest

from support.failure_classes import CLASSES
from ttmem.failures.classify import classify, classify_skip, find_sentence
from ttmem.failures.knowledge.tables import Wording, find_failure_class, find_title, load_entries
from ttmem.failures.outcome import FAIL, SKIPPED, STATUSES, Outcome

OUT_OF_MEMORY = (
    "Out of Memory: Not enough space to allocate 16777216 B L1 buffer across 64 banks, where each bank needs to store "
    "262144 B, but bank size is 1360544 B (allocated: 1179648 B, free: 180896 B, largest free block: 180896 B)"
)
CLASH = (
    "Statically allocated circular buffers in program 38 clash with L1 buffers on core range [0-0 - 7-7]. "
    "L1 buffer allocated at 875008 and static circular buffer region ends at 949664"
)


def test_a_figure_of_the_message_is_a_figure_of_the_outcome() -> None:
    assert classify(f"RuntimeError: TT_FATAL @ a.cpp:1: x\ninfo:\n{OUT_OF_MEMORY}.") == Outcome(
        "oom",
        failure_class="oom/capacity",
        memory="L1",
        message=OUT_OF_MEMORY,
        needed_bytes=16777216,
        bytes_per_bank=262144,
    )


def test_static_buffers_are_in_l1_though_the_message_does_not_name_it() -> None:
    outcome = classify(CLASH)
    assert (outcome.status, outcome.memory) == ("clash", "L1")


@pytest.mark.parametrize("text", [OUT_OF_MEMORY, CLASH])
def test_an_engine_and_a_log_say_the_same_of_one_text(text: str) -> None:
    assert classify(text, exception="RuntimeError") == classify(text)


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_has_a_status_of_the_contract(name: str) -> None:
    known = find_failure_class(name)
    assert known.status in STATUSES
    assert (known.status == "oom") == (name.startswith("oom/") or name == "trace/region")
    assert known.memory in (None, "L1")


def test_wordings_decide_between_statuses_that_exist() -> None:
    assert {wording.status for wording in load_entries(Wording)} <= {*STATUSES, ""}
    assert len({wording.title for wording in load_entries(Wording)}) == len(load_entries(Wording))


@pytest.mark.parametrize(
    ("failure_class", "message", "title"),
    [
        ("oom/capacity", OUT_OF_MEMORY, "Out of memory"),
        ("buffers/clash", CLASH, "Static buffers clash with L1 tensors"),
        ("", "module 'ttnn' has no attribute 'x'", "Operator is missing"),
        ("", "assert 0.1 > 0.99", "Wrong result"),
        ("none", "width of the first tensor must be equal to the height", "Matrix dimensions do not match"),
        ("crash", "the worker ended with status 3", "The process died"),
        ("shard/spec", "Shard shape must be 1D for 1D tensor!", ""),
        ("", "", ""),
    ],
)  # fmt: skip
def test_titles(failure_class: str, message: str, title: str) -> None:
    assert find_title(failure_class, message) == title


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("OOM issue for batch_size 8", "oom"),
        ("Test case is too big for L1", "oom"),
        ("module 'ttnn' has no attribute 'dropout'", "unsupported"),
        ("Need 64 cores to run this test but core grid is 8x7", SKIPPED),
    ],
)
def test_reasons_of_skips(text: str, status: str) -> None:
    assert classify_skip(text).status == status


def test_a_failure_without_words_is_a_failure() -> None:
    assert classify("").status == FAIL


def test_words_that_only_head_a_group_do_not_hide_those_that_decide() -> None:
    text = "AssertionError in compare: missing 2 required positional arguments"
    assert (classify(text).status, find_title("", text)) == ("invalid", "Arguments are missing")


def test_the_line_of_a_traceback_that_says_what_happened() -> None:
    assert find_sentence("x = 1\nE   + where 2\nE   RuntimeError:   two  blanks\n") == "RuntimeError: two blanks"
