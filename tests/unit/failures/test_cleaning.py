# SPDX-License-Identifier: Apache-2.0
"""What stands around a message does not change it."""

from __future__ import annotations

import pytest

from support.failure_messages import COLOURS, PREFIXES
from ttmem.failures.text.find import find_failures

CLASH = (
    "Statically allocated dataflow buffers in program 6 clash with L1 buffers on core range [0-0 - 7-7]. "
    "L1 buffer allocated at 114688 and static dataflow buffer region ends at 116064"
)
FIGURES = {"program": 6, "l1_buffer_address": 114688, "region_end": 116064, "overlap_bytes": 1376}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_on_every_line_of_a_wrapped_message(prefix: str) -> None:
    wrapped = CLASH.replace(" clash", "\nclash").replace(" allocated at", "\nallocated at").replace(" ends", "\nends")
    text = "\n".join(prefix + line for line in wrapped.split("\n"))
    (failure,) = find_failures(text)
    assert failure.message == CLASH
    assert failure.numbers == FIGURES
    assert failure.texts == {"buffer_family": "dataflow", "core_range": "[0-0 - 7-7]"}


@pytest.mark.parametrize("colour", [*COLOURS, "^[[31m", "[38;2;255;000;000m"])
def test_colours_anywhere(colour: str) -> None:
    text = "TT_THROW: " + CLASH.replace("114688", f"114{colour}688") + "\x1b[0m"
    (failure,) = find_failures(text)
    assert failure.numbers == FIGURES


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\\n", "\\r\\n", "&#10;", "\n\n", "\n   \n\t"])
def test_line_breaks_as_logs_reprs_and_junit_files_spell_them(line_break: str) -> None:
    (failure,) = find_failures(CLASH.replace(" on core", f"{line_break}on core"))
    assert failure.numbers == FIGURES


def test_a_progress_bar_glued_before_the_message() -> None:
    (failure,) = find_failures(f"\rdecode:  37%|###  | 632/1000 [00:01<00:09, 12.1it/s]TT_THROW: {CLASH}")
    assert failure.message == CLASH


def test_two_messages_on_one_line_are_two_failures() -> None:
    other = CLASH.replace("program 6", "program 7")
    assert [failure.numbers["program"] for failure in find_failures(f"{CLASH} {other}")] == [6, 7]


def test_expected_errors_are_not_failures() -> None:
    text = (
        '[EXPECTED_ERROR BEGIN] RuntimeError message="clash"\n'
        f"TT_THROW: {CLASH}\n"
        '[EXPECTED_ERROR END] RuntimeError message="clash"\n'
        "Program size (79760) too large for kernel config buffer (70656) on TENSIX\n"
    )
    (failure,) = find_failures(text, include_other=True)
    assert (failure.failure_class, failure.line) == ("kernel/config", 4)
    assert failure.numbers == {"program_bytes": 79760, "ring_bytes": 70656}


def test_a_section_that_never_ends_is_expected_to_the_end() -> None:
    assert find_failures(f"[EXPECTED_ERROR BEGIN]\n{CLASH}") == []


def test_figures_of_a_sentence_that_was_cut_inside_the_figure_are_not_told() -> None:
    # GIVEN a text that ends within the address, where no unit follows
    (failure,) = find_failures(CLASH[: CLASH.index("114688") + 3])
    # THEN 114 is not taken for the address
    assert failure.numbers == {"program": 6}


def test_a_clash_whose_last_figure_was_cut_has_no_overlap() -> None:
    (failure,) = find_failures(CLASH[:-3])
    assert failure.numbers == {"program": 6, "l1_buffer_address": 114688}


@pytest.mark.parametrize("text", ["", "\n", "\r", " ", "\x1b[0m", "E", "\x00", "[EXPECTED_ERROR END]", "\udcff"])
def test_nothing_gives_nothing(text: str) -> None:
    assert find_failures(text, include_other=True) == []
