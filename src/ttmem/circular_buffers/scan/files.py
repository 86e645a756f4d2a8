# SPDX-License-Identifier: Apache-2.0
"""Find the files of a scan and read them in parallel.

Children are started as commands and not through `multiprocessing`, so that a user's script needs no guard.
"""

import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from queue import SimpleQueue

from ttmem.base.child_process import ttmem_command
from ttmem.base.errors import BadInputError
from ttmem.base.text_files import read_bytes
from ttmem.circular_buffers.scan.cpp.functions import Helpers
from ttmem.circular_buffers.scan.model import FileScan, Skipped
from ttmem.circular_buffers.scan.scan_file import helpers_in, scan_file

SUFFIXES = frozenset({".cpp", ".cc", ".cxx", ".c", ".hpp", ".h", ".hh", ".hxx", ".inl", ".ipp"})
_HEADERS = frozenset({".hpp", ".h", ".hh", ".hxx", ".inl", ".ipp"})
_SKIPPED_FOLDERS = frozenset({".git", "build", "node_modules", "third_party", ".venv", "__pycache__"})
_BATCH = 24
_WORTH_CHILDREN = 96
DEEPEST = 6_000
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
    """Scan the files, in order."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = jobs or (min(cores, 8) if len(paths) >= _WORTH_CHILDREN else 1)
    headers = [str(path) for path in paths if path.suffix.lower() in _HEADERS]
    batches = [paths[at : at + _BATCH] for at in range(0, len(paths), _BATCH)]
    workers = min(workers, len(batches))
    found: list[FileScan] = []
    # Progress is in bytes: files differ too much in size to count them.
    sizes = [sum(map(_size, batch)) for batch in batches] if progress else []
    for scans in _here(batches, headers) if workers <= 1 else _side_by_side(batches, headers, workers):
        found += scans
        if progress:
            progress(sum(sizes[: -(-len(found) // _BATCH)]), sum(sizes))
    return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_helpers(headers: Sequence[str]) -> Helpers:
    """Functions of headers that declare buffers, by name."""
    helpers: Helpers = {}
    for header in headers:
        with suppress(BadInputError, RecursionError):
            for name, functions in helpers_in(read_bytes(Path(header)), header).items():
                helpers.setdefault(name, []).extend(functions)
    return helpers


def _here(batches: Sequence[Sequence[Path]], headers: Sequence[str]) -> Iterator[list[FileScan]]:
    """Generated code nests deeper than Python's default allows."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEPEST))
    try:
        helpers = read_helpers(headers)
        for batch in batches:
            yield [scan_file(path, str(path), helpers) for path in batch]
    finally:
        sys.setrecursionlimit(limit)


def _side_by_side(batches: Sequence[Sequence[Path]], headers: Sequence[str], workers: int) -> Iterator[list[FileScan]]:
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
                child.close()
                child.start()
                answer = [_alone(path, headers) for path in batch]
            return answer or []
        finally:
            idle.put(child)

    with ThreadPoolExecutor(workers) as pool:
        try:
            yield from pool.map(scans_of, batches)
        finally:
            is_over.set()
            for child in children:
                child.close()


def _alone(path: Path, headers: Sequence[str]) -> FileScan:
    """A batch's child died: each of its files gets a child of its own, so that one file cannot take others with it."""
    with closing(_Child(headers)) as child:
        answer = child.ask([path])
    return answer[0] if answer else FileScan(str(path), skipped=Skipped(str(path), "the reader died on it"))


class _Child:
    """A process that scans batches of files: JSON lines in, pickled lists out."""

    def __init__(self, headers: Sequence[str]) -> None:
        self._headers = headers
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            ttmem_command("ttmem.circular_buffers.scan.child"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._send(self._headers)

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
            with suppress(OSError):
                if stream is not None:
                    stream.close()
