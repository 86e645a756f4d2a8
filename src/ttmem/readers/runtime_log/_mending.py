# SPDX-License-Identifier: Apache-2.0
"""Records that reached the log damaged, read again where only one reading is possible.

Terminals and CI systems wrap lines at some width, colour words in them, escape quotation marks and write numbers as the
reader's country does. A record is accepted only when all of it is there: nothing is guessed.
"""

import html
import itertools
import re
from collections.abc import Sequence

from ttmem.readers.mlir.syntax import parse_operation
from ttmem.readers.wrappings import MPI_TAG, PREFIX_BYTES, RECORD, TIME_PREFIX, read_rank

PIECES = 64
"""Lines that one record may have been wrapped into."""
PIECES_BYTES = 64 << 10
_ESCAPES = re.compile(rb"\x1b\[[0-9;?]{0,40}[A-Za-z]")
_TAGS = re.compile(rb"</?[A-Za-z][^<>]{0,400}>")
_BLANKS = re.compile(rb"(?:[ \t\r\n']|\xc2\xa0|\xe2\x80\xaf|\xe2\x80\x99)+")
"""Characters at which lines are wrapped or thousands grouped; no blank separates two figures by itself."""
_OPERATION = b"Executing operation: "
_BEGINNINGS = (
    _OPERATION,
    b"Starting execution of program: ",
    b"Finished execution of program: ",
    b"Device memory state before operation ",
    *(b"Device %s memory state: MemoryView{" % memory for memory in (b"DRAM", b"L1", b"L1_SMALL", b"TRACE")),
)
_MEMORY = re.compile(rb"Device (DRAM|L1|L1_SMALL|TRACE)\b")
_FIGURE = rb"(\d[\d.,]{0,30})Mi?B"
_VIEW = re.compile(
    rb"Device(DRAM|L1|L1_SMALL|TRACE)memorystate:MemoryView\{numBanks:(\d{1,9}),totalBytesPerBank:" + _FIGURE + rb","
    rb"totalBytesAllocatedPerBank:" + _FIGURE + rb",totalBytesFreePerBank:" + _FIGURE + rb","
    rb"largestContiguousBytesFreePerBank:" + _FIGURE + rb"\}"
)
_PROGRAM = re.compile(rb"(?:Starting|Finished) execution of program: \S+$")
_HEADER = re.compile(rb"Devicememorystate(?:beforeoperation(\w)|(before|after)submit)")
_CUT = "memory line is cut or mixed with other text"
_HEADERS = (b"Devicememorystatebeforeoperation", b"Devicememorystatebeforesubmit", b"Devicememorystateaftersubmit")
_CUT_ESCAPE = re.compile(rb"\x1b(?:\[[0-9;?]{0,40})?\Z")
_DECIMALS, _MOST_DIGITS = 3, 12
_GROUPED = re.compile(rb"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*")


def find_open_record(lines: Sequence[bytes]) -> int:
    """Return the start of a last record that may continue in lines still to come; else the number of lines."""
    size = 0
    for at in range(len(lines) - 1, max(-1, len(lines) - 1 - PIECES), -1):
        if begins_record(_plain(lines[at])):
            return at if looks_torn(lines[at]) else len(lines)
        size += len(lines[at])
        if size > PIECES_BYTES:
            break
    return len(lines)


def begins_record(line: bytes) -> bool:
    """True when the record before has ended: another one starts in this line, with or without the logger's prefix."""
    if len(line) > PIECES_BYTES or RECORD.search(line, 0, PREFIX_BYTES):
        return True
    return _OPERATION in line or b"Device " in line.partition(b"MemoryV")[0]


def looks_torn(line: bytes) -> bool:
    """True when a record may continue in the lines below: its text is incomplete."""
    if len(line) > PIECES_BYTES:
        return False
    message = _message(line)
    if message.startswith(_OPERATION):
        parsed = parse_operation(message[len(_OPERATION) :])
        return parsed is None or not parsed.complete
    if b"MemoryView{" in message:
        return b"}" not in message.rpartition(b"MemoryView{")[2]
    return any(beginning.startswith(message) for beginning in _BEGINNINGS)


def ends_in_header(last_line: bytes) -> bool:
    """True when a log was cut within the header of a memory state: the figures below it are lost."""
    if len(last_line) > PIECES_BYTES:
        return False
    text = MPI_TAG.sub(b"", TIME_PREFIX.sub(b"", _plain(_CUT_ESCAPE.sub(b"", last_line)), count=1), count=1)
    text = b"".join(text.split())
    return any(
        (len(text) > 2 and (b"Always|INFO|" + header).startswith(text))
        or (text.startswith(b"Devi") and header.startswith(text))
        for header in _HEADERS
    )


def describe_damage(line: bytes) -> tuple[str, str | None]:
    """Describe the damage of a record that cannot be read, and name the memory whose figures are lost with it.

    No text where it is no record of ours, ``""`` where its memory is not known, None where it holds no figures.
    """
    message = _message(line[:PIECES_BYTES])
    if named := _MEMORY.match(message):
        memory = named[1].decode()
        if b"MemoryView{" not in message:
            return _CUT, memory
        return f"memory view of {memory} is cut, mixed with other text, or in an unknown notation", memory
    if b"numBanks: " in line or b"PerBank: " in line:
        return _CUT, ""
    if message.startswith(b"Device memory"):
        return _CUT, None
    if b"Device ".startswith(message[:7]) and len(message) > 2:
        return _CUT, ""
    return ("record is cut or mixed with other text", None) if len(message) > 2 and RECORD.search(line) else ("", None)


