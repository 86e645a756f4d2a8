# SPDX-License-Identifier: Apache-2.0
"""How much of an input is looked at: one place for every bound, so that no reader promises one and keeps another.

An input may be damaged, or made to harm. Its size may cost time in proportion, but no more, and memory only for what
is kept of it. Real inputs stay far below these bounds; what lies beyond one is left out and said.
"""

import ast
from typing import Any, TypeVar

LINE_BYTES = 8 << 20
"""A line of a log. The longest real ones, signatures of large models, have some hundred KB; a constant that was
printed in full may have more, and nothing behind its beginning is needed."""
FACT_LINE_BYTES = 1 << 20
"""A line that is searched for single facts (circular buffers, test results, tables)."""

UNPACKED_PIECE_BYTES = 1 << 20
"""Unpacked at once, however well a file was packed."""
UNPACKED_FREE_BYTES, UNPACKED_RATIO = 3 << 29, 300
"""A packed file may unpack to 1.5 GiB, and beyond that to so many times its size: logs unpack to 30 to 300 times
theirs. What lies beyond is left out."""
STREAM_BYTES = 1 << 30
"""A pipe may have no end. A file of any size is read whole."""
REPEATED_STREAM_BYTES, REPEATED_TIMES = 32 << 20, 3
"""A pipe that repeats one text, of any length, for so many bytes and so many times has no end: no more is read of it
than ``ENDLESS_STREAM_BYTES``."""
ENDLESS_STREAM_BYTES = 128 << 20
UNPACKED_LINE_BYTES = 100
"""What a line counts at least, for that: it is lines that take time, and those of logs are longer on average."""
UNPACKED_WHOLE_BYTES, REPEATED_BYTES = 64 << 20, 16 << 10
"""Beyond the first 64 MiB, what says nothing but a text of at most 16 KiB over and over is left out of a packed file,
but for two times of it: a small file may hold a GB of that. Runs of programs count, however alike they are."""
REPEATED_COST = 4
"""To unpack what is left out costs so many times less than to read it."""
TEXT_BYTES, LIST_BYTES = 64 << 20, 1 << 20
"""A file that people write or that is edited by hand (operators, cases), and a short one (recipes, lists of models)."""
DOCUMENT_BYTES = 1 << 28
"""A source that is one document (JSON, a module dump, a folder's table) and has to be read as a whole."""
DOCUMENT_VALUES = 4_000_000
"""Values of a JSON document: each costs some 100 bytes once it is read. A capture of 200,000 nodes has fewer."""
DOCUMENT_ELEMENTS = 1_000_000
"""Elements of an XML document: each costs some 300 bytes. A hundred thousand tests have fewer."""
PROFILE_BYTES = 1 << 30
"""A saved profile, unpacked: some 50 bytes for each of 20 million operations."""
PROFILE_FREE_BYTES, PROFILE_RATIO = 64 << 20, 10_000
"""Beyond the first 64 MiB, a saved profile may unpack to so many times its size: a decode loop repeats itself exactly,
but one that says more than this holds nothing but zeros."""

FAILURES_READ, FAILURES_READ_LAST = 250, 50
"""Lines of a log that look like the beginning of a failure and are read as one: the first and the last so many of each
kind (``Out of Memory``, ``TT_``, ``rror``, ...). A long one costs a millisecond; what ended a run is at an end."""
FAILURES_NOTED = 200_000
"""Of each kind: beyond so many the log is nothing but failures, and not even their places are kept (200 bytes each)."""
FAILURES_EXPLAINED = 100
"""Different failures that one answer explains."""
FAILURES_CLASSIFIED = 5_000
"""Failed tests whose texts are read for figures; beyond, the wording alone tells them apart."""
FAILURES_WITH_ALIVE = 8
"""Of these, the ones for which the profile is asked what was alive: each time it is walked through again."""

