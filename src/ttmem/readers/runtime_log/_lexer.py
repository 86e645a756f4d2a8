# SPDX-License-Identifier: Apache-2.0
"""Lines of a runtime log -> tokens, in one streaming pass over bytes.

Iterations repeat their lines exactly, so a line that was understood once is looked up from then on; only new lines
are parsed. What is kept of a distinct line is what it means, not its text, and the look-up table is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from ttmem.base.limits import LINE_BYTES
from ttmem.failures.text.clean_text import EXPECTED_BEGIN, EXPECTED_END
from ttmem.failures.text.scan import ENVELOPE_WORDS, FAILURE_WORDS, ShapeFilter, split_shapes
from ttmem.readers.mlir.module_dump import STAGE_END_MARKS, parse_module_line
from ttmem.readers.mlir.syntax import OperationText, parse_operation
from ttmem.readers.runtime_log._failures import FailureCollector
from ttmem.readers.runtime_log._mending import (
    PIECES,
    describe_damage,
    ends_in_header,
    find_open_record,
    looks_torn,
    mend,
)
from ttmem.readers.runtime_log._tokens import VIEW_KIND_OF_MEMORY, Event, Kind, LexedLog, Signatures, Tables, What
from ttmem.readers.wrappings import (
    MPI_TAG,
    PREFIX_BYTES,
    RECORD,
    TIME_PREFIX,
    TORN,
    LineSplitter,
    read_rank,
    split_glued_records,
    split_glued_views,
    split_repeats,
)

_KNOWN_LINES_BYTES = 40 << 20
"""How much line text the look-up table may hold before it starts anew: bounds memory, costs only repeated parsing."""
_FORGETTING_LINES = 1_000_000
_SHORT_LINE_BYTES, _KNOWN_FOREIGN_LINES = 40, 10_000
"""Lines of others that are looked up as well: blank ones and rules come again and again."""
_DAMAGED_KEPT = 200

# Bounded digits: a damaged line may hold a number that no column can.
_VIEW_BODY = re.compile(
    rb"numBanks: (\d{1,9}), totalBytesPerBank: (\d{1,12}\.\d{1,6}) MB, "
    rb"totalBytesAllocatedPerBank: (\d{1,12}\.\d{1,6}) MB, totalBytesFreePerBank: (\d{1,12}\.\d{1,6}) MB, "
    rb"largestContiguousBytesFreePerBank: (\d{1,12}\.\d{1,6}) MB$"
)
_HEADER = re.compile(rb"Device memory state (before operation \w|before submit|after submit)")
_HEADER_KIND = {b"before s": Kind.BEFORE_SUBMIT, b"after su": Kind.AFTER_SUBMIT, b"before o": Kind.BEFORE_OPERATION}
_PROGRAM = re.compile(rb"(Starting|Finished) execution of program: ([^\s<]+)")
_LOOKUP = re.compile(rb"Running LoadCachedOp for function (\S+) with hash: (\w+)")
_HIT_OR_MISS = re.compile(rb"Cache (hit|miss)(?: or invalid cache)? for function: (\S+)")
_GRID = re.compile(rb"Device grid size = \{ (\d{1,6}), (\d{1,6}) \}")
_MESH = re.compile(rb"remapped mesh device shape \[(\d{1,6}), (\d{1,6})\]")
_SYSTEM = b"#system_desc = "
_ARCHITECTURE = re.compile(rb"arch = <(\w{1,40})>")
_NOTHING_BUT_PREFIXES = re.compile(rb"(?:\s|\x1b\[[0-9;]*m|\[\d+,\d+\]<std(?:out|err)>:)*")
_FAILURE = -1
_MODULE_BODY = (b"%", b'"ttnn.', b'"ttir.', b'"stablehlo.', b'"vhlo.', b"return ", b"}")
_MODULE_MARKS = (b"func.func ", b"MLIR Module ", b"module @", *STAGE_END_MARKS)
_MARKS = (
    *(b" | ", b"Executing operation: ", b"MemoryView{", b"memory state", b"xecution of program: ", b"#"),
    *(*_MODULE_MARKS, b"EXPECTED_ERROR"),
)
"""A line with none of these is somebody else's, whatever else it holds: ``_learn`` asks for nothing but them."""
_BLOCK_LINES = 256
_EXPECTED = {EXPECTED_BEGIN.encode(): What.EXPECTED_BEGIN, EXPECTED_END.encode(): What.EXPECTED_END}


