# SPDX-License-Identifier: Apache-2.0
"""From any source, however long, to the failures that it tells of and what stands around each."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate, chain

from ttmem.base.limits import FAILURES_EXPLAINED, keep_first_and_last
from ttmem.failures.failure import Failure
from ttmem.failures.text.context import Context, read_context
from ttmem.failures.text.deduplicate import deduplicate, is_echo, rank_of
from ttmem.failures.text.find import Prints, read_prints
from ttmem.failures.text.operations import is_frame, is_traceback_head
from ttmem.failures.text.paraphrase import paraphrased
from ttmem.failures.text.scan import LogScanner, Piece, is_runtime_log

_WHOLE_BYTES = 2 << 20
"""Up to this a source is searched as a whole for every template; beyond, its suspicious lines are."""
_CONTEXT_LINES, _CONTEXT_LINE, _CONTEXT_CHARACTERS = 60, 4_000, 16_000
"""How far around a failure its context goes, on either side: lines, characters of one line, characters in all."""
_MOST_MESSAGE = 400
_MOST_ODD, _NO_TEXT = 0.15, "(not text)"


@dataclass(frozen=True, slots=True)
class Found:
    """The failures of a source, with what stands around each."""

    failures: tuple[Failure, ...]
    """What concerns memory (or ended the process); where nothing does, what failed otherwise."""
    contexts: tuple[Context, ...]
    others: int = 0
    """Errors that have nothing to do with memory and are omitted next to those that have."""
    is_runtime_log: bool = False
    """It holds lines of a tt-mlir runtime: a profile can be read from it."""
    head: str = ""
    """How the text begins, for an answer to one that tells of no failure."""
    left_out: tuple[str, ...] = ()
    """What was too much to be looked at."""


def find_in_text(text: str) -> Found:
    """The failures of a text that is at hand."""
    return find_in_chunks([text.encode("utf-8", "replace")])


def find_in_chunks(chunks: Iterable[bytes]) -> Found:
    """The failures of a source that comes in pieces; a small one is searched as a whole."""
    remaining = iter(chunks)
    head = bytearray()
    for chunk in remaining:
        head += chunk
        if len(head) > _WHOLE_BYTES:
            scanner = LogScanner()
            found = _found(scanner.pieces(chain([bytes(head)], remaining)), head)
            return replace(found, left_out=tuple(filter(None, (*found.left_out, scanner.long_lines.remark))))
    return _found([Piece(head.decode("utf-8", "replace"), 1)], head)


def _found(pieces: Iterable[Piece], head: bytearray) -> Found:
    prints: list[Failure] = []
    around: dict[int, tuple[str, int]] = {}
    unread = 0
    for piece in pieces:
        read = read_prints(piece.text, first_line=piece.first_line, include_other=True)
        unread += read.unread_errors
        prints += read.failures
        neighbourhood = _Neighbourhood(piece, read) if read.failures else None
        for failure in read.failures[:FAILURES_EXPLAINED] + read.failures[-FAILURES_EXPLAINED:]:
            if neighbourhood is not None and failure.line is not None and failure.line not in around:
                around[failure.line] = neighbourhood.text_around(failure.line)
    unique = deduplicate(prints)
    concerning = [failure for failure in unique if failure.failure_class != "none"]
    has_own = not all(is_echo(failure) for failure in unique)
    if not has_own and not is_runtime_log(head) and (guess := paraphrased(head.decode("utf-8", "replace"))):
        unique = concerning = [guess]  # a person's own words
        around[1] = (guess.message, 0)
    concerning = concerning or unique
    shown = keep_first_and_last(concerning, FAILURES_EXPLAINED)
    left_out = []
    if unshown := len(concerning) - len(shown):
        left_out.append(f"{unshown:,} more failures were omitted: the first and the last are explained")
    if unread:
        left_out.append(f"{unread:,} more prints of errors of unknown wording were not looked at")
    return Found(
        failures=tuple(shown),
        contexts=tuple(read_context(*around.get(failure.line or 0, ("", 0))) for failure in shown),
        left_out=tuple(left_out),
        others=len(unique) - len(concerning),
        is_runtime_log=is_runtime_log(head),
        head=_beginning(head),
    )


def _beginning(head: bytearray) -> str:
    """In one line; what is no text is not shown as if it were one."""
    text = head[: _MOST_MESSAGE * 4].decode("utf-8", "replace")
    odd = sum(char == "\ufffd" or not (char.isprintable() or char.isspace()) for char in text)
    return _NO_TEXT if odd > len(text) * _MOST_ODD else " ".join(text.split())[:_MOST_MESSAGE]


class _Neighbourhood:
    """The lines around the failures of a piece: of two failures each has its own."""

    def __init__(self, piece: Piece, read: Prints) -> None:
        self._rows = piece.text.split("\n")
        self._first_line = piece.first_line
        self._operation = piece.operation
        self._prints = sorted(line - piece.first_line for line in read.error_lines)
        """Indices of the rows on which an error is printed."""
        self._starts = sorted(
            failure.line - piece.first_line
            for failure in read.failures
            if failure.line is not None and rank_of(failure) == "error"
        )
        """Those that begin another failure than the one before."""

    def text_around(self, line: int) -> tuple[str, int]:
        """The lines near a failure, in the order of the text, as far as there is room; where it begins in them."""
        at = line - self._first_line
        start = max(0, at - _CONTEXT_LINES)
        earlier = self._prints[: bisect_left(self._prints, at)]
        if earlier:
            # What follows a message is its backtrace, what precedes the next one may be a traceback of that.
            start = max(start, earlier[-1] + 1)
            rows = [row for row in self._rows[start:at] if not is_frame(row)]
        else:
            rows = [self._operation[:_CONTEXT_LINE], *self._rows[start:at]]
        before = _that_fit(reversed(rows))
        after = _that_fit(self._rows[at : min(at + _CONTEXT_LINES, self._end(at))])
        head = "".join(f"{row}\n" for row in reversed(before))
        return head + "\n".join(after), len(head)

    def _end(self, at: int) -> int:
        """Where the next failure begins, or the Python traceback that leads to it."""
        following = bisect_right(self._starts, at)
        if following == len(self._starts):
            return len(self._rows)
        end = self._starts[following]
        last_print = self._prints[bisect_left(self._prints, end) - 1]
        heads = (row for row in range(last_print + 1, end) if is_traceback_head(self._rows[row]))
        return next(heads, end)


def _that_fit(rows: Iterable[str]) -> list[str]:
    cut = [row[:_CONTEXT_LINE] for row in rows]
    ends = accumulate(map(len, cut))
    return [row for row, end in zip(cut, ends, strict=True) if end <= _CONTEXT_CHARACTERS]
