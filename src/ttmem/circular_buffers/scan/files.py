# SPDX-License-Identifier: Apache-2.0
"""Which files a scan reads, and reading them side by side.

Children are started as commands and not through `multiprocessing`, so that a user's script needs no guard.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue

from ttmem._errors import BadInputError
from ttmem.circular_buffers.scan._file import helpers_in, scan_file
from ttmem.circular_buffers.scan.cpp.functions import Helpers
from ttmem.circular_buffers.scan.model import FileScan, Skipped

SUFFIXES = frozenset({".cpp", ".cc", ".cxx", ".c", ".hpp", ".h", ".hh", ".hxx", ".inl", ".ipp"})
_HEADERS = frozenset({".hpp", ".h", ".hh", ".hxx", ".inl", ".ipp"})
_SKIPPED_FOLDERS = frozenset({".git", "build", "node_modules", "third_party", ".venv", "__pycache__"})
_BATCH = 24
_WORTH_CHILDREN = 96
_DEEPEST = 6_000
Progress = Callable[[int, int], None]


def find_files(path: Path) -> list[Path]:
    """C++ sources below a folder, in a stable order; a file is taken whatever it is called."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise BadInputError(f"'{path}' does not exist", hint="give a C++ file or a folder of them")
    found = []
    for folder, names, files in os.walk(path):
        names[:] = sorted(name for name in names if name not in _SKIPPED_FOLDERS)
        found += [Path(folder, name) for name in sorted(files) if Path(name).suffix.lower() in SUFFIXES]
    if not found:
        raise BadInputError(f"no C++ file in '{path}'", hint=f"files ending in {', '.join(sorted(SUFFIXES))} are read")
    return found


def scan_files(paths: Sequence[Path], *, jobs: int | None = None, progress: Progress | None = None) -> list[FileScan]:
    """Every file, in order."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = jobs or (min(cores, 8) if len(paths) >= _WORTH_CHILDREN else 1)
    headers = [str(path) for path in paths if path.suffix.lower() in _HEADERS]
    batches = [paths[at : at + _BATCH] for at in range(0, len(paths), _BATCH)]
    meter = _Meter(batches, progress)
    if workers == 1 or len(batches) == 1:
        return _here(batches, headers, meter)
    return _side_by_side(batches, headers, min(workers, len(batches)), meter)


class _Meter:
    """Bytes read so far: files differ too much in size to count them."""

    def __init__(self, batches: Sequence[Sequence[Path]], progress: Progress | None) -> None:
        self._progress = progress
        self._sizes = [sum(map(_size, batch)) for batch in batches] if progress else []
        self._done = 0

    def finished(self, number: int) -> None:
        """A batch was read."""
        if self._progress:
            self._done += self._sizes[number]
            self._progress(self._done, sum(self._sizes))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_helpers(headers: Sequence[str]) -> Helpers:
    """Functions of headers that declare buffers, by name."""
    helpers: Helpers = {}
    for header in headers:
        try:
            found = helpers_in(Path(header).read_bytes(), header)
        except (OSError, RecursionError):
            continue
        for name, functions in found.items():
            helpers.setdefault(name, []).extend(functions)
    return helpers


def _here(batches: Sequence[Sequence[Path]], headers: Sequence[str], meter: _Meter) -> list[FileScan]:
    helpers = read_helpers(headers)
    found: list[FileScan] = []
    for number, batch in enumerate(batches):
        found += [_deeply(path, helpers) for path in batch]
        meter.finished(number)
    return found


def _deeply(path: Path, helpers: Helpers) -> FileScan:
    """Generated code nests deeper than Python's default allows."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEEPEST))
    try:
        return scan_file(path, str(path), helpers)
    finally:
        sys.setrecursionlimit(limit)


def _side_by_side(
    batches: Sequence[Sequence[Path]], headers: Sequence[str], workers: int, meter: _Meter
) -> list[FileScan]:
    """Each child takes the next batch when it has answered the last one; one that dies costs its batch a second try."""
    from concurrent.futures import ThreadPoolExecutor

    children = [_Child(headers) for _ in range(workers)]
    idle: SimpleQueue[_Child] = SimpleQueue()
    for child in children:
        idle.put(child)
    is_over = threading.Event()

    def scans_of(batch: Sequence[Path]) -> list[FileScan]:
        child = idle.get()
        try:
            answer = child.ask(batch)
            if answer is None and not is_over.is_set():  # where all is over, the child was closed
                child.restart()
                answer = [_alone(path, headers) for path in batch]
            return answer or []
        finally:
            idle.put(child)

    found: list[FileScan] = []
    with ThreadPoolExecutor(workers) as pool:
        try:
            for number, scans in enumerate(pool.map(scans_of, batches)):
                found += scans
                meter.finished(number)
        finally:
            is_over.set()
            for child in children:
                child.close()
    return found


def _alone(path: Path, headers: Sequence[str]) -> FileScan:
    """A batch's child died: each of its files gets a child of its own, so that one file cannot take others with it."""
    child = _Child(headers)
    try:
        answer = child.ask([path])
    finally:
        child.close()
    if answer:
        return answer[0]
    return FileScan(str(path), skipped=Skipped(str(path), "the reader died on it"))


class _Child:
    """A process that scans batches of files: JSON lines in, pickled lists out."""

    def __init__(self, headers: Sequence[str]) -> None:
        self._headers = headers
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ttmem.circular_buffers.scan._worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._send(self._headers)

    def restart(self) -> None:
        """A new process instead of one that died."""
        self.close()
        self._start()

    def _send(self, paths: Sequence[str]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(list(paths)).encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, batch: Sequence[Path]) -> list[FileScan] | None:
        """None when the child died on it."""
        assert self._process.stdout is not None
        try:
            self._send([str(path) for path in batch])
            answer: list[FileScan] = pickle.load(self._process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            return None
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    continue
