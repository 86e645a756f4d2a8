# SPDX-License-Identifier: Apache-2.0
"""Search of a log of any size for the few lines that may report a failure, at about the speed of grep.

Logs repeat themselves: without digits, a million lines are a few hundred different ones. Each of those is searched
for failure words once; finding it again costs a look-up. A suspicious line is passed on with its neighbours, because a
message's figures may be below its first line and its envelope above; ``find_failures`` decides about it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ttmem.base.limits import LongLines
from ttmem.failures.text.clean_text import EXPECTED_BEGIN, EXPECTED_END

ENVELOPE_WORDS: tuple[bytes, ...] = (
    # The wording of the failures that matter most, for prints without any envelope.
    b"Out of Memory",
    b"Statically allocated",  # circular or dataflow buffers: clash and overflow
    # The envelopes of every other failure of the library and of its callers.
    b"TT_",  # TT_FATAL, TT_THROW, TT_ASSERT
    b"FATAL",  # level of the tt-mlir runtime and of tt-metal until 2025
    b"critical",  # level of tt-metal since 2025
    b"rror",  # RuntimeError, error: (MLIR), Fatal Python error, Error code
    # Words of warnings and of shells.
    b"active trace",
    b"egmentation fault",
    b"Aborted",
    b"Killed",
    b"Timeout",
    b"xit",  # exit status 137, Exited (137)
)
"""Words of lines that nearly always report a failure."""
FAILURE_WORDS = (
    *ENVELOPE_WORDS,
    *b"xceed enough Cannot Failed failed beyond clash circular allocated overlap ignal imeout semaphore".split(),
    *b"ontiguous requested Invalid Expected divisible hugepage bad_alloc SIG oom-kill could staging legal".split(),
    *b"feasible smaller match rectangular sized Mesh. unsafe Creating large overflows wraparound currently".split(),
    *b"killed can't nterleaved block_size nstruction terminate Timed timed ethernet PCIe hung: board".split(),
    *b"chips edge Warm Config Firmware run_mailbox ARC Tenstorrent before device() Segmentation zsh:".split(),
)
"""The one list of words for every search of a log: each sentence of each template contains one of them, also when it is
wrapped at any blank (a test demands it and names the templates without one).

A line without any of them begins no failure. A line with one is a candidate: ``find_failures`` decides. The words hold
no digit, because lines are looked up without their digits.
"""

LINES_BEFORE, LINES_AFTER = 12, 48
_MOST_LINES = 20_000
"""A piece of more lines than this is cut: a log that is nothing but errors."""
_MOST_SHAPES = 200_000
"""How many shapes are remembered: lines of random text never repeat, and must not fill the memory."""
_DIGITS = b"0123456789"
_BEGIN, _END = EXPECTED_BEGIN.encode(), EXPECTED_END.encode()

_EXECUTING = b"Executing operation"
_ORDINARY = (b"MemoryView{", _EXECUTING, b"Device memory state")
"""What a tt-mlir runtime prints for every operation; no line with one of these begins a failure."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a source that may report a failure, with their position."""

    text: str
    first_line: int
    operation: str = ""
    """The last operation line before them, when it is not among them."""


class ShapeFilter:
    """Finds the lines with a failure word by their shapes (lines without digits); searches each shape once."""

    def __init__(self) -> None:
        self.saw_operation = False
        """A line of a tt-mlir runtime was among them."""
        self._harmless: set[bytes] = set()
        self._suspicious: set[bytes] = set()

    def find(self, shapes: Iterable[bytes]) -> set[bytes]:
        """Return the shapes that hold a failure word."""
        distinct = set(shapes)
        if fresh := distinct - self._harmless - self._suspicious:
            for known in (self._harmless, self._suspicious):
                if len(known) > _MOST_SHAPES:
                    known.clear()
            self.saw_operation = self.saw_operation or any(_EXECUTING in shape for shape in fresh)
            searched = [shape for shape in fresh if not any(words in shape for words in _ORDINARY)]
            suspects = _find_lines(FAILURE_WORDS, searched)
            self._suspicious |= suspects
            self._harmless |= fresh - suspects
        return distinct & self._suspicious


def split_shapes(text: bytes) -> list[bytes]:
    """Split a text into lines without digits."""
    return text.translate(None, _DIGITS).split(b"\n")


