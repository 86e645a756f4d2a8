# SPDX-License-Identifier: Apache-2.0
"""Search of a source of any length: its failures and their contexts, or a guess from a person's own words.

The guess is only made for texts short enough to be about one thing, without any wording of the library.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, chain

from ttmem.base.limits import FAILURES_EXPLAINED, keep_first_and_last
from ttmem.failures.failure import Failure, classify_oom_figures, find_largest_bank
from ttmem.failures.knowledge.tables import Paraphrase, load_entries, load_facts
from ttmem.failures.text.context import Context, is_frame, is_traceback_head, read_context
from ttmem.failures.text.find import Prints, deduplicate, find_rank, is_echo, read_prints
from ttmem.failures.text.scan import Excerpt, LogScanner, is_runtime_log

MOST_CHARACTERS = 2000
PARAPHRASED = "P"
"""Used instead of a template's id."""
_MOST_BYTES = 1 << 63
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def find_paraphrase(text: str, line: int | None = 1) -> Failure | None:
    """The failure that a short text speaks of, None when its words are of none."""
    flat = " ".join(text[: MOST_CHARACTERS + 1].replace("\u2019", "'").split())
    if not flat or len(text) > MOST_CHARACTERS:
        return None
    for entry, words in _compile_paraphrases():
        if all(expression.search(flat) for expression in words):
            return None if entry.failure_class == "none" else _failure(entry, flat, line)
    return None


def _failure(entry: Paraphrase, text: str, line: int | None) -> Failure:
    numbers = _figures(text)
    memory = entry.memory or _memory_in(text, entry.failure_class, numbers.get("bank_bytes"))
    failure_class = classify_oom_figures(numbers, memory) if entry.failure_class == "oom" else entry.failure_class
    address, end = numbers.get("l1_buffer_address"), numbers.get("region_end")
    if address is not None and end is not None and end > address:
        numbers["overlap_bytes"] = end - address
    texts = {**entry.texts, "paraphrase": "yes"}
    return Failure(failure_class, memory, text, PARAPHRASED, numbers=numbers, texts=texts, line=line)


def _memory_in(text: str, failure_class: str, bank_bytes: int | None) -> str | None:
    """The memory that the words name, or that a bank of this size belongs to, for classes that have one."""
    if failure_class.partition("/")[0] not in ("oom", "shard", "page"):
        return None
    for memory, words in load_facts("patterns")["memories"].items():
        if re.search(words, text):
            return str(memory)
    if bank_bytes is None:
        return None
    return "L1" if bank_bytes <= (find_largest_bank("L1") or 0) else "DRAM"


def _figures(text: str) -> dict[str, int]:
    """Amounts that the text names for what they are; units are binary, as everywhere here."""
    found: dict[str, int] = {}
    for name, expression in load_facts("patterns")["figures"].items():
        if match := re.search(expression, text, re.IGNORECASE):
            amount = float(re.sub(r"[,_']", "", match["number"])) * _UNITS[match["unit"][:1].lower()]
            if amount < _MOST_BYTES:
                found[name] = int(amount)
    return found


@cache
def _compile_paraphrases() -> tuple[tuple[Paraphrase, tuple[re.Pattern[str], ...]], ...]:
    return tuple(
        (entry, tuple(re.compile(words, re.IGNORECASE) for words in entry.words)) for entry in load_entries(Paraphrase)
    )


_WHOLE_BYTES = 2 << 20
"""Up to this a source is searched as a whole for every template; beyond, its suspicious lines are."""
_CONTEXT_LINES, _CONTEXT_LINE, _CONTEXT_CHARACTERS = 60, 4_000, 16_000
"""How far around a failure its context goes, on either side: lines, characters of one line, characters in all."""
_MOST_MESSAGE = 400
_MOST_ODD, _NO_TEXT = 0.15, "(not text)"


@dataclass(frozen=True, slots=True)
class FailureSearch:
    """The failures of a source, with their contexts."""

    failures: tuple[Failure, ...]
    """What concerns memory (or ended the process); where nothing does, what failed otherwise."""
    contexts: tuple[Context, ...]
    others: int = 0
    """Errors that have nothing to do with memory and are omitted next to those that have."""
    is_runtime_log: bool = False
    """It holds lines of a tt-mlir runtime: a profile can be read from it."""
    head: str = ""
    """The beginning of the text, for an answer to one without a failure."""
    left_out: tuple[str, ...] = ()
    """What was too much to be looked at."""


def find_in_text(text: str) -> FailureSearch:
    """The failures of a text that is at hand."""
    return find_in_chunks([text.encode("utf-8", "replace")])


def find_in_chunks(chunks: Iterable[bytes]) -> FailureSearch:
    """The failures of a source that comes in pieces; a small one is searched as a whole."""
    remaining = iter(chunks)
    head = bytearray()
    for chunk in remaining:
        head += chunk
        if len(head) > _WHOLE_BYTES:
            scanner = LogScanner()
            found = _search(scanner.pieces(chain([bytes(head)], remaining)), head)
            return replace(found, left_out=tuple(filter(None, (*found.left_out, scanner.long_lines.remark))))
    return _search([Excerpt(head.decode("utf-8", "replace"), 1)], head)


def _search(pieces: Iterable[Excerpt], head: bytearray) -> FailureSearch:
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
    if not has_own and not is_runtime_log(head) and (guess := find_paraphrase(head.decode("utf-8", "replace"))):
        unique = concerning = [guess]  # a person's own words
        around[1] = (guess.message, 0)
    concerning = concerning or unique
    shown = keep_first_and_last(concerning, FAILURES_EXPLAINED)
    left_out = []
    if unshown := len(concerning) - len(shown):
        left_out.append(f"{unshown:,} more failures were omitted: the first and the last are explained")
    if unread:
        left_out.append(f"{unread:,} more prints of errors of unknown wording were not looked at")
    return FailureSearch(
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

    def __init__(self, piece: Excerpt, read: Prints) -> None:
        self._rows = piece.text.split("\n")
        self._first_line = piece.first_line
        self._operation = piece.operation
        self._prints = sorted(line - piece.first_line for line in read.error_lines)
        """Indices of the rows on which an error is printed."""
        self._starts = sorted(
            failure.line - piece.first_line
            for failure in read.failures
            if failure.line is not None and find_rank(failure) == "error"
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
        before = _take_fitting(reversed(rows))
        after = _take_fitting(self._rows[at : min(at + _CONTEXT_LINES, self._end(at))])
        head = "".join(f"{row}\n" for row in reversed(before))
        return head + "\n".join(after), len(head)

    def _end(self, at: int) -> int:
        """Return the row of the next failure, or of the Python traceback that leads to it."""
        following = bisect_right(self._starts, at)
        if following == len(self._starts):
            return len(self._rows)
        end = self._starts[following]
        last_print = self._prints[bisect_left(self._prints, end) - 1]
        heads = (row for row in range(last_print + 1, end) if is_traceback_head(self._rows[row]))
        return next(heads, end)


def _take_fitting(rows: Iterable[str]) -> list[str]:
    cut = [row[:_CONTEXT_LINE] for row in rows]
    ends = accumulate(map(len, cut))
    return [row for row, end in zip(cut, ends, strict=True) if end <= _CONTEXT_CHARACTERS]
