# SPDX-License-Identifier: Apache-2.0
"""From any source, however long, to the failures that it tells of and what stands around each."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate, chain

from ttmem._limits import FAILURES_EXPLAINED, first_and_last
from ttmem.explain.failure import Failure
from ttmem.explain.text.context import Context, read_context
from ttmem.explain.text.deduplicate import deduplicate, is_echo
from ttmem.explain.text.find import failures_and_unread
from ttmem.explain.text.paraphrase import paraphrased
from ttmem.explain.text.scan import LogScanner, Piece, is_runtime_log

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
        failures, beyond = failures_and_unread(piece.text, first_line=piece.first_line, include_other=True)
        unread += beyond
        prints += failures
        rows = piece.text.split("\n") if failures else []
        for failure in failures[:FAILURES_EXPLAINED] + failures[-FAILURES_EXPLAINED:]:
            if failure.line is not None and failure.line not in around:
                around[failure.line] = _text_around(rows, failure.line - piece.first_line, piece.operation)
    unique = deduplicate(prints)
    concerning = [failure for failure in unique if failure.failure_class != "none"]
    has_own = not all(is_echo(failure) for failure in unique)
    if not has_own and not is_runtime_log(head) and (guess := paraphrased(head.decode("utf-8", "replace"))):
        unique = concerning = [guess]  # a person's own words
        around[1] = (guess.message, 0)
    concerning = concerning or unique
    shown = first_and_last(concerning, FAILURES_EXPLAINED)
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


def _text_around(rows: list[str], at: int, operation: str) -> tuple[str, int]:
    """The lines near a failure, in the order of the text, as far as there is room for them; where it begins in them."""
    before = _that_fit(reversed([operation[:_CONTEXT_LINE], *rows[max(0, at - _CONTEXT_LINES) : max(0, at)]]))
    after = _that_fit(rows[at : at + _CONTEXT_LINES])
    head = "".join(f"{row}\n" for row in reversed(before))
    return head + "\n".join(after), len(head)


def _that_fit(rows: Iterable[str]) -> list[str]:
    cut = [row[:_CONTEXT_LINE] for row in rows]
    ends = accumulate(map(len, cut))
    return [row for row, end in zip(cut, ends, strict=True) if end <= _CONTEXT_CHARACTERS]
