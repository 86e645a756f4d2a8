# SPDX-License-Identifier: Apache-2.0
"""Lines of a log that report failures. There may be very many, and reading one costs more than any other line."""

from collections import Counter, deque
from collections.abc import Iterable
from itertools import chain

from ttmem.base.limits import FAILURES_NOTED, FAILURES_READ, FAILURES_READ_LAST
from ttmem.failures.text.find import find_failures
from ttmem.failures.text.scan import ENVELOPE_WORDS, FAILURE_WORDS
from ttmem.readers.wrappings import TIME_PREFIX, read_rank

FAILURE_REACH_LINES = 64
"""How far below its first line a failure may go on; ranks that print at once stretch it."""
_OWN_LINES = 8
_LINE_BYTES = 4000
_ENDS_FAILURE = (b"Executing operation: ", b"Device memory state ", b"MemoryView{", b"xecution of program: ")


class FailureWindow:
    """Collects the lines of one failure: its first line and a few below it; they may arrive in several portions.

    A failure's numbers may be below its first line (``info:``, wrapped text). The lines in between may be another
    process's, and what begins the next operation's story is no part of this one.
    """

    __slots__ = ("_kept", "_left", "is_late", "rank")

    def __init__(self, first_line: bytes) -> None:
        self.rank = read_rank(first_line)
        self._kept = [first_line]
        self._left = FAILURE_REACH_LINES
        self.is_late = False
        """True when many came before it: it is read only when nothing more comes."""

    @property
    def complete(self) -> bool:
        return not self._left

    def take(self, lines: Iterable[bytes]) -> None:
        """Look at the lines that follow, up to where the failure's text must have ended."""
        for line in lines:
            if not self._left:
                return
            self._left -= 1
            if read_rank(line) not in (self.rank, -1):
                continue
            if any(mark in line for mark in _ENDS_FAILURE):
                self._left = 0
                return
            self._kept.append(line)
            if len(self._kept) == _OWN_LINES:
                self._left = 0

    def text(self) -> str:
        """Return the text, empty when the lines report no failure (the word "error" alone is none)."""
        lines = [TIME_PREFIX.sub(b"", line[: 2 * _LINE_BYTES], count=1)[:_LINE_BYTES] for line in self._kept]
        text = b"\n".join(lines).decode("utf-8", "replace")
        return text if find_failures(text, include_other=True) else ""


class FailureCollector:
    """The failures of a log while it is read: of each kind the first ones at once, the last ones when it ends."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts
        """Texts by number; empty where the lines report no failure, or are too many to be read."""
        self.open: list[tuple[int, FailureWindow]] = []
        """The lines to come may belong to a failure that was already seen."""
        self._met: Counter[bytes] = Counter()
        """How many lines may begin a failure, by what they have of one: a thousand harmless errors hide no other."""
        self._confirmed = set(ENVELOPE_WORDS)
        """Words whose lines count as failures even where they are not read."""
        self._late: dict[bytes, deque[tuple[int, FailureWindow]]] = {}

    def begin(self, lines: list[bytes], index: int) -> tuple[int | None, int]:
        """The number and the rank of what a line begins with those below it; no number when it turns out harmless."""
        marker = next((marker for marker in FAILURE_WORDS if marker in lines[index]), b"")
        self._met[marker] += 1
        if self._met[marker] > FAILURES_NOTED:
            return None, -1
        window = FailureWindow(lines[index])
        window.take(lines[index + 1 : index + 1 + FAILURE_REACH_LINES])
        window.is_late = self._met[marker] > _count_read(marker)
        text = "" if window.is_late else window.text()
        if text:
            self._confirmed.add(marker)
        if window.complete and not text and not window.is_late:
            return None, window.rank
        self._texts.append(text)
        number = len(self._texts) - 1
        if window.is_late:
            self._late.setdefault(marker, deque(maxlen=FAILURES_READ_LAST)).append((number, window))
        if not window.complete:
            self.open.append((number, window))
        return number, window.rank

    def go_on(self, lines: list[bytes]) -> None:
        """The lines below a failure were not there yet when its first line was."""
        if not self.open:
            return
        for number, window in self.open:
            window.take(lines)
            if not window.is_late:
                self._texts[number] = window.text()
        self.open = [(number, window) for number, window in self.open if not window.complete]

    def read_late(self) -> None:
        """Read the last of very many failures, because the one that ended a run is among them."""
        for number, window in chain.from_iterable(self._late.values()):
            self._texts[number] = window.text()

    @property
    def unread(self) -> int:
        """Number of lines left out between the first and the last; words that proved harmless do not count."""
        counts = (count - _count_read(word) for word, count in self._met.items() if word in self._confirmed)
        return sum(max(0, count - FAILURES_READ_LAST) for count in counts)


def _count_read(word: bytes) -> int:
    """Return how many lines with a word are read: fewer where the word is common in other texts too."""
    return FAILURES_READ if word in ENVELOPE_WORDS else FAILURES_READ_LAST
