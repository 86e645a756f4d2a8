# SPDX-License-Identifier: Apache-2.0
"""``explain`` and ``profile`` find the same failures in a log: both search it for the words of one list."""

from __future__ import annotations

import pytest

from support.failure_examples import EXAMPLES
from support.failure_messages import CASES
from ttmem.failures.text.find import deduplicate, find_failures
from ttmem.failures.text.find_in_stream import find_in_text
from ttmem.readers.runtime_log._lexer import Lexer
from ttmem.readers.runtime_log.reader import build_profile
from unit.failures.test_scan import BLOCK

MESSAGES = dict.fromkeys([*(case.message for case in CASES), *(example.text for example in EXAMPLES)])


@pytest.mark.parametrize("message", MESSAGES)
def test_profile_and_explain_find_the_same_failures(message: str) -> None:
    # GIVEN a public message in the middle of a runtime log
    log = f"{BLOCK * 10}{message}\n{BLOCK * 10}"
    # WHEN the log is read as a profile, and explained
    lexer = Lexer()
    lexer.take(log.encode())
    (timeline,) = build_profile(lexer.finish(), name="log", where="log", allow_empty=True).timelines
    profiled = deduplicate(
        failure
        for text in timeline.failures
        for failure in find_failures(text.text, first_line=text.line, include_other=True)
    )
    explained = find_in_text(log).failures
    # THEN both have the same failures of memory in the same lines
    assert [(failure.key, failure.line) for failure in profiled if failure.failure_class != "none"] == [
        (failure.key, failure.line) for failure in explained if failure.failure_class != "none"
    ]