ERRORS_OF_UNKNOWN_WORDING = 5_000
"""Errors that are looked at in one piece of a text, when nothing is known of their wording: what matters of so many is
that there are any."""

RESULTS_OF_OPERATION = 1_024
"""Results that one operation line may announce (``%5:1024 = ...``): the largest real split has a few hundred."""
NESTED_PROGRAMS = 64
"""Programs that may be open inside each other; real ones nest two or three deep."""

NUMBER_DIGITS = 30
"""Digits of a number: 2**64 has 20. Python refuses to read more than 4,300, and slows down long before."""
NUMBER_BITS = 128
"""What arithmetic on such numbers may grow to before it counts as unknown."""
TENSOR_DIMENSIONS = 1_024
"""Dimensions of a tensor; most operations of ttnn stop at 8, and torch stops at 64."""

PIECES_OF_TENSOR = 10_000
"""Tensors that one entry of a recipe stands for: copies, or pieces of a vocabulary; real ones have a dozen."""
LITERAL_CHARACTERS = 1 << 16
"""A value that is written as Python writes it (``(1, 32)``): its parser takes a thousand bytes for each character."""
TESTS_READ = 150_000
"""Tests of other tools' results that one report is made of: each costs some 40 microseconds, whatever it says."""
NAMES_TOLD_APART, BOARDS_TOLD_APART = 5_000, 50
"""Operators, models, error sentences (and boards) of test results that have a row of their own, the rest shares one:
there are a few hundred real operators, and a dozen boards."""
ROWS_FOR_PEOPLE = 2_000
"""Of a table in a text or a page; the JSON and CSV beside it have all."""
FOLDED_TESTS = 100_000
"""Tests that a pytest summary folds into lines such as ``SKIPPED [12] reason``, all of them together."""

RANKS = 512
"""Processes of a job whose histories are kept apart; each costs milliseconds in every analysis."""
LAYOUT_BYTES = 4_096
"""What an alias of a module dump stands for: it is written out wherever it is used."""

_Item = TypeVar("_Item")


def first_and_last(items: list[_Item], most: int) -> list[_Item]:
    """As many as are looked at: what came first, and as a quarter of them what came last."""
    return items if len(items) <= most else items[: most - most // 4] + items[-(most // 4) :]


def literal(text: str) -> Any:
    """The value that a text is Python's notation of; ``ValueError`` for any other text, whatever is wrong with it."""
    if len(text) > LITERAL_CHARACTERS:
        raise ValueError("too long for a value")
    try:
        return ast.literal_eval(text)
    except (TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from None


class LongLines:
    """Chunks of a text without what lies beyond the longest line that is looked at; lines may span chunks."""

    __slots__ = ("_length", "_limit", "cut")

    def __init__(self, limit: int = LINE_BYTES) -> None:
        self._limit = limit
        self._length = 0
        """Of the line that the chunks before ended in."""
        self.cut = 0
        """How many lines were too long."""

    def shorten(self, chunk: bytes) -> bytes:
        """The chunk, with every line end that it has."""
        length, last = self._length, chunk.rfind(b"\n")
        self._length = length + len(chunk) if last < 0 else len(chunk) - last - 1
        if length + len(chunk) <= self._limit:
            return chunk  # as nearly every one
        lines = chunk.split(b"\n")
        room = max(0, self._limit - length)
        self.cut += len(lines[0]) > room and length <= self._limit
        lines[0] = lines[0][:room]
        for number, line in enumerate(lines[1:], 1):
            if len(line) > self._limit:
                lines[number] = line[: self._limit]
                self.cut += 1
        return b"\n".join(lines)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was left out, none when nothing was."""
        return (self.remark,) if self.cut else ()

    @property
    def remark(self) -> str:
        """The same in one text, empty when nothing was."""
        if not self.cut:
            return ""
        lines = "a line is" if self.cut == 1 else f"{self.cut:,} lines are"
        return f"{lines} longer than {self._limit >> 20} MiB: what lies beyond was left out"
