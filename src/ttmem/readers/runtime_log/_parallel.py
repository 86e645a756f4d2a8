# SPDX-License-Identifier: Apache-2.0
"""Large plain logs are lexed in parts, one process each; the parts meet again before anything is put together."""

import gc
import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from ttmem.base.child_process import ttmem_command
from ttmem.readers.byte_source import Progress, TruncatedSourceError, chunks
from ttmem.readers.runtime_log._failures import FAILURE_REACH_LINES
from ttmem.readers.runtime_log._lexer import Lexer
from ttmem.readers.runtime_log._tokens import LexedLog, merge
from ttmem.readers.unpacking import PACKED_MAGIC
from ttmem.readers.wrappings import SNIFFED_BYTES, find_unwrapper

_SPLIT_FROM_BYTES = 256 << 20
_HEAD_START_BYTES = 96 << 20
"""How much this process lexes while a child is still starting and while it hands over its part."""
_BORDER = b"Executing operation: "
_BEYOND_BYTES = 1 << 20


def worth_splitting(source: str | Path, jobs: int | None) -> list[tuple[int, int]]:
    """The byte ranges to lex side by side, empty when one process is as good."""
    if str(source) == "-" or jobs == 1:
        return []
    path = Path(source)
    try:
        if not path.is_file():
            return []
        size = path.stat().st_size
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        parts = jobs or min(cores, 4, 1 + size // _SPLIT_FROM_BYTES)
        if parts < 2 or (jobs is None and size < _SPLIT_FROM_BYTES):
            return []
        with path.open("rb") as file:
            head = file.read(SNIFFED_BYTES)
            if head.startswith(PACKED_MAGIC) or find_unwrapper(head):
                return []
            own = min(size, size // parts + _HEAD_START_BYTES * (parts - 1) // parts if jobs is None else size // parts)
            wanted = (own + (size - own) * part // (parts - 1) for part in range(parts - 1))
            borders = sorted({_border_near(file, at, size) for at in wanted})
    except OSError:
        return []
    edges = [0, *(at for at in borders if 0 < at < size), size]
    ranges = [(a, b) for a, b in itertools.pairwise(edges) if b > a]
    return ranges if len(ranges) > 1 else []


def _border_near(file: BinaryIO, at: int, size: int) -> int:
    """The start of the first operation line at or after ``at``; the next line where there is none near."""
    file.seek(at)
    window = file.read(8 << 20)
    found = window.find(_BORDER, window.find(b"\n") + 1)
    start = window.rfind(b"\n", 0, found) + 1 if found >= 0 else window.find(b"\n") + 1
    return at + start if start > 0 else size


def lex_part(path: Path, start: int, end: int, progress: Progress | None = None) -> LexedLog:
    """Lex one byte range."""
    lexer = Lexer()
    with path.open("rb") as file:
        file.seek(start)
        try:
            for chunk in chunks(file, str(path), limit=end - start):
                lexer.take(chunk)
                if progress:
                    progress(start + lexer.byte_count, 0)
            log = lexer.finish()
            if lexer.failures.open:  # their text continues beyond the border
                beyond = file.read(_BEYOND_BYTES)
                rest = lexer.splitter.rest() if len(beyond) < _BEYOND_BYTES else []
                lexer.failures.go_on([*lexer.splitter.split(beyond), *rest][:FAILURE_REACH_LINES])
                lexer.failures.read_late()
        except TruncatedSourceError:  # the file shrank while it was read: what was read is used
            log = lexer.finish()
    return log


def lex_in_parallel(path: Path, ranges: list[tuple[int, int]], progress: Progress | None) -> LexedLog:
    """Lex the first range here and the others in child processes; a child that dies is done again here."""
    size = ranges[-1][1]
    children = [
        subprocess.Popen(
            ttmem_command(__name__, str(path), str(start), str(end)),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for start, end in ranges[1:]
    ]
    try:
        count = len(ranges)
        scaled = (lambda done, _total: progress(min(done * count, size), size)) if progress else None
        log = lex_part(path, *ranges[0], scaled)
        for child, (start, end) in zip(children, ranges[1:], strict=True):
            assert child.stdout is not None
            try:
                part: LexedLog = pickle.load(child.stdout)
            except (EOFError, pickle.UnpicklingError, OSError):
                part = lex_part(path, start, end)
            log = merge(log, part)
    finally:
        for child in children:
            child.kill()
            child.wait()
            if child.stdout:
                child.stdout.close()
    return log


def main(words: Sequence[str]) -> int:
    """Run a child process: lex one part and write it as a pickle."""
    gc.disable()  # see _without_garbage_collection in reader; this process ends here
    path, start, end = words
    pickle.dump(lex_part(Path(path), int(start), int(end)), sys.stdout.buffer, protocol=5)
    return 0
