# SPDX-License-Identifier: Apache-2.0
"""Each failure once, with the figures of its fullest print and the line of its first."""

from __future__ import annotations

import pickle
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from ttmem.failures.failure import Failure
from ttmem.failures.text.find import deduplicate, find_failures

OVERFLOW = "Statically allocated circular buffers on core range {} grow to 2000 B which is beyond max L1 size of 1000 B"


def oom_text(requested: int, need: int) -> str:
    return (
        f"Out of Memory: Not enough space to allocate {requested} B DRAM buffer across 12 banks, where each bank needs "
        f"to store {need} B, but bank size is 1000 B (allocated: 600 B, free: 400 B, largest free block: 300 B)"
    )


def one(text: str) -> Failure:
    (failure,) = find_failures(text, include_other=True)
    return failure


def test_metal_line_pjrt_line_and_python_line() -> None:
    text = oom_text(4200, 350)
    failures = [
        replace(one(f"| critical | Always | TT_FATAL: {text} (assert.hpp:104)"), line=10),
        replace(one(f"{{TT_FATAL @ a/b/bank_manager.cpp:462: false\ninfo:\n{text}\n}}"), line=12),
        replace(one(f"RuntimeError: {text}"), line=40),
    ]
    (failure,) = deduplicate(failures)
    assert failure == replace(failures[0], texts={"file": "bank_manager.cpp:462"})


def test_a_source_file_belongs_to_the_message_of_its_exception_only() -> None:
    text = f"TT_FATAL @ a/bank_manager.cpp:462: false\ninfo:\n{oom_text(4200, 350)}\n{oom_text(8400, 700)}"
    assert [failure.texts for failure in find_failures(text)] == [{"file": "bank_manager.cpp:462"}, {}]


def test_a_cut_print_before_the_full_one_gives_its_line_only() -> None:
    full = replace(one(oom_text(4200, 350)), line=30)
    cut = replace(one(oom_text(4200, 350)[:80] + " banks"), line=20)
    assert (cut.failure_class, full.failure_class) == ("oom/unknown", "oom/fragmented")
    assert deduplicate([cut, full]) == [replace(full, line=20)]
    assert deduplicate([full, cut]) == [replace(full, line=20)]


def test_a_print_without_figures_repeats_any_of_its_family() -> None:
    overflow = OVERFLOW.format("[0-0 - 7-7]")
    (failure,) = find_failures(f"TT_THROW: {overflow}\nRuntimeError: circular buffers grow beyond max L1 size")
    assert failure.numbers == {"region_end": 2000, "l1_bytes": 1000}


def test_thousands_separators_do_not_make_another_failure() -> None:
    text = oom_text(4200, 350)
    assert len(find_failures(text + "\n" + text.replace("4200", "4,200").replace("1000", "1,000"))) == 1


def test_other_figures_are_another_failure() -> None:
    texts = [oom_text(4200, 350), oom_text(8400, 700), oom_text(4200, 350), oom_text(12600, 1050)]
    found = find_failures("\n".join(texts))
    assert [(failure.numbers["requested_bytes"], failure.line) for failure in found] == [
        (4200, 1),
        (8400, 2),
        (12600, 4),
    ]


def test_the_same_figures_on_other_cores_or_in_another_memory_are_another_failure() -> None:
    text = "\n".join(OVERFLOW.format(cores) for cores in ("[0-0 - 7-7]", "[0-0 - 3-3]", "[0-0 - 7-7]"))
    assert [failure.texts["core_range"] for failure in find_failures(text)] == ["[0-0 - 7-7]", "[0-0 - 3-3]"]
    text = oom_text(4200, 350) + "\n" + oom_text(4200, 350).replace("DRAM", "L1")
    assert [failure.memory for failure in find_failures(text)] == ["DRAM", "L1"]


def test_wrappers_are_told_only_where_nothing_else_is() -> None:
    wrapper = one("RuntimeError: Bad StatusOr access: INTERNAL: Error code: 13")
    assert (wrapper.failure_class, wrapper.template, dict(wrapper.numbers)) == ("none", "W1", {"status": 13})
    assert deduplicate([one(oom_text(4200, 350)), wrapper]) == [one(oom_text(4200, 350))]
    assert deduplicate([wrapper, wrapper]) == [wrapper]


def test_keys_are_equal_for_prints_of_one_failure_and_unequal_otherwise() -> None:
    text = oom_text(4200, 350)
    assert one(text).key == one(f"TT_FATAL @ a.cpp:1: false\ninfo:\n{text}").key
    assert one(text).key == one(text.replace("4200", "4,200")).key
    assert len({one(oom_text(4200, need)).key for need in (350, 360, 500, 2000)}) == 4


def test_failures_cross_process_boundaries_and_hash() -> None:
    failure = one(oom_text(4200, 350))
    assert pickle.loads(pickle.dumps(failure)) == failure
    assert len({failure, one(oom_text(4200, 350))}) == 1


@given(st.lists(st.integers(301, 305), max_size=12))
@examples(60)
def test_deduplication_is_stable(needs: list[int]) -> None:
    # GIVEN prints of up to five failures in any order
    failures = [replace(one(oom_text(need * 12, need)), line=line) for line, need in enumerate(needs)]
    # WHEN
    kept = deduplicate(failures)
    # THEN each stands where it was first printed, and doing it again changes nothing
    assert [failure.numbers["bytes_per_bank"] for failure in kept] == list(dict.fromkeys(needs))
    assert [failure.line for failure in kept] == [needs.index(need) for need in dict.fromkeys(needs)]
    assert deduplicate(kept) == kept


def test_a_print_without_figures_does_not_move_the_failure_it_repeats() -> None:
    # GIVEN a short print before two failures, either of which it may repeat
    full = "Statically allocated circular buffers on core range [0-0] grow to {} B which is beyond max L1 size of 9 B"
    short = "RuntimeError: circular buffers grow beyond max L1 size"
    text = "\n".join((short, full.format(33661792), full.format(2101768)))
    # THEN each failure stands where it is printed with its figures
    assert [(failure.numbers["region_end"], failure.line) for failure in find_failures(text)] == [
        (33661792, 2),
        (2101768, 3),
    ]