class LogScanner:
    """Takes a source in chunks of bytes and gives back its suspicious pieces."""

    def __init__(self) -> None:
        self.lines = 0
        """How many lines were read."""
        self.long_lines = LongLines()
        self._tail: list[bytes] = []
        self._filter = ShapeFilter()
        self._kept: list[bytes] = []
        """Lines of earlier blocks that may belong to a piece: its lead, or its beginning."""
        self._kept_hits: list[int] = []
        self._operation = b""
        self._inside_expected = False

    def pieces(self, chunks: Iterable[bytes]) -> Iterator[Excerpt]:
        for chunk in map(self.long_lines.shorten, chunks):
            at = chunk.rfind(b"\n")
            if at < 0:
                self._tail.append(chunk)  # a line of many MB comes in many chunks: join them once
                continue
            whole = b"".join((*self._tail, memoryview(chunk)[:at]))
            self._tail = [chunk[at + 1 :]]
            yield from self._block(whole, is_last=False)
        yield from self._block(b"".join(self._tail), is_last=True)

    def _block(self, block: bytes, *, is_last: bool) -> Iterator[Excerpt]:
        if _BEGIN in block or self._inside_expected:
            block = self._blank_expected(block)
        shapes = split_shapes(block)
        suspicious = self._filter.find(shapes)
        hits = [index for index, shape in enumerate(shapes) if shape in suspicious] if suspicious else []
        if not hits and not self._kept_hits:
            self._kept = block.rsplit(b"\n", LINES_BEFORE)[-LINES_BEFORE:]
            self.lines += len(shapes)
            self._remember(block)
            return
        known = len(self._kept)
        lines = self._kept + block.split(b"\n")
        first_line = self.lines - known + 1
        self.lines += len(shapes)
        done = 0
        every = [*self._kept_hits, *(known + index for index in hits)]
        for start, end in _windows(every):
            if end > len(lines) and not is_last and end - start < _MOST_LINES:
                self._keep(lines, start, [index - start for index in every if index >= start])
                return
            self._remember(b"\n".join(lines[done:start]))
            text = b"\n".join(lines[start:end])
            named = b"" if _EXECUTING in text else self._operation
            yield Excerpt(text.decode("utf-8", "replace"), first_line + start, named.decode("utf-8", "replace"))
            done = min(end, len(lines))
        self._keep(lines, max(done, len(lines) - LINES_BEFORE), [])

    def _keep(self, lines: list[bytes], start: int, hits: list[int]) -> None:
        self._remember(b"\n".join(lines[:start]))
        self._kept, self._kept_hits = lines[start:], hits

    def _remember(self, text: bytes) -> None:
        """The last operation line: a failure further down belongs to it."""
        at = text.rfind(_EXECUTING) if self._filter.saw_operation else -1
        if at >= 0:
            end = text.find(b"\n", at)
            self._operation = text[text.rfind(b"\n", 0, at) + 1 : len(text) if end < 0 else end]

    def _blank_expected(self, block: bytes) -> bytes:
        """Errors that a test provokes on purpose are none; their lines stay, empty, so that numbers are right."""
        out = []
        for line in block.split(b"\n"):
            self._inside_expected |= _BEGIN in line
            out.append(b"" if self._inside_expected else line)
            self._inside_expected &= _END not in line
        return b"\n".join(out)


def _find_lines(words: Iterable[bytes], lines: list[bytes]) -> set[bytes]:
    """The lines that contain any of the words; one search per word over all lines is what makes this fast."""
    text = b"\n".join(lines)
    found: set[bytes] = set()
    for word in words:
        at = text.find(word)
        while at >= 0:
            start, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
            end = len(text) if end < 0 else end
            found.add(text[start:end])
            at = text.find(word, end)
    return found


def _windows(suspicious: list[int]) -> Iterator[tuple[int, int]]:
    """Yield ranges of lines around suspicious ones, merged where they touch; an end may exceed the last line."""
    start = end = 0
    for index in suspicious:
        if not end or index - LINES_BEFORE > end or end - start > _MOST_LINES:
            if end:
                yield start, end
            start = max(index - LINES_BEFORE, end)
        end = index + LINES_AFTER
    if end:
        yield start, end


def is_runtime_log(head: bytes | bytearray) -> bool:
    """True when the first bytes of a source are those of a tt-mlir runtime log."""
    return _EXECUTING in head or _ORDINARY[0] in head
