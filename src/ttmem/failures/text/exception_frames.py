# SPDX-License-Identifier: Apache-2.0
"""The envelopes in which errors travel: tt-metal's exceptions and log lines, the tt-mlir runtime's asserts.

They name the source file of a known failure, and they are all there is of an unknown one (errors 2, log-formats 5).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from ttmem.base.limits import ERRORS_OF_UNKNOWN_WORDING
from ttmem.failures.facts import pattern
from ttmem.failures.failure import Failure
from ttmem.failures.text.normalize import CleanText

_pattern = partial(pattern, "envelope")
_MESSAGE_ROWS = 20
"""An exception text of more rows than this has run into something else."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One print of a failure: where it stands and what it says."""

    start: int
    end: int
    failure: Failure


def is_within_error(text: CleanText, start: int) -> bool:
    """Whether an envelope opens shortly before this offset, so that what follows is a message and not prose."""
    return _pattern("evidence_of_error").search(text.flat, max(0, start - 240), start) is not None


def is_thrown(text: CleanText, start: int) -> bool:
    """Whether the message at this offset is that of an exception, not of a logger's line after one."""
    return _pattern("thrown").search(text.flat[max(0, start - 240) : start]) is not None


def strip_source_suffix(message: str) -> str:
    """Without the ``(assert.hpp:104)`` that tt-metal's logger appends."""
    return _pattern("source_suffix").sub("", message).rstrip()


def exception_sites(text: CleanText) -> list[tuple[int, str]]:
    """Offset and ``file:line`` of every exception text, in order; the directories of the build are left out."""
    return [(found.start(), _file(found)) for found in _pattern("exception").finditer(text.rows)]


def _file(found: re.Match[str]) -> str:
    return f"{found[2].rsplit('/', 1)[-1]}:{found[3]}"


def envelopes(text: CleanText) -> Iterator[Hit]:
    """Every print of an error, as a failure of unknown wording."""
    claimed = -1  # the runtime's log line and the assert text below it are one print
    for found in _first(_pattern("logger_line"), text):
        message = strip_source_suffix(found["named"] or found["critical"] or found["fatal"] or "")
        end = found.end()
        below = _pattern("exception").match(text.rows, end + 1)
        if below is not None and not below[1].startswith("TT_"):
            exception = _exception_envelope(text, below)
            claimed = below.start()
            failure = replace(exception.failure, line=text.line_at(found.start()))
            yield Hit(found.start(), exception.end, replace(failure, message=message) if message else failure)
        elif message:
            failure = Failure(_class_of("", message), None, message, "X1", line=text.line_at(found.start()))
            yield Hit(found.start(), end, failure)
    for found in _first(_pattern("exception"), text):
        if found.start() != claimed:
            yield _exception_envelope(text, found)


def _first(what: re.Pattern[str], text: CleanText) -> Iterator[re.Match[str]]:
    found = what.finditer(text.rows)
    yield from islice(found, ERRORS_OF_UNKNOWN_WORDING)
    text.unread_errors += sum(1 for _ in found)


def _exception_envelope(text: CleanText, found: re.Match[str]) -> Hit:
    row_end = text.row_end(found.end())
    if following := _pattern("exception").search(text.rows, found.end(), row_end):
        row_end = following.start()  # several exceptions on one row: each ends where the next begins
    condition, _, inline = text.rows[found.end() : row_end].removeprefix(":").partition("info:")
    condition = condition.strip()
    message, end = inline.strip(), row_end
    if not message:
        message, end = _message_below(text, row_end)
    failure = Failure(
        failure_class=_class_of(condition, message),
        memory=None,
        message=strip_source_suffix(message) or f"{found[1]} @ {_file(found)}: {condition}",
        template="X1" if found[1].startswith("TT_") else "R1",
        texts={"file": _file(found), **({"condition": condition} if condition else {})},
        line=text.line_at(found.start()),
    )
    return Hit(found.start(), end, failure)


def _class_of(condition: str, message: str) -> str:
    """Hundreds of assertions ask whether a tensor still has its memory, each in words of its own."""
    freed = _pattern("asks_for_a_buffer").match(condition) or _pattern("says_freed").search(message)
    return "lifetime/use-after-free" if freed else "none"


def _message_below(text: CleanText, row_end: int) -> tuple[str, int]:
    """The rows between ``info:`` and whatever ends an exception text."""
    if not text.rows.startswith("info:", row_end + 1):
        return "", row_end
    end = text.row_end(row_end + 1)
    rows = [text.rows[row_end + 1 + len("info:") : end].strip()]
    while end < len(text.rows) and len(rows) <= _MESSAGE_ROWS:
        start = end + 1
        if _pattern("end_of_message").match(text.rows, start) or text.is_after_gap(start):
            break
        end = text.row_end(start)
        rows.append(text.rows[start:end])
    return " ".join(row for row in rows if row).rstrip("}"), end
