# SPDX-License-Identifier: Apache-2.0
"""Public failures are classified as their threads say, however they were pasted."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.failure_classes import CLASSES
from support.failure_messages import CASES, Case, core, mangled
from ttmem.failures.text.find import find_failures

LABELLED = [case for case in CASES if case.label is not None]


@pytest.mark.parametrize("case", LABELLED, ids=lambda case: case.thread)
def test_each_labelled_case_is_one_failure_of_its_class(case: Case) -> None:
    assert [failure.failure_class for failure in find_failures(case.message)] == [case.label]


def test_l1_small_that_is_full_but_prints_no_statistics_stays_open() -> None:
    # GIVEN the one case whose thread does not settle the class: a third of the bank, nothing known of the rest
    (open_case,) = [case for case in CASES if case.label is None]
    # WHEN / THEN the arithmetic refuses to guess
    (failure,) = find_failures(open_case.message)
    assert (failure.failure_class, failure.memory) == ("oom/unknown", "L1_SMALL")


@given(st.data())
@examples(400)
def test_mangled_copies_keep_class_and_figures(data: st.DataObject) -> None:
    # GIVEN a public message and a mangled copy of it
    case = data.draw(st.sampled_from(CASES))
    (clean,) = find_failures(core(case.message))
    text = data.draw(mangled(case.message))
    # WHEN it is read
    (failure,) = find_failures(text)
    # THEN it is that failure, once
    assert failure.failure_class == clean.failure_class
    assert failure.memory == clean.memory
    assert failure.numbers == clean.numbers


@given(st.data())
@examples(300)
def test_one_missing_figure_costs_that_figure_only(data: st.DataObject) -> None:
    # GIVEN a message that is classified by its wording, with one figure lost in the paste
    by_wording = [case for case in LABELLED if not case.label.startswith(("oom", "host"))]
    case = data.draw(st.sampled_from(by_wording))
    message = re.sub(r"\(x=\d+,y=\d+\)", "(x,y)", core(case.message))
    (clean,) = find_failures(f"RuntimeError: {message}")
    figures = list(
        re.finditer(r"(?<=[ (=])\d+(?=\D|$)", re.sub(r"\[[^\]]*\)?\]?\)?", lambda m: "_" * len(m[0]), message))
    )
    if not figures:
        return
    lost = data.draw(st.sampled_from(figures))
    text = message[: lost.start()].rstrip() + message[lost.end() :]
    # WHEN / THEN the class stays and no figure is invented
    (failure,) = find_failures(f"RuntimeError: {text}")
    assert failure.failure_class == case.label
    assert failure.numbers.items() <= clean.numbers.items()


@given(st.data())
@examples(400)
def test_a_cut_message_tells_no_wrong_figure(data: st.DataObject) -> None:
    # GIVEN an allocator message cut anywhere, as a full disk or a killed process leaves it
    case = data.draw(st.sampled_from([case for case in CASES if "Not enough space to allocate" in case.message]))
    (whole,) = find_failures(case.message)
    cut = case.message[: data.draw(st.integers(0, len(case.message)))]
    # WHEN / THEN what is left of it is part of the truth
    for failure in find_failures(cut):
        assert failure.numbers.items() <= whole.numbers.items()
        assert failure.failure_class.startswith("oom/")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.thread)
def test_statistics_of_public_messages_add_up(case: Case) -> None:
    for failure in find_failures(case.message):
        numbers = failure.numbers
        if {"allocated", "free", "bank_bytes"} <= numbers.keys():
            assert numbers["allocated"] + numbers["free"] == numbers["bank_bytes"]
        assert "note" not in failure.texts


@given(st.text(max_size=300), st.sampled_from(CASES), st.integers(0, 400), st.integers(0, 400))
@examples(300)
def test_no_text_can_break_it(noise: str, case: Case, at: int, until: int) -> None:
    # GIVEN a real message with anything at all spliced into it
    text = case.message[:at] + noise + case.message[until:]
    # WHEN / THEN it is read without an error, and every class is one of the contract
    for failure in find_failures(text, include_other=True):
        assert failure.failure_class in CLASSES
        assert failure.line is not None
        assert 1 <= failure.line <= text.count("\n") + 1
