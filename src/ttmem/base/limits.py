# SPDX-License-Identifier: Apache-2.0
"""Limits on inputs: one place for every bound, so that no reader promises one and keeps another.

An input may be damaged, or made to harm. Time may grow in proportion to its size, but no more, and memory only with
what is kept of it. Real inputs stay far below these bounds; what exceeds one is left out, with a remark.
"""

import ast
from typing import Any, TypeVar

LINE_BYTES = 8 << 20
"""A line of a log. The longest real ones, signatures of large models, have some hundred KB; a constant that was
printed in full may have more, and only its beginning is needed."""
FACT_LINE_BYTES = 1 << 20
"""A line that is searched for single facts (circular buffers, test results, tables)."""

UNPACKED_PIECE_BYTES = 1 << 20
"""Unpacked at once, however well a file was packed."""
UNPACKED_FREE_BYTES, UNPACKED_RATIO = 3 << 29, 300
"""A packed file may unpack to 1.5 GiB, and beyond that to this many times its size: logs unpack to 30 to 300 times
theirs. The rest is left out."""
STREAM_BYTES = 1 << 30
"""A pipe may have no end. A file of any size is read whole."""
REPEATED_STREAM_BYTES, REPEATED_TIMES = 32 << 20, 3
"""A pipe that repeats one text, of any length, for this many bytes and times has no end: no more is read of it than
 ``ENDLESS_STREAM_BYTES``."""
ENDLESS_STREAM_BYTES = 128 << 20
UNPACKED_LINE_BYTES = 100
"""What a line counts at least, for that: it is lines that take time, and those of logs are longer on average."""
UNPACKED_WHOLE_BYTES, REPEATED_BYTES = 64 << 20, 16 << 10
"""Beyond the first 64 MiB, what says nothing but a text of at most 16 KiB over and over is left out of a packed file,
but for two times of it: a small file may hold a GB of that. Runs of programs count, however alike they are."""
REPEATED_COST = 4
"""Factor by which unpacking what is left out costs less than reading it."""
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
"""Beyond the first 64 MiB, a saved profile may unpack to this many times its size: a decode loop repeats itself, but
a larger ratio means nothing but zeros."""

FAILURES_READ, FAILURES_READ_LAST = 250, 50
"""Lines of a log that look like the beginning of a failure and are read as one: the first and the last of each
kind (``Out of Memory``, ``TT_``, ``rror``, ...). A long one costs a millisecond; what ended a run is at an end."""
FAILURES_NOTED = 200_000
"""Failures of each kind whose places are kept: beyond that the log is nothing but failures (200 bytes each)."""
FAILURES_EXPLAINED = 100
"""Different failures that one answer explains."""
FAILURES_CLASSIFIED = 5_000
"""Failed tests whose texts are read for figures; beyond, only the wording distinguishes them."""
FAILURES_WITH_ALIVE = 8
"""Of these, the ones for which live tensors are computed: each takes a pass over the profile."""

ERRORS_OF_UNKNOWN_WORDING = 5_000
"""Errors of unknown wording that are read in one text: with more of them, only their presence matters."""

RESULTS_OF_OPERATION = 1_024
"""Results that one operation line may announce (``%5:1024 = ...``): the largest real split has a few hundred."""
NESTED_PROGRAMS = 64
"""Programs that may be open inside each other; real ones nest two or three deep."""

NUMBER_DIGITS = 30
"""Digits of a number: 2**64 has 20. Python refuses to read more than 4,300, and slows down long before."""
NUMBER_BITS = 128
"""Bits that arithmetic on such numbers may reach before the result counts as unknown."""
TENSOR_DIMENSIONS = 1_024
"""Dimensions of a tensor; most operations of ttnn stop at 8, and torch stops at 64."""

PIECES_OF_TENSOR = 10_000
"""Tensors in one entry of a recipe: copies, or parts of a vocabulary; real ones have a dozen."""
LITERAL_CHARACTERS = 1 << 16
"""A value in Python's notation (``(1, 32)``): its parser takes a thousand bytes for each character."""
TESTS_READ = 150_000
"""Tests of other tools' results that one report is made of: each costs some 40 microseconds."""
NAMES_WITH_OWN_ROW, BOARDS_WITH_OWN_ROW = 5_000, 50
"""Operators, models, error sentences (and boards) of test results that have a row of their own; the rest shares one.
There are a few hundred real operators, and a dozen boards."""
ROWS_FOR_PEOPLE = 2_000
"""Rows of a table in a text or a page; the JSON and CSV have all."""
FOLDED_TESTS = 100_000
"""Tests that a pytest summary folds into lines such as ``SKIPPED [12] reason``, all of them together."""

RANKS = 512
"""Processes of a job whose histories are kept apart; each costs milliseconds in every analysis."""
LAYOUT_BYTES = 4_096
"""Length of the value of an alias in a module dump: it is expanded at each use."""

_Item = TypeVar("_Item")


def keep_first_and_last(items: list[_Item], most: int) -> list[_Item]:
    """Return at most ``most`` items: the first three quarters and the last quarter."""
    return items if len(items) <= most else items[: most - most // 4] + items[-(most // 4) :]


def parse_literal(text: str) -> Any:
    """Parse a value in Python's notation; raises ``ValueError`` for any other text."""
    if len(text) > LITERAL_CHARACTERS:
        raise ValueError("too long for a value")
    try:
        return ast.literal_eval(text)
    except (TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from None


class LongLines:
    """Cuts lines of a text that are longer than a limit; lines may span chunks."""

    __slots__ = ("_length", "_limit", "cut")

    def __init__(self, limit: int = LINE_BYTES) -> None:
        self._limit = limit
        self._length = 0
        """Length so far of the line that the last chunk ended in."""
        self.cut = 0
        """Number of lines that were too long."""

    def shorten(self, chunk: bytes) -> bytes:
        """Return the chunk with its long lines cut; line ends stay."""
        length, last = self._length, chunk.rfind(b"\n")
        self._length = length + len(chunk) if last < 0 else len(chunk) - last - 1
        if length + len(chunk) <= self._limit:
            return chunk  # nearly always
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
        """Remarks on what was left out."""
        return (self.remark,) if self.cut else ()

    @property
    def remark(self) -> str:
        """The remark on what was left out, or an empty text."""
        if not self.cut:
            return ""
        lines = "a line is" if self.cut == 1 else f"{self.cut:,} lines are"
        return f"{lines} longer than {self._limit >> 20} MiB: the rest was left out"
