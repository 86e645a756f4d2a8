# SPDX-License-Identifier: Apache-2.0
"""Text without what loggers, terminals and test runners put around a message, and the envelopes of errors in it.

Envelopes are tt-metal's exceptions and log lines, and the asserts of the tt-mlir runtime. They name the source file of
a known failure, and they are all there is of an unknown one (errors 2, log-formats 5).
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from ttmem.base.limits import ERRORS_OF_UNKNOWN_WORDING
from ttmem.failures.failure import Failure
from ttmem.failures.knowledge.tables import load_pattern

EXPECTED_BEGIN, EXPECTED_END = "[EXPECTED_ERROR BEGIN]", "[EXPECTED_ERROR END]"
"""tt-metal's tests bracket the errors they provoke; nothing between the two is a failure. A reader that hands over
single lines has to watch for these itself, because the bracket may be far away."""
_LINE_BREAKS_IN_TEXT = ("\\r\\n", "\\n", "\\t", "&#10;", "&#xA;", "&#13;")
"""How a repr, a JSON string and an XML attribute (JUnit) spell the line breaks of an exception text."""
_LONGEST_MESSAGE = 4000
"""Characters; a bound, so that many short looks at one endless line stay linear in it."""


class CleanText:
    """The text twice, with equal offsets: ``rows`` keeps line ends, ``flat`` has blanks instead.

    People and terminals wrap messages anywhere, so wordings are searched in ``flat``; what has to be alone on a
    line is searched in ``rows``.
    """

    __slots__ = ("_first_line", "_line_indices", "_row_starts", "flat", "rows", "unread_errors")

    def __init__(self, text: str, first_line: int) -> None:
        rows: list[str] = []
        self._line_indices: list[int] = []
        self._row_starts: list[int] = []
        self._first_line = first_line
        self.unread_errors = 0
        """Errors of unknown wording beyond as many as are looked at."""
        if "\x1b" in text or "[0m" in text or "^[[" in text:
            text = load_pattern("cleaning", "colours").sub("", text)
        prefix = load_pattern("cleaning", "prefix")
        offset = 0
        expected = False
        for index, line in enumerate(text.split("\n")):
            if EXPECTED_BEGIN in line:
                expected = True
            if expected:
                expected = EXPECTED_END not in line
                continue
            if "\\" in line or "&#" in line:
                for spelling in _LINE_BREAKS_IN_TEXT:
                    line = line.replace(spelling, " ")
            start = 0
            while (found := prefix.match(line, start)) is not None:
                start = found.end()
            row = " ".join(line[start:].split())
            if not row:
                continue
            rows.append(row)
            self._line_indices.append(index)
            self._row_starts.append(offset)
            offset += len(row) + 1
        self.rows = "\n".join(rows)
        self.flat = self.rows.replace("\n", " ")

    def line_at(self, offset: int) -> int:
        """The line number of the original text that holds this offset."""
        return self._first_line + self._line_indices[self._row_index(offset)]

    def row_end(self, offset: int) -> int:
        """The offset just behind the row that holds this offset, or behind as much of it as a message can fill."""
        limit = min(offset + _LONGEST_MESSAGE, len(self.rows))
        end = self.rows.find("\n", offset, limit)
        return limit if end < 0 else end

    def is_after_gap(self, offset: int) -> bool:
        """True when an empty (or left-out) line precedes the row that holds this offset."""
        row = self._row_index(offset)
        return row > 0 and self._line_indices[row] > self._line_indices[row - 1] + 1

    def starts_row(self, offset: int) -> bool:
        """True when nothing precedes this offset on its row."""
        return offset == 0 or self.rows[offset - 1] == "\n"

    def _row_index(self, offset: int) -> int:
        return bisect_right(self._row_starts, offset) - 1


_pattern = partial(load_pattern, "envelope")
_MESSAGE_ROWS = 20
"""An exception text of more rows than this has run into something else."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A print of a failure: its place and its content."""

    start: int
    end: int
    failure: Failure


def is_within_error(text: CleanText, start: int) -> bool:
    """True when an envelope opens shortly before this offset, so that a message follows and not prose."""
    return _pattern("evidence_of_error").search(text.flat, max(0, start - 240), start) is not None


def is_thrown(text: CleanText, start: int) -> bool:
    """True when the message at this offset is that of an exception, not of a logger's line after one."""
    return _pattern("thrown").search(text.flat[max(0, start - 240) : start]) is not None


def strip_source_suffix(message: str) -> str:
    """Without the ``(assert.hpp:104)`` that tt-metal's logger appends."""
    return _pattern("source_suffix").sub("", message).rstrip()


def find_exception_sites(text: CleanText) -> list[tuple[int, str]]:
    """Offset and ``file:line`` of every exception text, in order; the directories of the build are left out."""
    return [(found.start(), _file(found)) for found in _pattern("exception").finditer(text.rows)]


def _file(found: re.Match[str]) -> str:
    return f"{found[2].rsplit('/', 1)[-1]}:{found[3]}"


def find_envelopes(text: CleanText) -> Iterator[Hit]:
    """Yield the prints of errors, as failures of unknown wording."""
    claimed = -1  # the runtime's log line and the assert text below it are one print
    for found in _limit_matches(_pattern("logger_line"), text):
        message = strip_source_suffix(found["named"] or found["critical"] or found["fatal"] or "")
        end = found.end()
        below = _pattern("exception").match(text.rows, end + 1)
        if below is not None and not below[1].startswith("TT_"):
            exception = _exception_envelope(text, below)
            claimed = below.start()
            failure = replace(exception.failure, line=text.line_at(found.start()))
            yield Hit(found.start(), exception.end, replace(failure, message=message) if message else failure)
        elif message:
            failure = Failure(_classify_condition("", message), None, message, "X1", line=text.line_at(found.start()))
            yield Hit(found.start(), end, failure)
    for found in _limit_matches(_pattern("exception"), text):
        if found.start() != claimed:
            yield _exception_envelope(text, found)


def _limit_matches(what: re.Pattern[str], text: CleanText) -> Iterator[re.Match[str]]:
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
        failure_class=_classify_condition(condition, message),
        memory=None,
        message=strip_source_suffix(message) or f"{found[1]} @ {_file(found)}: {condition}",
        template="X1" if found[1].startswith("TT_") else "R1",
        texts={"file": _file(found), **({"condition": condition} if condition else {})},
        line=text.line_at(found.start()),
    )
    return Hit(found.start(), end, failure)


def _classify_condition(condition: str, message: str) -> str:
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
