# SPDX-License-Identifier: Apache-2.0
"""The lines that tell of one failure: its first line and a few below it.

A failure's numbers may stand below its first line (``info:``, wrapped text). The lines in between may be another
process's, and what begins the next operation's story is no part of this one.
"""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.explain import find_failures
from ttmem.readers.runtime_log._lines import TIME_PREFIX, rank_of

FAILURE_REACH_LINES = 64
"""How far below its first line a failure may go on; ranks that print at once stretch it."""
_OWN_LINES = 8
_LINE_BYTES = 4000
_ENDS_FAILURE = (b"Executing operation: ", b"Device memory state ", b"MemoryView{", b"xecution of program: ")


class FailureWindow:
    """Collects the lines of one failure; they may arrive in several portions."""

    __slots__ = ("_kept", "_left", "rank")

    def __init__(self, first_line: bytes) -> None:
        self.rank = rank_of(first_line)
        self._kept = [first_line]
        self._left = FAILURE_REACH_LINES

    @property
    def complete(self) -> bool:
        return not self._left

    def take(self, lines: Iterable[bytes]) -> None:
        """Look at the lines that follow, up to where the failure's text must have ended."""
        for line in lines:
            if not self._left:
                return
            self._left -= 1
            if rank_of(line) not in (self.rank, -1):
                continue
            if any(mark in line for mark in _ENDS_FAILURE):
                self._left = 0
                return
            self._kept.append(line)
            if len(self._kept) == _OWN_LINES:
                self._left = 0

    def text(self) -> str:
        """The text, empty when the lines tell of no failure (the word "error" alone is none)."""
        lines = [TIME_PREFIX.sub(b"", line[: 2 * _LINE_BYTES], count=1)[:_LINE_BYTES] for line in self._kept]
        text = b"\n".join(lines).decode("utf-8", "replace")
        return text if find_failures(text, include_other=True) else ""