class Lexer:
    """Understands a log line by line; give it chunks in order, then ``finish``."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.splitter = LineSplitter()
        self.line_count = 0
        self.byte_count = 0
        self._codes: dict[bytes, int] = {}
        self._codes_bytes = self._foreign_known = 0
        self._signatures = Signatures(self.tables)
        self._forms: list[tuple[OperationText, int]] = []
        self._new_codes: list[tuple[int, int, int]] = []
        self._next_code = 1
        self._events: dict[Event, int] = {}
        self._tokens: list[NDArray[np.int32]] = []
        self._lines: list[NDArray[np.int32]] = []
        self._views: list[bytes] = []
        self._view_count = 0
        self.failures = FailureCollector(self.tables.failures)
        self._damaged: list[tuple[int, str]] = []
        self._damaged_count = 0
        self._filter = ShapeFilter()
        self._unread: dict[str, list[int]] = {}
        self._lines_now: list[bytes] = []
        self._held: list[bytes] = []
        """The last lines of a chunk, where a record may go on in the next one."""
        self._mended_until = 0
        """The last line that was read together with one above it."""
        self._saw_runtime = False
        self._saw_marker = False
        self._extra: list[tuple[int, int]] = []
        self._operation_at = 0
        """Where the text of an operation begins in its line: the same place in nearly all of them."""
        self._forget_until = 0
        self._remembered_from = 0

    def take(self, chunk: bytes) -> None:
        """The next bytes."""
        self.byte_count += len(chunk)
        first, line, repeats, rest = split_repeats(chunk)
        self.feed(self.splitter.split(first))
        if repeats and self._codes.get(line) == Kind.FOREIGN:
            self.line_count += repeats
            self.feed(self.splitter.split(rest))
        elif repeats:
            self.feed(self.splitter.split(chunk[len(first) :]))

    def finish(self) -> LexedLog:
        """Return all tokens, with the last line."""
        self._tokenize([*self._held, *self.splitter.rest()])
        self._held = []
        written = [index for index, line in enumerate(self._lines_now) if line.strip()]
        if written and ends_in_header(self._lines_now[written[-1]]):
            line = self.line_count - len(self._lines_now) + written[-1] + 1
            self._unread[""] = sorted({*self._unread.get("", ()), line})
        return self.snapshot()

    def feed(self, lines: list[bytes]) -> None:
        """Take the next lines, without their line ends; a record that may go on in the ones after them has to wait."""
        lines = [*self._held, *lines] if self._held else lines
        start = find_open_record(lines)
        self._held = lines[start:]
        self._tokenize(lines[:start])

    def _tokenize(self, lines: list[bytes]) -> None:
        count = len(lines)
        self._lines_now = lines
        self.failures.go_on(lines)
        codes = np.fromiter(map(self._codes.get, lines, repeat(-1)), np.int32, count)
        unknown = np.flatnonzero(codes < 0)
        if unknown.size:
            codes[unknown] = self._encode(lines, unknown.tolist())
        kept = np.flatnonzero(codes)
        tokens, positions = codes[kept], kept + (self.line_count + 1)
        if self._extra:
            tokens, positions = self._insert_extra(tokens, positions)
        self._tokens.append(tokens)
        self._lines.append(positions.astype(np.int32))
        self.line_count += count
        self._flush()

    def snapshot(self) -> LexedLog:
        """Return the tokens until now; feeding may continue afterwards (``--follow``)."""
        self.failures.read_late()
        return LexedLog(
            tables=self.tables,
            token=np.concatenate(self._tokens) if self._tokens else np.zeros(0, np.int32),
            line=np.concatenate(self._lines) if self._lines else np.zeros(0, np.int32),
            bytes=self.byte_count,
            lines=self.line_count,
            damaged=list(self._damaged),
            damaged_count=self._damaged_count,
            unread={memory: list(lines) for memory, lines in self._unread.items()},
            saw_runtime=self._saw_runtime,
            saw_marker=self._saw_marker,
            unread_failures=self.failures.unread,
        )

    # --- one line -----------------------------------------------------------------------------------------------

    def _encode(self, lines: list[bytes], unknown: list[int]) -> list[int]:
        """Lines of others come in blocks, and most blocks have no word that would make us look at their lines."""
        learned: list[int] = []
        for at in range(0, len(unknown), _BLOCK_LINES):
            block = unknown[at : at + _BLOCK_LINES]
            text = b"\n".join([lines[i] for i in block])
            if len(text) >= LINE_BYTES or any(mark in text for mark in _MARKS) or self._filter.find(split_shapes(text)):
                learned += [self._encode_line(lines, i) for i in block]
                continue
            learned += repeat(int(Kind.FOREIGN), len(block))
            for i in block[: _KNOWN_FOREIGN_LINES - self._foreign_known]:
                self._know_foreign(lines[i])
        return learned

    def _know_foreign(self, line: bytes) -> None:
        if len(line) <= _SHORT_LINE_BYTES and self._foreign_known < _KNOWN_FOREIGN_LINES:
            self._foreign_known += 1
            self._codes[line] = Kind.FOREIGN

    def _encode_line(self, lines: list[bytes], index: int) -> int:
        line = lines[index]
        code = self._codes.get(line)  # it may have been learned a few lines above
        if code is not None:
            return code
        if self.line_count + index < self._mended_until:
            return Kind.FOREIGN
        at = self._operation_at
        if line.startswith(b"Executing operation: ", at) and line.count(b" | ") == 2 and b"\r" not in line:
            code = self._operation(line, at, index)  # the ordinary case of what is most often new
            if code and self.line_count >= self._forget_until:
                self._remember(line, code)
            return code
        damaged = self._damaged_count
        code = self._learn(line, index)
        if code == _FAILURE:  # its text continues in the lines below, so it cannot be looked up by this line alone
            number, rank = self.failures.begin(lines, index)
            return Kind.FOREIGN if number is None else self._add(Kind.FAILURE, number, rank)
        if code:
            self._remember(line, code)
        elif self._damaged_count == damaged and not self._extra:  # else it means something each time
            self._know_foreign(line)
        return code

    def _remember(self, line: bytes, code: int) -> None:
        self._codes_bytes += len(line) + 100
        if self._codes_bytes > _KNOWN_LINES_BYTES:
            if len(self._codes) * 8 > self.line_count - self._remembered_from:
                # At least every eighth line was new: operations do not repeat, so keeping their lines is wasted.
                self._forget_until = self.line_count + _FORGETTING_LINES
            self._codes.clear()
            self._codes_bytes = len(line)
            self._foreign_known = 0
            self._remembered_from = self.line_count
        self._codes[line] = code

    def _learn(self, line: bytes, index: int) -> int:
        """The code of a line that is seen for the first time; 0 for foreign lines, ``_FAILURE`` for failures."""
        if len(line) == LINE_BYTES:
            self._damage(index, f"line is longer than {LINE_BYTES >> 20} MiB: the rest was left out")
        if line[4:5] == b"-" and (time := TIME_PREFIX.match(line)):
            line = line[time.end() :]  # the splitter removes times in bulk only where most lines have one
        if line[:2] == b"  " and line.lstrip(b" ").startswith(_MODULE_BODY) and b" | " not in line:
            return Kind.FOREIGN  # an operation inside a module dump: there may be as many as were executed
        if b"\r" in line:
            line = line.rstrip(b"\r")
            if b"\r" in line:  # a progress bar was drawn over this line: every piece is a line of its own
                return self._pieces(line.split(b"\r"), index)
        if line.count(b" | ") > 2 and len(records := split_glued_records(line)) > 1:
            return self._pieces(records, index)
        at = line.find(b"Executing operation: ", 0, PREFIX_BYTES)
        if at >= 0:
            return self._operation(line, at, index)
        at = line.find(b"MemoryView{")
        if at >= 0:
            return self._view(line, at, index)
        at = line.find(b"Executing operation: ")
        if at >= 0:
            return self._operation(line, at, index)
        if b"memory state" in line:
            return self._header(line, index)
        if b"xecution of program: " in line:
            found = _PROGRAM.search(line)
            if found:
                self._saw_runtime = True
                what = What.STARTED if found[1] == b"Starting" else What.FINISHED
                return self._event(line, Event(what, found[2].decode("utf-8", "replace")))
        tag = MPI_TAG.match(line)
        if line.startswith(b"#", tag.end() if tag else 0) or any(mark in line for mark in _MODULE_MARKS):
            item = parse_module_line(line[tag.end() :] if tag else line)
            if item:
                self.tables.modules.append(item)
                return self._add(Kind.MODULE, len(self.tables.modules) - 1, int(tag[1]) if tag else -1)
        if b"EXPECTED_ERROR" in line:
            for mark, what in _EXPECTED.items():
                if mark in line:
                    return self._event(line, Event(what, ""))
        if any(word in line for word in ENVELOPE_WORDS):
            return _FAILURE
        if b" | " in line or b"#system_desc" in line:
            known = (self._damaged_count, len(self._extra))
            code = self._runtime_message(line, index)
            if code or known != (self._damaged_count, len(self._extra)):
                return code
        return _FAILURE if any(word in line for word in FAILURE_WORDS) else Kind.FOREIGN

    def _pieces(self, pieces: Iterable[bytes], index: int) -> int:
        """Several records share this line: each becomes a token of its own, none is looked up by the whole line."""
        result = int(Kind.FOREIGN)
        for piece in pieces:
            code = self._learn(piece, index) if piece.strip() else 0
            if code == _FAILURE:
                result = _FAILURE
            elif code:
                self._extra.append((self.line_count + index + 1, code))
        return result

    def _view(self, line: bytes, at: int, index: int) -> int:
        device = line.rfind(b"Device ", 0, at)
        memory = line[device + 7 : at - 15] if device >= 0 else b""
        kind = VIEW_KIND_OF_MEMORY.get(memory)
        self._saw_marker = True
        end = line.find(b"}", at)
        body = line[at + 11 : end] if end >= 0 else b""
        if kind is None or not _VIEW_BODY.match(body):
            return self._mend_or_note_damage(line, index)
        if line.find(b"MemoryView{", end) >= 0 or line.find(b"Executing operation: ", end) >= 0:
            return self._pieces(split_glued_views(line), index)
        self._views.append(body)
        self._view_count += 1
        return self._add(kind, self._view_count - 1, read_rank(line))

    def _operation(self, line: bytes, at: int, index: int) -> int:
        if not line.startswith(b"| ", at - 2) and not _NOTHING_BUT_PREFIXES.fullmatch(line, 0, at):
            return Kind.FOREIGN  # somebody talks about operations
        parsed = parse_operation(line[at + 21 :].rstrip())
        if parsed is None or not parsed.complete:
            code = self._mend(line, index)
            if code is not None:
                return code
        if parsed is None:
            if not RECORD.search(line, 0, at):
                return Kind.FOREIGN
            self._saw_runtime = self._saw_marker = True
            return self._damage(index, "operation line is cut or mixed with other text")
        self._saw_runtime = self._saw_marker = True
        self._operation_at = at
        self._forms.append((parsed, self._signatures.number(parsed.types)))
        code = self._add(Kind.OPERATION, len(self.tables.form_name) + len(self._forms) - 1, read_rank(line))
        if parsed.complete:
            return code
        # Not to be looked up by its line: every damaged line counts, however the log is cut into parts.
        self._extra.append((self.line_count + index + 1, code))
        return self._damage(
            index, f"operation {parsed.name.decode('utf-8', 'replace')} is cut: not all of its types are known"
        )

    def _header(self, line: bytes, index: int) -> int:
        found = _HEADER.search(line)
        if found:
            self._saw_runtime = self._saw_marker = True
            return self._add(_HEADER_KIND[found[1][:8]], 0, read_rank(line))
        if (b"Device " in line and b" memory state:" in line) or TORN.search(line):
            self._saw_marker = True
            return self._mend_or_note_damage(line, index)
        return Kind.FOREIGN

    def _runtime_message(self, line: bytes, index: int) -> int:
        if b"Always" in line or b"Runtime" in line:
            self._saw_runtime = True
        if b"LoadCachedOp" in line and (found := _LOOKUP.search(line)):
            return self._event(line, Event(What.LOOKUP, found[1].decode("utf-8", "replace"), found[2].decode()))
        if b"Cache " in line and (found := _HIT_OR_MISS.search(line)):
            what = What.HIT if found[1] == b"hit" else What.MISS
            return self._event(line, Event(what, found[2].decode("utf-8", "replace")))
        if b"Tensor is retained thus not deallocating" in line:
            return self._event(line, Event(What.RETAINED, ""))
        if found := _GRID.search(line):
            return self._event(line, Event(What.GRID, f"{int(found[1])}x{int(found[2])}"))
        if found := _MESH.search(line):
            return self._event(line, Event(What.MESH, f"{int(found[1])}x{int(found[2])}"))
        system_at = line.find(_SYSTEM)
        if system_at >= 0 and (found := _ARCHITECTURE.search(line, system_at)):
            return self._event(line, Event(What.SYSTEM, found[1].decode()))
        return self._mend_or_note_damage(line, index) if TORN.search(line) or looks_torn(line) else Kind.FOREIGN

    def _mend_or_note_damage(self, line: bytes, index: int) -> int:
        """The code of a record that can be read with the lines below it, else it counts as damaged."""
        code = self._mend(line, index)
        if code is not None:
            return code
        what, memory = describe_damage(line)
        if memory is not None:
            unread = self._unread.setdefault(memory, [])
            unread.append(self.line_count + index + 1)
        return self._damage(index, what) if what else Kind.FOREIGN

    def _mend(self, line: bytes, index: int) -> int | None:
        """The code of a damaged record of which everything is there, None of any other."""
        found = mend(line, self._lines_now[index + 1 : index + 1 + PIECES])
        if found is None:
            return None
        text, below = found
        if not below:
            return self._learn(text, index)
        self._mended_until = self.line_count + index + 1 + below
        return self._pieces([text], index)

    def _event(self, line: bytes, event: Event) -> int:
        number = self._events.setdefault(event, len(self.tables.events))
        if number == len(self.tables.events):
            self.tables.events.append(event)
        return self._add(Kind.EVENT, number, read_rank(line))

    def _damage(self, index: int, what: str) -> int:
        self._damaged_count += 1
        if len(self._damaged) < _DAMAGED_KEPT:
            self._damaged.append((self.line_count + index + 1, what))
        return Kind.FOREIGN

    # --- bulk ---------------------------------------------------------------------------------------------------

    def _insert_extra(
        self, tokens: NDArray[np.int32], positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Glued lines gave more than one token: put the further ones behind the first, in line order."""
        extra_positions = np.array([line for line, _ in self._extra], np.int64)
        extra_tokens = np.array([code for _, code in self._extra], np.int32)
        self._extra = []
        all_positions = np.concatenate([positions, extra_positions])
        order = np.argsort(all_positions, kind="stable")
        return np.concatenate([tokens, extra_tokens])[order], all_positions[order]

    def _add(self, kind: int, payload: int, rank: int) -> int:
        """A new code for a line of this meaning."""
        self._new_codes.append((kind, payload, rank))
        self._next_code += 1
        return self._next_code - 1

    def _flush(self) -> None:
        """Move what the chunk taught into the tables."""
        if self._new_codes:
            self.tables.add_codes(self._new_codes)
            self._new_codes.clear()
        if self._forms:
            self.tables.add_forms(self._forms)
            self._forms.clear()
        if self._views:
            self.tables.add_views(self._views)
            self._views.clear()
