# SPDX-License-Identifier: Apache-2.0
"""A large log is searched by its suspicious lines alone, and nothing that a whole reading would find is lost."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.failure_messages import CASES
from ttmem.failures.knowledge.tables import Template, load_entries
from ttmem.failures.text.clean_text import EXPECTED_BEGIN, EXPECTED_END
from ttmem.failures.text.find import deduplicate, find_failures
from ttmem.failures.text.find_in_stream import find_in_chunks, find_in_text
from ttmem.failures.text.scan import FAILURE_WORDS, LogScanner
from unit.failures.test_harmless import OPERATION, VIEW
from unit.failures.test_templates import prints

BLOCK = f"Device memory state before operation Add\n{VIEW}\n{VIEW}\n{VIEW}\n{VIEW}\n{OPERATION}\n"
FOREIGN = "2026-05-14 01:00:00.014 (   0.014s) [        4F4456C0]    buffer_instance.cc:343      1| copied\n"
LARGE = 3 << 20


def chunked(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def filled(unit: str, text: str, at: float) -> str:
    """A log of a few MB with a text somewhere in it."""
    count = LARGE // len(unit)
    before = int(count * at)
    return unit * before + text + "\n" + unit * (count - before)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.thread)
def test_a_failure_in_a_runtime_log_is_found_where_it_stands(case: object) -> None:
    # GIVEN a public message in the middle of a log of some MB
    message: str = case.message  # type: ignore[attr-defined]
    log = filled(BLOCK, message, 0.6)
    (alone,) = find_failures(message)
    # WHEN the log is read in chunks THEN it is that failure, with its line
    found = find_in_chunks(chunked(log.encode(), 1 << 20))
    assert [(failure.key, failure.line) for failure in found.failures] == [
        (alone.key, log[: log.index(message)].count("\n") + (alone.line or 1))
    ]
    assert found.contexts[0].operation == "ttnn.add"
    assert found.is_runtime_log


@pytest.mark.parametrize("template", load_entries(Template), ids=lambda template: template.id)
@given(data=st.data())
@examples(2)
def test_every_sentence_is_suspicious(template: Template, data: st.DataObject) -> None:
    """Wrapped at any blank, one of its lines still holds a word of the scan."""
    sentence, _ = data.draw(prints(template))
    words = [word.encode() for word in sentence.split()]
    assert any(part in word for word in words for part in FAILURE_WORDS), (
        f"no word of template {template.id} is in FAILURE_WORDS (failures/text/scan.py), so logs are not "
        "searched for it: add a word of its sentence that ordinary lines of logs lack"
    )


@pytest.mark.parametrize("unit", [BLOCK, FOREIGN], ids=["runtime log", "foreign log"])
@pytest.mark.parametrize("size", [1000, 70_001, 1 << 20])
def test_chunk_borders_do_not_matter(unit: str, size: int) -> None:
    # GIVEN an exception of many lines
    text = (
        "RuntimeError: TT_FATAL @ /x/bank_manager.cpp:462: false\ninfo:\nOut of Memory: Not enough space to allocate\n"
        "3294625792 B DRAM buffer across 12 banks, where each bank needs to store 274686208 B, but bank\nsize is "
        "1071821792 B (allocated: 784847680 B, free: 286974112 B, largest free\nblock: 216504544 B)\nbacktrace:\n --- f"
    )
    log = filled(unit, text, 0.5)
    # WHEN the chunks are cut anywhere THEN the answer is the same
    (failure,) = find_in_chunks(chunked(log.encode(), size)).failures
    assert failure.failure_class == "oom/fragmented"
    assert failure.numbers["largest_free"] == 216504544
    assert failure.texts == {"file": "bank_manager.cpp:462"}


@given(st.integers(0, 1 << 32))
@examples(120)
def test_scanning_finds_what_reading_the_whole_finds(seed: int) -> None:
    # GIVEN a log with several failures at random places
    random = Random(seed)
    lines = [BLOCK.rstrip("\n")] * random.randint(5, 60)
    for case in random.sample(CASES, 4):
        lines.insert(random.randrange(len(lines)), f"RuntimeError: {case.message}")
    log = "\n".join(lines)
    # WHEN it is scanned
    scanner = LogScanner()
    told = [
        failure
        for piece in scanner.pieces(chunked(log.encode(), random.choice([500, 4000, 1 << 20])))
        for failure in find_failures(piece.text, first_line=piece.first_line)
    ]
    # THEN it tells of the same failures, each at its line
    assert [(f.key, f.line) for f in deduplicate(told)] == [(f.key, f.line) for f in find_failures(log)]
    assert scanner.lines == log.count("\n") + 1


def test_expected_errors_are_ignored_however_far_the_brackets_are_apart() -> None:
    oom = CASES[0].message
    between = FOREIGN * 200
    inside = f"{EXPECTED_BEGIN}\n{between}RuntimeError: {oom}\n{between}{EXPECTED_END}\n"
    assert find_in_text(filled(BLOCK, inside, 0.4)).failures == ()
    assert find_in_text(filled(FOREIGN, inside, 0.4)).failures == ()
    after = find_in_text(filled(FOREIGN, f"{inside}RuntimeError: {oom}", 0.4))
    assert len(after.failures) == 1


def test_a_line_without_end_is_read_once() -> None:
    log = b"x" * (5 << 20) + b" TT_FATAL: " + CASES[0].message.encode()
    assert len(find_in_chunks(chunked(log, 1 << 16)).failures) == 1


def test_a_log_that_is_nothing_but_errors_ends() -> None:
    line = "2026-05-14 01:00:31.755 | critical | Always | TT_FATAL: something else is wrong (assert.hpp:104)\n"
    found = find_in_text(line * 40_000)
    assert [failure.failure_class for failure in found.failures] == ["none"]


def test_repeated_failures_are_one() -> None:
    log = filled(BLOCK, CASES[0].message, 0.1) + filled(BLOCK, CASES[0].message, 0.9)
    assert len(find_in_text(log).failures) == 1


def test_many_different_failures_are_all_there() -> None:
    messages = [case.message for case in CASES if "allocate" in case.message][:12]
    log = "".join(BLOCK * 300 + message + "\n" for message in messages)
    assert len(find_in_text(log).failures) == len({find_failures(message)[0].key for message in messages})
