# SPDX-License-Identifier: Apache-2.0
"""Public failures from text to answer: class, numbers, headline, remedies; mangled copies too, harmless text none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.failure_classes import CLASSES
from support.failure_messages import CASES, Case, core, mangled
from ttmem.failures.diagnosis.diagnose import Diagnosis, explain
from ttmem.failures.text.find import find_failures
from ttmem.reports import explain_document
from unit.failures.test_harmless import LOG_LINES, PROSE

LABELLED = [case for case in CASES if case.label is not None]
CONTRACT = ("schema", "class", "memory", "operation", "numbers", "diagnosis", "tensor_guess", "remedies", "line")


def answers(diagnoses: Sequence[Diagnosis]) -> list[dict[str, Any]]:
    """As a reader of the JSON gets them."""
    return [one.to_json() for one in explain_document.build_document(diagnoses)]


@pytest.mark.parametrize("case", LABELLED, ids=lambda case: case.thread)
def test_each_case_is_explained_once_as_labelled(case: Case) -> None:
    (entry,) = answers(explain(case.message))
    assert entry["class"] == case.label
    assert tuple(entry)[: len(CONTRACT)] == CONTRACT
    (failure,) = find_failures(case.message)
    assert entry["numbers"] == dict(failure.numbers)
    assert entry["headline"]
    assert entry["remedies"], "something can always be said"
    for remedy in entry["remedies"]:
        assert remedy["do"]
        assert remedy["why"]
        assert remedy["saves_bytes"] is None or remedy["saves_bytes"] > 0
    json.dumps(entry, allow_nan=False)


@given(st.data())
@examples(150)
def test_mangled_copies_are_explained_alike(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(LABELLED))
    (clean,) = answers(explain(core(case.message)))
    (entry,) = answers(explain(data.draw(mangled(case.message))))
    for key in ("class", "memory", "numbers"):
        assert entry[key] == clean[key]


@pytest.mark.parametrize("text", [*PROSE, *LOG_LINES, "", "\n\n", "\x00\xff", "1 2 3"])
def test_harmless_text_is_none(text: str) -> None:
    (entry,) = answers(explain(text))
    assert (entry["class"], entry["numbers"], entry["line"]) == ("none", {}, None)
    assert entry["headline"] == "No known memory failure found in this text."


@given(st.text(max_size=200), st.sampled_from(CASES), st.integers(0, 300), st.integers(0, 300))
@examples(150)
def test_no_text_can_break_it(noise: str, case: Case, at: int, until: int) -> None:
    for entry in answers(explain(case.message[:at] + noise + case.message[until:])):
        assert entry["class"] in CLASSES
        json.dumps(entry, allow_nan=False)


def test_look_alikes_are_told_apart() -> None:
    looks = {
        "RuntimeError: Bad StatusOr access: INTERNAL: Error code: 13": ("none", "the reason is above it"),
        "Failed to allocate the TLB with size 1048576": ("host/memory", "Not a shortage of memory"),
        "tt_tlb_alloc failed with error code -12 for TLB size 2097152": ("host/memory", "Not a shortage of memory"),
        "##[error]Process completed with exit code 137.": ("host/memory", "only the kernel's log can prove it"),
        "posix_spawnp failed: Argument list too long": ("none", "could not start a process"),
    }
    for text, (failure_class, words) in looks.items():
        (entry,) = answers(explain(text))
        assert entry["class"] == failure_class
        assert words in entry["diagnosis"]


def test_unknown_text_gets_the_nearest_template() -> None:
    (entry,) = answers(explain("TT_FATAL: Not enough room to allocate a DRAM buffer: each bank needs to store 5 B"))
    assert entry["class"] == "none"
    assert entry["nearest_template"]["template"] == "A1"
    assert "Not enough space to allocate" in entry["nearest_template"]["text"]
    assert answers(explain("all is well"))[0]["nearest_template"] is None


def test_an_error_without_memory_is_left_out_beside_one_with() -> None:
    oom = LABELLED[0].message
    other = "RuntimeError: TT_FATAL @ a/reshape.cpp:10: volume == other\ninfo:\nshapes differ\nbacktrace:\n --- f"
    assert [entry["class"] for entry in answers(explain(f"{other}\n\n{oom}"))] == [LABELLED[0].label]
    assert [entry["class"] for entry in answers(explain(other))] == ["none"]