def mend(line: bytes, below: Sequence[bytes]) -> tuple[bytes, int] | None:
    """The record as the runtime wrote it, and how many of the lines below belong to it; None when it is not all there.

    ``line`` holds its beginning.
    """
    if len(line) > PIECES_BYTES:
        return None
    message = _message(line)
    tag = MPI_TAG.search(line[:PREFIX_BYTES])
    pieces = [message, *_continuations(below, read_rank(line))]
    found = _view(pieces) or _header(pieces) or _program(pieces)
    if found is None and _is_wrapped([_plain(line).rstrip(b"\r"), *pieces[1:]]):
        found = _operation(pieces)
    return ((tag[0] if tag else b"") + found[0], found[1]) if found else None


def _plain(line: bytes) -> bytes:
    """Without colours and what HTML makes of a text."""
    if b"\x1b" in line:
        line = _ESCAPES.sub(b"", line)
    if b"&quot;" in line or b"&lt;" in line or b"&#34;" in line:
        line = html.unescape(_TAGS.sub(b"", line).decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return line


def _message(line: bytes) -> bytes:
    """The text of the last record in a line."""
    line = _plain(line).rstrip(b"\r ")
    records = list(RECORD.finditer(line))
    if records:
        return line[records[-1].end() :].lstrip(b" ")
    starts = [at for mark in (_OPERATION, b"Device ") if (at := line.rfind(mark)) >= 0]
    return line[max(starts) :] if starts else b"-"


def _continuations(below: Sequence[bytes], rank: int) -> list[bytes]:
    """The lines below up to where another record begins."""
    pieces: list[bytes] = []
    size = 0
    for line in below[:PIECES]:
        size += len(line)
        if size > PIECES_BYTES or read_rank(line) not in (rank, -1):
            break
        text = _plain(line)
        if begins_record(text):
            break
        text = TIME_PREFIX.sub(b"", text, count=1).rstrip(b"\r")
        tag = MPI_TAG.match(text)
        pieces.append(text[tag.end() :] if tag else text)
    return pieces


def _compact(pieces: list[bytes], most: int) -> tuple[bytes, list[int]]:
    """Without blanks, and where each piece ends in it: a line may have been wrapped at a blank or inside a word."""
    text, ends = b"", []
    for piece in pieces:
        text += _BLANKS.sub(b"", piece[:most])
        ends.append(len(text))
        if len(text) > most:
            break
    return text, ends


def _pieces_until(ends: list[int], end: int) -> int:
    return next(number for number, at in enumerate(ends) if at >= end)


def _view(pieces: list[bytes]) -> tuple[bytes, int] | None:
    text, ends = _compact(pieces, 400)
    found = _VIEW.match(text)
    figures = _figures(found.groups()[2:]) if found else None
    if found is None or figures is None:
        return None
    body = b"totalBytesPerBank: %s MB, totalBytesAllocatedPerBank: %s MB, totalBytesFreePerBank: %s MB" % figures[:3]
    view = b"numBanks: %s, %s, largestContiguousBytesFreePerBank: %s MB" % (found[2], body, figures[3])
    return b"Device %s memory state: MemoryView{%s}" % (found[1], view), _pieces_until(ends, found.end())


def _header(pieces: list[bytes]) -> tuple[bytes, int] | None:
    text, ends = _compact(pieces, 100)
    found = _HEADER.match(text)
    if found is None:
        return None
    when = b"before operation %s" % found[1] if found[1] else b"%s submit" % found[2]
    return b"Device memory state " + when, _pieces_until(ends, found.end())


def _operation(pieces: list[bytes]) -> tuple[bytes, int] | None:
    """Join all lines up to the next record: the end of an operation's text cannot be seen otherwise."""
    for between in (b"", b" "):
        text = between.join(pieces).rstrip()
        parsed = parse_operation(text[len(_OPERATION) :]) if text.startswith(_OPERATION) else None
        if parsed is not None and parsed.complete:
            return text, len(pieces) - 1
    return None


def _is_wrapped(lines: list[bytes]) -> bool:
    """True when each line ends where the next word, or letter, had no room: other texts have lines of any length."""
    width = max(map(len, lines))
    return all(
        len(line) == width or len(line.rstrip()) + 1 + len(following.partition(b" ")[0]) > width
        for line, following in itertools.pairwise(lines)
    )


def _program(pieces: list[bytes]) -> tuple[bytes, int] | None:
    if len(pieces) < 2 or b"program: " in pieces[0]:
        return None
    text = next((text for between in (b"", b" ") if _PROGRAM.match(text := between.join(pieces[:2]))), None)
    return (text, 1) if text else None


def _figures(texts: Sequence[bytes]) -> tuple[bytes, ...] | None:
    """Figures as the runtime writes them; None where they could mean something else or do not add up.

    The runtime always prints three decimals. So the last of ``,`` and ``.`` is the decimal point, unless all figures
    could as well be whole thousands.
    """
    whole, points, is_sure = [], set(), False
    for text in texts:
        number, point, decimals = text[: -_DECIMALS - 1], text[-_DECIMALS - 1 : -_DECIMALS], text[-_DECIMALS:]
        grouped = _GROUPED.fullmatch(number)
        separator = grouped[1] if grouped else b""
        if point not in (b".", b",") or not decimals.isdigit() or separator == point:
            return None
        if not (number.isdigit() or grouped) or len(number) > _MOST_DIGITS:
            return None
        points.add(point)
        is_sure |= point == b"." or bool(separator) or len(number) > 3 or number == b"0"
        whole.append(number.replace(separator, b"") + b"." + decimals if separator else number + b"." + decimals)
    total, allocated, free, largest = (float(figure) for figure in whole)
    adds_up = abs(total - allocated - free) < 0.0025 and largest <= free + 0.0015
    return tuple(whole) if len(points) == 1 and is_sure and adds_up else None
