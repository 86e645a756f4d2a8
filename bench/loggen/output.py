# SPDX-License-Identifier: Apache-2.0
"""From segments to bytes: rank tags, pytest's capture sections, prefixes, line ends, the cut."""

from __future__ import annotations

import hashlib
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import IO, Any, BinaryIO

from loggen.failures import FailureText, exception_text
from loggen.lines import ERR, MARK, OUT, PY
from loggen.options import Options

Output = tuple[int, Any]
_BUFFER_BYTES = 1 << 20
_VLLM_PREFIX = b"(EngineCore pid=57085) "


class LogWriter:
    """Writes decorated segments; knows position, line count and digest of what it wrote."""

    def __init__(self, stream: BinaryIO, options: Options) -> None:
        self._stream = stream
        self._options = options
        self._plain = not (options.crlf or options.ci_prefix or options.vllm_prefix)
        self._parts: list[bytes] = []
        self._buffered = 0
        self._digest = hashlib.sha256()
        self._at_line_start = True
        self._stamps = 0
        self.position = 0
        """Bytes produced so far, also those that a cut drops."""
        self.bytes_written = 0
        self.lines_written = 0

    def consume(self, segments: Iterable[Output]) -> None:
        for kind, payload in segments:
            if kind == MARK:
                payload(self.position)
                continue
            if not self._plain:
                payload = self._decorate(kind, payload)
            self._parts.append(payload)
            self.position += len(payload)
            self._buffered += len(payload)
            if self._buffered >= _BUFFER_BYTES:
                self._flush()
        self._flush()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def _decorate(self, kind: int, payload: bytes) -> bytes:
        o = self._options
        if o.vllm_prefix and kind == PY:
            payload = _prefix_lines(payload, _VLLM_PREFIX, at_line_start=True)
        if o.ci_prefix:
            self._stamps += 1
            seconds, fraction = divmod(self._stamps * 41_237, 10_000_000)
            stamp = (
                f"2026-05-14T{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:07d}Z "
            )
            payload = _prefix_lines(payload, stamp.encode(), at_line_start=self._at_line_start)
        self._at_line_start = payload.endswith(b"\n")
        return payload.replace(b"\n", b"\r\n") if o.crlf else payload

    def _flush(self) -> None:
        chunk = b"".join(self._parts)
        self._parts.clear()
        self._buffered = 0
        cut = self._options.cut_bytes
        if cut is not None:
            chunk = chunk[: max(0, cut - self.bytes_written)]
        self._digest.update(chunk)
        self.bytes_written += len(chunk)
        self.lines_written += chunk.count(b"\n")
        self._stream.write(chunk)


def _prefix_lines(payload: bytes, prefix: bytes, *, at_line_start: bool) -> bytes:
    complete = payload.endswith(b"\n")
    body = payload[:-1] if complete else payload
    text = body.replace(b"\n", b"\n" + prefix)
    return (prefix if at_line_start else b"") + text + (b"\n" if complete else b"")


def interleave_ranks(processes: list[Iterable[Output]], rng: Random) -> Iterator[Output]:
    """Open MPI's tagged output: whole lines of all ranks, in no particular order."""
    sources = [iter(process) for process in processes]
    waiting: list[deque[Output]] = [deque() for _ in sources]
    alive = list(range(len(sources)))
    while alive:
        rank = alive[rng.randrange(len(alive))]
        lines = waiting[rank]
        if not lines and not _refill(lines, sources[rank], rank):
            alive.remove(rank)
            continue
        for _ in range(min(len(lines), 1 + rng.randrange(4))):
            yield lines.popleft()


def _refill(lines: deque[Output], source: Iterator[Output], rank: int) -> bool:
    """The next complete lines of one rank, tagged. Long constants arrive in pieces and are joined first."""
    pieces: list[bytes] = []
    for kind, payload in source:
        if kind == MARK:
            lines.append((kind, payload))
            continue
        pieces.append(payload)
        if payload.endswith(b"\n"):
            tag = f"[1,{rank}]<{'stdout' if kind == OUT else 'stderr'}>:".encode()
            # Not splitlines: a carriage return belongs to a progress bar, not to a line's end.
            lines.extend((kind, tag + line + b"\n") for line in b"".join(pieces)[:-1].split(b"\n"))
            return True
    return bool(lines)


class PytestCapture:
    """Without -s, pytest shows stdout and stderr in two sections: dumps come after all runtime lines."""

    def __init__(self) -> None:
        self.bytes_seen = 0

    def rearrange(self, segments: Iterable[Output], failure: Callable[[], FailureText | None]) -> Iterator[Output]:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            marks: list[tuple[int, Callable[[int], None]]] = []
            for kind, payload in segments:
                if kind == MARK:
                    marks.append((out.tell(), payload))
                else:
                    (out if kind == OUT else err).write(payload)
                    self.bytes_seen += len(payload)
            final = failure()
            yield PY, _pytest_head(final)
            yield PY, b"----------------------------- Captured stdout call -----------------------------\n"
            yield from _replay(out, OUT, marks)
            yield PY, b"----------------------------- Captured stderr call -----------------------------\n"
            yield from _replay(err, ERR, [])
        verdict = b"FAILED" if final else b"PASSED"
        yield PY, b"=========================== short test summary info ============================\n"
        yield PY, verdict + b" tests/test_decoder.py::test_step\n"


def _replay(file: IO[bytes], kind: int, marks: list[tuple[int, Callable[[int], None]]]) -> Iterator[Output]:
    file.seek(0)
    for offset, callback in marks:
        while file.tell() < offset:
            yield kind, file.read(min(_BUFFER_BYTES, offset - file.tell()))
        yield MARK, callback
    while chunk := file.read(_BUFFER_BYTES):
        yield kind, chunk


def _pytest_head(failure: FailureText | None) -> bytes:
    text = (
        "platform linux -- Python 3.12.3, pytest-8.3.3, pluggy-1.5.0\n"
        "collected 1 item\n\n"
        f"tests/test_decoder.py {'F' if failure else '.'}{' ' * 51}[100%]\n\n"
    )
    if failure is None:
        text += (
            "==================================== PASSES ====================================\n"
            "__________________________________ test_step ___________________________________\n"
        )
        return text.encode()
    shown = "Fatal error\n" if failure.kind == "fatal" else exception_text(failure)
    margin = "".join(f"E       {line}\n" for line in f"RuntimeError: {shown}".splitlines())
    text += (
        "=================================== FAILURES ===================================\n"
        "__________________________________ test_step ___________________________________\n\n"
        "    def test_step():\n"
        ">       out = step(ids)\n"
        f"{margin}\n"
        "tests/test_decoder.py:42: RuntimeError\n"
    )
    return text.encode()
