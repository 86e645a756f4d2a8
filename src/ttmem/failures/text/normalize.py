# SPDX-License-Identifier: Apache-2.0
"""A pasted or logged text, freed of what loggers, terminals, test runners and people put around a message."""

from bisect import bisect_right

from ttmem.failures.facts import pattern

EXPECTED_BEGIN, EXPECTED_END = "[EXPECTED_ERROR BEGIN]", "[EXPECTED_ERROR END]"
"""tt-metal's tests bracket the errors they provoke; nothing between the two is a failure. A reader that hands over
single lines has to watch for these itself, because the bracket may be far away."""
_LINE_BREAKS_IN_TEXT = ("\\r\\n", "\\n", "\\t", "&#10;", "&#xA;", "&#13;")
"""How a repr, a JSON string and an XML attribute (JUnit) spell the line breaks of an exception text."""
_LONGEST_MESSAGE = 4000
"""Characters; a bound, so that many short looks at one endless line stay linear in it."""


class CleanText:
    """The same characters twice: ``rows`` keeps line ends, ``flat`` has blanks instead, offsets are equal in both.

    People and terminals wrap messages anywhere, so wordings are searched in ``flat``; what has to stand alone on a
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
            text = pattern("cleaning", "colours").sub("", text)
        prefix = pattern("cleaning", "prefix")
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
        """Whether an empty (or left-out) line stood before the row that holds this offset."""
        row = self._row_index(offset)
        return row > 0 and self._line_indices[row] > self._line_indices[row - 1] + 1

    def starts_row(self, offset: int) -> bool:
        """Whether nothing stands before this offset on its row."""
        return offset == 0 or self.rows[offset - 1] == "\n"

    def _row_index(self, offset: int) -> int:
        return bisect_right(self._row_starts, offset) - 1
